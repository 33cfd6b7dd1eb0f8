# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check what an inventory says of a cluster, and make the desired state of it.

Everything that is wrong is reported at once, each problem with the path of its variable and what would be right. Types are
checked strictly: nothing is converted.
"""

from __future__ import annotations

import datetime
import typing as t

from .._blueprint.values import Blueprint, applied
from .._common.errors import Problem
from .._common.schema import Problems, plain
from .._common.values import JsonObject
from .._common.variables import SHARED_SCHEDULER, TEMPORARY, TENANTS, WORKERS
from .layout import check_layout, layout
from .model import Cluster, Tenant
from .names import check_names, check_rivals
from .platform import platform_of
from .releases import judged
from .schedulers import shared_scheduler
from .settings import Settings, as_given, check_settings, lab_gpus, only, places, settings_of
from .tenants import listed, temporary


def desired_state(
    variables: JsonObject,
    host: str,
    today: datetime.date,
    running: JsonObject | None = None,
    installs: bool = True,
    blueprint: Blueprint | None = None,
    found: t.Iterable[Problem] = (),
) -> Cluster:
    """Make the desired state of one cluster.

    :arg variables: of its inventory host. Read are the variables that start with kubegpu_ and, where they are set, nvkind_workers,
        nvkind_cluster_name, lab_gpus and VERSIONS; others are ignored.
    :arg host: name of the inventory host.
    :arg today: decides which releases are still supported.
    :arg running: what tenancy_info found on the cluster, empty where there is none yet. With it, releases without support are
        refused that do not run already; without it, what runs is not known, and they are not.
    :arg installs: whether anything is going to be installed; a removal is refused for no hazard and no combination of versions.
    :arg blueprint: what the inventory's kubegpu_blueprint names.
    :arg found: problems that the caller found, which are told with the others.
    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    problems.extend(found)
    variables, named_by = _with_blueprint(plain(variables, problems), blueprint)
    settings = settings_of(variables, host, problems)
    cluster = _cluster(settings, named_by, problems)
    if installs:
        cluster = judged(cluster, settings, today, running, problems)
    problems.raise_if_any("the desired state")
    return cluster


def _with_blueprint(variables: JsonObject, blueprint: Blueprint | None) -> tuple[JsonObject, JsonObject]:
    """Return the variables with what the blueprint adds, and what there is to say of that; empty without one."""
    if blueprint is None:
        return variables, {}
    whole, overridden = applied(blueprint, variables)
    return whole, {"name": blueprint.name, "digest": blueprint.digest, "overridden": overridden}


def _cluster(settings: Settings, named_by: JsonObject, problems: Problems) -> Cluster:
    """Return a cluster before its releases are judged."""
    given = settings.given
    kubeconfigs = places(settings, problems)
    platform = platform_of(given, problems)
    tenants = [*listed(given[TENANTS], platform, problems), *temporary(given[TEMPORARY], platform, problems)]
    check_names(tenants, problems)
    check_rivals(tenants, problems)
    scheduler = shared_scheduler(tenants, given[SHARED_SCHEDULER], platform, problems)
    workers = _workers(settings, tenants, problems)
    chosen = [tenant.name for tenant in tenants if tenant.expires] or only(given["kubegpu_only"], problems)
    check_settings(settings, problems)
    return Cluster(
        blueprint=named_by,
        **as_given(settings),
        **kubeconfigs,
        platform=platform,
        workers=workers,
        tenants=tuple(tenants),
        only=tuple(chosen),
        shared_scheduler=scheduler,
    )


def _workers(settings: Settings, tenants: list[Tenant], problems: Problems) -> tuple[int, ...] | None:
    """Return the number of GPU devices of each worker of a cluster that is made, and refuse tenants that need more; None where it exists."""
    workers = layout(settings.variables.get(WORKERS) or [], problems) if settings.made else None
    gpus = lab_gpus(settings.variables.get("lab_gpus"), problems)
    if workers is None:
        return None
    check_layout(tenants, workers, gpus, problems)
    return tuple(workers)
