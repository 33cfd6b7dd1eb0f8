# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Assign a host cluster's nodes to its tenants: which node is whose, and which labels and taints have to change for that.

Nodes are plain data: dictionaries of ``name``, ``gpus`` (number of devices), ``labels``, ``taints``, ``obstacle`` (why no new pod
starts there; empty without a reason), ``version`` (that of the resource) and ``metadata`` (who wrote what of it).
"""

from __future__ import annotations

import collections
import itertools
import typing as t

from .._common.errors import TenancyError
from .._common.names import DEDICATED_TAINT, GPU_RESOURCE, NODE_LABEL
from .._common.quantity import devices
from .._common.schema import Problems
from .._common.values import JsonObject
from .._common.variables import TENANTS
from .._desired.layout import quota_problems
from .._desired.model import Tenant
from .._nodes.facts import CONTROL_PLANE_LABEL, GPU_PRESENT_LABEL
from .._nodes.status import REPELLING, owners
from .._nodes.validation import Claim, conflict

# Names that a refusal lists.
_MOST_TOLD = 50

HOW_TO_FREE = "`ansible-playbook kubegpu.tenancy.cleanup -e kubegpu_only={}` removes it, or list it again."


REMOVAL = "a run that acts on it removes it, or says why it cannot."


def plain(node: JsonObject) -> JsonObject:
    """Return what an assignment needs to know of a Node. Capacity counts, because allocatable drops while a GPU is unhealthy.

    :raises TenancyError: where its number of GPUs cannot be read, by which it is decided who may share the node.
    """
    capacity = (node.get("status") or {}).get("capacity") or {}
    try:
        gpus = devices(capacity.get(GPU_RESOURCE, 0))
    except ValueError as exc:
        raise TenancyError(f"node {node['metadata']['name']}: its capacity of {GPU_RESOURCE} cannot be read: {exc}") from exc
    return {
        "name": node["metadata"]["name"],
        "gpus": gpus,
        "labels": node["metadata"].get("labels") or {},
        "taints": (node.get("spec") or {}).get("taints") or [],
        "obstacle": _obstacle(node),
        "version": node["metadata"].get("resourceVersion"),
        "metadata": {"managedFields": node["metadata"].get("managedFields")},
    }


def _obstacle(node: JsonObject) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    if node["metadata"].get("deletionTimestamp"):
        return "being deleted"
    # Without the condition, its kubelet has not reported yet.
    if any(condition.get("type") == "Ready" and condition.get("status") != "True" for condition in conditions):
        return "not ready"
    return "cordoned" if (node.get("spec") or {}).get("unschedulable") else ""


def _last_chosen(node: JsonObject) -> tuple[bool, bool]:
    """Return what sorts nodes for a tenant that asks for any: nodes that take pods, tainted ones, ones that take no pods.

    Whether the tenant's pods tolerate a taint is not known here.
    """
    foreign = [taint for taint in node["taints"] if taint["key"] != DEDICATED_TAINT and taint.get("effect") in REPELLING]
    return bool(node["obstacle"]), bool(foreign)


def obstacles(nodes: t.Iterable[JsonObject], assigned: t.Mapping[str, t.Iterable[str]]) -> list[str]:
    """Return a warning for each tenant that is given nodes that take no new pods.

    :arg assigned: names of nodes by tenant.
    """
    whose = by_node(assigned)
    found: dict[str, list[str]] = collections.defaultdict(list)
    for node in nodes:
        if node["obstacle"] and has_gpus(node):
            for tenant in set(whose.get(node["name"], [])).difference(owners(node["labels"])):
                found[tenant].append(f"{node['name']} ({node['obstacle']})")
    return [f"{tenant} is given nodes that take no new pods: {_some(told)}." for tenant, told in sorted(found.items())]


def ownership(node: JsonObject) -> list[str]:
    """Return whose a node is, and for whom it is tainted, as a module's diff shows it."""
    taints = [f"taint {DEDICATED_TAINT}={taint.get('value', '')}" for taint in node["taints"] if taint["key"] == DEDICATED_TAINT]
    return owners(node["labels"]) + taints


def without(node: JsonObject, tenants: t.Collection[str]) -> JsonObject:
    """Return a node as if it did not belong to some tenants."""
    labels = {label: value for label, value in node["labels"].items() if label not in {NODE_LABEL + name for name in tenants}}
    return node | {"labels": labels}


def has_gpus(node: JsonObject) -> bool:
    """Tell whether a node has GPUs: by what the device plugin counted, or by the label, before it runs or while it is down."""
    return bool(node["gpus"]) or node["labels"].get(GPU_PRESENT_LABEL) == "true"


def assign(
    tenants: t.Sequence[Tenant], nodes: list[JsonObject], unlisted: t.Mapping[str, Claim] | None = None
) -> dict[str, list[str]]:
    """Decide which nodes each tenant gets, as names in order; tenants that are to be absent get none.

    A node stays with the tenant it is labelled for. A node labelled for a tenant that is not listed, or to be absent, is not free:
    that tenant's pods may still run on it.

    :arg tenants: all that are listed.
    :arg nodes: all of the cluster's.
    :arg unlisted: claims of tenants that are not listed or to be absent, by name, as the cluster knows them.
    :raises TenancyError: with all ``problems``, where there are too few nodes or two tenants claim one.
    """
    problems = Problems()
    by_name = {node["name"]: node for node in sorted(nodes, key=lambda node: str(node["name"]))}
    # By their paths in the desired state.
    present = {tenant.path: tenant for tenant in tenants if tenant.state != "absent"}
    listed = {tenant.name for tenant in present.values()}
    absent = {tenant.name for tenant in tenants} - listed
    # Whose each node with GPUs is, as it turns out.
    claims = {
        name: [owner for owner in owners(node["labels"]) if owner not in listed]
        for name, node in by_name.items()
        if has_gpus(node)
    }
    by_label = _by_label(claims, by_name)
    for path, tenant in present.items():
        for name in _fixed(tenant, by_name, claims, by_label, f"{path}.gpu_nodes", problems):
            claims[name].append(tenant.name)
    _count(present, by_name, claims, absent, problems)
    known = dict(unlisted or {}) | {tenant.name: _claim(tenant) for tenant in present.values()}
    for name, claimants in claims.items():
        if why := _refusal([known.get(claimant, Claim(claimant, own_scheduler=True)) for claimant in claimants], by_name[name]):
            how_to_free = _how_to_free(set(claimants) - listed, absent)
            problems.add(
                "nodes-claimed-twice", TENANTS, f"node {name} would belong to {' and '.join(claimants)}: {why}.{how_to_free}"
            )
    assigned = _assigned(present, by_name, claims, problems)
    problems.raise_if_any("the assignment of nodes")
    return assigned


def _assigned(
    tenants: dict[str, Tenant], nodes: dict[str, JsonObject], claims: dict[str, list[str]], problems: Problems
) -> dict[str, list[str]]:
    """Return the nodes that each tenant gets by the claims, and check its queues against their GPUs.

    :arg tenants: by their paths in the desired state.
    """
    claimed: dict[str, list[str]] = collections.defaultdict(list)
    for name, claimants in claims.items():
        for claimant in dict.fromkeys(claimants):
            claimed[claimant].append(name)
    without_gpus = _without_gpus(nodes)
    assigned: dict[str, list[str]] = {}
    for path, tenant in tenants.items():
        theirs = assigned[tenant.name] = list(claimed[tenant.name] if tenant.gpu_nodes else without_gpus)
        if tenant.gpu_nodes:
            gpus = [nodes[name]["gpus"] for name in theirs]
            # Before the device plugin runs, it is not known how many there are.
            problems.extend(quota_problems(tenant, sum(gpus)) if all(gpus) else [])
        elif not theirs:
            problems.add("too-few-nodes", path, f"{tenant.name} has no gpu_nodes, and the cluster has no node without GPUs.")
    return assigned


def _claim(tenant: Tenant) -> Claim:
    return Claim(tenant.name, tenant.own_scheduler is not None, tenant.shares_scheduler, tenant.gpu_nodes.shared_gpus)


def _refusal(claims: list[Claim], node: JsonObject) -> str:
    unasked = [claim.tenant for claim in claims if claim.bound is None]
    if len(claims) > 1 and unasked:
        return f"{' and '.join(unasked)} did not say that the node is shared, by gpu_nodes.shared_gpus"
    return conflict(node["gpus"], claims)


def _how_to_free(names: t.Iterable[str], absent: t.Container[str]) -> str:
    """Return what to do about tenants that are on the cluster and not to be there; empty without any.

    :arg absent: names of the tenants that are listed as absent.
    """
    return "".join(
        f" {name} is to be absent and still there: {REMOVAL}"
        if name in absent
        else f" {name} is not listed: {HOW_TO_FREE.format(name)}"
        for name in sorted(names)
    )


def _count(
    tenants: dict[str, Tenant],
    nodes: dict[str, JsonObject],
    claims: dict[str, list[str]],
    absent: t.Container[str],
    problems: Problems,
) -> None:
    """Claim for the tenants that only say how many: first everybody keeps what is theirs, then gaps are filled.

    :arg tenants: by their paths in the desired state.
    """
    counted = {path: tenant for path, tenant in tenants.items() if tenant.gpu_nodes.count}
    held: dict[str, list[str]] = collections.defaultdict(list)
    for name in claims:
        for owner in owners(nodes[name]["labels"]):
            held[owner].append(name)
    kept: dict[str, int] = {}
    for path, tenant in counted.items():
        # Undisputed ones first.
        theirs = sorted(held.get(tenant.name, []), key=lambda name: bool(claims[name]))[: tenant.gpu_nodes.count]
        kept[path] = len(theirs)
        for name in theirs:
            claims[name].append(tenant.name)
    free = sorted((name for name, claimants in claims.items() if not claimants), key=lambda name: _last_chosen(nodes[name]))
    others = sorted(held.keys() - {tenant.name for tenant in tenants.values()})
    given = 0
    for path, tenant in counted.items():
        missing, left = (tenant.gpu_nodes.count or 0) - kept[path], len(free) - given
        for name in free[given : given + missing]:
            claims[name].append(tenant.name)
        given += min(missing, left)
        if missing > left:
            held_by = f" Nodes are held by {_some(others)}.{_how_to_free(others[:_MOST_TOLD], absent)}" if others else ""
            problems.add(
                "too-few-nodes",
                f"{path}.gpu_nodes.count",
                f"{tenant.name} needs {tenant.gpu_nodes.count} nodes with GPUs; {kept[path]} are its own, "
                f"{left} of all {len(claims)} are free.{held_by}",
            )


def _by_label(names: t.Iterable[str], nodes: dict[str, JsonObject]) -> dict[tuple[str, t.Any], dict[str, None]]:
    """Return, for each label with its value, the nodes that have it, in order."""
    found: dict[tuple[str, t.Any], dict[str, None]] = collections.defaultdict(dict)
    for name in names:
        for label in nodes[name]["labels"].items():
            found[label][name] = None
    return found


def _fixed(
    tenant: Tenant,
    nodes: dict[str, JsonObject],
    with_gpus: t.Collection[str],
    by_label: t.Mapping[tuple[str, t.Any], dict[str, None]],
    path: str,
    problems: Problems,
) -> list[str]:
    """Return the nodes a tenant asks for by their names or labels.

    :arg by_label: as ``_by_label`` returns it of those with GPUs.
    """
    chosen = tenant.gpu_nodes
    if chosen.labels:
        # The fewest are looked through.
        first, *more = sorted((by_label.get(label, {}) for label in chosen.labels.items()), key=len)
        live = [name for name in first if all(name in others for others in more)]
        if not live:
            problems.add("too-few-nodes", f"{path}.labels", f"no node with GPUs has them all. {_gpu_nodes(with_gpus)}")
        return live
    for index, name in enumerate(chosen.names):
        if name not in with_gpus:
            what = "has no GPUs" if name in nodes else "is not a node of the cluster"
            problems.add("no-gpu-node", f"{path}.names[{index}]", f"{name} {what}. {_gpu_nodes(with_gpus)}")
    return [name for name in chosen.names if name in with_gpus]


def _gpu_nodes(with_gpus: t.Collection[str]) -> str:
    return f"The cluster's nodes with GPUs: {_some(with_gpus) or 'none'}."


def _some(names: t.Collection[str]) -> str:
    """Return names as text, the first ones where there are many."""
    told = ", ".join(itertools.islice(names, _MOST_TOLD))
    return f"{told} and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else told


def _without_gpus(nodes: dict[str, JsonObject]) -> list[str]:
    """Return the nodes without GPUs; control-plane nodes only where there are no others."""
    names = [name for name, node in nodes.items() if not has_gpus(node)]
    workers = [name for name in names if CONTROL_PLANE_LABEL not in nodes[name]["labels"]]
    return workers or names


# --- changes -----------------------------------------------------------------------------------------------------


def by_node(assigned: t.Mapping[str, t.Iterable[str]]) -> dict[str, list[str]]:
    """Return the tenants that each node is assigned to, in the order of the tenants.

    :arg assigned: names of nodes by tenant.
    """
    whose: dict[str, list[str]] = {}
    for tenant, names in assigned.items():
        for name in names:
            whose.setdefault(name, []).append(tenant)
    return whose


def relabel(node: JsonObject, whose: t.Iterable[str], tenants: t.Container[str] | None) -> dict[str, str | None]:
    """Return the labels of a node that have to change for it to belong to some tenants; None removes a label.

    :arg whose: names of the tenants that it is assigned to.
    :arg tenants: whose labels may be removed; None for everybody's.
    """
    wanted = {NODE_LABEL + tenant: "true" for tenant in whose}
    present = {
        label: value
        for label, value in node["labels"].items()
        if label.startswith(NODE_LABEL) and (tenants is None or label.removeprefix(NODE_LABEL) in tenants)
    }
    return dict.fromkeys(present.keys() - wanted.keys()) | wanted if present != wanted else {}


def retaint(
    node: JsonObject, whose: t.Iterable[str], tenants: t.Container[str] | None, dedicated: t.Container[str]
) -> list[JsonObject] | None:
    """Return all taints of a node, where they have to change to keep others' pods off the nodes of ``dedicated`` tenants; None where not.

    :arg whose: as of ``relabel``, and ``tenants``, whose taints may be removed.
    """
    taints = node["taints"]
    wanted = [{"key": DEDICATED_TAINT, "value": tenant, "effect": "NoSchedule"} for tenant in whose if tenant in dedicated]
    present = [
        taint for taint in taints if taint["key"] == DEDICATED_TAINT and (tenants is None or taint.get("value") in tenants)
    ]
    if [{key: taint.get(key) for key in ("key", "value", "effect")} for taint in present] == wanted:
        return None
    return [taint for taint in taints if taint not in present] + wanted
