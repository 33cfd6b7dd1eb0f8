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

from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import GPU_RESOURCE, NODE_LABEL, RESERVATION_APP
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.validation import conflict
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import claim, uses

Object = dict[str, t.Any]


def owners(labels: t.Mapping[str, str]) -> list[str]:
    """List the tenants that a node with these labels belongs to."""
    return sorted(key.removeprefix(NODE_LABEL) for key, value in labels.items() if key.startswith(NODE_LABEL) and value == "true")


def ledger(
    nodes: list[Object],
    pods: list[Object],
    namespaces: list[Object],
    quotas: list[Object],
    clusters: dict[str, Object],
    resource: str = GPU_RESOURCE,
) -> Object:
    """Who is offered, asks for and holds which GPUs; all counts are GPU devices.

    :arg nodes: Node objects of the host cluster; pods, namespaces and quotas (ResourceQuota) alike. Finished pods hold nothing.
    :arg clusters: configuration of each virtual cluster, by "namespace/name".
    :returns: C(nodes) and C(tenants), one row each in name order, and C(overlaps), sentences about GPUs with more than one owner.
    """
    tenant_of = {item["metadata"]["name"]: (item["metadata"].get("labels") or {}).get(TENANT_LABEL, "") for item in namespaces}
    owned_by = {node["metadata"]["name"]: owners(node["metadata"].get("labels") or {}) for node in nodes}
    names = sorted({*filter(None, tenant_of.values()), *(tenant for found in owned_by.values() for tenant in found)})
    offered = {node["metadata"]["name"]: int(node["status"].get("allocatable", {}).get(resource, 0)) for node in nodes}
    by_node = {name: {"allocatable": count, "in_use": 0} for name, count in offered.items()}
    by_tenant = {name: {"requested": 0, "reserved": 0, "in_use": 0} for name in names}
    overlaps = collisions(nodes, clusters, resource)
    for pod in pods:
        gpus = held(pod, resource)
        if not gpus:
            continue
        where, tenant = pod["spec"].get("nodeName", ""), tenant_of.get(pod["metadata"]["namespace"], "")
        mine = by_tenant.get(tenant, {"requested": 0, "reserved": 0, "in_use": 0})
        mine["requested"] += gpus
        if where not in by_node:
            continue
        mine["in_use"] += gpus
        mine["reserved"] += gpus if (pod["metadata"].get("labels") or {}).get("app") == RESERVATION_APP else 0
        by_node[where]["in_use"] += gpus
        if owned_by[where] and tenant not in owned_by[where]:
            who = f"tenant {tenant}" if tenant else "no tenant"
            pod_name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            overlaps.append(
                f"pod {pod_name} of {who} holds {gpus} GPUs of node {where}, which is {' and '.join(owned_by[where])}'s"
            )
    overlaps += [
        f"node {name} has {row['allocatable']} GPUs, and its pods hold {row['in_use']}"
        for name, row in sorted(by_node.items())
        if row["in_use"] > row["allocatable"]
    ]
    bounds = _bounds(quotas, tenant_of, resource)
    return {
        "nodes": [{"node": name, "tenants": owned_by[name]} | row for name, row in sorted(by_node.items())],
        "tenants": [
            {
                "tenant": name,
                "nodes": sorted(node for node, found in owned_by.items() if name in found),
                "promised": sum(offered[node] for node, found in owned_by.items() if name in found),
                "quota": bounds.get(name),
            }
            | by_tenant[name]
            for name in names
        ],
        "overlaps": overlaps,
    }


def held(pod: Object, resource: str = GPU_RESOURCE) -> int:
    """GPUs that a pod keeps from others; none once it has ended."""
    return 0 if pod.get("status", {}).get("phase") in ("Succeeded", "Failed") else gpus_of(pod["spec"], resource)


def collisions(nodes: list[Object], clusters: dict[str, Object], resource: str = GPU_RESOURCE) -> list[str]:
    """Nodes whose GPUs two virtual clusters would book, each without seeing the other; a sentence each.

    :arg clusters: values or configuration of each, by the name that is told.
    """
    told = []
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        gpus, labels = int(node["status"].get("allocatable", {}).get(resource, 0)), node["metadata"].get("labels") or {}
        claims = [claim(name, config) for name, config in sorted(clusters.items()) if uses(config, labels)]
        if why := conflict(gpus, claims):
            told.append(f"node {node['metadata']['name']} with {gpus} GPUs: {why}")
    return told


def _bounds(quotas: list[Object], tenant_of: dict[str, str], resource: str) -> dict[str, int]:
    """GPUs that a tenant's pods may ask for at most, where a quota of the host cluster says so."""
    found: dict[str, int] = {}
    for quota in quotas:
        tenant, hard = tenant_of.get(quota["metadata"]["namespace"], ""), quota.get("spec", {}).get("hard") or {}
        if tenant and f"requests.{resource}" in hard:
            bound = int(hard[f"requests.{resource}"])
            found[tenant] = min(bound, found.get(tenant, bound))
    return found


def gpus_of(spec: dict[str, t.Any], resource: str = GPU_RESOURCE) -> int:
    """Whole GPUs a pod holds: its containers' sum, or one init container's need where that is larger."""

    def of(container: dict[str, t.Any]) -> int:
        return int((container.get("resources") or {}).get("limits", {}).get(resource, 0))

    return max(
        sum(of(container) for container in spec.get("containers", [])),
        *(of(container) for container in spec.get("initContainers") or []),
        0,
    )
