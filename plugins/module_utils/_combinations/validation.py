# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Which combinations of versions are refused, accepted, or not what upstream tests. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import Problem, TenancyError, did_you_mean, refuse
from .._common.versions import number, shown, within
from .._device_plugin.facts import PROVIDERS
from .._device_plugin.validation import limit_problems
from .._vcluster.facts import DEFAULT_KUBERNETES, parse_version
from .._vcluster.validation import check_skew
from . import facts

if t.TYPE_CHECKING:
    from .._desired.model import Tenant
    from .._schedulers.model import Scheduler

ACCEPT = "kubegpu_accept_combinations"


@dataclasses.dataclass(frozen=True)
class Host:
    """What is known of a cluster before it is made, or read; empty for what is not.

    :ivar kubernetes: its version; ``driver`` and ``toolkit``, NVIDIA's.
    :ivar provider: of what offers its GPUs, where this collection installs that; ``plugin``, its chart's version.
    """

    kubernetes: str = ""
    driver: str = ""
    toolkit: str = ""
    provider: str = ""
    plugin: str = ""


@dataclasses.dataclass
class Judgement:
    """What there is to say of the combinations of a cluster, a sentence each."""

    problems: list[Problem] = dataclasses.field(default_factory=list)
    accepted: list[str] = dataclasses.field(default_factory=list)
    untested: list[str] = dataclasses.field(default_factory=list)


def check_names(names: t.Sequence[t.Any]) -> None:
    """Refuse to accept what is no combination; one that does not occur is fine.

    :raises TenancyError: for each name that is not known.
    """
    refuse(
        Problem(
            "unknown-combination",
            f"{ACCEPT}[{index}]: {name!r} is no combination.{did_you_mean(name, facts.NAMES)} Known are {', '.join(facts.NAMES)}.",
        )
        for index, name in enumerate(names)
        if name not in facts.NAMES
    )


def judge(tenants: t.Iterable[Tenant], shared: str, host: Host, accepted: t.Collection[str]) -> Judgement:
    """Compare the versions of a cluster, and of its tenants that are to run, with what upstream says of them.

    :arg shared: release of the host cluster's KAI Scheduler; empty without one.
    :arg accepted: names of combinations.
    """
    found = Judgement()
    if host.provider and host.kubernetes:
        provider = PROVIDERS[host.provider]
        limits = limit_problems(provider, host.plugin, False, host.kubernetes, host.driver)
        found.problems += [problem.within("device_plugin_") for problem in limits]
    plugin = host.plugin if host.provider == facts.DEVICE_PLUGIN else ""
    of_host = {facts.KUBERNETES: host.kubernetes, facts.KAI: shared, facts.DEVICE_PLUGIN: plugin, facts.TOOLKIT: host.toolkit}
    _add(found, "cluster", of_host, accepted)
    for tenant in tenants:
        if tenant.state == "present":
            _judge_tenant(found, tenant, tenant.own_scheduler, host.kubernetes, accepted)
    return found


def _judge_tenant(found: Judgement, tenant: Tenant, scheduler: Scheduler | None, host: str, accepted: t.Collection[str]) -> None:
    vcluster = tenant.vcluster
    default = DEFAULT_KUBERNETES.get(parse_version(vcluster.version)[1])
    versions = {
        facts.VCLUSTER: vcluster.version,
        facts.KUBERNETES: vcluster.kubernetes_version or (f"v1.{default}" if default else ""),
        facts.KAI: scheduler.version if scheduler and scheduler.own_kai else "",
        facts.HOST: host,
    }
    _add(found, tenant.name, versions, accepted)
    try:
        check_skew(vcluster.version, vcluster.kubernetes_version or None, host)
    except TenancyError as exc:
        found.problems += [problem.within(f"{tenant.name}: vcluster.") for problem in exc.problems]


def _add(found: Judgement, where: str, versions: t.Mapping[str, str], accepted: t.Collection[str]) -> None:
    """Add what the table says of the versions in one place; nothing is said of one that is not known."""
    for row in facts.ROWS:
        version, other = versions.get(row.part, ""), versions.get(row.other, "")
        applies = version and other and number(row.since) <= number(version)
        if not applies or (row.before and number(version) >= number(row.before)) or within(other, row.first, row.last):
            continue
        text = (
            f"{facts.PARTS[row.part]} {version} {row.verb} {facts.PARTS[row.other]} {shown(row.first, row.last)}, and here it is "
            f"{other} ({row.source})"
        )
        if row.name in accepted:
            found.accepted.append(f"{where}: {row.name}: {text}")
        elif row.verb == facts.NEEDS:
            found.problems.append(
                Problem(
                    "combination-not-accepted", f"{where}: {text}. Change one of them, or accept it with {ACCEPT}: [{row.name}]."
                )
            )
        else:
            found.untested.append(f"{where}: {row.name}: {text}")
