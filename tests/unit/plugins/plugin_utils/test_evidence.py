# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of runs, by the variables that the playbooks leave behind."""

from __future__ import annotations

import copy
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.kubegpu.tenancy.plugins.filter.evidence import FilterModule
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._drift import drift
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_junit import junit
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_page import HUES, WAYS, page
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import (
    AT,
    BLUEPRINT,
    COMBINATION,
    KAI,
    MADE,
    ML,
    PASSED,
    RACE,
    REMOVED,
    SECRET,
    Inventory,
    check,
    drifted,
    held,
    live,
    node,
    queue,
    two_clusters,
)
from ansible_collections.kubegpu.tenancy.tests.unit.pages import Page

ROOT = Path(__file__).parents[4]
# Of any page.
MOST_BYTES = 5_000_000
SCHEMA = json.loads((ROOT / "docs/evidence.schema.json").read_text())


@pytest.fixture(name="whole", scope="module")
def _whole():
    return evidence(two_clusters().reports(), AT)


def after(change, at="2026-11-25T10:00:00Z"):
    """Return what the evidence of a second run says of changes, where ``change`` alters what the first one found."""
    reports = two_clusters().reports()
    former = json.dumps(evidence(reports, AT))
    later = copy.deepcopy(reports)
    change(later)
    return evidence(later, at, former)["since"]


def of_drift(inventory):
    return evidence(inventory.reports(), AT, "", "drift", drift(inventory.hostvars, inventory.clusters))


def suites(found):
    root = ET.fromstring(junit(found))  # noqa: S314 - made here
    return {suite.get("name"): suite for suite in root.iter("testsuite")}


# --- the data ----------------------------------------------------------------------------------------------------


def test_it_is_as_the_schema_says(whole):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.validate(json.loads(json.dumps(whole)))
    validator.validate(evidence([], AT))
    unread = Inventory().cluster(_kubegpu_failure="Make the cluster: no GPU").without("gpu1", "_kubegpu_ledger")
    validator.validate(evidence(unread.reports(), AT, json.dumps(whole)))
    refused = Inventory().cluster().without("gpu1", "_kubegpu", "_kubegpu_tenants", "_kubegpu_ledger")
    validator.validate(evidence(refused.reports(), AT))
    validator.validate(json.loads(json.dumps(of_drift(drifted()))))
    validator.validate(of_drift(refused))


def objects(schema):
    """Return every object that the schema describes."""
    found = [schema] if "properties" in schema else []
    below = [*schema.get("$defs", {}).values(), *schema.get("properties", {}).values()]
    below += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return found + [each for one in below for each in objects(one)]


def test_the_schema_leaves_nothing_open_and_explains_every_key():
    found = objects(SCHEMA)
    assert len(found) > len(SCHEMA["$defs"])
    for one in found:
        assert one["additionalProperties"] is False
        assert all("description" in field for field in one["properties"].values())
        # What a step that did not end has not.
        assert set(one["properties"]) - set(one["required"]) <= {"seconds"}


def test_the_evidence_in_the_picture_of_the_docs_is_as_the_schema_says():
    found = json.loads((ROOT / "tests/pages/tenancy.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert "All 3 tenants are in the desired state and all 26 checks passed." in page(found)


def test_the_schema_refuses_what_it_does_not_know(whole):
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for wrong in ({"format": 1}, {"run": "info"}, {"result": "good"}, {"more": 1}, {"at": "today"}):
        assert not validator.is_valid(whole | wrong)


def test_how_a_run_ended():
    passed = evidence(Inventory().cluster().reports(), AT)
    assert (passed["result"], passed["problems"], passed["pending"]) == ("passed", [], [])
    due = Inventory().cluster(found=[live(due=["verify"], reasons=["it was never verified"])])
    incomplete = evidence(due.reports(), AT)
    assert (incomplete["result"], incomplete["pending"]) == ("incomplete", ["gpu1/ml: to be verified: it was never verified"])
    failed = evidence(Inventory().cluster(found=[live(results=[check("gpu", "failed", "sees two")])]).reports(), AT)
    assert (failed["result"], failed["problems"]) == ("failed", ["gpu1/ml: check gpu in queue training failed: sees two"])


def test_how_a_run_of_drift_ended():
    nothing = of_drift(Inventory().cluster(found=[live(due=["verify"], reasons=["it was never verified"])]))
    assert (nothing["run"], nothing["result"], nothing["problems"], nothing["pending"]) == ("drift", "passed", [], [])
    assert nothing["drift"] == {"differences": [], "steps": []}
    something = of_drift(Inventory().cluster(unlisted=["old"]))
    assert something["result"] == "incomplete"
    assert something["pending"] == ["gpu1: tenant that is not listed, old: there, wanted nothing"]
    for name in ("gpu1", "fd00::1"):
        unread = of_drift(Inventory().cluster(name=name, unlisted=["old"], _kubegpu_failure="Compare: timed out"))
        assert (unread["result"], unread["problems"]) == ("failed", [f"{name}: Compare: timed out"])
    assert len(unread["drift"]["differences"]) == 1


def test_what_check_mode_predicted_is_nothing_that_was_done():
    found = of_drift(drifted())
    tenant = next(tenant for tenant in found["clusters"][0]["tenants"] if tenant["name"] == "ml")
    assert (tenant["steps"], tenant["spans"], tenant["to_do"]) == ([], [], "")
    assert [(cluster["spans"], cluster["removed"]) for cluster in found["clusters"]] == [([], [])] * 2
    assert "upgrade to v0.14.7" in [step["step"] for step in found["drift"]["steps"]]


def test_drift_is_that_of_the_clusters_in_the_folder():
    inventory = Inventory().cluster(unlisted=["old"]).cluster(name="gpu2", unlisted=["other"], _kubegpu_failure="timed out")
    found = drift(inventory.hostvars, inventory.clusters)
    only = evidence(inventory.reports()[:1], AT, "", "drift", found)
    assert (only["problems"], [row["cluster"] for row in only["drift"]["differences"]]) == ([], ["gpu1"])


def test_when_the_kubeconfigs_end_that_were_brought_here():
    inventory = Inventory().cluster(_kubegpu_kubeconfigs={"expires": {"ml": "2027-11-28T09:00:00Z"}})
    found = evidence(inventory.reports(), AT)["clusters"][0]["tenants"]
    assert {one["name"]: one["kubeconfig_expires"] for one in found} == {"ml": "2027-11-28T09:00:00Z"}
    found = evidence(Inventory().cluster().reports(), AT)["clusters"][0]["tenants"]
    assert [one["kubeconfig_expires"] for one in found] == [None]


def test_values_of_charts_are_digests():
    found = of_drift(drifted())
    assert SECRET not in json.dumps(found) + page(found) + junit(found)
    (row,) = [row for row in found["drift"]["differences"] if row["what"] == "values.password"]
    assert re.fullmatch("digest [0-9a-f]{16}", row["real"])
    assert row["wanted"] is None


def test_tenants_that_a_run_removed_are_named_with_their_steps():
    steps = [{"step": "remove namespace tenant-old", "why": "it exists", "seconds": 4.1}]
    inventory = Inventory().cluster().worked("old", register=REMOVED, parts={"virtual cluster": {"steps": steps}})
    found = evidence(inventory.reports(), AT, run="expire")
    assert (found["run"], found["clusters"][0]["removed"]) == ("expire", [{"name": "old", "steps": steps}])
    assert "gpu1/oldremove namespace tenant-oldit exists4.1" in Page(page(found)).said
    failed = Inventory().cluster().worked("old", register=REMOVED, failure="Remove it: timed out")
    assert evidence(failed.reports(), AT, run="expire")["problems"] == ["gpu1/old: Remove it: timed out"]


def test_a_run_that_could_not_write_its_evidence_failed_for_who_asked_for_it():
    unwritten = {"/e": "Have the folder: no"}
    inventory = Inventory().cluster(_kubegpu_unwritten=unwritten, kubegpu_evidence="/e")
    inventory.cluster(name="gpu2", _kubegpu_unwritten=unwritten).cluster(
        name="gpu3", _kubegpu_unwritten=unwritten, kubegpu_evidence="/f"
    )
    assert [report["noted"] for report in inventory.reports()] == [["gpu1: Have the folder: no"], [], []]


def test_a_tenant_of_which_nothing_is_known_is_not_as_asked():
    found = evidence(Inventory().cluster(found=[]).reports(), AT)
    assert (found["result"], found["pending"]) == ("incomplete", ["gpu1/ml: not reached"])
    (case,) = suites(found)["gpu1/ml"].findall("testcase")
    assert case.find("skipped").get("message") == "not reached"


def test_what_was_asked_and_what_is(whole):
    vision, _speech, old = whole["clusters"][1]["tenants"]
    assert vision["vcluster"] == {"wanted": "0.36.1", "running": "0.35.3"}
    assert (vision["digest"], vision["created"]) == ("0123456789abcdef", "2026-11-20T10:00:00Z")
    assert (old["wanted_state"], old["state"], old["to_do"], old["checks"]) == ("paused", "paused", "", [])
    ml, _research, web = whole["clusters"][0]["tenants"]
    assert ml["scheduler"] == {
        "name": "kai",
        "shared": False,
        "wanted": "v0.13.1",
        "running": "v0.13.1",
        "end_of_support": "2026-03",
        "supported": False,
    }
    assert web["scheduler"] is None
    assert [hazard.partition(":")[0] for hazard in ml["accepted_hazards"]] == ["#1103", "#1673", "end-of-support"]
    assert [cluster["blueprint"] for cluster in whole["clusters"]] == [BLUEPRINT, None]
    assert whole["clusters"][0]["combinations"] == {"accepted": [], "untested": [COMBINATION]}


def test_a_scheduler_of_which_nothing_is_known_has_no_end_of_support():
    other = ML | {"scheduler": {"name": "volcano", "version": "1.12.0", "chart": "c"}, "queues": []}
    newer = live(scheduler_version="v9")
    for inventory in (Inventory().cluster([other]), Inventory().cluster(found=[newer])):
        ((tenant,),) = [cluster["tenants"] for cluster in evidence(inventory.reports(), AT)["clusters"]]
        assert (tenant["scheduler"]["end_of_support"], tenant["scheduler"]["supported"]) == (None, None)


def test_queues_are_those_that_are_or_else_those_that_are_asked_for(whole):
    ml, research, _web = whole["clusters"][0]["tenants"]
    (root,) = ml["queues"]
    assert root["gpu"] == {"quota": 3, "limit": 4, "over_quota_weight": 1, "allocated": 2.75, "requested": 2.75}
    assert [child["name"] for child in root["children"]] == ["training", "notebooks"]
    (root,) = research["queues"]
    assert root["gpu"] == {"quota": 0, "limit": "unlimited", "over_quota_weight": 1, "allocated": None, "requested": None}
    assert [child["name"] for child in root["children"]] == ["notebooks", "training"]


def test_nothing_secret_is_taken_over():
    """Values of charts may hold what is secret; a digest stands for all that is asked."""
    asked = ML | {"scheduler": KAI | {"values": {"token": "hush-1"}}, "vcluster": {"values": {"x": {"password": "hush-2"}}}}
    found = evidence(Inventory().cluster([asked]).reports(), AT)
    assert "hush" not in json.dumps(found) + page(found) + junit(found)


# --- what changed ------------------------------------------------------------------------------------------------


def test_the_first_evidence_has_nothing_to_compare_with(whole):
    assert whole["since"] == {"at": None, "changes": [], "notes": ["There was no evidence before this."]}


def test_nothing_changed():
    assert after(lambda _reports: None) == {"at": AT, "changes": [], "notes": []}


def replace(reports, tenant, **fields):
    (found,) = [one for report in reports for one in report["tenants"] if one["name"] == tenant]
    found |= fields


@pytest.mark.parametrize(
    ("tenant", "fields", "rows"),
    [
        ("ml", {"vcluster": {"wanted": "0.37.0", "running": "0.37.0"}}, [("vCluster", "0.36.1", "0.37.0")]),
        ("ml", {"accepted_hazards": [RACE]}, [("accepted hazards", "#1103, #1673, end-of-support", "#1103")]),
        ("ml", {"digest": "fedc"}, [("what is asked", "digest 0123456789abcdef", "digest fedc")]),
        ("ml", {"nodes": []}, [("nodes", "gpu1-worker", "none")]),
        ("ml", {"images": {}}, [("image ghcr.io/loft-sh/vcluster-oss:0.36.1", f"sha256:{'4c' * 32}", None)]),
        ("ml", {"state": "paused"}, [("state", "running", "paused")]),
        # Checks that were not made again say nothing.
        ("ml", {"results": []}, []),
        (
            "speech",
            {"results": [check("gpu", "failed", "x", queue="speech")]},
            [("checks", "1 of 1", "0 of 1, 1 failed"), ("check gpu in queue speech", "passed", "failed")],
        ),
        (
            "speech",
            {"queues": [queue("speech", 1, 4, 3)]},
            [("queue speech, gpu", "quota 0, limit 4, weight 1", "quota 1, limit 4, weight 1")],
        ),
        # Use is no change.
        ("speech", {"queues": [queue("speech", 0, 4, 3)]}, []),
    ],
)
def test_what_differs(tenant, fields, rows):
    changes = after(lambda reports: replace(reports, tenant, **fields))["changes"]
    assert [(row["what"], row["before"], row["after"]) for row in changes] == rows
    assert {row["where"].partition("/")[2] for row in changes} <= {tenant}


def test_another_blueprint_is_a_change_and_none_before_there_were_some_is_none():
    def change(reports):
        reports[0]["blueprint"] = BLUEPRINT | {"name": "gpu-host-2027-02-01"}
        reports[1]["blueprint"] = BLUEPRINT

    digest = BLUEPRINT["digest"]
    assert after(change)["changes"] == [
        {
            "where": "gpu1",
            "what": "blueprint",
            "before": f"gpu-host-2026-11-23, {digest}",
            "after": f"gpu-host-2027-02-01, {digest}",
        },
        {"where": "gpu2", "what": "blueprint", "before": "none", "after": f"gpu-host-2026-11-23, {digest}"},
    ]
    former = evidence(two_clusters().reports(), AT)
    for cluster in former["clusters"]:
        del cluster["blueprint"]
    found = evidence(two_clusters().reports(), AT, json.dumps(former))["since"]["changes"]
    assert [(row["where"], row["before"]) for row in found] == [("gpu1", "none")]


def test_tenants_and_shared_schedulers_that_come_and_go_are_one_line_each():
    def change(reports):
        reports[0]["tenants"][0]["name"] = "new"
        reports[1]["shared_scheduler"] |= {"version": None, "running": None}

    assert after(change)["changes"] == [
        {"where": "gpu1/ml", "what": "state", "before": "running", "after": None},
        {"where": "gpu1/new", "what": "state", "before": None, "after": "running"},
        {"where": "gpu2/shared scheduler", "what": "state", "before": "present", "after": None},
    ]


def test_a_node_that_changed():
    def change(reports):
        reports[1]["nodes"][0] |= {"allocatable": 7}

    assert after(change)["changes"] == [
        {
            "where": "gpu2",
            "what": "node pool-a",
            "before": "8 GPUs, of speech, vision",
            "after": "7 GPUs, of speech, vision",
        }
    ]


def test_what_was_not_read_is_not_taken_for_nothing():
    def change(reports):
        reports[0] |= {"nodes": None}

    assert after(change) == {"at": AT, "changes": [], "notes": ["gpu1: not compared, because it was not read then, or not now"]}


def test_a_cluster_without_evidence_then_or_now_is_not_compared():
    reports = two_clusters().reports()
    said = {"at": AT, "changes": [], "notes": ["gpu2: not compared, because it was not read then, or not now"]}
    assert evidence(reports, AT, json.dumps(evidence(reports[:1], AT)))["since"] == said
    assert evidence(reports[:1], AT, json.dumps(evidence(reports, AT)))["since"] == said


def test_tenants_that_a_run_leaves_out_are_not_gone():
    def change(reports):
        reports[0] |= {"only": ["ml"], "tenants": reports[0]["tenants"][:1]}
        replace(reports, "ml", trust="zero")

    since = after(change)
    assert [(row["where"], row["what"]) for row in since["changes"]] == [("gpu1/ml", "trust")]
    assert since["notes"] == ["gpu1: compared in part, because kubegpu_only named some of its tenants then, or now"]


@pytest.mark.parametrize(
    ("former", "said"),
    [
        ("{", "The evidence before this cannot be read: it is no JSON"),
        ("[]", "The evidence before this cannot be read: TypeError"),
        ('{"format": 2}', "The evidence before this cannot be read: KeyError: 'clusters'"),
        ('{"format": 1}', "The evidence before this has format 1, which is another one."),
        ('{"format": NaN}', "The evidence before this cannot be read: NaN is no number of JSON"),
        ('{"format": 2, "at": "x", "clusters": [7]}', "The evidence before this cannot be read: TypeError"),
        ("[" * 100_000, "The evidence before this cannot be read: it is no JSON"),
        (json.dumps({"format": "\x1b[2J"}), "The evidence before this has format , which is another one."),
    ],
)
def test_evidence_that_cannot_be_compared_with_says_so(former, said):
    since = evidence(two_clusters().reports(), AT, former)["since"]
    assert (since["at"], since["changes"]) == (None, [])
    assert since["notes"][0].startswith(said)


def test_queues_that_are_nested_without_end_are_no_evidence():
    whole = evidence(two_clusters().reports(), AT)
    deep = "[" + '{"name": "q", "priority": 1, "gpu": {}, "cpu": {}, "memory": {}, "children": [' * 5000 + "]}" * 5000 + "]"
    former = json.loads(json.dumps(whole))
    former["clusters"][0]["tenants"][0]["queues"] = "DEEP"
    since = evidence(two_clusters().reports(), AT, json.dumps(former).replace('"DEEP"', deep))["since"]
    assert (since["at"], since["changes"]) == (None, [])
    assert since["notes"][0].startswith("The evidence before this cannot be read: ")


# --- JUnit -------------------------------------------------------------------------------------------------------


def test_pipelines_read_a_test_for_each_check(whole):
    found = suites(whole)
    assert list(found) == [
        *("gpu1", "gpu2", "gpu1/ml", "gpu1/research", "gpu1/web"),
        *("gpu2/vision", "gpu2/speech", "gpu2/old", "gpu2/shared scheduler"),
    ]
    counts = {name: tuple(suite.get(key) for key in ("tests", "failures", "errors", "skipped")) for name, suite in found.items()}
    assert counts["gpu1/research"] == ("3", "2", "0", "1")
    assert counts["gpu2/vision"] == ("1", "0", "0", "1")
    assert {name for name, (_tests, failures, errors, _skipped) in counts.items() if (failures, errors) != ("0", "0")} == {
        "gpu1/research"
    }
    failures = [item.get("message") for item in found["gpu1/research"].findall("testcase/failure")]
    assert failures == ["Check what KAI Scheduler does: 1 of 2 checks failed.", "sees two GPUs <again>"]
    (skipped,) = found["gpu2/vision"].findall("testcase/skipped")
    assert skipped.get("message") == "to be changed and verified: something else is wanted of it than when it was verified"
    assert found["gpu1/ml"].find("testcase[@name='gpu in queue training']").get("time") == "1"


PLACES = ["gpu1", "gpu1/ml", "gpu1/research", "gpu1/web", "gpu1/left", "gpu2", "gpu2/vision", "gpu2/speech", "gpu2/old"]


def test_pipelines_read_a_test_of_every_place_from_drift():
    found = suites(of_drift(drifted()))
    cases = {name: {case.get("name"): case for case in suite.findall("testcase")} for name, suite in found.items()}
    compared = {name: {kind.tag for kind in each["as the inventory says"]} for name, each in cases.items() if name in PLACES}
    assert compared.pop("gpu1") == {"failure", "system-out"}
    assert compared.pop("gpu1/ml") == {"failure", "system-out"}
    # One that is not listed has a suite, too.
    assert compared.pop("gpu1/left") == {"failure", "system-out"}
    # It is not known of a cluster on which work ended early.
    assert compared.pop("gpu1/research") == {"skipped"}
    assert list(compared.values()) == [set()] * 5
    case = cases["gpu1"]["as the inventory says"]
    assert "gpu1: nodes of tenants, gpu1-worker: [], wanted" in case.find("failure").get("message")
    assert "site would label node gpu1-worker (it is to belong to ml)" in case.find("system-out").text


def test_what_drift_could_not_tell_did_not_pass():
    unread = Inventory().cluster(_kubegpu_failure="Compare: timed out")
    for name in ("gpu1", "gpu1/ml"):
        case = suites(of_drift(unread))[name].find("testcase[@name='as the inventory says']")
        assert case.find("skipped").get("message") == "it could not be told"


def test_pipelines_read_accepted_hazards_and_what_was_seen(whole):
    ml = suites(whole)["gpu1/ml"]
    properties = [(item.get("name"), item.get("value").partition(":")[0]) for item in ml.iter("property")]
    assert properties == [("accepted hazard", "#1103"), ("accepted hazard", "#1673"), ("accepted hazard", "end-of-support")]
    burst = ml.find("testcase[@name='burst in queue training']")
    assert burst.findtext("system-out").startswith("accepted: a GPU is free")


def test_a_cluster_that_failed_is_an_error_and_so_is_what_is_left_of_an_unlisted_tenant():
    broken = Inventory().cluster(_kubegpu_failure="Make the cluster: no GPU").without("gpu1", "_kubegpu_ledger")
    broken.worked("left", register=REMOVED, failure="Remove it: timed out")
    (error,) = suites(evidence(broken.reports(), AT))["gpu1"].findall("testcase/error")
    assert error.get("message") == "gpu1: Make the cluster: no GPU\ngpu1/left: Remove it: timed out"


def test_what_xml_cannot_say_is_left_out():
    coloured = live(results=[check("gpu", "failed", "\x1b[31mred\x1b[0m & <b>")])
    (failure,) = suites(evidence(Inventory().cluster(found=[coloured]).reports(), AT))["gpu1/ml"].findall("testcase/failure")
    assert failure.get("message") == " red  & <b>"


# --- the page ----------------------------------------------------------------------------------------------------


@pytest.fixture(name="shown", scope="module")
def _shown(whole):
    return Page(page(whole))


def test_a_page_begins_with_a_verdict_what_needs_a_person_and_who_has_which_gpus(shown):
    assert shown.open == []
    (verdict,) = [said for tag, said in shown.texts if tag == "h1"]
    assert (
        verdict == "4 of 6 tenants are in the desired state: tenant gpu1/research failed and tenant gpu2/vision is not finished."
    )
    order = [
        "kubegpu.tenancy.site, 2026-11-24, 10:00 UTC, 2 clusters",
        verdict,
        "GPUs promised",
        "What needs a person",
        "gpu1/research: check gpu in queue training failed: sees two GPUs <again>",
        "What changed",
        "Nodes and GPUs",
        "Details",
        "Tenants and versions",
        "GPUs of tenants",
        "Queues",
        "Risks and notes",
        "Time line",
        "Digests of everything",
    ]
    said = shown.said.partition(verdict)[2]
    places = [said.index(text) for text in order[2:]]
    assert places == sorted(places)
    assert f"{order[0]}{verdict}" in shown.said
    assert "gpu1-worker of ml, 3 of 4 GPUs held" in shown.said
    assert "speech 0.25, vision 0.5" in shown.said
    assert "nvidia.com/mig-1g.10gb: 1 of 7 held" in shown.said
    boxes = [attributes["aria-label"] for tag, attributes in shown.found if attributes.get("class") == "boxes"]
    assert boxes == ["GPUs of gpu1-worker", "GPUs of gpu1-worker2", "GPUs of pool-a", "GPUs of pool-b"]


def test_a_map_says_what_each_tenant_holds_with_a_colour_and_a_pattern_of_its_own(shown):
    assert "ml holds 2.75 of 4 GPUs" in shown.said
    assert "vision holds 1.5 of 8 GPUs, at most 4, shared with speech" in shown.said
    marks = [attributes["class"] for attributes in shown.of("span") if attributes.get("class", "").startswith("swatch")]
    assert marks == ["swatch hue0 way0", "swatch hue1 way1", "swatch hue3 way3", "swatch hue2 way2", "swatch hue4 way4"]
    assert len({(number % HUES, number % WAYS) for number in range(HUES * WAYS)}) == HUES * WAYS


def test_figures_and_the_map_say_what_was_not_read():
    read, unread = Inventory().cluster(), Inventory().cluster(_kubegpu_failure="x").without("gpu1", "_kubegpu_ledger")
    assert "GPUs held338% of the GPUs" in Page(page(evidence(read.reports(), AT))).said
    said = Page(page(evidence(unread.reports(), AT))).said
    assert "GPUs held?the nodes were not read" in said
    assert "The nodes of gpu1 were not read." in said


def test_a_page_shows_versions_ages_support_and_evidence(shown):
    for text in ("2026-03, over", "0.35.3 → 0.36.1", "4 days ago", "2 minutes ago", "0123456789abcdef", f"sha256:{'4c' * 32}"):
        assert text in shown.said
    assert "sees GPU-1b7d3f2a-0c55-5d0e-9c1f-2f8f3c1f6a10 only" in shown.said
    assert "2.75 held, 2.75 asked for; quota 3, limit 4" in shown.said
    assert "use not read; quota 0, limit unlimited" in shown.said
    assert "Not verified: gpu2/vision, gpu2/old." in shown.said
    assert (
        "gpu1: blueprint gpu-host-2026-11-23, sha256:5d5d5d5d5d5d, overridden by the inventory: ml.scheduler.version"
        in shown.said
    )
    assert f"gpu1: untested combination: {COMBINATION}" in shown.said


def test_the_time_line_is_in_the_order_of_the_clock(shown):
    line = [text for text in ("make the cluster", "change: 61 s", "verify: 30.5 s", "verify: 22 s") if text in shown.said]
    assert [shown.said.index(text) for text in line] == sorted(shown.said.index(text) for text in line)
    assert len(line) == 4
    assert "134.5 seconds from 2026-11-24T09:57:30Z on" in shown.said


def bars(shown):
    """Return left edge and width in percent of every part of a bar."""
    styles = [attributes["style"] for tag, attributes in shown.found if tag == "i"]
    return [[float(value) for value in re.findall(r"([\d.]+)%", style)] for style in styles]


def test_no_bar_is_longer_than_its_field(shown):
    assert len(bars(shown)) > 20
    assert all(sum(part) <= 100.1 for part in bars(shown))


def test_what_changed_is_said_at_first_sight_and_in_full_below():
    def change(reports):
        reports[0]["tenants"][0]["scheduler"] |= {"running": "v0.16.8"}
        reports[0]["tenants"][0]["digest"] = "fedc"

    reports = two_clusters().reports()
    former = json.dumps(evidence(reports, AT))
    assert "What changedSince 2026-11-24, 10:00 UTC:Nothing.Nodes" in Page(page(evidence(reports, AT, former))).said
    change(reports)
    first, _details, below = Page(page(evidence(reports, AT, former))).said.partition("Details")
    assert "gpu1/ml scheduler: kai v0.13.1 → kai v0.16.8gpu1/ml the inventory asks for something else" in first
    assert "fedc" not in first
    assert f"All changes2 changesSince {AT}" in below
    assert "digest 0123456789abcdefdigest fedc" in below


def test_a_page_without_evidence_before_says_so(shown):
    assert "What changedThere was no evidence before this.Nodes and GPUs" in shown.said
    assert "All changes" not in shown.said


def test_more_than_a_reader_takes_in_at_once_is_folded():
    overlaps = [f"overlap {number}" for number in range(9)]
    inventory = Inventory().cluster(nodes=[node(f"n{number}", "ml", gpus=[{}]) for number in range(30)])
    inventory.hostvars["gpu1"]["_kubegpu_ledger"]["overlaps"] = overlaps
    text = page(evidence(inventory.reports(), AT))
    assert "<h3>3 more</h3>" in text
    assert text.index("overlap 5") < text.index("3 more") < text.index("overlap 6")
    assert "gpu130 nodes, 0 of 240 GPUs held" in Page(text).said
    assert "<h3>30 nodes" not in text


def test_tenants_that_a_run_leaves_out_have_a_colour_of_their_own():
    gpus = [{"ml": 1.0}, {"other": 0.5, "": 0.25}]
    shown = Page(page(evidence(Inventory().cluster(nodes=[node("n1", "ml", gpus=gpus)]).reports(), AT)))
    assert [attributes["class"] for attributes in shown.of("i")][:3] == ["hue0 way0", "nobody", "hue1 way1"]


def test_a_page_of_2000_tenants_stays_small():
    names = [f"team-{number}" for number in range(100)]
    nodes = [node(f"{name}-node", name, in_use=8, gpus=[{name: 1.0}] * 8) for name in names]
    trees = {name: [queue(name, 8, 8, 8, queue("training", 8, 8, 8))] for name in names}
    found = [live(name, results=PASSED * 4, queues=trees[name], **MADE) for name in names]
    wanted, workers = [ML | {"name": name} for name in names], {"nvkind_workers": [{"count": 8}] * len(names)}
    inventory = Inventory().cluster(wanted, found, nodes=nodes, variables=workers)
    inventory.hostvars["gpu1"]["_kubegpu_ledger"]["tenants"] = [held(name, [f"{name}-node"], 8, 8) for name in names]
    (one,) = evidence(inventory.reports(), AT)["clusters"]
    many = evidence([], AT) | {"clusters": [one | {"name": f"gpu{number}"} for number in range(20)]}
    text = page(many)
    assert "All 2,000 tenants are in the desired state and all 24,000 checks passed." in text
    assert "Checks that passed are too many for this page; tenancy.json has them." in text
    assert len(text) < MOST_BYTES
    for tenant in one["tenants"]:
        tenant |= {"failure": "timed out", "to_do": ""}
    failures = [f"gpu{number}/{name}: timed out" for number in range(20) for name in names]
    text = page(many | {"result": "failed", "problems": failures})
    assert "No tenant is in the desired state: 2,000 tenants failed." in text
    assert "<h3>1,994 more</h3>" in text
    assert len(text) < MOST_BYTES


def test_a_clock_that_is_ahead_makes_nothing_younger_than_now():
    found = live(created="2026-11-24T10:00:05Z")
    assert "0 seconds ago" in page(evidence(Inventory().cluster(found=[found]).reports(), AT))


def test_a_page_of_a_run_that_saw_nothing():
    unread = Inventory().cluster(_kubegpu_failure="Make the cluster: no GPU").without("gpu1", "_kubegpu_ledger")
    said = Page(page(evidence(unread.reports(), AT))).said
    for text in ("gpu1: Make the cluster: no GPU", "The nodes of gpu1 were not read.", "cluster gpu1 failed"):
        assert text in said
    assert Page(page(evidence([], AT))).open == []


def test_what_others_named_is_text():
    nasty = '<script>alert("x")</script>'
    found = live(results=[check("gpu", "failed", nasty)], images={nasty: nasty})
    nodes = [node(nasty, "ml", gpus=[{nasty: 0.5}])]
    text = page(evidence(Inventory().cluster(found=[found], nodes=nodes).reports(), AT))
    assert "<script" not in text
    assert nasty in Page(text).said


def test_the_filters(whole):
    filters = FilterModule().filters()
    made = filters["evidence"](two_clusters().reports(), AT)
    assert made == whole
    assert filters["evidence_page"](made) == page(whole)
    assert filters["evidence_junit"](made) == junit(whole)
