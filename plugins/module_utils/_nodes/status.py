# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge nodes and pods of a cluster. Pure.

Of a node: whose it is, which GPUs it offers, which pods its taints keep away. Of a pod: which GPUs it asks for and keeps from others.
"""

from __future__ import annotations

import decimal
import typing as t

from .._common.names import (
    FRACTION_NOTE,
    GPU_GROUP_LABEL,
    GPU_RESOURCE,
    MEMORY_NOTE,
    NODE_LABEL,
    RESERVATION_APP,
    RESERVATION_NAMESPACE,
)
from .._common.ownership import annotations_of, is_synced, labels_of
from .._common.pods import held_by, is_ended
from .._common.quantity import devices, go_number, whole
from .._common.synced import synced_from
from .._common.values import JsonObject

# What names of NVIDIA's extended resources begin with.
VENDOR = "nvidia.com/"
# Of taints that keep pods away; PreferNoSchedule does not.
REPELLING = ("NoSchedule", "NoExecute")
NONE, WHOLE = decimal.Decimal(0), decimal.Decimal(1)


def node_selector(tenant: str) -> dict[str, str]:
    """Return the label by which a tenant's nodes are chosen."""
    return {NODE_LABEL + tenant: "true"}


def with_labels(nodes: t.Iterable[JsonObject], labels: t.Mapping[str, str]) -> list[JsonObject]:
    """Return the nodes that have all of these labels."""
    return [node for node in nodes if labels.items() <= labels_of(node).items()]


def owners(labels: t.Mapping[str, str]) -> list[str]:
    """Return the tenants that a node with these labels belongs to, sorted."""
    return sorted(key.removeprefix(NODE_LABEL) for key, value in labels.items() if key.startswith(NODE_LABEL) and value == "true")


def offered(node: JsonObject, resource: str = GPU_RESOURCE) -> int:
    """Return the GPUs that a node offers to pods, each as often as it has replicas.

    :raises ValueError: where the node's amount cannot be read.
    """
    return devices(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


def has_devices(node: JsonObject) -> bool:
    """Tell whether a node offers any device of NVIDIA, GPUs or slices of them."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return any(key.startswith(VENDOR) and amount != "0" for key, amount in allocatable.items())


def held(pod: JsonObject, resource: str = GPU_RESOURCE) -> int:
    """Return the GPU devices that a pod keeps from others; none once it has ended.

    :raises ValueError: where the pod's amounts cannot be read.
    """
    return 0 if is_ended(pod) else gpus_of(pod["spec"], resource)


def gpus_of(spec: dict[str, t.Any], resource: str = GPU_RESOURCE) -> int:
    """Return the whole GPU devices that Kubernetes books for a pod.

    :raises ValueError: where its amounts cannot be read.
    """
    return devices(held_by(spec, resource))


def is_reservation(pod: JsonObject) -> bool:
    """Tell whether KAI Scheduler made a pod to hold a GPU for pods that share it: only in the namespace where it keeps them."""
    namespace = synced_from(pod) if is_synced(pod) else pod["metadata"]["namespace"]
    return labels_of(pod).get("app") == RESERVATION_APP and namespace == RESERVATION_NAMESPACE


def reserves(pod: JsonObject, resource: str) -> bool:
    """Tell whether a pod holds a GPU for others: KAI Scheduler reserves one GPU by each such pod."""
    return is_reservation(pod) and held(pod, resource) == 1


def gpu_groups(pod: JsonObject) -> set[str]:
    """Return the GPU groups of a pod that shares GPUs, or of one that reserves a GPU for such pods."""
    return {value for key, value in labels_of(pod).items() if key.partition("/")[0] == GPU_GROUP_LABEL}


def part_of_gpu(pod: JsonObject, size: str) -> decimal.Decimal:
    """Return the part of each GPU that a pod asks KAI Scheduler for, from 0 to 1; 0 where that is not known.

    A fraction that KAI can read counts, and memory only without one (pkg/scheduler/api/pod_info of all releases).

    :arg size: MiB of a GPU of its node.
    """
    notes = annotations_of(pod)
    return _fraction(notes.get(FRACTION_NOTE, "")) or _memory_part(notes.get(MEMORY_NOTE, ""), size)


def _fraction(text: str) -> decimal.Decimal:
    """Return a fraction that KAI Scheduler reads, above 0 and at most 1; 0 for what it takes for none."""
    try:
        part = go_number(text)
    except ValueError:
        return NONE
    return part if part <= WHOLE else NONE


def _memory_part(text: str, size: str) -> decimal.Decimal:
    """Return the part of a GPU with ``size`` MiB that memory is, at most 1; 0 where either is no whole number, or the size is 0."""
    try:
        memory = whole(size)
        # KAI Scheduler reads no blanks.
        return min(WHOLE * whole(text) / memory, WHOLE) if memory and text == text.strip() else NONE
    except ValueError:
        return NONE


def untolerated(node: JsonObject, tolerations: t.Iterable[JsonObject]) -> list[str]:
    """Return the taints of a node that keep pods with these tolerations away, as KEY=VALUE:EFFECT."""
    tolerations = list(tolerations)
    taints = [taint for taint in node.get("spec", {}).get("taints") or [] if taint["effect"] in REPELLING]
    return [
        f"{taint['key']}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"
        for taint in taints
        if not any(tolerates(toleration, taint) for toleration in tolerations)
    ]


def tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    """Tell whether a toleration matches a taint, as k8s.io/api core/v1 Toleration.ToleratesTaint does."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or ""))
