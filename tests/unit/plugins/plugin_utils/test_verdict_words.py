# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict says to people."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils import _verdict_words as words
from ansible_collections.kubegpu.tenancy.tests.unit.rehearsed import LOST, played, report

EMPTY = Round((), {}, (), {}, {})


@pytest.mark.parametrize(
    ("given", "headline", "grounds"),
    [
        (
            ([played()], [played()]),
            "v0.16.8 does as well as v0.13.1",
            ["All 7 rules held in the only round.", "Of 12 measures, none is worse."],
        ),
        (
            ([played()] * 3, [played(slower=9.0)] * 3),
            "v0.16.8 is worse than v0.13.1 in 1 of 12 measures",
            ["All 7 rules held in all 3 rounds."],
        ),
        (
            ([played()] * 2, [played(), played(LOST)]),
            "v0.16.8 breaks 1 of 7 rules that must always hold",
            [
                "In 1 of 2 rounds, this rule did not hold: every GPU that pods share is reserved.",
                "Of 12 measures, none is worse.",
            ],
        ),
        (
            ([played(LOST)], [played(LOST)]),
            "v0.16.8 breaks 1 of 7 rules that must always hold",
            [
                "In 1 of 1 round, this rule did not hold: every GPU that pods share is reserved. v0.13.1 breaks this rule, too.",
                "Of 12 measures, none is worse.",
            ],
        ),
        (
            ([played(slower=90.0)], [played()]),
            "v0.16.8 does as well as v0.13.1",
            ["All 7 rules held in the only round.", "Of 12 measures, none is worse.", "1 is better."],
        ),
        (
            ([played(), played(), played(slower=90.0)], [played(slower=9.0)]),
            "v0.16.8 does as well as v0.13.1",
            [
                "All 7 rules held in the only round.",
                "Of 12 measures, none is worse.",
                "1 is above the limit, but the rounds differ as much among themselves.",
            ],
        ),
        (
            ([played()], [], "image not found"),
            "v0.16.8 could not be played",
            ["The candidate could not be played: image not found"],
        ),
        (
            ([EMPTY], [EMPTY]),
            "With v0.13.1, no pod was placed, so there is nothing to compare with",
            ["All 7 rules held in the only round.", "Nothing was measured in every round."],
        ),
    ],
    ids=["promote", "hold", "reject", "both", "better", "unclear", "not played", "nothing placed"],
)
def test_a_verdict_is_a_sentence_and_what_it_rests_on(given, headline, grounds):
    made = report(*given)
    assert (words.headline(made), words.grounds(made)) == (headline, grounds)


@pytest.mark.parametrize(
    ("given", "begins", "accepts"),
    [
        (([played()], [played()]), "Make the change.", False),
        (([played()], [played(slower=9.0)]), "A busy machine makes these measures worse, too.", True),
        (([EMPTY], [EMPTY]), "Check that the queues and nodes of the trace have room for its pods.", True),
        (([played()], [played(LOST)]), "Do not make the change.", False),
        (([played()], [], "no"), "Do not make the change. Correct what the error names", False),
    ],
    ids=["promote", "hold", "nothing placed", "reject", "not played"],
)
def test_the_reader_is_told_what_to_do(given, begins, accepts):
    made = report(*given)
    said, accept = words.advice(made)
    assert said[0].startswith(begins)
    assert accept == (f"kubegpu_accept_holds: [{made['change']['name']}]" if accepts else "")


def test_a_busy_machine_is_named_only_for_what_it_makes_worse():
    worse = played()
    made = report([played()], [Round((), worse.measures | {"unbound": 9.0, "cycle_p95": 9000.0}, worse.samples, worse.waits, {})])
    assert made["result"] == "hold"
    assert words.advice(made)[0][0].startswith("Read what is worse")


def test_what_the_trace_did_not_exercise_is_told_apart_from_the_rest():
    made = report([played(LOST)], [EMPTY, played()])
    made["notes"] = [*made["notes"], "Not played, as a trace brings its groups: jobs are grouped anew."]
    assert "more than one priority" in words.not_exercised(made)
    measured, groups = words.further(made)
    assert measured.startswith("Not measured in every round: Half of the pods placed within, 95 of 100")
    assert groups == made["notes"][-1]


def test_the_sides_are_called_by_their_releases_or_by_the_change():
    made = report([played()], [played()])
    assert words.names(made) == ("v0.13.1", "v0.16.8")
    assert words.names(made | {"candidate": {"version": "v0.13.1"}}) == ("v0.13.1 as it is", "v0.13.1 with the change")
    assert words.day(made) == "23 November 2026, 10:00 UTC"
