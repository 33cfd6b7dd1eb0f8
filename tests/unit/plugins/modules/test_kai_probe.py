# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues import manifest, parse
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_probe import run

TREE = [{"name": "ml", "gpu": {"limit": 4}, "children": [{"name": "a", "gpu": {"limit": 4}}, {"name": "b", "gpu": {"limit": 2}}]}]


class FakeKube:
    """A cluster whose scheduler does at once what KAI should."""

    def __init__(self, gpus=4, stuck=(), refused=()):
        self.gpus = gpus
        self.stuck = stuck
        self.refused = refused
        self.pods = {}
        self.namespace = None
        self.most = 0
        self.order = []

    def list(self, _api_version, kind, namespace=None):
        if kind == "Queue":
            return [manifest(queue) for queue in parse(TREE).values()]
        if kind == "Node":
            node = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"nvidia.com/gpu": str(self.gpus)}}}
            return [node]
        if kind == "PodGroup":
            reasons = [{"reason": "OverLimit", "message": "too much"}]
            status = {"schedulingConditions": [{"reasons": reasons}]}
            return [{"metadata": {"name": name}, "status": status} for name in self.pods]
        if namespace == "kai-resource-reservation":
            return [{"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": f"GPU-{n}"}}} for n in (0, 1)]
        return list(self.pods.values())

    def get(self, _api_version, kind, name, _namespace=None):
        if kind == "Queue":
            return {"metadata": {"name": name}, "status": {"allocated": {"nvidia.com/gpu": "1500m"}}}
        return {"metadata": {"name": name}} if kind == "ServiceAccount" else self.namespace

    def create(self, definition):
        name = definition["metadata"]["name"]
        if definition["kind"] == "Namespace":
            self.namespace = definition
            return
        if name in self.refused:
            raise TenancyError("admission webhook denied the request")
        pending = name.startswith("over") or name in self.stuck
        metadata = definition["metadata"] | {"annotations": {"pod-group-name": name}}
        spec = definition["spec"] | ({} if pending else {"nodeName": "n"})
        phase = "Pending" if pending else "Running" if name.startswith("fraction") else "Succeeded"
        self.pods[name] = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
        self.order.append(name)
        self.most = max(self.most, sum(name.startswith("gpu") for name in self.pods))

    def delete(self, _api_version, kind, name, _namespace=None):
        if kind == "Namespace":
            self.namespace = None
            self.pods.clear()
        self.pods.pop(name, None)
        return True

    def logs(self, name, _namespace):
        return f"GPU 0: X (UUID: GPU-{1 if name.endswith('3') else 0})"


def params(**changes):
    return {
        "queues": TREE,
        "checks": ["cpu", "gpu", "fraction", "over_limit"],
        "image": "busybox",
        "gpu_resource": "nvidia.com/gpu",
        "runtime_class": "nvidia",
        "tolerations": [],
        "namespace": "kai-probe",
        "scheduler_name": "kai-scheduler",
        "timeout": 20,
    } | changes


def verdicts(results):
    return {(result["name"], result["queue"]): result["verdict"] for result in results}


def test_all_is_well():
    kube = FakeKube()
    result = run(params(), kube, False)
    assert set(verdicts(result["results"]).values()) == {"passed"}
    assert len(result["results"]) == 7
    assert result["changed"] is False
    assert (kube.pods, kube.namespace) == ({}, None)
    assert kube.order[-3:] == ["fraction-1", "fraction-2", "fraction-3"]


def test_one_free_gpu_is_used_by_one_after_the_other():
    kube = FakeKube(gpus=1)
    result = run(params(checks=["gpu", "fraction"]), kube, False)
    assert verdicts(result["results"]) == {("gpu", "a"): "passed", ("gpu", "b"): "passed", ("fraction", "a"): "not_tried"}
    assert kube.most == 1


def test_time_runs_out():
    kube = FakeKube(gpus=2, stuck=("gpu-a",))
    with pytest.raises(TenancyError, match=r"1 of 3 checks failed\. gpu in a: no verdict in time") as caught:
        run(params(checks=["gpu", "fraction"], timeout=2), kube, False)
    found = {("gpu", "a"): "failed", ("gpu", "b"): "passed", ("fraction", "a"): "not_tried"}
    assert verdicts(caught.value.details["results"]) == found
    assert (kube.pods, kube.namespace) == ({}, None)


def test_a_refused_pod_fails_its_check_only():
    with pytest.raises(TenancyError, match="fraction in a: admission webhook denied the request"):
        run(params(checks=["cpu", "fraction"]), FakeKube(refused=("fraction-2",)), False)


def test_check_mode_runs_nothing():
    kube = FakeKube()
    assert set(verdicts(run(params(), kube, True)["results"]).values()) == {"not_tried"}
    assert kube.order == []


def test_a_namespace_of_others_is_refused():
    kube = FakeKube()
    kube.namespace = {"metadata": {"name": "kai-probe"}}
    with pytest.raises(TenancyError, match="not ours"):
        run(params(), kube, False)
    assert kube.namespace
