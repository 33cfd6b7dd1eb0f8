# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Record what a cluster has to schedule as a trace, without names of people's work, images, commands or variables.

What is kept of a pod: its queue, requests, node selector, tolerations and priority class, when it came, when it ran, and which
other pods it starts with. Names become digests, unless they are asked for. Names of queues, priority classes,
and labels of nodes are kept: they are what a rehearsal is about.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import hashlib
import json
import math
import re
import typing as t

from .._common.names import DEFAULT_QUEUE, FRACTION_NOTE, GPU_MEMORY_LABEL, MEMORY_NOTE, POD_GROUP_NOTE, QUEUE_LABEL
from .._common.ownership import annotations_of, labels_of
from .._common.parties import Unread, each
from .._common.pods import held_by, is_ended
from .._common.quantity import number, plain, quantity, whole
from .._common.text import shown
from .._common.values import JsonObject, moment
from .._nodes.status import gpus_of, offered, part_of_gpu
from .._queues.validation import parse
from .._queues.values import Queue, children_of, from_live, leaves, readable, written
from . import model

T = t.TypeVar("T")
# Namespace and name.
Key = tuple[str, str]

# Labels of nodes that topologies and pods of GPU clusters look at; others are kept where a pod's node selector names them.
NODE_LABELS = ("nvidia.com/", "topology.kubernetes.io/", "node.kubernetes.io/instance-type")
# Taints that say how a node is at the moment, rather than whom it is for.
PASSING_TAINTS = ("node.kubernetes.io/",)
# What stands for the PodGroup of a pod that has none, before its name; no name of an object has a space.
_ALONE = "pod "
# Characters of a plain name, which a digest follows: validation allows 52 in all, and there may be a number.
_NAME_LENGTH = 34


@dataclasses.dataclass(frozen=True)
class Seen:
    """What is recorded of a pod.

    :ivar group: namespace and name of its PodGroup, or of the pod where it has none.
    :ivar asked: what it asks for, as fields of a workload.
    :ivar ended: None where it still is at work, or waits.
    :ivar runs: seconds for which it ran; 0 where it did not end, or never ran.
    """

    group: Key
    queue: str
    asked: JsonObject
    created: datetime.datetime
    ended: datetime.datetime | None
    runs: float


class Recorder:
    """Observes what a cluster has to schedule, once or again and again."""

    def __init__(self, scheduler: str, plain_names: bool = False) -> None:
        """Observe pods that ask for KAI Scheduler by this name.

        :arg plain_names: keep their namespaces and names, too.
        """
        self._scheduler = scheduler
        self._plain_names = plain_names
        self._pods: dict[str, JsonObject] = {}
        self._gone: dict[str, datetime.datetime] = {}
        self._groups: dict[Key, JsonObject] = {}
        self._unread: dict[str, Unread] = {}

    @property
    def count(self) -> int:
        """How many pods were seen."""
        return len(self._pods)

    @property
    def unread(self) -> list[Unread]:
        """What could not be read, and is not in the trace."""
        return list(self._unread.values())

    def _each(self, items: t.Iterable[JsonObject], kind: str, read: t.Callable[[JsonObject], T]) -> list[T]:
        """Return what is read of each object; one that has not the form of its kind is left out, and noted."""
        found, unread = each(items, lambda item: f"{kind} {'/'.join(filter(None, _key(item)))}", read)
        self._note(unread)
        return found

    def _note(self, unread: t.Iterable[Unread]) -> None:
        self._unread |= {one.what: one for one in unread}

    def observe(self, now: datetime.datetime, pods: t.Iterable[JsonObject], groups: t.Iterable[JsonObject]) -> None:
        """Take in all pods, and PodGroups, of the cluster at a moment."""
        there = {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"].get("schedulerName") == self._scheduler}
        for uid in self._pods.keys() - there.keys() - self._gone.keys():
            self._gone[uid] = now
        self._pods |= there
        self._groups |= dict(self._each(groups, "PodGroup", lambda group: (_key(group), _constraints(group))))

    def trace(
        self,
        start: datetime.datetime,
        end: datetime.datetime,
        nodes: t.Iterable[JsonObject],
        queues: t.Iterable[JsonObject],
        priority_classes: t.Iterable[JsonObject],
        topologies: t.Iterable[JsonObject] = (),
    ) -> model.Trace:
        """Return what was there to be scheduled between two moments.

        Pods that were there before are submitted at once. Pods that still ran at the end do not end.
        """
        tree = self._queues(queues)
        leaf_names = {queue.name for queue in leaves(tree)}
        levels = dict(self._each(topologies, "Topology", _levels))
        seen = self._each(self._pods.values(), "pod", lambda pod: self._seen(pod, tree, leaf_names))
        seen = [one for one in seen if one.ended is None or one.ended > start]
        workloads = self._workloads(seen, levels, start)
        selected = {key for one in seen for key in one.asked["node_selector"]}
        selected |= {label for labels in levels.values() for label in labels}
        named = {workload.priority_class for workload in workloads}
        classes = [item for item in sorted(priority_classes, key=_key) if item["metadata"]["name"] in named]
        return model.Trace(
            (end - start).total_seconds(),
            _shapes(self._each(nodes, "node", lambda node: _shape(node, selected))),
            [written(queue) for _name, queue in sorted(tree.items())],
            dict(self._each(classes, "PriorityClass", lambda item: (item["metadata"]["name"], whole(item["value"])))),
            tuple(workloads),
            levels,
        )

    def _queues(self, objects: t.Iterable[JsonObject]) -> dict[str, Queue]:
        """Return the queues that a rehearsal can make again: a root leads to each, and its amounts go together."""
        readable_ones, unread = readable(objects)
        self._note(unread)

        def checked(item: JsonObject) -> JsonObject:
            queue = from_live([item])[item["metadata"]["name"]]
            parse([{key: value for key, value in written(queue).items() if key != "parent"}])
            return item

        known = from_live(self._each(readable_ones, "queue", checked))
        below = children_of(known)
        reached = list(below.get(None, []))
        for queue in reached:
            reached += below.get(queue.name, [])
        tree = {queue.name: queue for queue in reached}
        self._note(Unread(f"queue {name}", "no root leads to it") for name in known.keys() - tree.keys())
        return tree

    def _seen(self, pod: JsonObject, tree: t.Container[str], leaf_names: t.Container[str]) -> Seen:
        """Return what is recorded of a pod.

        :raises ValueError: and others, where it cannot be read, or is in no queue that places pods.
        """
        queue, group = self._queue(pod, tree, leaf_names), _group(pod)
        return Seen(group, queue, _asked(pod), _created(pod), self._ended(pod), self._runs(pod))

    def _workloads(
        self, seen: t.Sequence[Seen], levels: t.Mapping[str, list[str]], start: datetime.datetime
    ) -> list[model.Workload]:
        """Return the pods as workloads: those of a PodGroup that are alike make one."""
        alike: dict[tuple[Key, str], list[Seen]] = collections.defaultdict(list)
        first: dict[Key, Seen] = {}
        for each_seen in sorted(seen, key=lambda one: one.created):
            # A group is in one queue, of one class.
            of_group = first.setdefault(each_seen.group, each_seen)
            same = {"priority_class": of_group.asked["priority_class"]}
            one = dataclasses.replace(each_seen, queue=of_group.queue, asked=each_seen.asked | same)
            alike[one.group, json.dumps(one.asked, sort_keys=True)].append(one)
        kinds = collections.Counter(group for group, _shape in alike)
        found = []
        numbers: collections.Counter[Key] = collections.Counter()
        left = {group: self._least(group) - count for group, count in kinds.items()}
        for (group, _shape), members in sorted(alike.items(), key=lambda item: (item[1][0].created, item[0])):
            # One of each kind, and of the kinds in their order as many more as it takes.
            more = max(0, min(left[group], len(members) - 1))
            left[group] -= more
            numbers[group] += 1
            named = self._name(group)
            given = {
                "arrives": round(max(0.0, (first[group].created - start).total_seconds()), 1),
                "runs": max(one.runs for one in members),
                "pods": len(members),
                "together": 1 + more,
                "group": named if kinds[group] > 1 else "",
            } | self._topology(group, levels)
            name = named if kinds[group] == 1 else f"{named}-{numbers[group]}"
            found.append(model.workload(name, members[0].queue, **given, **members[0].asked))
        return found

    def _name(self, group: Key) -> str:
        """Return a name for the pods of a group: a digest, by which a reader who knows its name finds it again."""
        digest = _digest("/".join(group))
        if not self._plain_names:
            return digest
        namespace, name = group
        readable = re.sub("[^a-z0-9-]", "-", f"{namespace}-{name.removeprefix(_ALONE)}")[:_NAME_LENGTH]
        return f"{readable.strip('-')}-{digest}"

    def _least(self, group: Key) -> int:
        """Return how many pods of a group start together."""
        return t.cast(int, self._groups.get(group, {}).get("least", 1))

    def _topology(self, group: Key, levels: t.Mapping[str, list[str]]) -> dict[str, str]:
        """Return what a group asks for by a Topology that there is."""
        asked = dict.fromkeys(("topology", "topology_required", "topology_preferred"), "") | self._groups.get(group, {}).get(
            "near", {}
        )
        known = levels.get(asked["topology"], [])
        return {name: value if (name == "topology" and known) or value in known else "" for name, value in asked.items()}

    def _queue(self, pod: JsonObject, tree: t.Container[str], leaf_names: t.Container[str]) -> str:
        """Return a pod's queue; KAI Scheduler's default one where it names none, or one that does not exist.

        :raises ValueError: where that places no pods.
        """
        of_group = self._groups.get(_group(pod), {}).get("queue")
        name = str(of_group or labels_of(pod).get(QUEUE_LABEL) or DEFAULT_QUEUE)
        name = name if name in tree else DEFAULT_QUEUE
        if name not in leaf_names:
            raise ValueError(f"it is in queue {shown(name)}, which is no leaf queue that can be read")
        return name

    def _ended(self, pod: JsonObject) -> datetime.datetime | None:
        """Return when a pod ended, or was gone; None where it still is at work, or waits."""
        statuses = (pod.get("status") or {}).get("containerStatuses") or []
        states = [(status.get("state") or {}).get("terminated") or {} for status in statuses]
        # Null for a container of which kubelet knows nothing any more (ContainerStatusUnknown).
        ends = [state["finishedAt"] for state in states if state.get("finishedAt")]
        if is_ended(pod) and ends:
            return moment(max(ends))
        return self._gone.get(pod["metadata"]["uid"])

    def _runs(self, pod: JsonObject) -> float:
        """Return for how many seconds a pod ran; 0 where it did not end, or never ran."""
        ended = self._ended(pod)
        began = (pod.get("status") or {}).get("startTime")
        return round(max(1.0, (ended - moment(began)).total_seconds()), 1) if ended and began else 0.0


def _asked(pod: JsonObject) -> JsonObject:
    """Return what a pod asks for, as fields of a workload."""
    spec, notes = pod["spec"], annotations_of(pod)
    amounts = {resource: held_by(spec, resource, ("requests", "limits")) for resource in ("cpu", "memory")}
    part = part_of_gpu({"metadata": {"annotations": {FRACTION_NOTE: notes.get(FRACTION_NOTE, "0")}}}, "")
    memory = whole(notes.get(MEMORY_NOTE, "0"))
    return {
        "gpus": 0 if memory else plain(part) if part else gpus_of(spec),
        "gpu_memory": memory,
        "cpu": f"{round(amounts['cpu'] * 1000)}m",
        "memory": f"{round(amounts['memory'] / 2**20)}Mi",
        # KAI Scheduler takes the class from the label before that of the pod.
        "priority_class": labels_of(pod).get("priorityClassName") or spec.get("priorityClassName") or "",
        "node_selector": spec.get("nodeSelector") or {},
        "tolerations": [one for one in spec.get("tolerations") or [] if not str(one.get("key", "")).startswith(PASSING_TAINTS)],
    }


def _constraints(group: JsonObject) -> JsonObject:
    """Return what is kept of a PodGroup: ``least``, the pods that start together, its ``queue`` and topology, ``near``.

    :raises ValueError: and others, where it has not the form of one.
    """
    spec = group.get("spec") or {}
    constraint = spec.get("topologyConstraint") or {}
    keys = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
    names = ("topology", "topology_required", "topology_preferred")
    return {
        "least": whole(spec.get("minMember") or 1),
        "queue": spec.get("queue") or "",
        "near": {name: str(constraint.get(key) or "") for key, name in zip(keys, names)},
    }


def _levels(topology: JsonObject) -> tuple[str, list[str]]:
    """Return the labels of nodes that are the levels of a Topology, by its name.

    :raises KeyError: and others, where it has none.
    """
    levels = [str(level["nodeLabel"]) for level in topology["spec"]["levels"]]
    if not levels:
        raise ValueError("it has no levels")
    return topology["metadata"]["name"], levels


def _shape(node: JsonObject, selected: t.Container[str]) -> str | None:
    """Return what is kept of a node as JSON; None of one that takes no pods."""
    spec, allocatable = node.get("spec") or {}, (node.get("status") or {}).get("allocatable") or {}
    if spec.get("unschedulable"):
        return None
    labels = {key: value for key, value in sorted(labels_of(node).items()) if key in selected or key.startswith(NODE_LABELS)}
    amounts = {resource: str(allocatable.get(resource, "0")) for resource in ("cpu", "memory")}
    for amount in amounts.values():
        quantity(amount)
    shape = {
        "gpus": offered(node),
        "gpu_memory": math.floor(number(labels_of(node).get(GPU_MEMORY_LABEL, "0"))),
        "labels": labels,
        "taints": [one for one in spec.get("taints") or [] if not one["key"].startswith(PASSING_TAINTS)],
    }
    return json.dumps(shape | amounts, sort_keys=True)


def _shapes(nodes: t.Iterable[str | None]) -> tuple[model.Nodes, ...]:
    """Return nodes that are alike as one shape with their number."""
    counts = collections.Counter(filter(None, nodes))
    return tuple(model.nodes(count=count, **json.loads(shape)) for shape, count in sorted(counts.items()))


def _group(pod: JsonObject) -> Key:
    """Return namespace and name of a pod's PodGroup, or of the pod itself where it has none."""
    namespace, name = _key(pod)
    return namespace, annotations_of(pod).get(POD_GROUP_NOTE) or f"{_ALONE}{name}"


def _key(item: JsonObject) -> Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _created(item: JsonObject) -> datetime.datetime:
    return moment(item["metadata"]["creationTimestamp"])


def _digest(text: str) -> str:
    return "w" + hashlib.sha256(text.encode()).hexdigest()[:10]
