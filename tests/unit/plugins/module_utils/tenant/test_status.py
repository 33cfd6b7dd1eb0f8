# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import dataclasses
import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.plan import queue_policies
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import node_selector
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.facts import CHANGE, RECORD, RECORD_LABEL, VERIFY
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.status import (
    Due,
    HostObjects,
    Live,
    Verified,
    digest,
    due,
    fingerprint,
    gather,
    verified,
)
from ansible_collections.kubegpu.tenancy.tests.unit.synced import synced
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import KAI_VERSION, desired, host_kai, item, node, on_host, pod
from hypothesis import assume, given, settings
from hypothesis import strategies as st

NOW = datetime.datetime(2026, 11, 22, 12, 0, tzinfo=datetime.timezone.utc)
WANTED = "0123456789abcdef"
PASSED = ({"name": "gpu", "queue": "q", "verdict": "passed", "reason": "", "seconds": 1.0},)


POLICIES = queue_policies("ml", ["vision"], True)


def sort(objects, host_scheduler=(), policies=()):
    """Return what lies on a host cluster by tenant."""
    by_kind = {}
    for one in objects:
        by_kind.setdefault(one["kind"], []).append(one)
    kinds = ("Namespace", "StatefulSet", "Pod", "Node", "Secret", "ConfigMap", "Service")
    found = HostObjects(*(by_kind.get(kind, []) for kind in kinds), host_scheduler=host_scheduler, policies=policies)
    return gather(found)


def record(live, wanted=WANTED, at=NOW, results=PASSED):
    data = Verified(wanted, fingerprint(live), at, tuple(results)).data()
    return item("v1", "ConfigMap", RECORD, "tenant-ml", labels={RECORD_LABEL: "verified"}, data=data)


def seen(objects=None, host_scheduler=(), **recorded) -> Live:
    """Return a tenant that was verified as it is."""
    live = sort(on_host() if objects is None else objects, host_scheduler)["ml"]
    return dataclasses.replace(live, record=record(live, **recorded))


def of_kai(name):
    """Return a pod of the tenant's KAI Scheduler."""
    return synced(pod(name, "tenant-ml"), "ml", "kai-scheduler")


def tenant(**more):
    (made,) = tenants_from([desired("ml", **more)])
    return made


def judge(live, has_kubeconfig=True, wanted=WANTED, max_age=3600, now=NOW, **more) -> Due:
    return due(tenant(**more), wanted, live, has_kubeconfig, max_age, now)


# --- what is due -------------------------------------------------------------------------------------------------


def test_nothing_for_a_tenant_that_is_as_asked():
    assert judge(seen()) == Due()
    assert judge(seen(), max_age=60, now=NOW + datetime.timedelta(seconds=60)) == Due()


@pytest.mark.parametrize(
    ("live", "has_kubeconfig", "reason"),
    [
        (sort(on_host())["ml"], True, "still there: its namespace, labels of nodes, its kubeconfig"),
        (sort([node("n1", "ml")])["ml"], False, "still there: labels of nodes"),
        (Live(), True, "still there: its kubeconfig"),
        (Live(), False, None),
    ],
)
def test_what_is_to_be_absent_is_removed_down_to_its_leftovers(live, has_kubeconfig, reason):
    assert judge(live, has_kubeconfig, state="absent") == (Due((CHANGE,), (reason,)) if reason else Due())


def paused():
    objects = on_host()
    workload = next(one for one in objects if one["kind"] == "StatefulSet")
    workload["metadata"]["annotations"] = {"loft.sh/paused": "true"}
    workload["spec"]["replicas"] = 0
    return [one for one in objects if one["kind"] != "Pod"]


def test_a_paused_tenant_is_neither_woken_nor_verified():
    assert judge(sort(paused())["ml"], has_kubeconfig=False, state="paused") == Due()
    assert judge(seen(), state="paused") == Due((CHANGE,), ("it is running, not paused",))
    assert judge(sort(paused())["ml"]) == Due((CHANGE, VERIFY), ("it is paused",))


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        (Live(), "it is absent"),
        (sort([one for one in on_host() if one["kind"] != "StatefulSet"])["ml"], "it is starting"),
        (sort(on_host())["ml"], "it was never verified"),
        (seen(wanted="of before"), "something else is wanted of it than when it was verified"),
        (
            dataclasses.replace(seen(), record=item("v1", "ConfigMap", RECORD, "tenant-ml", data={"wanted": WANTED})),
            "the record of its verification cannot be read",
        ),
    ],
)
def test_a_tenant_that_differs_is_changed_and_verified(live, reason):
    assert judge(live) == Due((CHANGE, VERIFY), (reason,))


@pytest.mark.parametrize(
    ("host", "reason"),
    [("1.35", None), ("", None), ("1.36", "its chart was rendered for Kubernetes 1.35, and the host cluster has 1.36")],
)
def test_another_kubernetes_of_the_host_is_a_reason_to_render_the_chart_again(host, reason):
    found = due(tenant(), WANTED, seen(), True, 3600, NOW, host)
    assert found == (Due((CHANGE, VERIFY), (reason,)) if reason else Due())


def test_a_kubeconfig_that_does_not_lead_there_is_written_again():
    assert judge(seen(), has_kubeconfig=False) == Due((CHANGE, VERIFY), ("its kubeconfig is missing, or leads elsewhere",))
    # All reasons at once.
    assert len(judge(seen(wanted="of before"), has_kubeconfig=False).reasons) == 2


@pytest.mark.parametrize(
    ("live", "now", "reason"),
    [
        (seen(), NOW + datetime.timedelta(seconds=3601), "it was verified 3601 s ago, and that stands for 3600 s"),
        (seen(), NOW - datetime.timedelta(seconds=1), "it was verified later than now: the clock was set back"),
        (seen(results=[*PASSED, {"verdict": "not_tried", "name": "gang"}]), NOW, "not all checks passed"),
        (seen(results=[{"verdict": "failed", "name": "gang"}]), NOW, "not all checks passed"),
    ],
)
def test_a_verification_that_does_not_stand_is_only_repeated(live, now, reason):
    assert judge(live, now=now) == Due((VERIFY,), (reason,))


def test_a_verification_stands_whose_findings_were_accepted():
    assert judge(seen(results=[*PASSED, {"verdict": "accepted", "name": "burst"}])) == Due((), ())


# --- what a verification rests on --------------------------------------------------------------------------------


def find(objects, kind, name):
    return next(one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name))


# Each changes one thing of the live state.
def _restart(objects):
    find(objects, "Pod", "ml-0")["status"]["containerStatuses"][0]["restartCount"] += 1


def _replace(objects, name):
    find(objects, "Pod", name)["metadata"]["uid"] += "-new"


def _end(objects, name):
    find(objects, "Pod", name)["status"]["phase"] = "Failed"


def _node(objects, *path, value):
    target = find(objects, "Node", "gpu-ml")
    for key in path[:-1]:
        target = target.setdefault(key, {})
    target[path[-1]] = value


def _metadata(objects, where, key, value):
    find(objects, "Namespace", "tenant-ml")["metadata"][where][key] = value


CHANGES = {
    "its control plane restarted": _restart,
    "its control plane's pod was replaced": lambda objects: _replace(objects, "ml-0"),
    "its control plane was made anew": lambda objects: find(objects, "StatefulSet", "ml")["metadata"].update(uid="new"),
    "its control plane was changed": lambda objects: find(objects, "StatefulSet", "ml")["metadata"].update(generation=2),
    "its control plane is not ready": lambda objects: find(objects, "StatefulSet", "ml")["status"].update(readyReplicas=0),
    "a pod of KAI Scheduler was replaced": lambda objects: _replace(objects, "scheduler-x-kai-scheduler-x-ml"),
    "a pod of KAI Scheduler ended": lambda objects: _end(objects, "scheduler-x-kai-scheduler-x-ml"),
    "a pod of KAI Scheduler came": lambda objects: objects.append(of_kai("binder")),
    "a pod of KAI Scheduler is gone": lambda objects: objects.remove(find(objects, "Pod", "scheduler-x-kai-scheduler-x-ml")),
    "a GPU is lost": lambda objects: _node(objects, "status", "allocatable", "nvidia.com/gpu", value="3"),
    "a node is cordoned": lambda objects: _node(objects, "spec", "unschedulable", value=True),
    "a node is tainted": lambda objects: _node(objects, "spec", "taints", value=[{"key": "k", "effect": "NoSchedule"}]),
    "a node was restarted": lambda objects: _node(objects, "status", "nodeInfo", "bootID", value="boot-2"),
    "a node was added": lambda objects: objects.append(node("another", "ml")),
    "its node was taken away": lambda objects: objects.remove(find(objects, "Node", "gpu-ml")),
    "its profile changed": lambda objects: _metadata(objects, "annotations", "kubegpu.tenancy/trust", "partial"),
    "its network policies": lambda objects: _metadata(objects, "annotations", "kubegpu.tenancy/network-policies", "unenforced"),
    "its scheduler is the host's": lambda objects: _metadata(objects, "labels", "kubegpu.tenancy/scheduler", "kai"),
    "its port changed": lambda objects: find(objects, "Service", "ml")["spec"]["ports"][0].update(nodePort=31002),
    "its Service is gone": lambda objects: objects.remove(find(objects, "Service", "ml")),
    "its certificate authority changed": lambda objects: find(objects, "Secret", "vc-ml")["data"].update(
        {"certificate-authority": "another"}
    ),
    "its Secret is gone": lambda objects: objects.remove(find(objects, "Secret", "vc-ml")),
    "its namespace is being removed": lambda objects: find(objects, "Namespace", "tenant-ml")["metadata"].update(
        deletionTimestamp="2026-11-22T12:00:00Z"
    ),
    "its namespace is gone": lambda objects: objects.remove(find(objects, "Namespace", "tenant-ml")),
}


def after(objects):
    """Return what is due for a tenant that was verified before it changed."""
    return judge(dataclasses.replace(sort(objects).get("ml", Live()), record=seen().record))


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_happens_there_is_something_to_do(what):
    objects = on_host()
    CHANGES[what](objects)
    assert after(objects).work == (CHANGE, VERIFY)


# Every value on the host cluster that a verification rests on, and what it may become.
VALUES = {
    ("StatefulSet", "ml", "metadata", "uid"): st.text(),
    ("StatefulSet", "ml", "metadata", "generation"): st.integers(),
    ("Pod", "ml-0", "metadata", "uid"): st.text(),
    ("Pod", "ml-0", "status", "containerStatuses", 0, "restartCount"): st.integers(),
    ("Pod", "scheduler-x-kai-scheduler-x-ml", "metadata", "uid"): st.text(),
    ("Pod", "scheduler-x-kai-scheduler-x-ml", "status", "containerStatuses", 0, "restartCount"): st.integers(),
    ("Node", "gpu-ml", "metadata", "name"): st.text(),
    ("Node", "gpu-ml", "status", "allocatable"): st.dictionaries(st.text(), st.text()),
    ("Node", "gpu-ml", "status", "nodeInfo", "bootID"): st.text(),
    ("Node", "gpu-ml", "spec", "taints"): st.lists(
        st.fixed_dictionaries({"key": st.text(), "value": st.text(), "effect": st.text()}), min_size=1
    ),
    ("Namespace", "tenant-ml", "metadata", "annotations", "kubegpu.tenancy/trust"): st.text(),
    ("Namespace", "tenant-ml", "metadata", "annotations", "kubegpu.tenancy/network-policies"): st.text(),
    ("Namespace", "tenant-ml", "metadata", "labels", "kubegpu.tenancy/scheduler"): st.text(),
    ("Service", "ml", "spec", "ports", 0, "nodePort"): st.integers(),
    ("Secret", "vc-ml", "data", "certificate-authority"): st.text(),
}


@given(st.sampled_from(sorted(VALUES, key=str)).flatmap(lambda place: st.tuples(st.just(place), VALUES[place])))
def test_whatever_value_changes_there_is_something_to_do(change):
    (kind, name, *path, last), value = change
    objects = on_host()
    target = find(objects, kind, name)
    for key in path:
        target = target[key]
    assume(target.get(last) != value)
    target[last] = value
    assert after(objects).work == (CHANGE, VERIFY)


@given(st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_the_order_in_which_a_server_lists_is_no_change(order):
    objects = [*on_host(), *on_host("web")]
    order.shuffle(objects)
    assert fingerprint(sort(objects)["ml"]) == fingerprint(sort(on_host())["ml"])


def own_pod(objects):
    return find(objects, "Pod", "train-x-default-x-ml")


@pytest.mark.parametrize(
    "change",
    [
        lambda objects: objects.remove(own_pod(objects)),
        lambda objects: own_pod(objects)["metadata"].update(uid="new"),
        lambda objects: own_pod(objects)["status"]["containerStatuses"][0].update(restartCount=9),
        # A tenant may label its pods as it likes.
        lambda objects: own_pod(objects)["metadata"]["labels"].update(app="vcluster", release="ml"),
        # What a Job of an upgrade leaves, and what that replaced.
        lambda objects: objects.append(ended(of_kai("upgrade"))),
        lambda objects: objects.append(going(of_kai("old"))),
        lambda objects: objects.extend(on_host("web")),
        lambda objects: _metadata(objects, "annotations", "somebody.else/note", "x"),
        lambda objects: find(objects, "Secret", "vc-ml")["data"].update({"client-key": "renewed"}),
        lambda objects: find(objects, "Node", "gpu-ml")["metadata"]["labels"].update({"somebody.else/label": "x"}),
        lambda objects: find(objects, "Node", "gpu-ml")["status"].update(
            conditions=[{"type": "Ready", "lastHeartbeatTime": "x"}]
        ),
    ],
)
def test_what_comes_and_goes_is_no_change(change):
    objects = on_host()
    change(objects)
    assert after(objects) == Due()


def ended(item):
    item["status"]["phase"] = "Succeeded"
    return item


def going(item):
    item["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
    return item


def test_tenants_that_share_a_scheduler_rest_on_it():
    pods = [one for one in host_kai() if one["kind"] == "Pod"]
    live = seen(on_host(shared=True), pods)
    assert judge(live) == Due()
    replaced = copy.deepcopy(pods)
    replaced[0]["metadata"]["uid"] = "new"
    assert judge(dataclasses.replace(live, host_scheduler=tuple(replaced))).work == (CHANGE, VERIFY)
    # Others do not.
    assert sort(on_host(), pods)["ml"].host_scheduler == ()


def test_policies_that_somebody_changed_or_removed_are_a_reason_to_work_on_the_tenant():
    policies = [policy | {"metadata": policy["metadata"] | {"uid": policy["kind"], "generation": 1}} for policy in POLICIES]
    live = sort(on_host(shared=True), policies=policies)["ml"]
    live = dataclasses.replace(live, record=record(live))
    assert len(live.policies) == 2
    assert judge(live) == Due()
    changed = copy.deepcopy(policies)
    changed[0]["metadata"]["generation"] = 2
    for found in (changed, policies[:1], []):
        assert judge(dataclasses.replace(live, policies=tuple(found))).work == (CHANGE, VERIFY)
    others = [policy | {"metadata": policy["metadata"] | {"labels": {TENANT_LABEL: "web"}}} for policy in policies]
    assert sort(on_host(), policies=others)["ml"].policies == ()


# --- what there is -----------------------------------------------------------------------------------------------


def test_what_lies_on_the_host_cluster_is_sorted_by_tenant():
    etcd = item("apps/v1", "StatefulSet", "ml-etcd", "tenant-ml", labels={"app": "vcluster"})
    kai = item("v1", "Namespace", "kai-scheduler")
    found = sort([etcd, kai, *on_host(), *on_host("web"), node("both", "ml", "web"), node("left", "gone"), node("free")])
    assert found.keys() == {"ml", "web", "gone"}
    ml = found["ml"]
    assert ml.namespace["metadata"]["name"] == "tenant-ml"
    assert ml.workload["metadata"]["name"] == "ml"
    assert ml.service["metadata"]["name"] == "ml"
    assert ml.secret["metadata"]["name"] == "vc-ml"
    assert [one["metadata"]["name"] for one in ml.pods] == ["ml-0", "scheduler-x-kai-scheduler-x-ml", "train-x-default-x-ml"]
    assert [one["metadata"]["name"] for one in ml.nodes] == ["gpu-ml", "both"]
    assert ml.record is None
    assert found["gone"] == Live(nodes=(node("left", "gone"),))
    assert found["gone"].state == "absent"


def test_states():
    objects = on_host()
    assert sort(objects)["ml"].state == "running"
    status = find(objects, "StatefulSet", "ml")["status"]
    status["readyReplicas"] = 0
    assert sort(objects)["ml"].state == "starting"
    find(objects, "Pod", "ml-0")["status"]["containerStatuses"][0] |= {
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    assert sort(objects)["ml"].state == "crashing"
    assert sort(paused())["ml"].state == "paused"
    going(find(objects, "Namespace", "tenant-ml"))
    assert sort(objects)["ml"].state == "removing"


def test_versions_are_those_that_run():
    ml = sort(on_host())["ml"]
    assert (ml.vcluster_version, ml.kubernetes_version, ml.scheduler_version) == ("0.36.1", "v1.35.4", KAI_VERSION)
    shared = sort(on_host(shared=True), [one for one in host_kai("v0.14.0") if one["kind"] == "Pod"])["ml"]
    assert shared.scheduler_version == "v0.14.0"
    assert (Live().vcluster_version, Live().kubernetes_version, Live().scheduler_version) == (None, None, None)


def test_a_record_is_read_as_it_was_written():
    written = Verified(WANTED, "f" * 16, NOW, PASSED)
    assert verified({"data": written.data()}) == written
    assert verified(None) is None


@pytest.mark.parametrize(
    "change",
    [{"at": "yesterday"}, {"results": "["}, {"results": "[1]"}, {"results": '[{"name": "gpu"}]'}, {"results": "5"}],
)
def test_a_record_that_somebody_spoilt_is_none(change):
    assert verified({"data": Verified(WANTED, "f", NOW, PASSED).data() | change}) is None
    assert verified({"data": None}) is None


def test_digests_do_not_depend_on_the_order_of_keys():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1}) != digest({"a": 1, "b": [2, 1]})


def test_a_tenants_nodes_are_chosen_by_its_label():
    assert node_selector("ml") == {"tenant.kubegpu.tenancy/ml": "true"}
