# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The measures of a rehearsal as people speak of them: names, sentences, amounts with units, better or worse. Pure."""

from __future__ import annotations

import dataclasses
import math
import statistics
import typing as t

from ..module_utils._rehearsal.verdict import ABOVE, WORSE, judgement

Data = t.Mapping[str, t.Any]

WAITING, USE, SCHEDULER = GROUPS = ("How long pods wait", "How GPUs are used", "What the scheduler needs")
SECONDS, MILLISECONDS, PODS, TIMES, GPUS, KINDS, CORES, MIB = "s", "ms", "pod", "time", "GPU", "kind of error", "core", "MiB"

# Between a number and its unit, which stay on one line.
_SPACE = "\N{NO-BREAK SPACE}"
# Units that go over into a larger one: from which amount, how many make one, and its name.
_LARGER = {SECONDS: (120.0, 60.0, "min"), MILLISECONDS: (1000.0, 1000.0, "s"), MIB: (1024.0, 1024.0, "GiB")}
# Units that are words, which have a plural.
_WORDS = {PODS: "pods", TIMES: "times", GPUS: "GPUs", KINDS: "kinds of errors", CORES: "cores"}


@dataclasses.dataclass(frozen=True)
class Measure:
    """A measure as a page speaks of it.

    :ivar title: its name, at most 34 characters.
    :ivar sentence: what it says of the candidate; ``{}`` stands for the amount.
    :ivar unit: one of those above; ``group``, one of GROUPS.
    :ivar timed: whether a busy machine makes it worse.
    """

    title: str
    sentence: str
    unit: str
    group: str
    timed: bool = False


MEASURES = {
    "bind_p50": Measure("Half of the pods placed within", "Half of the pods were placed within {}", SECONDS, WAITING, True),
    "bind_p95": Measure("95 of 100 pods placed within", "95 of 100 pods were placed within {}", SECONDS, WAITING, True),
    "bind_p99": Measure("99 of 100 pods placed within", "99 of 100 pods were placed within {}", SECONDS, WAITING, True),
    "unbound": Measure("Pods that never got a node", "At the end, {} still waited for a node", PODS, WAITING),
    "evicted": Measure("How often pods lost their node", "Pods lost their node {}", TIMES, WAITING),
    "idle_gpus": Measure("GPUs idle while pods wait", "On average, {} were idle while pods waited", GPUS, USE),
    "fragmented_gpus": Measure("GPUs idle on nodes in use", "On average, {} were idle on nodes in use", GPUS, USE),
    "unfairness": Measure("Distance from the fair share", "On average, a queue was {} away from its fair share", GPUS, USE),
    "log_errors": Measure("Errors in the logs", "KAI Scheduler logged {}", KINDS, SCHEDULER),
    "cycle_p95": Measure("A cycle of the scheduler", "95 of 100 cycles took at most {}", MILLISECONDS, SCHEDULER, True),
    "scheduler_cpu": Measure("CPU of the scheduler", "The scheduler used {} on average", CORES, SCHEDULER, True),
    "scheduler_memory": Measure("Memory of the scheduler", "The scheduler used at most {} of memory", MIB, SCHEDULER),
}
# Which of them the first screen shows, unless others are worse.
FIRST = ("bind_p50", "bind_p95", "unbound", "idle_gpus")


def first(comparisons: t.Sequence[Data]) -> list[Data]:
    """Return the comparisons for the first screen: what is worse, then the usual ones, four at most."""

    def rank(one: Data) -> tuple[int, int]:
        order = {WORSE: 0, ABOVE: 2}.get(judgement(one), 3)
        usual = FIRST.index(one["name"]) if one["name"] in FIRST else len(FIRST)
        return (order if usual == len(FIRST) else min(order, 1)), usual

    return sorted(comparisons, key=rank)[: len(FIRST)]


def median(one: Data, side: str) -> str:
    """Return the amount of the round in the middle, with its unit."""
    return amount(statistics.median(one[side]), MEASURES[one["name"]].unit)


def spread(one: Data, side: str) -> str:
    """Return the lowest and the highest round, with their unit."""
    unit = MEASURES[one["name"]].unit
    least, most = (amount(value, unit) for value in (min(one[side]), max(one[side])))
    if least == most:
        return least
    number, space, named = least.partition(_SPACE)
    return f"{number if most.endswith(f'{space}{named}') else least} to {most}"


def sentence(one: Data, names: t.Sequence[str]) -> str:
    """Return what a measure says: "Half of the pods were placed within 1.2 s (1.4 s with v0.13.1)."

    :arg names: of the baseline and the candidate.
    """
    said = MEASURES[one["name"]].sentence.format(median(one, "candidate"))
    return f"{said} ({median(one, 'baseline')} with {names[0]})."


def amount(value: float, unit: str) -> str:
    """Return an amount as people read it: 0.13 cores, 1.2 s, 14 s, 1 pod, 1.5 GiB."""
    least, parts, larger = _LARGER.get(unit, (math.inf, 1.0, unit))
    if value >= least:
        value, unit = value / parts, larger
    number = digits(value)
    return f"{number}{_SPACE}{unit if number == '1' else _WORDS.get(unit, unit)}"


def digits(value: float) -> str:
    """Return a number with two significant digits at least, and none behind the point from ten on."""
    value = round(value, 3)
    if value and abs(value) < 1:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}".removesuffix(".0")
