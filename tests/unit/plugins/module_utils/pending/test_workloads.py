# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.lifecycle import read
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.status import report
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.pending import HEALTHY, event, node, pod, queue, scheduler, workload

NOW = datetime.datetime(2026, 11, 22, 12, 10, tzinfo=datetime.timezone.utc)

# As the API server of Kubernetes 1.35 writes them, and controllers put them into their events.
DOTS = (
    'Error creating: Pod "llm.v2-6d8c9c7b5d-x2x7b" is invalid: [spec.volumes[0].name: Invalid value: '
    '"llm.v2-6d8c9c7b5d-tqpfkxz-shared-gpu-0-vol": must not contain dots, spec.containers[0].volumeMounts[0].name: Not found: "x"]'
)
QUOTA = (
    'Error creating: pods "web-5c9-abcde" is forbidden: exceeded quota: vc-web, requested: pods=1, used: pods=4, limited: pods=4'
)
UNBOUNDED = 'Error creating: pods "web-5c9-abcde" is forbidden: failed quota: vc-web: must specify limits.cpu for: main'
RANGE = 'Error creating: pods "web-0" is forbidden: maximum cpu usage per Container is 2, but limit is 4'
STANDARD = (
    'Error creating: pods "web-5c9-abcde" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
    '(container "main" must set securityContext.allowPrivilegeEscalation=false)'
)
SILENT = (
    'Error creating: Internal error occurred: failed calling webhook "binder.run.ai": failed to call webhook: Post '
    '"https://admission.kai-scheduler.svc:443/mutate--v1-pod?timeout=10s": no endpoints available for service "admission"'
)
RATIO = (
    'Error creating: pods "web-0" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000'
)
CLAIM = (
    'create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims "data-web-0" is forbidden: minimum '
    "storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
)
OTHERS = (
    'Error creating: Internal error occurred: failed calling webhook "validation.gatekeeper.sh": failed to call webhook: Post '
    '"https://gatekeeper-webhook-service.gatekeeper-system.svc:443/v1/admit?timeout=3s": context deadline exceeded'
)
QUOTED = 'Error creating: admission webhook "validate.kyverno.svc-fail" denied the request: policy x: failed calling webhook y'
ENDING = 'Error creating: pods "web-5c9-abcde" is forbidden: unable to create new content in namespace team because it is being terminated'
BUSY = "Error creating: the server is currently unable to handle the request (post pods)"
POLICY = (
    "Error creating: pods \"web-5c9-abcde\" is forbidden: ValidatingAdmissionPolicy 'no-latest' with binding 'no-latest' denied request: "
    "images need a tag"
)
DENIED = 'Error creating: admission webhook "check.example.com" denied the request: images need a tag'
OFF = (
    'Error creating: admission webhook "vpod.kb.io" denied the request: attempting to create a pod team/x with gpu sharing request, '
    "while GPU sharing is disabled"
)
VALUE = (
    'Error creating: admission webhook "vpod.kb.io" denied the request: gpu-fraction annotation value must be a float written with a decimal '
    "point or a scientific notation .given value: 0x1p-1"
)
ACCOUNT = (
    'Error creating: pods "web-5c9-" is forbidden: error looking up service account team/bot: serviceaccount "bot" not found'
)
CLASS = 'Error creating: pods "web-5c9-" is forbidden: pod rejected: RuntimeClass "nvidia" not found'


def rows(*objects):
    cluster, unread = read(InMemoryApi(objects), "kai-scheduler")
    found, odd = report([], cluster, NOW, list(cluster.creators.values()))
    assert (unread, odd) == ([], [])
    return found


def replica_set(name="llm.v2-6d8c9c7b5d", **status):
    owner = {"kind": "Deployment", "name": name.rpartition("-")[0], "uid": "d", "controller": True}
    return workload("ReplicaSet", name, {"replicas": 1}, {"replicas": 0} | status, ownerReferences=[owner])


def test_a_dot_in_the_name_of_a_workload_that_shares_a_gpu():
    said = event("FailedCreate", DOTS, "llm.v2-6d8c9c7b5d", kind="ReplicaSet")
    (row,) = rows(*HEALTHY, replica_set(), said)
    assert {key: row[key] for key in ("namespace", "name", "kind", "queue", "state", "reason", "seconds")} == {
        "namespace": "team",
        "name": "llm.v2",
        "kind": "Deployment",
        "queue": "ml",
        "state": "refused",
        "reason": "workload_name",
        "seconds": 600,
    }
    assert row["advice"].startswith("Give the workload a name without dots, or change to a release")
    assert row["message"].startswith(
        "0 of its 1 pods exist, because KAI Scheduler v0.13.1 names a volume of pods that share a GPU after their workload, "
        "and the name of a volume has no dots (KAI #1729, mended in v0.12.24, v0.14.8, v0.16.5 and from v0.17.0 on). The last event of ReplicaSet "
        'llm.v2-6d8c9c7b5d is: Error creating: Pod "llm.v2-6d8c9c7b5d-x2x7b" is invalid'
    )


@pytest.mark.parametrize(
    ("message", "reason", "cause", "advice"),
    [
        (QUOTA, "quota", "a ResourceQuota of its namespace is used up", "kubectl describe resourcequota"),
        (UNBOUNDED, "quota", "a ResourceQuota counts amounts that its containers do not give", "requests and limits"),
        (RANGE, "quota", "not within the LimitRange", "kubectl describe limitrange"),
        (STANDARD, "pod_security", "not within the pod security standard", "securityContext"),
        (RATIO, "quota", "not within the LimitRange", "kubectl describe limitrange"),
        (CLAIM, "quota", "not within the LimitRange", "kubectl describe limitrange"),
        (
            SILENT,
            "webhook",
            "KAI Scheduler's webhook for pods does not answer",
            "Deployment admission in namespace kai-scheduler",
        ),
        (OTHERS, "webhook", "a webhook that judges pods does not answer", "that the message names does not answer"),
        (QUOTED, "policy", "an admission policy or webhook of the cluster refuses its pods", "the platform team decides"),
        (ENDING, "not_created", "its namespace is being deleted", "Wait until the namespace is gone"),
        ("Error creating: etcdserver: request timed out", "not_created", "the API server did not answer in time", "tried again"),
        (BUSY, "not_created", "the API server did not answer in time", "tried again"),
        (POLICY, "policy", "an admission policy or webhook of the cluster refuses its pods", "the platform team decides"),
        (DENIED, "policy", "an admission policy or webhook of the cluster refuses its pods", "the platform team decides"),
        (OFF, "policy", "installed without GPU sharing", "limit nvidia.com/gpu"),
        (VALUE, "fraction", "cannot read the part of a GPU", '"0.5"'),
        (ACCOUNT, "missing_name", "it names something that does not exist", "correct the name"),
        (CLASS, "missing_name", "it names something that does not exist", "Create what the message names"),
        ('Error creating: pods "x" is forbidden: odd', "not_created", "the API server refuses its pods", "kubectl describe"),
    ],
)
def test_why_an_api_server_refuses_pods(message, reason, cause, advice):
    (row,) = rows(*HEALTHY, replica_set("web-5c9"), event("FailedCreate", message, "web-5c9", kind="ReplicaSet"))
    assert row["reason"] == reason
    assert row["message"].startswith(f"0 of its 1 pods exist, because {cause}") or cause in row["message"]
    assert message.removeprefix("Error creating: ")[:60] in row["message"]
    assert advice in row["advice"]


@pytest.mark.parametrize(
    ("kind", "spec", "status", "count"),
    [
        ("ReplicaSet", {"replicas": 3}, {"replicas": 1}, "1 of its 3 pods exist"),
        ("StatefulSet", {}, {"replicas": 0}, "0 of its 1 pods exist"),
        ("DaemonSet", {}, {"desiredNumberScheduled": 2, "currentNumberScheduled": 0}, "0 of its 2 pods exist"),
        ("Job", {"parallelism": 2, "completions": 3}, {"succeeded": 2}, "0 of its 1 pods exist"),
        ("Job", {"parallelism": 2}, {"active": 1}, "1 of its 2 pods exist"),
    ],
)
def test_every_kind_that_makes_pods(kind, spec, status, count):
    (row,) = rows(*HEALTHY, workload(kind, "w", spec, status), event("FailedCreate", QUOTA, "w", kind=kind))
    assert (row["kind"], row["name"]) == (kind, "w")
    assert row["message"].startswith(count)


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        ("ReplicaSet", {"replicas": 0}, {"replicas": 0}),
        ("ReplicaSet", {"replicas": 2}, {"replicas": 2}),
        ("Job", {"suspend": True}, {}),
        ("Job", {"completions": 1}, {"conditions": [{"type": "Failed", "status": "True"}]}),
        ("Job", {"parallelism": 2}, {"succeeded": 1}),
    ],
)
def test_a_workload_that_lacks_no_pod_is_not_told(kind, spec, status):
    assert rows(*HEALTHY, workload(kind, "w", spec, status), event("FailedCreate", QUOTA, "w", kind=kind)) == []


TEMPLATE = {"metadata": {"labels": {"kai.scheduler/queue": "all"}}, "spec": {"schedulerName": "kai-scheduler"}}
TORCH = {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}, "Worker": {"replicas": 3, "template": TEMPLATE}}}
MPI = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}}
GROUPS = [{"replicas": 2, "numOfHosts": 2}, {"minReplicas": 1}, {"replicas": 5, "suspend": True}]
RAY = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": GROUPS}
ENDED = {"conditions": [{"type": "Succeeded", "status": "True"}]}
FORBIDDEN = QUOTA.removeprefix("Error creating: ")


def controlled(name, phase="Running"):
    """A pod of workload w."""
    owner = {"kind": "Any", "name": "w", "uid": "uid-w", "controller": True}
    return pod(name, status={"phase": phase}, metadata={"ownerReferences": [owner]}, nodeName="n1")


# As the operators write them: Kubeflow's training operator 1.9, MPI operator 0.6, KubeRay 1.3.
@pytest.mark.parametrize(
    ("kind", "spec", "status", "reason", "message", "count"),
    [
        ("ReplicationController", {"replicas": 3}, {"replicas": 1}, "FailedCreate", QUOTA, "1 of its 3 pods exist"),
        ("PyTorchJob", TORCH, {}, "FailedCreatePod", QUOTA, "1 of its 4 pods exist"),
        ("PyTorchJob", TORCH, {"replicaStatuses": {"Worker": {"succeeded": 1}}}, "FailedCreatePod", QUOTA, "2 of its 4 pods"),
        ("MPIJob", MPI, {}, "MPIJobFailed", f"worker pod created failed: {FORBIDDEN}", "1 of its 2 pods exist"),
        (
            "RayCluster",
            RAY,
            {},
            "FailedToCreateWorkerPod",
            f"Failed to create worker Pod for the cluster team/w, {FORBIDDEN}",
            "1 of its 6",
        ),
        ("RayCluster", RAY, {}, "FailedToCreateHeadPod", f"Failed to create head Pod team/w-head, {FORBIDDEN}", "1 of its 6"),
    ],
)
def test_workloads_of_other_controllers(kind, spec, status, reason, message, count):
    made = workload(kind, "w", spec, status)
    if kind != "ReplicationController":
        del made["spec"]["template"]
    others = controlled("a"), controlled("b", "Failed")
    (row,) = rows(*HEALTHY, made, *others, event(reason, message, "w", kind=kind))
    assert (row["kind"], row["name"], row["reason"]) == (kind, "w", "quota")
    assert row["queue"] == ("ml" if kind == "ReplicationController" else "all")
    assert row["message"].startswith(count)


@pytest.mark.parametrize(
    ("kind", "spec", "status", "reason", "message"),
    [
        ("PyTorchJob", TORCH, ENDED, "FailedCreatePod", QUOTA),
        ("PyTorchJob", TORCH | {"runPolicy": {"suspend": True}}, {}, "FailedCreatePod", QUOTA),
        ("RayCluster", RAY | {"suspend": True}, {}, "FailedToCreateHeadPod", QUOTA),
        # Another event of the same reason, and a reason that the kind does not write.
        ("MPIJob", MPI, {}, "MPIJobFailed", "MPIJob team/w has failed"),
        ("PyTorchJob", TORCH, {}, "FailedCreate", QUOTA),
    ],
)
def test_other_controllers_that_lack_no_pod(kind, spec, status, reason, message):
    assert rows(*HEALTHY, workload(kind, "w", spec, status), event(reason, message, "w", kind=kind)) == []


def test_the_queue_of_a_workload_counts_before_that_of_its_pods():
    made = workload("Job", "w", {}, {}, labels={"kai.scheduler/queue": "all"})
    made["metadata"]["labels"] = {"kai.scheduler/queue": "ml"}
    (row,) = rows(*HEALTHY, made, event("FailedCreate", QUOTA, "w", kind="Job"))
    assert row["queue"] == "ml"


def test_the_newest_event_of_a_workload_counts_and_not_that_of_an_earlier_one_of_its_name():
    older = event("FailedCreate", STANDARD, "web-5c9", kind="ReplicaSet", at="2026-11-22T12:01:00Z")
    (row,) = rows(*HEALTHY, replica_set("web-5c9"), older, event("FailedCreate", QUOTA, "web-5c9", kind="ReplicaSet"))
    assert row["reason"] == "quota"
    before = event("FailedCreate", QUOTA, "web-5c9", kind="ReplicaSet")
    before["involvedObject"]["uid"] = "uid-before"
    assert rows(*HEALTHY, replica_set("web-5c9"), before) == []


def test_a_number_that_cannot_be_read_is_that_workloads_failure():
    cluster, _unread = read(
        InMemoryApi(
            [
                scheduler(),
                node(),
                queue("ml"),
                *(workload("StatefulSet", name, {"replicas": count}, {}) for name, count in (("odd", "many"), ("even", 1))),
                *(event("FailedCreate", QUOTA, name, kind="StatefulSet") for name in ("odd", "even")),
            ]
        ),
        "kai-scheduler",
    )
    found, odd = report([], cluster, NOW, list(cluster.creators.values()))
    assert [row["name"] for row in found] == ["even"]
    assert [one.what for one in odd] == ["StatefulSet team/odd"]
