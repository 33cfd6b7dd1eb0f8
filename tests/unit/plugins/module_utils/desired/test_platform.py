# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.desired import KAI, ML, SHARED, WEB, read

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


def test_the_storage_class_of_control_planes():
    persistence = {"volumeClaim": {"storageClass": "premium-rwo"}}
    assert values_of(kubegpu_storage_class="premium-rwo") == {"controlPlane": {"statefulSet": {"persistence": persistence}}}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"kubegpu_tolerations": [{"kye": "a"}]}, "kubegpu_tolerations[0].kye: unknown key. Did you mean key?"),
        ({"kubegpu_tolerations": [{"operator": "Exists"}]}, "kubegpu_tolerations[0].key: is missing."),
        ({"kubegpu_tolerations": [{"key": "", "operator": "Exists"}]}, "kubegpu_tolerations[0].key: would let everyone onto"),
        ({"kubegpu_tolerations": [{"key": "kubegpu.tenancy/dedicated"}]}, "kubegpu_tolerations[0].key: would let everyone onto"),
        ({"kubegpu_tolerations": [{"key": "a", "operator": "In"}]}, "kubegpu_tolerations[0].operator: 'In' is not one of Exists"),
        (
            {"kubegpu_tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "kubegpu_tolerations[0].value: is compared",
        ),
        ({"kubegpu_tenant_api": {"type": "Ingress"}}, "kubegpu_tenant_api.host: is missing"),
        ({"kubegpu_tenant_api": {"host": "{tenant}.example"}}, "kubegpu_tenant_api.host: has no meaning with a NodePort"),
        (
            {"kubegpu_tenant_api": {"type": "LoadBalancer", "host": "gpu.example"}},
            "kubegpu_tenant_api.host: needs {tenant} in it",
        ),
        ({"kubegpu_tenant_api": {"type": "LoadBalancer", "host": "https://{tenant}"}}, "is no host name such as"),
        ({"kubegpu_tenant_api": {"ingress_class": "nginx"}}, "kubegpu_tenant_api.ingress_class: has a meaning with"),
        (
            {"kubegpu_tenant_api": {"annotations": {"internal": True}}},
            "annotations.internal: must be a string, not True; quote it.",
        ),
        ({"kubegpu_tenant_api": {"annotations": {"a b": "c"}}}, "annotations.a b: is not the name of an annotation."),
        (
            {"kubegpu_tenant_api": {"type": "Ingress", "host": "{tenant}.x", "ingress_class": "a b"}},
            "kubegpu_tenant_api.ingress_class: 'a b' is no name of an IngressClass.",
        ),
        ({"kubegpu_tolerations": [{"key": "*"}]}, "kubegpu_tolerations[0].key: '*' is no key of a taint"),
        ({"kubegpu_tolerations": [{"key": "a b"}]}, "kubegpu_tolerations[0].key: 'a b' is no key of a taint"),
        ({"kubegpu_tolerations": [{"key": "a\n"}]}, "kubegpu_tolerations[0].key: 'a\\n' is no key of a taint"),
        ({"kubegpu_tolerations": [{"key": "a", "value": "b c"}]}, "kubegpu_tolerations[0].value: 'b c' is no value of a taint."),
        ({"kubegpu_runtime_class": "a b"}, "kubegpu_runtime_class: 'a b' is no name of a class."),
        ({"kubegpu_storage_class": "Fast"}, "kubegpu_storage_class: 'Fast' is no name of a class."),
    ],
)
def test_what_no_cluster_can_ask_for(variables, expected):
    with pytest.raises(TenancyError) as caught:
        desired_state({TENANTS: [WEB]} | variables, "dc1", TODAY)
    assert any(expected in problem for problem in caught.value.details["problems"]), caught.value.details["problems"]
