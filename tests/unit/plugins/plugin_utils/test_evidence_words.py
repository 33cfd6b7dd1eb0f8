# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the evidence of a run comes to in a few words."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._drift import drift
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_words import changes, figures, needs, verdict
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import (
    AT,
    KAI,
    ML,
    PASSED,
    WEB,
    Inventory,
    check,
    drifted,
    live,
    node,
    two_clusters,
)

DUE = live(due=["verify"], reasons=["it was never verified"])
UNREACHED = Inventory().cluster(_kubegpu_failure="Make the cluster: no GPU").without("gpu1", "_kubegpu_ledger")
SHARING = ML | {"scheduler": {"name": "kai", "shared": True}, "queues": [{"name": "a"}]}
BROKEN = {"results": [check("gpu", "failed", "x", queue="a")]}
SHARED = Inventory().cluster([SHARING], variables={"kubegpu_shared_scheduler": KAI}, _kai_scheduler_probe=BROKEN)


def made(inventory):
    return evidence(inventory.reports(), AT)


def of_drift(inventory):
    return evidence(inventory.reports(), AT, "", "drift", drift(inventory.hostvars, inventory.clusters))


# --- the verdict -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inventory", "said"),
    [
        (Inventory().cluster(), "Tenant ml is in the desired state and all 3 checks passed."),
        (Inventory().cluster([ML, WEB]), "All 2 tenants are in the desired state and all 6 checks passed."),
        (
            Inventory().cluster(found=[live(results=[*PASSED, check("burst", "accepted")])]),
            "Tenant ml is in the desired state and 3 of 4 checks passed.",
        ),
        (
            Inventory().cluster([ML | {"state": "paused"}], [live(state="paused", results=[])]),
            "Tenant ml is in the desired state.",
        ),
        (Inventory().cluster([], []), "The inventory lists no tenants."),
        (Inventory().cluster(found=[DUE]), "No tenant is in the desired state: tenant ml is not finished."),
        (
            Inventory().cluster([ML, WEB]).worked("web", failure="x"),
            "1 of 2 tenants are in the desired state: tenant web failed.",
        ),
        (UNREACHED, "No tenant is in the desired state: cluster gpu1 failed and tenant ml was not reached."),
        (SHARED, "Tenant ml is in the desired state, but the shared scheduler of cluster gpu1 failed its checks."),
    ],
)
def test_a_verdict_is_one_sentence(inventory, said):
    assert verdict(made(inventory)) == said


def test_a_verdict_counts_names_that_are_many():
    names = ["a", "b", "c", "d"]
    inventory = Inventory().cluster([ML | {"name": name} for name in names])
    for name in names[:3]:
        inventory.worked(name, failure="x")
    assert verdict(made(inventory)) == "1 of 4 tenants are in the desired state: 3 tenants failed."


def test_a_verdict_of_clusters_that_refused_everything():
    refused = Inventory().cluster(_kubegpu_plan={"failed": True, "msg": "no"})
    refused.without("gpu1", "_kubegpu", "_kubegpu_tenants", "_kubegpu_ledger")
    assert verdict(made(refused)) == "Cluster gpu1 failed."


@pytest.mark.parametrize(
    ("inventory", "said"),
    [
        (Inventory().cluster(), "Tenant ml is as the inventory says and all 3 checks passed."),
        (Inventory().cluster(unlisted=["old"]), "Tenant ml is as the inventory says, but gpu1 differs."),
        (
            drifted(),
            "4 of 6 tenants are as the inventory says: tenant gpu1/research could not be compared and 3 places differ.",
        ),
    ],
)
def test_a_verdict_of_drift(inventory, said):
    assert verdict(of_drift(inventory)) == said


# --- figures, and what needs a person ----------------------------------------------------------------------------


def test_there_are_six_figures():
    assert [(one.name, one.value, one.about, one.css) for one in figures(made(two_clusters()))] == [
        ("Tenants", "6", "5 running, 1 paused", ""),
        ("GPUs promised", "24", "of 24 GPUs", ""),
        ("GPUs held", "7", "29% of the GPUs", ""),
        ("GPUs idle", "17", "71% of the GPUs", ""),
        ("Checks passed", "6 of 9", "1 accepted, 1 failed, 1 not tried", "failed"),
        ("Need a person", "5", "2 failed, 1 to do, 1 overlap, 1 not listed", "failed"),
    ]


def test_figures_of_what_is_not_there_or_was_not_read():
    nothing = Inventory().cluster([], [], nodes=[])
    assert [(one.value, one.about) for one in figures(made(nothing))][1:] == [
        ("0", "of 0 GPUs"),
        *[("0", "there are no GPUs")] * 2,
        ("0", "none was made"),
        ("0", "nothing to do"),
    ]
    half = Inventory().cluster().cluster(name="gpu2", _kubegpu_failure="x").without("gpu2", "_kubegpu_ledger")
    assert [one.about for one in figures(made(half))][1] == "of 8 GPUs; 1 cluster not read"
    assert [one.value for one in figures(made(UNREACHED))][1:4] == ["?", "?", "?"]


def test_a_node_whose_pods_hold_more_than_there_is_has_nothing_idle():
    nodes = [node("n1", "ml", allocatable=2, in_use=3), node("n2", allocatable=2)]
    assert [one.value for one in figures(made(Inventory().cluster(nodes=nodes)))][1:4] == ["2", "3", "2"]


def test_what_needs_a_person_begins_with_failures():
    found = needs(made(two_clusters()))
    assert [need.kind for need in found] == ["failed", "failed", "to do", "overlap", "not listed"]
    assert found[3].text == "gpu1: pod default/old of no tenant holds 1 GPUs of node gpu1-worker2, which is research's"
    assert needs(made(Inventory().cluster())) == []


def test_what_differs_needs_a_person_and_is_said_once():
    found = needs(of_drift(drifted()))
    assert [need.kind for need in found] == ["failed", *["differs"] * 6, "overlap"]
    assert "gpu1/ml: KAI Scheduler, version: v0.13.1, wanted v0.14.7" in [need.text for need in found]


# --- what changed ------------------------------------------------------------------------------------------------


def test_changes_are_words_with_those_that_came_and_went_first_and_digests_last():
    def row(what, before, after):
        return {"where": "gpu1/ml", "what": what, "before": before, "after": after}

    rows = [
        row("what is asked", "digest a", "digest b"),
        row("image x", "sha256:a", "sha256:b"),
        row("image y", None, "sha256:b"),
        row("image z", "sha256:a", None),
        row("vCluster", "0.35.3", "0.36.1"),
        row("queue a", None, "priority 100"),
        row("state", "running", "paused"),
        row("state", None, "running"),
        row("state", "running", None),
    ]
    assert [said for _where, said in changes(rows)] == [
        "running → paused",
        "is new: running",
        "is gone, was running",
        "vCluster: 0.35.3 → 0.36.1",
        "queue a: none → priority 100",
        "the inventory asks for something else",
        "image x has another digest",
        "image y is new",
        "image z runs no more",
    ]
