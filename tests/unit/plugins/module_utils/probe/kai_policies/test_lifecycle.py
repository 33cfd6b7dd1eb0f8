# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import POD_GROUP, SHARD, TOPOLOGY
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_policies.facts import CHECKS
from ansible_collections.kubegpu.tenancy.plugins.modules import probe
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import node

NAMESPACE = "kai-policy-probe"
RANK = {"train": 50, "build-preemptible": 75}


HELD = {"metadata": {"finalizers": ["example.com/slow"]}}


class Cluster(InMemoryApi):
    """A cluster whose scheduler follows, with each pod that is created, the policies of KAI, but for those in ``broken``."""

    def __init__(self, nodes=(4, 4), broken=(), unserved=(), strategy=None, version="v0.16.8"):
        super().__init__(unserved=unserved)
        template = {"spec": {"containers": [{"name": "main", "image": f"registry:5000/kai/scheduler:{version}"}]}}
        metadata = {"name": "kai-scheduler-default", "namespace": "kai-scheduler"}
        self.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}})
        for number, gpus in enumerate(nodes, 1):
            self.put(node(f"n{number}", gpus=gpus))
        if strategy:
            spec = {"placementStrategy": {"gpu": strategy}}
            self.put({"apiVersion": SHARD[0], "kind": SHARD[1], "metadata": {"name": "default"}, "spec": spec})
        self.strategy = strategy or "binpack"
        self.broken = broken
        self.evicted: list[str] = []
        self.react("create", "Namespace", self.add_account)
        self.react("create", "Pod", self._schedule)
        self.react("create", "Job", self._run_job)
        self.react("delete", "Job", self._end_job)

    def others_have(self, name, **spec):
        pod = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "others", "annotations": {}},
                "spec": pod | spec,
                "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
            }
        )

    def _run_job(self, job):
        """Create its pods, with the group that KAI's pod grouper makes of them."""
        name, spec = job["metadata"]["name"], job["spec"]
        least = int(job["metadata"]["annotations"]["kai.scheduler/batch-min-member"])
        group = {"name": f"pg-{name}", "namespace": NAMESPACE, "ownerReferences": [{"kind": "Job"}]}
        self.put({"apiVersion": POD_GROUP[0], "kind": POD_GROUP[1], "metadata": group, "spec": {"minMember": least}})
        for number in range(spec["parallelism"]):
            metadata = spec["template"]["metadata"] | {"name": f"{name}-x{number}", "namespace": NAMESPACE}
            metadata |= {"annotations": {"pod-group-name": f"pg-{name}"}, "ownerReferences": [{"kind": "Job"}]}
            self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec["template"]["spec"]})

    def _end_job(self, job):
        name = job["metadata"]["name"]
        self.drop(*POD_GROUP, f"pg-{name}", NAMESPACE)
        for number in range(job["spec"]["parallelism"]):
            self.drop("v1", "Pod", f"{name}-x{number}", NAMESPACE)

    # --- what the scheduler does ---

    def _pods(self):
        return self.list("v1", "Pod", NAMESPACE)

    def _running(self):
        return [pod for pod in self._pods() if pod.get("status", {}).get("phase") == "Running"]

    def _gpus(self, pods):
        return sum(int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]) for pod in pods)

    def _queue(self, name):
        (queue,) = [item for item in self.list("scheduling.run.ai/v2", "Queue") if item["metadata"]["name"] == name]
        return queue["spec"]["resources"]["gpu"]

    def _of(self, pod):
        return pod["metadata"]["labels"]["kai.scheduler/queue"]

    def _schedule(self, created):
        name, note = created["metadata"]["name"], created["metadata"]["annotations"].get("pod-group-name")
        members = [pod for pod in self._pods() if note and pod["metadata"]["annotations"].get("pod-group-name") == note]
        group = self.get(*POD_GROUP, note, NAMESPACE) if note else None
        roles = {pod["metadata"]["labels"].get("kai.scheduler/subgroup-name") for pod in members}
        missing = group and {one["name"] for one in group["spec"].get("subGroups", [])} - roles
        if group and (len(members) < group["spec"]["minMember"] or (missing and "roles" not in self.broken)):
            self.put(created | {"status": {"phase": "Pending"}})
            return
        waiting = [pod for pod in members if pod.get("status", {}).get("phase") != "Running"] or [created]
        self._make_room(created, waiting)
        places = self._place(waiting, bool(group and group["spec"].get("topologyConstraint")))
        for pod, place in zip(waiting, places or [None] * len(waiting)):
            status = {"phase": "Running" if place else "Pending"}
            self.put(pod | {"spec": pod["spec"] | ({"nodeName": place} if place else {}), "status": status})
        assert name not in self.evicted

    def _free(self):
        free = {
            item["metadata"]["name"]: int(item["status"]["allocatable"]["nvidia.com/gpu"]) for item in self.list("v1", "Node")
        }
        for pod in self._running():
            free[pod["spec"]["nodeName"]] -= self._gpus([pod])
        bound = self._queue("kubegpu-probe")["limit"] - self._gpus(self._running())
        return free, bound

    def _make_room(self, created, waiting):
        _free, bound = self._free()
        if bound >= self._gpus(waiting):
            return
        victims = [pod for pod in self._running() if self._may_evict(created, pod)]
        for victim in victims[-1:]:
            self.evicted.append(victim["metadata"]["name"])
            self.drop("v1", "Pod", victim["metadata"]["name"], NAMESPACE)

    def _may_evict(self, created, victim):
        if "evictions" in self.broken:
            return False
        if self._of(created) == self._of(victim):
            rank, other = (RANK[pod["metadata"]["labels"]["priorityClassName"]] for pod in (created, victim))
            return rank > other
        mine, theirs = self._queue(self._of(created)), self._queue(self._of(victim))
        used = self._gpus(pod for pod in self._running() if self._of(pod) == self._of(created))
        if mine["quota"] or theirs["quota"]:
            return used < mine["quota"]
        total = self._queue("kubegpu-probe")["limit"]
        weights = mine["overQuotaWeight"] + theirs["overQuotaWeight"]
        return used < total * mine["overQuotaWeight"] // weights

    def _place(self, pods, one_node):
        free, bound = self._free()
        places = []
        for pod in pods:
            gpus = self._gpus([pod])
            order = sorted(free, key=lambda name: (free[name], name), reverse=self.strategy == "spread")
            if one_node and "topology" not in self.broken and places:
                order = places[:1]
            place = next((name for name in order if free[name] >= gpus), None)
            if place is None or bound < gpus:
                return None
            free[place] -= gpus
            bound -= gpus
            places.append(place)
        return places

    def left(self):
        return [
            key
            for key in self.objects
            if key[1] not in ("Node", "SchedulingShard") and key[2] != "kai-scheduler" and key[2] != "others"
        ]


def run(kube, check_mode=False, **changes):
    return probe.reconcile(make_run({"kind": "kai_policies", "timeout": 300, **changes}, kube, check_mode=check_mode))


def verdicts(result):
    return {found["name"]: found["verdict"] for found in result["results"]}


def test_all_policies_hold_and_nothing_is_left():
    kube = Cluster()
    result = run(kube)
    assert verdicts(result) == dict.fromkeys(CHECKS, "passed")
    assert result["changed"] is False
    assert kube.left() == []
    # One for the owner of the quota, one for the higher class, three by weight, one of the group.
    assert len(kube.evicted) == 6


def test_what_is_returned_is_what_is_documented():
    returned = yaml.safe_load(probe.RETURN)
    result = run(Cluster(), checks=["packing"])
    assert result.keys() - returned.keys() == {"changed"}
    assert result["results"][0].keys() == returned["results"]["contains"].keys()


def test_a_scheduler_that_takes_nothing_back_fails_with_what_runs():
    kube = Cluster(broken=["evictions"])
    with pytest.raises(TenancyError, match="4 of 8 checks failed") as caught:
        run(kube)
    by_name = {found["name"]: found for found in caught.value.details["results"]}
    assert [name for name, found in by_name.items() if found["verdict"] == "failed"] == [
        "reclaim",
        "preemption",
        "fair_share",
        "elastic",
    ]
    assert "running are 4 over-quota, 0 owner, and have to be 3 over-quota, 1 owner" in by_name["reclaim"]["reason"]
    assert kube.left() == []


def test_a_scheduler_that_ignores_roles_fails():
    with pytest.raises(TenancyError, match="running are 2 worker, and have to be 0 worker"):
        run(Cluster(broken=["roles"]), checks=["roles"])


def test_jobs_start_together_from_v0_14_1_on():
    for version in ("v0.14.0", "of-our-own"):
        (found,) = run(Cluster(version=version), checks=["job"])["results"]
        assert found["verdict"] == "not_tried"
        assert "v0.14.1 and later can" in found["reason"]
    assert verdicts(run(Cluster(version="v0.14.1"), checks=["job"])) == {"job": "passed"}


def test_a_scheduler_that_ignores_topologies_fails():
    with pytest.raises(TenancyError, match="running are 2 one-node, and have to be 0 one-node"):
        run(Cluster(broken=["topology"]), checks=["topology"])


@pytest.mark.parametrize(("strategy", "nodes"), [("binpack", 1), ("spread", 2), (None, 1)])
def test_packing_is_judged_by_the_placement_strategy(strategy, nodes):
    (found,) = run(Cluster(strategy=strategy), checks=["packing"])["results"]
    assert found["verdict"] == "passed"
    assert f"ran on {nodes} of 2 nodes" in found["reason"]


def test_packing_that_is_not_as_the_strategy_says():
    kube = Cluster(strategy="spread")
    kube.strategy = "binpack"
    with pytest.raises(TenancyError, match="have to run on 2 nodes"):
        run(kube, checks=["packing"])


@pytest.mark.parametrize("spec", [{"nodeName": "n1"}, {}])
def test_a_busy_cluster_is_left_alone(spec):
    kube = Cluster()
    kube.others_have("work", **spec)
    result = run(kube)
    assert verdicts(result) == dict.fromkeys(CHECKS, "not_tried")
    assert "others/work" in result["results"][0]["reason"]
    assert kube.evicted == kube.left() == []


def test_pods_of_other_schedulers_only_take_room():
    kube = Cluster(nodes=(4,))
    kube.others_have("work", nodeName="n1", schedulerName="default-scheduler")
    assert verdicts(run(kube, checks=["reclaim", "fair_share"])) == {"reclaim": "passed", "fair_share": "not_tried"}


@pytest.mark.parametrize(
    ("nodes", "unserved", "tried"),
    [
        ((1,), (), {"preemption", "job"}),
        ((2,), (), {"preemption", "job", "reclaim", "elastic"}),
        ((4,), (), {"preemption", "job", "reclaim", "elastic", "roles", "fair_share"}),
        ((1, 1, 1, 1), (), {"preemption", "job", "reclaim", "elastic", "roles", "fair_share"}),
        ((4, 4), [TOPOLOGY], set(CHECKS) - {"topology"}),
    ],
)
def test_each_check_says_what_it_needs(nodes, unserved, tried):
    result = run(Cluster(nodes, unserved=unserved))
    assert {name for name, verdict in verdicts(result).items() if verdict == "passed"} == tried
    assert all(found["reason"] for found in result["results"])


def test_check_mode_runs_nothing():
    kube = Cluster()
    assert verdicts(run(kube, check_mode=True)) == dict.fromkeys(CHECKS, "not_tried")
    assert kube.writes == []


def test_what_a_killed_run_left_is_removed_and_what_is_not_ours_stays():
    kube = Cluster()
    mine, theirs = "kubegpu-probe-a", "kubegpu-probe"
    owned = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}
    for name, labels in ((mine, owned), (theirs, {})):
        kube.put(
            {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name, "labels": labels}, "spec": {}}
        )
    with pytest.raises(TenancyError, match="already exists"):
        run(kube, checks=["reclaim"])
    assert [key[3] for key in kube.left()] == [theirs]


def test_pods_that_do_not_end_leave_no_queues():
    kube = Cluster()
    kube.react("create", "Pod", lambda pod: kube.patch("v1", "Pod", pod["metadata"]["name"], HELD, NAMESPACE))
    with pytest.raises(TenancyError, match=r"to be empty|the end of|still there"):
        run(kube, checks=["packing"])
    assert {key[1] for key in kube.left()} == {"Namespace", "Pod"}
