# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is measured of a round while it is played: GPUs that are held, idle or divided unfairly, over time. Pure."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from .._queues.values import Queue, ancestors, leaves
from .look import Look, Setting


@dataclasses.dataclass(frozen=True)
class Sample:
    """One observation: GPU devices that pods hold, by queue, and pods that have a node, and that wait for one."""

    at: float
    gpus: dict[str, float]
    bound: int
    waiting: int


class Measures:
    """What the looks at one round add up to."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.samples: list[Sample] = []
        # When; GPUs that are free while pods wait; GPUs that are free on nodes of which other GPUs are taken.
        self._idle: list[tuple[float, float, float]] = []
        self._unfair: list[float] = []

    def observe(self, at: float, look: Look) -> None:
        """Take in a look.

        :arg at: seconds since the round began.
        """
        setting = self._setting
        held = setting.by_queue(look.placed)
        self.samples.append(Sample(at, held, len(look.placed), len(look.waiting)))
        taken = setting.booked(look.placed)
        free = {name: gpus - taken[name] for name, gpus in setting.gpus.items()}
        idle = 1.0 * sum(free.values()) if look.waiting else 0.0
        self._idle.append((at, idle, 1.0 * sum(gpus for name, gpus in free.items() if taken[name] > 0)))
        asked = setting.by_queue([*look.placed, *look.waiting])
        if fair := fair_shares(setting.queues, asked, sum(setting.gpus.values())):
            self._unfair.append(sum(abs(fair[name] - held.get(name, 0.0)) for name in fair) / len(fair))

    def values(self) -> dict[str, float]:
        """Return the means over the round, by name."""
        unfair = sum(self._unfair) / len(self._unfair) if self._unfair else 0.0
        return {"idle_gpus": self._mean(1), "fragmented_gpus": self._mean(2), "unfairness": unfair}

    def _mean(self, column: int) -> float:
        """Return the mean over time of a column of what was idle."""
        pairs = list(zip(self._idle, self._idle[1:]))
        seconds = sum(after[0] - before[0] for before, after in pairs)
        return sum(before[column] * (after[0] - before[0]) for before, after in pairs) / seconds if seconds else 0.0


def fair_shares(queues: t.Mapping[str, Queue], asked: t.Mapping[str, float], gpus: float) -> dict[str, float]:
    """Return the GPU devices that each leaf queue is to have.

    First each gets its quota; what is left is shared by over-quota weight, level by level from the roots down; none gets more than
    its limit or than its pods ask for. So KAI Scheduler documents it (docs/fairness).

    :arg asked: what the pods of each leaf queue ask for, placed and waiting, in GPU devices.
    """
    demand = dict.fromkeys(queues, 0.0)
    for leaf in leaves(queues):
        for queue in ancestors(queues, leaf.name):
            demand[queue.name] += asked.get(leaf.name, 0.0)
    shares: dict[str, float] = {}
    parents: list[tuple[str | None, float]] = [(None, gpus)]
    while parents:
        parent, amount = parents.pop()
        below = [queue for queue in queues.values() if queue.parent == parent]
        divided = _divide(below, demand, amount)
        shares |= divided
        parents += divided.items()
    return {leaf.name: shares.get(leaf.name, 0.0) for leaf in leaves(queues)}


def _divide(queues: t.Sequence[Queue], demand: t.Mapping[str, float], amount: float) -> dict[str, float]:
    """Divide GPUs among queues of one parent."""
    most = {}
    for queue in queues:
        limit = gpu_setting(queue, "limit", -1.0)
        most[queue.name] = min(demand[queue.name], limit if limit >= 0 else math.inf)
    quotas = {queue.name: gpu_setting(queue, "quota", 0.0) for queue in queues}
    shares = {name: min(most[name], quota if quota >= 0 else math.inf) for name, quota in quotas.items()}
    left = amount - sum(shares.values())
    weights = {queue.name: max(0.0, gpu_setting(queue, "overQuotaWeight", 1.0)) for queue in queues}
    while left > 1e-9:
        hungry = {name: weights[name] for name in shares if most[name] - shares[name] > 1e-9 and weights[name]}
        if not hungry:
            break
        whole = sum(hungry.values())
        given = {name: min(left * weight / whole, most[name] - shares[name]) for name, weight in hungry.items()}
        for name, more in given.items():
            shares[name] += more
        left -= sum(given.values())
    return shares


def gpu_setting(queue: Queue, key: str, default: float) -> float:
    """Return what a queue says of GPUs under a key; the default where it says nothing."""
    value = ((queue.spec.get("resources") or {}).get("gpu") or {}).get(key)
    return default if value is None else value * 1.0


def percentile(ordered: t.Sequence[float], part: int) -> float:
    """Return the smallest value that so many percent of all do not exceed; there is one at least."""
    return round(ordered[-(-len(ordered) * part // 100) - 1], 3)
