# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What one reading of a cluster shows of its pods, and of KAI Scheduler in it."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import functools
import re
import typing as t

from .._common.names import DEFAULT_QUEUE, KAI_NAMESPACE, KAI_SCHEDULERS, POD_GROUP_NOTE, QUEUE_LABEL
from .._common.ownership import annotations_of, labels_of, own
from .._common.parties import each
from .._common.pods import Answer
from .._common.quantity import quantity, whole
from .._common.text import line
from .._common.values import JsonObject, Key, key_name, key_of
from .._kai.facts import Version, dotted
from .._kai.status import scheduling_reasons
from .._nodes.status import gpu_groups, held, is_reservation, offered
from .._queues.values import Queue, ancestors, children_of, leaves, pool_of
from . import facts

DEFAULT_SCHEDULER = "default-scheduler"

_IMAGE_VERSION = re.compile(r":v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:@|$)", re.ASCII)
# A pod's own message (pkg/scheduler/cache/status_updater): node pool and reason in front where there are any.
_TOLD = re.compile(r"(?:Node-Pool '[^']*': )?(?:([A-Z][A-Za-z]+): )?(.*)")


class SchedulerReason(t.NamedTuple):
    """What KAI Scheduler says of a pod or its group.

    :ivar reason: of the API, such as OverLimit; may be empty. ``details``, of a queue, may be, too.
    """

    reason: str
    message: str
    details: JsonObject


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What one reading of a cluster shows.

    :ivar scheduler: the name by which pods ask for KAI Scheduler.
    :ivar pods: all that have not succeeded; ``nodes``, all.
    :ivar groups: PodGroups; ``requests``, BindRequests by their pod; ``events``, those of each pod by its UID, oldest first.
    :ivar explained: why pods wait, by pod, where another scheduler than KAI says it.
    :ivar trouble: what KAI's scheduler logs; None where that was not read, or shows no error.
    :ivar pools: the node pools that SchedulingShards of KAI serve; an empty text is that of nodes without a label. None where
        one of these could not be read.
    :ivar creators: workloads that could not create a pod, by the UID of each; ``refused``, the newest event of each that says so;
        ``done``, UIDs of Jobs that need no pods any more.
    :ivar host: where this is a virtual cluster and its host cluster was read, the pods there by "namespace/name" of this one.
    :ivar outer: that host cluster, where its KAI Scheduler places the pods of this one.
    """

    scheduler: str
    pods: list[JsonObject]
    nodes: list[JsonObject]
    groups: dict[Key, JsonObject]
    queues: dict[str, Queue]
    requests: dict[Key, JsonObject]
    events: dict[str, list[JsonObject]]
    trouble: Answer | None = None
    pools: frozenset[str] | None = frozenset(("",))
    creators: dict[str, JsonObject] = dataclasses.field(default_factory=dict)
    refused: dict[str, JsonObject] = dataclasses.field(default_factory=dict)
    done: frozenset[str] = frozenset()
    host: dict[str, JsonObject] = dataclasses.field(default_factory=dict)
    explained: dict[Key, Answer] = dataclasses.field(default_factory=dict)
    outer: Cluster | None = None
    # Of groups of which a pod was judged already: a group may have thousands of pods.
    gangs: dict[Key, Answer | None] = dataclasses.field(default_factory=dict, compare=False)
    # Of queues, with the queue first.
    paths: dict[str, list[Queue]] = dataclasses.field(default_factory=dict, compare=False)

    def ancestors(self, name: str) -> list[Queue]:
        """Return a queue, its parent, and so on to the root; of each queue once, because many pods wait in one."""
        if name not in self.paths:
            self.paths[name] = ancestors(self.queues, name)
        return self.paths[name]

    @functools.cached_property
    def schedulers(self) -> list[JsonObject]:
        """The pods of KAI's own scheduler; none where the host cluster's places the pods of this one."""
        apps = {*KAI_SCHEDULERS, f"{self.scheduler}-default"}
        return [pod for pod in self.pods if key_of(pod)[0] == KAI_NAMESPACE and labels_of(pod).get("app") in apps]

    @functools.cached_property
    def version(self) -> Version | None:
        """KAI's version, by its scheduler's image; None where that does not say."""
        images = [str(container.get("image", "")) for pod in self.schedulers for container in pod["spec"]["containers"]]
        found = next(filter(None, map(_IMAGE_VERSION.search, images)), None)
        return (whole(found[1]), whole(found[2]), whole(found[3])) if found else None

    @property
    def placing(self) -> Cluster:
        """The cluster whose KAI Scheduler places the pods of this one."""
        return self.outer or self

    @property
    def release(self) -> str:
        """KAI Scheduler with its version, where that is known."""
        return f"KAI Scheduler v{dotted(self.version)}" if self.version else "KAI Scheduler"

    @functools.cached_property
    def members(self) -> dict[Key, list[JsonObject]]:
        """The pods of each PodGroup that count, as pkg/scheduler/api/pod_status has it (aliveStatuses)."""
        members = collections.defaultdict(list)
        for pod in self.pods:
            if pod["status"].get("phase") in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]:
                members[group_key(pod)].append(pod)
        return members

    @functools.cached_property
    def most_gpus(self) -> int:
        """The GPUs of the node that offers most."""
        return max(self._offers.values(), default=0)

    def most(self, resource: str) -> decimal.Decimal:
        """The amount of the node that has most of a resource, in whole units; 0 where no node tells."""
        if resource not in self._most:

            def has(node: JsonObject) -> decimal.Decimal:
                return quantity(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))

            self._most[resource] = max(each(self.nodes, key_name, has)[0], default=decimal.Decimal(0))
        return self._most[resource]

    @functools.cached_property
    def _most(self) -> dict[str, decimal.Decimal]:
        return {}

    @functools.cached_property
    def _offers(self) -> dict[str, int]:
        """GPUs of each node; one of which that cannot be read offers none that is known."""
        found, _unread = each(self.nodes, key_name, lambda node: (node["metadata"]["name"], offered(node)))
        return dict(found)

    @functools.cached_property
    def most_free_gpus(self) -> int:
        """The GPUs that no pod holds on the node that takes pods and has most of them."""
        taken: collections.Counter[str] = collections.Counter()
        for node, gpus in each(self.pods, key_name, lambda pod: (pod["spec"].get("nodeName", ""), held(pod)))[0]:
            taken[node] += gpus
        usable = (node["metadata"]["name"] for node in self.nodes if not (node.get("spec") or {}).get("unschedulable"))
        return max((self._offers.get(name, 0) - taken[name] for name in usable), default=0)

    @functools.cached_property
    def nodes_by_name(self) -> dict[str, JsonObject]:
        """The nodes by their names, sorted."""
        return {node["metadata"]["name"]: node for node in sorted(self.nodes, key=lambda node: str(node["metadata"]["name"]))}

    @functools.cached_property
    def node_pools(self) -> dict[str, set[str]]:
        """Names of the nodes of each node pool, in the order of the pools; an empty text is that of nodes without a label."""
        pools = collections.defaultdict(set)
        for node in self.nodes:
            pools[pool_of(node)].add(node["metadata"]["name"])
        return dict(sorted(pools.items()))

    @functools.cached_property
    def had_slices(self) -> dict[str, str]:
        """MIG strategy of each node that lists slices of GPUs, 0 of each, and has no label that says what to make of them."""
        had, _unread = each(self.nodes, key_name, _had_slices)
        return {name: strategy for name, strategy in had if strategy}

    @functools.cached_property
    def placed_groups(self) -> set[Key]:
        """The PodGroups of which a pod that counts has a node."""
        return {key for key, members in self.members.items() if any(member["spec"].get("nodeName") for member in members)}

    @functools.cached_property
    def leaf_queues(self) -> list[str]:
        """Names of the queues that work is submitted to, sorted."""
        return sorted(queue.name for queue in leaves(self.queues))

    @functools.cached_property
    def child_queues(self) -> dict[str | None, list[str]]:
        """Names of the queues below each queue, sorted."""
        return {parent: sorted(queue.name for queue in below) for parent, below in children_of(self.queues).items()}

    @functools.cached_property
    def reservations(self) -> dict[str, list[JsonObject]]:
        """The pods by which this cluster's KAI Scheduler holds a GPU for pods that share it, by their group."""
        found = collections.defaultdict(list)
        for pod in filter(is_reservation, own(self.pods)):
            for group in gpu_groups(pod):
                found[group].append(pod)
        return found

    def group_of(self, pod: JsonObject) -> JsonObject | None:
        """Return a pod's PodGroup, or None."""
        return self.groups.get(group_key(pod))

    def queue_of(self, pod: JsonObject) -> str | None:
        """Return the name of the queue that a pod is in, whether or not it exists; None for one that is not KAI's."""
        # Of a workload's labels the group's queue is made, the pod's own come second (pkg/podgrouper, CalcPodGroupQueue).
        of_group = ((self.group_of(pod) or {}).get("spec") or {}).get("queue")
        return of_group or labels_of(pod).get(QUEUE_LABEL) or (DEFAULT_QUEUE if self.is_kais(pod) else None)

    def is_kais(self, pod: JsonObject) -> bool:
        """Tell whether a pod asks for KAI Scheduler."""
        return scheduler_of(pod) == self.scheduler

    def events_of(self, pod: JsonObject) -> list[JsonObject]:
        """Return a pod's events, oldest first; not those of an earlier pod of its name, nor what another namespace says of its UID."""
        namespace = key_of(pod)[0]
        return [event for event in self.events.get(pod["metadata"]["uid"], []) if key_of(event)[0] == namespace]

    def newest(self, pod: JsonObject, reasons: t.Container[str]) -> JsonObject | None:
        """Return a pod's newest event with one of the reasons, or None."""
        return next((event for event in reversed(self.events_of(pod)) if event.get("reason") in reasons), None)

    def unschedulable(self, pod: JsonObject) -> str:
        """Return why its scheduler found no node for a pod; empty where it has not said."""
        for condition in conditions_of(pod):
            if condition["type"] == "PodScheduled" and condition.get("reason") == facts.UNSCHEDULABLE:
                return line(condition.get("message"))
        return line((self.newest(pod, facts.UNSCHEDULABLE_EVENTS) or {}).get("message"))

    def is_known(self, pod: JsonObject) -> bool:
        """Tell whether any scheduler has looked at a pod."""
        conditions = {condition["type"] for condition in conditions_of(pod) if condition.get("reason") != facts.GATED}
        return not conditions.isdisjoint(facts.SCHEDULING_CONDITIONS) or bool(self.newest(pod, facts.SCHEDULING_EVENTS))

    def scheduler_reasons(self, pod: JsonObject) -> list[SchedulerReason]:
        """Return what KAI Scheduler says of a pod; an empty list where it has said nothing."""
        group = self.group_of(pod)
        # While one of its pods is placed, a group keeps an older condition (markPodGroupUnschedulable in status_updater).
        if group and group_key(pod) not in self.placed_groups:
            reasons = [_reason_of(reason) for reason in scheduling_reasons(group)]
            if reasons:
                return reasons
        found = _TOLD.fullmatch(self.unschedulable(pod))
        return [SchedulerReason(found[1] or "", found[2], {})] if found and found[2] else []

    def scheduler_reason(self, pod: JsonObject, reason: str) -> SchedulerReason | None:
        """Return what KAI Scheduler says of a pod with this reason, or None."""
        return next((told for told in self.scheduler_reasons(pod) if told.reason == reason), None)


def scheduler_of(pod: JsonObject) -> str:
    """Return the name of the scheduler that a pod asks for."""
    return str(pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER)


def _reason_of(reason: JsonObject) -> SchedulerReason:
    details = (reason.get("details") or {}).get("queueDetails") or {}
    return SchedulerReason(reason.get("reason", ""), line(reason.get("message")), details)


def group_key(pod: JsonObject) -> Key:
    """Return the namespace and name of a pod's PodGroup; an empty name without one."""
    return key_of(pod)[0], annotations_of(pod).get(POD_GROUP_NOTE, "")


def conditions_of(pod: JsonObject) -> list[JsonObject]:
    """Return a pod's conditions."""
    return pod["status"].get("conditions") or []


def _had_slices(node: JsonObject) -> tuple[str, str]:
    """Return the name of a node, and its MIG strategy where it lists slices of GPUs, 0 of each; an empty text otherwise."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    amounts = {str(amount) for name, amount in allocatable.items() if name.startswith(facts.SLICE_PREFIX)}
    labels = labels_of(node)
    had = amounts == {"0"} and facts.SLICES_LABEL not in labels
    return node["metadata"]["name"], str(labels.get(facts.STRATEGY_LABEL) or "") if had else ""
