# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge whose GPUs are whose, by a host cluster's nodes and pods. Pure.

A virtual cluster's own API never subtracts what other tenants use of a node's GPUs; the host cluster's pods show it. Which of a node's
GPUs a pod has, only the node's kubelet knows.
"""

from __future__ import annotations

import dataclasses
import decimal
import itertools
import json
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import annotations_of, labels_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import (
    CHECKPOINT,
    DEVICE_PLUGINS_FOLDER,
    FRACTION_NOTE,
    GPU_GROUP_LABEL,
    GPU_MEMORY_LABEL,
    GPU_RESOURCE,
    MEMORY_NOTE,
    NODE_LABEL,
    RESERVATION_APP,
    RESERVED_GPU_NOTE,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.validation import conflict
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.status import virtual_name
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import claim, uses

Object = dict[str, t.Any]

# Phases of pods that hold nothing any more.
ENDED = ("Succeeded", "Failed")
# What names of NVIDIA's extended resources begin with.
VENDOR = "nvidia.com/"
NONE, WHOLE = decimal.Decimal(0), decimal.Decimal(1)


def node_selector(tenant: str) -> dict[str, str]:
    """Return the label by which a tenant's nodes are chosen."""
    return {NODE_LABEL + tenant: "true"}


def with_labels(nodes: t.Iterable[Object], labels: t.Mapping[str, str]) -> list[Object]:
    """Return the nodes that have all of these labels."""
    return [node for node in nodes if labels.items() <= labels_of(node).items()]


def owners(labels: t.Mapping[str, str]) -> list[str]:
    """Return the tenants that a node with these labels belongs to, sorted."""
    return sorted(key.removeprefix(NODE_LABEL) for key, value in labels.items() if key.startswith(NODE_LABEL) and value == "true")


@dataclasses.dataclass(frozen=True)
class Holding:
    """GPUs that a pod keeps from others.

    :ivar pod: as "namespace/name"; ``node``, empty without one.
    :ivar gpus: devices.
    :ivar parts: whose they are: the part of each of these GPUs, by tenant; empty for pods of no tenant.
    :ivar reserved: they are held for pods that share a GPU.
    """

    pod: str
    node: str
    gpus: int
    parts: t.Mapping[str, decimal.Decimal]
    reserved: bool = False

    @property
    def tenants(self) -> list[str]:
        return sorted(filter(None, self.parts))


def ledger(
    nodes: list[Object],
    pods: list[Object],
    namespaces: list[Object],
    quotas: list[Object],
    clusters: dict[str, Object],
    claims: t.Sequence[Object] = (),
    resource: str = GPU_RESOURCE,
) -> Object:
    """Return who is offered, asks for and holds which GPUs; all counts are GPU devices, but for ``shares`` and ``others``.

    :arg nodes: Node objects of the host cluster; pods, namespaces, quotas (ResourceQuota) and claims (ResourceClaim) alike. Finished pods
        hold nothing.
    :arg clusters: configuration of each virtual cluster, by "namespace/name".
    :returns: ``nodes`` and ``tenants``, one row each in name order, ``overlaps``, sentences about GPUs with more than one owner, and
        ``picture``, a line of text for each node with GPUs.
    """
    tenant_of = tenants_of(namespaces)
    owned_by = {node["metadata"]["name"]: owners(labels_of(node)) for node in nodes}
    sizes = {node["metadata"]["name"]: labels_of(node).get(GPU_MEMORY_LABEL, "") for node in nodes}
    sharers = _sharers(pods, tenant_of, sizes)
    holdings = [holding for pod in pods if (holding := _holding(pod, tenant_of, sharers, resource)).gpus]
    by_node = [
        _node_row(node, owned_by, holdings, resource) | {"others": _others(node, pods, resource)}
        for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
    ]
    bounds = _bounds(quotas, tenant_of, resource)
    names = sorted({*filter(None, tenant_of.values()), *itertools.chain.from_iterable(owned_by.values())})
    claimed = _claimed(claims, tenant_of)
    overlaps = [*_trespasses(holdings, owned_by), *_shared_by_several(holdings), *_overbooked(by_node), *_claimed_twice(claimed)]
    return {
        "nodes": by_node,
        "tenants": [
            _tenant_row(name, by_node, [one for one in holdings if name in one.parts], bounds.get(name))
            | {"others": _others_of(name, pods, tenant_of, by_node), "claimed": sum(name in whose for whose in claimed.values())}
            for name in names
        ],
        "overlaps": [*collisions(nodes, clusters, resource), *overlaps],
        "picture": [f"{row['node']} {drawn(row['gpus'])}" for row in by_node if row["gpus"]],
    }


def tenants_of(namespaces: t.Iterable[Object]) -> dict[str, str]:
    """Return the tenant of each namespace of the host cluster, an empty name where it is no tenant's."""
    return {item["metadata"]["name"]: labels_of(item).get(TENANT_LABEL, "") for item in namespaces}


def _sharers(
    pods: list[Object], tenant_of: t.Mapping[str, str], sizes: t.Mapping[str, str]
) -> dict[str, dict[str, decimal.Decimal]]:
    """Return the part of a GPU that each tenant's pods have, by GPU group; pods of no tenant count as those of an empty name.

    :arg sizes: MiB of a GPU, by node, as its label says; empty where it has none.
    """
    sharers: dict[str, dict[str, decimal.Decimal]] = {}
    for pod in pods:
        if labels_of(pod).get("app") == RESERVATION_APP or pod.get("status", {}).get("phase") in ENDED:
            continue
        tenant = tenant_of.get(pod["metadata"]["namespace"], "")
        for group in gpu_groups(pod):
            parts = sharers.setdefault(group, {})
            parts[tenant] = parts.get(tenant, NONE) + part_of_gpu(pod, sizes.get(pod["spec"].get("nodeName", ""), ""))
    return sharers


def gpu_groups(pod: Object) -> set[str]:
    """Return the GPU groups of a pod that shares GPUs, or of one that reserves a GPU for such pods."""
    return {value for key, value in labels_of(pod).items() if key.partition("/")[0] == GPU_GROUP_LABEL}


def part_of_gpu(pod: Object, size: str) -> decimal.Decimal:
    """Return the part of each GPU that a pod asks KAI Scheduler for; 0 where that is not known.

    :arg size: MiB of a GPU of its node.
    """
    notes = annotations_of(pod)
    try:
        if MEMORY_NOTE in notes:
            return decimal.Decimal(notes[MEMORY_NOTE]) / decimal.Decimal(size or "Infinity")
        return decimal.Decimal(notes.get(FRACTION_NOTE, "0"))
    except decimal.InvalidOperation:
        return NONE


def _holding(
    pod: Object, tenant_of: t.Mapping[str, str], sharers: t.Mapping[str, t.Mapping[str, decimal.Decimal]], resource: str
) -> Holding:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    reserved = labels_of(pod).get("app") == RESERVATION_APP
    tenant = tenant_of.get(namespace, "")
    parts: dict[str, decimal.Decimal] = {} if reserved else {tenant: WHOLE}
    for group in gpu_groups(pod) if reserved else ():
        parts |= sharers.get(group, {})
    # Of a group that nobody is in any more, the pod's own namespace tells.
    return Holding(f"{namespace}/{name}", pod["spec"].get("nodeName", ""), held(pod, resource), parts or {tenant: NONE}, reserved)


def _node_row(node: Object, owned_by: t.Mapping[str, list[str]], holdings: list[Holding], resource: str) -> Object:
    name = node["metadata"]["name"]
    here = [holding for holding in holdings if holding.node == name]
    gpus = [{tenant: float(part) for tenant, part in one.parts.items()} for one in here for _gpu in range(one.gpus)]
    return {
        "node": name,
        "tenants": owned_by[name],
        "allocatable": offered(node, resource),
        "in_use": len(gpus),
        "gpus": gpus + [{}] * (offered(node, resource) - len(gpus)),
    }


def _others(node: Object, pods: list[Object], gpus: str) -> Object:
    """Return what else of NVIDIA a node offers, such as MIG slices, and how much of it pods hold, by resource."""
    name, allocatable = node["metadata"]["name"], node.get("status", {}).get("allocatable") or {}
    names = sorted(key for key in allocatable if key.startswith(VENDOR) and key != gpus)
    # Few nodes have any, and a cluster many pods.
    here = [pod for pod in pods if pod["spec"].get("nodeName") == name] if names else []
    return {key: {"allocatable": int(allocatable[key]), "in_use": sum(held(pod, key) for pod in here)} for key in names}


def _others_of(name: str, pods: list[Object], tenant_of: t.Mapping[str, str], by_node: list[Object]) -> dict[str, int]:
    """Return how much of such resources the placed pods of a tenant hold."""
    nodes = {row["node"] for row in by_node}
    theirs = [pod for pod in pods if tenant_of.get(pod["metadata"]["namespace"]) == name and pod["spec"].get("nodeName") in nodes]
    names = sorted({key for row in by_node for key in row["others"]})
    return {key: amount for key in names if (amount := sum(held(pod, key) for pod in theirs))}


def _claimed(claims: t.Iterable[Object], tenant_of: t.Mapping[str, str]) -> dict[tuple[str, str, str], set[str]]:
    """Return whose claims have a device of Dynamic Resource Allocation, by driver, pool and device; tenants, or an empty name.

    Access for administration, and a share of a device that is given out in parts, keep it from nobody.
    """
    claimed: dict[tuple[str, str, str], set[str]] = {}
    for item in claims:
        tenant = tenant_of.get(item["metadata"]["namespace"], "")
        allocation = (item.get("status") or {}).get("allocation") or {}
        for one in (allocation.get("devices") or {}).get("results") or []:
            if not one.get("adminAccess") and not one.get("shareID"):
                claimed.setdefault((one["driver"], one["pool"], one["device"]), set()).add(tenant)
    return claimed


def _claimed_twice(claimed: t.Mapping[tuple[str, str, str], set[str]]) -> list[str]:
    return [
        f"device {device} of pool {pool} ({driver}) is allocated to claims of {' and '.join(name or 'no tenant' for name in sorted(whose))}"
        for (driver, pool, device), whose in sorted(claimed.items())
        if len(whose) > 1
    ]


def offered(node: Object, resource: str = GPU_RESOURCE) -> int:
    """Return the GPUs that a node offers to pods, each as often as it has replicas."""
    return int(node.get("status", {}).get("allocatable", {}).get(resource, 0))


def has_devices(node: Object) -> bool:
    """Tell whether a node offers any device of NVIDIA, GPUs or slices of them."""
    allocatable = node.get("status", {}).get("allocatable") or {}
    return any(key.startswith(VENDOR) and amount != "0" for key, amount in allocatable.items())


def drawn(gpus: t.Iterable[t.Mapping[str, float]]) -> str:
    """Return a node's GPUs as text, such as ``[team-a] [team-a 0.5, team-b 0.25] [free]``."""
    return " ".join(f"[{shown_holders(parts)}]" for parts in gpus)


def shown_holders(parts: t.Mapping[str, float]) -> str:
    """Return who has a GPU, such as ``team-a 0.5, team-b 0.25``; the part of whoever has all of it is not named."""
    whole = list(parts.values()) == [1.0]
    return (
        ", ".join(f"{tenant or 'no tenant'}{'' if whole else f' {part:g}'}" for tenant, part in sorted(parts.items())) or "free"
    )


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
        "shares": float(sum(holding.gpus * holding.parts[name] for holding in placed)),
        "shared_with": sorted({other for holding in placed for other in holding.tenants} - {name}),
    }


def _trespasses(holdings: list[Holding], owned_by: t.Mapping[str, list[str]]) -> list[str]:
    """Return a sentence for each pod that holds GPUs of others' nodes."""
    sentences = []
    for holding in holdings:
        whose = owned_by.get(holding.node)
        if whose and not set(holding.parts) <= set(whose):
            tenants = [f"tenant {tenant}" if tenant else "no tenant" for tenant in sorted(holding.parts)]
            sentences.append(
                f"pod {holding.pod} of {' and '.join(tenants)} holds {holding.gpus} GPUs of node {holding.node}, which is "
                f"{' and '.join(whose)}'s"
            )
    return sentences


def _shared_by_several(holdings: list[Holding]) -> list[str]:
    return [
        f"a GPU of node {holding.node}, which pod {holding.pod} reserves, is shared by pods of tenants {' and '.join(holding.tenants)}"
        for holding in holdings
        if len(holding.tenants) > 1
    ]


def _overbooked(by_node: list[Object]) -> list[str]:
    return [
        f"node {row['node']} has {row['allocatable']} GPUs, and its pods hold {row['in_use']}"
        for row in by_node
        if row["in_use"] > row["allocatable"]
    ] + [
        f"node {row['node']} has {other['allocatable']} {name}, and its pods hold {other['in_use']}"
        for row in by_node
        for name, other in row["others"].items()
        if other["in_use"] > other["allocatable"]
    ]


def held(pod: Object, resource: str = GPU_RESOURCE) -> int:
    """Return the GPU devices that a pod keeps from others; none once it has ended."""
    return 0 if pod.get("status", {}).get("phase") in ENDED else gpus_of(pod["spec"], resource)


def collisions(nodes: list[Object], clusters: dict[str, Object], resource: str = GPU_RESOURCE) -> list[str]:
    """Return a sentence for each node whose GPUs two virtual clusters would book, each without seeing the other.

    :arg clusters: values or configuration of each, by the name that the sentences give it.
    """
    sentences = []
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        gpus = offered(node, resource)
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


# --- down to pods and devices ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Assigned:
    """What kubelet knows of a node's devices of NVIDIA.

    :ivar devices: IDs of those that there are: UUIDs, unless the device plugin is told otherwise.
    :ivar pods: IDs of those that each pod got, by the pod's UID; pods that have gone may be among them.
    """

    devices: frozenset[str]
    pods: t.Mapping[str, frozenset[str]]


class Reader(t.NamedTuple):
    """A container through which kubelet's file about a node's devices can be read."""

    pod: str
    namespace: str
    container: str
    path: str


def readers(pods: t.Iterable[Object], namespaces: t.Iterable[Object]) -> dict[str, Reader]:
    """Return a container of a device plugin for each node that has one that runs.

    Pods of tenants do not count: what they answer would be what the tenant likes.
    """
    tenant_of = tenants_of(namespaces)
    found: dict[str, Reader] = {}
    for pod in pods:
        spec, metadata = pod["spec"], pod["metadata"]
        if pod.get("status", {}).get("phase") != "Running" or tenant_of.get(metadata["namespace"]):
            continue
        folders = {
            volume["name"]
            for volume in spec.get("volumes") or []
            if str((volume.get("hostPath") or {}).get("path", "")).rstrip("/") == DEVICE_PLUGINS_FOLDER
        }
        for container in spec["containers"]:
            for mount in container.get("volumeMounts") or []:
                if mount["name"] in folders:
                    path = f"{mount['mountPath'].rstrip('/')}/{CHECKPOINT}"
                    found.setdefault(spec["nodeName"], Reader(metadata["name"], metadata["namespace"], container["name"], path))
    return found


def assigned(checkpoint: str) -> Assigned:
    """Return what kubelet's file about devices says.

    :raises ValueError: where it is not of the form that is known.
    """
    try:
        data = json.loads(checkpoint)["Data"]
        registered = {one for name, ids in (data["RegisteredDevices"] or {}).items() if name.startswith(VENDOR) for one in ids}
        pods: dict[str, set[str]] = {}
        for entry in data["PodDeviceEntries"] or []:
            if entry["ResourceName"].startswith(VENDOR):
                # By NUMA node.
                pods.setdefault(entry["PodUID"], set()).update(*entry["DeviceIDs"].values())
    except (AttributeError, KeyError, TypeError) as exc:
        raise ValueError(f"it is not of the form that is known: {type(exc).__name__} {exc}") from exc
    return Assigned(frozenset(registered), {pod: frozenset(ids) for pod, ids in pods.items()})


def devices(
    nodes: list[Object],
    pods: list[Object],
    namespaces: list[Object],
    known: t.Mapping[str, Assigned],
    resource: str = GPU_RESOURCE,
) -> list[Object]:
    """Return a row for each device and pod that has it or a part of it, and for each device that is free, by node and device.

    :arg known: what kubelet knows, by node; of other nodes, only what KAI Scheduler noted of shared GPUs is known.
    :returns: as module gpu_ledger_info documents them.
    """
    tenant_of = tenants_of(namespaces)
    placed: dict[str, list[Object]] = {}
    for pod in pods:
        if pod.get("status", {}).get("phase") not in ENDED:
            placed.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
    rows = []
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        name, size = node["metadata"]["name"], labels_of(node).get(GPU_MEMORY_LABEL, "")
        here, seen = placed.get(name, []), known.get(name)
        taken = [
            {"node": name, "device": device, "tenant": tenant_of.get(holder["metadata"]["namespace"], "")}
            | {"pod": virtual_name(holder), "part": float(part)}
            for pod in here
            for device in _devices_of(pod, seen, resource)
            for holder, part in _holders(pod, here, size)
        ]
        used = {row["device"] for row in taken}
        free = (
            sorted(seen.devices - used) if seen else [None] * (offered(node, resource) - sum(held(pod, resource) for pod in here))
        )
        rows += sorted(
            [*taken, *({"node": name, "device": one, "tenant": "", "pod": "", "part": 0.0} for one in free)],
            key=lambda row: (row["device"] is None, row["device"] or "", not row["pod"], row["pod"]),
        )
    return rows


def _devices_of(pod: Object, seen: Assigned | None, resource: str) -> list[str | None]:
    """Return the IDs of the devices that a pod keeps from others; None for each whose ID is not known."""
    ids = sorted(seen.pods.get(pod["metadata"].get("uid", ""), ())) if seen else []
    if not ids and RESERVED_GPU_NOTE in annotations_of(pod):
        ids = [annotations_of(pod)[RESERVED_GPU_NOTE]]
    return [*ids, *[None] * (held(pod, resource) - len(ids))]


def _holders(pod: Object, here: t.Iterable[Object], size: str) -> list[tuple[Object, decimal.Decimal]]:
    """Return who has a pod's devices, and which part of them: the pod itself, or those for which it reserves a GPU."""
    if labels_of(pod).get("app") != RESERVATION_APP:
        return [(pod, WHOLE)]
    groups = gpu_groups(pod)
    sharing = [one for one in here if labels_of(one).get("app") != RESERVATION_APP and groups & gpu_groups(one)]
    return [(one, part_of_gpu(one, size)) for one in sharing] or [(pod, NONE)]
