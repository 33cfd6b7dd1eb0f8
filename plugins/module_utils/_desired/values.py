# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Values for the charts of a tenant as it is desired, and the values that the cluster's platform asks for."""

from __future__ import annotations

import typing as t

from .._common.values import JsonObject, deep_merge, value_at
from .._common.variables import KAI
from .._nodes.status import node_selector
from .._vcluster.values import toleration_text, wanted
from .facts import INGRESS, NODE_PORT

if t.TYPE_CHECKING:
    from .._common.values import Values
    from .model import Platform, Tenant


def vcluster_options(tenant: Tenant, shared: t.Mapping[str, t.Any]) -> JsonObject:
    """Return the options of module vcluster that describe a tenant's virtual cluster.

    :arg shared: the host cluster's KAI Scheduler, as of ``Tenant.divides_gpus``.
    """
    return {
        "name": tenant.name,
        "version": tenant.vcluster.version,
        "kubernetes_version": tenant.vcluster.kubernetes_version or None,
        "values": tenant.vcluster.values,
        "trust": tenant.trust,
        "own_scheduler": tenant.own_scheduler is not None,
        "host_scheduler": KAI if tenant.shares_scheduler else None,
        "host_queues": list(tenant.queues) if tenant.shares_scheduler else [],
        "gpu_sharing": tenant.divides_gpus(shared),
        "gpu_quota": tenant.gpu_nodes.shared_gpus,
        "quota": tenant.quota,
        "network": tenant.network,
        "sandbox": tenant.runtime_class,
        "expires": tenant.expires or None,
        "node_selector": node_selector(tenant.name),
    }


def vcluster_values(tenant: Tenant) -> Values:
    """Return the Helm values of a tenant's virtual cluster."""
    return wanted(vcluster_options(tenant, {})).values


def own_values(platform: Platform, tenant: str, given: Values) -> Values:
    """Return the values of a tenant's virtual cluster: the platform's, and the user's over them.

    Names in its certificate are those of both.
    """
    asked = platform_values(platform, tenant)
    merged = deep_merge(asked, given)
    names, more = (value_at(values, "controlPlane.proxy.extraSANs") for values in (asked, given))
    if not isinstance(names, list) or not isinstance(more, list):
        return merged
    both = [*names, *(name for name in more if name not in names)]
    return deep_merge(merged, {"controlPlane": {"proxy": {"extraSANs": both}}})


def platform_values(platform: Platform, tenant: str) -> Values:
    """Return the values of a tenant's virtual cluster that the platform asks for, which the user's are merged over."""
    stateful: Values = {}
    values: Values = {}
    if platform.tolerations:
        stateful["scheduling"] = {"tolerations": list(platform.tolerations)}
        # The syncer also takes these taints off the nodes that the tenant sees (pkg/controllers/resources/nodes/translate.go).
        values["sync"] = {"toHost": {"pods": {"enforceTolerations": list(map(toleration_text, platform.tolerations))}}}
    if platform.storage_class:
        stateful["persistence"] = {"volumeClaim": {"storageClass": platform.storage_class}}
    plane = _api_values(platform.api, platform.host.replace("{tenant}", tenant), platform.names)
    if stateful:
        plane["statefulSet"] = stateful
    return values | ({"controlPlane": plane} if plane else {})


def _api_values(api: JsonObject, host: str, names: tuple[str, ...]) -> Values:
    """Return the values below controlPlane by which a tenant's API server is reached; none for a NodePort without a gateway.

    :arg names: of the host's gateway.
    """
    kind, annotations = api.get("type", NODE_PORT), api.get("annotations", {})
    # The serving certificate names the Ingress's host (pkg/server/cert/cert.go).
    if kind == INGRESS:
        spec = {"ingressClassName": api["ingress_class"]} if api.get("ingress_class") else {}
        ingress = {"enabled": True, "host": host, "annotations": annotations, "spec": spec}
        return {"service": {"spec": {"type": "ClusterIP"}}, "ingress": ingress}
    values: Values = {} if kind == NODE_PORT else {"service": {"spec": {"type": kind}}}
    if annotations:
        values = deep_merge(values, {"service": {"annotations": annotations}})
    sans = [host] if host else list(names)
    return values | ({"proxy": {"extraSANs": sans}} if sans else {})
