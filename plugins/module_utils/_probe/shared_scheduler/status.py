# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge pods of a tenant that shares a scheduler or nodes, as the tenant sees them and as the host cluster does."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._common.names import GPU_GROUP_LABEL, GPU_UUID, POD_GROUP_NOTE, RESERVATION_NAMESPACE, RESERVED_GPU_NOTE
from ..._common.ownership import annotations_of, labels_of
from ..._common.pods import pod_state
from ..._common.synced import synced_from, virtual_name
from ..._common.values import JsonObject
from ..facts import FAILED, PASSED
from ..kai_scheduling.memory import Memory, Part, judge_memory
from ..status import Verdict
from .plan import DEVICES, FRACTION, HALF, QUEUE, Check

_UUID = re.compile(GPU_UUID)
# What policies do that refuse the pods of these checks.
_KEEPS = {QUEUE: "keeps the tenant to its queues", DEVICES: "keeps GPUs that others have from its pods"}


@dataclasses.dataclass(frozen=True)
class Seen:
    """What both clusters show at one moment.

    :ivar inside: the probe's pods in the tenant, by name; ``logs``, what they printed, alike.
    :ivar on_host: all pods of the host cluster.
    :ivar queues: of the pod groups in the tenant's namespace there, by the group's name.
    :ivar memory: of the host cluster's GPUs, and whether parts are to be limited to theirs.
    """

    inside: t.Mapping[str, JsonObject]
    logs: t.Mapping[str, str]
    on_host: t.Sequence[JsonObject]
    queues: t.Mapping[str, str]
    memory: Memory = dataclasses.field(default_factory=Memory)


def synced(pods: t.Iterable[JsonObject], namespace: str, home: str) -> dict[str, JsonObject]:
    """Return the host's pods of a namespace of a tenant, by their names there.

    :arg home: the tenant's namespace on the host.
    """
    return {
        virtual_name(pod).partition("/")[2]: pod
        for pod in pods
        if pod["metadata"]["namespace"] == home and synced_from(pod) == namespace
    }


def judge(check: Check, seen: Seen, namespace: str, home: str, scheduler: str) -> Verdict:
    """Return the verdict on a check whose pods are all created; None while it is not known.

    :arg namespace: of the probe in the tenant; ``home``, the tenant's on the host.
    :arg scheduler: its name.
    """
    waiting = [seen.inside.get(name) for name in check.pod_names]
    for name, pod in zip(check.pod_names, waiting):
        if pod is None:
            return FAILED, f"pod {name} was removed by someone else"
        if pod.get("status", {}).get("phase") != "Running":
            return None, pod_state(pod)
    uuids: list[str] = []
    for name in check.pod_names:
        found = _UUID.findall(seen.logs.get(name, ""))
        if not found:
            return None, f"no list of GPUs in the log of pod {name} yet"
        if len(found) > 1:
            return FAILED, f"pod {name} sees {len(found)} GPUs: {', '.join(found)}"
        uuids += found
    here = synced(seen.on_host, namespace, home)
    for name in check.pod_names:
        if wrong := _on_host(name, here.get(name), check, seen, scheduler):
            return wrong
    if check.name != FRACTION:
        return PASSED, f"{uuids[0]}; in queue {check.queue} on the host cluster"
    own = [here[name] for name in check.pod_names]
    # Beside others that share GPUs, either pod may be on one that has room left.
    if len(set(uuids)) > 1 and not all(_others(pod, own, seen.on_host) for pod in own):
        return FAILED, f"the pods would fit on one GPU, and are on {', '.join(sorted(set(uuids)))}"
    for pod, uuid in zip(own, uuids):
        if lost := _unreserved(pod, uuid, seen.on_host):
            return None, lost
    held = ", ".join(dict.fromkeys(uuids))
    halves = [Part(name, here[name]["spec"]["nodeName"], HALF, seen.logs[name]) for name in check.pod_names]
    verdict, memory = judge_memory(halves, seen.memory)
    return (
        verdict,
        f"half of {held} each, reserved by {RESERVATION_NAMESPACE}; in queue {check.queue} on the host cluster; {memory}",
    )


def judge_refusal(
    check: Check, on_host: t.Iterable[JsonObject], events: t.Iterable[JsonObject], namespace: str, home: str
) -> Verdict:
    """Return the verdict on a pod that a policy has to refuse; None while it is not known.

    :arg events: of the probe's namespace in the tenant.
    :arg namespace: that namespace; ``home``, the tenant's on the host.
    """
    (name,) = check.pod_names
    if name in synced(on_host, namespace, home):
        return FAILED, f"pod {name} was let in: no policy of the host cluster {_KEEPS[check.name]}"
    for event in events:
        said = str(event.get("message") or "")
        if (event.get("involvedObject") or {}).get("name") == name and check.refused_for in said:
            return PASSED, f"refused, and the tenant told: {said.rpartition('denied request: ')[2]}"
    return None, f"pod {name} is not on the host cluster, and no event in the tenant says why"


def _others(pod: JsonObject, own: t.Sequence[JsonObject], on_host: t.Iterable[JsonObject]) -> bool:
    """Tell whether pods that are not the probe's share the GPU of a pod."""
    group = labels_of(pod).get(GPU_GROUP_LABEL)
    uids = {one["metadata"]["uid"] for one in own}
    return any(
        labels_of(other).get(GPU_GROUP_LABEL) == group
        and other["metadata"]["namespace"] != RESERVATION_NAMESPACE
        and other["metadata"]["uid"] not in uids
        for other in on_host
    )


def _on_host(name: str, pod: JsonObject | None, check: Check, seen: Seen, scheduler: str) -> Verdict | None:
    """Return what is wrong with a pod on the host; None where nothing is."""
    if pod is None:
        return None, f"pod {name} is not on the host cluster yet"
    if pod["spec"].get("schedulerName") != scheduler:
        return FAILED, f"pod {name} was placed by {pod['spec'].get('schedulerName')}, not by {scheduler}"
    queue = seen.queues.get(annotations_of(pod).get(POD_GROUP_NOTE, ""))
    if queue is None:
        return None, f"pod {name} has no pod group on the host cluster yet"
    return None if queue == check.queue else (FAILED, f"pod {name} is in queue {queue} on the host cluster, not in {check.queue}")


def _unreserved(pod: JsonObject, uuid: str, on_host: t.Iterable[JsonObject]) -> str:
    """Return that no reservation pod holds the GPU for the group of a pod; empty where one does."""
    group = labels_of(pod).get(GPU_GROUP_LABEL)
    for other in on_host:
        holds = (labels_of(other).get(GPU_GROUP_LABEL), annotations_of(other).get(RESERVED_GPU_NOTE)) == (group, uuid)
        if other["metadata"]["namespace"] == RESERVATION_NAMESPACE and holds and "deletionTimestamp" not in other["metadata"]:
            return ""
    return f"{uuid} is reserved by no pod for the group {group}, and so free for others"
