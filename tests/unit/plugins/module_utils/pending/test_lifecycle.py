# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending import lifecycle
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.pending import (
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

OPTIONS = {"host_kubeconfig": None, "host_namespace": None} | {
    "namespaces": [],
    "label_selector": "",
    "scheduler_name": "kai-scheduler",
}
UNAUTHORISED = "E1122 12:00:00.1 1 reflector.go:200] failed to list *v1.Pod: Unauthorized"
# Events of pods, and those of what could not create one.
LISTS = ["Pod", "Node", "ResourceSlice", "PodGroup", "Queue", "BindRequest", "SchedulingShard", "Event", "Event"]


def pending(run, host=None):
    return lifecycle.pending(run, lambda: host)


def run_with(*objects, **options):
    kube = InMemoryApi(objects)
    return make_run(OPTIONS | options, kube), kube


def test_one_list_of_each_kind_and_no_log_where_all_is_explained():
    run, kube = run_with(*HEALTHY, pod(status=unschedulable("no room")))
    result = pending(run)
    assert (result["changed"], [row["reason"] for row in result["pods"]]) == (False, ["no_node"])
    assert sorted(kube.reads) == sorted(("list", kind, None) for kind in LISTS)
    assert not kube.writes


def test_the_scheduler_is_asked_where_nothing_is_said():
    run, kube = run_with(*HEALTHY, pod(), pod("other"), pod("elsewhere", queue="nobody"))
    kube.pod_logs["kai-scheduler-default-1"] = UNAUTHORISED
    found = {row["name"]: row["reason"] for row in pending(run)["pods"]}
    assert found == {"train-0": "scheduler_error", "other": "scheduler_error", "elsewhere": "queue_missing"}


def test_a_log_that_cannot_be_read_is_a_warning():
    run, kube = run_with(*HEALTHY, pod())
    kube.fail("logs", "Pod", TenancyError("no answer"))
    assert [row["reason"] for row in pending(run)["pods"]] == ["unknown"]
    assert run.warnings == [
        "Why pods wait may be in the log of pod kai-scheduler-default-1 in kai-scheduler, which cannot be read: no answer"
    ]


def test_a_cluster_without_kais_kinds():
    kinds = {
        "PodGroup": "scheduling.run.ai/v2alpha2",
        "Queue": "scheduling.run.ai/v2",
        "BindRequest": "scheduling.run.ai/v1alpha2",
    }
    kube = InMemoryApi([node(), pod()], unserved=[(api_version, kind) for kind, api_version in kinds.items()])
    assert [row["reason"] for row in pending(make_run(OPTIONS, kube))["pods"]] == ["no_scheduler"]


def test_what_cannot_be_read_is_an_error():
    run, kube = run_with(*HEALTHY, pod())
    kube.fail("list", "Queue", ApiError("queues is forbidden", status=403))
    with pytest.raises(TenancyError, match="queues is forbidden"):
        pending(run)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["a", "b", "c"]),
        ({"namespaces": ["team"]}, ["a", "b"]),
        ({"namespaces": ["team", "lab"]}, ["a", "b", "c"]),
        ({"label_selector": "app=web"}, ["a", "c"]),
        ({"label_selector": "app=web", "namespaces": ["lab"]}, ["c"]),
        ({"namespaces": ["nowhere"]}, []),
    ],
)
def test_pods_are_chosen(options, names):
    web = {"app": "web"}
    # Succeeded in the end, without a GPU at first: it does not matter any more.
    ended = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "lastState": {"terminated": {"exitCode": 127}}}]}
    pods = [pod("a", labels=web), pod("b"), pod("c", labels=web, namespace="lab"), pod("d", labels=web, gpus=1, status=ended)]
    run, _kube = run_with(*HEALTHY, *pods, **options)
    assert sorted(row["name"] for row in pending(run)["pods"]) == names


def test_members_of_a_gang_count_though_they_are_not_chosen():
    of_gang = {"pod-group-name": "pg-train-0"}
    metadata = {"name": "pg-train-0", "namespace": "team"}
    gang = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": 2, "queue": "ml"},
    }
    pods = [pod(labels={"role": "leader"}), pod("train-1", annotations=of_gang)]
    run, _kube = run_with(*HEALTHY, gang, *pods, label_selector="role=leader")
    assert [row["reason"] for row in pending(run)["pods"]] == ["unknown"]


def test_the_scheduler_may_have_another_name():
    own = scheduler()
    own["metadata"]["labels"]["app"] = "ours-default"
    waits = pod(schedulerName="ours", queue="nobody")
    run, _kube = run_with(own, node(), queue("ml"), waits, scheduler_name="ours")
    assert [row["reason"] for row in pending(run)["pods"]] == ["queue_missing"]


def test_events_are_read_in_order_of_time():
    newer = event("FailedMount", "second", at="2026-11-22T12:09:00Z")
    newer["metadata"]["name"] = "a"
    series = event("FailedAttachVolume", "third")
    series |= {"lastTimestamp": None, "series": {"lastObservedTime": "2026-11-22T12:09:30.000001Z"}}
    run, _kube = run_with(*HEALTHY, pod(nodeName="n1"), newer, event("FailedMount", "first"), series)
    assert "third" in pending(run)["pods"][0]["message"]


QUOTA = "Error creating: pods is forbidden: exceeded quota: bound"


def test_workloads_are_read_of_kinds_only_that_could_not_create_a_pod():
    sets = [workload("ReplicaSet", name, {"replicas": 1}, {}, labels={}) for name in ("a", "b")]
    sets[1]["metadata"] |= {"namespace": "lab", "labels": {"app": "web"}}
    refused = [event("FailedCreate", QUOTA, name, kind="ReplicaSet") for name in ("a", "b")]
    refused[1]["metadata"]["namespace"] = "lab"
    # Of another kind, such as a controller of a user's own; and an event without an object.
    refused += [event("FailedCreate", "no", "c", kind="TrainJob"), event("FailedCreate", "no", "d") | {"involvedObject": None}]
    run, kube = run_with(*HEALTHY, *sets, *refused)
    assert [row["name"] for row in pending(run)["pods"]] == ["b", "a"]
    assert {kind for _verb, kind, _namespace in kube.reads} == {*LISTS, "ReplicaSet"}
    for options, names in (({"namespaces": ["lab"]}, ["b"]), ({"label_selector": "app=web"}, ["b"]), ({"namespaces": ["x"]}, [])):
        run, _kube = run_with(*HEALTHY, *sets, *refused, **options)
        assert [row["name"] for row in pending(run)["pods"]] == names


def test_the_host_cluster_is_read_where_an_option_names_it_only():
    run, _kube = run_with(*HEALTHY, pod(nodeName="n1"))
    assert [row["reason"] for row in pending(run, None)["pods"]] == ["starting"]


@pytest.mark.parametrize(("reason", "kind"), [("FailedMount", "Pod"), ("FailedCreate", "ReplicaSet")])
def test_what_another_namespace_says_of_a_uid_counts_for_nothing(reason, kind):
    real, forged = event(reason, "theirs", kind=kind), event(reason, "forged", at="2026-11-22T13:00:00Z", kind=kind)
    for where in (forged["metadata"], forged["involvedObject"]):
        where["namespace"] = "other"
    item = pod(nodeName="n1") if kind == "Pod" else workload(kind, "train-0", {"replicas": 1}, {})
    (row,) = pending(run_with(*HEALTHY, item, real, forged)[0])["pods"]
    assert ("theirs" in row["message"], "forged" in row["message"]) == (True, False)
    assert "forged" not in str(pending(run_with(*HEALTHY, item, forged)[0]))


def test_a_workload_that_is_being_deleted_needs_no_pods():
    item = workload("ReplicaSet", "a", {"replicas": 1}, {}, deletionTimestamp="2026-11-22T12:06:00Z")
    assert pending(run_with(*HEALTHY, item, event("FailedCreate", QUOTA, "a", kind="ReplicaSet"))[0])["pods"] == []


@pytest.mark.parametrize("odd", [{"spec": None}, {"status": []}, {"spec": {"containers": [], "nodeName": ["n1"]}}])
def test_a_pod_of_another_form_hides_no_other(odd):
    result = pending(run_with(*HEALTHY, pod("odd") | odd, pod(status=unschedulable("no room")))[0])
    assert [(row["name"], row["reason"]) for row in result["pods"]] == [("train-0", "no_node")]
    assert [text.partition(":")[0] for text in result["unread"]] == ["pod team/odd cannot be read"]


def test_an_event_of_another_form_hides_no_pod():
    run, _kube = run_with(*HEALTHY, pod(status=unschedulable("no room")), event("Failed", "x") | {"series": "odd"})
    assert [row["reason"] for row in pending(run)["pods"]] == ["no_node"]
