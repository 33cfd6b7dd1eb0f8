# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import manifest, parse
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_probe import run

TREE = [{"name": "ml", "gpu": {"limit": 4}, "children": [{"name": "a", "gpu": {"limit": 4}}, {"name": "b", "gpu": {"limit": 2}}]}]


class FakeKube:
    """A cluster whose scheduler does at once what KAI should."""

    def __init__(self, gpus=4, stuck=(), refused=(), log=""):
        self.log = log
        self.operator = "1"
        self.record = None
        self.gpus = gpus
        self.stuck = stuck
        self.refused = refused
        self.pods = {}
        self.namespace = None
        self.most = 0
        self.order = []

    def list(self, _api_version, kind, namespace=None, _labels=None):
        if kind == "Queue":
            return [manifest(queue) for queue in parse(TREE).values()]
        if kind == "Node":
            node = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"nvidia.com/gpu": str(self.gpus)}}}
            return [node]
        if kind == "PodGroup":
            reasons = [{"reason": "OverLimit", "message": "too much"}]
            status = {"schedulingConditions": [{"reasons": reasons}]}
            groups = {pod["metadata"]["annotations"]["pod-group-name"] for pod in self.pods.values()}
            return [{"metadata": {"name": name}, "status": status} for name in groups]
        if namespace == "kai-scheduler":
            return [{"metadata": {"name": "kai-operator-1", "uid": self.operator}}]
        if namespace == "kai-resource-reservation":
            return [{"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": f"GPU-{n}"}}} for n in (0, 1)]
        return list(self.pods.values())

    def get(self, _api_version, kind, name, _namespace=None):
        if kind == "Queue":
            return {"metadata": {"name": name}, "status": {"allocated": {"nvidia.com/gpu": "1500m"}}}
        if kind == "ConfigMap":
            return self.record
        return {"metadata": {"name": name}} if kind == "ServiceAccount" else self.namespace

    def apply(self, definition):
        self.record = definition

    def create(self, definition):
        name = definition["metadata"]["name"]
        if definition["kind"] == "Namespace":
            self.namespace = definition
            return
        if definition["kind"] == "PodGroup":
            return
        if name in self.refused:
            raise TenancyError("admission webhook denied the request")
        pending = name.startswith(("over", "gang-too-large")) or name in self.stuck
        metadata = definition["metadata"] | {"annotations": {"pod-group-name": name} | definition["metadata"]["annotations"]}
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

    def logs(self, name, namespace, **_bounds):
        if namespace == "kai-scheduler":
            return self.log
        return f"GPU 0: X (UUID: GPU-{1 if name.endswith('3') else 0})"


def params(**changes):
    return {
        "queues": TREE,
        "checks": ["cpu", "gpu", "fraction", "gang", "gang_too_large", "over_limit"],
        "image": "busybox",
        "gpu_resource": "nvidia.com/gpu",
        "runtime_class": "nvidia",
        "tolerations": [],
        "namespace": "kai-probe",
        "scheduler_name": "kai-scheduler",
        "timeout": 20,
        "max_age": 0,
    } | changes


def verdicts(results):
    return {(result["name"], result["queue"]): result["verdict"] for result in results}


def test_all_is_well():
    kube = FakeKube()
    result = run(params(), kube, False)
    assert set(verdicts(result["results"]).values()) == {"passed"}
    assert len(result["results"]) == 12
    assert result["results"][-1]["name"] == "logs"
    assert result["changed"] is False
    assert (kube.pods, kube.namespace) == ({}, None)
    assert kube.order[-3:] == ["fraction-1", "fraction-2", "fraction-3"]


def test_one_free_gpu_is_used_by_one_after_the_other():
    kube = FakeKube(gpus=1)
    result = run(params(checks=["gpu", "fraction"]), kube, False)
    assert verdicts(result["results"]) == {
        ("gpu", "a"): "passed",
        ("gpu", "b"): "passed",
        ("fraction", "a"): "not_tried",
        ("logs", ""): "passed",
    }
    assert kube.most == 1


def test_a_scheduler_that_lost_its_rights_shows_in_its_log():
    kube = FakeKube(log="I1 all is well\nE1 nodes is forbidden: User cannot list\n")
    with pytest.raises(
        TenancyError, match=r"logs: 1 lines tell of authorisation or webhooks, such as kai-operator-1: E1 nodes is"
    ):
        run(params(checks=["cpu"]), kube, False)
    assert kube.namespace is None


def test_time_runs_out():
    kube = FakeKube(gpus=2, stuck=("gpu-a",))
    with pytest.raises(TenancyError, match=r"1 of 4 checks failed\. gpu in a: no verdict in time") as caught:
        run(params(checks=["gpu", "fraction"], timeout=2), kube, False)
    found = {("gpu", "a"): "failed", ("gpu", "b"): "passed", ("fraction", "a"): "not_tried", ("logs", ""): "passed"}
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


def test_a_record_stands_in_while_all_is_as_it_was():
    kube = FakeKube()
    asked = params(checks=["cpu"], max_age=60)
    first = run(asked, kube, False)
    assert (first["recorded"], kube.order) == (False, ["cpu-a", "cpu-b"])
    assert run(asked, kube, False) == first | {"recorded": True}
    assert run(asked, kube, True)["recorded"]
    assert kube.order == ["cpu-a", "cpu-b"]

    assert run(asked | {"max_age": 0}, kube, False)["recorded"] is False
    assert run(asked | {"checks": ["gpu"]}, kube, False)["recorded"] is False
    assert run(asked, kube, False)["recorded"] is False
    kube.operator = "2"
    assert run(asked, kube, False)["recorded"] is False
    kube.record["data"]["found"] = kube.record["data"]["found"].replace(first["at"][:4], "2020")
    assert run(asked, kube, False)["recorded"] is False


def test_a_record_of_a_failure_does_not():
    kube = FakeKube(log="Unauthorized")
    asked = params(checks=["cpu"], max_age=60)
    for _time in range(2):
        with pytest.raises(TenancyError, match="logs: 1 lines"):
            run(asked, kube, False)
