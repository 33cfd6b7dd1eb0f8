# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._work import preview, work

KAI = {"name": "kai", "version": "v0.13.1", "shared": False}


def tenant(name, *due, wanted="present", state="running", scheduler=()):
    """Return a record as tenancy_info returns it."""
    versions = {"version": "0.36.1", "kubernetes_version": None}
    desired = {"name": name, "state": wanted, "scheduler": dict(scheduler), "vcluster": versions}
    return {
        "name": name,
        "desired": desired,
        "state": state,
        "due": list(due),
        "reasons": ["x"] if due else [],
        "wanted": f"d-{name}",
        "vcluster_version": "0.36.1",
        "kubernetes_version": "v1.35.4",
    }


FOUND = {
    "tenants": [
        tenant("ml", "change", "verify", scheduler=KAI),
        tenant("web", "verify"),
        tenant("done"),
        tenant("rest", "change", wanted="paused"),
        tenant("never", "change", wanted="paused", state="absent"),
        tenant("old", "change", wanted="absent"),
    ],
    "unlisted": ["left"],
}


def names(todo):
    return [one["name"] for one in todo["tenants"]]


def test_what_differs_is_worked_on():
    todo = work(FOUND)
    assert names(todo) == ["ml", "web", "rest"]
    assert todo["due"] == {"ml": ["change", "verify"], "web": ["change", "verify"], "rest": ["change"]}
    assert todo["wanted"] == {"ml": "d-ml", "web": "d-web", "rest": "d-rest"}
    assert todo["removed"] == ["old"]
    assert todo["reasons"] == ["ml: x", "web: x", "rest: x", "old: x"]
    assert work(FOUND, "site", True)["removed"] == ["old", "left"]


@pytest.mark.parametrize(
    ("running", "state", "due", "upgraded"),
    [
        (("0.35.3", "v1.35.4"), "running", ["change"], True),
        (("0.36.1", "v1.34.0"), "running", ["change"], True),
        (("0.36.1", "v1.35.4"), "running", ["change"], False),
        (("0.35.3", "v1.35.4"), "running", ["verify"], False),
        (("0.35.3", "v1.35.4"), "paused", ["change"], False),
        ((None, None), "absent", ["change"], False),
    ],
)
def test_which_tenants_get_another_version(running, state, due, upgraded):
    one = tenant("ml", *due, state=state)
    one |= dict(zip(("vcluster_version", "kubernetes_version"), running))
    one["desired"]["vcluster"] = {"version": "0.36.1", "kubernetes_version": "v1.35.4"}
    found = {"tenants": [one], "unlisted": []}
    assert work(found)["upgraded"] == (["ml"] if upgraded else [])
    assert work(found, "drift")["upgraded"] == []


def test_drift_looks_at_all_of_them():
    todo = work(FOUND, "drift")
    assert names(todo) == ["ml", "web", "done", "rest"]
    assert set(map(tuple, todo["due"].values())) == {("change",)}


def test_verify_verifies_all_that_run_and_records_nothing_of_what_differs():
    todo = work(FOUND, "verify", True)
    assert names(todo) == ["ml", "web", "done"]
    assert set(map(tuple, todo["due"].values())) == {("verify",)}
    assert (todo["wanted"], todo["removed"]) == ({"web": "d-web", "done": "d-done"}, ["left"])


@pytest.mark.parametrize("found", [{}, {"skipped": True}])
def test_without_a_cluster_there_is_nothing_to_do(found):
    assert work(found) == {"removed": [], "upgraded": [], "tenants": [], "due": {}, "wanted": {}, "reasons": []}
    assert preview(found)["tenants"] == []


def test_a_preview_tries_what_differs_and_another_release():
    assert names(preview(FOUND)) == ["ml", "rest"]
    assert preview(FOUND)["due"] == {"ml": ["change"], "rest": ["change"]}
    other = preview(
        {"tenants": [tenant("ml", scheduler=KAI), tenant("web"), tenant("v", scheduler=KAI | {"shared": True})]}, "v0.16.8"
    )
    assert [(one["name"], one["scheduler"]["version"]) for one in other["tenants"]] == [("ml", "v0.16.8")]
