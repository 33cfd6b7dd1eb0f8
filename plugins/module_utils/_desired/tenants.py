# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tenants as an inventory lists them, each with what is wrong with it alone."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import check_all
from .._common.forms import is_object, label_problems
from .._common.schema import Problems, named, plain, quoted
from .._common.values import JsonObject
from .._common.variables import TEMPORARY, TENANTS
from .._schedulers.families import family_of
from .._vcluster import validation as vc
from .._vcluster.facts import LEAST_QUOTA
from .._vcluster.reach import check_reach
from . import facts
from .model import GpuNodes, Platform, Tenant, VCluster
from .names import NAME, check_name, check_names, check_rivals
from .oidc import check_issuer_port, with_issuer
from .oidc import read as read_issuer
from .sandbox import check as check_sandbox
from .sandbox import read as read_sandbox
from .schedulers import check_memory_trust, own_scheduler
from .values import own_values, vcluster_values


def listed(given: list[t.Any], platform: Platform, problems: Problems) -> list[Tenant]:
    """Return the tenants of the inventory. Site would make one again that has expired."""
    tenants = entries(given, platform, problems)
    for tenant in tenants:
        if tenant.expires:
            problems.add(
                "not-applicable",
                f"{tenant.path}.expires",
                f"what is listed stays until its entry goes; expires is for {TEMPORARY}.",
            )
    return [dataclasses.replace(tenant, expires="") for tenant in tenants]


def temporary(given: JsonObject, platform: Platform, problems: Problems) -> list[Tenant]:
    """Return the temporary tenant beside the listed ones, in a list; empty without one."""
    if not given:
        return []
    tenant = _tenant(given, TEMPORARY, platform, problems)
    if not tenant.expires:
        problems.add("missing", f"{TEMPORARY}.expires", "is missing: say after which age it is not needed any more, such as 2h.")
    if tenant.shares_scheduler:
        why = "the next run would take its queues out of the shared scheduler. Give it a scheduler of its own, or none."
        problems.add("temporary-shares-scheduler", f"{TEMPORARY}.scheduler.shared", why)
    return [tenant]


def tenants_from(given: t.Any) -> list[Tenant]:
    """Make tenants of what a module or role was given, by the same rules as those of an inventory.

    :arg given: as an inventory lists them, or as Tenant.data returned them: empty gpu_nodes and scheduler count as not given.
    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    given = plain(given, problems, TENANTS)
    if isinstance(given, list):
        given = [
            {key: value for key, value in tenant.items() if value != {} or key not in ("gpu_nodes", "scheduler")}
            if isinstance(tenant, dict)
            else tenant
            for tenant in given
        ]
    # What the platform asks for is among their values, where Tenant.data returned them.
    found = entries(given, Platform(), problems)
    # An inventory has one at most.
    temporary = [tenant for tenant in found if tenant.expires]
    tenants = [dataclasses.replace(tenant, path=TEMPORARY) if temporary == [tenant] else tenant for tenant in found]
    check_names(tenants, problems)
    check_rivals(tenants, problems)
    problems.raise_if_any("the tenants")
    return tenants


def entries(given: t.Any, platform: Platform, problems: Problems) -> list[Tenant]:
    """Return the tenants of a list, temporary ones among them."""
    if not problems.typed(given, list, TENANTS):
        return []
    return [_tenant(tenant, _place(index, tenant), platform, problems) for index, tenant in enumerate(given)]


def _place(index: int, given: t.Any) -> str:
    """Return where a tenant is listed, with its name where it has one: people do not count entries, least of all those of several files."""
    name = given.get("name") if isinstance(given, dict) else None
    return f"{TENANTS}[{index}] ({name})" if isinstance(name, str) and NAME.fullmatch(name) else f"{TENANTS}[{index}]"


def _tenant(given: t.Any, path: str, platform: Platform, problems: Problems) -> Tenant:
    entry = problems.mapping(given, facts.TENANT, path)
    name = entry.get("name", "")
    if "name" in entry:
        check_name(name, f"{path}.name", problems)
    asks = isinstance(given, dict) and "gpu_nodes" in given
    nodes = _gpu_nodes(entry["gpu_nodes"], f"{path}.gpu_nodes", problems) if "gpu_nodes" in entry else GpuNodes()
    if entry.get("trust") == "zero" and (not asks or nodes.shared_gpus is not None):
        problems.add(
            "zero-trust-needs-own-nodes",
            f"{path}.gpu_nodes",
            "a tenant with zero trust needs GPU nodes of its own: give gpu_nodes, without shared_gpus. For a team without GPUs, partial is the "
            "strictest trust.",
        )
    if nodes.share_gpus_with == "any" and not entry.get("scheduler", {}).get("shared"):
        why = "only the host cluster's KAI Scheduler gives parts of one GPU to several tenants: share it by scheduler.shared."
        problems.add("needs-shared-scheduler", f"{path}.gpu_nodes.share_gpus_with", why)
    vcluster = VCluster(**problems.mapping(entry.get("vcluster", {}), facts.VCLUSTER, f"{path}.vcluster"))
    oidc = read_issuer(entry.get("oidc"), f"{path}.oidc", vcluster.values, problems)
    if entry.get("trust") in ("partial", "zero"):
        check_issuer_port(oidc, vcluster.values, f"{path}.oidc", problems)
    values = with_issuer(own_values(platform, name, vcluster.values), oidc)
    tenant = Tenant(
        name=name,
        # What else is wrong does not depend on a trust that is refused.
        trust=entry.get("trust", "high"),
        state=entry.get("state", "present"),
        gpu_nodes=nodes,
        vcluster=dataclasses.replace(vcluster, values=values),
        oidc=oidc,
        sandbox=_sandbox(entry, path, platform, problems),
        quota=entry.get("quota", {}),
        network=_network(entry.get("network", {}), f"{path}.network", problems),
        scheduler=own_scheduler(entry, path, platform, problems),
        queues=tuple(entry.get("queues", ())),
        expires=entry.get("expires", ""),
        path=path,
    )
    _check_vcluster(tenant, path, problems)
    return tenant


def _sandbox(entry: JsonObject, path: str, platform: Platform, problems: Problems) -> JsonObject:
    if "sandbox" in entry:
        return read_sandbox(entry["sandbox"], f"{path}.sandbox", problems)
    return platform.sandbox if entry.get("trust") == "zero" else {}


def _gpu_nodes(given: JsonObject, path: str, problems: Problems) -> GpuNodes:
    chosen = problems.mapping(given, facts.GPU_NODES, path)
    if len(given.keys() & set(facts.NODE_CHOICES)) != 1:
        choices = ", ".join(facts.NODE_CHOICES)
        problems.add(
            "not-exactly-one", path, f"needs exactly one of {choices}. Without gpu_nodes a tenant gets the nodes without GPUs."
        )
    for key in ("count", "shared_gpus"):
        if chosen.get(key, 1) < 1:
            problems.add("out-of-range", f"{path}.{key}", f"must be at least 1, not {chosen[key]}.")
    if "count" in chosen and "shared_gpus" in chosen:
        problems.add(
            "not-applicable",
            f"{path}.shared_gpus",
            "say by names or labels which nodes are shared; by their count all are the tenant's own.",
        )
    for key in ("names", "labels"):
        if key in chosen and not chosen[key]:
            problems.add("empty", f"{path}.{key}", "is empty.")
    names = _node_names(chosen.get("names", []), f"{path}.names", problems)
    problems.extend(label_problems(chosen.get("labels", {}), f"{path}.labels"))
    labels = {key: value for key, value in chosen.get("labels", {}).items() if isinstance(value, str)}
    if "share_gpus_with" in chosen and "shared_gpus" not in chosen:
        problems.add("not-applicable", f"{path}.share_gpus_with", "is about nodes that are shared: give shared_gpus, too.")
    return GpuNodes(chosen.get("count"), names, labels, chosen.get("shared_gpus"), chosen.get("share_gpus_with"))


def _node_names(given: list[t.Any], path: str, problems: Problems) -> tuple[str, ...]:
    """Return names of nodes, each once, and refuse what is none."""
    names: dict[str, None] = {}
    for index, name in enumerate(given):
        here = f"{path}[{index}]"
        if not problems.typed(name, str, here):
            continue
        if name in names:
            problems.add("listed-twice", here, f"{named(name)} stands here twice.")
        elif not is_object(name):
            problems.add("not-a-name", here, f"{quoted(name)} is no name of a node.")
        names[name] = None
    return tuple(names)


def _network(given: JsonObject, path: str, problems: Problems) -> JsonObject:
    """Services that a tenant's network policies let through, as far as their keys and types are right."""
    network = problems.mapping(given, facts.NETWORK, path)
    for direction, services in network.items():
        checked = [problems.mapping(item, facts.SERVICE, f"{path}.{direction}[{index}]") for index, item in enumerate(services)]
        # What else is wrong with one that lacks something does not matter.
        network[direction] = [{"labels": {}} | item for item in checked if {"name", "namespace", "ports"} <= item.keys()]
    return network


def _check_vcluster(tenant: Tenant, path: str, problems: Problems) -> None:
    check_sandbox(tenant, problems)
    check_memory_trust(tenant, tenant.own_scheduler, problems)
    vcluster, values, own = tenant.vcluster, vcluster_values(tenant), tenant.own_scheduler
    shares_nodes = not tenant.gpu_nodes or tenant.gpu_nodes.shared_gpus is not None
    problems.ask(
        f"{path}.vcluster.",
        lambda: check_all(
            lambda: vc.check_version(vcluster.version, vcluster.kubernetes_version or None),
            lambda: vc.check_moved(vcluster.values, vcluster.version),
            lambda: vc.check_values(values),
            lambda: check_reach(values, tenant.name, tenant.trust, shares_nodes),
        ),
    )
    family = family_of(own.name) if own else None
    needs = [("the control plane", LEAST_QUOTA), *(family.needs(own, tenant.queues) if family and own else [])]
    problems.ask(
        f"{path}.",
        lambda: check_all(
            lambda: vc.check_trust(tenant.trust, vcluster.version),
            lambda: vc.check_quota(tenant.quota),
            lambda: vc.check_expires(tenant.expires),
            lambda: vc.check_network(tenant.network, tenant.trust, vcluster.values),
            lambda: vc.check_room(values, *needs),
            *([lambda: family.check_virtual_cluster(own, values)] if family and own else []),
        ),
    )
