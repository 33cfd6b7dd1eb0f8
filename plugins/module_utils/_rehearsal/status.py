# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge one round of a trace while it is played: what did not hold, and what it measured. Pure.

A round is observed again and again; each observation is a listing of the API. What does not hold counts once it has lasted for longer
than the facts allow, because a listing shows a pod's placement in the middle of it, too.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import POD_GROUP_NOTE
from .._common.ownership import annotations_of, labels_of
from .._common.pods import ENDED, unscheduled
from .._common.values import JsonObject
from .._kai.status import scheduling_reasons
from .._queues.values import Queue
from .facts import EXPLAINED, GRACE, KEPT, POD_LABEL
from .invariants import broken
from .look import Look, Setting
from .measures import Measures, Sample, percentile
from .model import Trace


@dataclasses.dataclass(frozen=True)
class Violation:
    """An invariant that did not hold.

    :ivar invariant: one of facts.INVARIANTS; ``at``, seconds from the round's begin to the first observation of it.
    :ivar message: a sentence with the pods, queues or nodes it is about.
    """

    invariant: str
    at: float
    message: str


@dataclasses.dataclass(frozen=True)
class Round:
    """What came of a round.

    :ivar measures: by name, as in facts.THRESHOLDS, or further ones.
    :ivar waits: seconds that each pod waited for its node, by name.
    :ivar unbound: why each pod has no node at the end, by name.
    """

    violations: tuple[Violation, ...]
    measures: dict[str, float]
    samples: tuple[Sample, ...]
    waits: dict[str, float]
    unbound: dict[str, str]

    def data(self) -> JsonObject:
        """Return it as plain data."""
        return dataclasses.asdict(self)


@dataclasses.dataclass
class _Pod:
    """What was seen of one pod that was submitted, even if it has another name now.

    Since when it is there, and by this uid; when it first got a node, and how often it lost it.
    """

    since: float
    uid: str
    made: float
    bound: float | None = None
    ended: bool = False
    gone: bool = False
    evicted: int = 0


class Watch:
    """The observer of one round."""

    def __init__(self, trace: Trace, queues: t.Mapping[str, Queue], nodes: t.Sequence[JsonObject], scheduler: str) -> None:
        """Begin a round.

        :arg queues: the trace's tree; ``nodes``, its nodes as objects of the API.
        :arg scheduler: the name by which pods ask for KAI Scheduler.
        """
        self._setting = Setting.of(trace, queues, nodes, scheduler)
        self._measures = Measures(self._setting)
        self._pods: dict[str, _Pod] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._violations: dict[tuple[str, str], Violation] = {}
        self._last: dict[str, JsonObject] = {}
        # Pods that were at work and are gone: when that was seen, their names and groups.
        self._ended_early: list[tuple[float, str, str]] = []

    def observe(self, at: float, pods: t.Sequence[JsonObject]) -> None:
        """Take in all pods of the cluster.

        :arg at: seconds since the round began.
        """
        look = Look.at(pods, self._setting)
        before, self._last = self._last, by_submitted_name(look.mine)
        for name, pod in self._last.items():
            self._follow(at, pod, before.get(name, {}))
        for name, known in self._pods.items():
            if name not in self._last and not known.ended and not known.gone:
                known.gone = True
                self._lose(at, known, before[name])
        self._note(at, broken(look, self._setting))
        self._measures.observe(at, look)

    def result(
        self,
        more: t.Mapping[str, float] | None = None,
        evicted: t.Container[str] = (),
        groups: t.Iterable[JsonObject] = (),
    ) -> Round:
        """Return what came of the round.

        :arg more: further measures.
        :arg evicted: names of the PodGroups of which KAI's scheduler says that it evicted pods.
        :arg groups: the PodGroups at the end.
        """
        said = {group["metadata"]["name"]: _why_group(group) for group in groups}
        waits = {name: pod.bound - pod.since for name, pod in self._pods.items() if pod.bound is not None}
        unbound = {
            name: _why(pod) or said.get(annotations_of(pod).get(POD_GROUP_NOTE, ""), "")
            for name, pod in self._last.items()
            if not pod["spec"].get("nodeName")
        }
        early = [
            Violation(KEPT, at, f"{name} was at work and was deleted, and the scheduler did not evict it")
            for at, name, group in self._ended_early
            if group not in evicted
        ]
        violations = sorted([*self._violations.values(), *early], key=lambda one: (one.at, one.invariant, one.message))
        samples = self._measures.samples
        end = samples[-1].at if samples else 0.0
        violations += [
            Violation(EXPLAINED, end, f"{name} {self._state(name)}, and nothing says why")
            for name, why in sorted(unbound.items())
            if not why and end - self._pods[name].made >= GRACE[EXPLAINED]
        ]
        ordered = sorted(waits.values())
        measures = {f"bind_p{part}": percentile(ordered, part) for part in (50, 95, 99) if ordered}
        measures |= {"unbound": 1.0 * len(unbound), "evicted": 1.0 * sum(pod.evicted for pod in self._pods.values())}
        measures |= self._measures.values()
        return Round(tuple(violations), measures | dict(more or {}), tuple(samples), waits, unbound)

    def _state(self, name: str) -> str:
        """Return what a pod without a node does."""
        phase = self._last[name]["status"].get("phase")
        return f"has {phase.lower()} without a node" if phase in ENDED else "waits"

    def _lose(self, at: float, known: _Pod, pod: JsonObject) -> None:
        """Note that a pod is gone before its end.

        :arg pod: as it was seen last.
        """
        known.evicted += 1
        if pod["spec"].get("nodeName"):
            self._ended_early.append((at, labels_of(pod)[POD_LABEL], annotations_of(pod).get(POD_GROUP_NOTE, "")))

    def _follow(self, at: float, pod: JsonObject, before: JsonObject) -> None:
        name, uid = labels_of(pod)[POD_LABEL], pod["metadata"]["uid"]
        known = self._pods.setdefault(name, _Pod(at, uid, at))
        if known.uid != uid:
            # Made anew after an eviction between two observations.
            if not known.gone and not known.ended:
                self._lose(at, known, before)
            known.uid, known.made, known.gone = uid, at, False
        if pod["spec"].get("nodeName") and known.bound is None:
            known.bound = at
        known.ended = pod["status"].get("phase") in ENDED

    def _note(self, at: float, wrong: set[tuple[str, str]]) -> None:
        """Keep what has been wrong for long enough."""
        self._since = {key: self._since.get(key, at) for key in wrong}
        for (invariant, what), since in self._since.items():
            if at - since >= GRACE[invariant]:
                self._violations.setdefault((invariant, what), Violation(invariant, since, what))


def by_submitted_name(pods: t.Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Return the pods of a round, of all pods, by the names under which they were submitted."""
    return {labels_of(pod)[POD_LABEL]: pod for pod in pods if POD_LABEL in labels_of(pod)}


def _why(pod: JsonObject) -> str:
    """Return what is said of a pod that has no node; empty where nothing is."""
    status = pod.get("status") or {}
    if condition := unscheduled(pod):
        return str(condition.get("message") or condition.get("reason") or "")
    return str(status.get("message") or status.get("reason") or "")


def _why_group(group: JsonObject) -> str:
    """Return what KAI's scheduler says last of a PodGroup that it does not place; empty where it says nothing."""
    return "; ".join(str(reason.get("message") or reason.get("reason")) for reason in scheduling_reasons(group))
