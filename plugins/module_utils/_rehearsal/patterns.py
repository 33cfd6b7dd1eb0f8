# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Generated traces: named patterns of work, the same ones for the same seed."""

from __future__ import annotations

import math
import random
import typing as t

from .._common.errors import did_you_mean, refusal
from .._common.values import JsonObject
from .model import Nodes, Trace, Workload, workload

# Of fractions: with four, or with six of pods half as long, a quarter of the rounds or more showed no reservation that was lost (#1103).
_BURSTS = 8


class Cluster(t.NamedTuple):
    """What a pattern is made for.

    :ivar gpus: GPU devices in all; ``span``, seconds.
    :ivar a_node: GPU devices of the largest node.
    """

    gpus: int
    a_node: int
    span: float


def generate(pattern: str, nodes: t.Sequence[Nodes], span: float, seed: int) -> Trace:
    """Return a trace of a pattern, for a cluster of these nodes.

    :arg span: length, in seconds.
    :raises TenancyError: where there is no such pattern, or the nodes have no GPUs.
    """
    if pattern not in PATTERNS:
        raise refusal(
            "not-a-choice", f"pattern: {pattern}: unknown.{did_you_mean(pattern, PATTERNS)} Known are {', '.join(PATTERNS)}."
        )
    cluster = Cluster(sum(shape.count * shape.gpus for shape in nodes), max((shape.gpus for shape in nodes), default=0), span)
    if not cluster.gpus:
        raise refusal("too-few-gpus", "nodes: none of them has GPUs, so that there is nothing to schedule.")
    queues, workloads = PATTERNS[pattern](cluster, random.Random(f"{pattern} {seed}"))  # noqa: S311 - to be repeated
    ordered = sorted(workloads, key=lambda item: item.arrives)
    return Trace(span, tuple(nodes), queues, {}, tuple(ordered))


def _tree(cluster: Cluster, *leaves: JsonObject) -> list[JsonObject]:
    """Return queues below one root: before v0.13, KAI Scheduler schedules only in queues on the second level."""
    return [_queue("all", cluster.gpus, children=list(leaves))]


def _queue(name: str, quota: float, weight: int = 1, limit: float | None = None, **more: t.Any) -> JsonObject:
    gpu = {"quota": quota, "over_quota_weight": weight} | ({} if limit is None else {"limit": limit})
    return {"name": name, "gpu": gpu} | more


def _arrivals(chance: random.Random, span: float, each: float) -> t.Iterator[float]:
    """Return moments of a Poisson process, in seconds, one each so many seconds on average."""
    moment = chance.expovariate(1 / each)
    while moment < span:
        yield math.floor(moment * 10) / 10
        moment += chance.expovariate(1 / each)


def _lasting(chance: random.Random, seconds: float) -> float:
    """Return a time to run of so many seconds on average; a few run for much longer, as jobs do."""
    return round(min(chance.lognormvariate(-0.5, 1.0) * seconds, 10 * seconds), 1)


def _load(cluster: Cluster, gpus: float, seconds: float, share: float) -> float:
    """Return how many seconds apart jobs of so many GPUs and seconds arrive that keep a share of the cluster busy."""
    return gpus * seconds / (share * cluster.gpus)


def _research(cluster: Cluster, chance: random.Random) -> tuple[list[JsonObject], list[Workload]]:
    """A research team's mix: notebooks on parts of GPUs, trials with one GPU, now and then a training with a node's GPUs."""
    half = cluster.gpus / 2
    queues = _tree(cluster, _queue("training", half, 2), _queue("notebooks", half / 2, limit=half))
    seconds = cluster.span / 5
    work = [
        *(
            workload(f"notebook-{n}", "notebooks", arrives=at, runs=_lasting(chance, seconds), gpus=chance.choice([0.25, 0.5]))
            for n, at in enumerate(_arrivals(chance, cluster.span, _load(cluster, 0.4, seconds, 0.2)))
        ),
        *(
            workload(f"trial-{n}", "training", arrives=at, runs=_lasting(chance, seconds), gpus=1)
            for n, at in enumerate(_arrivals(chance, cluster.span, _load(cluster, 1, seconds, 0.4)))
        ),
        *(
            workload(f"training-{n}", "training", arrives=at, runs=_lasting(chance, seconds), gpus=cluster.a_node)
            for n, at in enumerate(_arrivals(chance, cluster.span, _load(cluster, cluster.a_node, seconds, 0.3)))
        ),
    ]
    return queues, work


def _fractions(cluster: Cluster, chance: random.Random) -> tuple[list[JsonObject], list[Workload]]:
    """Bursts of short pods with parts of GPUs, which come at once and ask for less than half of the GPUs each time."""
    # Long enough to be at work when the next burst comes, which is when a lost reservation shows.
    seconds = cluster.span / 5
    work = []
    for burst in range(_BURSTS):
        arrives = round(burst * cluster.span / _BURSTS, 1)
        for number in range(cluster.gpus):
            part = chance.choice([0.25, 0.5, 0.5])
            work.append(
                workload(f"burst-{burst}-{number}", "notebooks", arrives=arrives, runs=_lasting(chance, seconds), gpus=part)
            )
    return _tree(cluster, _queue("notebooks", cluster.gpus)), work


def _gangs(cluster: Cluster, chance: random.Random) -> tuple[list[JsonObject], list[Workload]]:
    """Trainings of several pods that start together, two teams, more than the cluster holds at once."""
    seconds = cluster.span / 5
    work = []
    for team in ("vision", "speech"):
        each = _load(cluster, cluster.gpus / 3, seconds, 0.6)
        for number, at in enumerate(_arrivals(chance, cluster.span, each)):
            pods = chance.choice([2, 2, 4])
            gpus = max(1, round(cluster.gpus / 3 / pods))
            given = {"pods": pods, "together": pods, "gpus": min(gpus, cluster.a_node)}
            work.append(workload(f"{team}-{number}", team, arrives=at, runs=_lasting(chance, seconds), **given))
    half = cluster.gpus / 2
    return _tree(cluster, _queue("vision", half), _queue("speech", half)), work


def _inference(cluster: Cluster, chance: random.Random) -> tuple[list[JsonObject], list[Workload]]:
    """Services that never end and hold a third of the GPUs, in whole and in part, beside short trials."""
    third = max(1, cluster.gpus // 3)
    seconds = cluster.span / 10
    services = [workload(f"service-{n}", "serving", gpus=chance.choice([0.5, 0.5, 1])) for n in range(third)]
    trials = [
        workload(f"trial-{n}", "trials", arrives=at, runs=_lasting(chance, seconds), gpus=1)
        for n, at in enumerate(_arrivals(chance, cluster.span, _load(cluster, 1, seconds, 0.7)))
    ]
    return _tree(cluster, _queue("serving", third, limit=third), _queue("trials", cluster.gpus - third)), [*services, *trials]


def _reclaim(cluster: Cluster, chance: random.Random) -> tuple[list[JsonObject], list[Workload]]:
    """One team uses what another one leaves, until the other comes back for its quota."""
    half = cluster.gpus // 2
    early = [
        workload(f"guest-{n}", "guests", arrives=round(chance.uniform(0, cluster.span / 10), 1), gpus=1)
        for n in range(cluster.gpus)
    ]
    late = [
        workload(f"owner-{n}", "owners", arrives=round(cluster.span / 3 + chance.uniform(0, cluster.span / 10), 1), gpus=1)
        for n in range(half)
    ]
    return _tree(cluster, _queue("guests", cluster.gpus - half), _queue("owners", half)), [*early, *late]


def _nearly_full(cluster: Cluster, chance: random.Random) -> tuple[list[JsonObject], list[Workload]]:
    """A cluster that is nearly full, in which jobs of all sizes take what is left, and large ones wait for a node."""
    seconds = cluster.span / 10
    full = max(1, math.floor(cluster.gpus * 0.7))
    filling = [workload(f"long-{n}", "long", gpus=1) for n in range(full)]
    sizes = [size for size in (1, 2, 4, 8) if size <= cluster.a_node]
    jobs = [
        workload(f"job-{n}", "jobs", arrives=at, runs=_lasting(chance, seconds), gpus=chance.choice(sizes))
        for n, at in enumerate(_arrivals(chance, cluster.span, _load(cluster, sum(sizes) / len(sizes), seconds, 0.3)))
    ]
    return _tree(cluster, _queue("long", full), _queue("jobs", cluster.gpus - full)), [*filling, *jobs]


PATTERNS: dict[str, t.Callable[[Cluster, random.Random], tuple[list[JsonObject], list[Workload]]]] = {
    "research": _research,
    "fractions": _fractions,
    "gangs": _gangs,
    "inference": _inference,
    "reclaim": _reclaim,
    "nearly_full": _nearly_full,
}
