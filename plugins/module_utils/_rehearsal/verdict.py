# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Compare the rounds of a candidate with those of a baseline, and return the verdict. Pure."""

from __future__ import annotations

import dataclasses
import statistics
import typing as t

from .facts import HOLD, INVARIANTS, MEANINGS, PROMOTE, REJECT
from .model import Trace
from .status import Round

Thresholds = t.Mapping[str, t.Mapping[str, float]]
# What is said of a measure: worse, above its threshold without being known to be worse, or within it.
WORSE, ABOVE, WITHIN, BETTER = "worse", "above its threshold, within the rounds' spread", "as allowed", "better"
# How notes begin, by what they are about.
ONLY_BASELINE, NOT_MEASURED, NOT_EXERCISED = NOTES = (
    "Only the baseline violates ",
    "Not measured in every round: ",
    "Not exercised by the trace: ",
)
# How many examples of the same thing a reason names.
_EXAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A measure under both.

    :ivar baseline: its value in each round; ``candidate``, alike.
    :ivar allowed: the largest median of the candidate that is no worse.
    """

    name: str
    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    allowed: float
    worse: bool

    @property
    def judgement(self) -> str:
        """WORSE, ABOVE, WITHIN or BETTER."""
        return judgement(dataclasses.asdict(self))


def judgement(comparison: t.Mapping[str, t.Any]) -> str:
    """Return WORSE, ABOVE, WITHIN or BETTER for a comparison as data.

    A candidate is better as it is worse: by more than is allowed, and in each round by more than the baseline's rounds differ.
    """
    baseline, candidate, allowed = (comparison[key] for key in ("baseline", "candidate", "allowed"))
    before, after = statistics.median(baseline), statistics.median(candidate)
    if comparison["worse"]:
        return WORSE
    if after > allowed:
        return ABOVE
    spread = max(baseline) - min(baseline)
    clearly = after < before - (allowed - before) and max(candidate) < min(baseline) - spread
    return BETTER if clearly else WITHIN


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a rehearsal.

    :ivar result: promote, hold or reject.
    :ivar reasons: a sentence each, with the pods, queues and seconds it rests on.
    :ivar notes: what only the baseline violates, what was not measured, and what the trace did not exercise.
    """

    result: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    def data(self) -> dict[str, t.Any]:
        """Return it as plain data."""
        return dataclasses.asdict(self)


def judge(
    trace: Trace, baseline: t.Sequence[Round], candidate: t.Sequence[Round], thresholds: Thresholds, failure: str = ""
) -> Verdict:
    """Return the verdict on a candidate.

    A candidate that cannot be installed or played is rejected, and so is one that violates an invariant, also where the baseline violates
    it, too. One that is worse than thresholds allow, in each round by more than the baseline's rounds differ among themselves, is held, and
    so is one whose baseline places nothing at all. Any other one is promoted.

    :arg baseline: its rounds, one at least; ``candidate``, alike, unless there is a failure.
    :arg failure: why the candidate could not be played; empty where it was.
    """
    if failure:
        return Verdict(REJECT, (f"The candidate could not be played: {failure}",), (), ())
    violations = [(invariant, *(_violations(invariant, rounds) for rounds in (baseline, candidate))) for invariant in INVARIANTS]
    rejections, notes = [], []
    for invariant, before, after in violations:
        if after:
            also = f" The baseline violates it, too, {before}." if before else ""
            rejections.append(f"The candidate violates {invariant} ({MEANINGS[invariant]}) {after}.{also}")
        elif before:
            notes.append(f"{ONLY_BASELINE}{invariant} ({MEANINGS[invariant]}) {before}.")
    measured = [name for name in thresholds if all(name in each.measures for each in (*baseline, *candidate))]
    compared = tuple(_compare(name, baseline, candidate, thresholds[name]) for name in measured)
    worse = [_sentence(one) for one in compared if one.worse]
    above = [f"{_sentence(one)} That is {ABOVE}." for one in compared if one.judgement == ABOVE]
    if not any(each.waits for each in baseline):
        worse.insert(0, "No pod got a node under the baseline, so that there is nothing to compare with.")
    notes += [f"{NOT_MEASURED}{name}." for name in thresholds if name not in measured]
    notes += [f"{NOT_EXERCISED}{what}." for what in not_exercised(trace, [*baseline, *candidate])]
    result = REJECT if rejections else HOLD if worse else PROMOTE
    fine = (
        "Everything holds, and no measure is known to be worse."
        if above
        else "Everything holds, and no measure is above its threshold."
    )
    reasons = [*rejections, *worse] or [fine]
    return Verdict(result, (*reasons, *above), tuple(notes), compared)


def _violations(invariant: str, rounds: t.Sequence[Round]) -> str:
    """Return in how many rounds something did not hold, with examples; empty where it held in all."""
    found = [[one for one in each.violations if one.invariant == invariant] for each in rounds]
    count = sum(map(bool, found))
    if not count:
        return ""
    flat = [f"{one.message} ({one.at:.0f} s)" for each in found for one in each]
    more = f" and {len(flat) - _EXAMPLES} more" if len(flat) > _EXAMPLES else ""
    return f"in {count} of {len(rounds)} rounds: {'; '.join(flat[:_EXAMPLES])}{more}"


def _compare(
    name: str, baseline: t.Sequence[Round], candidate: t.Sequence[Round], threshold: t.Mapping[str, float]
) -> Comparison:
    before, after = (tuple(each.measures[name] for each in rounds) for rounds in (baseline, candidate))
    allowed = statistics.median(before) * (1 + threshold["ratio"]) + threshold["amount"]
    # Nothing is known to be worse that is within what the baseline's own rounds show, or next to it: of a few rounds, the next one is
    # often outside of what they show.
    beyond = max(before) + (max(before) - min(before))
    worse = statistics.median(after) > allowed and min(after) > beyond
    return Comparison(name, before, after, allowed, worse)


def _sentence(one: Comparison) -> str:
    before, after = (
        f"{statistics.median(values):g} ({min(values):g} to {max(values):g})" for values in (one.baseline, one.candidate)
    )
    return f"{one.name} is {after} under the candidate and {before} under the baseline; {one.allowed:g} is allowed."


def not_exercised(trace: Trace, rounds: t.Sequence[Round]) -> list[str]:
    """Return what schedulers do that this trace did not ask for, or that no round came to."""
    work = trace.workloads
    classes = {workload.priority_class for workload in work}
    exercised = {
        "pods with whole GPUs": any(workload.gpus >= 1 for workload in work),
        "pods that share a GPU": any(workload.shares_a_gpu for workload in work),
        "pods that start together": any(count > 1 for count in trace.together.values()),
        "more than one priority": len(classes) > 1,
        "more than one queue": len({workload.queue for workload in work}) > 1,
        "a choice of nodes": any(workload.node_selector for workload in work),
        "pods that wait for others to end": any(sample.waiting and sample.bound for each in rounds for sample in each.samples),
        "evictions": any(each.measures.get("evicted") for each in rounds),
    }
    return [what for what, was in exercised.items() if not was]
