# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The workloads by which KAI Scheduler's policies are probed, each as steps of pods that are created and of what has to follow.

All run in queues of the probe, whose parent's limit keeps them to GPUs that are free, and only while no other pods hold or wait for GPUs of
this scheduler. So only pods of the probe are evicted.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..._common.names import FRACTION_NOTE, MEMORY_NOTE, POD_GROUP, POD_GROUP_NOTE, RESERVED_GPU_NOTE, SUB_GROUP_LABEL, TOPOLOGY
from ..._common.ownership import OWNED_LABELS, annotations_of
from ..._common.pods import is_ended
from ..._common.values import JsonObject
from ..._nodes.status import held, offered
from ..kai_scheduling.plan import STAY, make_pod
from ..plan import Settings
from .facts import FIRST, HIGH, HOSTNAME, LEAST_NOTE, LOW, MOST, PARENT, SECOND, TOPOLOGY_NAME, WEIGHTS


@dataclasses.dataclass(frozen=True)
class Step:
    """Something to create, and what has to follow.

    :ivar objects: in the order in which they are created.
    :ivar running: how many pods of each group run then, by the part of their names before the last hyphen.
    :ivar nodes: on how many nodes the pods of the last group run; None where that is not judged.
    :ivar clears: whether what earlier steps created is removed first.
    """

    objects: tuple[JsonObject, ...]
    running: t.Mapping[str, int]
    nodes: int | None = None
    clears: bool = False


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One check.

    :ivar queues: of the leaves, as users write them, without their names.
    :ivar outcome: what it shows when it passes.
    """

    name: str
    gpus: int
    queues: tuple[JsonObject, JsonObject]
    steps: tuple[Step, ...]
    outcome: str

    def tree(self) -> list[JsonObject]:
        """Return the tree of queues, as users write it."""
        children = [{"name": name} | queue for name, queue in zip((FIRST, SECOND), self.queues)]
        return [{"name": PARENT, "gpu": {"quota": self.gpus, "limit": self.gpus}, "children": children}]


@dataclasses.dataclass(frozen=True)
class Room:
    """What the probe may use.

    :ivar free: whole GPUs that no pod holds, by node.
    :ivar busy: pods of others that hold or wait for GPUs, as "namespace/name".
    :ivar strategy: of the scheduler, V(binpack) or V(spread); None where it does not say.
    :ivar topologies: whether the cluster has KAI's Topologies.
    :ivar job_gangs: whether the release starts the pods of a Job together.
    """

    free: t.Mapping[str, int]
    busy: tuple[str, ...] = ()
    strategy: str | None = None
    topologies: bool = False
    job_gangs: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of a check."""
        return min(MOST, sum(self.free.values()))


def room(nodes: t.Sequence[JsonObject], pods: t.Sequence[JsonObject], settings: Settings) -> Room:
    """Return what a cluster has for the probe, as far as its nodes and pods show it.

    :arg nodes: the nodes that it may use.
    """
    resource = settings.gpu_resource
    usable = {node["metadata"]["name"]: node for node in nodes if not node["spec"].get("unschedulable")}
    free = {name: offered(node, resource) for name, node in usable.items()}
    busy = []
    for pod in pods:
        place = pod["spec"].get("nodeName")
        gpus = held(pod, resource)
        if place in free:
            free[place] -= gpus
        notes = annotations_of(pod)
        asks = gpus or notes.keys() & {FRACTION_NOTE, MEMORY_NOTE, RESERVED_GPU_NOTE}
        ended = is_ended(pod)
        if asks and not ended and pod["spec"].get("schedulerName") == settings.scheduler_name and place in {None, *free}:
            busy.append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    return Room({name: count for name, count in free.items() if count > 0}, tuple(sorted(busy)))


def scenario(name: str, here: Room, settings: Settings) -> Scenario | str:
    """Return a check as fits into a cluster, or why it does not."""
    if here.busy:
        shown = ", ".join(here.busy[:3]) + (f" and {len(here.busy) - 3} more" if len(here.busy) > 3 else "")
        return (
            f"it needs a cluster in which no other pod holds or waits for a GPU of this scheduler, and could be evicted: {shown}"
        )
    least, make = _SCENARIOS[name]
    if here.gpus < least:
        return f"it needs {least} free GPUs, there are {here.gpus}"
    return make(here, settings)


def _reclaim(here: Room, settings: Settings) -> Scenario:
    steps = (
        Step(_pods(settings, "over-quota", FIRST, here.gpus), {"over-quota": here.gpus}),
        Step(_pods(settings, "owner", SECOND, 1), {"over-quota": here.gpus - 1, "owner": 1}),
    )
    outcome = f"a queue without quota used {here.gpus} GPUs, and gave one back to the queue whose quota it was"
    return Scenario("reclaim", here.gpus, ({}, {"gpu": {"quota": 1}}), steps, outcome)


def _preemption(here: Room, settings: Settings) -> Scenario:
    steps = (
        Step(_pods(settings, "low", FIRST, here.gpus), {"low": here.gpus}),
        Step(_pods(settings, "high", FIRST, 1, HIGH), {"low": here.gpus - 1, "high": 1}),
    )
    outcome = f"of {here.gpus} pods of class {LOW}, one made room for one of class {HIGH} in the same queue"
    return Scenario("preemption", here.gpus, ({"gpu": {"quota": here.gpus}}, {}), steps, outcome)


def _fair_share(here: Room, settings: Settings) -> Scenario:
    shares = [here.gpus * weight // sum(WEIGHTS) for weight in WEIGHTS]
    steps = (
        Step(_pods(settings, "light", FIRST, here.gpus), {"light": here.gpus}),
        Step(_pods(settings, "heavy", SECOND, here.gpus), {"light": shares[0], "heavy": shares[1]}),
    )
    first, second = ({"gpu": {"quota": 0, "over_quota_weight": weight}} for weight in WEIGHTS)
    outcome = (
        f"{here.gpus} GPUs beyond all quotas were divided {shares[0]} to {shares[1]} between over-quota weights of {WEIGHTS}"
    )
    return Scenario("fair_share", here.gpus, (first, second), steps, outcome)


def _elastic(here: Room, settings: Settings) -> Scenario:
    pods = _pods(settings, "elastic", FIRST, here.gpus)
    steps = (
        Step((_group(settings, "elastic", FIRST, 1), *_members("elastic", pods)), {"elastic": here.gpus}),
        Step(_pods(settings, "owner", SECOND, 1), {"elastic": here.gpus - 1, "owner": 1}),
    )
    outcome = f"a group of {here.gpus} pods that needs one gave up one of them, and the others ran on"
    return Scenario("elastic", here.gpus, ({}, {"gpu": {"quota": 1}}), steps, outcome)


def _roles(_here: Room, settings: Settings) -> Scenario:
    roles = {"subGroups": [{"name": role, "minMember": 1} for role in ("worker", "leader")]}
    group = _group(settings, "roles", FIRST, 2, roles)
    workers, leader = (
        tuple(_labelled(pod, role) for pod in _members("roles", _pods(settings, role, FIRST, count)))
        for role, count in (("worker", 2), ("leader", 1))
    )
    # Two would be enough, were it not for their roles.
    steps = (Step((group, *workers), {"worker": 0}), Step(leader, {"worker": 2, "leader": 1}))
    return Scenario("roles", 3, ({}, {}), steps, "two workers waited for their leader, and all three ran with it")


def _job(here: Room, settings: Settings) -> Scenario | str:
    if not here.job_gangs:
        return "this release starts each pod of a Job by itself; v0.14.1 and later can start them together"
    # More than may run, and then as many as may.
    steps = tuple(
        Step((_job_of(settings, name, count),), {name: running}, clears=True)
        for name, count, running in (("wide-job", here.gpus + 1, 0), ("job", here.gpus, here.gpus))
    )
    outcome = f"of a Job with a pod too many none ran, and all {here.gpus} pods of one that fits"
    return Scenario("job", here.gpus, ({}, {}), steps, outcome)


def _packing(here: Room, settings: Settings) -> Scenario | str:
    if sum(count > 1 for count in here.free.values()) < 2:
        return "it needs two nodes with two free GPUs each"
    strategy = here.strategy or "binpack"
    nodes = 2 if strategy == "spread" else 1
    # One after the other: a pod is placed by where those before it run.
    first, second = _pods(settings, "placed", FIRST, 2)
    steps = (Step((first,), {"placed": 1}), Step((second,), {"placed": 2}, nodes))
    return Scenario("packing", 2, ({}, {}), steps, f"two pods ran on {nodes} of {len(here.free)} nodes, as {strategy} says")


def _topology(here: Room, settings: Settings) -> Scenario | str:
    if not here.topologies:
        return "this release has no Topologies of its own, which came with v0.12"
    counts = sorted(here.free.values(), reverse=True)
    most = counts[0]
    # Two pods that no node has room for together, and two nodes have.
    each = most // 2 + 1
    if most < 2 or len(counts) < 2 or counts[1] < each:
        return f"it needs two nodes with {max(each, 2)} free GPUs each"
    api_version, kind = TOPOLOGY
    metadata = {"name": TOPOLOGY_NAME, "labels": OWNED_LABELS}
    levels = {"levels": [{"nodeLabel": HOSTNAME}]}
    level = {"topologyConstraint": {"topology": TOPOLOGY_NAME, "requiredTopologyLevel": HOSTNAME}}
    wide, narrow = (_members(name, _pods(settings, name, FIRST, 2, gpus=each)) for name in ("anywhere", "one-node"))
    near = _members("near", _pods(settings, "near", FIRST, 2))
    topology = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": levels}
    steps = (
        Step((topology, _group(settings, "anywhere", FIRST, 2), *wide), {"anywhere": 2}),
        Step((_group(settings, "one-node", FIRST, 2, level), *narrow), {"one-node": 0}, clears=True),
        Step((_group(settings, "near", FIRST, 2, level), *near), {"near": 2}, 1, clears=True),
    )
    outcome = "a group that has to run within one node waited where only two nodes have room for it, and ran on one that has"
    return Scenario("topology", 2 * each, ({}, {}), steps, outcome)


# The GPUs that each needs at least, and what makes it.
_SCENARIOS: dict[str, tuple[int, t.Callable[[Room, Settings], Scenario | str]]] = {
    "reclaim": (2, _reclaim),
    "preemption": (1, _preemption),
    "fair_share": (MOST, _fair_share),
    "elastic": (2, _elastic),
    "roles": (3, _roles),
    "job": (1, _job),
    "packing": (4, _packing),
    "topology": (4, _topology),
}


def _pods(settings: Settings, group: str, queue: str, count: int, priority: str = LOW, gpus: int = 1) -> tuple[JsonObject, ...]:
    return tuple(
        make_pod(settings, f"{group}-{number}", queue, STAY, gpus=gpus, priority=priority) for number in range(1, count + 1)
    )


def _job_of(settings: Settings, name: str, count: int) -> JsonObject:
    """Return a Job whose pods have a GPU each, and have to start together."""
    (pod,) = _pods(settings, name, FIRST, 1)
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    metadata = {"name": name, "namespace": settings.namespace, "annotations": {LEAST_NOTE: str(count)}}
    spec = {"parallelism": count, "completions": count, "backoffLimit": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _labelled(pod: JsonObject, role: str) -> JsonObject:
    return pod | {"metadata": pod["metadata"] | {"labels": pod["metadata"]["labels"] | {SUB_GROUP_LABEL: role}}}


def _group(settings: Settings, name: str, queue: str, least: int, more: t.Mapping[str, t.Any] | None = None) -> JsonObject:
    """Return the PodGroup of pods that start together, ``least`` of them."""
    api_version, kind = POD_GROUP
    spec = {"minMember": least, "queue": queue, "priorityClassName": LOW} | dict(more or {})
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": settings.namespace}, "spec": spec}


def _members(group: str, pods: t.Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """Make pods members of a group; KAI leaves alone what has one."""
    return tuple(
        pod | {"metadata": pod["metadata"] | {"annotations": pod["metadata"]["annotations"] | {POD_GROUP_NOTE: group}}}
        for pod in pods
    )
