# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a rehearsal, made of a report as role rehearsal writes it."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET

import pytest
from ansible_collections.kubegpu.tenancy.plugins.filter.rehearsal import rehearsal_evidence
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import INVARIANTS, THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.measures import Sample
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round, Violation
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._rehearsal_evidence import junit
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._rehearsal_page import page
from ansible_collections.kubegpu.tenancy.tests.unit.pages import Page
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import ROOT
from ansible_collections.kubegpu.tenancy.tests.unit.rehearsed import LOST, example, played, report


def test_the_files_of_the_evidence():
    made = report([played()], [played()])
    name = f"verdict-{made['change']['name']}.json"
    files = rehearsal_evidence(made | {"changed": True, "steps": [], "seconds": 1.0})
    assert list(files) == [name, "rehearsal.json", "rehearsal.html", "rehearsal.xml"]
    assert json.loads(files["rehearsal.json"]) == json.loads(json.dumps(made))
    assert json.loads(files[name]).keys() == {"format", "at", "change", "result", "reasons"}
    assert (files["rehearsal.html"], files["rehearsal.xml"]) == (page(made), junit(made))
    # As in check mode.
    assert rehearsal_evidence({"changed": True, "change": made["change"]}) == {}


def test_the_report_in_the_picture_of_the_docs():
    found = json.loads((ROOT / "tests/pages/rehearsal.json").read_text())
    assert "v0.13.1 breaks 1 of 7 rules that must always hold." in page(found)


def headings(shown):
    return [text for tag, text in shown.texts if tag == "h2"]


def test_a_page_has_the_verdict_first_and_the_digests_last():
    text = page(report([played(), played()], [played(slower=9.0), played(slower=9.0), played(slower=9.0)]))
    shown = Page(text)
    assert shown.open == []
    assert shown.said.split()[:2] == ["hold:", "v0.13.1"]
    assert [said for tag, said in shown.texts if tag == "h1"] == ["v0.16.8 is worse than v0.13.1 in 1 of 12 measures."]
    assert headings(shown) == [
        "What this rehearsal does not show",
        "Measures",
        "Over time",
        "Rules that must always hold",
        "The work that was played",
        "What changes",
        "For the record",
    ]
    assert "bind_p50 is 10 (10 to 10) under the candidate and 1 (1 to 1) under the baseline" in shown.said
    assert "2 nodes with 8 GPUs" in shown.said
    assert "No violation in any round." in shown.said
    assert "queue all.gpu.limit" in shown.said
    assert "2026-11-23T10:00:00+00:00" in shown.said
    digests = [place for place in range(len(text)) if text.startswith("digest ", place)]
    assert min(digests) > text.index("The exact change")


def test_the_first_screen_says_what_matters_and_what_was_not_exercised():
    first = page(example(cycle=6.0, slow=4.0)).partition("<h2>Measures</h2>")[0]
    shown = [said for tag, said in Page(first).texts if tag in ("dt", "dd", "span", "b", "li")]
    assert shown[:5] == ["hold", "v0.13.1", "v0.16.8", "Half of the pods placed within", "4.4\N{NO-BREAK SPACE}s"]
    assert [said for said in shown if said.startswith("worse")] == ["worse"] * 4
    assert "pods that start together" in shown
    assert "kubegpu_accept_holds: [v0.13.1-to-v0.16.8-" in first


def test_what_is_broken_comes_before_the_measures():
    shown = Page(page(example(violations=[LOST])))
    assert headings(shown)[1:3] == ["Rules that must always hold", "Measures"]
    assert "2 of 3 rounds (3 of 3 with v0.13.1)" in shown.said
    assert LOST.message in shown.said
    broken = [said for tag, said in shown.texts if tag == "span" and said in ("broken", "held")]
    assert broken == ["broken"] + ["held"] * (len(INVARIANTS) - 1)


def test_rounds_are_curves_with_their_spread():
    shown = Page(page(example()))
    assert [len(shown.of(tag)) for tag in ("svg", "polyline", "polygon")] == [3, 6, 6]
    assert "all 16 GPUs" in shown.said


def test_a_measure_is_a_sentence_with_its_rounds_and_limit():
    shown = Page(page(report([played(), played(slower=0.4)], [played(slower=0.1)])))
    said = shown.said.replace("\N{NO-BREAK SPACE}", " ")
    assert "Half of the pods were placed within 1.1 s (1.2 s with v0.13.1)." in said
    assert "Rounds: 1.1 s (1 to 1.4 s with v0.13.1). Limit: 3.4 s." in said
    assert len([attributes for attributes in shown.of("span") if attributes.get("class") == "strip"]) == 3 + len(THRESHOLDS)


@pytest.mark.parametrize(
    ("baseline", "candidate", "said"),
    [
        ([0.0], 0.0, "within limit"),
        ([0.0], 90.0, "worse"),
        ([0.0, 0.0, 90.0], 9.0, "unclear"),
        ([90.0], 0.0, "better"),
    ],
)
def test_each_measure_has_a_judgement(baseline, candidate, said):
    rounds = [played(slower=slower) for slower in baseline]
    text = page(report(rounds, [played(slower=candidate)]))
    row = text.partition("<h3>How long pods wait</h3>")[2].partition("</li>")[0]
    assert f'<span class="badge {said.split()[0]}">{said}</span>' in row


def test_a_change_of_queues_alone_is_told_by_what_changes():
    made = report([played()], [played()])
    same = made | {"candidate": {"version": "v0.13.1"}}
    same["change"] = made["change"] | {
        "to": made["change"]["to"] | {"version": "v0.13.1", "values": made["change"]["from"]["values"]}
    }
    shown = Page(page(same))
    assert "v0.13.1 with the change does as well as v0.13.1 as it is." in shown.said
    assert "KAI Scheduler stays at v0.13.1, with 4 changed queue settings." in shown.said
    # A queue that is new or goes is told by its settings, in words.
    same["change"]["to"]["queues"] = {"new": {"parent": "all", "gpu": {"quota": 4, "limit": 8}}}
    shown = Page(page(same))
    assert "queue new" in shown.said
    assert "parent all, gpu quota 4, limit 8" in shown.said
    assert "{" not in shown.said
    nothing = made | {"candidate": {"version": "v0.13.1"}, "change": made["change"] | {"to": made["change"]["from"]}}
    assert "KAI Scheduler stays at v0.13.1, and nothing else changes." in Page(page(nothing)).said


def test_pods_without_a_node_are_listed_with_why():
    waiting = dataclasses.replace(played(), unbound={"a-1": "", "a-2": "no room\n<b>"})
    shown = Page(page(report([waiting], [waiting])))
    assert "nothing says why" in shown.said
    assert "no room <b>" in shown.said


def test_a_long_rehearsal_has_a_page_that_can_be_mailed():
    samples = tuple(Sample(at / 2, {"training": float(at % 7), "notebooks": 1.0}, at % 9, at % 5) for at in range(7200))
    waits = {f"pod-{number}": number / 10 for number in range(5000)}
    long = dataclasses.replace(
        played(), samples=samples, waits=waits, unbound={f"lost-{number}": "no room" for number in range(2000)}
    )
    assert len(page(report([long] * 5, [long] * 5))) < 200_000


def test_what_others_named_is_text():
    nasty = '<script>alert("x")</script>'
    lost = Violation("reserved", 12.0, nasty)
    text = page(report([played(queue=nasty)], [played(lost, queue=nasty)]))
    assert "<script>" not in text
    assert nasty in Page(text).said


def test_what_did_not_hold_is_listed_up_to_a_bound():
    many = [Violation("reserved", float(number), f"pod {number}") for number in range(60)]
    shown = Page(page(report([played()], [played(*many)])))
    assert "the first 50 of 60" in shown.said
    assert "pod 49" in shown.said
    assert "pod 50" not in shown.said


def test_a_report_without_samples_has_a_page():
    empty = Round((), {}, (), {}, {})
    assert "there is nothing to compare with" in page(report([empty], [empty]))


def test_of_a_candidate_that_was_not_played_nothing_is_said_to_hold():
    unplayed = report([played()], [], "image not found")
    assert "image not found" in Page(page(unplayed)).said
    assert "No violation" not in Page(page(unplayed)).said
    suite = ET.fromstring(junit(unplayed))  # noqa: S314 - made here
    assert (suite.attrib["tests"], suite.attrib["errors"]) == ("1", "1")


@pytest.mark.parametrize(
    ("candidate", "failures", "errors"),
    [(played(), 0, 0), (played(slower=9.0), 2, 0), (played(Violation("one_owner", 1.0, "a <b>")), 1, 1)],
)
def test_pipelines_read_a_test_for_each_thing(candidate, failures, errors):
    suite = ET.fromstring(junit(report([played()], [candidate])))  # noqa: S314 - made here
    assert suite.attrib == {
        "name": "rehearsal v0.13.1 to v0.16.8",
        "tests": str(len(INVARIANTS) + len(THRESHOLDS) + 1),
        "failures": str(failures),
        "errors": str(errors),
        "skipped": "0",
    }
    assert len(suite.findall("testcase/failure")) == failures
    assert len(suite.findall("testcase")) == int(suite.attrib["tests"])
