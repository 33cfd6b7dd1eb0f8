# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""What a rehearsal's verdict says to people: in a sentence, on what it rests, what they do now, what it says nothing of. Pure."""

from __future__ import annotations

import typing as t

from ..module_utils._rehearsal.change import moment
from ..module_utils._rehearsal.facts import HOLD, INVARIANTS, MEANINGS, PROMOTE, REJECT
from ..module_utils._rehearsal.verdict import ABOVE, BETTER, NOT_EXERCISED, NOT_MEASURED, NOTES, WORSE, judgement
from ._measures import MEASURES, Data

SIDES = BASELINE, CANDIDATE = "baseline", "candidate"

_DO = {
    PROMOTE: "Make the change. Where a rehearsal is required, this verdict lets the change through for 30 days, unless the inventory says "
    "otherwise.",
    HOLD: "Read what is worse, then decide. Where a rehearsal is required, the change is refused until the inventory accepts it:",
    REJECT: "Do not make the change. Where a rehearsal is required, the change is refused and cannot be accepted. Rehearse another release, "
    "other values or other queues.",
}
_BUSY = "A busy machine makes these measures worse, too. If other work ran on the rehearsal's machine, rehearse again first."
_UNPLAYED = "Do not make the change. Correct what the error names, and rehearse again."
_NOTHING_PLACED = "Check that the queues and nodes of the trace have room for its pods. Then rehearse again."


def names(report: Data) -> tuple[str, str]:
    """Return what the two sides are called."""
    before, after = (report[side]["version"] for side in SIDES)
    return (before, after) if before != after else (f"{before} as it is", f"{after} with the change")


def day(report: Data) -> str:
    """Return when it was rehearsed, such as 23 November 2026, 10:00 UTC."""
    at = moment(dict(report))
    return f"{at.day} {at:%B %Y, %H:%M %Z}"


def broken(report: Data, side: str) -> list[str]:
    """Return the invariants that did not hold in a round of a side."""
    found = {one["invariant"] for each in report["rounds"][side] for one in each["violations"]}
    return [name for name in INVARIANTS if name in found]


def placed_nothing(report: Data) -> bool:
    """Tell whether no pod got a node under the baseline."""
    return not any(each["waits"] for each in report["rounds"][BASELINE])


def headline(report: Data) -> str:
    """Return the verdict in a sentence."""
    before, after = names(report)
    worse = sum(one["worse"] for one in report["comparisons"])
    if report["result"] == PROMOTE:
        return f"{after} does as well as {before}"
    if not report["rounds"][CANDIDATE]:
        return f"{after} could not be played"
    if report["result"] == REJECT:
        count = len(broken(report, CANDIDATE))
        return f"{after} breaks {count} of {len(INVARIANTS)} rules that must always hold"
    if worse:
        return f"{after} is worse than {before} in {worse} of {len(report['comparisons'])} measures"
    return f"With {before}, no pod was placed, so there is nothing to compare with"


def grounds(report: Data) -> list[str]:
    """Return on what the verdict rests, sentences."""
    if not report["rounds"][CANDIDATE]:
        return list(report["reasons"])
    return [*_of_rules(report), *_of_measures(report)]


def _of_rules(report: Data) -> t.Iterator[str]:
    rules, rounds = broken(report, CANDIDATE), len(report["rounds"][CANDIDATE])
    if not rules:
        yield f"All {len(INVARIANTS)} rules held in {_all_rounds(rounds)}."
    for name in rules:
        times = sum(any(one["invariant"] == name for one in each["violations"]) for each in report["rounds"][CANDIDATE])
        also = f" {names(report)[0]} breaks this rule, too." if name in broken(report, BASELINE) else ""
        yield f"In {times} of {rounds} {'round' if rounds == 1 else 'rounds'}, this rule did not hold: {MEANINGS[name]}.{also}"


def _all_rounds(count: int) -> str:
    return "the only round" if count == 1 else f"all {count} rounds"


def _of_measures(report: Data) -> t.Iterator[str]:
    states = [judgement(one) for one in report["comparisons"]]
    count = len(states)
    if not count:
        yield "Nothing was measured in every round."
        return
    worse, better, above = (states.count(each) for each in (WORSE, BETTER, ABOVE))
    # The headline of a hold says how many are worse.
    if report["result"] != HOLD or not worse:
        yield f"Of {count} measures, {worse or 'none'} {_are(worse)} worse."
    if better:
        yield f"{better} {_are(better)} better."
    if above:
        yield f"{above} {_are(above)} above the limit, but the rounds differ as much among themselves."


def _are(count: int) -> str:
    return "are" if count > 1 else "is"


def advice(report: Data) -> tuple[list[str], str]:
    """Return what to do now, sentences, and what goes into the inventory to accept the change; the latter may be empty."""
    if not report["rounds"][CANDIDATE]:
        return [_UNPLAYED], ""
    said = [_DO[report["result"]]]
    if report["result"] != HOLD:
        return said, ""
    worse = [one["name"] for one in report["comparisons"] if one["worse"]]
    if placed_nothing(report):
        said.insert(0, _NOTHING_PLACED)
    elif worse and all(MEASURES[name].timed for name in worse):
        said.insert(0, _BUSY)
    return said, f"kubegpu_accept_holds: [{report['change']['name']}]"


def not_exercised(report: Data) -> list[str]:
    """Return what the trace did not exercise."""
    return _noted(report, NOT_EXERCISED)


def further(report: Data) -> list[str]:
    """Return what else the rehearsal says nothing of, sentences."""
    missing = [MEASURES[name].title for name in _noted(report, NOT_MEASURED)]
    measured = [f"Not measured in every round: {', '.join(missing)}."] if missing else []
    return [*measured, *(note for note in report["notes"] if not note.startswith(NOTES))]


def _noted(report: Data, begin: str) -> list[str]:
    return [note.removeprefix(begin).removesuffix(".") for note in report["notes"] if note.startswith(begin)]
