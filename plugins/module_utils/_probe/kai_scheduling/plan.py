# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The pods by which KAI Scheduler is probed, and the free capacity that they need.

Pods run only where GPUs are free and queues below their limit, so that the scheduler has no reason to evict anyone for
them. A pod that asks for a GPU ends by itself; pods that share one have to be seen side by side, and fill their GPUs, so
that what they have to share follows from their number.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
import typing as t

from ..._common.names import (
    FRACTION_NOTE,
    GPU_MEMORY_LABEL,
    MEMORY_NOTE,
    NODE_POOL_LABEL,
    POD_GROUP,
    POD_GROUP_NOTE,
    QUEUE_LABEL,
)
from ..._common.pods import pod_spec
from ..._common.quantity import quantity
from ..._common.values import JsonObject
from ..._nodes.status import held, offered
from ..._queues.values import Queue, ancestors, pool_of
from ..facts import FAILED, NOT_TRIED
from ..plan import Settings, pod
from ..status import result
from .facts import BURST, CHECKS, GPU_MEMORY, LOWEST_PRIORITY, MEMORY_STEP, SHARING
from .memory import SHOW, gpu_size

Amount = decimal.Decimal

NONE = Amount(0)
UNLIMITED = Amount("Infinity")

# Parts of GPUs that fill one.
_MIXED = tuple(map(Amount, ("0.5", "0.25", "0.25")))
_QUARTERS = (Amount("0.25"),) * 4
_HALVES = (Amount("0.5"),) * 2
# GPUs of the burst, at least and at most: four to ten pods.
_LEAST, _MOST = 2, 5
_LIST = "nvidia-smi -L"
# Runs until it is ended.
STAY = "trap 'exit 0' TERM; sleep 3600 & wait"
# More GPUs than any queue or cluster has.
_NEVER = 100_000


@dataclasses.dataclass(frozen=True, eq=False)
class Check:
    """Something to try in one queue.

    :ivar gang: the PodGroup its pods belong to, where KAI is not to make one for each.
    :ivar gpus: GPUs it needs on nodes.
    :ivar share: GPUs that count as allocated to the queue.
    :ivar portions: parts of a GPU that its pods get, in their order, where they share GPUs.
    """

    name: str
    queue: str
    pods: tuple[JsonObject, ...]
    gang: JsonObject | None = None
    gpus: int = 0
    share: Amount = NONE
    portions: tuple[Amount, ...] = ()

    @property
    def pod_names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods]

    @property
    def first(self) -> int:
        """How many of its pods are created at once; each of the others when those before it run, for the reason given at SHARING."""
        return 1 if self.portions and self.name != BURST else len(self.pods)


# --- free capacity -------------------------------------------------------------------------------------------------


class Capacity:
    """What was free before the probe began.

    :arg queues: those of the cluster.
    :arg allocated: GPUs allocated to each queue.
    :arg free: whole GPUs on nodes.
    :arg gpu_memory: MiB of a GPU that pods can ask for by annotation; 0 where KAI does not know.
    :arg pools: whole GPUs on the nodes of each node pool; empty where no node has one.
    """

    def __init__(
        self,
        queues: dict[str, Queue],
        allocated: dict[str, Amount],
        free: int,
        gpu_memory: int = 0,
        pools: t.Mapping[str, int] | None = None,
    ) -> None:
        self.queues = queues
        self.allocated = allocated
        self.free = free
        self.gpu_memory = gpu_memory
        self.pools = pools or {}

    def pool(self, leaf: str) -> str:
        """Return the node pool of a queue; empty for none."""
        queue = self.queues.get(leaf)
        return queue.pool if queue else ""

    def free_for(self, leaf: str) -> int:
        """Return how many whole GPUs are free on the nodes that a queue's scheduler knows."""
        pool = self.pool(leaf)
        return self.pools.get(pool, 0) if self.pools or pool else self.free

    def _limit(self, queue: Queue) -> Amount:
        # The API takes an unset limit as zero.
        limit = Amount(str(queue.spec.get("resources", {}).get("gpu", {}).get("limit", 0)))
        return UNLIMITED if limit < 0 else limit

    def limit(self, leaf: str) -> Amount:
        """Return how many GPUs the queue and those above it allow."""
        return min(self._limit(queue) for queue in ancestors(self.queues, leaf))

    def headroom(self, leaf: str) -> Amount:
        """Return how many more GPUs they allow now."""
        return min(self._limit(queue) - self.allocated.get(queue.name, NONE) for queue in ancestors(self.queues, leaf))

    def shortage(self, check: Check, running: t.Collection[Check]) -> str:
        """Return why a check cannot start beside the running ones; empty when it can."""
        taking = [other for other in running if other.gpus]
        beside = [other for other in taking if self.pool(other.queue) == self.pool(check.queue)]
        free = self.free_for(check.queue) - sum(other.gpus for other in beside)
        if check.gpus > free:
            return f"it needs {check.gpus} free GPUs, there are {free}"
        for queue in ancestors(self.queues, check.queue) if check.share else []:
            limit = self._limit(queue)
            below = [other for other in taking if queue in ancestors(self.queues, other.queue)]
            used = self.allocated.get(queue.name, NONE) + sum(other.share for other in below)
            if used + check.share > limit:
                return f"it needs {check.share} GPUs, queue {queue.name} has {used} of {limit} allocated"
        return ""


def allocated(queues: t.Iterable[JsonObject], gpu_resource: str) -> dict[str, Amount]:
    """Return the GPUs allocated to each queue, by its status."""
    return {
        item["metadata"]["name"]: quantity(item.get("status", {}).get("allocated", {}).get(gpu_resource, 0)) for item in queues
    }


def free_gpus(nodes: t.Iterable[JsonObject], pods: t.Iterable[JsonObject], gpu_resource: str) -> int:
    """Return how many whole GPUs on schedulable nodes no pod holds."""
    usable = {node["metadata"]["name"]: node for node in nodes if not node["spec"].get("unschedulable")}
    allocatable = sum(offered(node, gpu_resource) for node in usable.values())
    return allocatable - sum(held(pod, gpu_resource) for pod in pods if pod["spec"].get("nodeName") in usable)


def free_by_pool(nodes: t.Sequence[JsonObject], pods: t.Sequence[JsonObject], gpu_resource: str) -> dict[str, int]:
    """Return the same for the nodes of each node pool, and by an empty name for the others; empty where no node has one."""
    members: dict[str, list[JsonObject]] = {}
    for node in nodes:
        members.setdefault(pool_of(node), []).append(node)
    return {pool: free_gpus(theirs, pods, gpu_resource) for pool, theirs in members.items()} if any(members) else {}


def gpu_memory(nodes: t.Iterable[JsonObject], pods: t.Sequence[JsonObject], gpu_resource: str) -> int:
    """Return the MiB of a GPU that KAI gives out, of the smallest GPU on a node with a label and a free one; 0 without any."""
    sizes = [size for node in nodes if (size := gpu_size(node)) and free_gpus([node], pods, gpu_resource) > 0]
    return min(sizes, default=0) // MEMORY_STEP * MEMORY_STEP


# --- checks --------------------------------------------------------------------------------------------------------


def plan(
    names: t.Iterable[str], leaves: t.Sequence[str], capacity: Capacity, settings: Settings
) -> tuple[list[Check], list[JsonObject]]:
    """Return the checks to run, in this order, and the results of the checks that cannot run.

    :arg names: of checks; ``leaves``, of the queues to check.
    """
    checks: list[Check] = []
    results: list[JsonObject] = []
    absent = [leaf for leaf in leaves if leaf not in capacity.queues]
    present = [leaf for leaf in leaves if leaf in capacity.queues]
    for name in sorted(names, key=CHECKS.index):
        results += [result(name, leaf, FAILED, "the queue does not exist") for leaf in absent]
        if name in SHARING and present:
            leaf = max(present, key=capacity.headroom)
            if name == GPU_MEMORY and not capacity.gpu_memory:
                results.append(result(name, leaf, NOT_TRIED, f"no node with a free GPU has the label {GPU_MEMORY_LABEL}"))
            else:
                checks.append(_sharing(name, leaf, capacity, settings))
            continue
        for leaf in present:
            limit = capacity.limit(leaf)
            if name == "over_limit" and limit == UNLIMITED:
                results.append(result(name, leaf, NOT_TRIED, "the queue has no limit of GPUs"))
            else:
                checks.append(_check(name, leaf, settings, _NEVER if limit == UNLIMITED else math.floor(limit) + 1))
    for check in checks:
        _put_into_pool(check, capacity.pool(check.queue))
    return checks, results


def _put_into_pool(check: Check, pool: str) -> None:
    """Give the objects of a check the label by which the scheduler of a node pool takes them; none for the nodes without a pool."""
    for item in [*check.pods, *([check.gang] if check.gang else [])] if pool else []:
        item["metadata"].setdefault("labels", {})[NODE_POOL_LABEL] = pool


def _check(name: str, leaf: str, settings: Settings, too_many: int) -> Check:
    """Return a check of one leaf.

    :arg too_many: GPUs, more than the leaf may ever have.
    """
    if name == "cpu":
        return Check(name, leaf, (make_pod(settings, f"{name}-{leaf}", leaf, "true"),))
    if name == "gpu":
        return Check(name, leaf, (make_pod(settings, f"{name}-{leaf}", leaf, _LIST, gpus=1),), gpus=1, share=Amount(1))
    if name == "over_limit":
        return Check(name, leaf, (make_pod(settings, f"over-limit-{leaf}", leaf, "true", gpus=too_many),))
    return _gang(name, leaf, settings, too_many if name == "gang_too_large" else 0)


def _sharing(name: str, leaf: str, capacity: Capacity, settings: Settings) -> Check:
    """Return a check whose pods fill one GPU; those of the burst several, as many as are free."""
    usable = math.floor(min(capacity.headroom(leaf), Amount(capacity.free_for(leaf))))
    burst = _HALVES * max(_LEAST, min(usable, _MOST))
    portions = {"fraction": _MIXED, "quarters": _QUARTERS, GPU_MEMORY: _HALVES, BURST: burst}[name]
    gpus = math.floor(sum(portions))
    memory = {MEMORY_NOTE: str(capacity.gpu_memory // len(_HALVES))}
    pods = [
        make_pod(
            settings,
            f"{name.replace('_', '-')}-{number}",
            leaf,
            # What it sees of a GPU's memory stands in its log before the GPU does.
            f"{SHOW}; {_LIST}; {STAY}",
            notes=memory if name == GPU_MEMORY else {FRACTION_NOTE: str(portion)},
        )
        for number, portion in enumerate(portions, 1)
    ]
    return Check(name, leaf, tuple(pods), gpus=gpus, share=Amount(gpus), portions=portions)


def _gang(name: str, leaf: str, settings: Settings, gpus: int) -> Check:
    """Return two pods that start together or not at all, the second with as many GPUs; KAI leaves alone what has a PodGroup."""
    group = f"{name.replace('_', '-')}-{leaf}"
    pods = tuple(make_pod(settings, f"{group}-{n}", leaf, "true", gpus=of) for n, of in ((1, 0), (2, gpus)))
    for member in pods:
        member["metadata"]["annotations"][POD_GROUP_NOTE] = group
    api_version, kind = POD_GROUP
    metadata = {"name": group, "namespace": settings.namespace}
    spec = {"minMember": len(pods), "queue": leaf, "priorityClassName": LOWEST_PRIORITY}
    return Check(name, leaf, pods, {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})


def make_pod(
    settings: Settings,
    name: str,
    queue: str,
    script: str,
    gpus: int = 0,
    notes: JsonObject | None = None,
    priority: str = LOWEST_PRIORITY,
) -> JsonObject:
    """Return a pod of a probe in a queue.

    :arg gpus: whole GPUs; ``notes``, annotations by which it asks for a part of one.
    :arg priority: name of its PriorityClass.
    """
    # As a label, KAI honours the class where the PriorityClass is not synced.
    labels = {QUEUE_LABEL: queue, "priorityClassName": priority}
    resources: JsonObject = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}
    if gpus:
        resources["limits"][settings.gpu_resource] = str(gpus)
    spec = pod_spec(settings.image, script, imagePullPolicy="IfNotPresent", resources=resources) | {
        "schedulerName": settings.scheduler_name,
        "restartPolicy": "Never",
        "nodeSelector": dict(settings.node_selector),
    }
    if settings.runtime_class and (gpus or notes):
        spec["runtimeClassName"] = settings.runtime_class
    return pod(settings, spec, name=name, labels=labels, annotations=dict(notes or {}))
