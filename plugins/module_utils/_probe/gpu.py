# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Probe whether pods get GPUs: on each node, a pod lists the one GPU that it asked for."""

from __future__ import annotations

import re
import typing as t

from .._common.names import GPU_RESOURCE, GPU_UUID
from .._common.pods import is_ended, pod_spec, pod_state, unscheduled
from .._common.values import JsonObject
from .._nodes.status import held, offered, untolerated
from .facts import FAILED, NOT_TRIED, PASSED
from .lifecycle import await_verdicts, own_namespace
from .plan import Settings, on_node, pod
from .status import Verdict, concluded, record, termination_message

if t.TYPE_CHECKING:
    from .._common.run import Result, Run

NAME = "kubegpu-gpu-probe"
IMAGE = "docker.io/library/debian:12.12-slim"
# The node that a pod is for.
NODE_NOTE = "kubegpu.tenancy/node"

_UUID = re.compile(GPU_UUID)


def probe(run: Run) -> Result:
    """Return the record of each node that offers GPUs, all of which are tried at once."""
    kube, deadline, settings = run.kube, run.deadline, Settings.of(run.params)
    nodes = {node["metadata"]["name"]: node for node in kube.list("v1", "Node") if offered(node)}
    pods = kube.list("v1", "Pod")
    reasons = {name: "check mode" if run.check_mode else why_not(node, pods, settings) for name, node in nodes.items()}
    records = [record(name, NOT_TRIED, reason, deadline.elapsed()) for name, reason in reasons.items() if reason]
    tried = [name for name, reason in reasons.items() if not reason]

    def look() -> t.Callable[[str], Verdict]:
        by_node = {one["metadata"]["annotations"][NODE_NOTE]: one for one in kube.list("v1", "Pod", settings.namespace)}
        return lambda node: judge(node, by_node.get(node))

    def judge(node: str, own: JsonObject | None) -> Verdict:
        if own is None:
            return FAILED, "the pod was removed by someone else"
        verdict, reason = outcome(own, _uuids(run.params["expected_gpus"], node))
        if verdict is None and crowded_out(own) and (taken := no_longer(node)):
            return NOT_TRIED, taken
        return verdict, reason

    def no_longer(name: str) -> str:
        """Return why there is no GPU for the pod any more; empty where there is one."""
        node = kube.get("v1", "Node", name)
        return why_not(node, kube.list("v1", "Pod"), settings) if node else "the node is gone"

    if tried:
        with own_namespace(kube, settings.namespace, deadline):
            for name in tried:
                kube.create(manifest(settings, name))
            records += await_verdicts("the pods to list their GPUs", tried, look, deadline)
    return concluded(sorted(records, key=lambda one: str(one["name"])), deadline.elapsed())


def manifest(settings: Settings, node: str) -> JsonObject:
    """Return the pod for a node."""
    # Its answer travels in the container's termination message: no log, so no kubelet, has to be reached.
    spec = pod_spec(
        settings.image,
        "nvidia-smi -L > /dev/termination-log 2>&1",
        env=[{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}],
        resources={
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi", GPU_RESOURCE: 1},
        },
    )
    runtime = {"runtimeClassName": settings.runtime_class} if settings.runtime_class else {}
    placed = {"restartPolicy": "Never", "affinity": on_node(node)}
    return pod(settings, spec | runtime | placed, generateName="gpu-", annotations={NODE_NOTE: node})


def why_not(node: JsonObject, pods: t.Iterable[JsonObject], settings: Settings) -> str:
    """Return why no pod can be tried on a node that offers GPUs; empty where one can.

    :arg pods: those of the whole cluster.
    """
    if node["spec"].get("unschedulable"):
        return "the node is cordoned"
    if taints := untolerated(node, settings.tolerations):
        return f"the probe's pods do not tolerate its taint {', '.join(taints)}"
    name = node["metadata"]["name"]
    free = offered(node) - sum(held(pod) for pod in pods if pod["spec"].get("nodeName") == name)
    return "" if free > 0 else f"all of its {offered(node)} GPUs are in use"


def crowded_out(pod: JsonObject) -> bool:
    """Tell whether the scheduler finds no free GPU for the pod."""
    condition = unscheduled(pod) or {}
    return f"Insufficient {GPU_RESOURCE}" in condition.get("message", "")


def outcome(pod: JsonObject, uuids: list[str]) -> Verdict:
    """Return the verdict on a pod once it has ended.

    :arg uuids: the node's GPUs; empty where they are not known.
    """
    if not is_ended(pod):
        return None, pod_state(pod)
    message = termination_message(pod)
    seen = sorted(set(_UUID.findall(message)))
    if pod["status"]["phase"] == "Failed":
        return FAILED, f"nvidia-smi failed: {message or pod['status'].get('message') or pod_state(pod)}"
    if len(seen) != 1:
        return FAILED, f"the pod asked for one GPU and sees {len(seen)}: {', '.join(seen) or message!r}"
    if uuids and seen[0] not in uuids:
        return FAILED, f"the pod sees {seen[0]}, which is not one of the node's GPUs ({', '.join(sorted(uuids))})"
    return PASSED, seen[0]


def _uuids(expected: t.Mapping[str, t.Any], node: str) -> list[str]:
    """Return the UUIDs of a node's GPUs; none where they are not known, as where only their number is given."""
    known = expected.get(node)
    return known if isinstance(known, list) else []
