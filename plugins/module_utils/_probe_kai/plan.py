# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""How KAI Scheduler is probed: the pods that are run, and what is made of what becomes of them.

Pods run only where GPUs are free and queues below their limit, so that the scheduler has no reason to evict anyone for
them. A pod that asks for a GPU ends by itself; those that share one have to be seen side by side.
"""

from __future__ import annotations

import collections
import dataclasses
import decimal
import hashlib
import json
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import quantity
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import QUEUE_LABEL, Queue, ancestors

Object = dict[str, t.Any]
Amount = decimal.Decimal

CHECKS = ("cpu", "gpu", "fraction", "gang", "gang_too_large", "over_limit")
PASSED, FAILED, NOT_TRIED = "passed", "failed", "not_tried"

POD_GROUP = ("scheduling.run.ai/v2alpha2", "PodGroup")
# Written by the pod grouper (pkg/common/constants) and by the reservation pod.
POD_GROUP_NOTE = "pod-group-name"
RESERVED_GPU_NOTE = "run.ai/reserve_for_gpu_index"
# pkg/apis/scheduling/v2alpha2/podgroup_types.go
OVER_LIMIT = "OverLimit"

_HALF = "0.5"
_UUID = re.compile(r"UUID: (GPU-[-0-9a-fA-F]+)")
_LIST = "nvidia-smi -L"
_STAY = "trap 'exit 0' TERM; sleep 3600 & wait"
# More GPUs than any queue or cluster has.
_NEVER = 100_000
_REMOVED = "a pod of the probe was removed by someone else"
# What authorisation and webhooks that do not work leave in a log.
_TROUBLE = re.compile(r"Unauthorized|is forbidden|failed calling webhook|x509:")


@dataclasses.dataclass(frozen=True)
class Settings:
    namespace: str
    image: str
    scheduler_name: str
    gpu_resource: str
    runtime_class: str
    tolerations: tuple[Object, ...] = ()


NONE = Amount(0)
UNLIMITED = Amount("Infinity")


@dataclasses.dataclass(frozen=True, eq=False)
class Check:
    """Something to try in one queue.

    :ivar gang: the PodGroup its pods belong to, where KAI is not to make one for each.
    :ivar gpus: GPUs it needs on nodes.
    :ivar share: GPUs that count as allocated to the queue.
    """

    name: str
    queue: str
    pods: tuple[Object, ...]
    gang: Object | None = None
    gpus: int = 0
    share: Amount = NONE

    @property
    def pod_names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods]


@dataclasses.dataclass
class Seen:
    """What the cluster shows at one moment.

    :ivar groups: pod groups by name.
    :ivar reserved: UUIDs of the GPUs that reservation pods held since the check began; ``holding``, those they hold now.
    :ivar allocated: GPUs that count as allocated, by queue.
    """

    pods: dict[str, Object]
    logs: dict[str, str]
    groups: dict[str, Object] = dataclasses.field(default_factory=dict)
    reserved: set[str] = dataclasses.field(default_factory=set)
    holding: set[str] = dataclasses.field(default_factory=set)
    allocated: dict[str, Amount] = dataclasses.field(default_factory=dict)


# --- what to try -------------------------------------------------------------------------------------------------


def plan(names: t.Iterable[str], leaves: t.Sequence[str], room: Room, settings: Settings) -> tuple[list[Check], list[Object]]:
    """The checks to run, in this order, and records of those that cannot be."""
    checks: list[Check] = []
    records: list[Object] = []
    missing = [leaf for leaf in leaves if leaf not in room.queues]
    present = [leaf for leaf in leaves if leaf in room.queues]
    for name in sorted(names, key=lambda name: name == "fraction"):
        records += [record(name, leaf, FAILED, "the queue does not exist") for leaf in missing]
        if name == "fraction" and present:
            roomiest = max(present, key=room.headroom)
            pods = [_pod(settings, f"{name}-{n}", roomiest, f"{_LIST}; {_STAY}", fraction=_HALF) for n in (1, 2, 3)]
            checks.append(Check(name, roomiest, tuple(pods), gpus=2, share=3 * Amount(_HALF)))
        for leaf in present if name != "fraction" else []:
            limit = room.limit(leaf)
            too_many = _NEVER if limit == UNLIMITED else int(limit) + 1
            if name == "cpu":
                checks.append(Check(name, leaf, (_pod(settings, f"{name}-{leaf}", leaf, "true"),)))
            elif name == "gpu":
                pod = _pod(settings, f"{name}-{leaf}", leaf, _LIST, gpus=1)
                checks.append(Check(name, leaf, (pod,), gpus=1, share=Amount(1)))
            elif name == "gang":
                checks.append(_gang(name, leaf, settings, 0))
            elif name == "gang_too_large":
                checks.append(_gang(name, leaf, settings, too_many))
            elif limit == UNLIMITED:
                records.append(record(name, leaf, NOT_TRIED, "the queue has no limit of GPUs"))
            else:
                checks.append(Check(name, leaf, (_pod(settings, f"over-limit-{leaf}", leaf, "true", gpus=too_many),)))
    return checks, records


def _gang(name: str, leaf: str, settings: Settings, gpus: int) -> Check:
    """Two pods that start together or not at all, the second with as many GPUs; KAI leaves alone what has a PodGroup."""
    group = f"{name.replace('_', '-')}-{leaf}"
    pods = tuple(_pod(settings, f"{group}-{n}", leaf, "true", gpus=of) for n, of in ((1, 0), (2, gpus)))
    for pod in pods:
        pod["metadata"]["annotations"][POD_GROUP_NOTE] = group
    api_version, kind = POD_GROUP
    metadata = {"name": group, "namespace": settings.namespace}
    spec = {"minMember": len(pods), "queue": leaf, "priorityClassName": "train"}
    return Check(name, leaf, pods, {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})


def _pod(settings: Settings, name: str, queue: str, script: str, gpus: int = 0, fraction: str = "") -> Object:
    resources: Object = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}
    if gpus:
        resources["limits"][settings.gpu_resource] = str(gpus)
    spec: Object = {
        "schedulerName": settings.scheduler_name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "tolerations": list(settings.tolerations),
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "probe",
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", script],
                "resources": resources,
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
    if settings.runtime_class and (gpus or fraction):
        spec["runtimeClassName"] = settings.runtime_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            # As a label, KAI honours the class where the PriorityClass is not synced. It is the lowest, and preemptible.
            "labels": {QUEUE_LABEL: queue, "priorityClassName": "train"},
            "annotations": {"gpu-fraction": fraction} if fraction else {},
        },
        "spec": spec,
    }


def record(name: str, queue: str, verdict: str, reason: str, seconds: float = 0.0) -> Object:
    return {"name": name, "queue": queue, "verdict": verdict, "reason": reason, "seconds": round(seconds, 1)}


# --- room --------------------------------------------------------------------------------------------------------


class Room:
    """What was free before the probe began."""

    def __init__(self, queues: dict[str, Queue], allocated: dict[str, Amount], free: int) -> None:
        self.queues = queues
        self.allocated = allocated
        self.free = free

    def _limit(self, queue: Queue) -> Amount:
        # The API takes an unset limit as zero.
        limit = Amount(str(queue.spec.get("resources", {}).get("gpu", {}).get("limit", 0)))
        return UNLIMITED if limit < 0 else limit

    def limit(self, leaf: str) -> Amount:
        """GPUs that the queue and those above it allow."""
        return min(self._limit(queue) for queue in ancestors(self.queues, leaf))

    def headroom(self, leaf: str) -> Amount:
        """How many more GPUs they allow now."""
        return min(self._limit(queue) - self.allocated.get(queue.name, NONE) for queue in ancestors(self.queues, leaf))

    def lack(self, check: Check, running: t.Collection[Check]) -> str:
        """Why a check cannot start beside the running ones; empty when it can."""
        taking = [other for other in running if other.gpus]
        free = self.free - sum(other.gpus for other in taking)
        if check.gpus > free:
            return f"it needs {check.gpus} free GPUs, there are {free}"
        for queue in ancestors(self.queues, check.queue) if check.share else []:
            limit = self._limit(queue)
            below = [other for other in taking if queue in ancestors(self.queues, other.queue)]
            used = self.allocated.get(queue.name, NONE) + sum(other.share for other in below)
            if used + check.share > limit:
                return f"it needs {check.share} GPUs, queue {queue.name} has {used} of {limit} allocated"
        return ""


def allocated(queues: t.Iterable[Object], gpu_resource: str) -> dict[str, Amount]:
    """GPUs allocated to each queue, from its status."""
    return {
        item["metadata"]["name"]: quantity(item.get("status", {}).get("allocated", {}).get(gpu_resource, 0)) for item in queues
    }


def free_gpus(nodes: t.Iterable[Object], pods: t.Iterable[Object], gpu_resource: str) -> int:
    """Whole GPUs on schedulable nodes that no pod has."""
    usable = [node for node in nodes if not node["spec"].get("unschedulable")]
    names = {node["metadata"]["name"] for node in usable}
    there = sum(int(node["status"].get("allocatable", {}).get(gpu_resource, 0)) for node in usable)
    taken = sum(
        int(container.get("resources", {}).get("limits", {}).get(gpu_resource, 0))
        for pod in pods
        if pod["spec"].get("nodeName") in names and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        for container in pod["spec"]["containers"]
    )
    return there - taken


# --- the record of a probe ------------------------------------------------------------------------------------------

# Name of the ConfigMap beside KAI that holds it.
RECORD = "kubegpu-probe"


def fingerprint(asked: t.Any, queues: t.Iterable[Object], nodes: t.Iterable[Object], pods: t.Iterable[Object]) -> str:
    """A digest of all that a probe's verdicts rest on.

    :arg asked: what was to be checked, and how.
    :arg pods: KAI's own, which are others, or have started again, after a change or a reboot.
    """
    basis = [
        asked,
        sorted((item["metadata"]["name"], item.get("spec")) for item in queues),
        sorted(
            (node["metadata"]["name"], node["status"].get("allocatable"), _boot(node), node["spec"].get("unschedulable"))
            for node in nodes
        ),
        sorted((pod["metadata"]["uid"], _restarts(pod)) for pod in pods),
    ]
    return hashlib.sha256(json.dumps(basis, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _boot(node: Object) -> str:
    return str(node["status"].get("nodeInfo", {}).get("bootID", ""))


def _restarts(pod: Object) -> int:
    return sum(status.get("restartCount", 0) for status in pod.get("status", {}).get("containerStatuses") or [])


# --- verdicts ----------------------------------------------------------------------------------------------------


def judge(check: Check, seen: Seen, room: Room) -> tuple[str | None, str]:
    """The verdict and its reason, or None and what was seen so far."""
    pods = [seen.pods[name] for name in check.pod_names if name in seen.pods]
    if len(pods) < len(check.pods):
        return FAILED, _REMOVED
    if check.name == "over_limit":
        return _judge_over_limit(pods[0], seen)
    if check.name == "gang_too_large":
        return _judge_withheld(pods, seen)
    verdict, reason = _judge_placements(pods, seen)
    if verdict != PASSED or check.name == "cpu":
        return verdict, reason
    if check.name == "gang":
        return PASSED, f"both placed on {', '.join(sorted({pod['spec']['nodeName'] for pod in pods}))}"
    found = [_UUID.findall(seen.logs.get(name, "")) for name in check.pod_names]
    if check.name == "fraction":
        return _judge_fraction(check, found, seen, room)
    if not found[0] and pods[0]["status"]["phase"] != "Succeeded":
        return None, "no list of GPUs in its log yet"
    return (PASSED, f"sees {found[0][0]} only") if len(found[0]) == 1 else (FAILED, f"sees {len(found[0])} GPUs, not one")


def judge_begun(check: Check, begun: int, seen: Seen) -> tuple[str | None, str]:
    """The same while only the first of its pods were created: passed when all of them run."""
    pods = [seen.pods[name] for name in check.pod_names[:begun] if name in seen.pods]
    return _judge_placements(pods, seen) if len(pods) == begun else (FAILED, _REMOVED)


def _judge_placements(pods: list[Object], seen: Seen) -> tuple[str | None, str]:
    """That of the first pod that has not passed, else of the last one."""
    verdict, reason = None, "there is no pod"
    for pod in pods:
        verdict, reason = _judge_placement(pod, seen)
        if verdict != PASSED:
            break
    return verdict, reason


def _judge_placement(pod: Object, seen: Seen) -> tuple[str | None, str]:
    name, phase = pod["metadata"]["name"], pod.get("status", {}).get("phase")
    if phase == "Failed":
        log = seen.logs.get(name, "").strip().splitlines()
        return FAILED, f"pod {name} failed: {log[-1] if log else _why(pod)}"
    if phase not in ("Running", "Succeeded"):
        return None, f"pod {name} is pending: {_why(pod)}"
    if not _note(pod, POD_GROUP_NOTE):
        return FAILED, f"pod {name} was not placed by KAI Scheduler, it has no pod group"
    return PASSED, f"placed on {pod['spec']['nodeName']}"


def _judge_over_limit(pod: Object, seen: Seen) -> tuple[str | None, str]:
    if pod["spec"].get("nodeName"):
        return FAILED, f"was placed on {pod['spec']['nodeName']}, above the queue's limit"
    reasons = _reasons(pod, seen)
    for reason in reasons:
        if reason.get("reason") == OVER_LIMIT:
            return PASSED, f"{OVER_LIMIT}: {reason.get('message', '')}"
    told = "; ".join(f"{reason.get('reason')}: {reason.get('message')}" for reason in reasons)
    return None, f"is pending without the reason {OVER_LIMIT}: {told or _why(pod)}"


def _judge_withheld(pods: list[Object], seen: Seen) -> tuple[str | None, str]:
    for pod in pods:
        if pod["spec"].get("nodeName"):
            return FAILED, f"pod {pod['metadata']['name']} was placed on {pod['spec']['nodeName']} without the rest of its gang"
    for reason in _reasons(pods[0], seen):
        return PASSED, f"none of its pods was placed: {reason.get('reason')}: {reason.get('message', '')}"
    return None, "the scheduler has not said yet why it waits"


def _reasons(pod: Object, seen: Seen) -> list[Object]:
    """Why the scheduler does not place a pod's group, in its words."""
    group = seen.groups.get(_note(pod, POD_GROUP_NOTE), {})
    conditions = group.get("status", {}).get("schedulingConditions") or []
    return [reason for condition in conditions for reason in condition.get("reasons") or []]


def _judge_fraction(check: Check, found: list[list[str]], seen: Seen, room: Room) -> tuple[str | None, str]:
    if not all(found):
        return None, "no list of GPUs in the log of each pod yet"
    if any(len(uuids) != 1 for uuids in found):
        return FAILED, f"the pods see {', '.join(str(len(uuids)) for uuids in found)} GPUs, not one each"
    uuids = collections.Counter(pod[0] for pod in found)
    if sorted(uuids.values()) != [1, 2]:
        return FAILED, f"three halves are spread over {len(uuids)} GPUs as {', '.join(map(str, uuids.values()))}, not as 2 and 1"
    if unreserved := uuids.keys() - seen.reserved:
        return None, f"no reservation pod is annotated with {', '.join(sorted(unreserved))}"
    counted = seen.allocated.get(check.queue, NONE) - room.allocated.get(check.queue, NONE)
    if counted != check.share:
        return None, f"the queue's status counts {counted} GPUs, not {check.share}"
    shared = uuids.most_common(1)[0][0]
    lost = f" ({', '.join(sorted(gone))} is not any more, #1103)" if (gone := uuids.keys() - seen.holding) else ""
    return PASSED, f"two of three share {shared}, both GPUs are reserved{lost}, {check.share} GPUs count as allocated"


def judge_logs(logs: t.Mapping[str, str]) -> Object:
    """The record of what KAI's own pods wrote while the checks ran, by pod."""
    told = [f"{pod}: {line.strip()[:200]}" for pod, log in logs.items() for line in log.splitlines() if _TROUBLE.search(line)]
    if told:
        return record("logs", "", FAILED, f"{len(told)} lines tell of authorisation or webhooks, such as {told[-1]}")
    if not logs:
        return record("logs", "", NOT_TRIED, "KAI Scheduler has no pods here")
    return record("logs", "", PASSED, f"nothing about authorisation or webhooks in those of {', '.join(sorted(logs))}")


def _note(item: Object, key: str) -> str:
    return str((item["metadata"].get("annotations") or {}).get(key, ""))


def _why(pod: Object) -> str:
    """Why a pod does not run, in the cluster's words."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        for state in (container.get("state") or {}).values():
            if state.get("reason"):
                return f"{state['reason']} {state.get('message', '')}".strip()
    for condition in status.get("conditions") or []:
        if condition["status"] == "False" and condition.get("message"):
            return str(condition["message"])
    return "no reason given yet"
