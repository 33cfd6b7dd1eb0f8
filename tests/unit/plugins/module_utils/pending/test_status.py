# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.lifecycle import read
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.status import last_error, report
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.pending import (
    CREATED,
    HEALTHY,
    NO_ROOM,
    bind_request,
    event,
    group,
    node,
    pod,
    queue,
    reservation,
    scheduler,
    told,
    unschedulable,
)

NOW = datetime.datetime(2026, 11, 22, 12, 10, tzinfo=datetime.timezone.utc)
QUEUES = (queue("all"), queue("ml", "all"))

LIMIT = "{} quota has reached the allowable limit of {}. Limit is {} {}, currently {} {} allocated and workload requested {} {}"
QUOTA = (
    "Non-preemptible workload is over quota. Workload requested {} {}, but {} quota is {} {}, while {} {} are already allocated "
    "for non-preemptible pods. Use a preemptible workload to go over quota."
)


def rows(*objects):
    """Of the namespace in which the tests' pods are."""
    cluster, _unread = read(InMemoryApi(objects), "kai-scheduler")
    return report([one for one in cluster.pods if one["metadata"]["namespace"] == "team"], cluster, NOW)[0]


def only(*objects):
    (row,) = rows(*objects)
    return row


def assert_told(objects, reason, message, advice):
    row = only(*objects)
    assert row["reason"] == reason, row
    assert message in row["message"]
    assert advice in row["advice"]
    for sentence in (row["message"], row["advice"]):
        assert sentence[0].isalpha()
        assert sentence.endswith(".")
        assert "\n" not in sentence


def waiting(reason, message=""):
    status = {"name": "main", "state": {"waiting": {"reason": reason} | ({"message": message} if message else {})}}
    return {"containerStatuses": [status]}


@pytest.mark.parametrize(
    ("objects", "reason", "message", "advice"),
    [
        (
            [pod(metadata={"deletionTimestamp": "2026-11-22T12:01:00Z"}, nodeName="n1")],
            "terminating",
            "deleted since 2026-11-22T12:01:00Z",
            "finalizers",
        ),
        (
            [pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}], status=unschedulable(""))],
            "gated",
            "the scheduling gates kueue.x-k8s.io/admission",
            "take them off",
        ),
        (
            [pod(nodeName="n1", status=waiting("ImagePullBackOff", 'Back-off pulling image "no/such"'))],
            "image_pull",
            'Its container main waits on node n1 for image busybox: ImagePullBackOff (Back-off pulling image "no/such").',
            "registry",
        ),
        ([pod(nodeName="n1", status=waiting("ErrImagePull"))], "image_pull", "ErrImagePull.", "image's name"),
        (
            [pod(nodeName="n1", status=waiting("CreateContainerConfigError", 'secret "key" not found'))],
            "container_config",
            'CreateContainerConfigError (secret "key" not found)',
            "Create the ConfigMap, Secret",
        ),
        (
            [pod(nodeName="n1", status={"initContainerStatuses": waiting("CrashLoopBackOff")["containerStatuses"]})],
            "container_start",
            "CrashLoopBackOff",
            "log",
        ),
        (
            [pod(nodeName="n1", status=waiting("ContainerCreating")), event("FailedMount", 'configmap "data" not found')],
            "volume",
            'node n1: FailedMount (configmap "data" not found).',
            "claim",
        ),
        (
            [pod(nodeName="n1"), event("FailedCreatePodSandBox", 'no runtime for "nvidia" is configured')],
            "sandbox",
            'no runtime for "nvidia"',
            "RuntimeClass",
        ),
        ([pod(nodeName="n1", status=waiting("ContainerCreating"))], "starting", "given to node n1", "events"),
        ([pod(gpus=9)], "too_large", "asks for 9 GPUs, and no node has more than 8", "several pods"),
        (
            [pod(containers=[{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1k"}}}])],
            "too_large",
            "It asks for 1000 cores, and no node has more than 64.",
            "add a larger node",
        ),
        (
            [pod(containers=[{"name": "main", "image": "busybox", "resources": {"limits": {"memory": "1536Gi"}}}])],
            "too_large",
            "It asks for 1536 GiB of memory, and no node has more than 512.",
            "Ask for no more than one node has",
        ),
    ],
)
def test_what_keeps_a_pod_of_any_scheduler(objects, reason, message, advice):
    assert_told([*HEALTHY, *objects], reason, message, advice)
    for one in objects:
        if one["kind"] == "Pod":
            one["spec"]["schedulerName"] = "default-scheduler"
    assert reason in [row["reason"] for row in rows(*HEALTHY, *objects) if row["state"] == "pending"]


def test_a_pod_on_a_node_that_is_gone_or_not_ready():
    # What its container waits for was written while the node answered.
    given = pod(nodeName="n2", status=waiting("ImagePullBackOff"))
    assert_told([*HEALTHY, given], "node_down", "It was given to node n2, which does not exist.", "If it stays, delete it")
    lost = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    }
    stated = "node n2, which is not ready (NodeStatusUnknown: Kubelet stopped posting node status)."
    assert_told([*HEALTHY, node("n2") | {"status": {"conditions": [lost]}}, given], "node_down", stated, "describe node n2")
    ready = node("n2") | {"status": {"conditions": [{"type": "MemoryPressure", "status": "False"}, lost | {"status": "True"}]}}
    assert only(*HEALTHY, ready, given)["reason"] == "image_pull"


def test_nodes_that_offer_no_gpus():
    assert_told(
        [scheduler(), *QUEUES, node(gpus=0), pod(gpus=1)], "no_gpus", "asks for 1 GPUs, and no node offers any", "device_plugin"
    )


KUBE = "0/1 nodes are available: 1 {}. preemption: 0/1 nodes are available."


@pytest.mark.parametrize(
    ("objects", "reason", "message", "advice"),
    [
        (
            [pod(gpus=4, status=unschedulable(KUBE.format("Insufficient nvidia.com/gpu"))), pod("other", gpus=6, nodeName="n1")],
            "no_node",
            "0/1 nodes are available; it asks for 4 GPUs, and the most that a node has free are 2.",
            "ask for less",
        ),
        (
            [pod(), event("FailedScheduling", KUBE.format("node(s) had untolerated taint {a: b}"))],
            "no_node",
            "taint {a: b}",
            "toleration",
        ),
        (
            [pod(status=unschedulable(KUBE.format("node(s) didn't match Pod's node affinity/selector")))],
            "no_node",
            "default-scheduler finds no node for it: 0/1 nodes",
            "Label a node",
        ),
        (
            [pod(status=unschedulable(KUBE.format("node(s) had volume node affinity conflict")))],
            "no_node",
            "volume node affinity",
            "volume claims",
        ),
        ([pod()], "no_scheduler", "asks for default-scheduler, and no scheduler of that name", "KAI Scheduler is kai-scheduler"),
        # As the API server leaves it when the last gate is gone.
        (
            [pod(status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]})],
            "no_scheduler",
            "no scheduler of that name has looked at it",
            "install",
        ),
        (
            [
                pod(
                    status={
                        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "no."}]
                    }
                )
            ],
            "unknown",
            "default-scheduler has not said why it waits; known last is SchedulerError (no).",
            "log of its scheduler",
        ),
    ],
)
def test_pods_of_another_scheduler(objects, reason, message, advice):
    for one in objects:
        if one["kind"] == "Pod":
            one["spec"]["schedulerName"] = "default-scheduler"
    others = [one for one in objects if one["metadata"]["name"] != "train-0" and one["kind"] == "Pod"]
    for other in others:
        # Of another namespace, so that it is counted and not judged.
        other["metadata"]["namespace"] = "other"
        other["status"]["phase"] = "Running"
    assert_told([*HEALTHY, *objects], reason, message, advice)


def test_a_node_that_takes_no_pods_has_nothing_free():
    cordoned = node("n2", gpus=16)
    cordoned["spec"]["unschedulable"] = True
    row = only(*HEALTHY, cordoned, pod(gpus=16, status=unschedulable(NO_ROOM)))
    assert row["message"].endswith("it asks for 16 GPUs, and the most that a node has free are 8.")


# As kube-scheduler of Kubernetes 1.35 writes them; KAI Scheduler asks the same plugins.
@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("no nodes available to schedule pods", "Give the cluster a node"),
        (KUBE.format("node(s) were unschedulable"), "kubectl uncordon"),
        (KUBE.format("node(s) had untolerated taint {node.kubernetes.io/unschedulable: }"), "kubectl uncordon"),
        ("0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) were unschedulable.", "kubectl uncordon"),
        (KUBE.format("node(s) had untolerated taint {node.kubernetes.io/not-ready: }"), "Mend the node"),
        (KUBE.format("node(s) had untolerated taint {node.kubernetes.io/unreachable: }"), "Mend the node"),
        (KUBE.format("node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }"), "Mend the node"),
        (KUBE.format("node(s) had untolerated taint {node.cloudprovider.kubernetes.io/shutdown: }"), "Mend the node"),
        (KUBE.format("node(s) had untolerated taint {kubegpu.tenancy/dedicated: ml}"), "belong to another tenant alone"),
        (KUBE.format("node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }"), "toleration"),
        (KUBE.format("Insufficient cpu, 1 node(s) had untolerated taint {kubegpu.tenancy/dedicated: ml}"), "Wait"),
        (KUBE.format("Too many pods"), "Wait"),
        (KUBE.format("node(s) didn't match pod anti-affinity rules"), "its anti-affinity keeps it away from"),
        (KUBE.format("node(s) didn't satisfy existing pods anti-affinity rules"), "No label of a node helps"),
        (KUBE.format("node(s) didn't match pod affinity rules"), "Start the pods"),
        (KUBE.format("node(s) didn't match pod topology spread constraints"), "Compare what the pod asks for"),
    ],
)
@pytest.mark.parametrize("name", ["default-scheduler", "kai-scheduler"])
def test_what_to_do_where_there_is_no_node(name, said, advice):
    assert_told([*HEALTHY, pod(schedulerName=name, status=unschedulable(said))], "no_node", said.rstrip("."), advice)


def test_cordoned_nodes_are_named_where_they_are_a_reason():
    cordoned = node("n2") | {"spec": {"unschedulable": True}}
    waits = pod(status=unschedulable("no nodes with enough resources were found: 1 node(s) were unschedulable."))
    assert only(*HEALTHY, cordoned, waits)["message"].endswith("were unschedulable; cordoned are n2.")
    assert "cordoned" not in only(*HEALTHY, cordoned, pod(status=unschedulable(NO_ROOM)))["message"]


def test_no_kai_scheduler_in_the_cluster():
    assert_told([node(), pod()], "no_scheduler", "no KAI Scheduler runs in this cluster", "the host cluster's")
    # Placed by the host cluster's: what it says is seen here, its queues and groups are not.
    limit = f"OverLimit: {LIMIT.format('ml', 'GPUs', 4, 'GPUs', 4, 'GPUs', 1, 'GPUs')}."
    assert_told(
        [node(), pod(status=unschedulable(limit))], "over_limit", "Queue ml has a limit of 4 GPUs, 4 are allocated", "raise"
    )
    missing = unschedulable("QueueDoesNotExist: Queue 'ml' does not exist.")
    assert_told([node(), pod(status=missing)], "queue_missing", "Its queue ml does not exist", "an existing leaf queue")


def test_a_scheduler_that_is_down():
    down = {
        "phase": "Running",
        "containerStatuses": [{"name": "scheduler", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }
    cluster = [scheduler(status=down), node(), *QUEUES]
    problem = "pod kai-scheduler-default-1: scheduler: CrashLoopBackOff"
    assert_told([*cluster, pod()], "scheduler_down", problem, "kai_scheduler_info")
    # Nothing is placed, even if there are other reasons.
    assert only(*cluster, pod(queue="nobody"))["reason"] == "scheduler_down"


@pytest.mark.parametrize(
    ("objects", "reason", "message", "advice"),
    [
        (
            [*HEALTHY, pod(queue="nobody")],
            "queue_missing",
            "queue nobody does not exist",
            "leaf queues ml in the label kai.scheduler/queue",
        ),
        # The group's queue is that of the workload's label, which comes before the pod's.
        ([*HEALTHY, pod(), group(queue="nobody")], "queue_missing", "queue nobody does not exist", "or create the queue"),
        (
            [*HEALTHY, pod(queue="")],
            "no_queue",
            "names no queue, so it is in default-queue, which does not exist",
            "leaf queues ml",
        ),
        ([scheduler(), node(), pod()], "queue_missing", "queue ml does not exist", "an existing leaf queue"),
        ([*HEALTHY, pod(queue="all")], "parent_queue", "queue all has the children ml", "one of its leaf queues"),
        (
            [scheduler(), node(), queue("ml", "gone"), pod()],
            "queue_without_parent",
            "Its queue ml, whose parent gone does not exist",
            "Create queue gone",
        ),
        (
            [scheduler(), node(), queue("ml", "all"), queue("all", "gone"), pod()],
            "queue_without_parent",
            "queue ml is below queue all, whose parent gone does not exist",
            "give all a parent",
        ),
        (
            [scheduler("v0.12.0"), node(), queue("ml"), pod()],
            "queue_level",
            "queue ml is on level 1, and KAI Scheduler v0.12.0 serves level 2 only",
            "v0.13",
        ),
        (
            [scheduler("v0.9.3"), node(), *QUEUES, queue("deep", "ml"), pod(queue="deep")],
            "queue_level",
            "queue deep is on level 3",
            "parent without a parent",
        ),
    ],
)
def test_queues_that_kai_scheduler_says_nothing_of(objects, reason, message, advice):
    assert_told(objects, reason, message, advice)


@pytest.mark.parametrize("version", ["v0.13.1", "latest"])
def test_any_level_is_served_since_0_13_and_nothing_is_said_of_unknown_releases(version):
    assert only(scheduler(version), node(), queue("ml"), pod())["reason"] == "unknown"


def test_the_second_level_is_served_before_0_13():
    assert only(scheduler("v0.12.0"), node(), *QUEUES, pod())["reason"] == "unknown"


def test_a_pod_without_a_queue_is_in_the_default_queue():
    row = only(*HEALTHY, queue("default-queue", "all"), pod(queue=""))
    assert (row["queue"], row["reason"]) == ("default-queue", "unknown")


FAILED_RESERVATION = "failed waiting for GPU reservation pod to allocate: kai-resource-reservation/gpu-reservation-n1-abc"


@pytest.mark.parametrize(
    ("objects", "reason", "message", "advice"),
    [
        (
            [bind_request(("g1",)), reservation("g1", waiting("ImagePullBackOff"))],
            "reservation",
            "a GPU of node n1, whose reservation does not come: pod gpu-reservation-g1: main: ImagePullBackOff.",
            "RuntimeClass",
        ),
        # The pod is deleted after 40 s and made anew.
        (
            [bind_request(("g1",), phase="Failed", reason=FAILED_RESERVATION, failedAttempts=1)],
            "reservation",
            "does not come: failed waiting for GPU reservation pod to allocate",
            "kai-resource-reservation",
        ),
        ([bind_request(("g1",)), reservation("g1", {"phase": "Running"}, "GPU-1a")], "binding", "giving it to node n1", "binder"),
        ([bind_request(("g1",)), reservation("g2", {})], "binding", "giving it to node n1", "binder"),
        (
            [bind_request(phase="Failed", reason='pods "x" is forbidden')],
            "binding",
            'binding fails: pods "x" is forbidden',
            "log",
        ),
        # Bound is written after failed attempts too; the pod has no node.
        (
            [
                event(
                    "BindingError", f"Failed to bind pod team/train-0 to node n1: failed to reserve GPUs: {FAILED_RESERVATION}"
                ),
                event("Bound", "Pod bound successfully to node n1", at="2026-11-22T12:06:00Z"),
            ],
            "reservation",
            "reservation does not come: Failed to bind pod team/train-0",
            "driver",
        ),
    ],
)
def test_a_pod_that_is_given_to_a_node(objects, reason, message, advice):
    assert_told([*HEALTHY, pod(annotations={"gpu-fraction": "0.5"}), *objects], reason, message, advice)


def test_a_pod_that_was_given_to_a_node_had_a_complete_gang():
    assert only(*HEALTHY, pod(), bind_request(), group(minMember=2))["reason"] == "binding"


def test_a_bind_request_that_succeeded_says_nothing():
    assert only(*HEALTHY, pod(), bind_request(phase="Succeeded"))["reason"] == "unknown"


def over_limit(queue_name="ml", shown="ml", bound=4, held=3, asked=2, unit="GPUs", what="GPUs", **requested):
    message = LIMIT.format(shown, what, bound, unit, held, unit, asked, unit)
    return told("OverLimit", message, name=queue_name, podGroupRequestedResources=requested)


GANG = {"pod-group-name": "pg-train-0"}


@pytest.mark.parametrize(
    ("spec", "others", "message"),
    [
        ({"minMember": 4}, [pod("train-1", annotations=GANG)], "gang pg-train-0 starts with 4 pods, and 2 exist."),
        (
            {"minMember": 2},
            [pod("train-1", annotations=GANG, schedulingGates=[{"name": "g"}])],
            "starts with 2 pods, and 2 exist, 1 of them with scheduling gates.",
        ),
        ({"minMember": 2}, [pod("train-1", annotations=GANG, status={"phase": "Failed"})], "starts with 2 pods, and 1 exist."),
        (
            {"minMember": 2},
            [pod("train-1", annotations=GANG, metadata={"deletionTimestamp": CREATED})],
            "starts with 2 pods, and 1 exist.",
        ),
        (
            {"minMember": None, "subGroups": [{"name": "workers", "minMember": 1}]},
            [],
            "gang pg-train-0 (part workers) starts with 1 pods, and 0 exist.",
        ),
    ],
)
def test_a_gang_that_is_not_complete(spec, others, message):
    # An older condition does not count.
    found = rows(*HEALTHY, pod(), *others, group("train-0", over_limit(), **spec))
    row = next(row for row in found if row["name"] == "train-0")
    assert (row["reason"], "or lower the number" in row["advice"]) == ("gang", True)
    assert message in row["message"]


@pytest.mark.parametrize(
    "spec",
    [
        {"minMember": 2},
        {"minMember": None, "subGroups": [{"name": "workers", "minMember": 1}]},
        {"minMember": None, "minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]},
    ],
)
def test_a_complete_gang_waits_for_what_the_scheduler_says(spec):
    part = {"kai.scheduler/subgroup-name": "workers"}
    pods = [pod(labels=part), pod("train-1", annotations=GANG, labels=part)]
    found = rows(*HEALTHY, *pods, group("train-0", told("PodSchedulingErrors", NO_ROOM), **spec))
    assert [row["reason"] for row in found] == ["no_node", "no_node"]


@pytest.mark.parametrize(
    ("reason", "name", "message", "advice"),
    [
        (
            over_limit(),
            "over_limit",
            "Queue ml has a limit of 4 GPUs, 3 are allocated, and it asks for 2.",
            "Wait until work in queue ml ends",
        ),
        # The message has the display name; details cut GPUs to whole ones.
        (
            over_limit("all", "All of us", 1.5, 1.25, 0.5, **{"nvidia.com/gpu": "0"}),
            "over_limit",
            "Queue all, above its queue ml, has a limit of 1.5 GPUs, 1.25 are allocated, and it asks for 0.5.",
            "queue all",
        ),
        (
            over_limit(bound=16, held=12, asked=8, unit="cores", what="CPU cores", cpu="7500m"),
            "over_limit",
            "a limit of 16 cores, 12 are allocated, and it asks for 7.5.",
            "raise its limit",
        ),
        (over_limit(bound=0, held=0), "over_limit", "a limit of 0 GPUs", "one that is omitted is 0"),
        # More than the limit never fits, whatever ends.
        (
            over_limit(bound=4, held=0, asked=6, **{"nvidia.com/gpu": "6"}),
            "over_limit",
            "a limit of 4 GPUs, 0 are allocated, and it asks for 6.",
            "Ask for 4 GPUs at most, or raise the limit of queue ml (kai_queues): no work that ends makes room.",
        ),
        (told("OverLimit", "said in new words"), "over_limit", "said in new words.", "raise its limit"),
        (
            told("NonPreemptibleOverQuota", QUOTA.format(2, "GPUs", "ml", 1, "GPUs", 0, "GPUs"), name="ml"),
            "over_quota",
            "Queue ml has a quota of 1 GPUs, 0 are held by pods that cannot be preempted, and it is such a pod and asks for 2.",
            "Make it preemptible",
        ),
        # Up to v0.14 in milli-CPU and bytes, as if these were cores and GB.
        (
            told(
                "NonPreemptibleOverQuota",
                QUOTA.format(6000, "CPU cores", "all", 8, "cores", 4, "cores"),
                name="all",
                podGroupRequestedResources={"cpu": "6"},
            ),
            "over_quota",
            "Queue all, above its queue ml, has a quota of 8 cores, 4 are held by pods that cannot be preempted",
            "raise the quota",
        ),
        (
            told(
                "NonPreemptibleOverQuota",
                QUOTA.format(200000000000, "GB memory", "ml", 100, "GB", 50, "GB"),
                name="ml",
                podGroupRequestedResources={"memory": "200G"},
            ),
            "over_quota",
            "has a quota of 100 GB, 50 are held by pods that cannot be preempted, and it is such a pod and asks for 200.",
            "kai_queues",
        ),
        (told("NonPreemptibleOverQuota", "said in new words"), "over_quota", "said in new words.", "preemptible"),
        (
            told("PodSchedulingErrors", f"Resources were not found for pod team/train-0 due to: {NO_ROOM}"),
            "no_node",
            "kai-scheduler finds no node for it: Resources were not found for pod team/train-0",
            "Wait until running work ends",
        ),
        (
            told("PodSchedulingErrors", "no nodes with enough resources were found: 1 node(s) had untolerated taint {a: b}."),
            "no_node",
            "untolerated taint {a: b}; it asks for 1 GPUs, and the most that a node has free are 8.",
            "toleration",
        ),
    ],
)
def test_what_kai_scheduler_says(reason, name, message, advice):
    assert_told([*HEALTHY, pod(gpus=1), group("train-0", reason)], name, message, advice)


@pytest.mark.parametrize(
    "message",
    [
        # v0.9.3 and before, and later ones.
        "OverLimit: {}\n",
        "OverLimit: {}.",
        "Node-Pool 'default': OverLimit: {}.",
    ],
)
def test_what_kai_scheduler_says_of_a_pod_beside_a_running_one(message):
    # While a pod of the group is placed, the group's own condition is an older one.
    text = LIMIT.format("ml", "GPUs", 4, "GPUs", 4, "GPUs", 1, "GPUs")
    running = pod("train-1", annotations=GANG, status={"phase": "Running"}, nodeName="n1")
    cluster = [
        *HEALTHY,
        running,
        group("train-0", told("PodSchedulingErrors", NO_ROOM)),
        pod(status=unschedulable(message.format(text))),
    ]
    assert_told(cluster, "over_limit", "Queue ml has a limit of 4 GPUs, 4 are allocated, and it asks for 1.", "raise")


def test_a_display_name_may_be_that_of_the_pods_own_queue():
    text = LIMIT.format("Machine learning", "GPUs", 4, "GPUs", 4, "GPUs", 1, "GPUs")
    row = only(*HEALTHY, pod(status=unschedulable(f"OverLimit: {text}.")))
    assert row["message"].startswith("Queue Machine learning has a limit of 4 GPUs")


def test_a_queue_that_was_missing_and_exists_by_now():
    missing = group("train-0", told("QueueDoesNotExist", "Queue 'ml' does not exist"))
    assert only(*HEALTHY, pod(), missing)["reason"] == "unknown"


def test_the_newest_condition_counts():
    both = group("train-0", told("PodSchedulingErrors", NO_ROOM))
    both["status"]["schedulingConditions"] += group("train-0", over_limit())["status"]["schedulingConditions"]
    assert only(*HEALTHY, pod(), both)["reason"] == "over_limit"


def test_a_pod_that_the_pod_grouper_leaves_alone():
    alone = pod()
    alone["metadata"]["annotations"] = {}
    assert_told([*HEALTHY, alone], "no_pod_group", "into no PodGroup yet.", "pod grouper")
    refused = event("PodGrouperWarning", "services is forbidden")
    assert_told([*HEALTHY, alone, refused], "no_pod_group", "into no PodGroup yet: services is forbidden.", "log")


def test_what_others_write_is_cut():
    assert len(only(*HEALTHY, pod(status=unschedulable("no room " * 999)))["message"]) < 500


def test_otherwise_what_is_known_last():
    assert_told([*HEALTHY, pod()], "unknown", "kai-scheduler has not said why it waits.", "See kubectl describe pod, and the log")
    events = [event("Evict", "evicted by reclaim"), event("Pipelined", "waits for pods that end", at="2026-11-22T12:06:00Z")]
    assert_told([*HEALTHY, pod(), *events], "unknown", "known last is Pipelined (waits for pods that end).", "events")


def test_events_of_an_earlier_pod_of_the_same_name_do_not_count():
    earlier = event("FailedMount", "no such volume")
    earlier["involvedObject"]["uid"] = "uid-before"
    assert only(*HEALTHY, pod(nodeName="n1"), earlier)["reason"] == "starting"


def test_a_row_tells_where_and_for_how_long():
    older = pod("old", metadata={"creationTimestamp": "2026-11-22T11:00:00Z"})
    first, second = rows(*HEALTHY, pod(), older)
    assert (first["name"], first["seconds"]) == ("old", 4200)
    assert {key: second[key] for key in ("namespace", "name", "queue", "state", "since", "seconds")} == {
        "namespace": "team",
        "name": "train-0",
        "queue": "ml",
        "state": "pending",
        "since": CREATED,
        "seconds": 600,
    }
    # Clocks differ.
    assert only(*HEALTHY, pod(metadata={"creationTimestamp": "2026-11-22T12:10:01Z"}))["seconds"] == 0


def test_running_pods_of_kai_scheduler_are_not_reported():
    assert rows(*HEALTHY, pod(status={"phase": "Running"}, nodeName="n1", gpus=2), pod("done", status={"phase": "Failed"})) == []


RUNNING = {"phase": "Running", "startTime": "2026-11-22T12:05:00Z"}


def past(**more):
    return pod(gpus=2, queue="", schedulerName="default-scheduler", nodeName="n1", **{"status": RUNNING} | more)


def test_gpus_that_count_in_no_queue():
    row = only(*HEALTHY, past())
    assert (row["state"], row["reason"], row["queue"], row["seconds"]) == ("past_kai", "other_scheduler", None, 300)
    assert row["message"] == "default-scheduler placed it: it holds 2 GPUs of node n1 that count in no queue of KAI Scheduler."
    assert "schedulerName: kai-scheduler" in row["advice"]
    # A pod that is bound and has not started is both.
    both = rows(*HEALTHY, past(status={"phase": "Pending"}))
    assert [(row["state"], row["reason"]) for row in both] == [("pending", "starting"), ("past_kai", "other_scheduler")]


def test_a_label_makes_no_reservation_outside_of_kai_schedulers_namespace():
    found = rows(*HEALTHY, past(labels={"app": "kai-resource-reservation"}))
    assert [(row["state"], row["reason"]) for row in found] == [("past_kai", "other_scheduler")]


@pytest.mark.parametrize(
    "objects",
    [
        # Without KAI Scheduler nothing goes past it.
        [node(), past()],
        [*HEALTHY, past(status={"phase": "Failed"})],
        [*HEALTHY, past(containers=[{"name": "web", "image": "web"}])],
    ],
)
def test_what_does_not_run_past_kai_scheduler(objects):
    assert rows(*objects) == []


def ended(code, message="", key="state"):
    terminated = {"exitCode": code} | ({"message": message} if message else {})
    return {"phase": "Failed", "containerStatuses": [{"name": "main", key: {"terminated": terminated}}]}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (ended(127, "sh: nvidia-smi: not found\n"), "(exit status 127: sh: nvidia-smi: not found)"),
        (ended(127), "(exit status 127)"),
        (ended(1, "bash: nvidia-smi: command not found"), "(exit status 1: bash: nvidia-smi: command not found)"),
        (ended(128, 'exec: "nvidia-smi": executable file not found in $PATH'), "executable file not found"),
        (ended(127, key="lastState") | RUNNING, "(exit status 127)"),
    ],
)
@pytest.mark.parametrize("asks", [{"gpus": 1}, {"annotations": {"gpu-fraction": "0.5"}}, {"annotations": {"gpu-memory": "2000"}}])
def test_a_gpu_without_a_runtime_class(status, said, asks):
    row = only(*HEALTHY, pod(status=status, nodeName="n1", **asks))
    assert (row["state"], row["reason"]) == ("past_kai", "no_runtime_class")
    assert said in row["message"]
    assert "runtimeClassName: nvidia" in row["advice"]


@pytest.mark.parametrize(
    "other",
    [
        {"gpus": 1, "runtimeClassName": "nvidia", "status": ended(127)},
        {"status": ended(127)},
        {"gpus": 1, "status": ended(1, "out of memory")},
    ],
)
def test_other_ends_are_none_of_this(other):
    assert rows(*HEALTHY, pod(nodeName="n1", **other)) == []


REFLECTOR = 'E1122 12:00:00.1       1 reflector.go:200] "Failed to watch" err="failed to list {}" type="x"'
NOT_FOUND = "*v1alpha1.Topology: the server could not find the requested resource"


@pytest.mark.parametrize(
    ("log", "message", "advice"),
    [
        (
            REFLECTOR.format(NOT_FOUND),
            "cannot list v1alpha1.Topology, because the CRD of v1alpha1.Topology is missing.",
            "Install that CRD",
        ),
        (
            REFLECTOR.format(f"{NOT_FOUND} (get topologies.kueue.x-k8s.io)"),
            "because the CRD topologies.kueue.x-k8s.io is missing.",
            "kai_scheduler",
        ),
        (REFLECTOR.format("*v1.Pod: Unauthorized"), "refuses its credentials", "Restart"),
        (REFLECTOR.format('*v1.Pod: pods is forbidden: User "x" cannot list'), "lacks a right", "roles"),
        ("2026-11-22T12:00:00Z\tERROR\tfailed calling webhook x", "a webhook does not answer", "own pods"),
        ("2026-11-22T12:00:00Z\tERROR\tx509: unknown authority", "certificate does not verify", "own pods"),
        # zap colours its level.
        ("I1\n2026-11-22T12:00:00Z\t\x1b[31mERROR\x1b[0m\tcache/x.go:1\todd", "the last error of its scheduler (s) is:", "log"),
        ('{"level":"ERROR","msg":"odd"}', 'is: {"level":"ERROR","msg":"odd"}.', "log"),
        ("panic: odd", "panic: odd", "kai_scheduler_info"),
    ],
)
def test_what_the_scheduler_logs(log, message, advice):
    found = last_error({"s": f"I1122 12:00:00.0 1 all is well\n{log}\nI1122 12:00:01.0 1 all is well"})
    assert found.reason == "scheduler_error"
    assert message in found.message
    assert advice in found.advice


def test_the_last_error_counts_and_a_known_cause_before_others():
    unauthorised, odd = REFLECTOR.format("*v1.Pod: Unauthorized"), "E1122 12:00:00.1 1 cache.go:1] odd"
    assert "odd 2" in last_error({"s": f"{odd} 1\n{odd} 2"}).message
    assert "credentials" in last_error({"s": f"{unauthorised}\n{odd}", "t": odd}).message
    assert "(t) places nothing" in last_error({"s": unauthorised, "t": unauthorised}).message


def test_a_log_without_errors_says_nothing():
    assert last_error({"s": "I1122 12:00:00.0 1 no ERROR here\n"}) is None
    assert last_error({}) is None
