# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rehearsal against an API server in memory."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Superseded, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import TOPOLOGY
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import LISTENER
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal import lifecycle, plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import (
    CLAIM_NOTE,
    KWOK_NAMESPACE,
    NAMESPACE,
    SIMULATED,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.lifecycle import Claim, ensure_cluster, remove_cluster
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import Trace, nodes, workload
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.plan import PRIORITY_CLASS
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.simulated import Cluster

QUEUES = [{"name": "ml", "gpu": {"quota": 4, "limit": 4}}]
WORK = (
    workload("whole", "ml", gpus=2, runs=10),
    workload("gang", "ml", arrives=5, gpus=1, pods=2, together=2, priority_class="train"),
    workload("part", "ml", arrives=5, gpus=0.5, runs=20, node_selector={"zone": "a"}),
    workload("memory", "ml", gpu_memory=2000),
)
TRACE = Trace(
    30.0, (nodes(count=2, gpus=4, gpu_memory=8000, labels={"zone": "a"}), nodes(taints=[{"key": "x"}])), QUEUES, {}, WORK
)


@pytest.fixture
def cluster():
    return Cluster()


def run(cluster, **params):
    return make_run({"timeout": 600} | params, cluster)


def made(cluster, trace=TRACE):
    here = run(cluster)
    with Claim(here) as claim:
        ensure_cluster(here, trace, plan.IMAGE, claim)
    return here.result()


def remove(here):
    with Claim(here) as claim:
        remove_cluster(here, claim)


def play(here, *args, **options):
    with Claim(here) as claim:
        return lifecycle.play(here, *args, claim=claim, **options)


# --- what a rehearsal has on its cluster -------------------------------------------------------------------------


def test_a_cluster_is_made_once_and_removed_without_a_trace(cluster):
    before = dict(cluster.objects)
    result = made(cluster)
    assert result["changed"]
    assert cluster.names("Node") == ["real", "simulated-0-0", "simulated-0-1", "simulated-1-0"]
    assert cluster.names("Deployment") == ["kwok"]
    again = made(cluster)
    assert (again["changed"], again.get("steps")) == (False, None)
    here = run(cluster)
    remove(here)
    assert here.result()["changed"]
    # The deployment's pod goes with it on a real cluster.
    assert cluster.objects.keys() - {("v1", "Pod", KWOK_NAMESPACE, "kwok-1")} == before.keys()
    here = run(cluster)
    remove(here)
    assert here.result()["changed"] is False


def test_check_mode_lists_what_is_removed_and_writes_nothing(cluster):
    steps = [step["step"] for step in made(cluster)["steps"]]
    assert (steps[0], steps[-1]) == (f"apply Namespace {NAMESPACE}", "create 3 simulated nodes")
    here = make_run({"timeout": 60}, cluster, check_mode=True)
    writes = list(cluster.writes)
    remove(here)
    assert "remove 3 simulated nodes" in [step["step"] for step in here.result()["steps"]]
    assert cluster.writes == writes


def test_another_trace_has_other_nodes(cluster):
    made(cluster)
    fewer = Trace(30.0, (nodes(count=1, gpus=8),), QUEUES, {}, WORK)
    steps = [step["step"] for step in made(cluster, trace=fewer)["steps"]]
    assert steps == ["remove 3 simulated nodes", "create 1 simulated nodes"]
    assert cluster.names("Node") == ["real", "simulated-0-0"]
    node = cluster.get("v1", "Node", "simulated-0-0")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert {"key": SIMULATED, "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]


def test_a_namespace_of_others_stays(cluster):
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with pytest.raises(TenancyError, match="is not owned by"):
        made(cluster)
    with pytest.raises(TenancyError, match="is not owned by"):
        remove(run(cluster))
    assert cluster.writes == []


def test_queues_of_others_are_refused_and_those_of_a_rehearsal_are_not(cluster):
    cluster.put({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "default-queue"}})
    made(cluster)
    cluster.put({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "ml"}})
    assert made(cluster)["changed"] is False
    remove(run(cluster))
    writes = list(cluster.writes)
    with pytest.raises(TenancyError, match=r"The cluster has queues that no rehearsal made: ml\. Rehearse on"):
        made(cluster)
    assert cluster.writes == writes


def test_pods_of_daemon_sets_go_with_their_nodes(cluster):
    made(cluster)
    for name, node in (("network-a", "simulated-0-0"), ("network-b", "real")):
        metadata = {"name": name, "namespace": "kube-system"}
        cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}, "status": {}})
    remove(run(cluster))
    assert cluster.names("Pod", "kube-system") == ["network-b"]


def test_stages_are_data_that_kwok_reads():
    (config,) = [item for item in plan.simulator() if item["kind"] == "ConfigMap"]
    stages = [json.loads(text) for text in config["data"]["kwok.yaml"].split("\n---\n")]
    assert [stage["metadata"]["name"] for stage in stages] == ["node-ready", "pod-runs", "pod-ends", "pod-goes", "gpu-reserved"]
    (reserved,) = stages[-1]["spec"]["next"]["patches"]
    assert reserved["template"] == "annotations:\n  run.ai/reserve_for_gpu_index: GPU-{{ .metadata.uid }}\n"


def test_pods_ask_for_what_the_trace_says():
    whole, gang, part, memory = (plan.pods(item, item.together, "kai-scheduler", speed=2) for item in WORK)
    assert whole[0]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert whole[0]["metadata"]["annotations"] == {"rehearsal.kubegpu.tenancy/runs": "5000ms"}
    assert [pod["metadata"]["annotations"] for pod in gang] == [{"pod-group-name": "gang"}] * 2
    assert gang[0]["metadata"]["labels"]["priorityClassName"] == "train"
    assert part[0]["metadata"]["annotations"]["gpu-fraction"] == "0.5"
    assert part[0]["spec"]["nodeSelector"] == {"zone": "a", SIMULATED: "true"}
    assert memory[0]["metadata"]["annotations"] == {"gpu-memory": "2000"}
    assert plan.group(WORK[0], 1) is None
    group = plan.group(WORK[1], 2)
    assert group["spec"] == {"minMember": 2, "queue": "ml", "priorityClassName": "train"}


# --- rounds ------------------------------------------------------------------------------------------------------


def test_rounds_are_played_from_a_clean_state(cluster):
    made(cluster)
    first, second = play(run(cluster), TRACE, "kai-scheduler", rounds=2, speed=1)
    assert first.waits.keys() == {"whole-0", "gang-0", "gang-1", "memory-0"}
    # The scheduler above leaves a part with an end to itself, and says nothing of it.
    assert [one.message for one in first.violations if one.invariant == "explained"] == ["part-0 waits, and nothing says why"]
    assert any(one.invariant == "reserved" for one in first.violations)
    assert first.measures["unbound"] == second.measures["unbound"] == 1
    assert CLAIM_NOTE not in (cluster.get("v1", "Namespace", NAMESPACE)["metadata"].get("annotations") or {})
    assert first.samples[-1].at >= 60
    assert cluster.names("Pod") == ["kwok-1"]
    assert cluster.names("PodGroup") == []


def test_a_run_that_was_killed_and_goes_on_gives_way_to_the_next(cluster):
    def claim(value):
        cluster.patch("v1", "Namespace", NAMESPACE, {"metadata": {"annotations": {CLAIM_NOTE: value}}})

    def next_begins(pod):
        claim("the next")
        cluster.put(pod | {"metadata": pod["metadata"] | {"name": "of-the-next"}, "status": {"phase": "Pending"}})

    made(cluster)
    claim("killed")
    (first,) = play(run(cluster), TRACE, "kai-scheduler", rounds=1, speed=1)
    assert len(first.waits) == 4
    cluster.react("create", "Pod", next_begins)
    with pytest.raises(Superseded, match="gave way"):
        play(run(cluster), TRACE, "kai-scheduler", rounds=1, speed=1)
    assert "of-the-next" in cluster.names("Pod", NAMESPACE)
    assert cluster.get("v1", "Namespace", NAMESPACE)["metadata"]["annotations"][CLAIM_NOTE] == "the next"


def test_the_one_that_claims_the_cluster_later_has_it(cluster):
    made(cluster)
    former, later = run(cluster), run(cluster)
    with Claim(former) as first:
        first.check()
        first.acquire()
        assert former.deadline.clock() == 0
        with Claim(later) as second:
            second.acquire()
            # The former one may be about to create pods.
            assert later.deadline.clock() == lifecycle.TAKEOVER
            assert (first.holds(), second.holds()) == (False, True)
            with pytest.raises(Superseded, match="gave way"):
                first.check()
            # It does not take it back.
            first.acquire()
            second.check()
        # Nor does it go on once the later one is over.
        assert CLAIM_NOTE not in cluster.get("v1", "Namespace", NAMESPACE)["metadata"]["annotations"]
        with pytest.raises(Superseded, match="gave way"):
            first.check()
        cluster.drop("v1", "Namespace", NAMESPACE)
        first.check()


def test_a_removal_that_was_killed_and_goes_on_gives_way_to_the_next_rehearsal(cluster):
    made(cluster)
    here = run(cluster)
    with Claim(here) as claim:
        claim.acquire()
        # The next one begins while nodes are removed.
        cluster.react("delete", "Node", lambda _node: Claim(run(cluster)).acquire())
        with pytest.raises(Superseded, match="gave way"):
            remove_cluster(here, claim)
    assert cluster.names("Deployment") == ["kwok"]
    assert CLAIM_NOTE in cluster.get("v1", "Namespace", NAMESPACE)["metadata"]["annotations"]


def test_a_rehearsal_waits_for_the_end_of_a_removal_that_had_no_time_to_give_way(cluster, monkeypatch):
    made(cluster)
    here = run(cluster)
    cluster.patch("v1", "Namespace", NAMESPACE, {"metadata": {"annotations": {CLAIM_NOTE: "a removal"}}})
    sleep = here.deadline.sleep

    def passes(seconds):
        sleep(seconds)
        if here.deadline.clock() == lifecycle.TAKEOVER:
            cluster.patch("v1", "Namespace", NAMESPACE, {"metadata": {"deletionTimestamp": "2026-11-27T10:00:00Z"}})
        elif here.deadline.clock() == lifecycle.TAKEOVER + 2:
            cluster.drop("v1", "Namespace", NAMESPACE)

    monkeypatch.setattr(here.deadline, "sleep", passes)
    with Claim(here) as claim:
        ensure_cluster(here, TRACE, plan.IMAGE, claim)
        assert claim.holds()
    assert "deletionTimestamp" not in cluster.get("v1", "Namespace", NAMESPACE)["metadata"]


def test_a_round_says_how_far_it_is(cluster):
    made(cluster)
    told = []
    token = LISTENER.set(lambda what, seen: told.append((what, seen)))
    play(run(cluster), TRACE, "kai-scheduler", rounds=2, speed=1)
    LISTENER.reset(token)
    first, *_others, last = [one for one in told if one[0].startswith("the end of round")]
    assert first == ("the end of round 1 of 2", "0 s of about 30 s, 2 of 5 pods submitted: 0 wait, 1 have a node, 1 have ended")
    assert last[0] == "the end of round 2 of 2"
    assert "5 of 5 pods submitted" in last[1]


def test_workloads_of_one_group_have_one_pod_group(cluster):
    made(cluster)
    groups = []
    cluster.react("create", "PodGroup", groups.append)
    roles = (workload("leader", "ml", group="job"), workload("worker", "ml", group="job", pods=2, together=2, gpus=1))
    (found,) = play(run(cluster), Trace(30.0, TRACE.nodes, QUEUES, {}, roles), "kai-scheduler", rounds=1, speed=1)
    assert [(group["metadata"]["name"], group["spec"]["minMember"]) for group in groups] == [("job", 3)]
    assert found.waits.keys() == {"leader-0", "worker-0", "worker-1"}


def test_a_round_is_over_when_nothing_can_change_any_more(cluster):
    made(cluster)
    trace = Trace(30.0, TRACE.nodes, QUEUES, {}, (WORK[0], WORK[1]))
    (found,) = play(run(cluster), trace, "kai-scheduler", rounds=1, speed=5)
    assert found.samples[-1].at == 1
    assert found.violations == ()


def test_errors_that_the_scheduler_logs_are_counted(cluster):
    made(cluster)
    metadata = {"name": "scheduler-1", "namespace": "kai-scheduler"}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {}})
    cluster.pod_logs["scheduler-1"] = (
        "2026-11-23T08:00:00.000Z\tERROR\tno pod a-1\n2026-11-23T08:00:01.000Z\tERROR\tno pod a-2\n"
        "2026-11-23T08:00:00.000Z\tINFO\tyes\n"
    )
    trace = Trace(30.0, TRACE.nodes, QUEUES, {}, (WORK[0],))
    (found,) = play(run(cluster), trace, "kai-scheduler", rounds=1, speed=5)
    assert found.measures["log_errors"] == 1


def test_a_log_that_cannot_be_read_is_a_warning_and_ends_no_round(cluster, monkeypatch):
    made(cluster)
    for name in ("scheduler-1", "binder-1"):
        metadata = {"name": name, "namespace": "kai-scheduler"}
        cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {}})
    cluster.pod_logs["binder-1"] = "2026-11-23T08:00:00.000Z\tERROR\tno pod a-1\n"
    read = cluster.logs

    def logs(name, *rest, **options):
        if name == "scheduler-1":
            raise TenancyError("Reading the log of Pod scheduler-1 failed: 502")
        return read(name, *rest, **options)

    monkeypatch.setattr(cluster, "logs", logs)
    here = run(cluster)
    (found,) = play(here, Trace(30.0, TRACE.nodes, QUEUES, {}, (WORK[0],)), "kai-scheduler", rounds=1, speed=5)
    assert (found.measures["log_errors"], here.warnings) == (1, ["Reading the log of Pod scheduler-1 failed: 502"])


def named(cluster, kind):
    return {item["metadata"]["name"]: item for item in cluster.list(*kind)}


def test_workloads_have_what_they_refer_to(cluster):
    made(cluster)
    theirs = {"apiVersion": PRIORITY_CLASS[0], "kind": "PriorityClass", "metadata": {"name": "train"}, "value": 50}
    cluster.put(theirs)
    near = workload("near", "ml", gpus=1, pods=2, together=2, topology="racks", topology_required="rack", priority_class="urgent")
    trace = Trace(30.0, TRACE.nodes, QUEUES, {"urgent": 90, "train": 50}, (near,), {"racks": ["rack", "host"]})
    for other in (trace, trace, dataclasses.replace(trace, priority_classes={"urgent": 91})):
        play(run(cluster), other, "kai-scheduler", rounds=1, speed=5)
    assert named(cluster, TOPOLOGY)["racks"]["spec"] == {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "host"}]}
    assert {name: item["value"] for name, item in named(cluster, PRIORITY_CLASS).items()} == {"train": 50, "urgent": 91}
    assert plan.group(near, 2)["spec"]["topologyConstraint"] == {"topology": "racks", "requiredTopologyLevel": "rack"}
    with pytest.raises(TenancyError, match="PriorityClass train exists and is not as in the trace"):
        play(run(cluster), dataclasses.replace(trace, priority_classes={"train": 1}), "kai-scheduler", rounds=1, speed=5)
    remove(run(cluster))
    assert (set(named(cluster, TOPOLOGY)), set(named(cluster, PRIORITY_CLASS))) == (set(), {"train"})


def test_releases_without_topologies_are_refused(cluster):
    made(cluster)
    cluster.unserved.add(TOPOLOGY)
    with pytest.raises(TenancyError, match=r"has none of its own: they came with v0\.12"):
        play(run(cluster), dataclasses.replace(TRACE, topologies={"a": ["b"]}), "kai-scheduler", rounds=1, speed=5)


def eviction(name, group):
    metadata = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": {"kind": "PodGroup", "name": group},
        "reason": "Evict",
    }


def scheduler(name):
    metadata = {"name": name, "namespace": "kai-scheduler", "labels": {"app": "kai-scheduler-default"}}
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": ready}


def test_what_the_scheduler_costs_is_measured(cluster):
    made(cluster)
    cluster.put(scheduler("kai-1"))
    trace = Trace(30.0, TRACE.nodes, QUEUES, {}, (WORK[0], WORK[1]))
    (found,) = play(run(cluster), trace, "kai-scheduler", rounds=1, speed=5)
    assert "cycle_p95" not in found.measures
    cluster.pod_metrics["kai-1"] = "e2e_scheduling_latency_milliseconds 40\nprocess_cpu_seconds_total 7.5\n"
    (found,) = play(run(cluster), trace, "kai-scheduler", rounds=1, speed=5)
    assert (found.measures["cycle_p95"], found.measures["scheduler_cpu"]) == (40, 0)


@pytest.mark.parametrize("says", [True, False])
def test_what_is_evicted_comes_back(cluster, says):
    made(cluster)
    evicted = []
    # Of a round before.
    cluster.put(eviction("former", "pg-whole-0"))

    def evict(group):
        for pod in ("gang-0", "whole-0"):
            cluster.drop("v1", "Pod", pod, NAMESPACE)
        if says:
            cluster.put(eviction("new", "pg-whole-0"))
        evicted.append(group)

    def group_of_its_own(pod):
        if pod["metadata"]["name"] == "whole-0":
            pod["metadata"]["annotations"]["pod-group-name"] = "pg-whole-0"
            cluster.put(cluster.get("v1", "Pod", "whole-0", NAMESPACE) | {"metadata": pod["metadata"]})

    cluster.react("create", "Pod", group_of_its_own)
    cluster.react("create", "PodGroup", evict)
    trace = Trace(30.0, TRACE.nodes, QUEUES, {}, (workload("whole", "ml", gpus=2), WORK[1]))
    (found,) = play(run(cluster), trace, "kai-scheduler", rounds=1, speed=1)
    assert evicted
    assert found.measures["evicted"] == 1
    assert found.measures["unbound"] == 0
    assert [one.invariant for one in found.violations] == ([] if says else ["kept"])


def test_a_group_of_which_a_pod_was_evicted_starts_again_as_a_whole_under_other_names(cluster):
    made(cluster)
    started = []

    def start(pod):
        name = pod["metadata"]["name"]
        if name.startswith("gang"):
            started.append(name)
        if name == "gang-0":
            cluster.drop("v1", "Pod", name, NAMESPACE)

    cluster.react("create", "Pod", start)
    trace = Trace(30.0, TRACE.nodes, QUEUES, {}, (workload("gang", "ml", gpus=1, pods=2, together=2, runs=10),))
    (found,) = play(run(cluster), trace, "kai-scheduler", rounds=1, speed=1)
    assert sorted(started) == ["gang-0", "gang-0-again-1", "gang-1", "gang-1-again-1"]
    # The pod that had ended lost nothing.
    assert (found.measures["evicted"], found.measures["unbound"]) == (0, 0)


def test_a_group_starts_again_as_a_whole_too_when_its_rest_ends_later_than_the_eviction(cluster):
    made(cluster)
    started = []

    def phase(pod, phase, **spec):
        cluster.put(pod | {"spec": pod["spec"] | spec, "status": {"phase": phase}})

    def start(pod):
        name = pod["metadata"]["name"]
        started.append(name)
        if name == "gang-0":
            cluster.drop("v1", "Pod", name, NAMESPACE)
        elif name == "gang-1":
            phase(pod, "Running", nodeName="simulated-0-0")
        elif name == "gang-0-again-1":
            phase(pod, "Pending", nodeName=None)
            phase(cluster.get("v1", "Pod", "gang-1", NAMESPACE), "Succeeded")
        else:
            phase(cluster.get("v1", "Pod", "gang-0-again-1", NAMESPACE), "Succeeded", nodeName="simulated-0-0")

    cluster.react("create", "Pod", start)
    trace = Trace(30.0, TRACE.nodes, QUEUES, {}, (workload("gang", "ml", gpus=1, pods=2, together=2, runs=10),))
    (found,) = play(run(cluster), trace, "kai-scheduler", rounds=1, speed=1)
    assert sorted(started) == ["gang-0", "gang-0-again-1", "gang-1", "gang-1-again-1"]
    assert found.measures["unbound"] == 0


def test_a_round_that_takes_too_long_ends_with_what_to_do_and_leaves_nothing(cluster):
    made(cluster)
    with pytest.raises(
        TenancyError, match=r"The round is not over after \d+ s, and the time is: allow more, or raise the speed."
    ):
        play(run(cluster, timeout=20), TRACE, "kai-scheduler", rounds=1, speed=1)
    assert cluster.names("Pod") == ["kwok-1"]


def test_a_cluster_without_simulated_nodes():
    with pytest.raises(TenancyError, match=r"The cluster does not have the trace.s simulated nodes: some were removed or added."):
        play(run(Cluster()), TRACE, "kai-scheduler", rounds=1, speed=1)
