# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary of runs, by the variables that the playbooks leave behind."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.filter.summary import FilterModule, summary
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._summary import (
    FIRST_JOB,
    FIRST_QUEUE,
    first_job,
    needs,
    notes,
    picture,
    rows,
)
from ansible_collections.kubegpu.tenancy.tests.unit import hostvars
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import (
    BLUEPRINT,
    COMBINATION,
    GONE,
    KAI,
    ML,
    PASSED,
    REMOVED,
    WEB,
    check,
    live,
    node,
)

APPLY = "kubectl --kubeconfig ~/.kube/kubegpu/gpu1/tenants/{}.yml apply -f"


class Inventory(hostvars.Inventory):
    """The same with what the summary shows of it."""

    def rows(self):
        return rows(self.reports(), wide=True)

    def notes(self):
        """Return what stands above the table, and what stands below it with all steps."""
        return [*needs(self.reports()), *notes(self.reports(), steps=True)]

    def summary(self, **options):
        return summary(self.reports(), **options)

    def first_job(self):
        return first_job(self.reports())


def only(inventory):
    (row,) = inventory.rows()
    return row


# --- tenants as desired ------------------------------------------------------------------------------------------


def test_a_tenant_that_is_as_asked():
    inventory = Inventory().cluster()
    assert only(inventory) == {
        "tenant": "ml",
        "state": "running",
        "trust": "high",
        "vcluster": "0.36.1",
        "scheduler": "kai v0.16.8",
        "nodes": "n1",
        "GPUs": 8,
        "in use": 3,
        "leaf queues": 2,
        "checks": "3 of 3",
        "kubeconfig": "~/.kube/kubegpu/gpu1/tenants/ml.yml",
    }
    assert inventory.notes() == []


def test_the_whole_of_it():
    wanted = [ML, WEB, ML | {"name": "old", "state": "paused"}, WEB | {"name": "gone", "state": "absent"}]
    web = live("web", scheduler_version=None, results=[check("web", "failed", "no answer", None)])
    paused = live("old", state="paused", scheduler_version=None, results=[])
    inventory = Inventory().cluster(
        wanted, [live(network_policies="unenforced"), web, paused, live("gone", **GONE)], unlisted=["left"]
    )
    inventory.worked(
        "ml",
        spans=[{"work": "change", "began": 0.0, "seconds": 40.8}, {"work": "verify", "began": 41.0, "seconds": 9.0}],
    )
    inventory.worked("web", failure="Probe: no answer", parts={"checks": {"results": web["results"]}})
    found = [
        "FAILED gpu1/web: Probe: no answer",
        "web: check web failed: no answer",
        "left: made by this collection, not listed any more, stays; kubegpu_unlisted: remove takes it away.",
        "",
        "tenant  state               trust               vcluster  scheduler      nodes  GPUs  in use  checks",
        "------  ------------------  ------------------  --------  -------------  -----  ----  ------  ----------------",
        "ml      running             high, network open  0.36.1    kai v0.16.8    n1        8       3  3 of 3",
        "web     running, failed     partial             0.36.1    cluster's own            0       0  0 of 1, 1 failed",
        "old     paused, as desired  high                0.36.1    kai v0.16.8              0       0",
        "gone    absent, as desired  partial",
        "",
        "kubeconfigs: ~/.kube/kubegpu/gpu1/tenants/TENANT.yml",
        "",
        f"First job, in ml: {APPLY.format('ml')} {FIRST_JOB}",
    ]
    assert inventory.summary() == found
    head, _rule, ml = inventory.summary(wide=True)[4:7]
    assert head.endswith("leaf queues  checks            seconds  kubeconfig")
    assert ml.endswith("3 of 3                 41  ~/.kube/kubegpu/gpu1/tenants/ml.yml")


def test_a_table_fits_a_terminal_of_120_columns():
    name = "a-team-with-a-name-of-forty-characters-x"
    nodes = [node(f"ip-10-0-1-{number}.eu-central-1.compute.internal", name) for number in range(3)]
    found = live(name, scheduler_version="v0.12.0")
    inventory = Inventory().cluster([ML | {"name": name}], [found], nodes=nodes).cluster(name="gpu2")
    assert inventory.summary()[:4] == [
        "cluster  tenant                                    state    trust  vcluster  nodes  GPUs  in use  checks",
        "-------  ----------------------------------------  -------  -----  --------  -----  ----  ------  ------",
        "gpu1     a-team-with-a-name-of-forty-characters-x  running  high   0.36.1        3    24       0  3 of 3",
        "gpu2     ml                                        running  high   0.36.1        1     8       3  3 of 3",
    ]
    whole = inventory.summary(wide=True)[2]
    assert all(text in whole for text in ("ip-10-0-1-2.eu-central-1.compute.internal", "kai v0.12.0 -> v0.16.8", "0.36.1"))


def test_a_pod_that_asks_for_very_many_gpus_leaves_others_their_columns():
    """The largest amount that the API takes."""
    inventory = Inventory().cluster(nodes=[node("n1", "ml", in_use=2**63 - 1)])
    assert only(inventory)["in use"] == ">99999"


def test_a_pause_names_the_pods_that_it_ends_for_good():
    inventory = Inventory().cluster().worked(parts={"virtual cluster": {"lost_pods": ["team/train", "team/shell"]}})
    ended = "ml: pods that the pause ends for good, because no controller makes them anew: team/train, team/shell"
    assert ended in inventory.summary()


def test_steps_are_counted_where_they_are_not_asked_for():
    steps = [{"step": text, "why": "w"} for text in ("install", "wait")]
    inventory = Inventory().cluster().worked(parts={"KAI Scheduler": {"steps": steps}})
    assert "2 steps: -v and the evidence show them." in inventory.summary()
    assert [line for line in inventory.summary(steps=True) if "step" in line] == ["ml: step: install (w)", "ml: step: wait (w)"]
    assert not [line for line in Inventory().cluster().summary() if "step" in line]


def test_a_paused_tenant_is_not_verified_and_has_no_kubeconfig_to_use():
    found = live(state="paused", scheduler_version=None)
    inventory = Inventory().cluster([ML | {"state": "paused"}], [found])
    row = only(inventory)
    assert (row["state"], row["vcluster"], row["scheduler"]) == ("paused, as desired", "0.36.1", "kai v0.16.8")
    assert row.keys().isdisjoint({"checks", "kubeconfig"})
    assert inventory.notes() == []


def test_an_absent_tenant_has_nothing():
    inventory = Inventory().cluster([ML | {"state": "absent"}], [live(**GONE)], nodes=[])
    assert only(inventory) == {"tenant": "ml", "state": "absent, as desired", "trust": "high"}
    assert inventory.notes() == []


def test_an_absent_tenant_that_is_still_there():
    found = live(due=["change"], reasons=["still there: its namespace, its kubeconfig"])
    inventory = Inventory().cluster([ML | {"state": "absent"}], [found])
    row = only(inventory)
    assert (row["state"], row["vcluster"]) == ("running", "0.36.1")
    assert "checks" not in row
    assert inventory.notes() == ["ml: to be removed: still there: its namespace, its kubeconfig"]


def test_only_the_tenants_that_the_run_acts_on_have_a_row():
    inventory = Inventory().cluster([ML, WEB], [live("web")], variables={"kubegpu_only": "web"})
    assert [row["tenant"] for row in inventory.rows()] == ["web"]


def test_a_name_in_kubegpu_only_that_no_cluster_lists():
    inventory = (
        Inventory().cluster(found=[], variables={"kubegpu_only": ["lm"]}).cluster(name="gpu2", variables={"kubegpu_only": "ml"})
    )
    assert "kubegpu_only: lm is listed for no cluster of the inventory." in inventory.notes()
    assert not any("kubegpu_only: ml" in note for note in inventory.notes())


def test_a_scheduler_that_is_shared_and_one_that_is_another():
    shared = ML | {"scheduler": {"name": "kai", "shared": True}, "queues": []}
    other = {"name": "hpc", "trust": "high", "scheduler": {"name": "volcano", "version": "1.12.0", "chart": "c"}}
    found = [live(), live("hpc", scheduler_version=None)]
    inventory = Inventory().cluster([shared, other], found, variables={"kubegpu_shared_scheduler": KAI})
    assert [row["scheduler"] for row in inventory.rows()] == ["kai v0.16.8, shared", "volcano 1.12.0"]


# --- checks ------------------------------------------------------------------------------------------------------


def test_a_check_that_was_not_tried_is_named_with_its_reason():
    results = [
        *PASSED,
        check("fraction", "not_tried", "no GPU is free"),
        check("gang", "not_tried", "no GPU is free", "notebooks"),
    ]
    inventory = Inventory().cluster(found=[live(results=results, due=["verify"], reasons=["not all checks passed"])])
    assert only(inventory)["checks"] == "3 of 5, 2 not tried"
    assert inventory.notes() == [
        "ml: checks fraction in queue training, gang in queue notebooks not tried: no GPU is free",
        "ml: to be verified: not all checks passed",
    ]


def test_a_check_whose_hazard_was_accepted_is_counted_apart_and_named():
    results = [
        *PASSED,
        check("burst", "accepted", "GPU-1 is free for others (#1103)"),
        check("fraction", "not_tried", "no GPU is free"),
    ]
    inventory = Inventory().cluster(found=[live(results=results)])
    assert only(inventory)["checks"] == "3 of 5, 1 not tried, 1 accepted"
    assert "ml: check burst in queue training accepted: GPU-1 is free for others (#1103)" in inventory.notes()


def test_a_check_that_failed_is_named_though_no_record_holds_it():
    failed = [*PASSED[1:], check("gpu", "failed", "sees two GPUs")]
    inventory = Inventory().cluster(found=[live(due=["verify"], reasons=["it was verified 4000 s ago"])])
    checks = {"failed": True, "results": failed}
    inventory.worked(failure="Check what KAI Scheduler does: 1 check failed", parts={"checks": checks})
    row = only(inventory)
    assert (row["state"], row["checks"]) == ("running, failed", "2 of 3, 1 failed")
    assert inventory.notes() == [
        "FAILED gpu1/ml: Check what KAI Scheduler does: 1 check failed",
        "ml: check gpu in queue training failed: sees two GPUs",
    ]


def test_checks_from_before_a_change_that_failed_do_not_count():
    found = live(due=["change", "verify"], reasons=["something else is wanted of it than when it was verified"])
    inventory = Inventory().cluster(found=[found])
    inventory.worked(failure="Install or upgrade KAI Scheduler: timed out", parts={"KAI Scheduler": {"failed": True}})
    assert only(inventory)["checks"] == "not verified"
    # What follows from the failure is not reported beside it.
    assert inventory.notes() == ["FAILED gpu1/ml: Install or upgrade KAI Scheduler: timed out"]


def test_a_tenant_that_nobody_verified():
    inventory = Inventory().cluster(found=[live(results=[], due=["change", "verify"], reasons=["it was never verified"])])
    assert only(inventory)["checks"] == "not verified"
    assert inventory.notes() == ["ml: to be changed and verified: it was never verified"]


# --- check mode --------------------------------------------------------------------------------------------------


def test_check_mode_shows_what_would_be_made():
    found = live(**GONE | {"due": ["change", "verify"], "reasons": ["it is absent"]})
    inventory = Inventory().cluster(found=[found], nodes=[])
    # What a role registered that could not do anything.
    inventory.worked(parts={"checks": {"results": [check("gpu", "not_tried", "check mode")]}})
    row = only(inventory)
    assert (row["state"], row["vcluster"], row["scheduler"]) == ("absent", "-> 0.36.1", "kai -> v0.16.8")
    assert row["checks"] == "not verified"
    assert row.keys().isdisjoint({"GPUs", "leaf queues", "kubeconfig"})
    assert inventory.notes() == ["ml: to be made and verified: it is absent"]


def test_check_mode_never_counts_checks_of_another_release():
    found = live(
        scheduler_version="v0.12.0", vcluster_version="0.35.3", due=["change", "verify"], reasons=["something else is wanted"]
    )
    inventory = Inventory().cluster(found=[found])
    # The probe finds its own record of the release that runs.
    step = {"step": "apply the CRDs", "why": "helm never changes them"}
    release = {"hazards": ["its webhook (#104)"], "upgrade_notes": ["helm brings no CRDs (#549)"], "steps": [step]}
    inventory.worked(parts={"KAI Scheduler": release, "checks": {"recorded": True, "results": PASSED}})
    row = only(inventory)
    assert (row["vcluster"], row["scheduler"]) == ("0.35.3 -> 0.36.1", "kai v0.12.0 -> v0.16.8")
    assert row["checks"] == "not verified"
    assert inventory.notes() == [
        "ml: to be changed and verified: something else is wanted",
        "ml: hazard: its webhook (#104)",
        "ml: upgrade note: helm brings no CRDs (#549)",
        "ml: step: apply the CRDs (helm never changes them)",
    ]


@pytest.mark.parametrize("seen", [{"_kubegpu_tenants": {"changed": False, "exists": False}}, {"_kubegpu_unmade": True}])
def test_check_mode_of_a_cluster_that_is_yet_to_be_made(seen):
    inventory = Inventory().cluster(**seen)
    inventory.without("gpu1", "_kubegpu_ledger")
    row = only(inventory)
    assert (row["state"], row["vcluster"], row["checks"]) == ("no cluster yet", "-> 0.36.1", "not verified")
    assert inventory.notes() == []


# --- failures ----------------------------------------------------------------------------------------------------


def test_tenants_of_a_failed_cluster_were_not_reached():
    inventory = Inventory().cluster([ML, WEB], _kubegpu_failure="Make the cluster: no GPU").without("gpu1", "_kubegpu_ledger")
    # What an earlier play read does not count.
    assert inventory.rows() == [
        {"tenant": "ml", "state": "not reached", "trust": "high"},
        {"tenant": "web", "state": "not reached", "trust": "partial"},
    ]
    assert inventory.notes() == ["FAILED gpu1: Make the cluster: no GPU"]
    assert inventory.without("gpu1", "_kubegpu_tenants").notes() == ["FAILED gpu1: Make the cluster: no GPU"]


@pytest.mark.parametrize("seen", [{"_kubegpu_tenants": {"changed": False, "exists": False}}, {"_kubegpu_unmade": True}])
def test_a_cluster_that_failed_before_there_was_one_is_not_reached(seen):
    inventory = Inventory().cluster(_kubegpu_failure="Make the cluster: no image", **seen).without("gpu1", "_kubegpu_ledger")
    assert only(inventory)["state"] == "not reached"
    assert inventory.notes() == ["FAILED gpu1: Make the cluster: no image"]


def test_a_run_ends_with_what_was_noted_whatever_part_of_it_was_asked_for():
    """Without the tag summary nothing is handed over, and it is not known who has which GPUs; that is no failure."""
    part = Inventory().cluster([ML, WEB], _kubegpu_shared_failure="y").worked("web", failure="x")
    part.without("gpu1", "_kubegpu_ledger", "_kubegpu_tenants")
    assert part.reports()[0]["noted"] == ["gpu1: y", "gpu1/web: x"]
    failed = Inventory().cluster(_kubegpu_failure="Make the cluster: no GPU").without("gpu1", "_kubegpu_ledger")
    assert failed.reports()[0]["noted"] == failed.reports()[0]["failures"] == ["gpu1: Make the cluster: no GPU"]
    assert Inventory().cluster().without("gpu1", "_kubegpu_ledger").reports()[0]["noted"] == []


def test_a_desired_state_that_was_refused_is_reported_once():
    inventory = Inventory().cluster(
        _kubegpu_plan={"failed": True, "msg": "2 problems in the desired state:\nkubegpu_a: x\nkubegpu_b: y"}
    )
    inventory.without("gpu1", "_kubegpu", "_kubegpu_tenants", "_kubegpu_ledger")
    assert inventory.summary() == ["FAILED gpu1: 2 problems in the desired state:\n  kubegpu_a: x\n  kubegpu_b: y"]


@pytest.mark.parametrize(
    "variables", [("_kubegpu_tenants", "_kubegpu_ledger"), ("_kubegpu_ledger",), ("_kubegpu", "_kubegpu_plan", "_kubegpu_ledger")]
)
def test_a_host_that_dropped_out_of_the_run(variables):
    inventory = Inventory().cluster().without("gpu1", *variables)
    assert inventory.notes() == ["FAILED gpu1: it was not reached, see the output above"]
    assert all(row["state"] == "not reached" for row in inventory.rows())


def test_failures_of_a_cluster_and_of_its_tenants_are_its_own():
    inventory = Inventory().cluster().cluster(name="gpu2")
    inventory.worked(failure="a").worked("left", "gpu2", REMOVED, failure="b")
    assert [report["failures"] for report in inventory.reports()] == [["gpu1/ml: a"], ["gpu2/left: b"]]


# --- several clusters, and what is not listed --------------------------------------------------------------------


def test_until_when_tenants_are_there_that_were_made_for_a_while():
    inventory = Inventory().cluster()
    inventory.hostvars["gpu1"]["_kubegpu_tenants"]["temporary"] = [
        {"name": "ci-1", "expires": "2026-11-23T14:00:00Z", "expired": False},
        {"name": "ci-2", "expires": "2026-11-23T10:00:00Z", "expired": True},
    ]
    assert inventory.notes() == [
        "ci-1: temporary, expires at 2026-11-23T14:00:00Z.",
        "ci-2: expired at 2026-11-23T10:00:00Z; kubegpu.tenancy.expire removes it.",
    ]


def test_the_blueprint_and_what_of_versions_is_not_listed_upstream():
    about = {"blueprint": BLUEPRINT, "combinations": {"accepted": ["a"], "untested": [COMBINATION]}}
    inventory = Inventory().cluster()
    inventory.hostvars["gpu1"]["_kubegpu"] |= about
    said = "blueprint gpu-host-2026-11-23, sha256:5d5d5d5d5d5d"
    first = [f"{said}, overridden by the inventory: ml.scheduler.version", "accepted combination: a"]
    assert inventory.notes() == [*first, f"untested combination: {COMBINATION}"]
    inventory.cluster(name="gpu2")
    inventory.hostvars["gpu2"]["_kubegpu"] |= {"blueprint": BLUEPRINT | {"overridden": []}}
    assert [line for line in inventory.notes() if "blueprint" in line] == [f"gpu1: {first[0]}", f"gpu2: {said}"]


def test_several_clusters():
    inventory = (
        Inventory().cluster().cluster(name="gpu2", unlisted=["left"], _kubegpu_failure="x").without("gpu2", "_kubegpu_ledger")
    )
    inventory.hostvars["gpu1"]["_kubegpu_ledger"]["overlaps"] = ["node n1 has 8 GPUs, and its pods hold 9"]
    assert [(row["cluster"], row["tenant"], row["state"], row["GPUs"]) for row in inventory.rows()] == [
        ("gpu1", "ml", "running", 8),
        ("gpu2", "ml", "not reached", ""),
    ]
    assert inventory.notes() == [
        "FAILED gpu2: x",
        "gpu1: node n1 has 8 GPUs, and its pods hold 9",
        "gpu2/left: made by this collection, not listed any more, stays; kubegpu_unlisted: remove takes it away.",
    ]


def test_who_has_which_gpus_of_several_clusters():
    nodes = [node("n1", "ml", gpus=[{"ml": 1.0}, {}]), node("n2", gpus=[{}, {}]), node("n3", gpus=[{}, {}]), node("n4")]
    inventory = Inventory().cluster(nodes=nodes).cluster(name="gpu2", nodes=[node("n1", "ml", gpus=[{"ml": 0.5}])])
    shown = ["gpu1/n1 [ml] [free]", "gpu1/n2, gpu1/n3 [free] [free]", "gpu2/n1 [ml 0.5]"]
    assert inventory.summary()[4:-5] == ["", *shown]
    del inventory.clusters[1]
    assert inventory.summary()[3:-4] == ["", "n1 [ml] [free]", "n2, n3 [free] [free]"]


def test_many_gpus_of_a_node_are_counted_by_what_they_look_like():
    def line(gpus):
        return picture([{"cluster": "c", "nodes": [{"node": "n1", "gpus": gpus}]}])[0]

    assert line([{"a": 1.0}] * 32) == f"n1 {' '.join(['[a]'] * 32)}"
    assert line([{"a": 1.0}] * 3 + [{}] * 997) == "n1 997 x [free], 3 x [a]"
    shares = [{"a": number / 100} for number in range(1, 41)]
    assert line(shares).endswith("1 x [a 0.31], 1 x [a 0.32], 8 others")


def test_a_cluster_without_tenants():
    empty = Inventory().cluster([], [], nodes=[])
    assert empty.summary() == ["No tenants are listed."]
    empty = Inventory().cluster([], [], nodes=[node("n1", gpus=[{}])])
    assert empty.summary() == ["No tenants are listed.", "", "n1 [free]"]
    assert Inventory().cluster([], [], unlisted=["left"]).summary() == [
        "left: made by this collection, not listed any more, stays; kubegpu_unlisted: remove takes it away."
    ]


def test_what_is_not_listed_any_more():
    inventory = Inventory().cluster(unlisted=["a", "b"], shared="v0.16.8")
    assert inventory.notes() == [
        "a: made by this collection, not listed any more, stays; kubegpu_unlisted: remove takes it away.",
        "b: made by this collection, not listed any more, stays; kubegpu_unlisted: remove takes it away.",
        (
            "shared scheduler: kai v0.16.8, made by this collection, named by no kubegpu_shared_scheduler any more, stays; "
            "kubegpu_unlisted: remove takes it away."
        ),
    ]
    removing = Inventory().cluster(unlisted=["a"], variables={"kubegpu_unlisted": "remove"})
    assert removing.notes() == ["a: made by this collection, not listed any more, is to be removed."]
    wanted = Inventory().cluster(shared="v0.16.8", variables={"kubegpu_shared_scheduler": KAI})
    assert wanted.notes() == []


# --- the first job -----------------------------------------------------------------------------------------------


def test_the_first_job_of_the_first_tenant_that_kai_scheduler_gives_gpus():
    tenants = [WEB, ML | {"name": "old", "state": "paused"}, ML, ML | {"name": "b"}]
    found = [live("web", scheduler_version=None), live("old", state="paused"), live(), live("b")]
    inventory = Inventory().cluster(tenants, found).cluster(name="gpu2")
    assert inventory.first_job() == [f"First job, in ml: {APPLY.format('ml')} {FIRST_JOB}"]
    assert inventory.summary()[-2:] == ["", *inventory.first_job()]


def test_the_first_job_is_in_a_queue_that_the_tenant_has():
    queues = [{"name": "research", "children": [{"name": "vision"}, {"name": "language"}]}]
    inventory = Inventory().cluster([ML | {"queues": queues}])
    changed = f"sed 's/queue: {FIRST_QUEUE}/queue: vision/' {FIRST_JOB}"
    assert inventory.first_job() == [f"First job, in ml: {changed} | {APPLY.format('ml')} -"]
    # That changes the label, and nothing else.
    assert FIRST_JOB.read_text().count(f"queue: {FIRST_QUEUE}") == 1
    (job,) = yaml.safe_load_all(FIRST_JOB.read_text())
    assert job["spec"]["template"]["metadata"]["labels"]["kai.scheduler/queue"] == FIRST_QUEUE


def test_a_tenant_that_shares_a_scheduler_has_a_first_job_too():
    assert shared_by().first_job() == [
        f"First job, in ml: sed 's/queue: {FIRST_QUEUE}/queue: a/' {FIRST_JOB} | {APPLY.format('ml')} -"
    ]


@pytest.mark.parametrize(
    "inventory",
    [
        Inventory().cluster([WEB], [live("web", scheduler_version=None)]),
        Inventory().cluster([ML | {"queues": []}]),
        Inventory().cluster(nodes=[]),
        Inventory().cluster(found=[live(state="crashing")]),
        Inventory().cluster([ML | {"state": "absent"}], [live(due=["change"], reasons=["still there: its namespace"])]),
        Inventory().cluster().worked(failure="Install or upgrade KAI Scheduler: timed out"),
        Inventory().cluster(_kubegpu_failure="Make the cluster: no GPU").without("gpu1", "_kubegpu_ledger"),
    ],
    ids=["none-with-kai", "no-queues", "no-gpus", "crashing", "leaving", "failed", "not-reached"],
)
def test_no_first_job_where_it_would_not_run(inventory):
    assert inventory.first_job() == []


# --- hazards, upgrade notes and steps ----------------------------------------------------------------------------


def test_a_hazard_of_several_tenants_is_told_once():
    release = {"hazards": ["its webhook (#104)"], "steps": [{"step": "install", "why": "it is absent", "seconds": 3.2}]}
    inventory = Inventory().cluster([ML, ML | {"name": "b"}], _kai_scheduler_release=release)
    inventory.worked("ml", parts={"KAI Scheduler": release}).worked("b", parts={"KAI Scheduler": release | {"steps": []}})
    assert inventory.notes() == [
        "ml, b, shared scheduler: hazard: its webhook (#104)",
        "ml: step: install (it is absent, 3.2 s)",
        "shared scheduler: step: install (it is absent, 3.2 s)",
    ]


def test_what_was_accepted_stands_there_whether_or_not_a_role_ran():
    race, ended = (
        "#1103: when pods that share GPUs",
        "end-of-support: upstream has corrected nothing in it since the end of 2026-03",
    )
    old = {"name": "kai", "version": "v0.13.1", "gpu_sharing": True, "accept_hazards": ["#1103", "#1673", "end-of-support"]}
    tenants = [ML | {"scheduler": old}, ML | {"name": "b", "scheduler": {"name": "kai", "version": "v0.13.1"}}]
    found = [live("ml", scheduler_version="v0.13.1"), live("b", scheduler_version="v0.13.1")]
    inventory = Inventory().cluster(tenants, found, variables={"kubegpu_shared_scheduler": old})
    told = [
        (f"ml, shared scheduler: accepted hazard: {race}", True),
        ("ml, shared scheduler: accepted hazard: #1673: two reservation pods", True),
        (f"ml, shared scheduler: accepted hazard: {ended}", True),
        (f"b: hazard: {ended}", True),
    ]
    assert [(start, line.startswith(start)) for line, (start, _so) in zip(inventory.notes(), told, strict=True)] == told
    # A role returns all hazards of the release: the hazards that touch nothing are told as well, and none twice.
    hazards = [*(line.partition(": accepted hazard: ")[2] for line in inventory.notes()[:3]), "#9: something else"]
    inventory.worked(parts={"KAI Scheduler": {"hazards": hazards}})
    assert inventory.notes()[3:] == ["ml: hazard: #9: something else", f"b: hazard: {ended}"]


def test_steps_stand_in_the_order_in_which_they_were_taken():
    texts = ("start the control plane", "let the change through", "apply the CRDs", "update queue training")
    steps = [{"step": text, "why": "w"} for text in texts]
    inventory = Inventory().cluster()
    inventory.worked(
        parts={
            "virtual cluster": {"steps": steps[:1]},
            "kubeconfig": {"steps": [{"step": "write it", "why": "w"}]},
            "rehearsal": {"steps": steps[1:2]},
            "KAI Scheduler": {"steps": steps[2:3]},
            "queues": {"steps": steps[3:]},
        }
    )
    assert inventory.notes() == [f"ml: step: {text} (w)" for text in texts]


def test_when_the_checks_were_made_that_this_run_did_not_make():
    found = [live(name, verified_at=f"2026-11-2{day}T10:00:00Z") for day, name in enumerate(("ml", "b", "c", "d"))]
    found[3]["results"] = []
    inventory = Inventory().cluster([ML, *(ML | {"name": name} for name in "bcd")], found)
    inventory.worked(parts={"checks": {"results": PASSED}})
    assert inventory.notes() == ["checks of b, c are from before this run: 2026-11-21T10:00:00Z to 2026-11-22T10:00:00Z"]
    inventory.worked("b", parts={"checks": {"results": PASSED}})
    assert inventory.notes() == ["checks of c are from before this run: 2026-11-22T10:00:00Z"]


def test_a_role_that_did_not_run_says_nothing():
    assert Inventory().cluster(_kai_scheduler_release={"skipped": True, "hazards": ["x"]}).notes() == []


def test_the_filters():
    inventory = Inventory().cluster()
    filters = FilterModule().filters()
    assert filters["summary"](filters["reports"](inventory.hostvars, inventory.clusters))[2].startswith("ml ")


# --- the scheduler that tenants share ----------------------------------------------------------------------------


def shared_by(**variables):
    sharing = ML | {"scheduler": {"name": "kai", "shared": True}, "queues": [{"name": "a"}, {"name": "b"}]}
    return Inventory().cluster([sharing], variables={"kubegpu_shared_scheduler": KAI}, **variables)


def test_the_checks_of_the_shared_scheduler():
    results = [check("gpu", queue="a"), check("gang", "not_tried", "no free GPU", queue="b")]
    notes_of = shared_by(_kai_scheduler_probe={"results": results}).notes()
    assert notes_of == [
        "shared scheduler: check gang in queue b not tried: no free GPU",
        "shared scheduler: kai v0.16.8, 2 leaf queues of its tenants, checks 1 of 2, 1 not tried",
    ]
    assert shared_by().notes() == []


def test_a_shared_scheduler_that_fails_its_checks_hides_no_tenant():
    failure = "Check what KAI Scheduler does: 1 of 1 checks failed."
    probe = {"failed": True, "results": [check("gpu", "failed", "it sees 8 GPUs", queue="a")]}
    inventory = shared_by(_kubegpu_shared_failure=failure, _kai_scheduler_probe=probe)
    assert only(inventory)["state"] == "running"
    assert inventory.notes()[:2] == [
        f"FAILED gpu1: {failure}",
        "shared scheduler: check gpu in queue a failed: it sees 8 GPUs",
    ]


def test_a_failure_of_what_the_shared_scheduler_gives_a_tenant_stands_beside_its_page():
    page = {"results": [check("page", queue="")]}
    given = {"failed": True, "results": [check("gpu", "failed", "pod gpu-1 sees 8 GPUs", queue="a")]}
    inventory = shared_by().worked(failure="x", parts={"checks": page, "checks of what is shared": given})
    assert only(inventory)["checks"] == "1 of 2, 1 failed"
    assert "ml: check gpu in queue a failed: pod gpu-1 sees 8 GPUs" in inventory.notes()


def test_a_service_that_the_network_of_a_tenant_does_not_let_through():
    page, network = (
        {"results": [check("page", queue="")]},
        {"failed": True, "results": [check("egress registry", "failed", "x", "")]},
    )
    inventory = Inventory().cluster().worked(failure="x", parts={"checks": page, "checks of the network": network})
    assert only(inventory)["checks"] == "1 of 2, 1 failed"
    assert "ml: check egress registry failed: x" in inventory.notes()


def test_a_repair_says_whose_change_it_took_back():
    def taken_back(what, before, after, by):
        diff = {"before": {what: before}, "after": {what: after}, "written": {what: {"since": "2026-11-24T10:02:00Z", "by": by}}}
        return {"changed": True, "diff": diff}

    inventory = Inventory().cluster(_kubegpu_nodes=taken_back("w1", ["gone"], [], "kubectl-label"))
    inventory.worked(
        parts={
            # What the inventory has otherwise since, and what names no writer, is no repair.
            "virtual cluster": taken_back("trust", "high", "zero", "kubegpu.tenancy"),
            "kubeconfig": taken_back("mode", "0644", "0600", "owner root"),
            "KAI Scheduler": taken_back("version", "v0.12.0", "v0.16.8", "Helm, revision 3"),
            "queues": taken_back("training", {"gpu.limit": 8}, {"gpu.limit": 4}, "kubectl-edit"),
        }
    )
    assert [line for line in inventory.notes() if "repair" in line] == [
        'ml: repair: queues, training: {"gpu.limit": 8}, wanted {"gpu.limit": 4} (since 2026-11-24T10:02:00Z, by kubectl-edit)',
        'repair: nodes of tenants, w1: ["gone"], wanted [] (since 2026-11-24T10:02:00Z, by kubectl-label)',
    ]


def test_what_stops_every_pod_of_a_tenant_is_said_of_the_tenant():
    hazard = "#104: its pod webhook stops every pod of the cluster while it does not answer"
    inventory = (
        Inventory().cluster(_kai_scheduler_release={"hazards": [hazard]}).worked(parts={"KAI Scheduler": {"hazards": [hazard]}})
    )
    assert inventory.notes() == [
        "ml: hazard: #104: its pod webhook stops every pod of this tenant's cluster while it does not answer",
        f"shared scheduler: hazard: {hazard}",
    ]
