# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import (
    FACTS,
    HAZARD_NAMES,
    HAZARDS,
    LINES,
    UPGRADE_NOTES,
    WORK_HAZARDS,
    Asked,
    facts_of,
    hazards_of,
    upgrade_notes,
    work_hazards_of,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import parse_version

# All releases, and the one after the last of each line.
EVERY = [(*line.first[:2], patch) for line in LINES for patch in range(line.first[2], line.last[2] + 2)]


def test_lines_are_in_order_and_have_a_source():
    assert [line.first for line in LINES] == sorted({line.first for line in LINES})
    assert all(line.first[:2] == line.last[:2] and line.first <= line.last and line.source for line in LINES)
    # Releases follow the newest one, regardless of its number.
    assert not LINES[-1].ended


def test_the_table_of_releases_has_no_holes():
    # There was no 0.11.
    minors = [line.first[1] for line in LINES]
    assert minors == [minor for minor in range(minors[0], minors[-1] + 1) if minor != 11]
    assert all(line.first[2] == 0 for line in LINES)
    # What changes with a release names one that there is, or the line that comes next.
    known = {*EVERY, (0, 0, 0), (0, minors[-1] + 1, 0)}
    assert [(name, row.since) for name, rows in FACTS.items() for row in rows if row.since not in known] == []
    # Every line has its own row about the end of its support, but for the lines that were never listed.
    ends = {row.since[:2] for row in FACTS["end_of_support"]}
    assert {line.first[:2] for line in LINES} - ends == {(0, 7), (0, 8)}


@pytest.mark.parametrize("rows", FACTS.values(), ids=FACTS)
def test_every_fact_is_known_from_the_first_version_on_and_changes_with_each_row(rows):
    assert rows[0].since == (0, 0, 0)
    assert [row.since for row in rows] == sorted({row.since for row in rows})
    assert all(row.source for row in rows)


@pytest.mark.parametrize(
    ("fact", "version", "value"),
    [
        ("operator", (0, 8, 5), False),
        ("operator", (0, 9, 0), True),
        ("deployments", (0, 7, 12), ("binder", "podgrouper", "podgroup-controller", "queuecontroller", "scheduler")),
        (
            "deployments",
            (0, 8, 5),
            ("kai-admission", "binder", "podgrouper", "podgroup-controller", "queuecontroller", "scheduler"),
        ),
        ("cdi_key", (0, 9, 3), None),
        ("cdi_key", (0, 9, 4), "binder.cdi"),
        ("queue_levels", (0, 12, 99), 2),
        ("queue_levels", (0, 13, 0), None),
        ("tag_prefix", (7, 0, 0), ""),
    ],
)
def test_a_fact_holds_up_to_its_next_row(fact, version, value):
    assert facts_of(version)[fact] == value


# Of every row of HAZARDS: the last release before it, its first and its last one, and the first without it.
RANGES = [
    ("#104", None, (0, 7, 0), (0, 12, 23), (0, 13, 0)),
    ("#1103", None, (0, 7, 0), (0, 9, 15), (0, 9, 16)),
    ("#1103", (0, 9, 20), (0, 10, 0), (0, 12, 18), (0, 12, 19)),
    ("#1103", (0, 12, 23), (0, 13, 0), (0, 14, 0), (0, 14, 1)),
    ("#1673", None, (0, 7, 0), (0, 9, 19), (0, 9, 20)),
    ("#1673", (0, 9, 20), (0, 10, 0), (0, 12, 21), (0, 12, 22)),
    ("#1673", (0, 12, 23), (0, 13, 0), (0, 14, 5), (0, 14, 6)),
    ("#1673", (0, 14, 9), (0, 15, 0), (0, 15, 3), (0, 16, 0)),
    ("#340", None, (0, 7, 0), (0, 7, 11), (0, 7, 12)),
    # Of some work.
    ("#1798", None, (0, 7, 0), (0, 12, 22), (0, 12, 23)),
    ("#1798", (0, 12, 23), (0, 13, 0), (0, 14, 6), (0, 14, 7)),
    ("#1798", (0, 14, 9), (0, 15, 0), (0, 16, 2), (0, 16, 3)),
    ("#1556", None, (0, 7, 0), (0, 9, 19), (0, 9, 20)),
    ("#1556", (0, 9, 20), (0, 10, 0), (0, 12, 21), (0, 12, 22)),
    ("#1556", (0, 12, 23), (0, 13, 0), (0, 14, 5), (0, 14, 6)),
    ("#1556", (0, 14, 9), (0, 15, 0), (0, 15, 2), (0, 15, 3)),
    ("#1120", None, (0, 7, 0), (0, 9, 15), (0, 9, 16)),
    ("#1120", (0, 9, 20), (0, 10, 0), (0, 12, 18), (0, 12, 19)),
    ("#1120", (0, 12, 23), (0, 13, 0), (0, 13, 0), (0, 13, 1)),
    ("#1729", None, (0, 7, 0), (0, 12, 23), (0, 12, 24)),
    ("#1729", None, (0, 13, 0), (0, 14, 7), (0, 14, 8)),
    ("#1729", (0, 14, 9), (0, 15, 0), (0, 16, 4), (0, 16, 5)),
    ("#988", None, (0, 7, 0), (0, 12, 23), (0, 13, 0)),
    ("#1863", (0, 12, 23), (0, 13, 0), (0, 14, 7), (0, 14, 8)),
    ("#1863", (0, 14, 9), (0, 15, 0), (0, 16, 4), (0, 16, 5)),
    ("#1906", None, (0, 7, 0), (0, 17, 1), (0, 18, 0)),
    ("#1780", (0, 14, 9), (0, 15, 0), (0, 16, 3), (0, 16, 4)),
    # Open.
    ("#2153", (0, 16, 9), (0, 17, 0), (0, 18, 6), None),
]


def test_each_hazard_has_its_range():
    assert len(RANGES) == len(HAZARDS) + len(WORK_HAZARDS)


@pytest.mark.parametrize(("row", "expected"), list(zip((*HAZARDS, *WORK_HAZARDS), RANGES)), ids=str)
def test_every_hazard_has_exactly_its_releases(row, expected):
    name, before, first, last, fixed = expected
    assert (row.name, row.fixed if row.fixed in EVERY else None) == (name, fixed)
    assert {first, last} <= set(EVERY)
    assert row in known_of(first)
    assert row in known_of(last)
    for outside in filter(None, (before, fixed)):
        assert name not in [hazard.name for hazard in known_of(outside)]
    # Nothing lies between its last release and the first without it; EVERY has one more of each line than there is.
    assert EVERY[(EVERY.index(fixed) if fixed else len(EVERY)) - 1] in (last, (*last[:2], last[2] + 1))


def known_of(version):
    return [*hazards_of(version), *work_hazards_of(version)]


def test_hazards_have_names_that_stay_and_a_source():
    assert len(RANGES) == len(HAZARDS) + len(WORK_HAZARDS)
    # A name that is taken away or changed makes inventories that accept it invalid.
    assert {"#104", "#1103", "#1673", "#340", "end-of-support", "open-gpus"} <= set(HAZARD_NAMES)
    assert len(HAZARD_NAMES) == len(set(HAZARD_NAMES))
    assert all(row.source.startswith(row.name) for row in (*HAZARDS, *WORK_HAZARDS))
    assert {row.touches for row in HAZARDS} <= {"", *(field.name for field in dataclasses.fields(Asked))}


def test_a_hazard_is_told_with_its_name():
    (hazard,) = (row for row in hazards_of((0, 12, 22)))
    assert str(hazard) == "#104: its pod webhook stops every pod of the cluster while it does not answer"
    assert hazards_of((0, 16, 8)) == ()


@pytest.mark.parametrize(
    ("before", "after", "sources"),
    [
        ("v0.8.5", "v0.9.20", ["#549"]),
        ("v0.8.5", "v0.13.1", ["#549", "release notes"]),
        ("v0.12.0", "v0.13.1", ["release notes"]),
        ("v0.13.1", "v0.12.0", ["see queue_levels"]),
        ("v0.13.4", "v0.14.0", ["values.yaml: prometheus"]),
        ("v0.14.9", "v0.15.3", ["values.yaml"]),
        ("v0.15.3", "v0.16.9", ["values.yaml: admission"]),
        ("v0.14.7", "v0.15.3", ["pkg/podgrouper/podgrouper/plugins/jobset of 0.15"]),
        ("v0.15.3", "v0.16.8", ["pkg/podgrouper/podgrouper/plugins/jobset of 0.16"]),
        ("v0.17.0", "v0.18.0", ["#2109"]),
        ("v0.12.23", "v0.13.0", ["#988"]),
        ("v0.16.0", "v0.16.9", []),
    ],
)
def test_upgrade_notes(before, after, sources):
    notes = upgrade_notes(parse_version(before), parse_version(after))
    assert [any(f"({source}" in note for note in notes) for source in sources] == [True] * len(sources)
    assert bool(notes) == bool(sources)


def test_every_upgrade_note_is_of_some_pair_of_releases_and_has_a_source():
    pairs = [(line.first, other.last) for line in LINES for other in LINES]
    for note in UPGRADE_NOTES:
        assert note.source
        assert any(f"{note.text} ({note.source})" in upgrade_notes(*pair) for pair in pairs)
