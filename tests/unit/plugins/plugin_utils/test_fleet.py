# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet import merged, summary
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet_files import pages, state
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet_page import page
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import (
    AT,
    MADE,
    ML,
    PASSED,
    Inventory,
    held,
    live,
    node,
    queue,
    two_clusters,
)
from ansible_collections.kubegpu.tenancy.tests.unit.pages import Page
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

ROOT = Path(__file__).parents[4]
SCHEMA = json.loads((ROOT / "docs/fleet.schema.json").read_text())
NOW = "2026-11-28T12:00:00Z"
# As in the manual.
MOST_BYTES, MOST_SECONDS = 5_000_000, 5


def run(*clusters, at, name="site", problems=(), pending=(), only=(), nodes=True, tenants=("ml",), release="v0.16.8"):
    """Return the evidence of a run, with as much in it as counts for a fleet."""
    scheduler = {
        "name": "kai",
        "shared": False,
        "wanted": release,
        "running": release,
        "end_of_support": "2027-03",
        "supported": True,
    }
    found = [
        {
            "name": cluster,
            "nodes": [{"tenants": list(tenants), "allocatable": 8, "in_use": 3}] if nodes else None,
            "blueprint": None,
            "shared_scheduler": None,
            "overlaps": [],
            "unlisted": [],
            "only": list(only),
            "tenants": [
                {"name": tenant, "state": "running", "vcluster": {"running": "0.36.1"}, "scheduler": scheduler}
                for tenant in tenants
            ],
        }
        for cluster in clusters
    ]
    lines = {"problems": list(problems), "pending": list(pending)}
    return lines | {"format": 2, "run": name, "at": f"2026-11-28T{at}:00Z", "clusters": found}


def fleet(*runs, clusters=None):
    found = merged([summary(one, f"run-{number}") for number, one in enumerate(runs)], NOW, clusters)
    jsonschema.validate(found, SCHEMA)
    return {one["name"]: one for one in found["clusters"]}


def test_each_cluster_is_as_its_newest_evidence_says():
    whole = run("gpu1", "gpu2", at="08:00", release="v0.14.7", problems=["gpu2/ml: check gpu failed: no GPU"])
    # Of a run with --limit, the other cluster is not in it.
    limited = run("gpu1", at="09:00")
    found = fleet(limited, whole)
    assert [(one["result"], one["at"], one["place"]) for one in found.values()] == [
        ("passed", "2026-11-28T09:00:00Z", "run-0"),
        ("failed", "2026-11-28T08:00:00Z", "run-1"),
    ]
    assert [one["tenants"][0]["scheduler"]["release"] for one in found.values()] == ["v0.16.8", "v0.14.7"]
    assert [len(one["trend"]) for one in found.values()] == [2, 1]
    assert found["gpu1"]["gpus"] == {"promised": 8, "held": 3, "idle": 5}


def test_a_run_on_some_tenants_says_nothing_of_the_others():
    before = run(
        "gpu1", at="08:00", tenants=("ml", "web"), problems=["gpu1/ml: timed out", "gpu1/web: timed out"], release="v0.14.7"
    )
    found = fleet(before, run("gpu1", at="09:00", only=["ml"]))["gpu1"]
    assert (found["result"], found["waits"]) == ("incomplete", ["gpu1/web: timed out"])
    assert {one["name"]: (one["at"][11:16], one["scheduler"]["release"]) for one in found["tenants"]} == {
        "ml": ("09:00", "v0.16.8"),
        "web": ("08:00", "v0.14.7"),
    }
    # A whole run does, and tenants that it does not know are gone.
    whole = fleet(before, run("gpu1", at="09:00"))["gpu1"]
    assert (whole["result"], [one["name"] for one in whole["tenants"]]) == ("passed", ["ml"])


def test_what_differs_holds_until_site_has_run_and_what_failed_until_that_was_tried_again():
    differs = run("gpu1", at="09:00", name="drift", pending=["gpu1/ml: queues, a: 1, wanted 2"])
    failed = run("gpu1", at="08:00", problems=["gpu1/ml: check gpu failed: no GPU"])
    found = fleet(failed, differs)["gpu1"]
    assert (found["differs"], found["waits"]) == (differs["pending"], failed["problems"])
    found = fleet(failed, differs, run("gpu1", at="10:00", name="verify"))["gpu1"]
    assert (found["result"], found["differs"], found["waits"]) == ("differs", differs["pending"], [])
    found = fleet(failed, differs, run("gpu1", at="10:00"))["gpu1"]
    assert (found["result"], found["differs"], found["waits"]) == ("passed", [], [])
    # A run on another tenant corrects nothing of this one.
    found = fleet(differs, run("gpu1", at="10:00", only=["web"], tenants=("web",)))["gpu1"]
    assert found["differs"] == differs["pending"]


def test_a_cluster_that_is_not_read_keeps_what_was_read_of_it():
    unread = run("gpu1", at="09:00", nodes=False, tenants=(), problems=["gpu1: it was not reached"])
    found = fleet(run("gpu1", at="08:00"), unread)["gpu1"]
    assert (found["result"], found["at"], found["read_at"]) == ("failed", "2026-11-28T09:00:00Z", "2026-11-28T08:00:00Z")
    assert (found["gpus"]["held"], [one["name"] for one in found["tenants"]]) == (3, ["ml"])


def test_with_an_inventory_its_clusters_are_the_fleet():
    found = fleet(run("gpu1", "old", at="08:00"), clusters=["gpu1", "gpu9"])
    assert {name: one["result"] for name, one in found.items()} == {"gpu1": "passed", "gpu9": "unknown"}


def test_the_last_ten_runs_are_kept():
    runs = [
        run("gpu1", at=f"10:{number:02}", pending=["gpu1/ml: to be verified"] if number == 11 else ()) for number in range(12)
    ]
    trend = fleet(*runs)["gpu1"]["trend"]
    assert [one["at"][14:16] for one in trend] == [f"{number:02}" for number in range(2, 12)]
    assert trend[-1]["result"] == "incomplete"


def test_real_evidence_is_read_whole():
    found = fleet(evidence(two_clusters().reports(), AT))
    assert {name: one["result"] for name, one in found.items()} == {"gpu1": "failed", "gpu2": "incomplete"}
    assert "gpu1/left: this collection made it, the inventory lists it no more" in found["gpu1"]["waits"]
    assert [line for line in found["gpu1"]["waits"] if "several owners" in line]
    assert found["gpu2"]["shared_scheduler"]["release"] == "v0.16.8"


def write(folder, name, content):
    path = folder / name / "tenancy.json"
    path.parent.mkdir(parents=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    (path.parent / "tenancy.html").write_text("")


def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path):
    write(tmp_path, "a/b", run("gpu1", at="08:00"))
    write(tmp_path, "c", "{")
    write(tmp_path, "d", run("gpu2", at="08:00") | {"format": 1})
    write(tmp_path, "e", run("gpu2", at="08:00") | {"at": "yesterday"})
    write(tmp_path, "f", "[]")
    found = state(str(tmp_path), NOW)
    assert [one["name"] for one in found["clusters"]] == ["gpu1"]
    assert [line.partition(" ")[0] for line in found["unread"]] == [f"{name}/tenancy.json" for name in "cdef"]
    assert found["unread"][1].endswith("it has format 1, which is another one")
    assert pages(found, str(tmp_path), str(tmp_path / "out")) == {"gpu1": "../a/b/tenancy.html"}
    with refuses("no-folder"):
        state(str(tmp_path / "none"), NOW)


def test_a_folder_with_more_runs_than_are_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet_files.MOST", 1)
    for name in "ab":
        write(tmp_path, name, run("gpu1", at="08:00"))
    with refuses("too-much-evidence"):
        state(str(tmp_path), NOW)


def test_a_page_says_what_a_fleet_is_and_leads_to_each_cluster():
    nasty = "gpu1/ml: <script>alert(1)</script>"
    runs = [run("gpu1", at="08:00", problems=[nasty]), run("gpu2", at="09:00", name="drift", pending=["gpu2: device plugin"])]
    runs.append(run("gpu3", at="10:00"))
    found = merged([summary(one, "x") for one in runs], NOW, ["gpu1", "gpu2", "gpu3", "gpu4"])
    text = page(found, {"gpu1": "a b/tenancy.html"})
    shown = Page(text)
    assert shown.open == []
    assert "1 of 4 clusters are as the inventory says: 1 failed, 1 differs from the inventory, 1 has no evidence." in shown.said
    assert [one["href"] for one in shown.of("a")] == ["a%20b/tenancy.html"]
    assert "<script" not in text
    assert nasty in shown.said
    for said in ("site, 4 hours ago", "drift, 3 hours ago", "kai v0.16.8 (1), vCluster 0.36.1 (1)", "gpu2: device plugin"):
        assert said in shown.said
    assert [one["aria-label"] for one in shown.of("span") if "aria-label" in one] == [
        "site failed",
        "drift incomplete",
        "site passed",
    ]


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([], "There is no evidence of any cluster."),
        ([run("gpu1", at="08:00")], "The cluster is as the inventory says."),
        ([run("gpu1", "gpu2", at="08:00")], "All 2 clusters are as the inventory says."),
    ],
)
def test_a_fleet_in_a_sentence(runs, said):
    text = page(merged([summary(one, "x") for one in runs], NOW), {})
    assert said in Page(text).said


def large(folder: Path) -> int:
    """Write evidence of 200 clusters with 2,000 tenants, of three runs; return its bytes."""
    names = [f"team-{number}" for number in range(10)]
    nodes = [node(f"{name}-node", name, in_use=8, gpus=[{name: 1.0}] * 8) for name in names]
    found = [live(name, results=PASSED * 4, queues=[queue(name, 8, 8, 8, queue("training", 8, 8, 8))], **MADE) for name in names]
    inventory = Inventory().cluster(
        [ML | {"name": name} for name in names], found, nodes=nodes, variables={"nvkind_workers": [{"count": 8}] * len(names)}
    )
    inventory.hostvars["gpu1"]["_kubegpu_ledger"]["tenants"] = [held(name, [f"{name}-node"], 8, 8) for name in names]
    (one,) = evidence(inventory.reports(), AT)["clusters"]
    size = 0
    for number in range(3):
        clusters = [copy.copy(one) | {"name": f"gpu{index}"} for index in range(200)]
        problems = [f"gpu{index}/{name}: timed out after 600 s, waiting for pods" for index in range(200) for name in names]
        whole = evidence([], f"2026-11-2{number + 4}T10:00:00Z") | {
            "clusters": clusters,
            "problems": problems,
            "result": "failed",
        }
        text = json.dumps(whole, indent=4)
        write(folder, f"run-{number}", text)
        size += len(text)
    return size


def test_a_page_of_200_clusters_stays_small_and_is_made_within_seconds(tmp_path):
    size = large(tmp_path)
    # Of the processor: others may be at work.
    begin = time.process_time()
    found = state(str(tmp_path), NOW)
    text = page(found, pages(found, str(tmp_path), str(tmp_path)))
    seconds = time.process_time() - begin
    print(f"{size / 1e6:.0f} MB of evidence, {len(text) / 1e6:.2f} MB of page, {seconds:.1f} s")
    assert "0 of 200 clusters are as the inventory says: 200 failed." in Page(text).said
    assert sum(len(one["tenants"]) for one in found["clusters"]) == 2000
    assert len(text) < MOST_BYTES
    assert seconds < MOST_SECONDS
    assert os.path.exists(tmp_path / pages(found, str(tmp_path), str(tmp_path))["gpu0"])
