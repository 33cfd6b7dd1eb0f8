# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import collisions, gpus_of, ledger
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import tenant_values


def node(name, gpus, *tenants):
    labels = {f"tenant.kubegpu.tenancy/{tenant}": "true" for tenant in tenants}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)} if gpus else {}},
    }


def pod(name, namespace, gpus, where="", phase="Running", **labels):
    container = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    spec = {"containers": [container]} | ({"nodeName": where} if where else {})
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec, "status": {"phase": phase}}


NAMESPACES = [
    {"metadata": {"name": "tenant-a", "labels": {"kubegpu.tenancy/tenant": "a"}}},
    {"metadata": {"name": "tenant-b", "labels": {"kubegpu.tenancy/tenant": "b"}}},
    {"metadata": {"name": "default"}},
]
QUOTAS = [
    {"metadata": {"namespace": "tenant-b"}, "spec": {"hard": {"requests.nvidia.com/gpu": "3", "count/pods": "9"}}},
    {"metadata": {"namespace": "tenant-b"}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}},
    {"metadata": {"namespace": "default"}, "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}},
]


def test_all_in_order():
    nodes = [node("n2", 4, "b"), node("n1", 4, "a"), node("cp", 0, "a", "b")]
    pods = [
        pod("p1", "tenant-a", 2, "n1"),
        pod("gpu-reservation", "tenant-a", 1, "n1", app="kai-resource-reservation"),
        pod("waits", "tenant-a", 1, phase="Pending"),
        pod("done", "tenant-b", 4, "n2", "Succeeded"),
        pod("web", "tenant-b", 0, "cp"),
    ]
    assert ledger(nodes, pods, NAMESPACES, QUOTAS, {}) == {
        "nodes": [
            {"node": "cp", "tenants": ["a", "b"], "allocatable": 0, "in_use": 0},
            {"node": "n1", "tenants": ["a"], "allocatable": 4, "in_use": 3},
            {"node": "n2", "tenants": ["b"], "allocatable": 4, "in_use": 0},
        ],
        "tenants": [
            {"tenant": "a", "nodes": ["cp", "n1"], "promised": 4, "quota": None, "requested": 4, "reserved": 1, "in_use": 3},
            {"tenant": "b", "nodes": ["cp", "n2"], "promised": 4, "quota": 2, "requested": 0, "reserved": 0, "in_use": 0},
        ],
        "overlaps": [],
    }


@pytest.mark.parametrize(
    ("nodes", "pods", "told"),
    [
        (
            [node("n1", 4, "a")],
            [pod("p", "tenant-b", 2, "n1")],
            "pod tenant-b/p of tenant b holds 2 GPUs of node n1, which is a's",
        ),
        (
            [node("n1", 4, "a")],
            [pod("p", "default", 1, "n1")],
            "pod default/p of no tenant holds 1 GPUs of node n1, which is a's",
        ),
        (
            [node("n1", 1)],
            [pod("p", "default", 1, "n1"), pod("q", "default", 1, "n1")],
            "node n1 has 1 GPUs, and its pods hold 2",
        ),
    ],
)
def test_every_overlap_is_told(nodes, pods, told):
    assert ledger(nodes, pods, NAMESPACES, [], {})["overlaps"] == [told]


def test_a_pod_holds_its_sum_or_its_largest_init_container():
    def container(gpus):
        return {"resources": {"limits": {"nvidia.com/gpu": gpus}}}

    assert gpus_of({"containers": [container("1"), container("2"), {}]}) == 3
    assert gpus_of({"containers": [container("1")], "initContainers": [container("2"), container("1")]}) == 2
    assert gpus_of({"containers": [{}]}) == 0


def cluster(own_scheduler, tenant, **more):
    return tenant_values(own_scheduler, {f"tenant.kubegpu.tenancy/{tenant}": "true"} if tenant else {}, "high", None, {}, **more)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (cluster(True, "a"), cluster(True, "b"), "x and y do not see each other's pods, and no quota bounds x and y"),
        (cluster(True, "a"), cluster(True, None), "x and y do not see each other's pods, and no quota bounds x and y"),
        (cluster(True, "a", gpu_quota=2), cluster(True, "b"), "x and y do not see each other's pods, and no quota bounds y"),
        (cluster(True, "a", gpu_quota=2), cluster(True, "b", gpu_quota=2), None),
        (
            cluster(True, "a", gpu_quota=2),
            cluster(False, "b", gpu_quota=3),
            "x 2 and y 3 may hold 5 GPUs together, and the node has 4",
        ),
        (
            cluster(True, "a", gpu_quota=2),
            cluster(False, "b", gpu_quota=2, host_kai=True),
            "the host cluster's KAI Scheduler places y's pods, x brings a scheduler of its own, and neither leaves the other's pods alone",
        ),
        (cluster(False, "a", host_kai=True), cluster(False, "b", host_kai=True), None),
        (cluster(True, "a"), cluster(True, "c"), None),
        (cluster(True, "a"), cluster(False, None), None),
    ],
)
def test_virtual_clusters_that_book_the_same_gpus(one, other, told):
    nodes = [node("n1", 4, "a", "b"), node("cp", 0, "a", "b", "c")]
    expected = [f"node n1 with 4 GPUs: {told}"] if told else []
    assert collisions(nodes, {"x": one, "y": other}) == expected
    assert ledger(nodes, [], NAMESPACES, [], {"x": one, "y": other})["overlaps"] == expected
