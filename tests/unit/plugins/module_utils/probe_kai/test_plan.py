# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from decimal import Decimal

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.facts import CHECKS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.plan import (
    Capacity,
    Settings,
    allocated,
    free_gpus,
    plan,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse

SETTINGS = Settings("kai-probe", "busybox", "kai-scheduler", "nvidia.com/gpu", "nvidia")
QUEUES = parse(
    [
        {
            "name": "ml",
            "gpu": {"limit": 4},
            "children": [{"name": "training", "gpu": {"limit": 4}}, {"name": "notebooks", "gpu": {"limit": 2}}],
        },
        {"name": "open"},
    ]
)
LEAVES = ["training", "notebooks"]


def capacity(free=4, **taken):
    return Capacity(QUEUES, {name: Decimal(str(gpus)) for name, gpus in taken.items()}, free)


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
        ("fraction", "training", 2),
    ]
    assert records == []


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
    assert [half["metadata"]["annotations"] for half in check("fraction").pods] == [{"gpu-fraction": "0.5"}] * 3


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
        ("fraction", "training", capacity(free=2), ["gpu"], "it needs 2 free GPUs, there are 1"),
        ("fraction", "training", capacity(), ["cpu", "over_limit"], ""),
        ("fraction", "training", capacity(free=1), [], "needs 2 free GPUs"),
        ("gpu", "notebooks", capacity(), ["fraction"], ""),
    ],
)
def test_what_there_is_no_capacity_for(name, leaf, where, running, shortage):
    found = where.shortage(check(name, leaf), [check(other) for other in running])
    assert shortage in found if shortage else found == ""
