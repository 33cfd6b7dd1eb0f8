# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge what the probe's pods, KAI's own pods and an earlier probe's record show."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import hashlib
import json
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import annotations_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import is_ready
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.facts import (
    FAILED,
    FINGERPRINT_KEY,
    LOGS,
    NOT_TRIED,
    OVER_LIMIT,
    PASSED,
    POD_GROUP_NOTE,
    REPORT_KEY,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.plan import NONE, Amount, Capacity, Check, Object, result

# A verdict and its reason; without a verdict, what was observed so far.
Verdict: t.TypeAlias = "tuple[str | None, str]"

TIME = "%Y-%m-%dT%H:%M:%SZ"

_UUID = re.compile(r"UUID: (GPU-[-0-9a-fA-F]+)")
_REMOVED = "a pod of the probe was removed by someone else"
# What authorisation and webhooks that do not work leave in a log.
_TROUBLE = re.compile(r"Unauthorized|is forbidden|failed calling webhook|x509:")


@dataclasses.dataclass
class Observation:
    """What the cluster shows at one moment.

    :ivar pods: the probe's pods by name.
    :ivar logs: their logs, by pod; ``unreadable``, why a log could not be read.
    :ivar groups: pod groups by name.
    :ivar reserved: UUIDs of the GPUs that reservation pods held since the check began; ``holding``, those they hold now.
    :ivar allocated: GPUs that count as allocated, by queue.
    """

    pods: dict[str, Object]
    logs: dict[str, str]
    unreadable: dict[str, str] = dataclasses.field(default_factory=dict)
    groups: dict[str, Object] = dataclasses.field(default_factory=dict)
    reserved: set[str] = dataclasses.field(default_factory=set)
    holding: set[str] = dataclasses.field(default_factory=set)
    allocated: dict[str, Amount] = dataclasses.field(default_factory=dict)


# --- the checks ----------------------------------------------------------------------------------------------------


def judge(check: Check, seen: Observation, capacity: Capacity) -> Verdict:
    """Return the verdict on a check whose pods are all created."""
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
    listed = [_UUID.findall(seen.logs.get(name, "")) for name in check.pod_names]
    missing = [name for name, uuids in zip(check.pod_names, listed, strict=True) if not uuids]
    for name in missing:
        if name in seen.unreadable:
            return None, f"the log of pod {name} cannot be read: {seen.unreadable[name]}"
    return _judge_fraction(check, listed, seen, capacity) if check.name == "fraction" else _judge_gpu(pods[0], listed[0])


def judge_begun(check: Check, begun: int, seen: Observation) -> Verdict:
    """Return the same while only the first ``begun`` of its pods were created: passed when all of them run."""
    pods = [seen.pods[name] for name in check.pod_names[:begun] if name in seen.pods]
    return _judge_placements(pods, seen) if len(pods) == begun else (FAILED, _REMOVED)


def _judge_placements(pods: list[Object], seen: Observation) -> Verdict:
    """Return the verdict on the first pod that has not passed, else on the last one."""
    verdict, reason = None, "there is no pod"
    for pod in pods:
        verdict, reason = _judge_placement(pod, seen)
        if verdict != PASSED:
            break
    return verdict, reason


def _judge_placement(pod: Object, seen: Observation) -> Verdict:
    name, phase = pod["metadata"]["name"], pod.get("status", {}).get("phase")
    if phase == "Failed":
        log = seen.logs.get(name, "").strip().splitlines()
        return FAILED, f"pod {name} failed: {log[-1] if log else _why(pod)}"
    if phase not in ("Running", "Succeeded"):
        return None, f"pod {name} is pending: {_why(pod)}"
    if not _pod_group(pod):
        return FAILED, f"pod {name} was not placed by KAI Scheduler, it has no pod group"
    return PASSED, f"placed on {pod['spec']['nodeName']}"


def _judge_gpu(pod: Object, uuids: list[str]) -> Verdict:
    if not uuids and pod["status"]["phase"] != "Succeeded":
        return None, "no list of GPUs in its log yet"
    return (PASSED, f"sees {uuids[0]} only") if len(uuids) == 1 else (FAILED, f"sees {len(uuids)} GPUs, not one")


def _judge_over_limit(pod: Object, seen: Observation) -> Verdict:
    if pod["spec"].get("nodeName"):
        return FAILED, f"was placed on {pod['spec']['nodeName']}, above the queue's limit"
    reasons = _reasons(pod, seen)
    for reason in reasons:
        if reason.get("reason") == OVER_LIMIT:
            return PASSED, f"{OVER_LIMIT}: {reason.get('message', '')}"
    given = "; ".join(f"{reason.get('reason')}: {reason.get('message')}" for reason in reasons)
    return None, f"is pending without the reason {OVER_LIMIT}: {given or _why(pod)}"


def _judge_withheld(pods: list[Object], seen: Observation) -> Verdict:
    for pod in pods:
        if pod["spec"].get("nodeName"):
            return FAILED, f"pod {pod['metadata']['name']} was placed on {pod['spec']['nodeName']} without the rest of its gang"
    for reason in _reasons(pods[0], seen):
        return PASSED, f"none of its pods was placed: {reason.get('reason')}: {reason.get('message', '')}"
    return None, "the scheduler has not given a reason to wait yet"


def _reasons(pod: Object, seen: Observation) -> list[Object]:
    """Return the scheduler's reasons for not placing a pod's group."""
    group = seen.groups.get(_pod_group(pod), {})
    conditions = group.get("status", {}).get("schedulingConditions") or []
    return [reason for condition in conditions for reason in condition.get("reasons") or []]


def _judge_fraction(check: Check, listed: list[list[str]], seen: Observation, capacity: Capacity) -> Verdict:
    if not all(listed):
        return None, "no list of GPUs in the log of each pod yet"
    if any(len(uuids) != 1 for uuids in listed):
        return FAILED, f"the pods see {', '.join(str(len(uuids)) for uuids in listed)} GPUs, not one each"
    uuids = collections.Counter(pod[0] for pod in listed)
    if sorted(uuids.values()) != [1, 2]:
        return FAILED, f"three halves are spread over {len(uuids)} GPUs as {', '.join(map(str, uuids.values()))}, not as 2 and 1"
    if unreserved := uuids.keys() - seen.reserved:
        return None, f"no reservation pod is annotated with {', '.join(sorted(unreserved))}"
    counted = seen.allocated.get(check.queue, NONE) - capacity.allocated.get(check.queue, NONE)
    if counted != check.share:
        return None, f"the queue's status counts {counted} GPUs, not {check.share}"
    shared = uuids.most_common(1)[0][0]
    lost = f" ({', '.join(sorted(gone))} is not any more, #1103)" if (gone := uuids.keys() - seen.holding) else ""
    return PASSED, f"two of three share {shared}, both GPUs are reserved{lost}, {check.share} GPUs count as allocated"


def _pod_group(pod: Object) -> str:
    return annotations_of(pod).get(POD_GROUP_NOTE, "")


def _why(pod: Object) -> str:
    """Return why a pod does not run, by its container's state or its conditions."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        for state in (container.get("state") or {}).values():
            if state.get("reason"):
                return f"{state['reason']} {state.get('message', '')}".strip()
    for condition in status.get("conditions") or []:
        if condition["status"] == "False" and condition.get("message"):
            return str(condition["message"])
    return "no reason given yet"


# --- KAI's own logs ------------------------------------------------------------------------------------------------


def judge_logs(logs: t.Mapping[str, str], unreadable: t.Mapping[str, str]) -> Object:
    """Return the result of the check of what KAI's own pods logged while the others ran.

    :arg logs: by pod; ``unreadable``, why a log could not be read, by pod.
    """
    lines = [f"{pod}: {line.strip()[:200]}" for pod, log in logs.items() for line in log.splitlines() if _TROUBLE.search(line)]
    if lines:
        return result(
            LOGS, "", FAILED, f"{len(lines)} lines about authorisation or webhooks that do not work, such as {lines[-1]}"
        )
    if unreadable:
        reasons = "; ".join(f"of pod {pod}: {reason}" for pod, reason in sorted(unreadable.items()))
        return result(LOGS, "", NOT_TRIED, f"could not be read: {reasons}")
    if not logs:
        return result(LOGS, "", NOT_TRIED, "KAI Scheduler has no pods here")
    return result(LOGS, "", PASSED, f"nothing about authorisation or webhooks in those of {', '.join(sorted(logs))}")


# --- the record of an earlier probe --------------------------------------------------------------------------------


def fingerprint(
    options: t.Mapping[str, t.Any], queues: t.Iterable[Object], nodes: t.Iterable[Object], pods: t.Iterable[Object]
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


def _taking_pods(node: Object) -> list[t.Any]:
    """Return what decides which pods start on a node, and its boot, after which devices may be others."""
    spec, status = node["spec"], node["status"]
    boot = status.get("nodeInfo", {}).get("bootID", "")
    return [status.get("allocatable"), boot, is_ready(node), spec.get("unschedulable"), spec.get("taints")]


def _restarts(pod: Object) -> int:
    return sum(status.get("restartCount", 0) for status in pod.get("status", {}).get("containerStatuses") or [])


def still_valid(record: Object | None, digest: str, max_age: int, now: datetime.datetime) -> Object | None:
    """Return the report of an earlier probe, where all of it passed and still holds.

    :arg record: the ConfigMap that keeps it.
    :arg max_age: seconds.
    """
    data = (record or {}).get("data") or {}
    if max_age <= 0 or data.get(FINGERPRINT_KEY) != digest:
        return None
    report: Object = json.loads(data[REPORT_KEY])
    age = now - datetime.datetime.strptime(report["at"], TIME).replace(tzinfo=datetime.UTC)
    passed = all(found["verdict"] == PASSED for found in report["results"])
    return report if passed and age.total_seconds() <= max_age else None
