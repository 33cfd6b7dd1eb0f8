# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import datetime
import json
from decimal import Decimal

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.plan import Capacity, Settings, plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.status import (
    Observation,
    fingerprint,
    judge,
    judge_begun,
    judge_logs,
    still_valid,
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


def capacity(free=4, **taken):
    return Capacity(QUEUES, {name: Decimal(str(gpus)) for name, gpus in taken.items()}, free)


def check(name, leaf="training", where=None):
    checks, _records = plan([name], [leaf], where or capacity(), SETTINGS)
    return checks[0]


def pod(name, phase="Running", log="", placed=True, **status):
    return {
        "metadata": {"name": name, "annotations": {"pod-group-name": f"pg-{name}"} if placed else {}},
        "spec": {"nodeName": "n1"} if phase != "Pending" else {},
        "status": {"phase": phase} | status,
        "log": log,
    }


def seen(*pods, **more):
    return Observation(
        {item["metadata"]["name"]: item for item in pods}, {item["metadata"]["name"]: item["log"] for item in pods}, **more
    )


def listing(*uuids):
    return "\n".join(f"GPU {n}: NVIDIA H100 (UUID: {uuid})" for n, uuid in enumerate(uuids))


@pytest.mark.parametrize(
    ("phases", "reasons", "verdict", "reason"),
    [
        (["Pending", "Pending"], ["OverLimit"], "passed", "none of its pods was placed: OverLimit: asks for 3"),
        (["Pending", "Pending"], [], None, "the scheduler has not given a reason to wait yet"),
        (["Running", "Pending"], ["OverLimit"], "failed", "was placed on n1 without the rest of its gang"),
    ],
)
def test_a_gang_too_large_must_not_start_at_all(phases, reasons, verdict, reason):
    gang = check("gang_too_large")
    pods = [pod(item["metadata"]["name"], phase) for item, phase in zip(gang.pods, phases, strict=True)]
    conditions = [{"reasons": [{"reason": name, "message": "asks for 3"} for name in reasons]}]
    groups = {f"pg-{gang.pods[0]['metadata']['name']}": {"status": {"schedulingConditions": conditions}}}
    found = judge(gang, seen(*pods, groups=groups), capacity())
    assert found[0] == verdict
    assert reason in found[1]


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
    found, observed = judge(of, what, capacity())
    assert found == verdict
    assert reason in observed


@pytest.mark.parametrize(("reason", "verdict"), [("OverLimit", "passed"), ("NonPreemptibleOverQuota", None)])
def test_over_limit_is_the_schedulers_reason(reason, verdict):
    status = {"schedulingConditions": [{"reasons": [{"reason": reason, "message": "Limit is 4 GPUs"}]}]}
    what = seen(pod("over-limit-training", "Pending"), groups={"pg-over-limit-training": {"status": status}})
    found, message = judge(OVER, what, capacity())
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
    found, observed = judge(check("fraction"), what, capacity(training=1))
    assert found == verdict
    assert reason in observed


def test_a_log_that_cannot_be_read_is_no_list_without_gpus():
    what = seen(pod("gpu-training", "Succeeded"), unreadable={"gpu-training": "connection refused"})
    assert judge(GPU, what, capacity()) == (None, "the log of pod gpu-training cannot be read: connection refused")
    halves = [pod(f"fraction-{n}", log=listing("GPU-a") if n > 1 else "") for n in (1, 2, 3)]
    found, observed = judge(check("fraction"), seen(*halves, unreadable={"fraction-1": "timeout"}), capacity())
    assert (found, observed) == (None, "the log of pod fraction-1 cannot be read: timeout")
    # What was read before counts.
    what = seen(pod("gpu-training", "Succeeded", listing("GPU-1a")), unreadable={"gpu-training": "timeout"})
    assert judge(GPU, what, capacity())[0] == "passed"


def test_pods_that_are_created_one_after_the_other():
    fraction = check("fraction")
    assert judge_begun(fraction, 1, seen(pod("fraction-1")))[0] == "passed"
    assert judge_begun(fraction, 2, seen(pod("fraction-1"), pod("fraction-2", "Pending")))[0] is None
    assert judge_begun(fraction, 2, seen(pod("fraction-1")))[0] == "failed"


@pytest.mark.parametrize(
    ("logs", "unreadable", "verdict", "reason"),
    [
        ({"kai-operator-1": "I1 all is well"}, {}, "passed", "in those of kai-operator-1"),
        ({"a": "", "b": "E1 x509: unknown authority"}, {"c": "gone"}, "failed", "1 lines about authorisation or webhooks"),
        ({"a": "I1 all is well"}, {"b": "connection refused"}, "not_tried", "could not be read: of pod b: connection refused"),
        ({}, {"b": "connection refused"}, "not_tried", "could not be read"),
        ({}, {}, "not_tried", "no pods"),
    ],
)
def test_logs_pass_only_where_all_were_read(logs, unreadable, verdict, reason):
    found = judge_logs(logs, unreadable)
    assert (found["name"], found["verdict"]) == ("logs", verdict)
    assert reason in found["reason"]


NODE = {
    "metadata": {"name": "n", "labels": {}},
    "spec": {},
    "status": {
        "allocatable": {"nvidia.com/gpu": "4"},
        "nodeInfo": {"bootID": "b1"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
QUEUE = {"metadata": {"name": "q"}, "spec": {"priority": 100}, "status": {"allocated": {}}}
KAI_POD = {"metadata": {"uid": "u1"}, "status": {"containerStatuses": [{"restartCount": 0}]}}
OPTIONS = {"queues": [], "checks": ["cpu"], "tolerations": [], "namespace": "kai-probe"}


def changed(item, value, *path):
    """A copy with one value changed."""
    copied = copy.deepcopy(item)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copied


@pytest.mark.parametrize(
    ("options", "queue", "node", "kai_pod"),
    [
        (OPTIONS | {"tolerations": [{"operator": "Exists"}]}, QUEUE, NODE, KAI_POD),
        (OPTIONS | {"namespace": "other"}, QUEUE, NODE, KAI_POD),
        (OPTIONS, changed(QUEUE, 50, "spec", "priority"), NODE, KAI_POD),
        (OPTIONS, QUEUE, changed(NODE, {}, "status", "allocatable"), KAI_POD),
        (OPTIONS, QUEUE, changed(NODE, "b2", "status", "nodeInfo", "bootID"), KAI_POD),
        (OPTIONS, QUEUE, changed(NODE, [], "status", "conditions"), KAI_POD),
        (OPTIONS, QUEUE, changed(NODE, True, "spec", "unschedulable"), KAI_POD),
        (OPTIONS, QUEUE, changed(NODE, [{"key": "a", "effect": "NoSchedule"}], "spec", "taints"), KAI_POD),
        (OPTIONS, QUEUE, NODE, changed(KAI_POD, "u2", "metadata", "uid")),
        (OPTIONS, QUEUE, NODE, changed(KAI_POD, [{"restartCount": 1}], "status", "containerStatuses")),
    ],
)
def test_a_fingerprint_is_of_all_that_verdicts_rest_on(options, queue, node, kai_pod):
    before = fingerprint(OPTIONS, [QUEUE], [NODE], [KAI_POD])
    assert before == fingerprint(copy.deepcopy(OPTIONS), [QUEUE], [NODE], [KAI_POD])
    assert before == fingerprint(OPTIONS, [changed(QUEUE, {"gpu": 1}, "status", "allocated")], [NODE], [KAI_POD])
    assert before != fingerprint(options, [queue], [node], [kai_pod])


def test_a_record_is_valid_while_it_is_young_and_passed():
    now = datetime.datetime(2026, 11, 22, 12, 0, 30, tzinfo=datetime.UTC)

    def record(**changes):
        report = {"at": "2026-11-22T12:00:00Z", "results": [{"verdict": "passed"}]} | changes
        return {"data": {"fingerprint": "f", "report": json.dumps(report)}}

    assert still_valid(record(), "f", 30, now)["results"] == [{"verdict": "passed"}]
    assert still_valid(None, "f", 30, now) is None
    assert still_valid({}, "f", 30, now) is None
    assert still_valid(record(), "g", 30, now) is None
    assert still_valid(record(), "f", 29, now) is None
    assert still_valid(record(), "f", 0, now) is None
    for verdict in ("failed", "not_tried"):
        assert still_valid(record(results=[{"verdict": "passed"}, {"verdict": verdict}]), "f", 30, now) is None
