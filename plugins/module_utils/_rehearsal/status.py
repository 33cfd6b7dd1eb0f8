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

import collections
import dataclasses
import math
import typing as t

from .._common.names import GPU_MEMORY_LABEL, POD_GROUP_NOTE, RESERVATION_APP, RESERVED_GPU_NOTE
from .._common.ownership import annotations_of, labels_of
from .._common.pods import ENDED, unscheduled
from .._common.quantity import plain
from .._common.values import JsonObject
from .._kai.status import scheduling_reasons
from .._nodes.status import gpu_groups, gpus_of, offered, part_of_gpu, untolerated
from .._queues.values import Queue, ancestors, leaves
from .facts import EXPLAINED, GRACE, KEPT, ONE_OWNER, PLACEMENT, POD_LABEL, RESERVED, WHOLE_GROUPS, WITHIN_LIMITS, WORKLOAD_LABEL
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
class Sample:
    """One observation: GPU devices that pods hold, by queue, and pods that have a node, and that wait for one."""

    at: float
    gpus: dict[str, float]
    bound: int
    waiting: int


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
    """What was seen of one pod that was submitted, under whatever name it is there now.

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
        self._scheduler = scheduler
        self._workloads = {workload.name: workload for workload in trace.workloads}
        self._together = trace.together
        self._queues = queues
        self._nodes = {node["metadata"]["name"]: node for node in nodes}
        self._gpus = {name: offered(node) for name, node in self._nodes.items()}
        self._pods: dict[str, _Pod] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._violations: dict[tuple[str, str], Violation] = {}
        self._samples: list[Sample] = []
        self._idle: list[tuple[float, float, float]] = []
        self._unfair: list[float] = []
        self._last: dict[str, JsonObject] = {}
        # Pods that were at work and are gone: when that was seen, their names and groups.
        self._ended_early: list[tuple[float, str, str]] = []

    def observe(self, at: float, pods: t.Sequence[JsonObject]) -> None:
        """Take in all pods of the cluster.

        :arg at: seconds since the round began.
        """
        mine = [pod for pod in pods if labels_of(pod).get(WORKLOAD_LABEL) in self._workloads]
        reservations = [pod for pod in pods if labels_of(pod).get("app") == RESERVATION_APP]
        before, self._last = self._last, by_submitted_name(mine)
        for name, pod in self._last.items():
            self._follow(at, pod, before.get(name, {}))
        for name, known in self._pods.items():
            if name not in self._last and not known.ended and not known.gone:
                known.gone = True
                self._lose(at, known, before[name])
        placed = [pod for pod in mine if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ENDED]
        wrong = {*self._owners(placed, reservations), *self._unreserved(placed, reservations), *self._split(mine)}
        wrong |= {*self._above_limits(placed), *self._misplaced(placed), *self._spread_groups(placed)}
        self._note(at, wrong)
        self._measure(at, mine, placed)

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
        end = self._samples[-1].at if self._samples else 0.0
        violations += [
            Violation(EXPLAINED, end, f"{name} {self._state(name)}, and nothing says why")
            for name, why in sorted(unbound.items())
            if not why and end - self._pods[name].made >= GRACE[EXPLAINED]
        ]
        ordered = sorted(waits.values())
        measures = {f"bind_p{part}": percentile(ordered, part) for part in (50, 95, 99) if ordered}
        measures |= {"unbound": 1.0 * len(unbound), "evicted": 1.0 * sum(pod.evicted for pod in self._pods.values())}
        measures |= {"idle_gpus": self._mean(1), "fragmented_gpus": self._mean(2)}
        measures["unfairness"] = sum(self._unfair) / len(self._unfair) if self._unfair else 0.0
        return Round(tuple(violations), measures | dict(more or {}), tuple(self._samples), waits, unbound)

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

    # --- what has to hold --------------------------------------------------------------------------------------------

    def _owners(self, placed: list[JsonObject], reservations: list[JsonObject]) -> t.Iterator[tuple[str, str]]:
        """Yield GPUs with two owners: two groups on one device, more booked than a node has, more than a whole GPU in parts."""
        groups: dict[str, set[str]] = collections.defaultdict(set)
        booked: collections.Counter[str] = collections.Counter()
        for pod in reservations:
            if device := annotations_of(pod).get(RESERVED_GPU_NOTE):
                groups[f"{pod['spec'].get('nodeName')}/{device}"] |= gpu_groups(pod)
        for device, sharing in sorted(groups.items()):
            if len(sharing) > 1:
                yield ONE_OWNER, f"GPU {device} is reserved for {len(sharing)} groups of pods"
        for pod in placed:
            booked[pod["spec"]["nodeName"]] += gpus_of(pod["spec"])
        for (node, _group), parts in self._shares(placed).items():
            booked[node] += 1
            if sum(parts.values()) > 1 + 1e-6:
                yield (
                    ONE_OWNER,
                    f"a GPU of {node} is given to {', '.join(sorted(parts))}, which ask for more than one GPU together",
                )
        for node, count in sorted(booked.items()):
            if count > self._gpus.get(node, 0):
                yield ONE_OWNER, f"{count} GPUs of {node} are given out, and it has {self._gpus.get(node, 0)}"

    def _shares(self, placed: t.Iterable[JsonObject]) -> dict[tuple[str, str], dict[str, float]]:
        """Return the parts that pods have of each shared GPU, by its node and group, then by pod."""
        shares: dict[tuple[str, str], dict[str, float]] = collections.defaultdict(dict)
        for pod in placed:
            node = pod["spec"]["nodeName"]
            for group in gpu_groups(pod):
                shares[node, group][pod["metadata"]["name"]] = plain(part_of_gpu(pod, self._gpu_memory(node)))
        return shares

    def _gpu_memory(self, node: str) -> str:
        return labels_of(self._nodes.get(node)).get(GPU_MEMORY_LABEL, "")

    def _unreserved(self, placed: list[JsonObject], reservations: list[JsonObject]) -> t.Iterator[tuple[str, str]]:
        """Yield pods that share a GPU which nothing keeps from others (#1103)."""
        reserved = {
            (pod["spec"].get("nodeName"), group)
            for pod in reservations
            if RESERVED_GPU_NOTE in annotations_of(pod) and "deletionTimestamp" not in pod["metadata"]
            for group in gpu_groups(pod)
        }
        for pod in placed:
            if self._workloads[labels_of(pod)[WORKLOAD_LABEL]].shares_a_gpu:
                name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
                if not any((node, group) in reserved for group in gpu_groups(pod)):
                    yield RESERVED, f"{name} has part of a GPU of {node} that is not reserved: others can get it, too"

    def _split(self, mine: list[JsonObject]) -> t.Iterator[tuple[str, str]]:
        """Yield groups of which fewer pods are placed than have to be together."""
        placed: collections.Counter[str] = collections.Counter()
        ended: set[str] = set()
        for pod in mine:
            name = self._workloads[labels_of(pod)[WORKLOAD_LABEL]].group_name
            placed[name] += bool(pod["spec"].get("nodeName"))
            if pod["status"].get("phase") in ENDED:
                ended.add(name)
        for name, count in placed.items():
            if 0 < count < self._together[name] and name not in ended:
                yield WHOLE_GROUPS, f"{name} has {count} pods placed of {self._together[name]} that start together"

    def _above_limits(self, placed: list[JsonObject]) -> t.Iterator[tuple[str, str]]:
        used: dict[str, float] = collections.defaultdict(float)
        for leaf, gpus in self._by_queue(placed).items():
            for queue in ancestors(self._queues, leaf):
                used[queue.name] += gpus
        for name, gpus in sorted(used.items()):
            limit = _amount(self._queues[name], "limit", -1.0)
            if 0 <= limit < gpus - 1e-6:
                yield WITHIN_LIMITS, f"queue {name} holds {gpus:g} GPUs, and its limit is {limit:g}"

    def _misplaced(self, placed: list[JsonObject]) -> t.Iterator[tuple[str, str]]:
        for pod in placed:
            name, node = pod["metadata"]["name"], self._nodes.get(pod["spec"]["nodeName"])
            if (scheduler := pod["spec"].get("schedulerName")) != self._scheduler:
                yield PLACEMENT, f"{name} was left to the scheduler {scheduler}, and asked for {self._scheduler}"
            if node is None:
                yield PLACEMENT, f"{name} is on {pod['spec']['nodeName']}, which is no node of the trace"
                continue
            workload = self._workloads[labels_of(pod)[WORKLOAD_LABEL]]
            if not workload.node_selector.items() <= labels_of(node).items():
                yield PLACEMENT, f"{name} is on {node['metadata']['name']}, which has not the labels that it asks for"
            for taint in untolerated(node, pod["spec"].get("tolerations") or []):
                yield PLACEMENT, f"{name} is on {node['metadata']['name']}, whose taint {taint} it does not tolerate"

    def _spread_groups(self, placed: list[JsonObject]) -> t.Iterator[tuple[str, str]]:
        """Yield groups that have to be within one part of a topology, and are in several."""
        parts: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
        for pod in placed:
            workload = self._workloads[labels_of(pod)[WORKLOAD_LABEL]]
            if level := workload.topology_required:
                parts[workload.group_name, level].add(labels_of(self._nodes.get(pod["spec"]["nodeName"])).get(level, "none"))
        for (name, level), values in sorted(parts.items()):
            if len(values) > 1:
                yield PLACEMENT, f"{name} has to be within one {level}, and is in {', '.join(sorted(values))}"

    # --- what is measured --------------------------------------------------------------------------------------------

    def _measure(self, at: float, mine: list[JsonObject], placed: list[JsonObject]) -> None:
        waiting = [pod for pod in mine if not pod["spec"].get("nodeName") and pod["status"].get("phase") not in ENDED]
        by_queue = self._by_queue(placed)
        self._samples.append(Sample(at, by_queue, len(placed), len(waiting)))
        taken: collections.Counter[str] = collections.Counter()
        for pod in placed:
            taken[pod["spec"]["nodeName"]] += gpus_of(pod["spec"])
        for node, _group in self._shares(placed):
            taken[node] += 1
        free = {name: gpus - taken[name] for name, gpus in self._gpus.items()}
        idle = 1.0 * sum(free.values()) if waiting else 0.0
        self._idle.append((at, idle, 1.0 * sum(gpus for name, gpus in free.items() if taken[name] > 0)))
        asked: dict[str, float] = collections.defaultdict(float)
        for pod in [*placed, *waiting]:
            workload = self._workloads[labels_of(pod)[WORKLOAD_LABEL]]
            asked[workload.queue] += _gpus(pod, self._gpu_memory(pod["spec"].get("nodeName", "")))
        fair = fair_shares(self._queues, asked, sum(self._gpus.values()))
        if fair:
            self._unfair.append(sum(abs(fair[name] - by_queue.get(name, 0.0)) for name in fair) / len(fair))

    def _by_queue(self, placed: t.Iterable[JsonObject]) -> dict[str, float]:
        """Return the GPU devices that placed pods hold, by leaf queue."""
        used: dict[str, float] = collections.defaultdict(float)
        for pod in placed:
            workload = self._workloads[labels_of(pod)[WORKLOAD_LABEL]]
            used[workload.queue] += _gpus(pod, self._gpu_memory(pod["spec"]["nodeName"]))
        return dict(used)

    def _mean(self, column: int) -> float:
        """Return the mean over time of a column of what was idle."""
        pairs = list(zip(self._idle, self._idle[1:]))
        seconds = sum(after[0] - before[0] for before, after in pairs)
        return sum(before[column] * (after[0] - before[0]) for before, after in pairs) / seconds if seconds else 0.0


def by_submitted_name(pods: t.Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Return the pods of a round, of all pods, by the names under which they were submitted."""
    return {labels_of(pod)[POD_LABEL]: pod for pod in pods if POD_LABEL in labels_of(pod)}


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
        limit = _amount(queue, "limit", -1.0)
        most[queue.name] = min(demand[queue.name], limit if limit >= 0 else math.inf)
    quotas = {queue.name: _amount(queue, "quota", 0.0) for queue in queues}
    shares = {name: min(most[name], quota if quota >= 0 else math.inf) for name, quota in quotas.items()}
    left = amount - sum(shares.values())
    weights = {queue.name: max(0.0, _amount(queue, "overQuotaWeight", 1.0)) for queue in queues}
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


def _amount(queue: Queue, key: str, default: float) -> float:
    value = ((queue.spec.get("resources") or {}).get("gpu") or {}).get(key)
    return default if value is None else value * 1.0


def _gpus(pod: JsonObject, gpu_memory: str) -> float:
    """Return the GPU devices that a pod asks for, with parts."""
    return plain(gpus_of(pod["spec"]) + part_of_gpu(pod, gpu_memory))


def percentile(ordered: t.Sequence[float], part: int) -> float:
    """Return the smallest value that so many percent of all do not exceed; there is one at least."""
    return round(ordered[-(-len(ordered) * part // 100) - 1], 3)


def _why(pod: JsonObject) -> str:
    """Return what is said of a pod that has no node; empty where nothing is."""
    status = pod.get("status") or {}
    if condition := unscheduled(pod):
        return str(condition.get("message") or condition.get("reason") or "")
    return str(status.get("message") or status.get("reason") or "")


def _why_group(group: JsonObject) -> str:
    """Return what KAI's scheduler says last of a PodGroup that it does not place; empty where it says nothing."""
    return "; ".join(str(reason.get("message") or reason.get("reason")) for reason in scheduling_reasons(group))
