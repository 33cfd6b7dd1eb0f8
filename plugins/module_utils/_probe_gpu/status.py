# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge the probe of GPUs: which nodes can be tried, and the outcome of their pods."""

from __future__ import annotations

import re

from .._common.names import GPU_RESOURCE, GPU_UUID
from .._common.pods import pod_state, unscheduled
from .._common.values import JsonObject
from .._nodes.status import held, offered, untolerated
from .._probe.status import termination_message

_UUID = re.compile(GPU_UUID)


def free(node: JsonObject, pods: list[JsonObject]) -> int:
    """Return how many GPUs of a node no pod holds.

    :arg pods: those of the whole cluster.
    """
    name = node["metadata"]["name"]
    return offered(node) - sum(held(pod) for pod in pods if pod["spec"].get("nodeName") == name)


def why_not(node: JsonObject, pods: list[JsonObject], tolerations: list[JsonObject]) -> str:
    """Return why no pod can be tried on a node that offers GPUs; empty where one can.

    :arg pods: those of the whole cluster.
    :arg tolerations: those of the probe's pods.
    """
    if node["spec"].get("unschedulable"):
        return "the node is cordoned"
    if taints := untolerated(node, tolerations):
        return f"the probe's pods do not tolerate its taint {', '.join(taints)}"
    return "" if free(node, pods) > 0 else f"all of its {offered(node)} GPUs are in use"


def crowded_out(pod: JsonObject) -> bool:
    """Tell whether the scheduler finds no free GPU for the pod."""
    condition = unscheduled(pod) or {}
    return f"Insufficient {GPU_RESOURCE}" in condition.get("message", "")


def outcome(pod: JsonObject, uuids: list[str]) -> tuple[str | None, str]:
    """Return ("passed" or "failed", reason) once the pod has ended; before that (None, its state).

    :arg uuids: the node's GPUs; empty where they are not known.
    """
    phase = pod.get("status", {}).get("phase")
    if phase not in ("Succeeded", "Failed"):
        return None, pod_state(pod)
    message = termination_message(pod)
    seen = sorted(set(_UUID.findall(message)))
    if phase == "Failed":
        return "failed", f"nvidia-smi failed: {message or pod['status'].get('message') or pod_state(pod)}"
    if len(seen) != 1:
        return "failed", f"the pod asked for one GPU and sees {len(seen)}: {', '.join(seen) or message!r}"
    if uuids and seen[0] not in uuids:
        return "failed", f"the pod sees {seen[0]}, which is not one of the node's GPUs ({', '.join(sorted(uuids))})"
    return "passed", seen[0]
