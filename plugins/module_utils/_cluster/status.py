# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell from a host cluster's objects what it is, and what it has for GPUs."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import DEDICATED_TAINT, NODE_POOL_LABEL, TENANT_LABEL, namespace_of
from .._common.ownership import OWNED_LABELS, annotations_of, is_owned, labels_of
from .._common.pods import is_ready
from .._common.values import JsonObject
from .._kai.status import is_kai_webhook
from .._nodes.dra import offering, other_names, with_devices
from .._nodes.facts import DRA_DRIVER
from .._nodes.status import offered, untolerated
from . import facts

# A tenant that no selector names.
_TENANT = "any"


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was read of a cluster.

    :ivar version: of its API server.
    :ivar cluster_policies: of NVIDIA's GPU operator.
    :ivar webhooks: MutatingWebhookConfigurations and ValidatingWebhookConfigurations; ``policies`` alike, with ``policy_bindings``.
    :ivar resource_slices: devices that drivers offer by Dynamic Resource Allocation; ``device_classes``, by which they are asked for.
    :ivar security_contexts: whether it serves OpenShift's SecurityContextConstraints.
    :ivar unread: why policies or priority classes were not read, where the kubeconfig's user may not list them.
    """

    version: str
    nodes: list[JsonObject]
    runtime_classes: list[JsonObject]
    storage_classes: list[JsonObject]
    ingress_classes: list[JsonObject]
    daemon_sets: list[JsonObject]
    cluster_policies: list[JsonObject]
    webhooks: list[JsonObject]
    security_contexts: bool
    policies: list[JsonObject]
    policy_bindings: list[JsonObject]
    priority_classes: list[JsonObject]
    device_classes: list[JsonObject]
    resource_slices: list[JsonObject]
    unread: list[str]


def report(seen: Seen) -> JsonObject:
    """Return what the cluster is and has, as module cluster_info documents it."""
    default = [name(item) for item in seen.storage_classes if annotations_of(item).get(facts.DEFAULT_CLASS) == "true"]
    device_class = offering(seen.device_classes)
    return {
        "distribution": distribution(seen),
        "kubernetes_version": seen.version,
        "nodes": len(seen.nodes),
        "gpu_nodes": _gpu_nodes(seen, device_class),
        "runtime_classes": {name(item): item["handler"] for item in seen.runtime_classes},
        "device_plugins": sorted(
            f"{item['metadata']['namespace']}/{name(item)}" for item in seen.daemon_sets if _offers_gpus(item)
        ),
        "gpu_operator": bool(seen.cluster_policies),
        "dra_gpu_nodes": sorted(
            {
                item["spec"]["nodeName"]
                for item in seen.resource_slices
                if item["spec"].get("driver") == DRA_DRIVER and item["spec"].get("nodeName")
            }
        ),
        "dra_gpu_class": name(device_class) if device_class else None,
        "dra_other_names": other_names(seen.device_classes, seen.resource_slices),
        "storage_classes": sorted(map(name, seen.storage_classes)),
        "default_storage_class": default[0] if default else None,
        "ingress_classes": sorted(map(name, seen.ingress_classes)),
        "network": _network(seen),
        "security_context_constraints": seen.security_contexts,
        "webhooks": sorted({name(item) for item in seen.webhooks if _judges_pods(item)}),
        "tenants_pods": _called_for_tenants_pods(seen),
        "default_priority": _default_priority(seen.priority_classes),
        "unread": seen.unread,
        "node_pools": {name(node): labels_of(node)[NODE_POOL_LABEL] for node in seen.nodes if NODE_POOL_LABEL in labels_of(node)},
    }


def name(item: JsonObject) -> str:
    """Return an object's name."""
    return str(item["metadata"]["name"])


def distribution(seen: Seen) -> str:
    """Return what kind of cluster it is; unknown where nothing tells."""
    marks = {key for node in seen.nodes for key in [*labels_of(node), *annotations_of(node)]}
    providers = [str(node.get("spec", {}).get("providerID") or "") for node in seen.nodes]
    for row in facts.DISTRIBUTIONS:
        by_version = row.version and row.version in seen.version
        by_provider = row.provider and any(provider.startswith(row.provider) for provider in providers)
        if by_version or row.mark in marks or by_provider:
            return row.name
    return "unknown"


def _gpu_nodes(seen: Seen, device_class: JsonObject | None) -> list[JsonObject]:
    """Return the rows of nodes with GPUs, in name order.

    :arg device_class: by which pods get the GPUs of a driver of Dynamic Resource Allocation.
    """
    by_name = {name(node): node for node in seen.nodes}
    found = sorted(with_devices(seen.nodes, device_class, seen.resource_slices), key=name)
    return [_gpu_node(by_name[name(node)], offered(node)) for node in found if offered(node) or _labelled_by(node)]


def _gpu_node(node: JsonObject, gpus: int) -> JsonObject:
    """Return the row of a node with GPUs.

    :arg gpus: devices that it offers, or a driver of Dynamic Resource Allocation on it.
    """
    status = node.get("status", {})
    return {
        "name": name(node),
        "gpus": gpus,
        "dra": bool(gpus) and not offered(node),
        "ready": is_ready(node),
        "labels": labels_of(node),
        "labelled_by": _labelled_by(node),
        "taints": [text for text in untolerated(node, []) if not text.startswith((*facts.PASSING_TAINTS, f"{DEDICATED_TAINT}="))],
        "container_runtime": status.get("nodeInfo", {}).get("containerRuntimeVersion", ""),
        # The handler without a name is the default of the runtime; which one that is stays unknown.
        "runtime_handlers": sorted(filter(None, (handler.get("name") for handler in status.get("runtimeHandlers") or []))),
    }


def _labelled_by(node: JsonObject) -> list[str]:
    """Return who says that a node has GPUs."""
    labels = labels_of(node)
    return [who for label, who in facts.GPU_LABELS.items() if labels.get(label, "false") not in ("false", "")]


def _offers_gpus(daemon_set: JsonObject) -> bool:
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    return any(part in container.get("image", "") for container in containers for part in facts.DEVICE_PLUGIN_IMAGES)


def _network(seen: Seen) -> JsonObject:
    """Return the network plugins that are known, and whether they enforce network policies; None where that is not known."""
    plugins = sorted({name(item) for item in seen.daemon_sets} & facts.NETWORKS.keys())
    verdicts = {facts.NETWORKS[plugin] for plugin in plugins}
    if distribution(seen) == facts.NETWORK_IN_PROCESS:
        verdicts.add(True)
    enforced = True if True in verdicts else None if None in verdicts or not verdicts else False
    return {"plugins": plugins, "enforces_policies": enforced}


def _judges_pods(configuration: JsonObject) -> bool:
    """Tell whether no pod is created while one of these webhooks does not answer."""
    return any(
        (webhook.get("failurePolicy") or "Fail") == "Fail" and _is_for_pods(webhook.get("rules"))
        for webhook in configuration.get("webhooks") or []
    )


def _is_for_pods(rules: list[JsonObject] | None) -> bool:
    """Tell whether one of the rules is for the creation of a pod (k8s.io/apiserver, pkg/admission/plugin/webhook/predicates/rules)."""
    return any(all(_meets(rule, key, accepted) for key, accepted in facts.POD_RULE.items()) for rule in rules or [])


def _meets(rule: JsonObject, key: str, accepted: t.Collection[str]) -> bool:
    """Tell whether a rule has one of some values under a key; one without the key has them all."""
    given = rule.get(key)
    values = [given] if isinstance(given, str) else given
    return values is None or any(value in accepted for value in values)


def _called_for_tenants_pods(seen: Seen) -> list[JsonObject]:
    """Return the webhooks and admission policies that are asked when a pod is made in a tenant's namespace, but for KAI Scheduler's and ours."""
    found = [item for item in seen.webhooks if not is_kai_webhook(item) and any(map(_meets_tenants, item.get("webhooks") or []))]
    bound = [policy for policy in seen.policies if not is_owned(policy) and _is_bound(policy, seen.policy_bindings)]
    return sorted(
        ({"kind": item["kind"], "name": name(item), "changes": item["kind"].startswith("Mutating")} for item in [*found, *bound]),
        key=lambda row: (not row["changes"], row["kind"], row["name"]),
    )


def _meets_tenants(webhook: JsonObject) -> bool:
    return _is_for_pods(webhook.get("rules")) and _selects_tenants(webhook.get("namespaceSelector"))


def _is_bound(policy: JsonObject, bindings: list[JsonObject]) -> bool:
    """Tell whether an admission policy is in force for pods of tenants; without a binding, none is."""
    matched = policy.get("spec", {}).get("matchConstraints") or {}
    if not _is_for_pods(matched.get("resourceRules")) or not _selects_tenants(matched.get("namespaceSelector")):
        return False
    own = [item for item in bindings if item["kind"] == f"{policy['kind']}Binding"]
    named = [item["spec"] for item in own if item.get("spec", {}).get("policyName") == name(policy)]
    return any(_selects_tenants((spec.get("matchResources") or {}).get("namespaceSelector")) for spec in named)


def _selects_tenants(selector: JsonObject | None) -> bool:
    """Tell whether a selector of namespaces takes that of a tenant, regardless of the tenant's name."""
    labels = OWNED_LABELS | {TENANT_LABEL: _TENANT, "kubernetes.io/metadata.name": namespace_of(_TENANT)}
    given = selector or {}
    return (given.get("matchLabels") or {}).items() <= labels.items() and all(
        _takes(expression, labels.get(expression["key"])) for expression in given.get("matchExpressions") or []
    )


def _takes(expression: JsonObject, value: str | None) -> bool:
    operator: str = expression["operator"]
    values: list[str] = expression.get("values") or []
    if operator in ("Exists", "DoesNotExist"):
        return (value is None) == (operator == "DoesNotExist")
    # What has no such label is not among the values.
    return (value in values) == (operator == "In")


def _default_priority(classes: list[JsonObject]) -> JsonObject | None:
    """Return the PriorityClass that pods without one get; None without such a class. Of several, the lowest counts."""
    found = sorted((item for item in classes if item.get("globalDefault") is True), key=lambda item: item.get("value", 0))
    if not found:
        return None
    preempts = found[0].get("preemptionPolicy") != "Never"
    return {"name": name(found[0]), "value": found[0].get("value", 0), "preempts": preempts}
