# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell from a host cluster's objects what it is, and what it has for GPUs."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import annotations_of, labels_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import is_ready
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import DEDICATED_TAINT
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import offered
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.status import untolerated

Object = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was read of a cluster.

    :ivar version: of its API server.
    :ivar cluster_policies: of NVIDIA's GPU operator.
    :ivar webhooks: MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
    :ivar security_contexts: whether it serves OpenShift's SecurityContextConstraints.
    """

    version: str
    nodes: list[Object]
    runtime_classes: list[Object]
    storage_classes: list[Object]
    ingress_classes: list[Object]
    daemon_sets: list[Object]
    cluster_policies: list[Object]
    webhooks: list[Object]
    security_contexts: bool


def report(seen: Seen) -> Object:
    """Return what the cluster is and has, as module cluster_info documents it."""
    default = [name(item) for item in seen.storage_classes if annotations_of(item).get(facts.DEFAULT_CLASS) == "true"]
    return {
        "distribution": distribution(seen),
        "kubernetes_version": seen.version,
        "nodes": len(seen.nodes),
        "gpu_nodes": [_gpu_node(node) for node in sorted(seen.nodes, key=name) if offered(node) or _labelled_by(node)],
        "runtime_classes": {name(item): item["handler"] for item in seen.runtime_classes},
        "device_plugins": sorted(
            f"{item['metadata']['namespace']}/{name(item)}" for item in seen.daemon_sets if _offers_gpus(item)
        ),
        "gpu_operator": bool(seen.cluster_policies),
        "storage_classes": sorted(map(name, seen.storage_classes)),
        "default_storage_class": default[0] if default else None,
        "ingress_classes": sorted(map(name, seen.ingress_classes)),
        "network": _network(seen),
        "security_context_constraints": seen.security_contexts,
        "webhooks": sorted({name(item) for item in seen.webhooks if _judges_pods(item)}),
    }


def name(item: Object) -> str:
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


def _gpu_node(node: Object) -> Object:
    status = node.get("status", {})
    return {
        "name": name(node),
        "gpus": offered(node),
        "ready": is_ready(node),
        "labels": labels_of(node),
        "labelled_by": _labelled_by(node),
        "taints": [text for text in untolerated(node, []) if not text.startswith((*facts.PASSING_TAINTS, f"{DEDICATED_TAINT}="))],
        "container_runtime": status.get("nodeInfo", {}).get("containerRuntimeVersion", ""),
        # The one without a name is the default, whatever that does.
        "runtime_handlers": sorted(filter(None, (handler.get("name") for handler in status.get("runtimeHandlers") or []))),
    }


def _labelled_by(node: Object) -> list[str]:
    """Return who says that a node has GPUs."""
    labels = labels_of(node)
    return [who for label, who in facts.GPU_LABELS.items() if labels.get(label, "false") not in ("false", "")]


def _offers_gpus(daemon_set: Object) -> bool:
    containers = daemon_set["spec"]["template"]["spec"]["containers"]
    return any(part in container.get("image", "") for container in containers for part in facts.DEVICE_PLUGIN_IMAGES)


def _network(seen: Seen) -> Object:
    """Return the network plugins that are known, and whether they enforce network policies; None where that is not known."""
    plugins = sorted({name(item) for item in seen.daemon_sets} & facts.NETWORKS.keys())
    verdicts = {facts.NETWORKS[plugin] for plugin in plugins}
    if distribution(seen) == facts.NETWORK_IN_PROCESS:
        verdicts.add(True)
    enforced = True if True in verdicts else None if None in verdicts or not verdicts else False
    return {"plugins": plugins, "enforces_policies": enforced}


def _judges_pods(configuration: Object) -> bool:
    """Tell whether no pod is created while one of these webhooks does not answer."""
    return any(
        (webhook.get("failurePolicy") or "Fail") == "Fail"
        and any({"pods", "*", "*/*"} & set(rule.get("resources") or []) for rule in webhook.get("rules") or [])
        for webhook in configuration.get("webhooks") or []
    )
