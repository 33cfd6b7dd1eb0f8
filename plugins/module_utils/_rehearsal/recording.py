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
import datetime
import hashlib
import json
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import annotations_of, labels_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import quantity
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import moment
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import (
    FRACTION_NOTE,
    GPU_MEMORY_LABEL,
    MEMORY_NOTE,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import gpus_of, offered
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.facts import POD_GROUP_NOTE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import DEFAULT_QUEUE, QUEUE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import Queue, from_live, written
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal import model

Object = dict[str, t.Any]
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


class Recorder:
    """Observes what a cluster has to schedule, once or again and again."""

    def __init__(self, scheduler: str, plain_names: bool = False) -> None:
        """Observe pods that ask for KAI Scheduler by this name.

        :arg plain_names: keep their namespaces and names, too.
        """
        self._scheduler = scheduler
        self._plain_names = plain_names
        self._pods: dict[str, Object] = {}
        self._gone: dict[str, datetime.datetime] = {}
        self._groups: dict[Key, Object] = {}

    def observe(self, now: datetime.datetime, pods: t.Iterable[Object], groups: t.Iterable[Object]) -> None:
        """Take in all pods, and PodGroups, of the cluster at a moment."""
        there = {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"].get("schedulerName") == self._scheduler}
        for uid in self._pods.keys() - there.keys() - self._gone.keys():
            self._gone[uid] = now
        self._pods |= there
        self._groups |= {_key(group): group for group in groups}

    def trace(
        self,
        start: datetime.datetime,
        end: datetime.datetime,
        nodes: t.Iterable[Object],
        queues: t.Iterable[Object],
        priority_classes: t.Iterable[Object],
        topologies: t.Iterable[Object] = (),
    ) -> model.Trace:
        """Return what was there to be scheduled between two moments.

        Pods that were there before are submitted at once. Those that still ran at the end do not end.
        """
        tree = from_live(queues)
        pods = [pod for pod in self._pods.values() if (over := self._ended(pod)) is None or over > start]
        workloads = self._workloads(pods, tree, start)
        selected = {key for pod in pods for key in pod["spec"].get("nodeSelector") or {}}
        named = {workload.priority_class for workload in workloads}
        levels = {item["metadata"]["name"]: [level["nodeLabel"] for level in item["spec"]["levels"]] for item in topologies}
        selected |= {label for labels in levels.values() for label in labels}
        return model.Trace(
            (end - start).total_seconds(),
            _shapes(nodes, selected),
            [written(queue) for _name, queue in sorted(tree.items())],
            {
                item["metadata"]["name"]: int(item["value"])
                for item in sorted(priority_classes, key=_key)
                if item["metadata"]["name"] in named
            },
            tuple(workloads),
            levels,
        )

    def _workloads(self, pods: t.Sequence[Object], tree: t.Mapping[str, Queue], start: datetime.datetime) -> list[model.Workload]:
        """Return the pods as workloads: those of a PodGroup that are alike make one."""
        alike: dict[tuple[Key, str], list[Object]] = collections.defaultdict(list)
        first: dict[Key, datetime.datetime] = {}
        for pod in pods:
            group = _group(pod)
            first[group] = min(first.get(group, _created(pod)), _created(pod))
            alike[group, json.dumps([_asked(pod), self._queue(pod, tree)], sort_keys=True)].append(pod)
        kinds = collections.Counter(group for group, _shape in alike)
        found = []
        numbers: collections.Counter[Key] = collections.Counter()
        left = {group: self._least(group) - count for group, count in kinds.items()}
        for (group, _shape), members in sorted(alike.items(), key=lambda item: (_created(item[1][0]), item[0])):
            # One of each kind, and of the kinds in their order as many more as it takes.
            more = max(0, min(left[group], len(members) - 1))
            left[group] -= more
            numbers[group] += 1
            named = self._name(group)
            given = {
                "arrives": round(max(0.0, (first[group] - start).total_seconds()), 1),
                "runs": max((self._runs(pod) for pod in members), default=0.0),
                "pods": len(members),
                "together": 1 + more,
                "group": named if kinds[group] > 1 else "",
            } | self._topology(group)
            name = named if kinds[group] == 1 else f"{named}-{numbers[group]}"
            found.append(model.workload(name, self._queue(members[0], tree), **given, **_asked(members[0])))
        return found

    def _name(self, group: Key) -> str:
        """Return a name for the pods of a group: a digest, by which those who know its name find it again."""
        digest = _digest("/".join(group))
        if not self._plain_names:
            return digest
        namespace, name = group
        readable = re.sub("[^a-z0-9-]", "-", f"{namespace}-{name.removeprefix(_ALONE)}")[:_NAME_LENGTH]
        return f"{readable.strip('-')}-{digest}"

    def _least(self, group: Key) -> int:
        """Return how many pods of a group start together."""
        return ((self._groups.get(group) or {}).get("spec") or {}).get("minMember") or 1

    def _topology(self, group: Key) -> dict[str, str]:
        """Return what a group asks for by a Topology."""
        constraint = ((self._groups.get(group) or {}).get("spec") or {}).get("topologyConstraint") or {}
        keys = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
        names = ("topology", "topology_required", "topology_preferred")
        return {name: constraint.get(key) or "" for key, name in zip(keys, names)}

    def _queue(self, pod: Object, tree: t.Mapping[str, Queue]) -> str:
        """Return a pod's queue; KAI Scheduler's default one where it names none, or one that does not exist."""
        of_group = ((self._groups.get(_group(pod)) or {}).get("spec") or {}).get("queue")
        name = str(of_group or labels_of(pod).get(QUEUE_LABEL) or DEFAULT_QUEUE)
        return name if name in tree else DEFAULT_QUEUE

    def _ended(self, pod: Object) -> datetime.datetime | None:
        """Return when a pod ended, or was gone; None where it still is at work, or waits."""
        statuses = (pod.get("status") or {}).get("containerStatuses") or []
        ends = [state["finishedAt"] for status in statuses if (state := (status.get("state") or {}).get("terminated"))]
        if pod["status"].get("phase") in ("Succeeded", "Failed") and ends:
            return moment(max(ends))
        return self._gone.get(pod["metadata"]["uid"])

    def _runs(self, pod: Object) -> float:
        """Return for how many seconds a pod ran; 0 where it did not end, or never ran."""
        ended = self._ended(pod)
        began = (pod.get("status") or {}).get("startTime")
        return round(max(1.0, (ended - moment(began)).total_seconds()), 1) if ended and began else 0.0


def _asked(pod: Object) -> Object:
    """Return what a pod asks for, as fields of a workload."""
    spec, notes = pod["spec"], annotations_of(pod)
    amounts = {
        resource: sum(_requested(container, resource) for container in spec["containers"]) for resource in ("cpu", "memory")
    }
    gpus: float = gpus_of(spec)
    if part := _number(notes.get(FRACTION_NOTE)):
        gpus = int(part) if part == int(part) else part
    memory = int(_number(notes.get(MEMORY_NOTE)))
    return {
        "gpus": 0 if memory else gpus,
        "gpu_memory": memory,
        "cpu": f"{round(amounts['cpu'] * 1000)}m",
        "memory": f"{round(amounts['memory'] / 2**20)}Mi",
        # KAI Scheduler takes the class from the label before that of the pod.
        "priority_class": labels_of(pod).get("priorityClassName") or spec.get("priorityClassName") or "",
        "node_selector": spec.get("nodeSelector") or {},
        "tolerations": [one for one in spec.get("tolerations") or [] if not str(one.get("key", "")).startswith(PASSING_TAINTS)],
    }


def _requested(container: Object, resource: str) -> float:
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        if resource in (resources.get(kind) or {}):
            return float(quantity(resources[kind][resource]))
    return 0.0


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _shapes(nodes: t.Iterable[Object], selected: t.Container[str]) -> tuple[model.Nodes, ...]:
    """Return nodes that are alike as one shape with their number."""
    counts: collections.Counter[str] = collections.Counter()
    for node in nodes:
        spec, allocatable = node.get("spec") or {}, (node.get("status") or {}).get("allocatable") or {}
        if spec.get("unschedulable"):
            continue
        labels = {key: value for key, value in sorted(labels_of(node).items()) if key in selected or key.startswith(NODE_LABELS)}
        shape = {
            "gpus": offered(node),
            "gpu_memory": int(_number(labels_of(node).get(GPU_MEMORY_LABEL))),
            "cpu": str(allocatable.get("cpu", "0")),
            "memory": str(allocatable.get("memory", "0")),
            "labels": labels,
            "taints": [one for one in spec.get("taints") or [] if not one["key"].startswith(PASSING_TAINTS)],
        }
        counts[json.dumps(shape, sort_keys=True)] += 1
    return tuple(model.nodes(count=count, **json.loads(shape)) for shape, count in sorted(counts.items()))


def _group(pod: Object) -> Key:
    """Return namespace and name of a pod's PodGroup, or of the pod itself where it has none."""
    namespace, name = _key(pod)
    return namespace, annotations_of(pod).get(POD_GROUP_NOTE) or f"{_ALONE}{name}"


def _key(item: Object) -> Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _created(item: Object) -> datetime.datetime:
    return moment(item["metadata"]["creationTimestamp"])


def _digest(text: str) -> str:
    return "w" + hashlib.sha256(text.encode()).hexdigest()[:10]
