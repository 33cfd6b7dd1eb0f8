# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._ledger.devices import Assigned, Reader, assigned, devices, readers
from ansible_collections.kubegpu.tenancy.plugins.module_utils._ledger.status import ledger
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import part_of_gpu
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.overlaps import collisions
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import tenant_values
from ansible_collections.kubegpu.tenancy.tests.unit.synced import synced as on_host
from hypothesis import given
from hypothesis import strategies as st


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
# Those of tenants whose pods the host cluster's KAI Scheduler places.
SHARING = [
    {"metadata": {"name": f"tenant-{name}", "labels": {"kubegpu.tenancy/tenant": name, "kubegpu.tenancy/scheduler": "kai"}}}
    for name in ("a", "b")
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
        on_host(pod("gpu-reservation", "tenant-a", 1, "n1", app="kai-resource-reservation"), "a", "kai-resource-reservation"),
        pod("waits", "tenant-a", 1, phase="Pending"),
        pod("done", "tenant-b", 4, "n2", "Succeeded"),
        pod("web", "tenant-b", 0, "cp"),
    ]
    assert ledger(nodes, pods, NAMESPACES, QUOTAS, {}) == {
        "nodes": [
            {"node": "cp", "tenants": ["a", "b"], "allocatable": 0, "in_use": 0, "gpus": [], "others": {}},
            {
                "node": "n1",
                "tenants": ["a"],
                "allocatable": 4,
                "in_use": 3,
                "gpus": [{"a": 1.0}, {"a": 1.0}, {"a": 1.0}, {}],
                "others": {},
            },
            {"node": "n2", "tenants": ["b"], "allocatable": 4, "in_use": 0, "gpus": [{}] * 4, "others": {}},
        ],
        "products": [{"product": "", "pool": "", "nodes": 2, "allocatable": 8, "in_use": 3}],
        "tenants": [
            {"tenant": "a", "nodes": ["cp", "n1"], "promised": 4, "quota": None, "requested": 4, "reserved": 1, "in_use": 3}
            | {"shares": 3.0, "shared_with": [], "others": {}, "claimed": 0},
            {"tenant": "b", "nodes": ["cp", "n2"], "promised": 4, "quota": 2, "requested": 0, "reserved": 0, "in_use": 0}
            | {"shares": 0.0, "shared_with": [], "others": {}, "claimed": 0},
        ],
        "overlaps": [],
        "picture": ["n1 [a] [a] [a] [free]", "n2 [free] [free] [free] [free]"],
        "unread": [],
    }


def test_gpus_are_counted_by_product_and_node_pool():
    def labelled(name, gpus, product="", pool=""):
        item = node(name, gpus, "a")
        labels = {"nvidia.com/gpu.product": product, "kai.scheduler/node-pool": pool}
        item["metadata"]["labels"] |= {key: value for key, value in labels.items() if value}
        return item

    nodes = [
        labelled("n1", 8, "NVIDIA-H100", "h100"),
        labelled("n2", 8, "NVIDIA-A100", "a100"),
        labelled("n3", 8, "NVIDIA-A100", "a100"),
        labelled("n4", 4, "NVIDIA-A100"),
        labelled("cp", 0, pool="a100"),
        labelled("n5", 1),
    ]
    pods = [pod("p", "tenant-a", 3, "n2"), pod("q", "tenant-a", 2, "n3"), pod("r", "tenant-a", 1, "n4"), pod("s", "tenant-a", 1)]
    assert ledger(nodes, pods, NAMESPACES, [], {})["products"] == [
        {"product": "", "pool": "", "nodes": 1, "allocatable": 1, "in_use": 0},
        {"product": "NVIDIA-A100", "pool": "", "nodes": 1, "allocatable": 4, "in_use": 1},
        {"product": "NVIDIA-A100", "pool": "a100", "nodes": 2, "allocatable": 16, "in_use": 5},
        {"product": "NVIDIA-H100", "pool": "h100", "nodes": 1, "allocatable": 8, "in_use": 0},
    ]


def sharing(name, namespace, group, **notes):
    """Return a pod that shares a GPU of n1."""
    item = pod(name, namespace, 0, "n1", **{"runai-gpu-group": group})
    item["metadata"]["annotations"] = {key.replace("_", "-"): value for key, value in notes.items()}
    return item


def reservation(group, namespace="kai-resource-reservation"):
    return pod(f"reserves-{group}", namespace, 1, "n1", app="kai-resource-reservation", **{"runai-gpu-group": group})


def test_gpus_that_the_hosts_scheduler_reserves_are_of_the_tenants_in_their_groups():
    pods = [
        pod("whole", "tenant-a", 1, "n1"),
        reservation("g1"),
        sharing("s1", "tenant-a", "g1", gpu_fraction="0.5"),
        sharing("s2", "tenant-a", "g1", gpu_fraction="0.25"),
        reservation("g2"),
        sharing("s3", "tenant-b", "g2", gpu_memory="40000"),
    ]
    shared = node("n1", 4, "a", "b")
    shared["metadata"]["labels"]["nvidia.com/gpu.memory"] = "80000"
    found = ledger([shared], pods, SHARING, [], {})
    assert found["overlaps"] == []
    assert found["picture"] == ["n1 [a] [a 0.75] [b 0.5] [free]"]
    first, second = found["tenants"]
    assert (first["in_use"], first["reserved"], first["shares"], first["shared_with"]) == (2, 1, 1.75, [])
    assert (second["in_use"], second["reserved"], second["shares"], second["shared_with"]) == (1, 1, 0.5, [])


@pytest.mark.parametrize(
    ("notes", "size", "part"),
    [
        ({"gpu_fraction": "0.5"}, "46068", 0.5),
        # The scheduler of every release reads all numbers of Go.
        ({"gpu_fraction": "0x1p-1"}, "46068", 0.5),
        ({"gpu_fraction": "1_0e-2"}, "46068", 0.1),
        ({"gpu_fraction": "1"}, "46068", 1),
        ({"gpu_fraction": "NaN"}, "46068", 0),
        ({"gpu_fraction": "1.5"}, "46068", 0),
        ({"gpu_fraction": " 0.5"}, "46068", 0),
        ({"gpu_memory": "23034"}, "46068", 0.5),
        ({"gpu_memory": "23034"}, "0", 0),
        ({"gpu_memory": "23034"}, "", 0),
        ({"gpu_memory": "23034"}, "46068.5", 0),
        ({"gpu_memory": "0.5"}, "46068", 0),
        ({"gpu_memory": "0x10"}, "46068", 0),
        ({"gpu_memory": "90000"}, "46068", 1),
        ({"gpu_fraction": "0.25", "gpu_memory": "23034"}, "46068", 0.25),
        ({"gpu_fraction": "odd", "gpu_memory": "23034"}, "46068", 0.5),
        ({}, "46068", 0),
    ],
)
def test_a_part_of_a_gpu_is_what_kai_counts(notes, size, part):
    assert float(part_of_gpu(sharing("s", "tenant-a", "g", **notes), size)) == pytest.approx(part)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (["2000"] * 23, []),
        (["2000"] * 24, ["1.04194"]),
        # What is not exact is no overlap.
        (["15356"] * 3, []),
    ],
)
def test_parts_of_one_gpu_that_add_up_to_more_than_it_has_are_an_overlap(parts, told):
    shared = node("n1", 2, "a")
    shared["metadata"]["labels"]["nvidia.com/gpu.memory"] = "46068"
    pods = [reservation("g1"), *(sharing(f"s{index}", "tenant-a", "g1", gpu_memory=part) for index, part in enumerate(parts))]
    assert ledger([shared], pods, SHARING, [], {})["overlaps"] == [
        f"parts of a GPU of node n1, which pod kai-resource-reservation/reserves-g1 reserves, add up to {total} of it"
        for total in told
    ]


def test_two_gpus_that_are_reserved_for_the_same_pods_are_an_overlap():
    second = reservation("g1")
    second["metadata"]["name"] = "again"
    pods = [reservation("g1"), second, reservation("g2"), sharing("s1", "tenant-a", "g1", gpu_fraction="0.5")]
    both = "pods kai-resource-reservation/again and kai-resource-reservation/reserves-g1"
    told = f"{both} each reserve a GPU of node n1 for the same pods, which share one of them"
    assert told in ledger([node("n1", 4, "a")], pods, SHARING, [], {})["overlaps"]


def test_two_gpus_with_many_groups_are_one_overlap_and_none_without_a_node():
    pods = [reservation("g1"), reservation("g2")]
    for pod in pods:
        pod["metadata"]["labels"] |= {f"runai-gpu-group/{number}": str(number) for number in range(50)}
    assert str(ledger([node("n1", 4, "a")], pods, SHARING, [], {})["overlaps"]).count("for the same pods") == 1
    for pod in pods:
        del pod["spec"]["nodeName"]
    assert ledger([node("n1", 4, "a")], pods, SHARING, [], {})["overlaps"] == []


@pytest.mark.parametrize(("text", "part"), [("0." + "9" * 300, 1.0), ("0." + "5" * 300, 0.5555555555555556), ("5e-00001", 0.5)])
def test_a_part_counts_however_long_it_is_written(text, part):
    pods = [reservation("g1"), sharing("s1", "tenant-a", "g1", gpu_fraction=text)]
    assert ledger([node("n1", 2, "a")], pods, SHARING, [], {})["nodes"][0]["gpus"][0] == {"a": part}


def test_a_gpu_that_two_tenants_share_is_an_overlap():
    pods = [
        reservation("g1"),
        sharing("s1", "tenant-a", "g1", gpu_fraction="0.5"),
        sharing("s2", "tenant-b", "g1", gpu_fraction="odd"),
    ]
    found = ledger([node("n1", 2, "a", "b")], pods, SHARING, [], {})
    assert found["overlaps"] == [
        "a GPU of node n1, which pod kai-resource-reservation/reserves-g1 reserves, is shared by pods of tenants a and b"
    ]
    assert found["picture"] == ["n1 [a 0.5, b 0] [free]"]
    assert found["unread"] == [
        "the part of a GPU that pod tenant-b/s2 has cannot be read: its annotations and label nvidia.com/gpu.memory of node n1 do not say"
    ]
    assert [row["shared_with"] for row in found["tenants"]] == [["b"], ["a"]]
    assert [row["in_use"] for row in found["tenants"]] == [1, 1]
    assert found["nodes"][0]["in_use"] == 1


def test_a_reservation_that_nobody_needs_any_more_is_of_nobody():
    ended = sharing("s1", "tenant-a", "g1", gpu_fraction="0.5")
    ended["status"]["phase"] = "Succeeded"
    found = ledger([node("n1", 1, "a")], [reservation("g1"), ended], NAMESPACES, [], {})
    assert found["overlaps"] == ["pod kai-resource-reservation/reserves-g1 of no tenant holds 1 GPUs of node n1, which is a's"]
    assert found["picture"] == ["n1 [no tenant 0]"]


def test_slices_of_gpus_count_by_their_own_names():
    slices, sliced = "nvidia.com/mig-1g.10gb", node("n1", 1, "a", "b")
    sliced["status"]["allocatable"] |= {slices: "2", "cpu": "8"}
    pods = [pod(f"p{number}", namespace, 0, "n1") for number, namespace in enumerate(["tenant-a", "tenant-a", "tenant-b"])]
    for one in pods:
        one["spec"]["containers"] = [{"resources": {"limits": {slices: "1"}}}]
    found = ledger([sliced], pods, NAMESPACES, [], {})
    assert found["nodes"][0]["others"] == {slices: {"allocatable": 2, "in_use": 3}}
    assert [row["others"] for row in found["tenants"]] == [{slices: 2}, {slices: 1}]
    assert found["overlaps"] == [f"node n1 has 2 {slices}, and its pods hold 3"]


def claim(namespace, device, **more):
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": device} | more
    return {"metadata": {"name": device, "namespace": namespace}, "status": {"allocation": {"devices": {"results": [result]}}}}


def test_devices_that_are_claimed_count_by_tenant():
    waits = {"metadata": {"name": "waits", "namespace": "tenant-a"}}
    claims = [claim("tenant-a", "gpu-0"), claim("tenant-a", "gpu-1"), claim("tenant-b", "gpu-1"), waits]
    claims += [claim("tenant-b", "gpu-0", adminAccess=True), claim("tenant-b", "gpu-0", shareID="x")]
    found = ledger([node("n1", 0, "a", "b")], [], NAMESPACES, [], {}, claims)
    assert [row["claimed"] for row in found["tenants"]] == [2, 1]
    assert found["overlaps"] == ["device gpu-1 of pool n1 (gpu.nvidia.com) is allocated to claims of a and b"]


def test_a_claim_for_the_gpus_that_a_pod_asks_for_counts_as_the_pods():
    served = pod("p", "tenant-a", 1, "n1")
    mapping = {"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "gpu"}
    served["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "gpu-0", "requestMappings": [mapping]}
    claims = [claim("tenant-a", "gpu-0"), claim("tenant-a", "gpu-1")]
    (row, _other) = ledger([node("n1", 2, "a")], [served], NAMESPACES, [], {}, claims)["tenants"]
    assert (row["in_use"], row["claimed"]) == (1, 1)
    mapping["resourceName"] = "deviceclass.resource.kubernetes.io/gpu"
    (row, _other) = ledger([node("n1", 2, "a")], [served], NAMESPACES, [], {}, claims)["tenants"]
    assert (row["in_use"], row["claimed"]) == (1, 2)


@given(
    st.lists(st.tuples(st.sampled_from(["tenant-a", "tenant-b", "default"]), st.integers(0, 3), st.booleans()), max_size=12),
    st.integers(0, 8),
)
def test_the_ledger_adds_up(placed, offered):
    """In every case, each device that a pod holds stands once in its node's row, and the others are free."""
    pods = [
        pod(f"p{number}", where, gpus, "n1", phase="Running" if runs else "Failed")
        for number, (where, gpus, runs) in enumerate(placed)
    ]
    found = ledger([node("n1", offered, "a", "b")], pods, NAMESPACES, [], {})
    (row,) = found["nodes"]
    holding = sum(gpus for _where, gpus, runs in placed if runs)
    assert row["in_use"] == holding
    assert len(row["gpus"]) == max(offered, holding)
    assert sum(not parts for parts in row["gpus"]) == max(0, offered - holding)
    assert sum(tenant["in_use"] for tenant in found["tenants"]) == sum(
        gpus for where, gpus, runs in placed if runs and where != "default"
    )
    assert any("its pods hold" in overlap for overlap in found["overlaps"]) == (holding > offered)


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


# --- down to pods and devices ------------------------------------------------------------------------------------


def checkpoint(registered, **given):
    """Return kubelet's file about devices, in which each pod of a UID has these GPUs, and entries of other plugins."""
    entries = [
        {
            "PodUID": uid,
            "ContainerName": "c",
            "ResourceName": "nvidia.com/gpu",
            "DeviceIDs": {str(numa): [one]},
            "AllocResp": "Cg==",
        }
        for uid, ids in given.items()
        for numa, one in enumerate(ids)
    ]
    other = {"PodUID": "uid-p1", "ContainerName": "c", "ResourceName": "example.com/nic", "DeviceIDs": {"-1": ["nic0"]}}
    data = {
        "PodDeviceEntries": [*entries, other],
        "RegisteredDevices": {"nvidia.com/gpu": registered, "example.com/nic": ["nic0"]},
    }
    return json.dumps({"Data": data, "Checksum": 1})


def synced(item, name):
    """Have a pod as vCluster syncs it from a namespace of its tenant, with a UID."""
    uid = f"uid-{item['metadata']['name']}"
    item["metadata"] |= {"name": name, "uid": uid}
    return on_host(item, item["metadata"]["namespace"].removeprefix("tenant-"))


def test_what_kubelet_says_of_devices():
    found = assigned(checkpoint(["GPU-a", "GPU-b", "GPU-c"], **{"uid-p1": ["GPU-a", "GPU-b"], "uid-gone": ["GPU-c"]}))
    assert found == Assigned(frozenset({"GPU-a", "GPU-b", "GPU-c"}), {"uid-p1": {"GPU-a", "GPU-b"}, "uid-gone": {"GPU-c"}})
    # As Go writes maps and lists in which nothing is.
    assert assigned('{"Data": {"PodDeviceEntries": null, "RegisteredDevices": null}}') == Assigned(frozenset(), {})


@pytest.mark.parametrize(
    "text", ["", "no", "[]", "{}", '{"Data": null}', '{"Data": {"PodDeviceEntries": [1], "RegisteredDevices": {}}}']
)
def test_a_file_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match=r"Expecting value|it is not of the form that is known"):
        assigned(text)


def test_every_device_has_a_row_for_each_pod_that_has_it():
    reserves = on_host(reservation("g1", "tenant-a"), "a", "kai-resource-reservation")
    reserves["metadata"]["uid"] = "uid-reserves-g1"
    pods = [
        synced(pod("whole", "tenant-a", 1, "n1"), "train"),
        reserves,
        synced(sharing("s1", "tenant-a", "g1", gpu_fraction="0.5"), "half"),
        synced(sharing("s2", "tenant-a", "g1", gpu_fraction="0.25"), "quarter"),
        pod("old", "default", 1, "n1", phase="Succeeded"),
        pod("starts", "default", 1, "n1"),
        pod("elsewhere", "default", 1, "n3"),
    ]
    seen = assigned(
        checkpoint(["GPU-a", "GPU-b", "GPU-c"], **{"uid-whole": ["GPU-c"], "uid-reserves-g1": ["GPU-a"], "uid-old": ["GPU-b"]})
    )
    rows = devices([node("n2", 2), node("n1", 3, "a")], pods, NAMESPACES, {"n1": seen})
    assert [tuple(row.values()) for row in rows] == [
        ("n1", "GPU-a", "a", "default/half", 0.5),
        ("n1", "GPU-a", "a", "default/quarter", 0.25),
        ("n1", "GPU-b", "", "", 0.0),
        ("n1", "GPU-c", "a", "default/train", 1.0),
        # Kubelet has not given it any device yet.
        ("n1", None, "", "default/starts", 1.0),
        # Of this node kubelet's file could not be read.
        ("n2", None, "", "", 0.0),
        ("n2", None, "", "", 0.0),
    ]
    assert list(rows[0]) == ["node", "device", "tenant", "pod", "part"]


def test_without_kubelet_what_kai_noted_of_shared_gpus_is_known():
    device = "GPU-9f3e4c1a-0000-4000-8000-000000000003"
    reserves = reservation("g1")
    reserves["metadata"]["annotations"] = {"run.ai/reserve_for_gpu_index": device}
    # What a tenant's own KAI Scheduler noted are the tenant's words.
    idle = on_host(reservation("g2", "tenant-a"), "a", "kai-resource-reservation")
    idle["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"] = device
    pods = [
        reserves,
        synced(sharing("s1", "tenant-b", "g1", gpu_fraction="0.5"), "half"),
        idle,
        pod("whole", "tenant-a", 1, "n1"),
    ]
    rows = devices([node("n1", 4)], pods, SHARING, {})
    assert [(row["device"], row["tenant"], row["pod"], row["part"]) for row in rows] == [
        (device, "b", "default/half", 0.5),
        # No pod shares what it reserves any more.
        (None, "a", "kai-resource-reservation/reserves-g2", 0.0),
        (None, "a", "tenant-a/whole", 1.0),
        (None, "", "", 0.0),
    ]


def test_slices_of_gpus_are_devices_as_well():
    uses = synced(pod("p1", "tenant-a", 0, "n1"), "small")
    seen = Assigned(frozenset({"MIG-1", "MIG-2"}), {"uid-p1": frozenset({"MIG-2"})})
    assert [(row["device"], row["pod"]) for row in devices([node("n1", 0)], [uses], NAMESPACES, {"n1": seen})] == [
        ("MIG-1", ""),
        ("MIG-2", "default/small"),
    ]


def plugin(name, namespace="nvidia-device-plugin", where="n1", phase="Running", path="/var/lib/kubelet/device-plugins/"):
    spec = {
        "nodeName": where,
        "volumes": [{"name": "v", "hostPath": {"path": path}}, {"name": "config", "configMap": {"name": "c"}}],
        "containers": [
            {"name": "config"},
            {"name": "ctr", "volumeMounts": [{"name": "config", "mountPath": "/config"}, {"name": "v", "mountPath": "/plugins"}]},
        ],
    }
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": {"phase": phase}}


def test_kubelets_file_is_read_through_a_device_plugin_of_no_tenant():
    pods = [
        plugin("forged", "tenant-a"),
        plugin("starts", where="n2", phase="Pending"),
        plugin("logs", where="n3", path="/var/log"),
        plugin("first"),
        plugin("second"),
        pod("whole", "default", 1, "n1"),
    ]
    path = "/plugins/kubelet_internal_checkpoint"
    assert readers(pods, NAMESPACES) == {"n1": Reader("first", "nvidia-device-plugin", "ctr", path)}


def test_a_namespace_that_a_syncer_brought_is_no_other_tenants():
    def namespace(name, **labels):
        return {"metadata": {"name": name, "labels": {"kubegpu.tenancy/tenant": "ml"} | labels}}

    brought = namespace("forged", **{"vcluster.loft.sh/managed-by": "tenant-evil-x-evil"})
    nodes = [node("n1", 8, "ml")]
    pods = [pod("own", "tenant-ml", 2, "n1"), pod("forged", "forged", 3, "n1")]
    rows = {row["tenant"]: row for row in ledger(nodes, pods, [namespace("tenant-ml"), brought], [], {})["tenants"]}
    assert (rows["ml"]["requested"], rows["ml"]["in_use"]) == (2, 2)
