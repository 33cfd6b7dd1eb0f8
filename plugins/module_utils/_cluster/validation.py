# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a cluster lacks for the tenants that are wanted, and what reading it cannot tell. Pure."""

from __future__ import annotations

import json
import typing as t

from .._common.errors import Problem
from .._common.names import GPU_RESOURCE, NODE_POOL_LABEL
from .._common.values import JsonObject, value_at
from .._desired.facts import LOAD_BALANCER
from .._desired.values import vcluster_values
from .._kai.facts import first_with
from .._kai.validation import release
from .._nodes.facts import DRA_DRIVER, GPU_PRESENT_LABEL
from .._nodes.status import tolerates
from .._vcluster.validation import missing_sandbox
from .._vcluster.values import backing_store, has_network_policies
from . import facts

if t.TYPE_CHECKING:
    from .._common.values import Values
    from .._desired.model import GpuNodes, Tenant


_TRY_LOAD_BALANCER = (
    "Whether a Service of type LoadBalancer gets an address cannot be read. Try it: kubectl create service loadbalancer kubegpu-try "
    "--tcp=443, then kubectl get service kubegpu-try, then kubectl delete service kubegpu-try."
)
_SECURITY_CONTEXTS = (
    "OpenShift's SecurityContextConstraints hold for tenants' namespaces: vCluster's control plane runs as root, and pods of tenants "
    "with the users that they name, which restricted-v2 refuses. Bind a constraint that allows it, such as anyuid, to the service "
    "accounts of each namespace tenant-<name>."
)


def problems(cluster: JsonObject, tenants: t.Iterable[Tenant], runtime_class: str, shared: str = "") -> list[Problem]:
    """Return what keeps tenants from running on a cluster, each with the line of the inventory that mends it.

    :arg cluster: as ``report`` returns it; ``runtime_class``, of pods with GPUs, empty for none.
    :arg shared: version of the host cluster's KAI Scheduler that tenants share; empty for none.
    """
    present = [(tenant, vcluster_values(tenant)) for tenant in tenants if tenant.state == "present"]
    with_gpus = [(tenant, values) for tenant, values in present if tenant.gpu_nodes]
    found = [line for _tenant, values in present for line in (_storage(cluster, values), _ingress(cluster, values))]
    if with_gpus:
        found += [_offer(cluster), _class(cluster, runtime_class)]
    found += [missing_sandbox(tenant.runtime_class, tenant.name, cluster["runtime_classes"]) for tenant, _values in present]
    found += [_taints(cluster, tenant, values) for tenant, values in with_gpus]
    found += [_unseen(cluster, tenant, shared) for tenant, _values in with_gpus]
    found += [problem for tenant, _values in present for problem in _named_otherwise(cluster, tenant)]
    # What the cluster lacks is said once, even if several tenants need it.
    return list(dict.fromkeys(filter(None, found)))


def without_rights(lacking: t.Mapping[str, list[str]]) -> list[Problem]:
    """Return the problem that the kubeconfig's user lacks rights; none where it has them all.

    :arg lacking: verbs by resources.
    """
    if not lacking:
        return []
    told = "; ".join(f"{', '.join(verbs)} {resource}" for resource, verbs in lacking.items())
    text = f"its user may not {told}. Bind a ClusterRole to it that allows that, such as cluster-admin."
    return [Problem("lacks-rights", f"kubegpu_kubeconfig: {text}")]


def notes(cluster: JsonObject, tenants: t.Iterable[Tenant], runtime_class: str) -> list[str]:
    """Return what should be known of a cluster, and cannot be decided by reading it."""
    wanted = [vcluster_values(tenant) for tenant in tenants if tenant.state == "present"]
    found = []
    if any(value_at(values, "controlPlane.service.spec.type") == LOAD_BALANCER for values in wanted):
        found.append(_TRY_LOAD_BALANCER)
    if any(map(has_network_policies, wanted)) and not cluster["network"]["enforces_policies"]:
        plugins = ", ".join(cluster["network"]["plugins"]) or "none that is known"
        found.append(f"Network plugins: {plugins}. Whether they enforce network policies is probed before a tenant is made.")
    if cluster["security_context_constraints"]:
        found.append(_SECURITY_CONTEXTS)
    if unready := [node["name"] for node in cluster["gpu_nodes"] if not node["ready"]]:
        # No problem, because it passes: site also runs while a node restarts.
        found.append(f"Nodes with GPUs that are not ready: {', '.join(unready)}. No pod starts there before they are.")
    if unlabelled := [node["name"] for node in cluster["gpu_nodes"] if node["dra"] and GPU_PRESENT_LABEL not in node["labels"]]:
        found.append(
            f"Nodes whose GPUs a driver offers, without the label {GPU_PRESENT_LABEL}: {', '.join(unlabelled)}. While the driver restarts, they "
            f"count as nodes without GPUs. Label them: kubectl label node {' '.join(unlabelled)} {GPU_PRESENT_LABEL}=true"
        )
    handler = cluster["runtime_classes"].get(runtime_class)
    lacking = [
        node["name"] for node in cluster["gpu_nodes"] if node["runtime_handlers"] and handler not in node["runtime_handlers"]
    ]
    if handler and lacking:
        found.append(
            f"The container runtimes of {', '.join(lacking)} name no handler {handler}, which RuntimeClass {runtime_class} asks for."
        )
    found += [*_admission(cluster["tenants_pods"]), *_scheduling(cluster)]
    found += [f"What it would tell of tenants' pods is not known: {text}" for text in cluster["unread"]]
    if not runtime_class:
        found.append("Without a RuntimeClass, KAI Scheduler divides GPUs only where NVIDIA's runtime is the nodes' default one.")
    return found


def _admission(called: list[JsonObject]) -> list[str]:
    """Return what should be known of what changes or judges tenants' pods."""
    changing = [row for row in called if row["changes"]]
    judging = [f"{row['kind']} {row['name']}" for row in called if not row["changes"]]
    found = [
        f"{row['kind']} {row['name']} changes pods in tenants' namespaces. What it sets there, tenants do not see, and vCluster removes the "
        f"scheduling gates (vCluster #4106). {facts.POD_CHANGERS.get(row['name'], 'Where it is not meant for tenants, leave tenant-* out.')}"
        for row in changing
    ]
    if judging:
        found.append(f"Pods in tenants' namespaces may be refused by {', '.join(judging)}.")
    return found


def _scheduling(cluster: JsonObject) -> list[str]:
    """Return what should be known of priorities and node pools."""
    found, default = [], cluster["default_priority"]
    if default:
        ends = " Pods of lower priority on the host cluster are ended where they need room." if default["preempts"] else ""
        found.append(
            f"PriorityClass {default['name']} ({default['value']}) is the global default: unless its values sync priority classes, all pods of a "
            f"tenant get it on the host cluster.{ends}"
        )
    if pools := cluster["node_pools"]:
        told = ", ".join(f"{node} ({pool})" for node, pool in sorted(pools.items()))
        found.append(
            f"Nodes with the label {NODE_POOL_LABEL}: {told}. A KAI Scheduler places pods there only by a SchedulingShard for that pool, "
            "which queues with node_pool of a tenant's own KAI Scheduler get."
        )
    return found


def _offer(cluster: JsonObject) -> Problem | None:
    if any(node["gpus"] for node in cluster["gpu_nodes"]):
        return None
    labelled = ", ".join(node["name"] for node in cluster["gpu_nodes"])
    plugins = ", ".join(cluster["device_plugins"])
    mend = "Install NVIDIA's device plugin or GPU operator, by role kubegpu.tenancy.device_plugin or as your provider says."
    seen = f"The device plugins {plugins} run." if plugins else "No device plugin runs."
    if claimed := cluster["dra_gpu_nodes"]:
        seen += (
            f" {DRA_DRIVER} offers the GPUs of {', '.join(claimed)} to ResourceClaims, of which tenants have none: vCluster's sync of "
            "claims needs a licence."
        )
        mend = (
            f"From Kubernetes 1.36 on, a DeviceClass with extendedResourceName {GPU_RESOURCE} offers them to pods. Without it, install NVIDIA's "
            "device plugin."
        )
    return Problem(
        "no-gpus",
        f"gpu_nodes: no node offers nvidia.com/gpu. Labelled as having GPUs: {labelled or 'none'}. {seen} {mend}",
    )


def _unseen(cluster: JsonObject, tenant: Tenant, shared: str) -> Problem | None:
    """Return why a tenant's scheduler would place no pod on GPUs that only a driver of Dynamic Resource Allocation offers."""
    nodes = [node for node in cluster["gpu_nodes"] if node["gpus"] and _may_get(tenant.gpu_nodes, node)]
    if not nodes or not all(node["dra"] for node in nodes) or tenant.scheduler is None:
        return None
    if tenant.shares_scheduler and (not shared or release(shared).gpus_by_dra):
        return None
    names = ", ".join(node["name"] for node in nodes)
    offer = f"{tenant.name}: the GPUs of {names} are offered by DeviceClass {cluster['dra_gpu_class']} alone, of which "
    why = f"KAI Scheduler {shared} knows nothing." if tenant.shares_scheduler else "no scheduler in a virtual cluster learns."
    return Problem(
        "gpus-by-dra",
        f"{offer}{why} Leave scheduler out, share the host cluster's KAI Scheduler {first_with('gpus_by_dra')} or later, or install "
        "NVIDIA's device plugin.",
    )


def _named_otherwise(cluster: JsonObject, tenant: Tenant) -> list[Problem]:
    """Return the other names by which a tenant's pods would get GPUs past its bound, or past its queues."""
    if tenant.gpu_nodes.shared_gpus is None and not tenant.shares_scheduler:
        return []
    return [
        Problem(
            "gpus-by-other-name",
            f"{tenant.name}: DeviceClass {device_class} offers GPUs as {name}, which no bound of the tenant counts. Remove that name from the "
            f"class, or write quota: {{requests.{name}: 0}} for the tenant.",
        )
        for name, device_class in cluster["dra_other_names"].items()
        if f"requests.{name}" not in tenant.quota
    ]


def _class(cluster: JsonObject, runtime_class: str) -> Problem | None:
    classes = cluster["runtime_classes"]
    if not runtime_class or runtime_class in classes:
        return None
    others = f"There are {', '.join(sorted(classes))}." if classes else "There is none."
    return Problem(
        "no-runtime-class",
        f"kubegpu_runtime_class: there is no RuntimeClass {runtime_class}. {others} Where pods get their GPUs without one, write "
        "kubegpu_runtime_class: ''.",
    )


def _storage(cluster: JsonObject, values: Values) -> Problem | None:
    claim = value_at(values, "controlPlane.statefulSet.persistence.volumeClaim") or {}
    if backing_store(values) != "database embedded" or claim.get("enabled") in (False, "false"):
        return None
    there = ", ".join(cluster["storage_classes"]) or "none"
    if (wanted := claim.get("storageClass")) and wanted not in cluster["storage_classes"]:
        return Problem("no-storage-class", f"kubegpu_storage_class: there is no StorageClass {wanted}. There are: {there}.")
    if not wanted and not cluster["default_storage_class"]:
        why = "no StorageClass is the default, so name one for the control planes' volumes"
        return Problem("no-storage-class", f"kubegpu_storage_class: {why}. There are: {there}.")
    return None


def _ingress(cluster: JsonObject, values: Values) -> Problem | None:
    ingress = value_at(values, "controlPlane.ingress") or {}
    wanted = (ingress.get("spec") or {}).get("ingressClassName")
    if not ingress.get("enabled") or not wanted or wanted in cluster["ingress_classes"]:
        return None
    there = ", ".join(cluster["ingress_classes"]) or "none"
    return Problem(
        "no-ingress-class", f"kubegpu_tenant_api.ingress_class: there is no IngressClass {wanted}. There are: {there}."
    )


def _taints(cluster: JsonObject, tenant: Tenant, values: Values) -> Problem | None:
    """Return why none of a tenant's pods could run on the nodes with GPUs that it may get."""
    tolerations = [_enforced(text) for text in value_at(values, "sync.toHost.pods.enforceTolerations") or []]
    nodes = [node for node in cluster["gpu_nodes"] if _may_get(tenant.gpu_nodes, node)]
    untolerated = [
        [text for text in node["taints"] if not any(tolerates(toleration, _taint(text)) for toleration in tolerations)]
        for node in nodes
    ]
    if not nodes or not all(untolerated):
        return None
    taints = list(dict.fromkeys(taint for node in untolerated for taint in node))
    # Without blanks, where Ansible would break the line.
    tolerations_wanted = json.dumps(list(map(_toleration, taints)), separators=(",", ":"))
    return Problem(
        "nodes-tainted",
        f"kubegpu_tolerations: all nodes with GPUs that {tenant.name} may get are tainted: {', '.join(taints)}. Write "
        f"kubegpu_tolerations: {tolerations_wanted}.",
    )


def _may_get(wanted: GpuNodes, node: JsonObject) -> bool:
    if wanted.names:
        return node["name"] in wanted.names
    return bool(wanted.labels.items() <= node["labels"].items())


def _enforced(text: str) -> JsonObject:
    """Return a toleration from a text as the syncer reads it: key:effect stands for every value, * for every taint."""
    rest, colon, effect = text.removeprefix("*").partition(":")
    key, equals, value = rest.partition("=")
    exists = text == "*" or (colon and not equals)
    return {"key": key, "operator": "Exists" if exists else "Equal", "value": value, "effect": effect}


def _taint(text: str) -> JsonObject:
    rest, _colon, effect = text.rpartition(":")
    key, _equals, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _toleration(text: str) -> JsonObject:
    """Return what tolerates a taint."""
    taint = _taint(text)
    matched = {"operator": "Equal", "value": taint["value"]} if taint["value"] else {"operator": "Exists"}
    return {"key": taint["key"], "effect": taint["effect"]} | matched
