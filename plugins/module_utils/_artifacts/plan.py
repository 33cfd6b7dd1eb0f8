# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What the playbooks install for the desired state of a cluster: Helm releases, pods of their own, and programs. Pure functions."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import KAI_NAMESPACE, namespace_of
from .._common.schema import Problems
from .._common.values import Values, deep_merge
from .._desired.tenants import tenants_from
from .._desired.values import vcluster_values
from .._device_plugin.facts import PROVIDERS
from .._device_plugin.values import chart_values as plugin_values
from .._device_plugin.values import uses_dra
from .._kai import facts as kai
from .._kai.validation import release
from .._kai.values import chart_values as kai_values
from .._kai.values import migrates_topologies
from .._metrics.validation import reader
from .._nodes.facts import DEVICE_CLASS
from .._probe.plan import IMAGE
from .._rehearsal.plan import IMAGE as SIMULATOR
from .._schedulers.families import family_of
from .._vcluster import facts as vcluster
from .facts import PROGRAMS, Program

if t.TYPE_CHECKING:
    from .._desired.model import Tenant
    from .._schedulers.model import Scheduler

Data = t.Mapping[str, t.Any]
# Who needs something that is no tenant's.
CLUSTER, REHEARSAL = "cluster", "rehearsal"
MADE = "nvkind"


@dataclasses.dataclass(frozen=True)
class Installation:
    """A Helm release that the playbooks install.

    :ivar user: who needs it: a tenant's name, CLUSTER or REHEARSAL.
    :ivar chart: its name.
    :ivar reference: where upstream has it: an ``oci://`` reference, or a name or path that goes with ``repository``.
    :ivar source: where the inventory has it from, as the option chart_source of modules; empty for upstream.
    :ivar hooks: whether the chart's hooks run.
    :ivar api_versions: kinds of the cluster that the chart asks for.
    """

    user: str
    release: str
    namespace: str
    chart: str
    version: str
    reference: str
    repository: str
    values: Values
    source: str = ""
    hooks: bool = True
    api_versions: tuple[str, ...] = ()


def installations(cluster: Data, settings: Data) -> list[Installation]:
    """Return the Helm releases that the site playbook and rehearsals install.

    :arg cluster: the desired state, as Cluster.data returns it; empty for none.
    :arg settings: variables of roles that are set, by name.
    """
    source = cluster.get("charts", "")
    found = [_device_plugin(settings, source)] if cluster.get("provider") == MADE else []
    if shared := cluster.get("shared_scheduler"):
        # Which namespaces it looks at changes no image.
        found.append(_kai(CLUSTER, shared["version"], shared["gpu_sharing"], shared["values"], source))
    for tenant in _tenants(cluster):
        found += of_tenant(tenant, source)
    for name in ("rehearsal_baseline", "rehearsal_candidate"):
        if scheduler := settings.get(name):
            values, source = scheduler.get("values") or {}, settings.get("rehearsal_chart_source", "")
            found.append(_kai(REHEARSAL, scheduler["version"], scheduler.get("gpu_sharing", True), values, source))
    return found


def of_tenant(tenant: Tenant, source: str) -> list[Installation]:
    """Return the Helm releases of a tenant: its virtual cluster, then the scheduler inside it, if it has one of its own.

    :arg source: where the inventory has charts from, as the option chart_source of modules.
    """
    found, own = [_vcluster(tenant, source)], tenant.own_scheduler
    if own and own.own_kai:
        found.append(_kai(tenant.name, own.version, own.gpu_sharing, own.values, source))
    elif own:
        found.append(_other_scheduler(tenant.name, own, source))
    return found


def own_images(cluster: Data, settings: Data) -> list[tuple[str, str]]:
    """Return images that no chart names, each with who needs it: of nodes, of probes, and of what simulates nodes."""
    found = []
    if cluster.get("provider") == MADE and settings.get("nvkind_image"):
        found.append((settings["nvkind_image"], CLUSTER))
    if cluster.get("shared_scheduler"):
        found.append((settings.get("kai_scheduler_probe_image") or IMAGE, CLUSTER))
    found += [(settings.get("vcluster_tenant_probe_image") or IMAGE, tenant.name) for tenant in _tenants(cluster)]
    if settings.get("rehearsal_candidate"):
        found.append((settings.get("rehearsal_image") or SIMULATOR, REHEARSAL))
    return found


def unknown(cluster: Data, settings: Data) -> list[str]:
    """Return what is needed and cannot be listed, a sentence each, with what makes it known."""
    problems = []
    if cluster.get("provider") == MADE and not settings.get("nvkind_image"):
        problems.append("The node image is not listed, because it is kind's own default: set nvkind_image.")
    newest = max(vcluster.DEFAULT_KUBERNETES)
    for tenant in _tenants(cluster):
        coredns = ((tenant.vcluster.values.get("controlPlane") or {}).get("coredns") or {}).get("deployment") or {}
        if vcluster.parse_version(tenant.vcluster.version)[1] > newest and not coredns.get("image"):
            problems.append(
                f"{tenant.name}: which CoreDNS vCluster {tenant.vcluster.version} starts is not known, and that of 0.{newest} is listed: "
                "set controlPlane.coredns.deployment.image in its values."
            )
    return problems


def programs(cluster: Data, settings: Data) -> list[Program]:
    """Return the programs that the host of a cluster has to have already."""
    engine = settings.get("nvkind_engine", "kind") if cluster.get("provider") == MADE else ""
    return [program for program in PROGRAMS if not program.engines or engine in program.engines]


def _tenants(cluster: Data) -> list[Tenant]:
    """Return the tenants that are to exist; a paused one may go on at any time."""
    return [tenant for tenant in tenants_from(cluster.get("tenants", [])) if tenant.state != "absent"]


def _device_plugin(settings: Data, source: str) -> Installation:
    provider = PROVIDERS[settings.get("device_plugin_provider", "device_plugin")]
    own = settings.get("device_plugin_values") or {}
    discovery = settings.get("device_plugin_gpu_feature_discovery", False)
    problems = Problems()
    metrics = reader(settings.get("device_plugin_metrics") or {}, "device_plugin_metrics", problems)
    problems.raise_if_any("variables of roles")
    # How GPUs are shared changes no image: the configurations are read by the same one.
    values = plugin_values(provider, (), settings.get("device_plugin_mig_strategy", "none"), discovery, metrics)
    return Installation(
        CLUSTER,
        provider.release,
        settings.get("device_plugin_namespace") or provider.release,
        provider.chart,
        settings.get("device_plugin_version") or provider.version,
        provider.chart,
        provider.repository,
        deep_merge(values, own),
        source,
        api_versions=("/".join(DEVICE_CLASS),) if uses_dra(own) else (),
    )


def _kai(user: str, version: str, gpu_sharing: bool, own: Values, source: str) -> Installation:
    found = release(version)
    values = deep_merge(kai_values(found, gpu_sharing), own)
    hooks = not found.operator or migrates_topologies(values, found)
    chart = (kai.CHART, found.chart_version, found.chart, "")
    return Installation(user, kai.RELEASE_NAME, KAI_NAMESPACE, *chart, values, source, hooks)


def _vcluster(tenant: Tenant, source: str) -> Installation:
    chart = (vcluster.CHART, tenant.vcluster.version, vcluster.CHART, vcluster.REPOSITORY)
    namespace = namespace_of(tenant.name)
    return Installation(tenant.name, tenant.name, namespace, *chart, vcluster_values(tenant), source)


def _other_scheduler(user: str, own: Scheduler, source: str) -> Installation:
    chart = (own.chart.rstrip("/").rpartition("/")[2], own.version, own.chart, own.repository)
    return Installation(user, own.name, own.name, *chart, own.values, source if family_of(own.name).brings(own) else "")
