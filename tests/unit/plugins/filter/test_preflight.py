# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.filter.preflight import preflight, with_pulls
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.lifecycle import read
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.status import report
from ansible_collections.kubegpu.tenancy.tests.unit.clusters import Gke

TO_WRITE = "Write kubegpu_tolerations: [" + ", ".join(['{"key": "a"}'] * 12) + "]."
LONG = f"web: kubegpu_tolerations: all nodes are tainted. {TO_WRITE}"


def shown(problems=(), notes=()):
    coded = [{"code": "no-gpus", "text": problem} for problem in problems]
    return preflight(report(read(Gke())) | {"problems": coded, "notes": list(notes)})


def test_problems_come_first_and_each_sentence_is_a_line():
    lines = shown([LONG, "Listing Node failed: forbidden"], ["Try it."])
    assert [line for line in lines if line in ("Problems", "Notes", "Nodes with GPUs", "The cluster")] == [
        "Problems",
        "Notes",
        "Nodes with GPUs",
        "The cluster",
    ]
    heading, rule, first, second, last = lines[1:6]
    assert heading.split() == ["#", "about", "what"]
    assert rule.startswith("-")
    assert first == "1  web: kubegpu_tolerations  all nodes are tainted."
    # What is to be written can be copied.
    assert second == " " * len("1  web: kubegpu_tolerations  ") + TO_WRITE
    assert last.split() == ["2", "Listing", "Node", "failed:", "forbidden"]


def test_without_problems_and_notes_there_is_what_there_is():
    lines = shown()
    assert lines[:3] == ["Problems", "Nothing is missing.", ""]
    assert "Notes" not in lines
    assert "storage classes             standard-rwo (default)" in lines
    assert "network                     anetd; enforces network policies" in lines
    assert any(line.startswith("gpu-1     8  yes    GKE") for line in lines)


def test_what_others_wrote_is_one_line_without_control_characters():
    (line,) = [line for line in shown(["a\x1b[2J\nb: c"]) if "b: c" in line]
    assert line.isprintable()


FOUND = {"problems": [], "notes": ["known"]}
NOT_THERE = {"name": "a", "verdict": "failed", "reason": "not found"}
PRIVATE = {"name": "b", "verdict": "not_tried", "reason": "401"}
THERE = {"name": "c", "verdict": "passed", "reason": "on w1"}


@pytest.mark.parametrize(
    ("listed", "pulled", "problems", "notes"),
    [
        ({}, {}, [], []),
        ({"skipped": True}, {"skipped": True}, [], []),
        ({"images": []}, {"results": [NOT_THERE, PRIVATE, THERE], "msg": "1 of 3 checks failed"}, ["a: not found"], ["b: 401"]),
        ({"msg": "helm pull failed"}, {"skipped": True}, ["helm pull failed"], []),
        ({"images": []}, {"msg": "namespace: it exists"}, ["namespace: it exists"], []),
    ],
)
def test_what_could_not_be_pulled_is_a_problem_and_what_was_not_tried_a_note(listed, pulled, problems, notes):
    not_pulled = [{"code": "not-pulled", "text": problem} for problem in problems]
    assert with_pulls(FOUND, listed, pulled) == {"problems": not_pulled, "notes": ["known", *notes]}
