# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.facts import NOTES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.plan import kai_objects, patch, shown
from ansible_collections.kubegpu.tenancy.tests.unit.api import merged

READER = {"provider": "service_monitor", "namespace": "monitoring", "labels": {"release": "stack"}}
PODS = {"vcluster.loft.sh/namespace": "kai-scheduler"}


def objects(**change):
    return {item["kind"]: item for item in kai_objects("ml", "tenant-ml", READER | change)}


def test_only_the_namespace_of_the_prometheus_and_the_tenants_own_reach_its_scheduler():
    policy = objects()["NetworkPolicy"]
    inside, prometheus = policy["spec"].pop("ingress")
    assert policy["spec"] == {"podSelector": {"matchLabels": PODS}, "policyTypes": ["Ingress"]}
    assert inside == {"from": [{"podSelector": {}}]}
    reader = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert prometheus == {"from": [reader], "ports": [{"port": 8080, "protocol": "TCP"}]}


def test_the_fence_comes_first():
    assert list(objects()) == ["NetworkPolicy", "Service", "ServiceMonitor"]
    assert list(objects(provider="annotations")) == ["NetworkPolicy", "Service"]


def test_a_monitor_finds_the_service_at_the_port_that_it_names():
    found = objects()
    service, monitor = found["Service"], found["ServiceMonitor"]
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = [one for one in service["spec"]["ports"] if one["name"] == endpoint["port"]]
    assert (port["targetPort"], endpoint["path"]) == (8080, "/metrics")
    assert (service["spec"]["clusterIP"], service["spec"]["selector"]) == ("None", PODS)
    assert monitor["metadata"]["labels"]["release"] == "stack"
    # Which tenant a series is about, in the same label for both providers.
    assert service["metadata"]["labels"]["kubegpu.tenancy/tenant"] == "ml"
    assert monitor["spec"]["targetLabels"] == ["kubegpu.tenancy/tenant"]


def test_pods_of_a_tenant_can_neither_lead_the_prometheus_away_nor_drown_it():
    spec = objects()["ServiceMonitor"]["spec"]
    assert spec["endpoints"][0]["followRedirects"] is False
    assert spec["sampleLimit"] > 0


def test_labels_cannot_hide_whose_it_is():
    monitor = objects(labels={"app.kubernetes.io/managed-by": "me", "kubegpu.tenancy/metrics": "x"})["ServiceMonitor"]
    assert monitor["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "kubegpu.tenancy", "kubegpu.tenancy/metrics": "kai"}


def test_the_labels_of_flux_are_no_difference():
    wanted = objects()["Service"]
    live = merged(wanted, {"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "ml"}}})
    assert shown(live, wanted) == shown(wanted, wanted)
    other = merged(wanted, {"metadata": {"labels": {"by": "hand"}}})
    assert patch(other, wanted)["metadata"]["labels"] == {"by": None}


def test_annotations_name_the_port_of_the_pods():
    service = objects(provider="annotations")["Service"]
    assert service["metadata"]["annotations"] == NOTES
    assert NOTES["prometheus.io/port"] == str(service["spec"]["ports"][0]["targetPort"])
    assert "annotations" not in objects()["Service"]["metadata"]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("NetworkPolicy", {"spec": {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}}),
        ("NetworkPolicy", {"spec": {"policyTypes": ["Ingress", "Egress"], "egress": []}}),
        ("NetworkPolicy", {"spec": {"ingress": [{}]}}),
        ("Service", {"metadata": {"annotations": {"prometheus.io/port": "9090"}}}),
        ("Service", {"metadata": {"labels": {"kubegpu.tenancy/tenant": "web"}}}),
        ("Service", {"spec": {"selector": {"app": "another"}}}),
        ("ServiceMonitor", {"spec": {"sampleLimit": 0}}),
        ("ServiceMonitor", {"metadata": {"labels": {"release": "other"}}}),
    ],
)
def test_what_somebody_changed_differs_and_is_mended(kind, change):
    wanted = objects()[kind]
    live = merged(wanted, change)
    assert shown(live, wanted) != shown(wanted, wanted)
    mended = merged(live, patch(live, wanted))
    assert shown(mended, wanted) == shown(wanted, wanted)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Service", {"spec": {"clusterIPs": ["None"], "type": "ClusterIP", "sessionAffinity": "None"}}),
        ("Service", {"metadata": {"annotations": {"cloud.example/neg": "{}"}}}),
        ("ServiceMonitor", {"spec": {"jobLabel": ""}}),
    ],
)
def test_what_the_cluster_fills_in_does_not(kind, change):
    wanted = objects()[kind]
    assert shown(merged(wanted, change), wanted) == shown(wanted, wanted)
