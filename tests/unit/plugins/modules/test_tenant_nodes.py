# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_nodes

LABEL = "tenant.kubegpu.tenancy/"
TENANTS = (
    {"name": "ml", "gpu_nodes": {"count": 1}, "scheduler": {}, "queues": []},
    {"name": "web", "gpu_nodes": {}, "scheduler": {}, "queues": []},
)


class FakeKube:
    """Nodes, as an API server keeps them."""

    def __init__(self, **nodes: int) -> None:
        self.nodes = {
            name: {
                "metadata": {"name": name, "labels": {"a": "b"}},
                "spec": {},
                "status": {"capacity": {"nvidia.com/gpu": str(gpus)} if gpus else {}},
            }
            for name, gpus in nodes.items()
        }
        self.calls: list[str] = []

    def list(self, api_version: str, kind: str) -> list[dict]:
        self.calls.append(f"list {kind}")
        return list(self.nodes.values())

    def patch(self, api_version: str, kind: str, name: str, body: dict) -> None:
        self.calls.append(f"patch {name}")
        self.nodes[name]["spec"] |= body.get("spec", {})
        labels = self.nodes[name]["metadata"]["labels"] | body.get("metadata", {}).get("labels", {})
        self.nodes[name]["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}

    def labels(self) -> dict[str, list[str]]:
        return {
            name: [key.removeprefix(LABEL) for key in node["metadata"]["labels"] if key.startswith(LABEL)]
            for name, node in self.nodes.items()
        }


def call(kube, state="present", tenants=TENANTS, check_mode=False):
    kube.calls.clear()
    return tenant_nodes.run({"state": state, "tenants": tenants}, kube, check_mode)


def test_life_of_an_assignment():
    kube = FakeKube(w1=0, w2=4, w3=4)
    predicted = call(kube, check_mode=True)
    assert kube.calls == ["list Node"]
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
    assert kube.calls == ["list Node"]

    assert call(kube, "absent", [{"name": "ml"}])["diff"] == {"before": {"w2": ["ml"]}, "after": {"w2": []}}
    assert call(kube, "absent", None, check_mode=True)["changed"]
    assert call(kube, "absent", None) == {"changed": True, "diff": {"before": {"w1": ["web"]}, "after": {"w1": []}}}
    assert not call(kube, "absent", None)["changed"]
    assert all(node["metadata"]["labels"] == {"a": "b"} for node in kube.nodes.values())


def test_nodes_of_a_tenant_with_zero_trust_are_its_own():
    kube = FakeKube(w1=0, w2=4)
    zero = (TENANTS[0] | {"trust": "zero"}, TENANTS[1])
    taint = "taint kubegpu.tenancy/dedicated=ml"
    assert call(kube, tenants=zero)["diff"]["after"] == {"w1": ["web"], "w2": ["ml", taint]}
    assert not call(kube, tenants=zero)["changed"]
    assert call(kube)["diff"] == {"before": {"w2": ["ml", taint]}, "after": {"w2": ["ml"]}}
    call(kube, tenants=zero)
    assert call(kube, "absent", [{"name": "ml"}])["diff"] == {"before": {"w2": ["ml", taint]}, "after": {"w2": []}}
    assert kube.nodes["w2"]["spec"]["taints"] == []


def test_a_label_with_another_value_is_mended():
    kube = FakeKube(w1=0, w2=4)
    call(kube)
    kube.nodes["w2"]["metadata"]["labels"][f"{LABEL}ml"] = "yes"
    assert call(kube)["diff"] == {"before": {"w2": []}, "after": {"w2": ["ml"]}}
    assert not call(kube)["changed"]


def test_too_few_nodes_touch_nothing():
    kube = FakeKube(w1=0)
    with pytest.raises(TenancyError, match="ml needs 1 nodes with GPUs; 0 are its own, 0 of all 0 are free"):
        call(kube)
    assert kube.calls == ["list Node"]
