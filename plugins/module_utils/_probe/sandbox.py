# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Probe whether a tenant's pods run in a sandbox: by the kernel that a pod sees, because a RuntimeClass of any name may lead to plain runc.

The pod is made on the host cluster, in the tenant's namespace: what is made in the virtual cluster, its administrator can change on the way. It
says release and boot ID of its kernel. A machine of Kata has a kernel of its own, with a boot ID of its own. gVisor is its own kernel, which
reports a release of its own. A pod of plain runc sees both of its node's, as the kubelet reports them.
"""

from __future__ import annotations

import re
import typing as t

from .._common.errors import TenancyError, WaitTimeout
from .._common.names import DEDICATED_TAINT, namespace_of
from .._common.ownership import MARKER_LABEL, OWNED_LABELS, is_owned
from .._common.pods import is_ended, pod_spec, pod_state
from .._common.synced import virtual_name
from .._common.text import shown
from .._common.values import JsonObject
from .._common.wait import wait_for
from .._nodes.status import node_selector
from .facts import FAILED, PASSED
from .lifecycle import CLEAN_UP, await_verdict
from .plan import Settings, pod
from .status import Verdict, concluded, record, termination_message, untried

if t.TYPE_CHECKING:
    from .._common.run import Result, Run

NAME = "kubegpu-sandbox-probe"
CHECKS = KERNEL, PODS = ("sandbox kernel", "sandbox pods")
# What the pod says of its kernel, a line each. Where a kernel has no boot ID to read, there is one line.
_SCRIPT = "{ uname -r; cat /proc/sys/kernel/random/boot_id 2>/dev/null; } > /dev/termination-log; true"
_BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Pods that a failure names.
_NAMED = 5


def probe(run: Run) -> Result:
    """Return the records of CHECKS."""
    if run.check_mode:
        return concluded(untried(CHECKS), 0.0)
    kube, deadline, runtime_class = run.kube, run.deadline, run.params["runtime_class"]
    tenant, namespace = run.params["tenant"], namespace_of(run.params["tenant"])

    def judge() -> Verdict:
        live = kube.get("v1", "Pod", NAME, namespace)
        return outcome(live, kube.get("v1", "Node", live["spec"]["nodeName"]) if live and is_ended(live) else None, runtime_class)

    # Of a probe that was killed.
    _remove(run, namespace)
    try:
        kube.create(client(Settings.of({**run.params, "namespace": namespace}), tenant, runtime_class))
        try:
            verdict, reason = await_verdict("the pod in the sandbox", judge, deadline)
        except WaitTimeout as exc:
            verdict, reason = FAILED, exc.message
    finally:
        _remove(run, namespace)
    kernel = record(KERNEL, verdict, reason, deadline.elapsed())
    synced = kube.list("v1", "Pod", namespace, f"{MARKER_LABEL}={tenant}")
    return concluded([kernel, record(PODS, *outside(synced, runtime_class), deadline.elapsed())], deadline.elapsed())


def _remove(run: Run, namespace: str) -> None:
    live = run.kube.get("v1", "Pod", NAME, namespace)
    if live is None:
        return
    if not is_owned(live):
        raise TenancyError(f"Pod {NAME} in namespace {namespace} is not this collection's. Remove it.")
    run.kube.delete("v1", "Pod", NAME, namespace)

    def gone() -> tuple[bool | None, str]:
        return (None, "it still exists") if run.kube.get("v1", "Pod", NAME, namespace) else (True, "")

    wait_for(f"the end of pod {NAME}", gone, run.deadline.extended(CLEAN_UP), interval=0.3)


def client(settings: Settings, tenant: str, runtime_class: str) -> JsonObject:
    """Return the pod that says what kernel it sees, on a node of the tenant."""
    own = {"key": DEDICATED_TAINT, "operator": "Equal", "value": tenant, "effect": "NoSchedule"}
    item = pod(
        settings,
        pod_spec(settings.image, _SCRIPT)
        | {"restartPolicy": "Never", "runtimeClassName": runtime_class, "nodeSelector": node_selector(tenant)},
        name=NAME,
        labels=dict(OWNED_LABELS),
    )
    item["spec"]["tolerations"].append(own)
    return item


def outcome(client: JsonObject | None, node: JsonObject | None, runtime_class: str) -> Verdict:
    """Return the verdict on the kernel that a pod saw, once it has ended.

    :arg client: None where it was removed.
    :arg node: on which it ran; None where that is gone, or the pod has not ended.
    """
    if client is None:
        return FAILED, "the probe's pod was removed by someone else"
    if not is_ended(client):
        return None, pod_state(client)
    release, _line, rest = termination_message(client).partition("\n")
    if client["status"]["phase"] != "Succeeded" or not release:
        return FAILED, f"the pod could not say which kernel it sees: {pod_state(client)}"
    if node is None:
        return FAILED, "the node of the pod is gone, so its kernel cannot be compared"
    info, where = node["status"]["nodeInfo"], f"node {node['metadata']['name']}"
    said = f"it sees kernel {shown(release, 80)}"
    boot = _BOOT_ID.fullmatch(rest.strip())
    if boot and info.get("bootID"):
        if boot[0] != info["bootID"]:
            return PASSED, f"{said} of another boot than that of {where}"
    elif release != info["kernelVersion"]:
        return PASSED, f"{said}, and {where} has {info['kernelVersion']}"
    return FAILED, (
        f"it sees the kernel of {where}, {info['kernelVersion']}: RuntimeClass {runtime_class} is no sandbox there. "
        "See to which program its handler leads in the node's container runtime"
    )


def outside(pods: t.Iterable[JsonObject], runtime_class: str) -> tuple[str, str]:
    """Return the verdict on the RuntimeClass of a tenant's pods on the host cluster, and its reason."""
    running = [one for one in pods if not is_ended(one)]
    others = sorted(virtual_name(one) for one in running if one["spec"].get("runtimeClassName") != runtime_class)
    if not others:
        return PASSED, f"{len(running)} run in RuntimeClass {runtime_class}"
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return FAILED, (
        f"{len(others)} of {len(running)} pods run outside RuntimeClass {runtime_class}, because they are older than the sandbox: "
        f"{', '.join(others[:_NAMED])}{more}. Delete them in the virtual cluster, so that their controllers make them again"
    )
