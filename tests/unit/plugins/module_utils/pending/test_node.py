# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending import lifecycle
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.lifecycle import read
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.status import report
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.pending import (
    CREATED,
    HEALTHY,
    event,
    node,
    pod,
    queue,
    scheduler,
    unschedulable,
    workload,
)
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

NOW = datetime.datetime(2026, 11, 22, 12, 10, tzinfo=datetime.timezone.utc)
QUEUES = (queue("all"), queue("ml", "all"))


def rows(*objects):
    cluster, _unread = read(InMemoryApi(objects), "kai-scheduler")
    return report([one for one in cluster.pods if one["metadata"]["namespace"] == "team"], cluster, NOW)[0]


def only(*objects):
    (row,) = rows(*objects)
    return row


# --- pods that a node refused ------------------------------------------------------------------------------------


def rejected(reason, message, name="train-0", **more):
    status = {"phase": "Failed", "reason": reason, "message": message, "startTime": CREATED}
    return pod(name, nodeName="n1", status=status, **more)


SHORT = "Pod was rejected: Node didn't have enough resource: cpu, requested: 2400, used: 850, capacity: 2000"
GONE = (
    "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which "
    "is unexpected"
)
UNHEALTHY = (
    "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
)
LOST = (
    "Pod was rejected: Allocate failed due to previously allocated devices are no longer healthy; cannot allocate unhealthy devices "
    "nvidia.com/gpu, which is unexpected"
)
UNREGISTERED = "Pod was rejected: Allocate failed due to cannot allocate unregistered device nvidia.com/gpu, which is unexpected"
NONE_THERE = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0"
SIDECAR = {"initContainers": [{"name": "proxy", "image": "busybox", "restartPolicy": "Always"}]}


def test_a_native_sidecar_that_the_release_does_not_add():
    row = only(scheduler("v0.12.0"), node(), *QUEUES, rejected("OutOfcpu", SHORT, **SIDECAR))
    assert (row["state"], row["reason"], row["kind"]) == ("refused", "refused", "Pod")
    assert row["message"] == (
        f"Node n1 refused it: OutOfcpu ({SHORT}). KAI Scheduler v0.12.0 does not add native sidecars (proxy) to what a pod asks for "
        "(KAI #1556, mended in v0.9.20, v0.12.22, v0.14.6, v0.15.3 and from v0.16.0 on)."
    )
    assert row["advice"].startswith("Ask in its first container for what that and the sidecars need together")


@pytest.mark.parametrize(
    ("objects", "advice"),
    [
        # Mended; and without a sidecar.
        ([scheduler("v0.16.0"), rejected("OutOfcpu", SHORT, **SIDECAR)], "gpu_ledger_info"),
        ([scheduler("v0.12.0"), rejected("OutOfmemory", SHORT)], "gpu_ledger_info"),
        ([scheduler("v0.12.0"), rejected("OutOfcpu", SHORT, initContainers=[{"name": "once", "image": "x"}])], "gpu_ledger_info"),
        ([scheduler(), rejected("UnexpectedAdmissionError", GONE)], "two schedulers gave out the same"),
        ([scheduler(), rejected("UnexpectedAdmissionError", UNHEALTHY)], "kernel log for Xid errors"),
        ([scheduler(), rejected("UnexpectedAdmissionError", LOST)], "kernel log for Xid errors"),
        ([scheduler(), rejected("UnexpectedAdmissionError", UNREGISTERED)], "log of the node's device plugin"),
        ([scheduler(), rejected("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to rpc error")], "kubelet"),
        ([scheduler(), rejected("OutOfnvidia.com/gpu", NONE_THERE)], "the plugin does not offer them"),
        ([scheduler(), rejected("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed")], "labels and taints"),
        ([scheduler(), rejected("TopologyAffinityError", "Resources cannot be allocated with Topology locality")], "NUMA"),
        ([scheduler(), rejected("Odd", "Pod was rejected: odd")], "Change what the message names"),
    ],
)
def test_what_a_node_refuses(objects, advice):
    row = only(node(), *QUEUES, *objects)
    assert row["reason"] == "refused"
    assert row["message"].startswith("Node n1 refused it: ")
    assert "sidecars" not in row["message"]
    assert advice in row["advice"]


def of_deployment(name, minute, made):
    metadata = made["metadata"]
    metadata |= {"creationTimestamp": f"2026-11-22T12:0{minute}:00Z", "name": name, "uid": name}
    metadata["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-5c9", "uid": "rs", "controller": True}]
    return made


def test_of_a_workload_that_makes_one_after_the_other_the_newest_is_told():
    many = [of_deployment(f"web-{n}", n, rejected("OutOfcpu", SHORT)) for n in (1, 3, 2)]
    row = only(*HEALTHY, *many)
    assert row["name"] == "web-3"
    assert row["message"].endswith(" 2 more pods of its workload were refused, too.")
    older = of_deployment("web-0", 0, pod(status={"phase": "Running"}, nodeName="n1"))
    assert only(*HEALTHY, older, *many)["name"] == "web-3"
    newer = of_deployment("web-9", 9, pod(status={"phase": "Running"}, nodeName="n1"))
    assert rows(*HEALTHY, newer, *many) == []


@pytest.mark.parametrize(("status", "told"), [({"conditions": [{"type": "Complete", "status": "True"}]}, 0), ({"active": 1}, 1)])
def test_a_job_that_has_ended_since_needs_none_of_its_refused_pods(status, told):
    job = workload("Job", "j", {}, status)
    owner = {"controller": True, "kind": "Job", "name": "j", "uid": "uid-j"}
    # Its pod that succeeded is not read.
    made = rejected("OutOfcpu", "Pod was rejected: no", metadata={"ownerReferences": [owner]})
    assert len(rows(*HEALTHY, job, made)) == told


def test_pods_that_failed_by_themselves_were_not_refused():
    assert rows(*HEALTHY, rejected("Evicted", "The node was low on resource: memory"), rejected("", "", "b")) == []


def test_a_pod_whose_owners_cannot_be_read_is_that_pods_failure():
    odd = rejected("OutOfcpu", SHORT, "odd", metadata={"ownerReferences": [{"controller": True}]})
    cluster, _unread = read(InMemoryApi([*HEALTHY, odd, rejected("OutOfcpu", SHORT)]), "kai-scheduler")
    found, unread = report(cluster.pods, cluster, NOW)
    assert [row["name"] for row in found] == ["train-0"]
    assert [one.what for one in unread] == ["pod team/odd"]


# --- images ------------------------------------------------------------------------------------------------------

ALPINE = "mirror.gcr.io/library/alpine:3.20"
ANSWER = 'failed to pull and unpack image "mirror.gcr.io/library/alpine:3.20": not found'
IN_ADDED = "spec.initContainers{vcluster-rewrite-hosts}"
INITIALISING = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}]}


def pulls(container=IN_ADDED, image=ALPINE):
    return [
        event("Failed", f'Failed to pull image "{image}": {ANSWER}', at="2026-11-22T12:05:00Z", container=container),
        event("Failed", "Error: ErrImagePull", at="2026-11-22T12:05:01Z", container=container),
        event("BackOff", f'Back-off pulling image "{image}"', at="2026-11-22T12:05:02Z", container=container),
    ]


# vCluster keeps the status of the container that it adds from the tenant.
@pytest.mark.parametrize("container", [IN_ADDED, ""])
def test_the_image_of_the_container_that_vcluster_adds(container):
    row = only(*HEALTHY, pod(nodeName="n1", subdomain="web", status=INITIALISING), *pulls(container))
    assert (row["reason"], row["message"]) == (
        "image_pull",
        f"An init container that vCluster adds to pods with a serviceName waits on node n1 for image {ALPINE}: {ANSWER}.",
    )
    assert f"put {ALPINE} into the registry or mirror of the nodes, as the playbook artifacts lists it" in row["advice"]


def test_the_image_of_another_container_that_is_none_of_the_pods_own():
    row = only(*HEALTHY, pod(nodeName="n1", status=INITIALISING), *pulls("spec.initContainers{istio-init}"))
    assert row["message"].startswith("An init container that is none of its own waits on node n1 for image")


def test_an_image_that_has_come_since():
    pulled = event("Pulled", f'Successfully pulled image "{ALPINE}"', at="2026-11-22T12:06:00Z", container=IN_ADDED)
    assert only(*HEALTHY, pod(nodeName="n1", status=INITIALISING), *pulls(), pulled)["reason"] == "starting"


def test_the_image_of_an_init_container_of_its_own_with_what_the_registry_answered():
    waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{ALPINE}"'}
    status = INITIALISING | {"initContainerStatuses": [{"name": "fetch", "state": {"waiting": waiting}}]}
    waits = pod(nodeName="n1", status=status, initContainers=[{"name": "fetch", "image": ALPINE}])
    row = only(*HEALTHY, waits, *pulls("spec.initContainers{fetch}"))
    assert row["message"] == f"Its init container fetch waits on node n1 for image {ALPINE}: ImagePullBackOff ({ANSWER})."


# --- between the virtual cluster and its host --------------------------------------------------------------------

OPTIONS = {"namespaces": [], "label_selector": "", "scheduler_name": "kai-scheduler"}
OPTIONS |= {"host_kubeconfig": "/etc/cluster.yml", "host_namespace": "tenant-web"}
RESIZE = (
    'Error syncing: pods "train-0-x-team-x-web" is forbidden: User "system:serviceaccount:tenant-web:vc-web" cannot patch resource '
    '"pods/resize" in API group "" in the namespace "tenant-web"'
)
FILLED_IN = 'Error syncing: patch host object: Pod "train-0-x-team-x-web" is invalid: spec: Forbidden: pod updates may not change fields other than'


def on_host(phase="Running", since="2026-11-22T12:00:05Z", node_name="w1"):
    made = pod("train-0-x-team-x-web", namespace="tenant-web", nodeName=node_name, status={"phase": phase, "startTime": since})
    made["metadata"]["labels"] |= {"vcluster.loft.sh/managed-by": "web", "vcluster.loft.sh/namespace": "team"}
    made["metadata"]["annotations"] |= {"vcluster.loft.sh/name": "train-0", "vcluster.loft.sh/namespace": "team"}
    return made


def both(*objects, host=(), fails=False):
    there = InMemoryApi(copy.deepcopy(host))
    if fails:
        there.fail("list", "Pod", ApiError("pods is forbidden", status=403))
    return lifecycle.pending(make_run(OPTIONS, InMemoryApi(objects)), lambda: there)


@pytest.mark.parametrize(
    ("events", "why", "advice"),
    [
        ([event("SyncError", RESIZE)], RESIZE, "so that its Role has pods/resize (vCluster #4091)"),
        ([event("SyncError", FILLED_IN)], FILLED_IN, "fills in fields of pods"),
        ([], "no event says why", "log of the tenant's control plane"),
    ],
)
def test_a_pod_that_runs_on_the_host_and_waits_in_the_tenant(events, why, advice):
    (row,) = both(*HEALTHY, pod(nodeName="n1"), *events, host=[on_host()])["pods"]
    assert (row["state"], row["reason"]) == ("pending", "not_written_back")
    assert row["message"] == (
        f"It runs on node w1 of the host cluster since 2026-11-22T12:00:05Z; its state is not written back: {why}."
    )
    assert advice in row["advice"]


def test_a_pod_that_waits_on_both_sides():
    (row,) = both(*HEALTHY, pod(nodeName="n1"), host=[on_host("Pending")])["pods"]
    assert row["reason"] == "starting"


def test_a_state_may_take_a_minute_to_be_written_back():
    since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    (row,) = both(*HEALTHY, pod(nodeName="n1"), host=[on_host(since=since)])["pods"]
    assert row["reason"] == "starting"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_has_ended_on_the_host_does_not_run(phase):
    (row,) = both(*HEALTHY, pod(nodeName="n1"), host=[on_host(phase)])["pods"]
    assert row["message"] == (
        f"It started on node w1 of the host cluster at 2026-11-22T12:00:05Z and has ended there ({phase}); its state is not written back: "
        "no event says why."
    )


def test_a_pod_that_is_being_deleted_on_the_host_may_be_an_earlier_one():
    there = on_host()
    there["metadata"]["deletionTimestamp"] = "2026-11-22T12:06:00Z"
    assert [row["reason"] for row in both(*HEALTHY, pod(nodeName="n1"), host=[there])["pods"]] == ["starting"]


@pytest.mark.parametrize(("at", "told"), [("2026-11-22T12:00:04Z", False), ("2026-11-22T12:00:05.123456Z", True)])
def test_an_error_from_before_it_started_is_not_why_its_state_is_not_written_back(at, told):
    (row,) = both(*HEALTHY, pod(nodeName="n1"), event("SyncError", RESIZE, at=at), host=[on_host()])["pods"]
    assert (RESIZE in row["message"]) == told


def test_a_host_cluster_that_cannot_be_read_is_said_and_the_tenant_is_judged_all_the_same():
    result = both(*HEALTHY, pod(nodeName="n1"), fails=True)
    assert [row["reason"] for row in result["pods"]] == ["starting"]
    assert result["unread"] == ["namespace tenant-web of the host cluster cannot be read: pods is forbidden"]


@pytest.mark.parametrize(
    ("message", "reason", "said", "advice"),
    [
        (
            'Error syncing: create object: pods "x" is forbidden: exceeded quota: vc-web, requested: pods=1, used: pods=4, limited: pods=4',
            "quota",
            "On the host cluster, a ResourceQuota of its namespace is used up",
            "Ask for less",
        ),
        (
            "Error syncing: create object: odd",
            "not_synced",
            "vCluster cannot bring it to the host cluster: Error syncing",
            "control plane",
        ),
    ],
)
@pytest.mark.parametrize("given", [{"nodeName": "n1"}, {"schedulerName": "default-scheduler"}])
def test_a_pod_that_the_host_cluster_refuses(message, reason, said, advice, given):
    row = only(*HEALTHY, pod(**given), event("SyncError", message))
    assert (row["reason"], said in row["message"], advice in row["advice"]) == (reason, True, True)


def test_what_the_syncer_gets_over_by_itself_is_no_reason():
    passing = event(
        "SyncError", "Error syncing: Operation cannot be fulfilled on pods: the object has been modified; please apply"
    )
    assert only(*HEALTHY, pod(nodeName="n1"), passing)["reason"] == "starting"


# --- a tenant whose pods the host cluster's KAI Scheduler places -------------------------------------------------


def shared(*objects, host=()):
    there = InMemoryApi(copy.deepcopy([scheduler("v0.12.0"), node("w1"), queue("all"), queue("ml", "all"), *host]))
    return lifecycle.pending(make_run(OPTIONS, InMemoryApi([node(), *objects])), lambda: there), there


def test_the_host_clusters_scheduler_is_asked_under_the_tenants_names():
    there = on_host("Pending", since=None, node_name="")
    there["metadata"]["labels"]["kai.scheduler/queue"] = "gone"
    result, _host = shared(pod(), host=[there])
    (row,) = result["pods"]
    assert {key: row[key] for key in ("namespace", "name", "queue", "reason")} == {
        "namespace": "team",
        "name": "train-0",
        "queue": "gone",
        "reason": "queue_missing",
    }


def test_its_log_is_read_where_nothing_is_said():
    waits = on_host("Pending", since=None, node_name="")
    there = InMemoryApi([*HEALTHY, waits])
    there.pod_logs["kai-scheduler-default-1"] = "E1122 12:00:00.1 1 reflector.go:200] failed to list *v1.Pod: Unauthorized"
    result = lifecycle.pending(make_run(OPTIONS, InMemoryApi([node(), pod()])), lambda: there)
    assert [row["reason"] for row in result["pods"]] == ["scheduler_error"]


def test_what_never_came_to_the_host_cluster_is_told_by_the_tenants():
    error = event("SyncError", 'Error syncing: pods "x" is forbidden: exceeded quota: vc-web, requested: pods=1')
    result, _host = shared(pod(), error)
    assert [row["reason"] for row in result["pods"]] == ["quota"]


def test_pods_that_run_past_the_host_clusters_scheduler():
    running = {"phase": "Running", "startTime": CREATED}
    inside = [pod("other"), pod(gpus=1, schedulerName="default-scheduler", nodeName="w1", status=running)]
    there = on_host()
    there["spec"] |= {"schedulerName": "default-scheduler"}
    there["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    found = {row["name"]: row["reason"] for row in shared(*inside, host=[there])[0]["pods"]}
    assert found["train-0"] == "other_scheduler"


def test_a_refused_pod_with_sidecars_is_told_with_the_release_of_the_host_cluster():
    (row,) = shared(rejected("OutOfcpu", SHORT, **SIDECAR))[0]["pods"]
    assert "KAI Scheduler v0.12.0 does not add native sidecars" in row["message"]


def test_without_a_scheduler_on_either_side():
    there = InMemoryApi([node("w1"), on_host("Pending", since=None)])
    result = lifecycle.pending(make_run(OPTIONS, InMemoryApi([node(), pod()])), lambda: there)
    assert [row["reason"] for row in result["pods"]] == ["no_scheduler"]


@pytest.mark.parametrize("optional", [True, False])
def test_a_config_map_is_named_as_the_tenant_knows_it(optional):
    there = on_host("Pending", since=None, node_name="")
    there["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "cm-x-team-x-web", "optional": optional}}]
    there["status"] |= unschedulable("Missing required configmaps: [cm-x-team-x-web]")
    (row,) = shared(pod(), host=[there])[0]["pods"]
    assert row["reason"] == "config_map"
    assert "ConfigMap cm, which does not exist in namespace team of its virtual cluster" in row["message"]
    assert "ConfigMap cm in namespace team of its virtual cluster" in row["advice"]
