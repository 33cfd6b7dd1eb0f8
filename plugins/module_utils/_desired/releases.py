# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Releases that are refused: KAI Scheduler's by their hazards, and versions that do not go together."""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from .._combinations.validation import Host, judge
from .._common.errors import TenancyError
from .._common.schema import Problems
from .._common.values import JsonObject, deep_merge
from .._common.variables import SHARED_SCHEDULER
from .._device_plugin.facts import PROVIDERS
from .._kai import validation as kai
from .._kai.facts import Asked, Hazard
from .._kai.values import chart_values, shares_gpus
from .._schedulers.model import Scheduler
from . import facts
from .model import Cluster, Tenant
from .settings import Settings


def judged(cluster: Cluster, settings: Settings, today: datetime.date, running: JsonObject | None, problems: Problems) -> Cluster:
    """Return a cluster with what is said of its releases, and refuse releases that may not be installed.

    :arg running: what tenancy_info found on the cluster; None where nothing is known.
    """
    accepted, unsupported = _hazards(cluster, today, running, problems)
    combinations = _combinations(cluster, settings, problems)
    return dataclasses.replace(cluster, accepted_hazards=accepted, unsupported=unsupported, combinations=combinations)


def _hazards(
    cluster: Cluster, today: datetime.date, running: JsonObject | None, problems: Problems
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Refuse releases with hazards that touch what is asked of them and were not accepted, where they would be installed.

    :returns: by tenant, the hazards that were accepted, and the end of support where it was neither accepted nor refused.
    """
    accepted: dict[str, list[str]] = {}
    unsupported: dict[str, list[str]] = {}
    chosen, live = set(cluster.only), _running(running)
    wanted = [
        (f"{tenant.path}.scheduler", tenant.name, tenant.scheduler, _is_open(tenant))
        for tenant in cluster.tenants
        if tenant.state == "present"
    ]
    for path, name, scheduler, is_open in [*wanted, (SHARED_SCHEDULER, SHARED_SCHEDULER, cluster.shared_scheduler, False)]:
        if scheduler is None or not scheduler.own_kai:
            continue
        left_alone = bool(chosen) and name not in chosen
        installed = left_alone or live is None or live.get(name, "none") in (None, "unknown", scheduler.version)
        for hazard in _touching(scheduler, path, is_open, today, installed, problems):
            kind = accepted if hazard.name in scheduler.accept_hazards else unsupported
            kind.setdefault(name, []).append(str(hazard))
    return accepted, unsupported


def _is_open(tenant: Tenant) -> bool:
    """Tell whether a tenant is not trusted and has GPUs of nodes on which others have some, too."""
    return tenant.trust != "high" and tenant.gpu_nodes.shared_gpus is not None


def _touching(
    scheduler: Scheduler, path: str, is_open: bool, today: datetime.date, installed: bool, problems: Problems
) -> tuple[Hazard, ...]:
    try:
        release = kai.release(scheduler.version)
    except TenancyError:
        return ()  # A problem already.
    values = deep_merge(chart_values(release, scheduler.gpu_sharing), scheduler.values)
    sharing = shares_gpus(values, release)
    asked = Asked(sharing, others=path == SHARED_SCHEDULER, shares_nodes=sharing and is_open)
    accepted = scheduler.accept_hazards
    return problems.ask(f"{path}.", lambda: kai.refuse_hazards(release, asked, accepted, today, installed)) or ()


def _running(running: JsonObject | None) -> dict[str, str | None] | None:
    """Return which releases run on the cluster, for tenants by name and as the shared one; None where nothing is known."""
    if running is None:
        return None
    found = {tenant["name"]: tenant["scheduler_version"] for tenant in running.get("tenants", []) if tenant["state"] != "absent"}
    return found | {SHARED_SCHEDULER: running.get("shared_scheduler") or "none"}


def _combinations(cluster: Cluster, settings: Settings, problems: Problems) -> JsonObject:
    """Refuse versions that do not go together, as far as they are known before a cluster is asked."""
    # Versions that are none have no place in the table.
    if problems:
        return cluster.combinations
    versions = {key: str(settings.variables.get(key) or "") for key in facts.VERSIONS}
    host, shared = _host(versions) if settings.made else Host(), cluster.shared_scheduler
    found = judge(cluster.tenants, shared.version if shared else "", host, cluster.accept_combinations)
    problems.extend(found.problems)
    return {"accepted": found.accepted, "untested": found.untested}


def _host(versions: t.Mapping[str, str]) -> Host:
    """Return what is known of a cluster that is made, by the variables of the roles that make it."""
    provider = PROVIDERS.get(versions["device_plugin_provider"] or "device_plugin")
    tag = re.search(r":(v\d+\.\d+\.\d+)[^/:@]*(@[^/]*)?$", versions["nvkind_image"])
    return Host(
        kubernetes=tag[1] if tag else "",
        driver=versions["device_plugin_driver_version"] or versions["lab_driver_version"],
        toolkit=versions["docker_nvidia_runtime_toolkit_version"],
        provider=provider.name if provider else "",
        plugin=versions["device_plugin_version"] or (provider.version if provider else ""),
    )
