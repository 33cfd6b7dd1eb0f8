# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module gpu_probe, against an API whose pods end at once."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_gpu.plan import NAME, NODE_NOTE
from ansible_collections.kubegpu.tenancy.plugins.modules.gpu_probe import run

MINE = "GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10"
OTHER = "GPU-00000000-6a5f-4d53-9a3e-2a4f7d6f8f10"


def listing(*uuids: str) -> str:
    return "".join(f"GPU {index}: NVIDIA H200 (UUID: {uuid})\n" for index, uuid in enumerate(uuids))


def ended(message: str, phase: str = "Succeeded") -> dict[str, t.Any]:
    return {"phase": phase, "containerStatuses": [{"name": "probe", "state": {"terminated": {"message": message}}}]}


def unscheduled(message: str) -> dict[str, t.Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


class FakeKube:
    def __init__(self, status: dict[str, t.Any], gpus: int = 2, held: int = 0, unschedulable: bool = False) -> None:
        self.status = status
        spec = {"unschedulable": True} if unschedulable else {}
        allocatable = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        plain = {"metadata": {"name": "plain"}, "spec": {}, "status": {"allocatable": {}}}
        self.nodes = [{"metadata": {"name": "w1"}, "spec": spec, "status": {"allocatable": allocatable}}, plain]
        self.pods = [self._holder(number) for number in range(held)]
        self.namespaces: dict[str, dict[str, t.Any]] = {}
        self.created: list[dict[str, t.Any]] = []
        # Somebody takes all GPUs while the probe's pod waits.
        self.rush = False

    def _holder(self, number: int) -> dict[str, t.Any]:
        spec = {"nodeName": "w1", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
        return {"metadata": {"name": f"work-{number}", "namespace": "default"}, "spec": spec, "status": {"phase": "Running"}}

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, t.Any] | None:
        if kind == "ServiceAccount":
            return {"metadata": {"name": name}}
        return self.namespaces.get(name) if kind == "Namespace" else self.nodes[0]

    def list(self, api_version: str, kind: str, namespace: str | None = None) -> list[dict[str, t.Any]]:
        if kind == "Node":
            return self.nodes
        return [pod for pod in self.pods if namespace in (None, pod["metadata"]["namespace"])]

    def create(self, definition: dict[str, t.Any]) -> None:
        self.created.append(definition)
        if definition["kind"] == "Namespace":
            self.namespaces[definition["metadata"]["name"]] = definition
            return
        name = f"{definition['metadata']['generateName']}{len(self.pods)}"
        self.pods.append(definition | {"metadata": definition["metadata"] | {"name": name}, "status": self.status})
        if self.rush:
            self.pods += [self._holder(number) for number in (0, 1)]

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> bool:
        if kind == "Namespace":
            self.pods = [pod for pod in self.pods if pod["metadata"]["namespace"] != name]
            return self.namespaces.pop(name, None) is not None
        self.pods = [pod for pod in self.pods if pod["metadata"]["name"] != name]
        return True


def probe(kube: FakeKube, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    defaults: dict[str, t.Any] = {"namespace": NAME, "image": "image", "expected_gpus": {}, "timeout": 0.4}
    try:
        return run(defaults | params, t.cast(t.Any, kube), check_mode)
    finally:
        assert not kube.namespaces, "the probe left its namespace"
        assert not [pod for pod in kube.pods if pod["metadata"]["namespace"] == NAME], "the probe left a pod"


def verdict(result: dict[str, t.Any]) -> tuple[str, str]:
    (found,) = result["results"]
    assert found["name"] == "w1"
    return found["verdict"], found["reason"]


@pytest.mark.parametrize("expected", [{}, {"w1": 2}, {"w1": [MINE, OTHER]}, {"w2": [OTHER]}])
def test_one_gpu_of_the_node_passes(expected: dict[str, t.Any]) -> None:
    kube = FakeKube(ended(listing(MINE)), held=1)
    result = probe(kube, expected_gpus=expected)
    assert (verdict(result), result["changed"]) == (("passed", MINE), False)
    pod = next(item for item in kube.created if item["kind"] == "Pod")
    assert pod["metadata"]["annotations"] == {NODE_NOTE: "w1"}
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert "nodeName" not in pod["spec"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ended(listing(MINE, OTHER)), "asked for one GPU and sees 2"),
        (ended("No devices were found\n"), "sees 0: 'No devices were found'"),
        (ended(listing(OTHER)), f"sees {OTHER}, which is not one of the node's GPUs"),
        (ended("sh: nvidia-smi: not found", "Failed"), "nvidia-smi failed: sh: nvidia-smi: not found"),
        ({"phase": "Failed", "message": "Pod was rejected"}, "nvidia-smi failed: Pod was rejected"),
        (unscheduled("0/1 nodes are available: 1 Insufficient memory."), "1 Insufficient memory"),
        # The scheduler sees none while the node has some: that is a finding.
        (unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."), "Insufficient nvidia.com/gpu"),
    ],
)
def test_anything_else_fails(status: dict[str, t.Any], words: str) -> None:
    with pytest.raises(TenancyError) as caught:
        probe(FakeKube(status), expected_gpus={"w1": [MINE]})
    assert words in caught.value.message
    assert [found["verdict"] for found in caught.value.details["results"]] == ["failed"]


@pytest.mark.parametrize(
    ("kube", "reason"),
    [
        (FakeKube({}, held=2), "all of its 2 GPUs are in use"),
        (FakeKube({}, unschedulable=True), "the node is cordoned"),
    ],
)
def test_without_a_free_gpu_nothing_is_tried(kube: FakeKube, reason: str) -> None:
    assert verdict(probe(kube)) == ("not_tried", reason)
    assert kube.created == []


def test_a_gpu_taken_meanwhile_is_no_failure() -> None:
    kube = FakeKube(unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."))
    kube.rush = True
    assert verdict(probe(kube)) == ("not_tried", "all of its 2 GPUs are in use")


def test_nodes_without_gpus_are_no_matter() -> None:
    assert probe(FakeKube({}, gpus=0))["results"] == []


def test_check_mode_runs_nothing() -> None:
    kube = FakeKube(ended(listing(MINE)))
    assert verdict(probe(kube, check_mode=True)) == ("not_tried", "check mode")
    assert kube.created == []


def test_a_removed_pod_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = FakeKube({})
    monkeypatch.setattr(kube, "create", lambda definition: definition["kind"] == "Pod" or FakeKube.create(kube, definition))
    with pytest.raises(TenancyError, match="w1: somebody removed the pod"):
        probe(kube)


def test_a_foreign_namespace_is_refused() -> None:
    kube = FakeKube(ended(listing(MINE)))
    kube.namespaces[NAME] = {"metadata": {"name": NAME}}
    with pytest.raises(TenancyError, match="exists and is not owned"):
        run({"namespace": NAME, "image": "i", "expected_gpus": {}, "timeout": 0}, t.cast(t.Any, kube), False)
    assert NAME in kube.namespaces
