# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge what the probe's pods, KAI's own pods and an earlier probe's record show."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re
import typing as t

from ..._common.documents import parse_json
from ..._common.names import POD_GROUP_NOTE, RESERVATION_NAMESPACE, RESERVED_GPU_NOTE
from ..._common.ownership import annotations_of
from ..._common.pods import IMAGE_REASONS, container_statuses, event_time, is_ended, is_ready
from ..._common.quantity import quantity
from ..._common.values import JsonObject, stamped
from ..._kai.facts import OVER_LIMIT
from ..._kai.status import is_error, log_cause, plain_lines
from ..._nodes.status import gpu_groups, held
from ..facts import ACCEPTED, FAILED, NOT_TRIED, PASSED
from ..status import Verdict, result
from .facts import BURST, CHECKS, FINGERPRINT_KEY, GPU_MEMORY, LOGS, LOST_RESERVATION, OOM_KILLED, REPORT_KEY
from .memory import Memory, Part, judge_memory
from .plan import NONE, Amount, Check

# The reason that is shown for a pod that waits when no scheduler gave one.
NO_REASON = "no reason given yet"

_UUID = re.compile(r"UUID: (GPU-[-0-9a-fA-F]+)")
_OVER_LIMIT = re.compile(rf"(^|: ){OVER_LIMIT}: ")
_FREE = "is reserved by no pod, and so free for others"


@dataclasses.dataclass(frozen=True)
class Counts:
    """GPUs that KAI counts as allocated.

    :ivar own: to the pods of a check, by their pod groups.
    :ivar groups: to its queue, by all of that queue's pod groups; ``queue``, by the queue's status, and ``before`` the probe.
    """

    own: Amount = NONE
    groups: Amount = NONE
    queue: Amount = NONE
    before: Amount = NONE


@dataclasses.dataclass
class Observation:
    """What the cluster shows at one moment. From ``cluster`` on, only checks whose pods share GPUs need it.

    :ivar pods: the probe's pods by name.
    :ivar logs: their logs, by pod; ``unreadable``, why a log could not be read.
    :ivar groups: pod groups by name.
    :ivar cluster: all pods of the cluster.
    :ivar devices: GPU devices that nodes have, by node.
    :ivar memory: of GPUs, and whether parts are to be limited to theirs.
    :ivar others: UUIDs of the GPUs that other pods shared at a time when a pod of the check was placed.
    :ivar counts: GPUs that count as allocated.
    :ivar settled: whether the check's pods have all run for some seconds, in which a reservation that was being made is there.
    """

    pods: dict[str, JsonObject]
    logs: dict[str, str]
    unreadable: dict[str, str] = dataclasses.field(default_factory=dict)
    groups: dict[str, JsonObject] = dataclasses.field(default_factory=dict)
    cluster: list[JsonObject] = dataclasses.field(default_factory=list)
    devices: dict[str, int] = dataclasses.field(default_factory=dict)
    memory: Memory = dataclasses.field(default_factory=Memory)
    others: frozenset[str] = frozenset()
    counts: Counts = Counts()
    settled: bool = False


# --- the checks ----------------------------------------------------------------------------------------------------


def judge(check: Check, seen: Observation, accepted: t.Collection[str] = ()) -> Verdict:
    """Return the verdict on a check whose pods are all created.

    :arg accepted: hazards by the name of upstream's issue, such as ``#1103``.
    """
    pods = [seen.pods[name] for name in check.pod_names if name in seen.pods]
    if len(pods) < len(check.pods):
        return _judge_removed(check, check.pod_names, seen, accepted)
    if check.name == "over_limit":
        return _judge_over_limit(pods[0], seen)
    if check.name == "gang_too_large":
        return _judge_withheld(pods, seen)
    verdict, reason = _judge_placements(pods, seen)
    if verdict != PASSED or check.name == "cpu":
        return verdict, reason
    if check.name == "gang":
        return PASSED, f"both placed on {', '.join(sorted({pod['spec']['nodeName'] for pod in pods}))}"
    listed = [_UUID.findall(seen.logs.get(name, "")) for name in check.pod_names]
    missing = [name for name, uuids in zip(check.pod_names, listed) if not uuids]
    for name in missing:
        if name in seen.unreadable:
            return None, f"the log of pod {name} cannot be read: {seen.unreadable[name]}"
    return _judge_sharing(check, pods, listed, seen, accepted) if check.portions else _judge_gpu(pods[0], listed[0])


def judge_begun(check: Check, begun: int, seen: Observation, accepted: t.Collection[str] = ()) -> Verdict:
    """Return the same while only the first ``begun`` of its pods were created: passed when all of them run."""
    names = check.pod_names[:begun]
    pods = [seen.pods[name] for name in names if name in seen.pods]
    return _judge_placements(pods, seen) if len(pods) == begun else _judge_removed(check, names, seen, accepted)


def _judge_removed(check: Check, names: list[str], seen: Observation, accepted: t.Collection[str]) -> Verdict:
    gone = ", ".join(name for name in names if name not in seen.pods)
    if not check.portions:
        return FAILED, f"removed by someone else: pod {gone}"
    # pkg/binder/binding/resourcereservation: deleteNonReservedPods.
    return _lost(f"removed by someone else, or by KAI's binder because its GPU was not reserved any more: pod {gone}", accepted)


def _judge_placements(pods: list[JsonObject], seen: Observation) -> Verdict:
    """Return the verdict on the first pod that has not passed, else on the last one."""
    verdict, reason = None, "there is no pod"
    for pod in pods:
        verdict, reason = _judge_placement(pod, seen)
        if verdict != PASSED:
            break
    return verdict, reason


def _judge_placement(pod: JsonObject, seen: Observation) -> Verdict:
    name, phase = pod["metadata"]["name"], pod.get("status", {}).get("phase")
    if phase == "Failed":
        log = seen.logs.get(name, "").strip().splitlines()
        return FAILED, f"pod {name} failed: {log[-1] if log else _why(pod)}"
    if phase not in ("Running", "Succeeded"):
        return None, f"pod {name} is pending: {_why(pod)}"
    if not _pod_group(pod):
        return FAILED, f"pod {name} was not placed by KAI Scheduler, it has no pod group"
    return PASSED, f"placed on {pod['spec']['nodeName']}"


def _judge_gpu(pod: JsonObject, uuids: list[str]) -> Verdict:
    if not uuids and pod["status"]["phase"] != "Succeeded":
        return None, "no list of GPUs in its log yet"
    return (PASSED, f"sees {uuids[0]} only") if len(uuids) == 1 else (FAILED, f"sees {len(uuids)} GPUs, not one")


def _judge_over_limit(pod: JsonObject, seen: Observation) -> Verdict:
    if pod["spec"].get("nodeName"):
        return FAILED, f"was placed on {pod['spec']['nodeName']}, above the queue's limit"
    reasons = _reasons(pod, seen)
    for reason in reasons:
        if _OVER_LIMIT.search(reason):
            return PASSED, reason
    return None, f"is pending without the reason {OVER_LIMIT}: {'; '.join(reasons) or NO_REASON}"


def _judge_withheld(pods: list[JsonObject], seen: Observation) -> Verdict:
    for pod in pods:
        if pod["spec"].get("nodeName"):
            return FAILED, f"pod {pod['metadata']['name']} was placed on {pod['spec']['nodeName']} without the rest of its gang"
    for reason in _reasons(pods[0], seen):
        return PASSED, f"none of its pods was placed: {reason}"
    return None, f"pod {pods[0]['metadata']['name']} is pending: {NO_REASON}"


def _reasons(pod: JsonObject, seen: Observation) -> list[str]:
    """Return the scheduler's reasons for not placing a pod, as "REASON: MESSAGE".

    They belong into the status of its pod group. Up to v0.9.14, and in v0.10.0, they do not get there when another writer changed
    that status meanwhile, as the pod group controller does: the scheduler then tries the same outdated object for ever (#676).
    The pod's condition has them in every release: from v0.12 on with a full stop behind them, before with a line break.
    """
    group = seen.groups.get(_pod_group(pod), {})
    listed = [
        reason
        for condition in group.get("status", {}).get("schedulingConditions") or []
        for reason in condition.get("reasons") or []
    ]
    conditions = [condition for condition in pod.get("status", {}).get("conditions") or [] if condition["type"] == "PodScheduled"]
    texts = [f"{reason.get('reason')}: {reason.get('message', '')}" for reason in listed]
    texts += [condition.get("message", "").strip() for condition in conditions if condition["status"] == "False"]
    return [text for text in texts if text]


def _pod_group(pod: JsonObject) -> str:
    return annotations_of(pod).get(POD_GROUP_NOTE, "")


def _why(pod: JsonObject) -> str:
    """Return why a pod does not run, by its container's state or its conditions."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        for state in (container.get("state") or {}).values():
            if state.get("reason"):
                return f"{state['reason']} {state.get('message', '')}".strip()
    for condition in status.get("conditions") or []:
        if condition["status"] == "False" and condition.get("message"):
            return str(condition["message"])
    return NO_REASON


# --- GPUs that pods share ------------------------------------------------------------------------------------------


def _judge_sharing(
    check: Check, pods: list[JsonObject], listed: list[list[str]], seen: Observation, accepted: t.Collection[str]
) -> Verdict:
    if not all(listed):
        return None, "no list of GPUs in the log of each pod yet"
    if any(len(uuids) != 1 for uuids in listed):
        return FAILED, f"the pods see {', '.join(str(len(uuids)) for uuids in listed)} GPUs, not one each"
    uuids = [found[0] for found in listed]
    wrong = "; ".join(misowned(pods, uuids, seen))
    if (wrong or check.name == BURST) and not seen.settled:
        return None, f"looked at again in a moment: {wrong or 'all of its pods run'}"
    if wrong:
        return _lost(wrong, accepted)
    parts: dict[str, list[Amount]] = {}
    for uuid, portion in zip(uuids, check.portions):
        parts.setdefault(uuid, []).append(portion)
    layout = ", ".join(f"{' + '.join(map(str, portions))} on {uuid}" for uuid, portions in parts.items())
    if any(sum(portions) > 1 for portions in parts.values()):
        return FAILED, f"more than a whole GPU was given out: {layout}"
    # A burst may find a GPU that is not free again yet; where others share GPUs, some of the pods may fit in there.
    if check.name != BURST and len(parts.keys() - seen.others) > check.gpus:
        return FAILED, f"the pods would fill {check.gpus} GPUs, and are spread over more: {layout}"
    if uncounted := _uncounted(check, seen.counts):
        return None, uncounted
    nodes = (pod["spec"]["nodeName"] for pod in pods)
    shares = [Part(name, node, portion, seen.logs[name]) for name, node, portion in zip(check.pod_names, nodes, check.portions)]
    verdict, memory = judge_memory(shares, seen.memory)
    return verdict, f"{layout}; each GPU is reserved, {_plain(seen.counts.own)} GPUs count as allocated; {memory}"


def _lost(what: str, accepted: t.Collection[str]) -> Verdict:
    """Return the verdict on a reservation that was lost."""
    return (ACCEPTED if LOST_RESERVATION in accepted else FAILED), f"{what} ({LOST_RESERVATION})"


def counts(
    check: Check,
    pods: t.Mapping[str, JsonObject],
    groups: t.Iterable[JsonObject],
    queue: JsonObject | None,
    resource: str,
    before: Amount = NONE,
) -> Counts:
    """Return the GPUs that count as allocated to a check and its queue.

    :arg pods: by name; ``groups``: all pod groups of the cluster; ``before``: what the queue's status counted before the probe.
    """
    metadata = [pods[name]["metadata"] for name in check.pod_names if name in pods]
    names = {(item.get("namespace"), (item.get("annotations") or {}).get(POD_GROUP_NOTE)) for item in metadata}
    own = total = NONE
    for group in groups:
        allocated = (group.get("status") or {}).get("resourcesStatus", {}).get("allocated") or {}
        gpus = quantity(allocated.get(resource, 0))
        own += gpus if (group["metadata"].get("namespace"), group["metadata"]["name"]) in names else NONE
        total += gpus if group["spec"].get("queue") == check.queue else NONE
    status = (queue or {}).get("status", {}).get("allocated") or {}
    return Counts(own, total, quantity(status.get(resource, 0)), before)


def _uncounted(check: Check, counted: Counts) -> str:
    """Return what KAI does not count yet; empty when all is counted.

    The queue's status is the sum over its pod groups, and both are written when KAI's controllers see a change
    (pkg/queuecontroller, pkg/podgroupcontroller). So it is right where it equals that sum, also after a pause, when it counted pods
    that ended with it until the controllers ran again. (Seen: 0.5 more than before instead of 1.5, which a whole GPU from before
    the pause explains.) It is right as well where it grew by what the check has: after a downgrade v0.12.0 never counts the pods that
    ran before, though their pod groups do.
    """
    # What a part of its memory is of a GPU depends on the node.
    right = NONE < counted.own <= check.share if check.name == GPU_MEMORY else counted.own == check.share
    if not right:
        return f"the pod groups of its pods count {_plain(counted.own)} GPUs, not {_plain(check.share)}"
    if counted.queue != counted.groups and counted.queue - counted.before != counted.own:
        return f"the queue's status counts {_plain(counted.queue)} GPUs, its pod groups {_plain(counted.groups)}"
    return ""


def _plain(amount: Amount) -> str:
    return f"{amount.normalize():f}"


def misowned(pods: list[JsonObject], uuids: list[str], seen: Observation) -> list[str]:
    """Return a sentence for each GPU that is free for others while pods share it, or that has two owners.

    :arg pods: those of the check, and the GPU that each of them sees. Of other pods it is not known which one they have.
    """
    live = [pod for pod in seen.cluster if _is_live(pod)]
    reserved: dict[str, set[str]] = {}
    for pod in filter(_is_reservation, live):
        for group in gpu_groups(pod):
            reserved.setdefault(group, set()).add(annotations_of(pod).get(RESERVED_GPU_NOTE, ""))
    own = {_full_name(pod) for pod in pods}
    others = [pod for pod in live if pod["status"].get("phase") == "Running" and _full_name(pod) not in own]
    return [
        *_misowned_by_uuid(pods, uuids, reserved),
        *(
            f"a GPU on node {pod['spec']['nodeName']}, used by {_full_name(pod)}, {_FREE}"
            for pod in others
            if gpu_groups(pod) - reserved.keys()
        ),
        *_overbooked(live, seen.devices),
    ]


def of_others(pods: t.Iterable[JsonObject], namespace: str) -> list[JsonObject]:
    """Return the pods outside of the probe's namespace, without the pods that reserve GPUs for its pods alone."""
    outside = [pod for pod in pods if pod["metadata"].get("namespace") != namespace]
    used = {group for pod in outside if not _is_reservation(pod) for group in gpu_groups(pod)}
    return [pod for pod in outside if not _is_reservation(pod) or gpu_groups(pod) & used]


def shared_gpus(pods: t.Iterable[JsonObject]) -> set[str]:
    """Return the UUIDs of the GPUs that pods share, by the pods that reserve them."""
    known = list(pods)
    used = {group for pod in known if not (_is_reservation(pod) or is_ended(pod)) for group in gpu_groups(pod)}
    reservations = [pod for pod in known if _is_reservation(pod) and gpu_groups(pod) & used]
    return {uuid for pod in reservations if (uuid := annotations_of(pod).get(RESERVED_GPU_NOTE))}


def _misowned_by_uuid(pods: list[JsonObject], uuids: list[str], reserved: t.Mapping[str, set[str]]) -> list[str]:
    """Return these sentences for GPUs that pods of the check see.

    :arg reserved: UUIDs by GPU group.
    """
    users: dict[tuple[str, str], dict[str, list[str]]] = {}
    for pod, uuid in zip(pods, uuids):
        for group in gpu_groups(pod) or {""}:
            users.setdefault((uuid, pod["spec"]["nodeName"]), {}).setdefault(group, []).append(pod["metadata"]["name"])
    sentences = []
    for (uuid, node), groups in users.items():
        for group, names in groups.items():
            if uuid not in reserved.get(group, ()):
                sentences.append(f"{uuid} on node {node}, used by {', '.join(names)}, {_FREE}")
        owners = groups.keys() | {group for group, held_by in reserved.items() if uuid in held_by}
        if len(owners) > 1:
            sentences.append(f"{uuid} on node {node} has {len(owners)} owners, the groups {', '.join(sorted(owners))}")
    return sentences


def _overbooked(pods: list[JsonObject], devices: t.Mapping[str, int]) -> list[str]:
    """Return a sentence for each node on which groups of pods and pods with whole GPUs are more than its GPUs."""
    sentences = []
    for node, offered in devices.items():
        there = [pod for pod in pods if pod["spec"].get("nodeName") == node]
        whole = sum(held(pod) for pod in there if not _is_reservation(pod))
        shared = len({group for pod in there for group in gpu_groups(pod)})
        if shared and whole + shared > offered:
            sentences.append(f"of {offered} GPUs on node {node}, {whole} are given whole and {shared} to groups of pods")
    return sentences


def _full_name(pod: JsonObject) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"


def _is_reservation(pod: JsonObject) -> bool:
    return bool(pod["metadata"].get("namespace") == RESERVATION_NAMESPACE)


def _is_live(pod: JsonObject) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and "deletionTimestamp" not in pod["metadata"]


# --- KAI's own pods ------------------------------------------------------------------------------------------------


def judge_logs(logs: t.Mapping[str, str], unreadable: t.Mapping[str, str], broken: t.Iterable[str] = ()) -> JsonObject:
    """Return the result of the check of what KAI's own pods logged while the others ran.

    :arg logs: by pod; ``unreadable``, why a log could not be read, by pod.
    :arg broken: what ``broken_pods`` returned.
    """
    lines: dict[tuple[str, str], list[str]] = {}
    for pod, log in logs.items():
        for line in plain_lines(log):
            if cause := log_cause(line):
                lines.setdefault(cause, []).append(f"{pod}: {line.strip()[:200]}")
    told = [
        *broken,
        *(f"{meaning} ({len(found)} lines, such as {found[-1]}). {advice}" for (meaning, advice), found in lines.items()),
    ]
    if told:
        return result(LOGS, "", FAILED, "; ".join(told))
    if unreadable:
        reasons = "; ".join(f"of pod {pod}: {reason}" for pod, reason in sorted(unreadable.items()))
        return result(LOGS, "", NOT_TRIED, f"could not be read: {reasons}")
    if not logs:
        return result(LOGS, "", NOT_TRIED, "KAI Scheduler has no pods here")
    return result(LOGS, "", PASSED, f"nothing that is known to go wrong in those of {', '.join(sorted(logs))}")


def broken_pods(pods: t.Iterable[JsonObject], since: str) -> list[str]:
    """Return a sentence for each of KAI's containers whose image does not come, or that was ended for want of memory.

    :arg since: UTC time as the API writes it. Of a container that runs again, only what happened later counts.
    """
    sentences = []
    for pod in pods:
        for status in container_statuses(pod):
            state = status.get("state") or {}
            waiting = state.get("waiting") or {}
            ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
            where = f"pod {pod['metadata']['name']}: {status['name']}:"
            if waiting.get("reason") in IMAGE_REASONS:
                sentences.append(f"{where} {waiting['reason']} {waiting.get('message', '')}".strip())
            elif ended.get("reason") == OOM_KILLED and ("running" not in state or ended.get("finishedAt", "") >= since):
                sentences.append(f"{where} {OOM_KILLED}: it needs a higher limit of memory")
    return sentences


def last_error(logs: t.Iterable[str]) -> str:
    """Return the last line that tells of an error; empty where there is none."""
    lines = [line for log in logs for line in plain_lines(log) if is_error(line)]
    return lines[-1].strip()[:200] if lines else ""


def newest_warning(events: t.Iterable[JsonObject], pods: t.Collection[str]) -> str:
    """Return the newest warning of some pods, by their names; empty where there is none.

    :arg events: of their namespace.
    """
    warnings = [event for event in events if event.get("type") == "Warning" and event["involvedObject"].get("name") in pods]
    newest = max(warnings, key=event_time, default={})
    return " ".join(str(newest.get("message", "")).split())[:300]


# --- the record of an earlier probe --------------------------------------------------------------------------------


def fingerprint(
    options: t.Mapping[str, t.Any], queues: t.Iterable[JsonObject], nodes: t.Iterable[JsonObject], pods: t.Iterable[JsonObject]
) -> str:
    """Return a digest of all that the verdicts rest on.

    :arg options: of the probe: what is checked, where, and with which pods.
    :arg pods: KAI's own, which are others, or have started again, after a change or a reboot.
    """
    basis = [
        options,
        sorted((item["metadata"]["name"], item.get("spec")) for item in queues),
        sorted((node["metadata"]["name"], _taking_pods(node)) for node in nodes),
        sorted((pod["metadata"]["uid"], _restarts(pod)) for pod in pods),
    ]
    return hashlib.sha256(json.dumps(basis, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _taking_pods(node: JsonObject) -> list[t.Any]:
    """Return what decides which pods start on a node, and its boot, after which devices may be others."""
    spec, status = node["spec"], node["status"]
    boot = status.get("nodeInfo", {}).get("bootID", "")
    return [status.get("allocatable"), boot, is_ready(node), spec.get("unschedulable"), spec.get("taints")]


def _restarts(pod: JsonObject) -> int:
    return sum(status.get("restartCount", 0) for status in pod.get("status", {}).get("containerStatuses") or [])


def still_valid(record: JsonObject | None, digest: str, max_age: int | None, now: datetime.datetime) -> JsonObject | None:
    """Return the report of an earlier probe, where all of it passed or was accepted, and still holds.

    :arg record: the ConfigMap that keeps it.
    :arg max_age: seconds; 0 or None where no report stands in for a probe.
    """
    data = (record or {}).get("data") or {}
    if not max_age or data.get(FINGERPRINT_KEY) != digest:
        return None
    try:
        report: JsonObject = parse_json(data[REPORT_KEY])
        age = now - stamped(report["at"])
        # In a virtual cluster its administrator may have written it.
        passed = all(
            found["verdict"] in (PASSED, ACCEPTED) and found["name"] in (*CHECKS, LOGS) and isinstance(found["reason"], str)
            for found in report["results"]
        )
    except (ValueError, KeyError, TypeError):
        return None
    return report if passed and 0 <= age.total_seconds() <= max_age else None
