# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_nodes
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi

LABEL = "tenant.kubegpu.tenancy/"
TENANTS = ({"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}, {"name": "web", "trust": "high"})


class Nodes(InMemoryApi):
    """Nodes with so many GPUs each."""

    def __init__(self, **nodes: int) -> None:
        super().__init__(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"a": "b"}},
                "spec": {},
                "status": {"capacity": {"nvidia.com/gpu": str(gpus)} if gpus else {}},
            }
            for name, gpus in nodes.items()
        )

    def node(self, name):
        return self.objects[("v1", "Node", None, name)]

    def labels(self) -> dict[str, list[str]]:
        return {
            item["metadata"]["name"]: [key.removeprefix(LABEL) for key in item["metadata"]["labels"] if key.startswith(LABEL)]
            for item in self.list("v1", "Node")
        }


def call(kube, state="present", tenants=TENANTS, check_mode=False, only=()):
    kube.writes.clear()
    params = {"state": state, "tenants": None if tenants is None else list(tenants), "only": list(only)}
    result = tenant_nodes.reconcile(Run(params, check_mode, kube))
    return {key: value for key, value in result.items() if key != "seconds"}


def test_life_of_an_assignment():
    kube = Nodes(w1=0, w2=4, w3=4)
    predicted = call(kube, check_mode=True)
    assert kube.writes == []
    made = call(kube)
    assert (
        made
        == predicted
        == {
            "changed": True,
            "diff": {"before": {"w1": [], "w2": []}, "after": {"w1": ["web"], "w2": ["ml"]}},
            "assignments": {"ml": ["w2"], "web": ["w1"]},
        }
    )
    assert kube.labels() == {"w1": ["web"], "w2": ["ml"], "w3": []}

    again = call(kube)
    assert not again["changed"]
    assert again["diff"] == {"before": {}, "after": {}}
    assert kube.writes == []

    assert call(kube, "absent", [{"name": "ml"}])["diff"] == {"before": {"w2": ["ml"]}, "after": {"w2": []}}
    assert call(kube, "absent", None, check_mode=True)["changed"]
    assert call(kube, "absent", None) == {"changed": True, "diff": {"before": {"w1": ["web"]}, "after": {"w1": []}}}
    assert not call(kube, "absent", None)["changed"]
    assert all(node["metadata"]["labels"] == {"a": "b"} for node in kube.list("v1", "Node"))


def test_nodes_of_a_tenant_with_zero_trust_are_its_own():
    kube = Nodes(w1=0, w2=4)
    zero = (TENANTS[0] | {"trust": "zero"}, TENANTS[1])
    taint = "taint kubegpu.tenancy/dedicated=ml"
    assert call(kube, tenants=zero)["diff"]["after"] == {"w1": ["web"], "w2": ["ml", taint]}
    assert not call(kube, tenants=zero)["changed"]
    assert call(kube)["diff"] == {"before": {"w2": ["ml", taint]}, "after": {"w2": ["ml"]}}
    call(kube, tenants=zero)
    assert call(kube, "absent", [{"name": "ml"}])["diff"] == {"before": {"w2": ["ml", taint]}, "after": {"w2": []}}
    assert kube.node("w2")["spec"]["taints"] == []


def test_a_label_with_another_value_is_mended():
    kube = Nodes(w1=0, w2=4)
    call(kube)
    kube.node("w2")["metadata"]["labels"][f"{LABEL}ml"] = "yes"
    assert call(kube)["diff"] == {"before": {"w2": []}, "after": {"w2": ["ml"]}}
    assert not call(kube)["changed"]


def test_too_few_nodes_touch_nothing():
    kube = Nodes(w1=0)
    with pytest.raises(TenancyError, match="ml needs 1 nodes with GPUs; 0 are its own, 0 of all 0 are free"):
        call(kube)
    assert kube.writes == []


def test_only_the_tenants_that_are_named_are_acted_on():
    kube = Nodes(w1=0, w2=4, w3=4)
    call(kube)
    two = (TENANTS[0] | {"gpu_nodes": {"count": 2}}, TENANTS[1], {"name": "new", "trust": "high"})
    assert call(kube, tenants=two, only=["new"])["diff"]["after"] == {"w1": ["new", "web"]}
    gone = (TENANTS[0] | {"state": "absent"}, TENANTS[1])
    assert not call(kube, tenants=gone, only=["web"])["changed"]
    assert call(kube, tenants=gone)["diff"] == {"before": {"w2": ["ml"]}, "after": {"w2": []}}


def test_a_taint_that_somebody_else_added_meanwhile_is_not_lost():
    kube = Nodes(w1=0, w2=4)
    read = kube.list("v1", "Node")
    kube.patch("v1", "Node", "w2", {"spec": {"taints": [{"key": "other", "effect": "NoExecute"}]}})
    kube.list = lambda *_args, **_more: read
    with pytest.raises(TenancyError) as caught:
        call(kube, tenants=(TENANTS[0] | {"trust": "zero"}, TENANTS[1]))
    assert caught.value.details["status"] == 409
