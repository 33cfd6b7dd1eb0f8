# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Assign a host cluster's nodes to its tenants: which node is whose, and which labels and taints have to change for that.

Nodes are plain data: dictionaries of ``name``, ``gpus`` (number of devices), ``labels``, ``taints``, ``version`` (that of the
resource) and ``metadata`` (who wrote what of it).
"""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.schema import Problems
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.facts import TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.model import Tenant
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import quota_problems
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import (
    CONTROL_PLANE_LABEL,
    DEDICATED_TAINT,
    GPU_PRESENT_LABEL,
    GPU_RESOURCE,
    NODE_LABEL,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import owners
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.validation import Claim, conflict

Data = dict[str, t.Any]

WAY_OUT = "`ansible-playbook kubegpu.tenancy.cleanup -e kubegpu_only={}` removes it, or list it again."


REMOVAL = "a run that acts on it removes it, or says why it cannot."


def plain(node: Data) -> Data:
    """Return what an assignment needs to know of a Node. Capacity counts, because allocatable drops while a GPU is unhealthy."""
    return {
        "name": node["metadata"]["name"],
        "gpus": int(node["status"].get("capacity", {}).get(GPU_RESOURCE, 0)),
        "labels": node["metadata"].get("labels") or {},
        "taints": node["spec"].get("taints") or [],
        "version": node["metadata"].get("resourceVersion"),
        "metadata": {"managedFields": node["metadata"].get("managedFields")},
    }


def ownership(node: Data) -> list[str]:
    """Return whose a node is, and for whom it is tainted, as a module's diff shows it."""
    taints = [f"taint {DEDICATED_TAINT}={taint.get('value', '')}" for taint in node["taints"] if taint["key"] == DEDICATED_TAINT]
    return owners(node["labels"]) + taints


def without(node: Data, tenants: t.Collection[str]) -> Data:
    """Return a node as if it did not belong to some tenants."""
    labels = {label: value for label, value in node["labels"].items() if label not in {NODE_LABEL + name for name in tenants}}
    return node | {"labels": labels}


def has_gpus(node: Data) -> bool:
    """Tell whether a node has GPUs: by what the device plugin counted, or by the label, before it runs or while it is down."""
    return bool(node["gpus"]) or node["labels"].get(GPU_PRESENT_LABEL) == "true"


def assign(tenants: t.Sequence[Tenant], nodes: list[Data], unlisted: t.Mapping[str, Claim] | None = None) -> dict[str, list[str]]:
    """Decide which nodes each tenant gets, as names in order; those that are to be absent get none.

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
    present = {f"{TENANTS}[{index}]": tenant for index, tenant in enumerate(tenants) if tenant.state != "absent"}
    listed = {tenant.name for tenant in present.values()}
    absent = {tenant.name for tenant in tenants} - listed
    # Whose each node with GPUs is, as it turns out.
    claims = {
        name: [owner for owner in owners(node["labels"]) if owner not in listed]
        for name, node in by_name.items()
        if has_gpus(node)
    }
    for path, tenant in present.items():
        for name in _fixed(tenant, by_name, list(claims), f"{path}.gpu_nodes", problems):
            claims[name].append(tenant.name)
    _count(present, by_name, claims, absent, problems)
    known = dict(unlisted or {}) | {tenant.name: _claim(tenant) for tenant in present.values()}
    for name, claimants in claims.items():
        if why := _refusal([known.get(claimant, Claim(claimant, own_scheduler=True)) for claimant in claimants], by_name[name]):
            way_out = _way_out(set(claimants) - listed, absent)
            problems.add(TENANTS, f"node {name} would belong to {' and '.join(claimants)}: {why}.{way_out}")
    assigned = {tenant.name: _assigned(tenant, path, by_name, claims, problems) for path, tenant in present.items()}
    problems.raise_if_any("the assignment of nodes")
    return assigned


def _assigned(tenant: Tenant, path: str, nodes: dict[str, Data], claims: dict[str, list[str]], problems: Problems) -> list[str]:
    """Return the nodes that a tenant gets by the claims, and check its queues against their GPUs."""
    if not tenant.gpu_nodes:
        theirs = _without_gpus(nodes)
        if not theirs:
            problems.add(path, f"{tenant.name} has no gpu_nodes, and the cluster has no node without GPUs.")
        return theirs
    theirs = [name for name, claimants in claims.items() if tenant.name in claimants]
    gpus = [nodes[name]["gpus"] for name in theirs]
    # Before the device plugin runs nobody knows how many there are.
    if all(gpus):
        problems.extend(quota_problems(tenant, sum(gpus), path))
    return theirs


def _claim(tenant: Tenant) -> Claim:
    return Claim(tenant.name, tenant.own_scheduler is not None, tenant.shares_scheduler, tenant.gpu_nodes.shared_gpus)


def _refusal(claims: list[Claim], node: Data) -> str:
    unasked = [claim.tenant for claim in claims if claim.bound is None]
    if len(claims) > 1 and unasked:
        return f"{' and '.join(unasked)} did not say that the node is shared, by gpu_nodes.shared_gpus"
    return conflict(node["gpus"], claims)


def _way_out(names: t.Iterable[str], absent: t.Container[str]) -> str:
    """Return what to do about tenants that are on the cluster and not to be there; empty without any.

    :arg absent: names of those that are listed as absent.
    """
    return "".join(
        f" {name} is to be absent and still there: {REMOVAL}"
        if name in absent
        else f" {name} is not listed: {WAY_OUT.format(name)}"
        for name in sorted(names)
    )


def _count(
    tenants: dict[str, Tenant], nodes: dict[str, Data], claims: dict[str, list[str]], absent: t.Container[str], problems: Problems
) -> None:
    """Claim for the tenants that only say how many: first everybody keeps what is theirs, then gaps are filled.

    :arg tenants: by their paths in the desired state.
    """
    counted = {path: tenant for path, tenant in tenants.items() if tenant.gpu_nodes.count}
    kept: dict[str, list[str]] = {}
    for path, tenant in counted.items():
        held = [name for name in claims if tenant.name in owners(nodes[name]["labels"])]
        # Undisputed ones first.
        kept[path] = sorted(held, key=lambda name: bool(claims[name]))[: tenant.gpu_nodes.count]
        for name in kept[path]:
            claims[name].append(tenant.name)
    listed = {tenant.name for tenant in tenants.values()}
    for path, tenant in counted.items():
        free = [name for name, claimants in claims.items() if not claimants]
        missing = (tenant.gpu_nodes.count or 0) - len(kept[path])
        for name in free[:missing]:
            claims[name].append(tenant.name)
        if missing > len(free):
            others = {owner for name in claims for owner in owners(nodes[name]["labels"])} - listed
            held_by = f" Nodes are held by {', '.join(sorted(others))}.{_way_out(others, absent)}" if others else ""
            problems.add(
                f"{path}.gpu_nodes.count",
                f"{tenant.name} needs {tenant.gpu_nodes.count} nodes with GPUs; {len(kept[path])} are its own, "
                f"{len(free)} of all {len(claims)} are free.{held_by}",
            )


def _fixed(tenant: Tenant, nodes: dict[str, Data], with_gpus: list[str], path: str, problems: Problems) -> list[str]:
    """Return the nodes a tenant asks for by their names or labels."""
    chosen = tenant.gpu_nodes
    have = f"The cluster's nodes with GPUs: {', '.join(with_gpus) or 'none'}."
    if chosen.labels:
        live = [name for name in with_gpus if chosen.labels.items() <= nodes[name]["labels"].items()]
        if not live:
            problems.add(f"{path}.labels", f"no node with GPUs has them all. {have}")
        return live
    for index, name in enumerate(chosen.names):
        if name not in with_gpus:
            what = "has no GPUs" if name in nodes else "is not a node of the cluster"
            problems.add(f"{path}.names[{index}]", f"{name} {what}. {have}")
    return [name for name in chosen.names if name in with_gpus]


def _without_gpus(nodes: dict[str, Data]) -> list[str]:
    """Return the nodes without GPUs; control-plane nodes only where there are no others."""
    names = [name for name, node in nodes.items() if not has_gpus(node)]
    workers = [name for name in names if CONTROL_PLANE_LABEL not in nodes[name]["labels"]]
    return workers or names


# --- changes -----------------------------------------------------------------------------------------------------


def relabel(
    nodes: list[Data], assigned: dict[str, list[str]], tenants: t.Container[str] | None
) -> dict[str, dict[str, str | None]]:
    """Return, by node, the labels that have to change for ``tenants`` to have what is assigned; None removes a label.

    :arg tenants: whose labels may be removed; None for everybody's.
    """
    changes: dict[str, dict[str, str | None]] = {}
    for node in nodes:
        wanted = {NODE_LABEL + tenant: "true" for tenant, theirs in assigned.items() if node["name"] in theirs}
        present = {
            label: value
            for label, value in node["labels"].items()
            if label.startswith(NODE_LABEL) and (tenants is None or label.removeprefix(NODE_LABEL) in tenants)
        }
        if present != wanted:
            changes[node["name"]] = dict.fromkeys(present.keys() - wanted.keys()) | wanted
    return changes


def retaint(
    nodes: list[Data], assigned: dict[str, list[str]], tenants: t.Container[str] | None, dedicated: t.Container[str]
) -> dict[str, list[Data]]:
    """Return, by node, all of its taints, where they have to change to keep others' pods off the nodes of ``dedicated`` tenants.

    :arg tenants: whose taints may be removed; None for everybody's.
    """
    changes: dict[str, list[Data]] = {}
    for node in nodes:
        taints = node["taints"]
        wanted = [
            {"key": DEDICATED_TAINT, "value": tenant, "effect": "NoSchedule"}
            for tenant, theirs in assigned.items()
            if tenant in dedicated and node["name"] in theirs
        ]
        present = [
            taint for taint in taints if taint["key"] == DEDICATED_TAINT and (tenants is None or taint.get("value") in tenants)
        ]
        if [{key: taint.get(key) for key in ("key", "value", "effect")} for taint in present] != wanted:
            changes[node["name"]] = [taint for taint in taints if taint not in present] + wanted
    return changes
