# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A pod for each node that lists the one GPU it asked for: its manifest and the reading of its outcome."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.status import offered
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import GPU_RESOURCE, held
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.namespace import pod_spec
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import pod_state

Object = dict[str, t.Any]

NAME = "kubegpu-gpu-probe"
# Which node a pod is for.
NODE_NOTE = "kubegpu.tenancy/node"
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def free(node: Object, pods: list[Object]) -> int:
    """GPUs of a node that no pod holds."""
    name = node["metadata"]["name"]
    return offered(node) - sum(held(pod) for pod in pods if pod["spec"].get("nodeName") == name)


def why_not(node: Object, pods: list[Object]) -> str:
    """Why no pod can be tried on a node that offers GPUs; empty where one can."""
    if node["spec"].get("unschedulable"):
        return "the node is cordoned"
    return "" if free(node, pods) > 0 else f"all of its {offered(node)} GPUs are in use"


def manifest(namespace: str, node: str, image: str) -> Object:
    # Its answer travels in the container's termination message: no log, so no kubelet, has to be reached.
    spec = pod_spec(
        image,
        "nvidia-smi -L > /dev/termination-log 2>&1",
        env=[{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}],
        resources={
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi", GPU_RESOURCE: 1},
        },
    )
    # By affinity and not by nodeName, so that the scheduler counts the GPU.
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "gpu-", "namespace": namespace, "annotations": {NODE_NOTE: node}},
        "spec": spec
        | {
            "restartPolicy": "Never",
            "runtimeClassName": "nvidia",
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
            # Nodes with GPUs are tainted against pods of others and pods without GPUs, and this looks at all of them.
            "tolerations": [{"operator": "Exists"}],
        },
    }


def crowded_out(pod: Object) -> bool:
    """Whether the scheduler finds no GPU for the pod."""
    conditions = pod.get("status", {}).get("conditions") or []
    return any(
        found["type"] == "PodScheduled"
        and found["status"] == "False"
        and f"Insufficient {GPU_RESOURCE}" in found.get("message", "")
        for found in conditions
    )


def outcome(pod: Object, uuids: list[str]) -> tuple[str | None, str]:
    """("passed" or "failed", reason) once the pod has ended; before that (None, what is seen).

    :arg uuids: the node's GPUs; empty where they are not known.
    """
    phase = pod.get("status", {}).get("phase")
    if phase not in ("Succeeded", "Failed"):
        return None, pod_state(pod)
    said = _last_words(pod)
    seen = sorted(set(_UUID.findall(said)))
    if phase == "Failed":
        return "failed", f"nvidia-smi failed: {said or pod['status'].get('message') or pod_state(pod)}"
    if len(seen) != 1:
        return "failed", f"the pod asked for one GPU and sees {len(seen)}: {', '.join(seen) or said!r}"
    if uuids and seen[0] not in uuids:
        return "failed", f"the pod sees {seen[0]}, which is not one of the node's GPUs ({', '.join(sorted(uuids))})"
    return "passed", seen[0]


def _last_words(pod: Object) -> str:
    for status in pod["status"].get("containerStatuses") or []:
        return str((status["state"].get("terminated") or {}).get("message", "")).strip()
    return ""
