# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Whose GPUs are whose: pure bookkeeping over a host cluster's nodes and pods.

A virtual cluster's own API never subtracts what other tenants use of a node's GPUs; the host cluster's pods do tell.
"""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenancy import NODE_LABEL

GPU_RESOURCE = "nvidia.com/gpu"


def ledger(nodes: list[dict[str, t.Any]], pods: list[dict[str, t.Any]], resource: str = GPU_RESOURCE) -> list[dict[str, t.Any]]:
    """One row a node, in name order.

    :arg nodes: Node objects of the host cluster.
    :arg pods: Pod objects of the host cluster; finished ones hold nothing.
    :returns: rows of C(node), C(tenants) (names, from our labels), C(allocatable) and C(in_use) (GPU devices).
    """
    used: dict[str, int] = {}
    for pod in pods:
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            node = pod["spec"].get("nodeName", "")
            used[node] = used.get(node, 0) + gpus_of(pod["spec"], resource)
    return [
        {
            "node": node["metadata"]["name"],
            "tenants": sorted(
                key.removeprefix(NODE_LABEL) for key in node["metadata"].get("labels", {}) if key.startswith(NODE_LABEL)
            ),
            "allocatable": int(node["status"].get("allocatable", {}).get(resource, 0)),
            "in_use": used.get(node["metadata"]["name"], 0),
        }
        for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
    ]


def gpus_of(spec: dict[str, t.Any], resource: str = GPU_RESOURCE) -> int:
    """Whole GPUs a pod holds: its containers' sum, or one init container's need where that is larger."""

    def of(container: dict[str, t.Any]) -> int:
        return int((container.get("resources") or {}).get("limits", {}).get(resource, 0))

    return max(
        sum(of(container) for container in spec.get("containers", [])),
        *(of(container) for container in spec.get("initContainers") or []),
        0,
    )
