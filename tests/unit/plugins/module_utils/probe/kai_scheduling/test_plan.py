# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from decimal import Decimal

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.facts import CHECKS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.plan import (
    Capacity,
    allocated,
    free_by_pool,
    free_gpus,
    gpu_memory,
    plan,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.tests.unit.probes import QUEUES, SETTINGS

LEAVES = ["training", "notebooks"]


def capacity(free=4, memory=80000, **taken):
    return Capacity(QUEUES, {name: Decimal(str(gpus)) for name, gpus in taken.items()}, free, memory)


def check(name, leaf="training", where=None):
    checks, _records = plan([name], [leaf], where or capacity(), SETTINGS)
    return checks[0]


def test_plan():
    checks, records = plan(CHECKS, LEAVES, capacity(), SETTINGS)
    assert [(c.name, c.queue, c.gpus) for c in checks] == [
        ("cpu", "training", 0),
        ("cpu", "notebooks", 0),
        ("gpu", "training", 1),
        ("gpu", "notebooks", 1),
        ("gang", "training", 0),
        ("gang", "notebooks", 0),
        ("gang_too_large", "training", 0),
        ("gang_too_large", "notebooks", 0),
        ("over_limit", "training", 0),
        ("over_limit", "notebooks", 0),
        ("fraction", "training", 1),
        ("quarters", "training", 1),
        ("gpu_memory", "training", 1),
        ("burst", "training", 4),
    ]
    assert records == []
    # The checks whose pods share GPUs come last, in any order in which they are asked for.
    checks, _records = plan(["burst", "fraction", "cpu"], ["training"], capacity(), SETTINGS)
    assert [item.name for item in checks] == ["cpu", "fraction", "burst"]


def test_plan_without_limit_or_queue():
    checks, records = plan(["over_limit"], ["open", "gone"], capacity(), SETTINGS)
    assert checks == []
    assert [(r["queue"], r["verdict"]) for r in records] == [("gone", "failed"), ("open", "not_tried")]


def test_pods():
    (gpu,) = check("gpu").pods
    assert gpu["metadata"]["labels"] == {"kai.scheduler/queue": "training", "priorityClassName": "train"}
    assert gpu["spec"]["runtimeClassName"] == "nvidia"
    assert gpu["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert check("over_limit", "notebooks").pods[0]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "3"
    assert "runtimeClassName" not in check("cpu").pods[0]["spec"]


def asked(check):
    return [next(iter(pod["metadata"]["annotations"].items())) for pod in check.pods]


def fractions(*portions):
    return [("gpu-fraction", portion) for portion in portions]


MIXED, QUARTERS = ("0.5", "0.25", "0.25"), ("0.25",) * 4


@pytest.mark.parametrize(
    ("name", "where", "pods", "gpus"),
    [
        ("fraction", capacity(), fractions(*MIXED), 1),
        ("quarters", capacity(), fractions(*QUARTERS), 1),
        # There is no room, which is for the capacity to say.
        ("fraction", capacity(free=0), fractions(*MIXED), 1),
        ("gpu_memory", capacity(memory=143700), [("gpu-memory", "71850")] * 2, 1),
        ("burst", capacity(), fractions(*["0.5"] * 8), 4),
        ("burst", capacity(training=2), fractions(*["0.5"] * 4), 2),
        ("burst", capacity(free=1), fractions(*["0.5"] * 4), 2),
    ],
)
def test_pods_that_share_gpus_fill_those_that_are_free(name, where, pods, gpus):
    planned = check(name, where=where)
    assert (asked(planned), planned.gpus, planned.share, sum(planned.portions)) == (pods, gpus, gpus, gpus)
    assert planned.first == (len(pods) if name == "burst" else 1)
    assert {pod["spec"]["runtimeClassName"] for pod in planned.pods} == {"nvidia"}


def test_a_burst_has_ten_pods_at_most():
    assert len(check("burst", "open", capacity(free=20)).pods) == 10


def test_memory_of_gpus_needs_a_label():
    checks, records = plan(["gpu_memory"], ["training"], capacity(memory=0), SETTINGS)
    assert checks == []
    assert [(record["verdict"], record["reason"]) for record in records] == [
        ("not_tried", "no node with a free GPU has the label nvidia.com/gpu.memory")
    ]


def test_memory_is_that_of_the_smallest_gpu_on_a_node_with_a_free_one():
    def node(name, memory, gpus="1"):
        labels = {"nvidia.com/gpu.memory": memory} if memory else {}
        return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": {"nvidia.com/gpu": gpus}}}

    nodes = [
        node("a", "143771"),
        node("b", "81559"),
        node("c", "40960", gpus="0"),
        node("d", ""),
        node("e", "much"),
        node("f", "0"),
    ]
    assert gpu_memory(nodes, [], "nvidia.com/gpu") == 81500
    assert gpu_memory(nodes[2:], [], "nvidia.com/gpu") == 0


def test_a_gang_is_one_group_and_too_large_for_its_queue():
    gang = check("gang_too_large", "notebooks")
    assert gang.gang["spec"] == {"minMember": 2, "queue": "notebooks", "priorityClassName": "train"}
    assert {pod["metadata"]["annotations"]["pod-group-name"] for pod in gang.pods} == {gang.gang["metadata"]["name"]}
    asked = [pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu") for pod in gang.pods]
    assert asked == [None, "3"]
    assert check("gang").pods[1]["spec"]["containers"][0]["resources"]["limits"].keys() == {"cpu", "memory"}


def test_what_is_free():
    def node(name, gpus, **spec):
        return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"nvidia.com/gpu": gpus}}}

    def user(node, gpus, phase):
        container = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
        return {"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [container]}, "status": {"phase": phase}}

    nodes = [node("a", "4"), node("b", "4", unschedulable=True)]
    pods = [user("a", "1", "Running"), user("a", "1", "Succeeded"), user("b", "2", "Running")]
    assert free_gpus(nodes, pods, "nvidia.com/gpu") == 3
    init = user("a", "0", "Pending")
    init["spec"]["initContainers"] = [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]
    assert free_gpus(nodes, [*pods, init], "nvidia.com/gpu") == 1
    queue = {"metadata": {"name": "q"}, "status": {"allocated": {"nvidia.com/gpu": "500m"}}}
    assert allocated([queue], "nvidia.com/gpu") == {"q": Decimal("0.5")}


@pytest.mark.parametrize(
    ("name", "leaf", "where", "running", "shortage"),
    [
        ("gpu", "training", capacity(), [], ""),
        ("gpu", "training", capacity(free=0), [], "it needs 1 free GPUs, there are 0"),
        ("gpu", "training", capacity(ml=4), [], "queue ml has 4 of 4 allocated"),
        ("gpu", "notebooks", capacity(free=1), ["gpu"], "there are 0"),
        ("gpu", "notebooks", capacity(ml=3), ["gpu"], "queue ml has 4 of 4"),
        ("cpu", "training", capacity(free=0, ml=4), [], ""),
        ("fraction", "training", capacity(), [], ""),
        ("fraction", "training", capacity(free=1), ["gpu"], "it needs 1 free GPUs, there are 0"),
        ("fraction", "training", capacity(free=1), [], ""),
        ("fraction", "training", capacity(ml=4), [], "it needs 1 GPUs, queue ml has 4 of 4 allocated"),
        ("burst", "training", capacity(), [], ""),
        ("burst", "training", capacity(training=3, ml=3), [], "it needs 2 GPUs, queue training has 3 of 4 allocated"),
        ("fraction", "training", capacity(), ["cpu", "over_limit"], ""),
        ("fraction", "training", capacity(free=0), [], "needs 1 free GPUs, there are 0"),
        ("burst", "training", capacity(free=1), [], "needs 2 free GPUs, there are 1"),
        ("gpu", "notebooks", capacity(), ["fraction"], ""),
    ],
)
def test_what_there_is_no_capacity_for(name, leaf, where, running, shortage):
    found = where.shortage(check(name, leaf, where), [check(other) for other in running])
    assert shortage in found if shortage else found == ""


# --- node pools ----------------------------------------------------------------------------------------------------

POOLED = parse(
    [
        {"name": "fast", "node_pool": "h100", "gpu": {"limit": 4}, "children": [{"name": "big"}]},
        {"name": "all", "gpu": {"limit": 4}},
    ]
)


def test_pods_and_gangs_name_the_node_pool_of_their_queue():
    checks, _records = plan(CHECKS, ["big", "all"], Capacity(POOLED, {}, 9, 80000, {"h100": 4, "": 5}), SETTINGS)
    assert {check.queue for check in checks} == {"big", "all"}
    for check in checks:
        pools = {
            item["metadata"].get("labels", {}).get("kai.scheduler/node-pool") for item in [*check.pods, check.gang or {}] if item
        }
        assert pools == {"h100" if check.queue == "big" else None}, check.name


def test_only_gpus_of_a_queues_node_pool_are_free_for_it():
    where = Capacity(POOLED, {}, 3, 80000, {"h100": 1, "": 2})
    (big,), (other,) = (plan(["gpu"], [leaf], where, SETTINGS)[0] for leaf in ("big", "all"))
    assert where.shortage(big, [other]) == ""
    assert where.shortage(big, [big]) == "it needs 1 free GPUs, there are 0"
    assert Capacity(POOLED, {}, 3, 80000, {"": 3}).shortage(big, []) == "it needs 1 free GPUs, there are 0"
    # No node has a pool.
    without = Capacity(POOLED, {}, 3)
    assert without.shortage(big, []) == "it needs 1 free GPUs, there are 0"
    assert without.shortage(other, []) == ""


def test_free_gpus_by_node_pool():
    def node(name, pool):
        labels = {"kai.scheduler/node-pool": pool} if pool else {}
        return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}

    container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pods = [{"metadata": {"name": "p"}, "spec": {"nodeName": "n2", "containers": [container]}, "status": {"phase": "Running"}}]
    assert free_by_pool([node("n1", ""), node("n2", "h100"), node("n3", "h100")], pods, "nvidia.com/gpu") == {"": 4, "h100": 7}
    assert free_by_pool([node("n1", "")], pods, "nvidia.com/gpu") == {}
