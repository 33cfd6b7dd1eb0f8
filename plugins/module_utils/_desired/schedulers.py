# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Schedulers as an inventory describes them, a tenant's own one and the host cluster's, with the queues that have to suit them."""

from __future__ import annotations

import typing as t

from .._common.errors import Problem, TenancyError
from .._common.schema import Problems, quoted
from .._common.values import JsonObject
from .._common.variables import KAI, SHARED_SCHEDULER, TENANTS
from .._kai.facts import MEMORY_ADD_ON
from .._queues import validation as queues
from .._queues.values import Queue
from .._schedulers.families import FAMILIES, family_of
from .._schedulers.model import Entry, Scheduler
from . import facts
from .model import Platform, Tenant


def own_scheduler(entry: JsonObject, path: str, platform: Platform, problems: Problems) -> Scheduler | None:
    """A tenant's scheduler, with the queues that have to suit its version."""
    tree = entry.get("queues", [])
    if "scheduler" not in entry:
        if tree:
            problems.add(
                "queues-without-scheduler", f"{path}.queues", "need a scheduler: add scheduler with its name, kai, and version."
            )
        return None
    here = f"{path}.scheduler"
    given = problems.mapping(entry["scheduler"], facts.SCHEDULER, here)
    scheduler = Scheduler(**(t.cast(JsonObject, {"name": ""}) | given))
    if scheduler.shared:
        for key in [key for key in given if key not in ("name", "shared") and given[key] not in ("", {}, [], False)]:
            problems.add(
                "not-applicable",
                f"{here}.{key}",
                f"a shared scheduler is the host cluster's; its release stands in {SHARED_SCHEDULER}.",
            )
        problems.allowed(scheduler.name, (KAI,), f"{here}.name")
        _check_no_pools(problems.ask(f"{path}.", lambda: queues.parse(tree)), path, problems)
        return scheduler
    if scheduler.name not in FAMILIES and scheduler.name.lower() in FAMILIES:
        problems.add("not-a-choice", f"{here}.name", f"{quoted(scheduler.name)} is written {scheduler.name.lower()}.")
    elif scheduler.name:
        return family_of(scheduler.name).checked(Entry(scheduler, given, tree, path, here, *platform.of_schedulers), problems)
    return scheduler


def _check_no_pools(tree: dict[str, Queue] | None, path: str, problems: Problems) -> None:
    """Refuse node pools of queues of the host cluster's KAI Scheduler: its policy keeps the label that names them from tenants' pods."""
    for queue in (tree or {}).values():
        if queue.pool and not queue.parent:
            why = "is for a KAI Scheduler of the tenant's own: pods of a shared one cannot name a node pool."
            problems.add("not-applicable", f"{path}.queues.{queue.name}.node_pool", why)


def shared_scheduler(tenants: list[Tenant], given: JsonObject, platform: Platform, problems: Problems) -> Scheduler | None:
    users = [tenant for tenant in tenants if tenant.shares_scheduler and tenant.state != "absent"]
    if not given:
        for tenant in users:
            problems.add(
                "no-shared-scheduler",
                f"{tenant.path}.scheduler.shared",
                f"there is none to share: {SHARED_SCHEDULER} names no scheduler.",
            )
        return None
    entry = problems.mapping(given, facts.RELEASE, SHARED_SCHEDULER)
    scheduler = Scheduler(**(t.cast(JsonObject, {"name": ""}) | entry))
    if "name" not in entry or not problems.allowed(scheduler.name, (KAI,), f"{SHARED_SCHEDULER}.name"):
        return scheduler
    # All tenants' trees stand beside each other in it.
    tree = [queue for tenant in users for queue in tenant.queues]
    place = Entry(scheduler, entry, tree, TENANTS, SHARED_SCHEDULER, *platform.of_schedulers, on_host=True)
    found = family_of(KAI).checked(place, problems)
    for tenant in users:
        check_memory_trust(tenant, found, problems)
        if found.gpu_sharing and tenant.runtime_class and tenant.gpu_nodes:
            why = f"a sandbox gets whole GPUs only, and {SHARED_SCHEDULER}.gpu_sharing gives out parts. Give the tenant a scheduler of its own."
            problems.add("sandbox-shares-gpus", f"{tenant.path}.sandbox", why)
        if found.gpu_sharing:
            problems.extend(_bound_problems(tenant))
        elif tenant.gpu_nodes.share_gpus_with == "any":
            problems.add(
                "not-applicable",
                f"{tenant.path}.gpu_nodes.share_gpus_with",
                f"any is about parts of GPUs, which the shared KAI Scheduler does not give out: set {SHARED_SCHEDULER}.gpu_sharing to true.",
            )
    return found


def check_memory_trust(tenant: Tenant, scheduler: Scheduler | None, problems: Problems) -> None:
    """Refuse limits of memory for tenants that are not trusted: the pods by whom they are kept can write what other pods load.

    :arg scheduler: the one that places its pods.
    """
    if scheduler and scheduler.gpu_memory_enforced and tenant.trust != "high" and tenant.gpu_nodes and tenant.gpu_nodes.divisible:
        problems.add(
            "add-on-opens-nodes",
            f"{tenant.path}.trust",
            f"gpu_memory_enforced needs high: {MEMORY_ADD_ON} lets each pod with a fraction write the library that later pods of its node load.",
        )


def _bound_problems(tenant: Tenant) -> list[Problem]:
    """Say why nothing bounds the parts of GPUs that a tenant holds on nodes it shares: a quota of Kubernetes counts whole ones only."""
    bound = tenant.gpu_nodes.shared_gpus
    try:
        tree = queues.parse(list(tenant.queues))
    except TenancyError:
        return []
    limits = {queue.name: queue.spec["resources"]["gpu"]["limit"] for queue in tree.values() if queue.parent not in tree}
    if (
        bound is None
        or not tenant.gpu_nodes.divisible
        or (all(limit >= 0 for limit in limits.values()) and sum(limits.values()) <= bound)
    ):
        return []
    said = ", ".join(f"{name} {'none' if limit < 0 else limit}" for name, limit in limits.items())
    wanted = f"Give the tenant's top queues GPU limits of {bound} together at most, as shared_gpus says. Theirs are: {said}."
    return [
        Problem(
            "gpu-parts-not-bounded", f"{tenant.path}.queues: parts of GPUs are bounded by the limits of queues alone. {wanted}"
        )
    ]
