# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Probe whether a tenant's pods run in a sandbox: by the kernel that a pod sees, because a RuntimeClass of any name may lead to plain runc.

A machine of Kata has a kernel of its own, with a boot ID of its own. gVisor is its own kernel, and reports its own release. A pod of plain
runc sees release and boot ID of its node, both of which the node reports to the API server.
"""

from __future__ import annotations

import typing as t

from .._common.errors import WaitTimeout
from .._common.names import namespace_of
from .._common.ownership import MARKER_LABEL
from .._common.pods import is_ended, pod_spec, pod_state
from .._common.synced import joined, virtual_name
from .._common.text import shown
from .._common.values import JsonObject
from .facts import FAILED, PASSED
from .lifecycle import Connect, await_verdict, own_namespace
from .plan import Settings, pod
from .status import Verdict, concluded, record, termination_message, untried

if t.TYPE_CHECKING:
    from .._common.run import Result, Run

NAME = "kubegpu-sandbox-probe"
CHECKS = KERNEL, PODS = ("sandbox kernel", "sandbox pods")
# What the pod says of its kernel, a line each. Where a kernel has no boot ID to read, the line is empty.
_SCRIPT = "{ uname -r; cat /proc/sys/kernel/random/boot_id 2>/dev/null; } > /dev/termination-log"
# Pods that a failure names.
_NAMED = 5


def probe(run: Run, connect: Connect) -> Result:
    """Return the records of CHECKS.

    :arg connect: returns the adapter to the tenant's API server.
    """
    if run.check_mode:
        return concluded(untried(CHECKS), 0.0)
    settings, deadline, runtime_class = Settings.of(run.params), run.deadline, run.params["runtime_class"]
    kube, inside, tenant = run.kube, connect(), run.params["tenant"]
    name, namespace = joined(NAME, "x", settings.namespace, "x", tenant), namespace_of(tenant)

    def judge() -> Verdict:
        # On the host cluster, what a pod said comes from the kubelet, and where it ran, from the scheduler.
        live = kube.get("v1", "Pod", name, namespace)
        return outcome(live, kube.get("v1", "Node", live["spec"]["nodeName"]) if live and is_ended(live) else None, runtime_class)

    with own_namespace(inside, settings.namespace, deadline):
        inside.create(client(settings))
        try:
            verdict, reason = await_verdict("the pod in the sandbox", judge, deadline)
        except WaitTimeout as exc:
            verdict, reason = FAILED, exc.message
        kernel = record(KERNEL, verdict, reason, deadline.elapsed())
    synced = kube.list("v1", "Pod", namespace, f"{MARKER_LABEL}={tenant}")
    return concluded([kernel, record(PODS, *outside(synced, runtime_class), deadline.elapsed())], deadline.elapsed())


def client(settings: Settings) -> JsonObject:
    """Return the pod that says what kernel it sees. It names no RuntimeClass, as most pods do."""
    return pod(settings, pod_spec(settings.image, _SCRIPT) | {"restartPolicy": "Never"}, name=NAME)


def outcome(client: JsonObject | None, node: JsonObject | None, runtime_class: str) -> Verdict:
    """Return the verdict on the kernel that a pod saw, once it has ended.

    :arg client: as it is on the host cluster; None where it is not there yet.
    :arg node: on which it ran; None where that is gone, or the pod has not ended.
    """
    if client is None:
        return None, "the pod is not on the host cluster yet"
    if not is_ended(client):
        return None, pod_state(client)
    release, _line, boot = termination_message(client).partition("\n")
    if client["status"]["phase"] != "Succeeded" or not release:
        return FAILED, f"the pod could not say which kernel it sees: {pod_state(client)}"
    if node is None:
        return FAILED, "the node of the pod is gone, so its kernel cannot be compared"
    info, where = node["status"]["nodeInfo"], f"node {node['metadata']['name']}"
    if release != info["kernelVersion"]:
        return PASSED, f"it sees kernel {shown(release)}, and {where} has {info['kernelVersion']}"
    if boot.strip() and boot.strip() != info["bootID"]:
        return PASSED, f"it sees kernel {shown(release)} of another boot than that of {where}"
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
