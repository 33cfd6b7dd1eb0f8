# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._work import preview, work

KAI = {"name": "kai", "version": "v0.13.1", "shared": False}


def tenant(name, *due, wanted="present", state="running", scheduler=()):
    """Return a record as tenancy_info returns it."""
    desired = {"name": name, "state": wanted, "scheduler": dict(scheduler)}
    return {
        "name": name,
        "desired": desired,
        "state": state,
        "due": list(due),
        "reasons": ["x"] if due else [],
        "wanted": f"d-{name}",
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
    assert todo["due"] == {"ml": ["change", "verify"], "web": ["verify"], "rest": ["change"]}
    assert todo["wanted"] == {"ml": "d-ml", "web": "d-web", "rest": "d-rest"}
    assert todo["removed"] == ["old"]
    assert todo["reasons"] == ["ml: x", "web: x", "rest: x", "old: x"]
    assert work(FOUND, "site", True)["removed"] == ["old", "left"]


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
    assert work(found) == {"removed": [], "tenants": [], "due": {}, "wanted": {}, "reasons": []}
    assert preview(found)["tenants"] == []


def test_a_preview_tries_what_differs_and_another_release():
    assert names(preview(FOUND)) == ["ml", "rest"]
    assert preview(FOUND)["due"] == {"ml": ["change"], "rest": ["change"]}
    other = preview(
        {"tenants": [tenant("ml", scheduler=KAI), tenant("web"), tenant("v", scheduler=KAI | {"shared": True})]}, "v0.16.8"
    )
    assert [(one["name"], one["scheduler"]["version"]) for one in other["tenants"]] == [("ml", "v0.16.8")]
