# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS
from ansible_collections.kubegpu.tenancy.tests.unit.desired import KAI, ML, SHARED, WEB, read, refused
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed

GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def values_of(**variables):
    return read([ML], **variables).tenants[0].vcluster.values


def test_by_default_nothing_is_asked_of_tenants():
    cluster = read([ML], shared_scheduler=KAI)
    assert cluster.tenants[0].vcluster.values == {}
    assert cluster.tenants[0].scheduler.values == {}
    assert cluster.shared_scheduler.values == {}
    assert cluster.data()["platform"] == {"runtime_class": "nvidia", "tolerations": [], "tenant_host": ""}


def test_tolerations_reach_everything_of_a_tenant():
    assert values_of(kubegpu_tolerations=[GPU_TAINT]) == {
        "controlPlane": {"statefulSet": {"scheduling": {"tolerations": [GPU_TAINT]}}},
        "sync": {"toHost": {"pods": {"enforceTolerations": ["nvidia.com/gpu:NoSchedule"]}}},
    }


def test_tolerations_reach_a_scheduler_only_where_nodes_keep_their_taints():
    tenants = [ML, WEB | {"name": "vision", "trust": "high", "scheduler": SHARED}]
    cluster = read(tenants, shared_scheduler=KAI, kubegpu_tolerations=[GPU_TAINT])
    assert cluster.shared_scheduler.values == {"global": {"tolerations": [GPU_TAINT]}}
    assert cluster.tenants[0].scheduler.values == {}


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ({"type": "NodePort"}, {}),
        ({"type": "LoadBalancer"}, {"service": {"spec": {"type": "LoadBalancer"}}}),
        (
            {"type": "LoadBalancer", "host": "{tenant}.gpu.example", "annotations": {"internal": "true"}},
            {
                "service": {"spec": {"type": "LoadBalancer"}, "annotations": {"internal": "true"}},
                "proxy": {"extraSANs": ["ml.gpu.example"]},
            },
        ),
        (
            {"type": "Ingress", "host": "{tenant}.gpu.example", "ingress_class": "nginx", "annotations": {"a": "b"}},
            {
                "service": {"spec": {"type": "ClusterIP"}},
                "ingress": {
                    "enabled": True,
                    "host": "ml.gpu.example",
                    "annotations": {"a": "b"},
                    "spec": {"ingressClassName": "nginx"},
                },
            },
        ),
    ],
)
def test_how_the_tenants_api_is_reached(api, expected):
    assert values_of(kubegpu_tenant_api=api) == ({"controlPlane": expected} if expected else {})


def test_certificates_have_the_names_of_the_gateway_beside_those_of_the_user():
    gateway = {"address": "10.0.0.5", "allow": ["10.0.0.0/8"]}

    def names(values, **more):
        tenant = {"name": "web", "trust": "high", "vcluster": {"values": values}}
        cluster = read([tenant], workers=[{}], kubegpu_gateway=gateway | more)
        return cluster.tenants[0].vcluster.values["controlPlane"]["proxy"]["extraSANs"]

    own = {"controlPlane": {"proxy": {"extraSANs": ["10.0.0.5", "api.example"]}}}
    assert names({}) == ["10.0.0.5"]
    assert names(own, host="gpu1.example") == ["gpu1.example", "10.0.0.5", "api.example"]


def test_the_storage_class_of_control_planes():
    persistence = {"volumeClaim": {"storageClass": "premium-rwo"}}
    assert values_of(kubegpu_storage_class="premium-rwo") == {"controlPlane": {"statefulSet": {"persistence": persistence}}}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"kubegpu_tolerations": [{"kye": "a"}]}, "kubegpu_tolerations[0].kye: unknown-key"),
        ({"kubegpu_tolerations": [{"operator": "Exists"}]}, "kubegpu_tolerations[0].key: missing"),
        ({"kubegpu_tolerations": [{"key": "", "operator": "Exists"}]}, "kubegpu_tolerations[0].key: tolerates-everyone"),
        ({"kubegpu_tolerations": [{"key": "kubegpu.tenancy/dedicated"}]}, "kubegpu_tolerations[0].key: tolerates-everyone"),
        ({"kubegpu_tolerations": [{"key": "a", "operator": "In"}]}, "kubegpu_tolerations[0].operator: not-a-choice"),
        (
            {"kubegpu_tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "kubegpu_tolerations[0].value: not-applicable",
        ),
        ({"kubegpu_tenant_api": {"type": "Ingress"}}, "kubegpu_tenant_api.host: missing"),
        ({"kubegpu_tenant_api": {"host": "{tenant}.example"}}, "kubegpu_tenant_api.host: not-applicable"),
        (
            {"kubegpu_tenant_api": {"type": "LoadBalancer", "host": "gpu.example"}},
            "kubegpu_tenant_api.host: host-without-tenant",
        ),
        (
            {"kubegpu_tenant_api": {"type": "LoadBalancer", "host": "https://{tenant}"}},
            "kubegpu_tenant_api.host: not-a-host-name",
        ),
        ({"kubegpu_tenant_api": {"ingress_class": "nginx"}}, "kubegpu_tenant_api.ingress_class: not-applicable"),
        (
            {"kubegpu_tenant_api": {"annotations": {"internal": True}}},
            "kubegpu_tenant_api.annotations.internal: wrong-type",
        ),
        ({"kubegpu_tenant_api": {"annotations": {"a b": "c"}}}, "kubegpu_tenant_api.annotations.a b: not-an-annotation"),
        (
            {"kubegpu_tenant_api": {"type": "Ingress", "host": "{tenant}.x", "ingress_class": "a b"}},
            "kubegpu_tenant_api.ingress_class: not-a-name",
        ),
        ({"kubegpu_tolerations": [{"key": "*"}]}, "kubegpu_tolerations[0].key: not-a-taint"),
        ({"kubegpu_tolerations": [{"key": "a b"}]}, "kubegpu_tolerations[0].key: not-a-taint"),
        ({"kubegpu_tolerations": [{"key": "a\n"}]}, "kubegpu_tolerations[0].key: not-a-taint"),
        ({"kubegpu_tolerations": [{"key": "a", "value": "b c"}]}, "kubegpu_tolerations[0].value: not-a-taint"),
        ({"kubegpu_runtime_class": "a b"}, "kubegpu_runtime_class: not-a-name"),
        ({"kubegpu_storage_class": "Fast"}, "kubegpu_storage_class: not-a-name"),
    ],
)
def test_what_no_cluster_can_ask_for(variables, expected):
    assert expected in placed(refused(**{TENANTS: [WEB]} | variables))


def test_a_toleration_that_is_refused_is_told_once_whatever_the_number_of_tenants():
    found = placed(
        refused(**{"kubegpu_tolerations": [{"operator": "Exists"}, {"key": "a:b"}], TENANTS: [WEB, WEB | {"name": "b"}]})
    )
    assert found == ["kubegpu_tolerations[0].key: missing", "kubegpu_tolerations[1].key: not-a-taint"]
