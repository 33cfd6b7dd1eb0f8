# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge whose GPUs are whose, by a host cluster's nodes and pods. Pure.

A virtual cluster's own API never subtracts what other tenants use of a node's GPUs; the host cluster's pods show it.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import labels_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import GPU_RESOURCE, NODE_LABEL, RESERVATION_APP
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.validation import conflict
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import claim, uses

Object = dict[str, t.Any]


def node_selector(tenant: str) -> dict[str, str]:
    """Return the label by which a tenant's nodes are chosen."""
    return {NODE_LABEL + tenant: "true"}


def owners(labels: t.Mapping[str, str]) -> list[str]:
    """Return the tenants that a node with these labels belongs to, sorted."""
    return sorted(key.removeprefix(NODE_LABEL) for key, value in labels.items() if key.startswith(NODE_LABEL) and value == "true")


@dataclasses.dataclass(frozen=True)
class Holding:
    """GPUs that a pod keeps from others.

    :ivar pod: as "namespace/name"; ``tenant`` and ``node``, empty without one.
    :ivar gpus: devices.
    :ivar reserved: they are held for pods that share a GPU.
    """

    pod: str
    tenant: str
    node: str
    gpus: int
    reserved: bool


def ledger(
    nodes: list[Object],
    pods: list[Object],
    namespaces: list[Object],
    quotas: list[Object],
    clusters: dict[str, Object],
    resource: str = GPU_RESOURCE,
) -> Object:
    """Return who is offered, asks for and holds which GPUs; all counts are GPU devices.

    :arg nodes: Node objects of the host cluster; pods, namespaces and quotas (ResourceQuota) alike. Finished pods hold nothing.
    :arg clusters: configuration of each virtual cluster, by "namespace/name".
    :returns: ``nodes`` and ``tenants``, one row each in name order, and ``overlaps``, sentences about GPUs with more than one owner.
    """
    tenant_of = {item["metadata"]["name"]: labels_of(item).get(TENANT_LABEL, "") for item in namespaces}
    owned_by = {node["metadata"]["name"]: owners(labels_of(node)) for node in nodes}
    holdings = [holding for pod in pods if (holding := _holding(pod, tenant_of, resource)).gpus]
    in_use = collections.Counter(dict.fromkeys(owned_by, 0))
    for holding in holdings:
        in_use[holding.node] += holding.gpus
    by_node = [
        {"node": name, "tenants": owned_by[name], "allocatable": _offered(node, resource), "in_use": in_use[name]}
        for name, node in sorted((node["metadata"]["name"], node) for node in nodes)
    ]
    bounds = _bounds(quotas, tenant_of, resource)
    names = sorted({*filter(None, tenant_of.values()), *itertools.chain.from_iterable(owned_by.values())})
    return {
        "nodes": by_node,
        "tenants": [
            _tenant_row(name, by_node, [one for one in holdings if one.tenant == name], bounds.get(name)) for name in names
        ],
        "overlaps": [*collisions(nodes, clusters, resource), *_trespasses(holdings, owned_by), *_overbooked(by_node)],
    }


def _holding(pod: Object, tenant_of: t.Mapping[str, str], resource: str) -> Holding:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    reserved = labels_of(pod).get("app") == RESERVATION_APP
    node = pod["spec"].get("nodeName", "")
    return Holding(f"{namespace}/{name}", tenant_of.get(namespace, ""), node, held(pod, resource), reserved)


def _offered(node: Object, resource: str) -> int:
    return int(node["status"].get("allocatable", {}).get(resource, 0))


def _tenant_row(name: str, by_node: list[Object], holdings: list[Holding], quota: int | None) -> Object:
    """Return a tenant's row. A pod that is not placed, or on a node that is gone, asks for GPUs and holds none."""
    theirs = [row for row in by_node if name in row["tenants"]]
    existing = {row["node"] for row in by_node}
    placed = [holding for holding in holdings if holding.node in existing]
    return {
        "tenant": name,
        "nodes": [row["node"] for row in theirs],
        "promised": sum(row["allocatable"] for row in theirs),
        "quota": quota,
        "requested": sum(holding.gpus for holding in holdings),
        "reserved": sum(holding.gpus for holding in placed if holding.reserved),
        "in_use": sum(holding.gpus for holding in placed),
    }


def _trespasses(holdings: list[Holding], owned_by: t.Mapping[str, list[str]]) -> list[str]:
    """Return a sentence for each pod that holds GPUs of others' nodes."""
    return [
        f"pod {holding.pod} of {f'tenant {holding.tenant}' if holding.tenant else 'no tenant'} holds {holding.gpus} GPUs of node "
        f"{holding.node}, which is {' and '.join(whose)}'s"
        for holding in holdings
        if (whose := owned_by.get(holding.node)) and holding.tenant not in whose
    ]


def _overbooked(by_node: list[Object]) -> list[str]:
    return [
        f"node {row['node']} has {row['allocatable']} GPUs, and its pods hold {row['in_use']}"
        for row in by_node
        if row["in_use"] > row["allocatable"]
    ]


def held(pod: Object, resource: str = GPU_RESOURCE) -> int:
    """Return the GPU devices that a pod keeps from others; none once it has ended."""
    return 0 if pod.get("status", {}).get("phase") in ("Succeeded", "Failed") else gpus_of(pod["spec"], resource)


def collisions(nodes: list[Object], clusters: dict[str, Object], resource: str = GPU_RESOURCE) -> list[str]:
    """Return a sentence for each node whose GPUs two virtual clusters would book, each without seeing the other.

    :arg clusters: values or configuration of each, by the name that the sentences give it.
    """
    sentences = []
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        gpus = _offered(node, resource)
        claims = [claim(name, config) for name, config in sorted(clusters.items()) if uses(config, labels_of(node))]
        if why := conflict(gpus, claims):
            sentences.append(f"node {node['metadata']['name']} with {gpus} GPUs: {why}")
    return sentences


def _bounds(quotas: list[Object], tenant_of: dict[str, str], resource: str) -> dict[str, int]:
    """Return the GPU devices that tenants' pods may ask for at most, by tenant, where a quota of the host cluster says so."""
    bounds: dict[str, int] = {}
    for quota in quotas:
        tenant, hard = tenant_of.get(quota["metadata"]["namespace"], ""), quota.get("spec", {}).get("hard") or {}
        if tenant and f"requests.{resource}" in hard:
            bound = int(hard[f"requests.{resource}"])
            bounds[tenant] = min(bound, bounds.get(tenant, bound))
    return bounds


def gpus_of(spec: dict[str, t.Any], resource: str = GPU_RESOURCE) -> int:
    """Return the whole GPU devices that a pod holds: its containers' sum, or one init container's need where that is larger."""

    def limit(container: dict[str, t.Any]) -> int:
        return int((container.get("resources") or {}).get("limits", {}).get(resource, 0))

    return max(
        sum(limit(container) for container in spec.get("containers", [])),
        *(limit(container) for container in spec.get("initContainers") or []),
        0,
    )
