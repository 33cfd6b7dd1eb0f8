# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge whose GPUs are whose, by a host cluster's nodes and pods. Pure.

A virtual cluster's own API never subtracts what other tenants use of a node's GPUs; the host cluster's pods show it. Which of a node's
GPUs a pod has, only the node's kubelet knows.

Labels and annotations of tenants' pods are the tenants' words. They decide nothing about how many GPUs a pod holds, nor for whom: its spec
and its namespace on the host cluster do.
"""

from __future__ import annotations

import collections
import dataclasses
import decimal
import itertools
import re
import typing as t

from .._common.documents import parse_json
from .._common.names import (
    FRACTION_NOTE,
    GPU_GROUP_LABEL,
    GPU_MEMORY_LABEL,
    GPU_RESOURCE,
    GPU_UUID,
    HOST_SCHEDULER_LABEL,
    MEMORY_NOTE,
    NODE_LABEL,
    RESERVATION_APP,
    RESERVATION_NAMESPACE,
    RESERVED_GPU_NOTE,
    TENANT_LABEL,
)
from .._common.ownership import annotations_of, is_synced, labels_of
from .._common.parties import Unread, each
from .._common.pods import held_by, is_ended
from .._common.quantity import devices as devices_in
from .._common.quantity import go_number, plain, whole
from .._common.synced import synced_from, virtual_name
from .._common.text import shown
from .._common.values import JsonObject
from .._vcluster.values import claim, selected, uses
from .facts import CHECKPOINT, DEVICE_PLUGINS_FOLDER
from .validation import conflict

# Where a GPU group is known, and its name: groups of a tenant's own KAI Scheduler are known in its namespace alone.
Group = tuple[str, str]

# What names of NVIDIA's extended resources begin with.
VENDOR = "nvidia.com/"
NONE, WHOLE = decimal.Decimal(0), decimal.Decimal(1)
# Of sums of parts, which are not exact.
_SMALLEST = decimal.Decimal("0.000001")
# GPUs of one node that are told apart at most. A node has a few, or some hundred replicas of them; a pod may ask for any number.
_MOST_TOLD = 2000
# Where the GPU groups of the host cluster's own KAI Scheduler are known; no namespace has an empty name.
_HOST = ""


def node_selector(tenant: str) -> dict[str, str]:
    """Return the label by which a tenant's nodes are chosen."""
    return {NODE_LABEL + tenant: "true"}


def with_labels(nodes: t.Iterable[JsonObject], labels: t.Mapping[str, str]) -> list[JsonObject]:
    """Return the nodes that have all of these labels."""
    return [node for node in nodes if labels.items() <= labels_of(node).items()]


def owners(labels: t.Mapping[str, str]) -> list[str]:
    """Return the tenants that a node with these labels belongs to, sorted."""
    return sorted(key.removeprefix(NODE_LABEL) for key, value in labels.items() if key.startswith(NODE_LABEL) and value == "true")


# --- what is read, each object by itself ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a node offers.

    :ivar owners: names of the tenants whose node it is.
    :ivar gpus: GPU devices; ``others``, what else of NVIDIA, such as MIG slices, by resource.
    :ivar memory: MiB of a GPU as its label says; empty without one.
    """

    node: str
    owners: list[str]
    gpus: int
    others: t.Mapping[str, int]
    memory: str


@dataclasses.dataclass(frozen=True)
class Holding:
    """GPUs that a pod keeps from others.

    :ivar pod: as "namespace/name"; ``node``, empty without one; ``tenant``, empty for pods of none.
    :ivar gpus: devices; ``others``, what else of NVIDIA, by resource.
    :ivar parts: whose they are: the part of each of these GPUs, by tenant.
    :ivar reserved: they are held for pods that share a GPU; ``groups``, those of these pods.
    """

    pod: str
    node: str
    tenant: str
    gpus: int
    others: t.Mapping[str, int]
    parts: t.Mapping[str, decimal.Decimal]
    reserved: bool = False
    groups: frozenset[Group] = frozenset()

    @property
    def tenants(self) -> list[str]:
        return sorted(filter(None, self.parts))


class Owners:
    """Whose the namespaces of a host cluster are, and where the GPU groups of the pods in them are known."""

    def __init__(self, namespaces: t.Iterable[JsonObject]) -> None:
        self._tenants: dict[str, str] = {}
        self._apart: set[str] = set()
        for item in namespaces:
            name, labels = item["metadata"]["name"], labels_of(item)
            self._tenants[name] = labels.get(TENANT_LABEL, "")
            # Its pods never meet the host cluster's KAI Scheduler, whatever they are labelled with.
            if TENANT_LABEL in labels and HOST_SCHEDULER_LABEL not in labels:
                self._apart.add(name)

    def names(self) -> set[str]:
        """Return the names of all tenants."""
        return set(filter(None, self._tenants.values()))

    def of(self, item: JsonObject) -> str:
        """Return the tenant of an object by its namespace; empty where it is no tenant's."""
        return self._tenants.get(item["metadata"]["namespace"], "")

    def groups(self, pod: JsonObject) -> set[Group]:
        """Return the GPU groups of a pod, with each place where they may be known."""
        namespace = pod["metadata"]["namespace"]
        known_in = {namespace} if namespace in self._apart else {namespace, _HOST}
        if is_reservation(pod):
            known_in = {namespace} if is_synced(pod) else {_HOST}
        return {(place, group) for place in known_in for group in gpu_groups(pod)}


def is_reservation(pod: JsonObject) -> bool:
    """Tell whether KAI Scheduler made a pod to hold a GPU for pods that share it: only in the namespace where it keeps them."""
    namespace = synced_from(pod) if is_synced(pod) else pod["metadata"]["namespace"]
    return labels_of(pod).get("app") == RESERVATION_APP and namespace == RESERVATION_NAMESPACE


def _reserves(pod: JsonObject, resource: str) -> bool:
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


def offered(node: JsonObject, resource: str = GPU_RESOURCE) -> int:
    """Return the GPUs that a node offers to pods, each as often as it has replicas.

    :raises ValueError: where the node's amount cannot be read.
    """
    return devices_in(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


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
    return devices_in(held_by(spec, resource))


def pod_name(pod: JsonObject) -> str:
    """Return how a pod of the host cluster is named in notes."""
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _offer(node: JsonObject, resource: str) -> Offer:
    metadata, allocatable = node["metadata"], (node.get("status") or {}).get("allocatable") or {}
    others = {key: devices_in(allocatable[key]) for key in sorted(allocatable) if key.startswith(VENDOR) and key != resource}
    labels = labels_of(node)
    return Offer(metadata["name"], owners(labels), offered(node, resource), others, labels.get(GPU_MEMORY_LABEL, ""))


def _sharers(
    pods: list[JsonObject], whose: Owners, sizes: t.Mapping[str, str]
) -> dict[tuple[str, Group], dict[str, decimal.Decimal]]:
    """Return the part of a GPU that each tenant's pods have, by node and GPU group; pods of no tenant count as those of an empty name.

    :arg sizes: MiB of a GPU, by node, as its label says; empty where it has none.
    """
    sharers: dict[tuple[str, Group], dict[str, decimal.Decimal]] = {}
    for pod in pods:
        if is_reservation(pod):
            continue
        tenant, node = whose.of(pod), pod["spec"].get("nodeName", "")
        for group in whose.groups(pod):
            # Any tenant can write the label of a group: a pod shares no GPU of another node.
            parts = sharers.setdefault((node, group), {})
            part = part_of_gpu(pod, sizes.get(node, ""))
            parts[tenant] = parts.get(tenant, NONE) + part
    return sharers


def _holding(
    pod: JsonObject,
    whose: Owners,
    sharers: t.Mapping[tuple[str, Group], t.Mapping[str, decimal.Decimal]],
    resource: str,
    others: t.Iterable[str],
) -> Holding:
    tenant, gpus, reserved = whose.of(pod), held(pod, resource), _reserves(pod, resource)
    where = pod["spec"].get("nodeName", "")
    parts: dict[str, decimal.Decimal] = {}
    groups = frozenset(whose.groups(pod)) if reserved else frozenset()
    for group in groups:
        parts |= sharers.get((where, group), {})
    # One of a tenant's that nobody shares keeps the GPU from others as any pod does.
    own = {tenant: NONE if reserved and not tenant else WHOLE}
    held_others = {name: amount for name in others if (amount := held(pod, name))}
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    return Holding(name, where, tenant, gpus, held_others, parts or own, reserved, groups)


# --- the ledger ----------------------------------------------------------------------------------------------------


def ledger(
    nodes: list[JsonObject],
    pods: list[JsonObject],
    namespaces: list[JsonObject],
    quotas: list[JsonObject],
    clusters: dict[str, JsonObject],
    claims: t.Sequence[JsonObject] = (),
    resource: str = GPU_RESOURCE,
) -> JsonObject:
    """Return who is offered, asks for and holds which GPUs; all counts are GPU devices, but for ``shares`` and ``others``.

    :arg nodes: Node objects of the host cluster; pods, namespaces, quotas (ResourceQuota) and claims (ResourceClaim) alike. Finished pods
        hold nothing.
    :arg clusters: configuration of each virtual cluster, by "namespace/name".
    :returns: ``nodes`` and ``tenants``, one row each in name order, ``overlaps``, sentences about GPUs with more than one owner,
        ``picture``, a line of text for each node with GPUs, and ``unread``, sentences about what could not be read and is in no row.
    """
    whose = Owners(namespaces)
    offers, unread = each(nodes, lambda node: f"node {node['metadata']['name']}", lambda node: _offer(node, resource))
    offers.sort(key=lambda offer: offer.node)
    alive = [pod for pod in pods if not is_ended(pod)]
    others = sorted({name for offer in offers for name in offer.others})
    sharers = _sharers([pod for pod in alive if gpu_groups(pod)], whose, {offer.node: offer.memory for offer in offers})
    holdings, more = each(alive, pod_name, lambda pod: _holding(pod, whose, sharers, resource, others))
    holdings = [holding for holding in holdings if holding.gpus or holding.others]
    bounds, unbound = _bounds(quotas, whose, resource)
    claimed, unclaimed = _claimed(claims, whose)
    rows = _node_rows(offers, holdings)
    overlaps = [
        *_trespasses(holdings, {offer.node: offer.owners for offer in offers}),
        *_shared_by_several(holdings),
        *_overfilled(holdings),
        *_reserved_twice(holdings),
        *_overbooked(rows),
        *_claimed_twice(claimed),
    ]
    return {
        "nodes": rows,
        "tenants": _tenant_rows(rows, holdings, whose.names(), bounds, claimed),
        "overlaps": [*collisions(nodes, clusters, resource), *overlaps],
        "picture": [f"{row['node']} {drawn(row['gpus'])}" for row in rows if row["gpus"]],
        "unread": [one.sentence for one in [*unread, *more, *unbound, *unclaimed]],
    }


def _node_rows(offers: t.Sequence[Offer], holdings: t.Iterable[Holding]) -> list[JsonObject]:
    """Return the row of each node."""
    placed: dict[str, list[Holding]] = collections.defaultdict(list)
    for holding in holdings:
        placed[holding.node].append(holding)
    return [_node_row(offer, placed[offer.node]) for offer in offers]


def _node_row(offer: Offer, here: t.Sequence[Holding]) -> JsonObject:
    in_use = sum(holding.gpus for holding in here)
    told = ({tenant: plain(part) * 1.0 for tenant, part in one.parts.items()} for one in here for _gpu in range(one.gpus))
    gpus: list[t.Mapping[str, float]] = list(itertools.islice(told, _MOST_TOLD))
    free = min(offer.gpus - in_use, _MOST_TOLD - len(gpus))
    return {
        "node": offer.node,
        "tenants": offer.owners,
        "allocatable": offer.gpus,
        "in_use": in_use,
        "gpus": gpus + [{}] * max(0, free),
        "others": {
            name: {"allocatable": amount, "in_use": sum(holding.others.get(name, 0) for holding in here)}
            for name, amount in offer.others.items()
        },
    }


def _tenant_rows(
    rows: t.Iterable[JsonObject],
    holdings: t.Iterable[Holding],
    names: set[str],
    bounds: t.Mapping[str, int],
    claimed: t.Mapping[tuple[str, str, str], set[str]],
) -> list[JsonObject]:
    """Return the row of each tenant, in the order of their names."""
    nodes_of: dict[str, list[JsonObject]] = collections.defaultdict(list)
    existing = set()
    for row in rows:
        existing.add(row["node"])
        for owner in row["tenants"]:
            nodes_of[owner].append(row)
    holdings_of: dict[str, list[Holding]] = collections.defaultdict(list)
    for holding in holdings:
        # Slices are of the pod's own tenant, whoever shares a GPU with it.
        for tenant in {*holding.parts, *([holding.tenant] if holding.others else [])}:
            holdings_of[tenant].append(holding)
    claims = collections.Counter(tenant for tenants in claimed.values() for tenant in tenants)
    return [
        _tenant_row(name, nodes_of[name], existing, holdings_of[name], bounds.get(name)) | {"claimed": claims[name]}
        for name in sorted(names | nodes_of.keys())
    ]


def _tenant_row(
    name: str, theirs: t.Sequence[JsonObject], existing: t.Container[str], holdings: t.Sequence[Holding], quota: int | None
) -> JsonObject:
    """Return a tenant's row. A pod that is not placed, or on a node that is gone, asks for GPUs and holds none."""
    sharing = [holding for holding in holdings if name in holding.parts]
    placed = [holding for holding in sharing if holding.node in existing]
    others: collections.Counter[str] = collections.Counter()
    for holding in holdings:
        if holding.tenant == name and holding.node in existing:
            others.update(holding.others)
    return {
        "tenant": name,
        "nodes": [row["node"] for row in theirs],
        "promised": sum(row["allocatable"] for row in theirs),
        "quota": quota,
        "requested": sum(holding.gpus for holding in sharing),
        "reserved": sum(holding.gpus for holding in placed if holding.reserved),
        "in_use": sum(holding.gpus for holding in placed),
        "shares": plain(sum((holding.gpus * holding.parts[name] for holding in placed), NONE)) * 1.0,
        "shared_with": sorted({other for holding in placed for other in holding.tenants} - {name}),
        "others": dict(sorted(others.items())),
    }


def drawn(gpus: t.Iterable[t.Mapping[str, float]]) -> str:
    """Return a node's GPUs as text, such as ``[team-a] [team-a 0.5, team-b 0.25] [free]``."""
    return " ".join(f"[{shown_holders(parts)}]" for parts in gpus)


def shown_holders(parts: t.Mapping[str, float]) -> str:
    """Return who has a GPU, such as ``team-a 0.5, team-b 0.25``; the part of whoever has all of it is not named."""
    whole = list(parts.values()) == [1.0]
    return (
        ", ".join(f"{tenant or 'no tenant'}{'' if whole else f' {part:g}'}" for tenant, part in sorted(parts.items())) or "free"
    )


# --- more than one owner -------------------------------------------------------------------------------------------


def _trespasses(holdings: list[Holding], owned_by: t.Mapping[str, list[str]]) -> list[str]:
    """Return a sentence for each pod that holds GPUs of others' nodes."""
    sentences = []
    for holding in holdings:
        owners_here = owned_by.get(holding.node)
        if owners_here and holding.gpus and not set(holding.parts) <= set(owners_here):
            tenants = [f"tenant {tenant}" if tenant else "no tenant" for tenant in sorted(holding.parts)]
            sentences.append(
                f"pod {holding.pod} of {' and '.join(tenants)} holds {holding.gpus} GPUs of node {holding.node}, which is "
                f"{' and '.join(owners_here)}'s"
            )
    return sentences


def _shared_by_several(holdings: list[Holding]) -> list[str]:
    return [
        f"a GPU of node {holding.node}, which pod {holding.pod} reserves, is shared by pods of tenants {' and '.join(holding.tenants)}"
        for holding in holdings
        if len(holding.tenants) > 1
    ]


def _overfilled(holdings: list[Holding]) -> list[str]:
    """Return a sentence for each GPU of which the pods that share it have more than there is."""
    totals = [(holding, sum(holding.parts.values(), NONE)) for holding in holdings if holding.reserved]
    return [
        f"parts of a GPU of node {holding.node}, which pod {holding.pod} reserves, add up to {plain(total):g} of it"
        for holding, total in totals
        if total.quantize(_SMALLEST) > WHOLE
    ]


def _reserved_twice(holdings: list[Holding]) -> list[str]:
    """Return a sentence for the pods of a GPU group for which more than one GPU of a node is reserved, of which they use one (#1673)."""
    reserving: dict[tuple[str, Group], list[str]] = collections.defaultdict(list)
    for holding in holdings:
        for group in holding.groups if holding.node else ():
            reserving[holding.node, group].append(holding.pod)
    # A tenant's own may have any number of groups.
    several = {(node, tuple(sorted(names))) for (node, _group), names in reserving.items() if len(names) > 1}
    return [
        f"pods {' and '.join(names)} each reserve a GPU of node {node} for the same pods, which share one of them"
        for node, names in sorted(several)
    ]


def _overbooked(by_node: list[JsonObject]) -> list[str]:
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


def _claimed(claims: t.Iterable[JsonObject], whose: Owners) -> tuple[dict[tuple[str, str, str], set[str]], list[Unread]]:
    """Return whose claims have a device of Dynamic Resource Allocation, by driver, pool and device; tenants, or an empty name.

    Access for administration, and a share of a device that is given out in parts, keep it from nobody.
    """

    def taken(item: JsonObject) -> list[tuple[tuple[str, str, str], str]]:
        allocation = (item.get("status") or {}).get("allocation") or {}
        return [
            ((one["driver"], one["pool"], one["device"]), whose.of(item))
            for one in (allocation.get("devices") or {}).get("results") or []
            if not one.get("adminAccess") and not one.get("shareID")
        ]

    found, unread = each(claims, lambda item: f"ResourceClaim {item['metadata']['namespace']}/{item['metadata']['name']}", taken)
    claimed: dict[tuple[str, str, str], set[str]] = {}
    for device, tenant in itertools.chain.from_iterable(found):
        claimed.setdefault(device, set()).add(tenant)
    return claimed, unread


def _claimed_twice(claimed: t.Mapping[tuple[str, str, str], set[str]]) -> list[str]:
    return [
        f"device {device} of pool {pool} ({driver}) is allocated to claims of {' and '.join(name or 'no tenant' for name in sorted(whose))}"
        for (driver, pool, device), whose in sorted(claimed.items())
        if len(whose) > 1
    ]


def collisions(
    nodes: list[JsonObject], clusters: t.Mapping[str, JsonObject], resource: str = GPU_RESOURCE, only: str | None = None
) -> list[str]:
    """Return a sentence for each node whose GPUs two virtual clusters would book, each without seeing the other.

    :arg clusters: values or configuration of each, by the name that the sentences give it.
    :arg only: name of the one that the sentences are about; None for all.
    """
    by_label: dict[tuple[str, str], list[JsonObject]] = collections.defaultdict(list)
    for node in nodes:
        for pair in labels_of(node).items():
            by_label[pair].append(node)
    claims: dict[str, list[str]] = collections.defaultdict(list)
    for name, config in sorted(clusters.items()):
        # The fewest nodes that have one of the labels by which the virtual cluster chooses its own.
        candidates = min((by_label.get(pair, []) for pair in selected(config).items()), key=len, default=nodes)
        for node in candidates:
            if uses(config, labels_of(node)):
                claims[node["metadata"]["name"]].append(name)
    sentences = []
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        names = claims[node["metadata"]["name"]]
        if len(names) < 2 or (only is not None and only not in names):
            continue
        try:
            gpus = offered(node, resource)
        except ValueError:
            # The ledger names such a node; that two claim it, it says all the same.
            gpus = 1
        if why := conflict(gpus, [claim(name, clusters[name]) for name in names]):
            sentences.append(f"node {node['metadata']['name']} with {gpus} GPUs: {why}")
    return sentences


def _bounds(quotas: list[JsonObject], whose: Owners, resource: str) -> tuple[dict[str, int], list[Unread]]:
    """Return the GPU devices that tenants' pods may ask for at most, by tenant, where a quota of the host cluster says so."""

    def bound(quota: JsonObject) -> tuple[str, int]:
        return whose.of(quota), devices_in(quota["spec"]["hard"][f"requests.{resource}"])

    bounding = [one for one in quotas if whose.of(one) and f"requests.{resource}" in ((one.get("spec") or {}).get("hard") or {})]
    found, unread = each(bounding, lambda one: f"ResourceQuota in {one['metadata']['namespace']}", bound)
    bounds: dict[str, int] = {}
    for tenant, most in found:
        bounds[tenant] = min(most, bounds.get(tenant, most))
    return bounds, unread


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


def readers(pods: t.Iterable[JsonObject], namespaces: t.Iterable[JsonObject]) -> dict[str, Reader]:
    """Return a container of a device plugin for each node that has one that runs.

    Pods of tenants do not count: what they answer would be what the tenant likes.
    """
    whose = Owners(namespaces)
    found: dict[str, Reader] = {}
    for pod in pods:
        spec, metadata = pod["spec"], pod["metadata"]
        if (pod.get("status") or {}).get("phase") != "Running" or is_synced(pod) or whose.of(pod):
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
        data = parse_json(checkpoint)["Data"]
        registered = {one for name, ids in (data["RegisteredDevices"] or {}).items() if name.startswith(VENDOR) for one in ids}
        pods: dict[str, set[str]] = {}
        for entry in data["PodDeviceEntries"] or []:
            if entry["ResourceName"].startswith(VENDOR):
                # By NUMA node.
                pods.setdefault(entry["PodUID"], set()).update(*entry["DeviceIDs"].values())
    except (AttributeError, KeyError, TypeError) as exc:
        raise ValueError(f"it is not of the form that is known: {type(exc).__name__} {exc}") from exc
    if not all(isinstance(one, str) for one in registered.union(*pods.values())):
        raise ValueError("it is not of the form that is known: an ID of a device is no text")
    return Assigned(frozenset(registered), {pod: frozenset(ids) for pod, ids in pods.items()})


def devices(
    nodes: list[JsonObject],
    pods: list[JsonObject],
    namespaces: list[JsonObject],
    known: t.Mapping[str, Assigned],
    resource: str = GPU_RESOURCE,
) -> list[JsonObject]:
    """Return a row for each device and pod that has it or a part of it, and for each device that is free, by node and device.

    :arg known: what kubelet knows, by node; of other nodes, only what KAI Scheduler noted of shared GPUs is known.
    :returns: as module gpu_ledger_info documents them.
    """
    whose = Owners(namespaces)
    placed: dict[str, list[JsonObject]] = collections.defaultdict(list)
    for pod in pods:
        if not is_ended(pod):
            placed[pod["spec"].get("nodeName", "")].append(pod)
    offers, _unread = each(nodes, lambda node: str(node["metadata"]["name"]), lambda node: _offer(node, resource))
    rows = []
    for offer in sorted(offers, key=lambda offer: offer.node):
        here, seen = placed[offer.node], known.get(offer.node)
        taken = _taken(offer, here, seen, whose, resource)
        used = {row["device"] for row in taken}
        # Of a pod whose amounts cannot be read, the ledger says so.
        amounts, _unread = each(here, pod_name, lambda pod: held(pod, resource))
        free = sorted(seen.devices - used) if seen else [None] * min(offer.gpus - sum(amounts), _MOST_TOLD)
        rows += sorted(
            [*taken, *({"node": offer.node, "device": one, "tenant": "", "pod": "", "part": 0.0} for one in free)],
            key=lambda row: (row["device"] is None, row["device"] or "", not row["pod"], row["pod"]),
        )
    return rows


def _taken(offer: Offer, here: list[JsonObject], seen: Assigned | None, whose: Owners, resource: str) -> list[JsonObject]:
    """Return a row for each device of a node and pod that has it or a part of it."""
    sharing: dict[Group, list[JsonObject]] = collections.defaultdict(list)
    for pod in here:
        if not is_reservation(pod):
            for group in whose.groups(pod):
                sharing[group].append(pod)

    def rows(pod: JsonObject) -> list[JsonObject]:
        holders = _holders(pod, sharing, whose, offer.memory) if _reserves(pod, resource) else [(pod, WHOLE)]
        return [
            {"node": offer.node, "device": device, "tenant": whose.of(holder)}
            | {"pod": shown(virtual_name(holder)), "part": plain(part) * 1.0}
            for device in _devices_of(pod, seen, resource)
            for holder, part in holders
        ]

    found, _unread = each(here, pod_name, rows)
    return list(itertools.chain.from_iterable(found))


def _devices_of(pod: JsonObject, seen: Assigned | None, resource: str) -> list[str | None]:
    """Return the IDs of the devices that a pod keeps from others; None for each whose ID is not known."""
    gpus = held(pod, resource)
    ids = sorted(seen.pods.get(pod["metadata"].get("uid", ""), ())) if seen else []
    noted = annotations_of(pod).get(RESERVED_GPU_NOTE, "")
    # What a tenant's pod says of itself counts for nothing.
    if not ids and _reserves(pod, resource) and not is_synced(pod) and re.fullmatch(GPU_UUID, noted):
        ids = [noted]
    return [*ids, *[None] * min(gpus - len(ids), _MOST_TOLD)]


def _holders(
    pod: JsonObject, sharing: t.Mapping[Group, list[JsonObject]], whose: Owners, size: str
) -> list[tuple[JsonObject, decimal.Decimal]]:
    """Return the pods for which a pod reserves a GPU, and which part of it each has; the pod itself where there are none."""
    found = {id(one): one for group in whose.groups(pod) for one in sharing.get(group, ())}
    return [(one, part_of_gpu(one, size)) for one in found.values()] or [(pod, NONE)]
