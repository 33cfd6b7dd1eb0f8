# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Against an API whose pods end at once."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import probe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.gpu import NAME, NODE_NOTE, manifest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.plan import Settings
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi

Object = dict[str, t.Any]

MINE = "GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10"
OTHER = "GPU-00000000-6a5f-4d53-9a3e-2a4f7d6f8f10"


def listing(*uuids: str) -> str:
    return "".join(f"GPU {index}: NVIDIA H200 (UUID: {uuid})\n" for index, uuid in enumerate(uuids))


def ended(message: str, phase: str = "Succeeded") -> Object:
    return {"phase": phase, "containerStatuses": [{"name": "probe", "state": {"terminated": {"message": message}}}]}


def unscheduled(message: str) -> dict[str, t.Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def held_gpu(number: int) -> Object:
    spec = {"nodeName": "w1", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    metadata = {"name": f"work-{number}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def cluster(status: Object | None = None, gpus: int = 2, held: int = 0, rush: bool = False, **spec: t.Any) -> InMemoryApi:
    """A cluster with a node that offers GPUs and one that does not, in which the probe's pod gets a status at once.

    :arg status: None for a pod that another client removes.
    :arg held: how many GPUs are held by other pods; with ``rush``, all of them as soon as the probe's pod waits.
    :arg spec: of the node.
    """
    allocatable = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    nodes = [("w1", spec, allocatable), ("plain", {}, {})]
    api = InMemoryApi(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}
        for name, spec, allocatable in nodes
    )
    for number in range(held):
        api.put(held_gpu(number))

    def pod(item: Object) -> None:
        if status is None:
            api.drop("v1", "Pod", item["metadata"]["name"], NAME)
        else:
            api.put(item | {"status": status})
        for number in range(gpus if rush else 0):
            api.put(held_gpu(number))

    api.react("create", "Namespace", api.add_account)
    api.react("create", "Pod", pod)
    return api


def run(api: InMemoryApi, check_mode: bool = False, **params: t.Any) -> Object:
    try:
        return probe.reconcile(Run({"kind": "gpu", "timeout": 0.4} | params, check_mode, kube=t.cast(t.Any, api)))
    finally:
        assert not api.list("v1", "Namespace"), "the probe left its namespace"
        assert not api.list("v1", "Pod", NAME), "the probe left a pod"
        deleted = [kind for verb, kind, _name in api.writes if verb == "delete"]
        assert deleted == sorted(deleted, key=["Pod", "Namespace"].index), "the namespace was deleted before its pods"


def verdict(result: Object) -> tuple[str, str]:
    (found,) = result["results"]
    assert found["name"] == "w1"
    return found["verdict"], found["reason"]


@pytest.mark.parametrize("expected", [{}, {"w1": 2}, {"w1": [MINE, OTHER]}, {"w2": [OTHER]}])
def test_one_gpu_of_the_node_passes(expected: dict[str, t.Any]) -> None:
    result = run(cluster(ended(listing(MINE)), held=1), expected_gpus=expected)
    assert (verdict(result), result["changed"]) == (("passed", MINE), False)


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
        run(cluster(status), expected_gpus={"w1": [MINE]})
    assert words in caught.value.message
    assert [found["verdict"] for found in caught.value.details["results"]] == ["failed"]


@pytest.mark.parametrize(
    ("api", "reason"),
    [
        (cluster({}, held=2), "all of its 2 GPUs are in use"),
        (cluster({}, unschedulable=True), "the node is cordoned"),
    ],
)
def test_without_a_free_gpu_nothing_is_tried(api: InMemoryApi, reason: str) -> None:
    assert verdict(run(api)) == ("not_tried", reason)
    assert api.writes == []


@pytest.mark.parametrize(
    ("tolerations", "tried"),
    [
        ([{"operator": "Exists"}], True),
        ([{"key": "kubegpu.tenancy/tenant", "value": "ml"}], True),
        ([{"key": "kubegpu.tenancy/tenant", "value": "web"}], False),
        ([], False),
    ],
)
def test_a_node_whose_taint_is_not_tolerated_is_not_tried(tolerations: list[Object], tried: bool) -> None:
    taint = {"key": "kubegpu.tenancy/tenant", "value": "ml", "effect": "NoSchedule"}
    api = cluster(ended(listing(MINE)), taints=[taint])
    expected = ("passed", MINE)
    if not tried:
        expected = ("not_tried", "the probe's pods do not tolerate its taint kubegpu.tenancy/tenant=ml:NoSchedule")
    assert verdict(run(api, tolerations=tolerations)) == expected


def test_a_gpu_taken_meanwhile_is_no_failure() -> None:
    api = cluster(unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."), rush=True)
    assert verdict(run(api)) == ("not_tried", "all of its 2 GPUs are in use")


def test_nodes_without_gpus_are_no_matter() -> None:
    assert run(cluster({}, gpus=0))["results"] == []


def test_check_mode_runs_nothing() -> None:
    api = cluster(ended(listing(MINE)))
    assert verdict(run(api, check_mode=True)) == ("not_tried", "check mode")
    assert api.writes == []


def test_a_removed_pod_is_reported() -> None:
    with pytest.raises(TenancyError, match="w1: the pod was removed by someone else"):
        run(cluster())


def test_a_foreign_namespace_is_refused() -> None:
    api = cluster(ended(listing(MINE)))
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
    with pytest.raises(TenancyError, match=f"namespace: {NAME} exists"):
        probe.reconcile(Run({"kind": "gpu", "timeout": 1}, kube=t.cast(t.Any, api)))
    assert api.writes == []


def test_the_pod_asks_for_one_gpu_of_its_node():
    pod = manifest(Settings("probe", tolerations=({"operator": "Exists"},), runtime_class="nvidia"), "w1")
    spec = pod["spec"]
    assert pod["metadata"]["annotations"] == {NODE_NOTE: "w1"}
    assert (spec["runtimeClassName"], spec["tolerations"]) == ("nvidia", [{"operator": "Exists"}])
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    # The scheduler has to count the GPU.
    assert "nodeName" not in spec
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w1"]}]}]


def test_no_runtime_class_and_no_tolerations():
    spec = manifest(Settings("probe"), "w1")["spec"]
    assert "runtimeClassName" not in spec
    assert spec["tolerations"] == []
