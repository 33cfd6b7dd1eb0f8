# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json
import re

from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.recording import Recorder
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.validation import parse

START = datetime.datetime(2026, 11, 23, 8, 0, tzinfo=datetime.timezone.utc)
QUEUES = [
    {"metadata": {"name": "ml"}, "spec": {"resources": {"gpu": {"quota": 4, "limit": -1, "overQuotaWeight": 1}}}},
    {
        "metadata": {"name": "training"},
        "spec": {
            "parentQueue": "ml",
            "priority": 50,
            "resources": {
                "gpu": {"quota": 3, "limit": 4, "overQuotaWeight": 2},
                "cpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
            },
        },
    },
    {"metadata": {"name": "default-queue"}, "spec": {}},
]
CLASSES = [{"metadata": {"name": "urgent"}, "value": 200}, {"metadata": {"name": "unused"}, "value": 1}]


def at(seconds):
    return (START + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name, *, came=0, began=None, ended=None, gpus=0, labels=None, notes=None, scheduler="kai-scheduler", **spec):
    container = {
        "name": "secret-model",
        "image": "registry.example/secret:1",
        "command": ["secret"],
        "env": [{"name": "TOKEN", "value": "secret"}],
        "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}},
    }
    status = {"phase": "Pending"}
    if began is not None:
        status = {"phase": "Running", "startTime": at(began)}
    if ended is not None:
        status |= {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"finishedAt": at(ended)}}}]}
    return {
        "metadata": {
            "name": name,
            "namespace": "secret-team",
            "uid": name,
            "creationTimestamp": at(came),
            "labels": {"kai.scheduler/queue": "training"} | (labels or {}),
            "annotations": notes or {},
        },
        "spec": {"schedulerName": scheduler, "containers": [container]} | spec,
        "status": status,
    }


def node(name, gpus, unschedulable=False, taints=(), **labels):
    keys = {"kubernetes.io/hostname": name, "nvidia.com/gpu.memory": "81920", "disk": "ssd"} | labels
    return {
        "metadata": {"name": name, "labels": keys},
        "spec": {"unschedulable": unschedulable, "taints": list(taints)},
        "status": {"allocatable": {"cpu": "63500m", "memory": "500Gi", "nvidia.com/gpu": str(gpus)}},
    }


def record(pods, groups=(), nodes=(), end=600, plain_names=False):
    recorder = Recorder("kai-scheduler", plain_names)
    recorder.observe(START, pods, groups)
    return recorder.trace(START, START + datetime.timedelta(seconds=end), nodes, QUEUES, CLASSES)


def test_names_are_kept_where_they_are_asked_for():
    long = pod("train." + "x" * 60)
    found = record([pod("a", gpus=2), long], plain_names=True)
    names = [workload.name for workload in found.workloads]
    assert re.fullmatch("secret-team-a-w[0-9a-f]{10}", names[0])
    assert re.fullmatch("secret-team-train-x{16}-w[0-9a-f]{10}", names[1])
    assert parse(found.data()) == found
    assert [name.rsplit("-", 1)[1] for name in names] == [
        workload.name for workload in record([pod("a", gpus=2), long]).workloads
    ]


def test_what_a_pod_asks_for_is_kept_and_nothing_else():
    taint = {"key": "gpu", "operator": "Exists"}
    passing = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}
    asked = pod("a", came=30, gpus=2, nodeSelector={"zone": "a"}, tolerations=[taint, passing], priorityClassName="urgent")
    found = record([asked, pod("other", scheduler="default-scheduler")])
    (workload,) = found.data()["workloads"]
    assert workload.pop("name").startswith("w")
    assert workload == {
        "queue": "training",
        "arrives": 30.0,
        "gpus": 2,
        "cpu": "1500m",
        "memory": "1024Mi",
        "priority_class": "urgent",
        "node_selector": {"zone": "a"},
        "tolerations": [taint],
    }
    assert found.priority_classes == {"urgent": 200}
    assert "secret" not in json.dumps(found.data())
    assert parse(found.data()) == found


def test_topologies_are_kept_with_what_they_look_at():
    here = {"pod-group-name": "train"}
    constraint = {"topology": "racks", "requiredTopologyLevel": "rack", "preferredTopologyLevel": None}
    group = {
        "metadata": {"name": "train", "namespace": "secret-team"},
        "spec": {"minMember": 2, "topologyConstraint": constraint},
    }
    recorder = Recorder("kai-scheduler")
    recorder.observe(START, [pod("a", notes=here), pod("b", notes=here)], [group])
    topologies = [{"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "disk"}]}}]
    end = START + datetime.timedelta(seconds=60)
    found = recorder.trace(START, end, [node("n1", 8, rack="r1")], QUEUES, CLASSES, topologies)
    assert found.topologies == {"racks": ["rack", "disk"]}
    assert found.nodes[0].labels == {"rack": "r1", "disk": "ssd", "nvidia.com/gpu.memory": "81920"}
    (workload,) = found.workloads
    assert (workload.topology, workload.topology_required, workload.topology_preferred) == ("racks", "rack", "")
    assert parse(found.data()) == found


def test_parts_of_gpus():
    half, memory = pod("a", notes={"gpu-fraction": "0.5"}), pod("b", notes={"gpu-memory": "2000"})
    odd = pod("c", notes={"gpu-fraction": "many"})
    found = sorted((workload.gpus, workload.gpu_memory) for workload in record([half, memory, odd]).workloads)
    assert found == [(0, 0), (0, 2000), (0.5, 0)]


def test_the_class_of_a_label_comes_before_that_of_the_pod():
    (workload,) = record([pod("a", labels={"priorityClassName": "train"}, priorityClassName="urgent")]).workloads
    assert workload.priority_class == "train"


def test_when_pods_came_and_for_how_long_they_ran():
    earlier, over = pod("a", came=-100, began=-90, ended=50), pod("b", came=-100, began=-90, ended=-10)
    running, waiting = pod("c", came=5, began=9), pod("d", came=7)
    found = record([earlier, over, running, waiting]).workloads
    assert [(workload.arrives, workload.runs) for workload in found] == [(0, 140), (5, 0), (7, 0)]


def test_a_pod_that_is_gone_between_two_looks_ended():
    recorder = Recorder("kai-scheduler")
    recorder.observe(START, [pod("a", came=0, began=2)], [])
    recorder.observe(START + datetime.timedelta(seconds=60), [], [])
    recorder.observe(START + datetime.timedelta(seconds=90), [], [])
    (workload,) = recorder.trace(START, START + datetime.timedelta(seconds=100), [], QUEUES, []).workloads
    assert workload.runs == 58


def test_a_group_is_one_workload_of_its_queue():
    groups = [{"metadata": {"name": "g", "namespace": "secret-team"}, "spec": {"minMember": 2, "queue": "training"}}]
    members = [pod(f"m{n}", gpus=1, notes={"pod-group-name": "g"}, labels={"kai.scheduler/queue": "x"}) for n in range(3)]
    (workload,) = record(members, groups).workloads
    assert (workload.pods, workload.together, workload.queue) == (3, 2, "training")


def test_a_group_of_two_kinds_is_two_workloads_that_start_together():
    groups = [{"metadata": {"name": "g", "namespace": "secret-team"}, "spec": {"minMember": 3}}]
    notes = {"pod-group-name": "g"}
    leader, workers = pod("l", notes=notes), [pod(f"w{n}", gpus=4, notes=notes) for n in range(2)]
    trace = record([leader, *workers], groups)
    assert sorted((workload.pods, workload.together, workload.gpus) for workload in trace.workloads) == [(1, 1, 0), (2, 2, 4)]
    (group,) = {workload.group for workload in trace.workloads}
    assert [workload.name for workload in trace.workloads] == [f"{group}-1", f"{group}-2"]
    assert trace.together == {group: 3}
    assert parse(trace.data()) == trace


def test_a_queue_that_does_not_exist_is_the_default_one():
    (workload,) = record([pod("a", labels={"kai.scheduler/queue": "x"})]).workloads
    assert workload.queue == "default-queue"


def test_queues_as_users_write_them():
    # To the API, what is omitted is nothing.
    nothing = {"quota": 0, "limit": 0, "over_quota_weight": 0}
    assert record([]).queues == [
        {
            "name": "default-queue",
            "gpu": {"limit": 0, "over_quota_weight": 0},
            "cpu": nothing,
            "memory": nothing,
        },
        {"name": "ml", "gpu": {"quota": 4}, "cpu": nothing, "memory": nothing},
        {
            "name": "training",
            "parent": "ml",
            "priority": 50,
            "gpu": {"quota": 3, "limit": 4, "over_quota_weight": 2},
            "memory": nothing,
        },
    ]


def test_nodes_that_are_alike():
    taint = {"key": "gpu", "effect": "NoSchedule"}
    passing = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    nodes = [
        node("n1", 8, taints=[taint]),
        node("n2", 8, taints=[taint, passing]),
        node("n3", 4),
        node("n4", 8, unschedulable=True),
    ]
    found = record([pod("a", nodeSelector={"disk": "ssd"})], nodes=nodes).nodes
    assert [(shape.count, shape.gpus, shape.gpu_memory, shape.cpu, shape.taints) for shape in found] == [
        (1, 4, 81920, "63500m", []),
        (2, 8, 81920, "63500m", [taint]),
    ]
    # A label that a pod selects is kept; a node's name is not.
    assert found[0].labels == {"disk": "ssd", "nvidia.com/gpu.memory": "81920"}
