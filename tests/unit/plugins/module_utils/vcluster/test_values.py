# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import values as vcluster
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.validation import check_values


def values(own_scheduler=False, node_selector=None, trust="high", kubernetes_version=None, values=None):
    return vcluster.tenant_values(own_scheduler, node_selector or {}, trust, kubernetes_version, values or {})


def test_values_with_own_scheduler_and_nodes():
    made = values(own_scheduler=True, node_selector={"tenant.kubegpu.tenancy/a": "true"}, kubernetes_version="v1.35.4")
    assert made["controlPlane"]["distro"]["k8s"] == {"scheduler": {"enabled": True}, "version": "v1.35.4"}
    assert made["sync"]["fromHost"]["nodes"] == {"enabled": True, "selector": {"labels": {"tenant.kubegpu.tenancy/a": "true"}}}
    assert made["controlPlane"]["statefulSet"]["image"]["repository"] == "loft-sh/vcluster-oss"


@pytest.mark.parametrize(
    ("own_scheduler", "nodes"), [(True, {"enabled": True, "selector": {"all": True}}), (False, {"enabled": False})]
)
def test_values_without_node_selector(own_scheduler, nodes):
    assert values(own_scheduler=own_scheduler)["sync"]["fromHost"]["nodes"] == nodes


@pytest.mark.parametrize(("trust", "level"), [("partial", "baseline"), ("zero", "restricted")])
def test_profiles(trust, level):
    made = values(trust=trust)
    policies = made["policies"]
    assert policies["podSecurityStandard"] == level
    # The control plane's own Service takes two node ports.
    assert policies["resourceQuota"]["quota"]["services.nodeports"] == 2
    assert policies["networkPolicy"]["enabled"] is True
    assert "169.254.169.254/32" in policies["networkPolicy"]["workload"]["publicEgress"]["except"]
    assert made["sync"]["toHost"]["pods"]["useSecretsForSATokens"] is True


@pytest.mark.parametrize(
    ("trust", "runtime_classes"),
    [
        ("high", {"enabled": True}),
        ("partial", {"enabled": True}),
        ("zero", {"enabled": True, "selector": {"matchExpressions": [{"key": facts.LISTED_CLASS, "operator": "Exists"}]}}),
    ],
)
def test_only_trust_zero_lists_its_classes(trust, runtime_classes):
    from_host = values(own_scheduler=True, trust=trust)["sync"]["fromHost"]
    assert from_host["runtimeClasses"] == runtime_classes
    assert from_host.get("storageClasses") == (runtime_classes if trust == "zero" else None)
    assert "priorityClasses" not in from_host
    assert from_host["nodes"]["enabled"] is True


@pytest.mark.parametrize(("trust", "needed"), [("high", False), ("partial", True), ("zero", True)])
def test_who_needs_network_policies(trust, needed):
    assert vcluster.has_network_policies(values(trust=trust)) is needed


def test_the_dedicated_taint_is_tolerated_beside_what_else_is():
    given = {"sync": {"toHost": {"pods": {"enforceTolerations": ["nvidia.com/gpu:"]}}}}
    made = vcluster.tenant_values(False, {}, "zero", None, given, dedicated_to="a")
    assert made["sync"]["toHost"]["pods"]["enforceTolerations"] == ["nvidia.com/gpu:", "kubegpu.tenancy/dedicated=a:NoSchedule"]


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, "nvidia.com/gpu:"),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, "nvidia.com/gpu:NoSchedule"),
        ({"key": "sku", "value": "gpu", "effect": "NoSchedule"}, "sku=gpu:NoSchedule"),
        ({"key": "sku", "operator": "Equal", "value": "gpu"}, "sku=gpu:"),
    ],
)
def test_tolerations_as_the_syncer_reads_them(toleration, text):
    assert vcluster.toleration_text(toleration) == text
    check_values({"sync": {"toHost": {"pods": {"enforceTolerations": [text]}}}})


def test_kai_is_not_refused_by_the_profile():
    assert vcluster.trust_values("zero", kai=False) == facts.TRUST_PROFILES["zero"]
    eased = vcluster.trust_values("zero", kai=True)
    assert eased["policies"]["podSecurityStandard"] == "baseline"
    assert eased["policies"]["networkPolicy"] == facts.TRUST_PROFILES["zero"]["policies"]["networkPolicy"]
    assert facts.TRUST_PROFILES["zero"]["policies"]["podSecurityStandard"] == "restricted"
    assert vcluster.trust_values("partial", kai=True) == facts.TRUST_PROFILES["partial"]
    assert vcluster.trust_values("high", kai=True) == {}


@pytest.mark.parametrize("trust", ["high", "partial"])
def test_bounds_take_the_place_of_defaults(trust):
    made = vcluster.tenant_values(False, {}, trust, None, {}, gpu_quota=4, quota={"count/pods": 60, "count/jobs.batch": 5})
    assert made["policies"]["resourceQuota"] == {
        "enabled": True,
        "quota": facts.QUOTA | {"count/pods": 60, "count/jobs.batch": 5, facts.GPU_QUOTA: 4},
    }
    assert facts.QUOTA["count/pods"] == 150


def test_services_of_the_host_that_network_policies_let_through():
    registry = {"name": "registry", "namespace": "registry", "labels": {"app": "registry"}, "ports": [5000, 5001]}
    scrape = {"name": "monitoring", "namespace": "monitoring", "ports": [9400]}
    workload = vcluster.tenant_values(False, {}, "partial", None, {}, network={"egress": [registry], "ingress": [scrape]})[
        "policies"
    ]["networkPolicy"]["workload"]

    def peer(namespace, **labels):
        selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        return [{"namespaceSelector": selector, "podSelector": {"matchLabels": labels}}]

    tcp = [{"port": port, "protocol": "TCP"} for port in (5000, 5001, 9400)]
    assert workload["egress"] == [{"to": peer("registry", app="registry"), "ports": tcp[:2]}]
    assert workload["ingress"] == [{"from": peer("monitoring"), "ports": tcp[2:]}]
    # What else the profile lets through stays.
    assert workload["publicEgress"] == facts.TRUST_PROFILES["partial"]["policies"]["networkPolicy"]["workload"]["publicEgress"]
    nothing = {"egress": [], "ingress": []}
    assert vcluster.tenant_values(False, {}, "high", None, {}, network=nothing) == values()


def test_user_values_win_and_tables_stay_untouched():
    mine = {
        "controlPlane": {"service": {"spec": {"type": "ClusterIP"}}},
        "policies": {"resourceQuota": {"quota": {"count/pods": 5}}},
    }
    made = values(trust="partial", values=mine)
    assert made["controlPlane"]["service"]["spec"]["type"] == "ClusterIP"
    assert made["policies"]["resourceQuota"]["quota"]["count/pods"] == 5
    assert facts.TRUST_PROFILES["partial"]["policies"]["resourceQuota"]["quota"]["count/pods"] == 150


@pytest.mark.parametrize(
    ("pods", "registry", "image"),
    [
        ({}, None, "mirror.gcr.io/library/alpine:3.20"),
        ({}, "registry.example/all/", "registry.example/all/library/alpine:3.20"),
        ({"initContainer": {"image": {"registry": "mine", "tag": "3.22"}}}, None, "mine/library/alpine:3.22"),
        ({"initContainer": {"image": "mine/alpine:1"}}, None, "mine/alpine:1"),
        ({"enabled": False}, None, ""),
    ],
)
def test_the_image_that_vcluster_adds_to_pods(pods, registry, image):
    values = {
        "sync": {"toHost": {"pods": {"rewriteHosts": pods}}},
        "controlPlane": {"advanced": {"defaultImageRegistry": registry}},
    }
    assert vcluster.added_image(values) == image


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        ("30m", "2026-11-23T12:30:00+00:00"),
        ("2h", "2026-11-23T14:00:00+00:00"),
        ("7d", "2026-11-30T12:00:00+00:00"),
        # What cannot be read is no reason to remove a tenant.
        ("", None),
        ("0h", None),
        ("-1h", None),
        ("1h30m", None),
        ("soon", None),
    ],
)
def test_a_tenant_expires_at_an_age(noted, expected):
    metadata = {"creationTimestamp": "2026-11-23T12:00:00Z", "annotations": {facts.EXPIRES_ANNOTATION: noted}}
    expiry = vcluster.expiry({"metadata": metadata})
    assert expiry == (expected and datetime.datetime.fromisoformat(expected))


def test_a_tenant_without_a_namespace_or_an_age_never_expires():
    assert vcluster.expiry(None) is None
    assert vcluster.expiry({"metadata": {"creationTimestamp": "2026-11-23T12:00:00Z"}}) is None
