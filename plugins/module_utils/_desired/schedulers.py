# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Schedulers as an inventory describes them, a tenant's own one and the host cluster's, with the queues that have to suit them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._common.errors import Problem, TenancyError
from .._common.schema import Problems, named, quoted
from .._common.values import JsonObject, deep_merge
from .._common.variables import KAI, SHARED_SCHEDULER, TENANTS, VOLCANO
from .._kai import validation as kai
from .._kai.facts import MEMORY_ADD_ON
from .._kai.values import memory_limit_values
from .._queues import validation as queues
from .._queues.values import Queue
from .._schedulers.facts import NAME as SCHEDULER_NAME
from .._schedulers.facts import NO_SCHEDULERS, RESERVED, RESERVED_PREFIX, is_reserved
from .._volcano import validation as volcano
from .._volcano.facts import REPOSITORY
from .._volcano.values import chart_values
from . import facts
from .model import Platform, Scheduler, Tenant
from .values import scheduler_values

# What helm takes as arguments: none of it begins with "-", which would be an option.
_CHART_FORMS = (
    ("version", re.compile(r"[0-9A-Za-z][-+.0-9A-Za-z]*"), "no version of a chart such as 1.12.0"),
    ("chart", re.compile(r"[^-\s][^\s]*"), "no chart such as volcano, oci://registry.example/volcano or a path"),
    ("repository", re.compile(r"(https?|oci)://[^\s]+"), "no address of a chart repository such as https://charts.example"),
)


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
    elif scheduler.name == KAI:
        for key in ("chart", "repository"):
            if given.get(key):
                problems.add("not-applicable", f"{here}.{key}", "KAI Scheduler's chart is known; leave it out.")
        return _kai(scheduler, "version" in given, tree, here, path, platform, problems)
    elif scheduler.name == VOLCANO:
        return _volcano(scheduler, tree, here, path, platform, problems)
    elif scheduler.name:
        _check_other(scheduler, tree, here, path, problems)
    return scheduler


def _check_no_pools(tree: dict[str, Queue] | None, path: str, problems: Problems) -> None:
    """Refuse node pools of queues of the host cluster's KAI Scheduler: its policy keeps the label that names them from tenants' pods."""
    for queue in (tree or {}).values():
        if queue.pool and not queue.parent:
            why = "is for a KAI Scheduler of the tenant's own: pods of a shared one cannot name a node pool."
            problems.add("not-applicable", f"{path}.queues.{queue.name}.node_pool", why)


def _volcano(scheduler: Scheduler, tree: t.Any, here: str, path: str, platform: Platform, problems: Problems) -> Scheduler:
    """Check a release of Volcano, and whether its queues can be what is asked for.

    :returns: the scheduler with its chart, and with the values that the platform asks for.
    """
    # As the chart's archive is named; images have a v.
    version = scheduler.version.removeprefix("v")
    if version:
        problems.ask(f"{here}.", lambda: volcano.release(version))
    _check_chart(dataclasses.replace(scheduler, chart=scheduler.chart or VOLCANO), here, problems)
    problems.ask(f"{path}.", lambda: volcano.read_queues(tree, version))
    values = deep_merge(chart_values(volcano.known(version), platform.tolerations), scheduler.values)
    chart, repository = (scheduler.chart, scheduler.repository) if scheduler.chart else (VOLCANO, REPOSITORY)
    return dataclasses.replace(scheduler, version=version, values=values, chart=chart, repository=repository)


def _check_other(scheduler: Scheduler, tree: t.Any, here: str, path: str, problems: Problems) -> None:
    """Check a scheduler that this collection does not know, and installs by its chart."""
    if does := NO_SCHEDULERS.get(scheduler.name):
        where = "Have the team install it in its virtual cluster, and name a scheduler here, or none."
        problems.add("not-a-scheduler", f"{here}.name", f"{scheduler.name} {does}. {where}")
        return
    if scheduler.name.lower() in (KAI, VOLCANO):
        problems.add("not-a-choice", f"{here}.name", f"{quoted(scheduler.name)} is written {scheduler.name.lower()}.")
        return
    _check_name(scheduler.name, here, problems)
    _check_chart(scheduler, here, problems)
    if tree:
        problems.add("not-applicable", f"{path}.queues", f"are KAI Scheduler's; {named(scheduler.name)} does not know them.")


def _check_chart(scheduler: Scheduler, here: str, problems: Problems) -> None:
    """Check what a scheduler is installed by, and refuse what is KAI Scheduler's alone."""
    for key in ("version", "chart"):
        if not getattr(scheduler, key):
            problems.add(
                "missing", f"{here}.{key}", f"is missing: {named(scheduler.name)} is not kai, so its chart has to be given."
            )
    for key, form, example in _CHART_FORMS:
        if getattr(scheduler, key) and not form.fullmatch(getattr(scheduler, key)):
            problems.add("not-a-chart", f"{here}.{key}", f"{quoted(getattr(scheduler, key))} is {example}.")
    for key in ("gpu_sharing", "gpu_memory_enforced"):
        if getattr(scheduler, key):
            problems.add(
                "not-applicable", f"{here}.{key}", f"is KAI Scheduler's; what {named(scheduler.name)} is to do, its values say."
            )
    if scheduler.accept_hazards:
        problems.add(
            "not-applicable", f"{here}.accept_hazards", f"are KAI Scheduler's; none of {named(scheduler.name)} are known."
        )


def _check_name(name: str, here: str, problems: Problems) -> None:
    """Refuse what cannot be the name of a scheduler, of its namespace and of its Helm release."""
    if not SCHEDULER_NAME.fullmatch(name):
        problems.add(
            "not-a-name",
            f"{here}.name",
            f"{quoted(name)} is no name for a Helm release: a-z, 0-9 and '-', a letter first.",
        )
    elif is_reserved(name):
        reserved = f"{', '.join(RESERVED)} and names that begin with {RESERVED_PREFIX}"
        why = f"{name} is a namespace of Kubernetes or KAI Scheduler, and a scheduler has a namespace of its name. Reserved are"
        problems.add("reserved-name", f"{here}.name", f"{why} {reserved}. KAI Scheduler is {KAI}.")


def _kai(
    scheduler: Scheduler, versioned: bool, tree: t.Any, here: str, path: str, platform: Platform, problems: Problems
) -> Scheduler:
    """Check a release of KAI Scheduler, and whether it can schedule these queues.

    :returns: the scheduler with its version as upstream writes it, and with the values that the platform asks for.
    """
    problems.ask(f"{here}.", lambda: kai.check_hazard_names(scheduler.accept_hazards))
    if not versioned:
        problems.add("missing", f"{here}.version", "is missing.")
        return scheduler
    release = problems.ask(f"{here}.", lambda: kai.release(scheduler.version))
    found = problems.ask(f"{path}.", lambda: queues.parse(tree, *((release.queue_levels, release.version) if release else ())))
    if release is None:
        return scheduler
    problems.ask(f"{path}.", lambda: kai.check_node_pools(release, found or {}))
    problems.ask(f"{here}.", lambda: kai.check_runtime_class(release, platform.runtime_class, scheduler.gpu_sharing))
    asked = memory_limit_values(release) if scheduler.gpu_memory_enforced else {}
    values = deep_merge(
        deep_merge(scheduler_values(platform, release, on_host=here == SHARED_SCHEDULER), asked), scheduler.values
    )
    if scheduler.gpu_memory_enforced:
        problems.ask(f"{here}.", lambda: kai.check_memory_limits(release, scheduler.gpu_sharing, values))
    return dataclasses.replace(scheduler, version=release.version, values=values)


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
    found = _kai(scheduler, "version" in entry, tree, SHARED_SCHEDULER, TENANTS, platform, problems)
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
