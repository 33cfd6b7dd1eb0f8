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
import decimal
import itertools
import typing as t

from .._common.names import GPU_MEMORY_LABEL, GPU_RESOURCE
from .._common.parties import Unread, each
from .._common.pods import is_ended
from .._common.quantity import devices, plain
from .._common.values import JsonObject
from .._nodes.status import NONE, WHOLE, gpu_groups, held, is_reservation, part_of_gpu, reserves
from .._vcluster.overlaps import collisions
from .model import MOST_TOLD, Group, Holding, Offer, Owners, offer_of, pod_name

# Of sums of parts, which are not exact.
_SMALLEST = decimal.Decimal("0.000001")


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
    :returns: ``nodes`` and ``tenants``, one row each in name order, ``products``, one for each GPU product and node pool, ``overlaps``, sentences
        about GPUs with more than one owner, ``picture``, a line of text for each node with GPUs, and ``unread``, sentences about the rest.
    """
    whose = Owners(namespaces)
    offers, unread = each(nodes, lambda node: f"node {node['metadata']['name']}", lambda node: offer_of(node, resource))
    offers.sort(key=lambda offer: offer.node)
    holdings, more = _holdings(pods, whose, offers, resource)
    bounds, unbound = _bounds(quotas, whose, resource)
    claimed, unclaimed = _claimed(claims, whose, _served_by_claims(pods, resource))
    rows = _node_rows(offers, holdings)
    overlaps = [
        *_trespasses(holdings, {offer.node: offer.owners for offer in offers}),
        *_shared_by_several(holdings),
        *_overfilled(holdings),
        *_reserved_twice(holdings),
        *_overbooked(rows),
        *_claimed_twice(claimed.all),
    ]
    return {
        "nodes": rows,
        "products": _product_rows(offers, rows),
        "tenants": _tenant_rows(rows, holdings, whose.names(), bounds, claimed.own),
        "overlaps": [*collisions(nodes, clusters, resource), *overlaps],
        "picture": [f"{row['node']} {drawn(row['gpus'])}" for row in rows if row["gpus"]],
        "unread": [one.sentence for one in [*unread, *more, *unbound, *unclaimed]],
    }


def _holdings(
    pods: t.Iterable[JsonObject], whose: Owners, offers: t.Sequence[Offer], resource: str
) -> tuple[list[Holding], list[Unread]]:
    """Return what pods hold that have not ended, and which of them cannot be read."""
    alive = [pod for pod in pods if not is_ended(pod)]
    others = sorted({name for offer in offers for name in offer.others})
    sharing, sizes = [pod for pod in alive if gpu_groups(pod)], {offer.node: offer.memory for offer in offers}
    sharers = _sharers(sharing, whose, sizes)
    holdings, unread = each(alive, pod_name, lambda pod: _holding(pod, whose, sharers, resource, others))
    return [holding for holding in holdings if holding.gpus or holding.others], [*unread, *_unknown_parts(sharing, sizes)]


def _unknown_parts(pods: t.Iterable[JsonObject], sizes: t.Mapping[str, str]) -> list[Unread]:
    """Return the pods that share a GPU of which they have a part that is not known; the part counts as 0.

    :arg sizes: as of ``_sharers``.
    """
    return [
        Unread(
            f"the part of a GPU that {pod_name(pod)} has",
            f"its annotations and label {GPU_MEMORY_LABEL} of node {node} do not say",
        )
        for pod in pods
        if (node := pod["spec"].get("nodeName")) and not is_reservation(pod) and not part_of_gpu(pod, sizes.get(node, ""))
    ]


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
    tenant, gpus, reserved = whose.of(pod), held(pod, resource), reserves(pod, resource)
    where = pod["spec"].get("nodeName", "")
    parts: dict[str, decimal.Decimal] = {}
    groups = frozenset(whose.groups(pod)) if reserved else frozenset()
    for group in groups:
        parts |= sharers.get((where, group), {})
    # A tenant's reservation that no pod shares keeps the GPU from others as any pod does.
    own = {tenant: NONE if reserved and not tenant else WHOLE}
    held_others = {name: amount for name in others if (amount := held(pod, name))}
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    return Holding(name, where, tenant, gpus, held_others, parts or own, reserved, groups)


def _node_rows(offers: t.Sequence[Offer], holdings: t.Iterable[Holding]) -> list[JsonObject]:
    """Return the row of each node."""
    placed: dict[str, list[Holding]] = collections.defaultdict(list)
    for holding in holdings:
        placed[holding.node].append(holding)
    return [_node_row(offer, placed[offer.node]) for offer in offers]


def _node_row(offer: Offer, here: t.Sequence[Holding]) -> JsonObject:
    in_use = sum(holding.gpus for holding in here)
    told = ({tenant: plain(part) * 1.0 for tenant, part in one.parts.items()} for one in here for _gpu in range(one.gpus))
    gpus: list[t.Mapping[str, float]] = list(itertools.islice(told, MOST_TOLD))
    free = min(offer.gpus - in_use, MOST_TOLD - len(gpus))
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


def _product_rows(offers: t.Iterable[Offer], rows: t.Iterable[JsonObject]) -> list[JsonObject]:
    """Return a row for each GPU product and node pool of nodes with GPUs, in their order.

    :arg rows: those of the nodes, in the order of the offers.
    """
    found: dict[tuple[str, str], JsonObject] = {}
    for offer, row in zip(offers, rows):
        if row["allocatable"] or row["in_use"]:
            empty = {"product": offer.product, "pool": offer.pool, "nodes": 0, "allocatable": 0, "in_use": 0}
            one = found.setdefault((offer.product, offer.pool), empty)
            one["nodes"] += 1
            for key in ("allocatable", "in_use"):
                one[key] += row[key]
    return [found[key] for key in sorted(found)]


def _tenant_rows(
    rows: t.Iterable[JsonObject],
    holdings: t.Iterable[Holding],
    names: set[str],
    bounds: t.Mapping[str, int],
    claimed: t.Mapping[_Device, set[str]],
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
        # Slices are of the pod's own tenant alone, also where other tenants share a GPU with it.
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
    """Return which tenants have a GPU, such as ``team-a 0.5, team-b 0.25``. A tenant that has all of it is named without a part."""
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


# A device of Dynamic Resource Allocation: driver, pool and name.
_Device = tuple[str, str, str]
# A request of a claim: namespace and name of the claim, and name of the request.
_Request = tuple[str, str, str]


class _Claimed(t.NamedTuple):
    """Whose claims have a device; tenants, or an empty name.

    :ivar own: without the claims that a scheduler made for the GPUs of pods, which count as these pods'.
    """

    all: dict[_Device, set[str]]
    own: dict[_Device, set[str]]


def _claimed(claims: t.Iterable[JsonObject], whose: Owners, served: t.Container[_Request]) -> tuple[_Claimed, list[Unread]]:
    """Return whose claims have a device.

    Access for administration, and a share of a device that is given out in parts, keep it from no other claim.

    :arg served: requests by which pods have the GPUs that they ask for.
    """

    def taken(item: JsonObject) -> list[tuple[_Device, str, bool]]:
        allocation, metadata = (item.get("status") or {}).get("allocation") or {}, item["metadata"]
        return [
            (
                (one["driver"], one["pool"], one["device"]),
                whose.of(item),
                (metadata["namespace"], metadata["name"], one.get("request")) in served,
            )
            for one in (allocation.get("devices") or {}).get("results") or []
            if not one.get("adminAccess") and not one.get("shareID")
        ]

    found, unread = each(claims, lambda item: f"ResourceClaim {item['metadata']['namespace']}/{item['metadata']['name']}", taken)
    claimed = _Claimed({}, {})
    for device, tenant, of_pod in itertools.chain.from_iterable(found):
        claimed.all.setdefault(device, set()).add(tenant)
        if not of_pod:
            claimed.own.setdefault(device, set()).add(tenant)
    return claimed, unread


def _served_by_claims(pods: t.Iterable[JsonObject], resource: str) -> set[_Request]:
    """Return the requests of claims by which pods have devices of an extended resource (KEP-5004)."""
    found = set()
    for pod in pods:
        status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
        for one in status.get("requestMappings") or []:
            if one.get("resourceName") == resource:
                found.add((pod["metadata"]["namespace"], str(status.get("resourceClaimName")), str(one.get("requestName"))))
    return found


def _claimed_twice(claimed: t.Mapping[_Device, set[str]]) -> list[str]:
    return [
        f"device {device} of pool {pool} ({driver}) is allocated to claims of {' and '.join(name or 'no tenant' for name in sorted(whose))}"
        for (driver, pool, device), whose in sorted(claimed.items())
        if len(whose) > 1
    ]


def _bounds(quotas: list[JsonObject], whose: Owners, resource: str) -> tuple[dict[str, int], list[Unread]]:
    """Return the GPU devices that tenants' pods may ask for at most, by tenant, where a quota of the host cluster says so."""

    def bound(quota: JsonObject) -> tuple[str, int]:
        return whose.of(quota), devices(quota["spec"]["hard"][f"requests.{resource}"])

    bounding = [one for one in quotas if whose.of(one) and f"requests.{resource}" in ((one.get("spec") or {}).get("hard") or {})]
    found, unread = each(bounding, lambda one: f"ResourceQuota in {one['metadata']['namespace']}", bound)
    bounds: dict[str, int] = {}
    for tenant, most in found:
        bounds[tenant] = min(most, bounds.get(tenant, most))
    return bounds, unread
