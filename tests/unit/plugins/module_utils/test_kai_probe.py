# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from decimal import Decimal

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.plan import (
    CHECKS,
    Room,
    Seen,
    Settings,
    allocated,
    free_gpus,
    judge,
    plan,
    quantity,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import parse

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


def room(free=4, **taken):
    return Room(QUEUES, {name: Decimal(str(gpus)) for name, gpus in taken.items()}, free)


def check(name, leaf="training", where=None):
    checks, _records = plan([name], [leaf], where or room(), SETTINGS)
    return checks[0]


def pod(name, phase="Running", log="", placed=True, **status):
    return {
        "metadata": {"name": name, "annotations": {"pod-group-name": f"pg-{name}"} if placed else {}},
        "spec": {"nodeName": "n1"} if phase != "Pending" else {},
        "status": {"phase": phase} | status,
        "log": log,
    }


def seen(*pods, **more):
    return Seen(
        {item["metadata"]["name"]: item for item in pods}, {item["metadata"]["name"]: item["log"] for item in pods}, **more
    )


def listing(*uuids):
    return "\n".join(f"GPU {n}: NVIDIA H100 (UUID: {uuid})" for n, uuid in enumerate(uuids))


def test_plan():
    checks, records = plan(CHECKS, LEAVES, room(), SETTINGS)
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
    checks, records = plan(["over_limit"], ["open", "gone"], room(), SETTINGS)
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


@pytest.mark.parametrize(
    ("phases", "reasons", "verdict", "reason"),
    [
        (["Pending", "Pending"], ["OverLimit"], "passed", "none of its pods was placed: OverLimit: asks for 3"),
        (["Pending", "Pending"], [], None, "the scheduler has not said yet why it waits"),
        (["Running", "Pending"], ["OverLimit"], "failed", "was placed on n1 without the rest of its gang"),
    ],
)
def test_a_gang_too_large_must_not_start_at_all(phases, reasons, verdict, reason):
    gang = check("gang_too_large")
    pods = [pod(item["metadata"]["name"], phase) for item, phase in zip(gang.pods, phases, strict=True)]
    conditions = [{"reasons": [{"reason": name, "message": "asks for 3"} for name in reasons]}]
    groups = {f"pg-{gang.pods[0]['metadata']['name']}": {"status": {"schedulingConditions": conditions}}}
    found = judge(gang, seen(*pods, groups=groups), room())
    assert found[0] == verdict
    assert reason in found[1]


@pytest.mark.parametrize(("text", "gpus"), [("1500m", "1.5"), ("2", "2"), (0, "0")])
def test_quantity(text, gpus):
    assert quantity(text) == Decimal(gpus)


def test_what_is_free():
    def node(name, gpus, **spec):
        return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"nvidia.com/gpu": gpus}}}

    def user(node, gpus, phase):
        container = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
        return {"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [container]}, "status": {"phase": phase}}

    nodes = [node("a", "4"), node("b", "4", unschedulable=True)]
    pods = [user("a", "1", "Running"), user("a", "1", "Succeeded"), user("b", "2", "Running")]
    assert free_gpus(nodes, pods, "nvidia.com/gpu") == 3
    queue = {"metadata": {"name": "q"}, "status": {"allocated": {"nvidia.com/gpu": "500m"}}}
    assert allocated([queue], "nvidia.com/gpu") == {"q": Decimal("0.5")}


@pytest.mark.parametrize(
    ("name", "leaf", "where", "running", "lack"),
    [
        ("gpu", "training", room(), [], ""),
        ("gpu", "training", room(free=0), [], "it needs 1 free GPUs, there are 0"),
        ("gpu", "training", room(ml=4), [], "queue ml has 4 of 4 allocated"),
        ("gpu", "notebooks", room(free=1), ["gpu"], "there are 0"),
        ("gpu", "notebooks", room(ml=3), ["gpu"], "queue ml has 4 of 4"),
        ("cpu", "training", room(free=0, ml=4), [], ""),
        ("fraction", "training", room(), [], ""),
        ("fraction", "training", room(free=2), ["gpu"], "it needs 2 free GPUs, there are 1"),
        ("fraction", "training", room(), ["cpu", "over_limit"], ""),
        ("fraction", "training", room(free=1), [], "needs 2 free GPUs"),
        ("gpu", "notebooks", room(), ["fraction"], ""),
    ],
)
def test_what_there_is_no_room_for(name, leaf, where, running, lack):
    found = where.lack(check(name, leaf), [check(other) for other in running])
    assert lack in found if lack else found == ""


CPU, GPU, OVER = check("cpu"), check("gpu"), check("over_limit")
PULL = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}


@pytest.mark.parametrize(
    ("of", "what", "verdict", "reason"),
    [
        (CPU, seen(pod("cpu-training", "Succeeded")), "passed", "placed on n1"),
        (CPU, seen(pod("cpu-training", placed=False)), "failed", "no pod group"),
        (CPU, seen(), "failed", "removed by someone else"),
        (CPU, seen(pod("cpu-training", "Pending")), None, "no reason given yet"),
        (CPU, seen(pod("cpu-training", "Pending", containerStatuses=[{"state": PULL}])), None, "ErrImagePull no such image"),
        (GPU, seen(pod("gpu-training", "Succeeded", listing("GPU-1a"))), "passed", "sees GPU-1a only"),
        (GPU, seen(pod("gpu-training", "Succeeded", listing("GPU-1a", "GPU-2b"))), "failed", "sees 2 GPUs"),
        (GPU, seen(pod("gpu-training", "Succeeded")), "failed", "sees 0 GPUs"),
        (GPU, seen(pod("gpu-training", "Running")), None, "no list"),
        (GPU, seen(pod("gpu-training", "Failed", "sh: nvidia-smi: not found\n")), "failed", "nvidia-smi: not found"),
        (OVER, seen(pod("over-limit-training", "Pending")), None, "without the reason OverLimit"),
        (OVER, seen(pod("over-limit-training", "Running")), "failed", "above the queue's limit"),
    ],
)
def test_verdicts(of, what, verdict, reason):
    found, told = judge(of, what, room())
    assert found == verdict
    assert reason in told


@pytest.mark.parametrize(("reason", "verdict"), [("OverLimit", "passed"), ("NonPreemptibleOverQuota", None)])
def test_over_limit_is_the_schedulers_word(reason, verdict):
    told = {"schedulingConditions": [{"reasons": [{"reason": reason, "message": "Limit is 4 GPUs"}]}]}
    what = seen(pod("over-limit-training", "Pending"), groups={"pg-over-limit-training": {"status": told}})
    found, message = judge(OVER, what, room())
    assert found == verdict
    assert f"{reason}: Limit is 4 GPUs" in message


@pytest.mark.parametrize(
    ("uuids", "reserved", "gpus", "verdict", "reason"),
    [
        (["GPU-a", "GPU-a", "GPU-b"], {"GPU-a", "GPU-b"}, "2.5", "passed", "two of three share GPU-a"),
        (["GPU-a", "GPU-b", "GPU-c"], {"GPU-a", "GPU-b", "GPU-c"}, "2.5", "failed", "spread over 3 GPUs"),
        (["GPU-a", "GPU-a", "GPU-a"], {"GPU-a"}, "2.5", "failed", "spread over 1 GPUs"),
        (["GPU-a", "GPU-a", ""], {"GPU-a"}, "2.5", None, "log of each pod"),
        (["GPU-a", "GPU-a", "GPU-b"], {"GPU-a"}, "2.5", None, "annotated with GPU-b"),
        (["GPU-a", "GPU-a", "GPU-b"], {"GPU-a", "GPU-b"}, "1.5", None, "counts 0.5 GPUs, not 1.5"),
    ],
)
def test_fractions(uuids, reserved, gpus, verdict, reason):
    halves = [pod(f"fraction-{n}", log=listing(uuid) if uuid else "") for n, uuid in enumerate(uuids, 1)]
    what = seen(*halves, reserved=reserved, allocated={"training": Decimal(gpus)})
    found, told = judge(check("fraction"), what, room(training=1))
    assert found == verdict
    assert reason in told
