# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import datetime
import json
from decimal import Decimal

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import CONFIG
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.memory import Memory, read_memory
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.plan import Capacity, plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.status import (
    Counts,
    Observation,
    broken_pods,
    counts,
    fingerprint,
    judge,
    judge_begun,
    judge_logs,
    last_error,
    still_valid,
)
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.probes import QUEUES, SETTINGS


def check(name, leaf="training", free=4):
    checks, _records = plan([name], [leaf], Capacity(QUEUES, {}, free, 80000), SETTINGS)
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
        (["Pending", "Pending"], [], None, "pod gang-too-large-training-1 is pending: no reason given yet"),
        (["Running", "Pending"], ["OverLimit"], "failed", "was placed on n1 without the rest of its gang"),
    ],
)
def test_a_gang_too_large_must_not_start_at_all(phases, reasons, verdict, reason):
    gang = check("gang_too_large")
    pods = [pod(item["metadata"]["name"], phase) for item, phase in zip(gang.pods, phases)]
    conditions = [{"reasons": [{"reason": name, "message": "asks for 3"} for name in reasons]}]
    groups = {f"pg-{gang.pods[0]['metadata']['name']}": {"status": {"schedulingConditions": conditions}}}
    found = judge(gang, seen(*pods, groups=groups))
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
    found, observed = judge(of, what)
    assert found == verdict
    assert reason in observed


def waiting(message, name="over-limit-training"):
    return pod(name, "Pending", conditions=[{"type": "PodScheduled", "status": "False", "message": message}])


def explained(reason):
    """The status of a pod group that has to wait."""
    status = {"schedulingConditions": [{"reasons": [{"reason": reason, "message": "Limit is 4 GPUs"}]}]}
    return {"pg-over-limit-training": {"status": status}}


# As pkg/scheduler/cache/status_updater writes them: the pod group's status, and the pod's condition up to v0.10 and from v0.12 on.
@pytest.mark.parametrize(
    ("item", "groups", "verdict", "reason"),
    [
        (pod("over-limit-training", "Pending"), explained("OverLimit"), "passed", "OverLimit: Limit is 4 GPUs"),
        (
            waiting("OverLimit: notebooks quota has reached the limit\n"),
            {},
            "passed",
            "OverLimit: notebooks quota has reached the limit",
        ),
        (
            waiting("OverLimit: notebooks quota has reached the limit."),
            {},
            "passed",
            "OverLimit: notebooks quota has reached the limit.",
        ),
        (waiting("Node-Pool 'default': OverLimit: too much."), {}, "passed", "Node-Pool 'default': OverLimit: too much."),
        (
            waiting("NonPreemptibleOverQuota: Limit is 4 GPUs"),
            explained("NonPreemptibleOverQuota"),
            None,
            "is pending without the reason OverLimit: NonPreemptibleOverQuota: Limit is 4 GPUs; NonPreemptibleOverQuota: Limit is 4 GPUs",
        ),
        (waiting("queue OverLimits is full"), {}, None, "is pending without the reason OverLimit: queue OverLimits is full"),
        (pod("over-limit-training", "Pending"), {}, None, "is pending without the reason OverLimit: no reason given yet"),
    ],
)
def test_over_limit_is_the_schedulers_reason_in_the_pod_group_or_in_the_pods_condition(item, groups, verdict, reason):
    assert judge(OVER, seen(item, groups=groups)) == (verdict, reason)


def test_a_gang_waits_for_a_reason_in_the_pods_condition_too():
    gang = check("gang_too_large")
    first, second = (item["metadata"]["name"] for item in gang.pods)
    found = judge(gang, seen(waiting("OverLimit: too much\n", first), pod(second, "Pending")))
    assert found == ("passed", "none of its pods was placed: OverLimit: too much")


# --- GPUs that pods share ---


def sharing(name, group="", uuid="", space="kai-probe", node="n1", phase="Running", **metadata):
    """A pod that shares a GPU, and sees this one."""
    labels = {"runai-gpu-group": group} if group else {}
    item = pod(name, phase, listing(uuid) if uuid else "")
    return item | {"metadata": item["metadata"] | {"namespace": space, "labels": labels} | metadata, "spec": {"nodeName": node}}


def reservation(group, uuid, **metadata):
    item = sharing(f"reservation-{group}", group, space="kai-resource-reservation", **metadata)
    item["metadata"]["annotations"] = {"run.ai/reserve_for_gpu_index": uuid}
    item["spec"]["containers"] = [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    return item


def whole(name, gpus, **more):
    item = sharing(name, space="work", **more)
    item["spec"]["containers"] = [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]
    return item


def counting(own, groups=None, queue=None, before=0):
    groups = own if groups is None else groups
    return Counts(*(Decimal(str(gpus)) for gpus in (own, groups, groups if queue is None else queue, before)))


def shows(pods, beside, own=2, **more):
    """What is seen of pods that share GPUs, beside other pods of the cluster."""
    more = {"counts": counting(own), "devices": {"n1": 4}} | more
    return seen(*pods, cluster=[*pods, *beside], **more)


def pods_of(planned, placed):
    """The pods of a check, with the group and the GPU of each."""
    return [sharing(name, group, uuid) for name, (group, uuid) in zip(planned.pod_names, placed)]


A, B, C = ("g-a", "GPU-a"), ("g-b", "GPU-b"), ("g-c", "GPU-c")
RESERVED = [reservation(*A), reservation(*B)]
FRACTION, QUARTERS, MEMORY = check("fraction"), check("quarters"), check("gpu_memory")
BURST = check("burst", "notebooks")
FILLED = [A, A, A]


@pytest.mark.parametrize(
    ("of", "placed", "more", "verdict", "reason"),
    [
        (QUARTERS, [B] * 4, {"own": 1}, "passed", "0.25 + 0.25 + 0.25 + 0.25 on GPU-b; each GPU is reserved, 1 GPUs"),
        (FRACTION, FILLED, {"own": 1}, "passed", "0.5 + 0.25 + 0.25 on GPU-a; each GPU is reserved, 1 GPUs count as allocated"),
        (MEMORY, [A, A], {"own": "0.9995"}, "passed", "0.5 + 0.5 on GPU-a"),
        (
            MEMORY,
            [A, B],
            {"own": 1},
            "failed",
            "the pods would fill 1 GPUs, and are spread over more: 0.5 on GPU-a, 0.5 on GPU-b",
        ),
        # What others have of a GPU may leave room for some of the pods.
        (MEMORY, [A, B], {"own": 1, "others": frozenset({"GPU-b"})}, "passed", "0.5 on GPU-a, 0.5 on GPU-b"),
        (BURST, [A, A, A, B], {"settled": True}, "failed", "more than a whole GPU was given out: 0.5 + 0.5 + 0.5 on GPU-a"),
        (FRACTION, [A, A, ("g-a", "")], {}, None, "no list of GPUs in the log of each pod yet"),
        (FRACTION, FILLED, {"own": "0.75"}, None, "the pod groups of its pods count 0.75 GPUs, not 1"),
        (MEMORY, [A, A], {"own": 0}, None, "the pod groups of its pods count 0 GPUs, not 1"),
        (MEMORY, [A, A], {"own": "1.1"}, None, "the pod groups of its pods count 1.1 GPUs, not 1"),
    ],
)
def test_how_gpus_are_shared(of, placed, more, verdict, reason):
    found, observed = judge(of, shows(pods_of(of, placed), RESERVED, **more))
    assert found == verdict
    assert reason in observed


def test_pods_that_share_see_one_gpu_each():
    pods = pods_of(FRACTION, [A, A, A])
    pods[1]["log"] = listing("GPU-a", "GPU-b")
    assert judge(FRACTION, shows(pods, RESERVED)) == ("failed", "the pods see 1, 2, 1 GPUs, not one each")


@pytest.mark.parametrize(
    ("sees", "size", "asked", "verdict", "reason"),
    [
        # Half of 80000 and a hundredth of it, as upstream allows; KAI rounds the part of a GPU.
        (("40800", "20000", "19999"), 80000, True, "passed", "memory is enforced: the pods see 40800, 20000, 19999 MiB"),
        (("40000", "20000", "20000"), 80000, False, "passed", "memory is enforced: the pods see 40000, 20000, 20000 MiB"),
        (
            ("80000", "80000", "80000"),
            80000,
            False,
            "passed",
            "scheduled, but memory is not enforced: pod fraction-1 with 0.5 of a GPU sees 80000 of 80000 MiB",
        ),
        (
            ("40000", "20801", "20000"),
            80000,
            True,
            "failed",
            "sees 20801 of 80000 MiB. Look at kai-resource-isolator, and at the nodes' label nvidia.com/gpu.memory",
        ),
        # A driver that does not tell, and a node without the label.
        (("[N/A]", "", "x"), 80000, True, "failed", "how much pod fraction-1 sees of its GPU's memory is not known"),
        (("40000", "20000", "20000"), 0, True, "failed", "how much pod fraction-1 sees of its GPU's memory is not known"),
    ],
)
def test_memory_counts_as_enforced_only_where_pods_see_no_more_than_their_part(sees, size, asked, verdict, reason):
    pods = pods_of(FRACTION, FILLED)
    for item, amount in zip(pods, sees):
        item["log"] = f"{amount} MiB\n{item['log']}"
    memory = Memory({"n1": size} if size else {}, asked)
    found, observed = judge(FRACTION, shows(pods, RESERVED, own=1, memory=memory))
    assert found == verdict
    assert reason in observed


def test_what_a_cluster_says_of_its_memory():
    def node(name, **labels):
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}

    nodes = [node("n1", **{"nvidia.com/gpu.memory": "81559"}), node("n2", **{"nvidia.com/gpu.memory": "0"}), node("n3")]
    kube = InMemoryApi()
    assert read_memory(kube, nodes) == Memory({"n1": 81559, "n2": 0, "n3": 0}, asked=False)
    spec = {"binder": {"plugins": {"hamicore": {"enabled": True}}}}
    kube.put({"apiVersion": CONFIG[0], "kind": CONFIG[1], "metadata": {"name": CONFIG[2]}, "spec": spec})
    assert read_memory(kube, []) == Memory({}, asked=True)


@pytest.mark.parametrize(
    ("count", "verdict", "reason"),
    [
        # After a pause, the queue's status says what it was before until KAI's controllers run again: a GPU that no pod has any more.
        (counting(1, groups=1, queue=2, before=2), None, "the queue's status counts 2 GPUs, its pod groups 1"),
        (counting(1, groups=1, queue=1), "passed", "1 GPUs count as allocated"),
        # Others in the queue, who come and go meanwhile, are counted on both sides.
        (counting(1, groups=2, queue=2), "passed", "1 GPUs count as allocated"),
        # After a downgrade, two GPUs of pods that ran before are never counted by the queue.
        (counting(1, groups=3, queue=1), "passed", "1 GPUs count as allocated"),
        (counting(1, groups=3, queue="0.5"), None, "the queue's status counts 0.5 GPUs, its pod groups 3"),
    ],
)
def test_what_counts_is_right_by_the_pod_groups_or_by_what_it_grew(count, verdict, reason):
    found, observed = judge(FRACTION, shows(pods_of(FRACTION, FILLED), RESERVED, counts=count))
    assert (found, reason in observed) == (verdict, True)


def test_counts_are_those_of_pod_groups_and_of_the_queues_status():
    def group(name, gpus, queue="training", space="kai-probe"):
        status = {"resourcesStatus": {"allocated": {"nvidia.com/gpu": gpus}}} if gpus else {}
        return {"metadata": {"name": name, "namespace": space}, "spec": {"queue": queue}, "status": status}

    pods = {item["metadata"]["name"]: item for item in pods_of(FRACTION, [A, A, A])}
    groups = [group("pg-fraction-1", "500m"), group("pg-fraction-2", "250m"), group("pg-fraction-3", None)]
    groups += [group("pg-fraction-1", "1", space="work"), group("other", "2", queue="notebooks")]
    queue = {"status": {"allocated": {"nvidia.com/gpu": "1750m"}}}
    assert counts(FRACTION, pods, groups, queue, "nvidia.com/gpu") == counting("0.75", "1.75", "1.75")
    assert counts(FRACTION, {}, [], None, "nvidia.com/gpu") == counting(0)


HALVES = [A, A, B, B]
FREE = "is reserved by no pod, and so free for others"


def test_a_burst_is_judged_only_after_a_while():
    pods = pods_of(BURST, HALVES)
    assert judge(BURST, shows(pods, RESERVED)) == (None, "looked at again in a moment: all of its pods run")
    found, reason = judge(BURST, shows(pods, RESERVED, settled=True))
    layout, counted, memory = reason.split("; ")
    assert (found, layout) == ("passed", "0.5 + 0.5 on GPU-a, 0.5 + 0.5 on GPU-b")
    assert counted == "each GPU is reserved, 2 GPUs count as allocated"
    assert memory == "scheduled, but memory is not enforced: how much pod burst-1 sees of its GPU's memory is not known"
    # A reservation that is only being made is not called lost.
    found, reason = judge(BURST, shows(pods, RESERVED[:1]))
    assert (found, FREE in reason) == (None, True)
    assert judge(BURST, shows(pods, [], settled=True))[0] == "failed"


@pytest.mark.parametrize(
    ("placed", "others", "reason"),
    [
        (HALVES, [reservation(*A)], f"GPU-b on node n1, used by burst-3, burst-4, {FREE}"),
        # The one that is about to end, or has ended, reserves nothing.
        (
            HALVES,
            [reservation(*A), reservation(*B, deletionTimestamp="now")],
            f"GPU-b on node n1, used by burst-3, burst-4, {FREE}",
        ),
        (HALVES, [reservation(*A), reservation(*B, phase="Failed")], f"GPU-b on node n1, used by burst-3, burst-4, {FREE}"),
        # Made anew for the group's next pod, on another GPU.
        (
            [A, ("g-a", "GPU-d"), B, B],
            [reservation("g-a", "GPU-d"), reservation(*B)],
            f"GPU-a on node n1, used by burst-1, {FREE}",
        ),
        # Given to another group after it was lost.
        (
            [A, A, ("g-b", "GPU-a"), ("g-b", "GPU-a")],
            [reservation("g-b", "GPU-a")],
            "GPU-a on node n1 has 2 owners, the groups g-a, g-b",
        ),
        (HALVES, [*RESERVED, reservation("g-c", "GPU-b")], "GPU-b on node n1 has 2 owners, the groups g-b, g-c"),
        (HALVES, [*RESERVED, whole("w", 3)], "of 4 GPUs on node n1, 3 are given whole and 2 to groups of pods"),
        # Which GPU the pods of others have is not known, but that no reservation pod holds it.
        (HALVES, [*RESERVED, sharing("p", "g-c", space="work")], f"a GPU on node n1, used by work/p, {FREE}"),
    ],
)
def test_a_burst_finds_gpus_that_are_free_for_others_or_given_twice(placed, others, reason):
    what = shows(pods_of(BURST, placed), others, settled=True)
    found, observed = judge(BURST, what)
    assert (found, observed[-8:]) == ("failed", " (#1103)")
    assert reason in observed
    # By name, and no other way.
    assert judge(BURST, what, ["#340"])[0] == "failed"
    assert judge(BURST, what, ["#340", "#1103"]) == ("accepted", observed)


@pytest.mark.parametrize(
    "others",
    [
        [whole("w", 2)],
        [whole("w", 4, phase="Succeeded")],
        [whole("w", 4, node="n2")],
        [whole("w", 4, deletionTimestamp="now")],
        # Its reservation is being made.
        [sharing("p", "g-c", space="work", phase="Pending")],
        # Parts of two GPUs.
        [sharing("p", space="work", labels={"runai-gpu-group/g-a": "g-a", "runai-gpu-group/g-b": "g-b"})],
        [sharing("p", "g-c", space="work"), reservation(*C), whole("w", 1)],
    ],
)
def test_a_burst_leaves_others_in_peace_who_have_what_is_theirs(others):
    assert judge(BURST, shows(pods_of(BURST, HALVES), [*RESERVED, *others], settled=True))[0] == "passed"


def test_nodes_without_gpus_and_whole_gpus_alone_are_no_matter_of_sharing():
    what = shows(pods_of(BURST, HALVES), [*RESERVED, whole("w", 9, node="n3")], settled=True, devices={"n1": 4, "n2": 0, "n3": 8})
    assert judge(BURST, what)[0] == "passed"


def test_a_lost_reservation_is_told_by_every_check_whose_pods_share():
    what = shows(pods_of(FRACTION, FILLED), RESERVED[1:], settled=True)
    assert judge(FRACTION, what)[0] == "failed"
    assert judge(FRACTION, what, ["#1103"])[0] == "accepted"
    assert judge(FRACTION, shows(pods_of(FRACTION, FILLED), RESERVED[1:]))[0] is None


def test_kais_binder_may_have_removed_a_pod_whose_gpu_was_not_reserved():
    what = shows(pods_of(BURST, HALVES)[1:], RESERVED)
    found, reason = judge(BURST, what)
    assert (found, reason) == (
        "failed",
        "removed by someone else, or by KAI's binder because its GPU was not reserved any more: pod burst-1 (#1103)",
    )
    assert judge(BURST, what, ["#1103"]) == ("accepted", reason)
    assert judge_begun(FRACTION, 1, seen(), ["#1103"])[0] == "accepted"
    assert judge(GPU, seen(), ["#1103"]) == ("failed", "removed by someone else: pod gpu-training")


def test_a_log_that_cannot_be_read_is_no_list_without_gpus():
    what = seen(pod("gpu-training", "Succeeded"), unreadable={"gpu-training": "connection refused"})
    assert judge(GPU, what) == (None, "the log of pod gpu-training cannot be read: connection refused")
    what = shows(pods_of(FRACTION, [("g-a", ""), A, A]), RESERVED, unreadable={"fraction-1": "timeout"})
    found, observed = judge(FRACTION, what)
    assert (found, observed) == (None, "the log of pod fraction-1 cannot be read: timeout")
    # What was read before counts.
    what = seen(pod("gpu-training", "Succeeded", listing("GPU-1a")), unreadable={"gpu-training": "timeout"})
    assert judge(GPU, what)[0] == "passed"


def test_pods_that_are_created_one_after_the_other():
    fraction = check("fraction")
    assert judge_begun(fraction, 1, seen(pod("fraction-1")))[0] == "passed"
    assert judge_begun(fraction, 2, seen(pod("fraction-1"), pod("fraction-2", "Pending")))[0] is None
    assert judge_begun(fraction, 2, seen(pod("fraction-1")))[0] == "failed"


@pytest.mark.parametrize(
    ("logs", "unreadable", "verdict", "reason"),
    [
        ({"kai-operator-1": "I1 all is well"}, {}, "passed", "in those of kai-operator-1"),
        (
            {"a": "", "b": "E1 x509: unknown authority"},
            {"c": "gone"},
            "failed",
            "a certificate does not verify (1 lines, such as b: E1",
        ),
        ({"a": "I1 all is well"}, {"b": "connection refused"}, "not_tried", "could not be read: of pod b: connection refused"),
        ({}, {"b": "connection refused"}, "not_tried", "could not be read"),
        ({}, {}, "not_tried", "no pods"),
    ],
)
def test_logs_pass_only_where_all_were_read(logs, unreadable, verdict, reason):
    found = judge_logs(logs, unreadable)
    assert (found["name"], found["verdict"]) == ("logs", verdict)
    assert reason in found["reason"]


MISSING = "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            f"E1 reflector.go:158] failed to list *v1alpha1.Topology: {MISSING}",
            "it cannot list v1alpha1.Topology, because the CRD of v1alpha1.Topology is missing",
        ),
        (
            f'E1 reflector.go:200] "Failed to watch" err="failed to list *v1alpha1.Topology: {MISSING} (get topologies.kueue.x-k8s.io)"',
            "it cannot list v1alpha1.Topology, because the CRD topologies.kueue.x-k8s.io is missing",
        ),
        ("E1 failed to list *v1.Pod: Unauthorized", "the API server refuses its credentials (401, #1536)"),
        ('E1 pods is forbidden: User "x" cannot list resource', "it lacks a right"),
        ('failed calling webhook "q.kai.scheduler": connection refused', "a webhook does not answer"),
    ],
)
def test_the_logs_check_names_causes(line, cause):
    found = judge_logs({"scheduler-1": f"I1 all is well\n{line}\n{line}"}, {})
    assert found["verdict"] == "failed"
    assert found["reason"].startswith(cause)
    assert f"(2 lines, such as scheduler-1: {line[:60]}" in found["reason"]


def kai_pod(state, last=None):
    status = {"containerStatuses": [{"name": "binder", "state": state, "lastState": last or {}}]}
    return {"metadata": {"name": "binder-1"}, "status": status}


KILLED = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-22T12:00:05Z"}}
STARTED = "2026-11-22T12:00:00Z"


@pytest.mark.parametrize(
    ("item", "since", "told"),
    [
        (kai_pod({"running": {}}), STARTED, []),
        (kai_pod({"waiting": {"reason": "ContainerCreating"}}), STARTED, []),
        (kai_pod(PULL), STARTED, ["pod binder-1: binder: ErrImagePull no such image"]),
        (kai_pod({"waiting": {"reason": "ImagePullBackOff"}}), STARTED, ["pod binder-1: binder: ImagePullBackOff"]),
        (kai_pod(KILLED), STARTED, ["pod binder-1: binder: OOMKilled: it needs a higher limit of memory"]),
        (
            kai_pod({"waiting": {"reason": "CrashLoopBackOff"}}, KILLED),
            "2026-11-23",
            ["pod binder-1: binder: OOMKilled: it needs a higher limit of memory"],
        ),
        (kai_pod({"running": {}}, KILLED), STARTED, ["pod binder-1: binder: OOMKilled: it needs a higher limit of memory"]),
        # It was killed before the probe, and runs.
        (kai_pod({"running": {}}, KILLED), "2026-11-22T12:00:06Z", []),
    ],
)
def test_kais_pods_that_lack_an_image_or_memory_are_named(item, since, told):
    assert broken_pods([item], since) == told
    found = judge_logs({"binder-1": ""}, {}, told)
    assert (found["verdict"], told == [] or told[0] in found["reason"]) == ("failed" if told else "passed", True)


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (
            "E1122 12:00:00.000000 1 reflector.go:158] failed to list\nI1122 all is well",
            "E1122 12:00:00.000000 1 reflector.go:158] failed to list",
        ),
        (
            "2026-11-22\t\x1b[31mERROR\x1b[0m\tcache.go:1\tfirst\n2026-11-22\t\x1b[31mERROR\x1b[0m\tlast",
            "2026-11-22\tERROR\tlast",
        ),
        ('{"level":"error","msg":"no"}', '{"level":"error","msg":"no"}'),
        ("I1122 12:00 no ERRORS here\nEverything is well", ""),
    ],
)
def test_the_last_error_of_a_log(log, error):
    assert last_error(["", log]) == error


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
    now = datetime.datetime(2026, 11, 22, 12, 0, 30, tzinfo=datetime.timezone.utc)

    def check(verdict="passed", **more):
        return {"name": "gpu", "reason": "", "verdict": verdict} | more

    def record(**changes):
        report = {"at": "2026-11-22T12:00:00Z", "results": [check()]} | changes
        return {"data": {"fingerprint": "f", "report": json.dumps(report)}}

    assert still_valid(record(), "f", 30, now)["results"] == [check()]
    assert still_valid(None, "f", 30, now) is None
    assert still_valid({}, "f", 30, now) is None
    assert still_valid(record(), "g", 30, now) is None
    assert still_valid(record(), "f", 29, now) is None
    assert still_valid(record(), "f", 0, now) is None
    assert still_valid(record(results=[check(), check("accepted")]), "f", 30, now)
    for odd in (check("failed"), check("not_tried"), check(name="x"), check(reason=7), {}, 7):
        assert still_valid(record(results=[check(), odd]), "f", 30, now) is None
    # What the administrator of a virtual cluster may have written.
    for text in (
        "[" * 100_000,
        "",
        "[]",
        '{"at": "soon", "results": []}',
        '{"at": null}',
        '{"at": "2026-11-23T12:00:00Z", "results": []}',
    ):
        assert still_valid({"data": {"fingerprint": "f", "report": text}}, "f", 30, now) is None
