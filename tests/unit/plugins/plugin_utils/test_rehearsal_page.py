# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a rehearsal, made of a report as role rehearsal writes it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from ansible_collections.kubegpu.tenancy.plugins.filter.rehearsal import rehearsal_evidence
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import INVARIANTS, THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round, Violation
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._rehearsal_page import junit, page
from ansible_collections.kubegpu.tenancy.tests.unit.pages import Page
from ansible_collections.kubegpu.tenancy.tests.unit.rehearsed import played, report


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


def test_a_page_has_the_verdict_first_and_a_line_for_each_round():
    shown = Page(page(report([played(), played()], [played(slower=9.0), played(slower=9.0), played(slower=9.0)])))
    assert shown.open == []
    assert shown.said.split()[:2] == ["hold:", "v0.13.1"]
    assert "bind_p50 is 10 (10 to 10) under the candidate and 1 (1 to 1) under the baseline" in shown.said
    assert [tag for tag, _attributes in shown.found].count("polyline") == 2 * (2 + 3)
    # A bar for each queue and side.
    assert [tag for tag, _attributes in shown.found].count("rect") == 2 * 2
    assert "2 nodes with 8 GPUs" in shown.said
    assert "No violation in any round." in shown.said
    assert "queues.all.gpu.limit" in shown.said
    assert "2026-11-23T10:00:00+00:00" in shown.said


@pytest.mark.parametrize(
    ("baseline", "candidate", "said"),
    [
        ([0.0], 0.0, "as allowed"),
        ([0.0], 90.0, "worse"),
        ([0.0, 0.0, 90.0], 9.0, "above its threshold, within the rounds' spread"),
    ],
)
def test_each_measure_has_a_judgement(baseline, candidate, said):
    rounds = [played(slower=slower) for slower in baseline]
    assert said in Page(page(report(rounds, [played(slower=candidate)]))).said


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
