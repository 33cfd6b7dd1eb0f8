# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a rehearsal, made of a report as role rehearsal writes it."""

from __future__ import annotations

import html.parser
import xml.etree.ElementTree as ET

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.change import Change, wanted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import INVARIANTS, THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import nodes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.patterns import generate
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round, Sample, Violation
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.verdict import judge
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._rehearsal_page import junit, page

TRACE = generate("research", [nodes(count=2, gpus=4)], 100, 1)


def played(*violations, slower=0.0, queue="training"):
    samples = tuple(Sample(float(at), {queue: at / 10, "notebooks": 1.5}, at // 10, 9 - at // 10) for at in range(0, 90, 5))
    measures = dict.fromkeys(THRESHOLDS, 3.0) | {"bind_p50": 1.0 + slower}
    return Round(violations, measures, samples, {"a-0": 1.0}, {})


def report(baseline, candidate, failure=""):
    verdict = judge(TRACE, baseline, candidate, THRESHOLDS, failure).data()
    rounds = {"baseline": [each.data() for each in baseline], "candidate": [each.data() for each in candidate]}
    given = {"baseline": {"version": "v0.13.1"}, "candidate": {"version": "v0.16.8"}, "speed": 4.0}
    wider = [{"name": "all", "gpu": {"limit": 16}, "children": [{"name": "training"}, {"name": "notebooks"}]}]
    change = Change(wanted(given["baseline"], "from", TRACE.queues), wanted(given["candidate"] | {"queues": wider}, "to", []))
    about = {"format": 1, "at": "2026-11-23T10:00:00+00:00", "change": change.data()}
    return about | {"trace": TRACE.data(), "rounds": rounds} | given | verdict


class Page(html.parser.HTMLParser):
    """The elements of a page, its text, and what it would load."""

    VOID = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.loaded, self.said = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.loaded += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said += data if "style" not in self.open else ""


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


def test_a_page_needs_no_network_and_no_script():
    shown = Page(page(report([played()], [played()])))
    assert shown.loaded == []
    assert not [tag for tag, _attributes in shown.found if tag in ("script", "link", "img", "iframe")]
    labelled = [attributes for tag, attributes in shown.found if tag == "svg"]
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in labelled)


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
    }
    assert len(suite.findall("testcase/failure")) == failures
    assert len(suite.findall("testcase")) == int(suite.attrib["tests"])
