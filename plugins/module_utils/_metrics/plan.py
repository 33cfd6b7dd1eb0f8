# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The objects by which a Prometheus reads metrics, and no other client, its rules, and what differs from them. Pure."""

from __future__ import annotations

import json
import typing as t

from .._common.names import FLUX, KAI_NAMESPACE, TENANT_LABEL
from .._common.ownership import OWNED_LABELS, annotations_of, labels_of
from .._common.synced import SYNCED_FROM_LABEL
from .._common.values import JsonObject, merge_patch
from .facts import (
    ANNOTATIONS,
    CONFIG_MAP,
    DASHBOARD_FILE,
    DASHBOARD_LABEL,
    DASHBOARD_NAME,
    DCGM,
    DCGM_LABELS,
    DCGM_PORT,
    KAI,
    KAI_PORT,
    LABEL,
    LAST_PORT,
    NAME,
    NETWORK_POLICY,
    NOTES,
    PATH,
    PORT_NAME,
    PROMETHEUS_RULE,
    RULES,
    RULES_NAME,
    SAMPLE_LIMIT,
    SERVICE,
    SERVICE_MONITOR,
    SHARED,
    SHARED_PORT_NAMES,
)

# The pods of a tenant's own KAI Scheduler, as the syncer labels them on the host cluster.
_KAI_PODS = {SYNCED_FROM_LABEL: KAI_NAMESPACE}


def kai_objects(tenant: str, namespace: str, metrics: t.Mapping[str, t.Any]) -> list[JsonObject]:
    """Return what makes the metrics of a tenant's own KAI Scheduler readable for a Prometheus of the host cluster.

    :arg namespace: the tenant's on the host cluster.
    :arg metrics: ``provider``, ``namespace`` of the Prometheus, and ``labels`` by which it chooses ServiceMonitors.
    :returns: in the order in which they are made.
    """
    announced = metrics["provider"] == ANNOTATIONS
    service = _object(SERVICE, KAI, namespace) | {
        # Headless: a Prometheus asks each pod, and no client asks an address of the Service.
        "spec": {
            "clusterIP": "None",
            "selector": _KAI_PODS,
            "ports": [{"name": PORT_NAME, "port": KAI_PORT, "targetPort": KAI_PORT, "protocol": "TCP"}],
        }
    }
    service["metadata"] |= {"annotations": NOTES} if announced else {}
    # The Prometheus copies it to every series.
    service["metadata"]["labels"] |= {TENANT_LABEL: tenant}
    # The tenant's API server calls the webhooks of KAI Scheduler, and its programs each other; all of that is in its namespace.
    policy = _policy(KAI, namespace, _KAI_PODS, KAI_PORT, metrics["namespace"], [{"from": [{"podSelector": {}}]}])
    if announced:
        return [policy, service]
    monitor = _monitor(KAI, namespace, {"matchLabels": {LABEL: KAI}}, (PORT_NAME,), metrics["labels"])
    monitor["spec"]["targetLabels"] = [TENANT_LABEL]
    return [policy, service, monitor]


def shared_objects(metrics: t.Mapping[str, t.Any]) -> list[JsonObject]:
    """Return what keeps the metrics of the host cluster's own KAI Scheduler, which tenants share, from everybody but a Prometheus.

    :arg metrics: as ``kai_objects`` takes them.
    :returns: with ``service_monitor`` also a ServiceMonitor for its Services, of which upstream annotates only the scheduler's.
    """
    # The API server calls webhooks at ports that differ by release.
    ranges = ((1, KAI_PORT - 1), (KAI_PORT + 1, LAST_PORT))
    other_ports = [{"port": first, "endPort": last, "protocol": "TCP"} for first, last in ranges]
    further: list[JsonObject] = [{"ports": other_ports}, {"from": [{"podSelector": {}}]}]
    policy = _policy(SHARED, KAI_NAMESPACE, {}, KAI_PORT, metrics["namespace"], further)
    if metrics["provider"] == ANNOTATIONS:
        return [policy]
    # Upstream's own, docs/metrics/service-monitors.yaml, does not find the scheduler from v0.10 on, whose Service has another label.
    monitor = _monitor(SHARED, KAI_NAMESPACE, {}, SHARED_PORT_NAMES, metrics["labels"])
    return [policy, monitor]


def dcgm_objects(namespace: str, metrics: t.Mapping[str, t.Any]) -> list[JsonObject]:
    """Return what keeps the metrics of DCGM exporter from everybody but a Prometheus; the GPU operator makes the rest."""
    return [_policy(DCGM, namespace, DCGM_LABELS, DCGM_PORT, metrics["namespace"], [])] if metrics else []


def rule_objects(metrics: t.Mapping[str, t.Any], groups: t.Sequence[JsonObject], dashboard: JsonObject) -> list[JsonObject]:
    """Return what gives the Prometheus operator rules, and Grafana a dashboard.

    :arg groups: of rules, as a file of rules has them.
    :arg dashboard: in Grafana's own form.
    :returns: in the order in which they are made.
    """
    namespace, text = metrics["namespace"], json.dumps(dashboard, indent=2)
    shown_by_grafana = _object(CONFIG_MAP, RULES, namespace, DASHBOARD_NAME) | {"data": {DASHBOARD_FILE: f"{text}\n"}}
    shown_by_grafana["metadata"]["labels"] |= DASHBOARD_LABEL
    rules = _object(PROMETHEUS_RULE, RULES, namespace, RULES_NAME) | {"spec": {"groups": list(groups)}}
    rules["metadata"]["labels"] = dict(metrics["labels"]) | rules["metadata"]["labels"]
    return [shown_by_grafana, rules]


def _object(kind: tuple[str, str], subject: str, namespace: str, name: str = NAME) -> JsonObject:
    metadata = {"name": name, "namespace": namespace, "labels": OWNED_LABELS | {LABEL: subject}}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata}


def _policy(
    subject: str, namespace: str, pods: dict[str, str], port: int, reader: str, further: t.Sequence[JsonObject]
) -> JsonObject:
    """Return the policy by which pods are reached at one port from one namespace, and otherwise by ``further`` rules only.

    :arg pods: their labels; without any, all pods of the namespace.
    """
    readers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": reader}}}
    rule = {"from": [readers], "ports": [{"port": port, "protocol": "TCP"}]}
    spec = {"podSelector": {"matchLabels": pods} if pods else {}, "policyTypes": ["Ingress"], "ingress": [*further, rule]}
    return _object(NETWORK_POLICY, subject, namespace) | {"spec": spec}


def _monitor(
    subject: str, namespace: str, selector: JsonObject, ports: t.Iterable[str], labels: t.Mapping[str, str]
) -> JsonObject:
    """Return the object by which the Prometheus operator finds Services of a namespace.

    :arg selector: of Services; empty for all of them.
    :arg ports: by their names.
    """
    monitor = _object(SERVICE_MONITOR, subject, namespace)
    monitor["metadata"]["labels"] = dict(labels) | monitor["metadata"]["labels"]
    return monitor | {
        "spec": {
            "selector": selector,
            # Pods may be a tenant's: none of them may send the Prometheus elsewhere, or drown it.
            "endpoints": [{"port": port, "path": PATH, "followRedirects": False} for port in ports],
            "sampleLimit": SAMPLE_LIMIT,
            "podTargetLabels": ["app"],
        }
    }


# --- what differs ------------------------------------------------------------------------------------------------


def shown(item: JsonObject, wanted: JsonObject) -> JsonObject:
    """Return what counts of an object.

    :arg wanted: as it is to be. Of a policy the whole spec counts, of a ConfigMap all data; of others what the API server does not fill in by
        itself.
    """
    part, kind = _part(wanted), (wanted["apiVersion"], wanted["kind"])
    content = item.get(part) or {}
    if kind not in (NETWORK_POLICY, CONFIG_MAP):
        content = {key: content[key] for key in wanted[part] if key in content}
    # Flux labels what it applies.
    labels = {key: value for key, value in labels_of(item).items() if not key.startswith(FLUX)}
    return {
        "labels": labels,
        "annotations": {key: value for key, value in annotations_of(item).items() if key in NOTES},
        part: content,
    }


def patch(live: JsonObject, wanted: JsonObject) -> JsonObject:
    """Return the merge patch that makes an object what it is to be."""
    body = merge_patch(shown(live, wanted), shown(wanted, wanted))
    part = _part(wanted)
    return {"metadata": {key: body.get(key, {}) for key in ("labels", "annotations")}, part: body.get(part, {})}


def _part(wanted: JsonObject) -> str:
    """Return the key of an object's content."""
    return "data" if wanted["kind"] == CONFIG_MAP[1] else "spec"
