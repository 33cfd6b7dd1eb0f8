# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import SHARD
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_queues import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run, untimed

TREE = [{"name": "ml", "gpu": {"quota": 4, "limit": 4}, "children": [{"name": "training", "gpu": {"limit": 2}}]}]
SILENT = 'Internal error occurred: failed calling webhook "queue-validation.kai.scheduler": connection refused'


class Cluster(InMemoryApi):
    """Queues and pods; the first ``silent`` writes meet a webhook that does not answer."""

    def __init__(self, silent=0, pods=()):
        super().__init__(pods)
        self.silent = silent

    def create(self, definition):
        if self.silent:
            self.silent -= 1
            raise TenancyError(SILENT)
        return super().create(definition)

    @property
    def queues(self):
        return [item["metadata"]["name"] for item in self.objects.values() if item["kind"] == "Queue"]

    @property
    def written(self):
        return [f"{verb} {name}" for verb, _kind, name in self.writes]

    def forget(self):
        self.writes.clear()
        self.reads.clear()


def params(**changes):
    defaults = {"state": "present", "queues": TREE, "kai_version": None, "timeout": 10, "force": False}
    return defaults | {"remove_foreign": False, "quota_sums": "warn", "scheduler_name": "kai-scheduler"} | changes


def run(options, kube, check_mode):
    return reconcile(make_run(options, kube, check_mode=check_mode))


def pod(name, queue, phase="Running"):
    metadata = {"name": name, "namespace": "ns", "labels": {"kai.scheduler/queue": queue}}
    spec = {"schedulerName": "kai-scheduler"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def test_create_then_nothing_then_update_then_delete():
    kube = Cluster()
    result = run(params(), kube, False)
    assert result["changed"]
    assert result["leaves"] == ["training"]
    assert result["diff"]["before"] == {}
    assert (kube.reads, kube.written) == ([("list", "Queue", None)], ["create ml", "create training"])

    kube.forget()
    assert run(params(), kube, False)["changed"] is False
    assert (kube.reads, kube.written) == ([("list", "Queue", None)], [])

    kube.forget()
    smaller = copy.deepcopy(TREE)
    smaller[0]["children"][0]["gpu"]["limit"] = 1
    result = run(params(queues=smaller), kube, False)
    assert result["diff"] == {"before": {"training": {"gpu.limit": 2}}, "after": {"training": {"gpu.limit": 1}}}
    assert [(step["step"], step["why"]) for step in result["steps"]] == [("update queue training", "gpu.limit 2 -> 1")]
    assert (kube.reads, kube.written) == ([("list", "Queue", None)], ["patch training"])

    kube.forget()
    result = run(params(state="absent"), kube, False)
    assert [kind for _verb, kind, _namespace in kube.reads] == ["Queue", "Pod"]
    assert kube.written == ["delete training", "delete ml"]
    assert result["diff"]["after"] == {}
    assert run(params(state="absent"), kube, False)["changed"] is False


def test_check_mode_predicts_and_writes_nothing():
    kube = Cluster()
    predicted = run(params(), kube, True)
    assert (kube.reads, kube.written) == ([("list", "Queue", None)], [])
    assert untimed(predicted) == untimed(run(params(), kube, False))
    assert [(step["step"], step["why"]) for step in predicted["steps"]] == [
        ("create queue ml", "it does not exist"),
        ("create queue training", "it does not exist"),
    ]


def test_a_step_about_several_queues_says_what_of_which():
    kube = Cluster()
    run(params(queues=[{"name": name, "gpu": {"quota": 4}} for name in ("a", "b")]), kube, False)
    changed = [{"name": "a", "gpu": {"quota": 3, "limit": 5}}, {"name": "b", "gpu": {"quota": 3}, "display_name": "B"}]
    (step,) = run(params(queues=changed), kube, True)["steps"]
    assert (step["step"], step["why"]) == (
        "update queue a, update queue b",
        "a: gpu.quota 4 -> 3, gpu.limit unlimited -> 5; b: display_name nothing -> B, gpu.quota 4 -> 3",
    )


def test_a_silent_webhook_is_waited_for():
    kube = Cluster(silent=1)
    assert run(params(), kube, False)["changed"]
    assert kube.queues == ["ml", "training"]


def test_a_webhook_that_stays_silent():
    with pytest.raises(TenancyError, match=r"queue ml to be written.*failed calling webhook"):
        run(params(timeout=1), Cluster(silent=9), False)


def test_levels_are_the_releases():
    kube = Cluster()
    with refuses("queue-without-child"):
        run(params(queues=[{"name": "q"}], kai_version="0.12.0"), kube, False)
    assert (kube.reads, kube.written) == ([], [])
    assert run(params(queues=[{"name": "q"}], kai_version="v0.13.1"), kube, False)["changed"]


def test_exact_removes_owned_queues_that_are_no_longer_named():
    kube = Cluster()
    run(params(), kube, False)
    kube.put({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "default"}, "spec": {}})
    only_root = params(state="exact", queues=[{"name": "ml", "gpu": {"quota": 4, "limit": 4}}])
    assert [change["name"] for change in run(only_root, kube, True)["changes"]] == ["training"]
    assert [change["name"] for change in run(only_root | {"remove_foreign": True}, kube, True)["changes"]] == [
        "training",
        "default",
    ]
    run(only_root, kube, False)
    assert kube.queues == ["ml", "default"]
    assert run(only_root, kube, False)["changed"] is False


def test_a_queue_with_pods_that_have_not_ended_stays():
    busy = [pod(f"p{n:02}", "training") for n in range(12)]
    kube = Cluster(pods=[*busy, pod("done", "ml", "Succeeded")])
    run(params(), kube, False)
    for check_mode in (True, False):
        with pytest.raises(TenancyError) as refusal:
            run(params(state="absent"), kube, check_mode)
        problem = refusal.value.problems[0]
        assert problem.code == "queue-in-use"
        assert problem.text.startswith("queues.training: is not removed, because pods in it have not ended: ns/p00, ns/p01,")
        assert problem.text.endswith("ns/p09 and 2 more.")
    assert kube.queues == ["ml", "training"]
    assert run(params(state="absent", force=True), kube, False)["changed"]
    assert kube.queues == []


def test_quotas_above_the_parents():
    twice = [
        {
            "name": "ml",
            "gpu": {"quota": 1},
            "children": [{"name": "a", "gpu": {"quota": 1}}, {"name": "b", "gpu": {"quota": 0.5}}],
        }
    ]
    warned = make_run(params(queues=twice), Cluster())
    reconcile(warned)
    assert warned.warnings == ["queues.ml.gpu.quota: the quotas of its children sum up to 1.5, its own is 1."]
    kube = Cluster()
    with refuses("quotas-overcommitted"):
        run(params(queues=twice, quota_sums="error"), kube, False)
    assert (kube.reads, kube.written) == ([], [])


@pytest.mark.parametrize(
    "spec",
    [
        "x",
        [1],
        {"resources": "x"},
        {"resources": {"gpu": "x"}},
        {"resources": {"gpu": {"quota": "1"}}},
        {"parentQueue": ["a"]},
        {"parentQueue": {"a": "b"}},
    ],
)
def test_a_queue_that_its_tenant_wrote_in_another_form_is_named(spec):
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "odd"}, "spec": spec}
    kube = Cluster(pods=[queue])
    with pytest.raises(TenancyError, match="queue odd cannot be read: its "):
        run(params(), kube, False)
    assert kube.written == []


def test_a_queue_whose_name_a_terminal_would_follow_is_named_without_it():
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "o\x1b[2Jdd"}, "spec": {}}
    with pytest.raises(TenancyError) as failed:
        run(params(state="exact", remove_foreign=True), Cluster(pods=[queue]), False)
    assert str(failed.value) == "queue o dd cannot be read: its name is not one that Kubernetes accepts"


def test_many_writes_end_by_the_deadline():
    kube = Cluster()
    tree = [{"name": f"q{number}"} for number in range(60)]
    made = make_run(params(queues=tree, timeout=10), kube)
    kube.react("create", "Queue", lambda _queue: made.deadline.sleep(1))
    with pytest.raises(TenancyError, match="The 10 s were over before queue q"):
        reconcile(made)
    assert len(kube.written) < 30


# --- node pools --------------------------------------------------------------------------------------------------

LABEL = "kai.scheduler/node-pool"
POOLED = [{"name": "fast", "node_pool": "h100", "gpu": {"quota": 4}, "children": [{"name": "big"}]}, {"name": "rest"}]


def node(name, pool="", gpus=4):
    labels = {LABEL: pool} if pool else {}
    status = {"allocatable": {"nvidia.com/gpu": str(gpus)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def shard(name, pool, owned=False):
    labels = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"} if owned else {}
    spec = {"partitionLabelValue": pool} if pool else {}
    return {"apiVersion": SHARD[0], "kind": SHARD[1], "metadata": {"name": name, "labels": labels}, "spec": spec}


def shards(kube):
    return {item["metadata"]["name"]: item["spec"].get("partitionLabelValue", "") for item in kube.list(*SHARD)}


def pools(kube):
    return {
        item["metadata"]["name"]: item["metadata"]["labels"].get(LABEL) for item in kube.list("scheduling.run.ai/v2", "Queue")
    }


def pooled(**changes):
    return params(queues=POOLED, state="exact") | changes


def test_a_tree_of_queues_gets_a_scheduler_for_its_node_pool():
    kube = Cluster(pods=[node("n1"), node("n2", "h100"), shard("default", "")])
    result = run(pooled(), kube, False)
    assert kube.written == ["create h100", "create fast", "create rest", "create big"]
    assert pools(kube) == {"fast": "h100", "big": "h100", "rest": None}
    made = kube.get(*SHARD, "h100")
    assert made["spec"] == {"partitionLabelValue": "h100"}
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}
    assert result["diff"]["after"]["SchedulingShard h100"] == {"partitionLabelValue": "h100"}
    assert result["diff"]["after"]["fast"]["node_pool"] == "h100"
    assert result["steps"][0]["step"] == "create SchedulingShard h100"

    kube.forget()
    assert run(pooled(), kube, False)["changed"] is False
    # What others changed by hand goes back.
    kube.delete(*SHARD, "h100")
    kube.patch("scheduling.run.ai/v2", "Queue", "big", {"metadata": {"labels": {LABEL: None}}})
    kube.forget()
    before = run(pooled(), kube, True)
    assert (before["changed"], kube.written) == (True, [])
    assert [(step["step"], step["why"]) for step in run(pooled(), kube, False)["steps"]] == [
        ("create SchedulingShard h100", "no scheduler serves its node pool"),
        ("update queue big", "node_pool nothing -> h100"),
    ]
    assert pools(kube)["big"] == "h100"


def test_a_scheduler_goes_with_the_last_queue_of_its_node_pool():
    kube = Cluster(pods=[node("n2", "h100"), shard("default", ""), shard("theirs", "a100")])
    run(pooled(), kube, False)
    kube.forget()
    moved = [{"name": "fast", "gpu": {"quota": 4}, "children": [{"name": "big"}]}, {"name": "rest"}]
    assert run(pooled(queues=moved), kube, False)["diff"]["before"]["SchedulingShard h100"] == {"partitionLabelValue": "h100"}
    # Before the queues: a run that is killed between the two is finished by the next one.
    assert kube.written == ["delete h100", "patch fast", "patch big"]
    assert shards(kube) == {"default": "", "theirs": "a100"}
    assert pools(kube) == {"fast": None, "big": None, "rest": None}
    run(pooled(), kube, False)
    run(params(state="absent", queues=[{"name": "fast"}, {"name": "big", "parent": "fast"}]), kube, False)
    assert (shards(kube), pools(kube)) == ({"default": "", "theirs": "a100"}, {"rest": None})


def test_present_keeps_schedulers_of_other_node_pools():
    kube = Cluster(pods=[node("n1", "h100"), shard("a100", "a100", owned=True)])
    run(pooled(state="present"), kube, False)
    assert shards(kube) == {"a100": "a100", "h100": "h100"}
    run(pooled(), kube, False)
    assert shards(kube) == {"h100": "h100"}


def test_a_node_pool_that_has_a_scheduler_gets_no_second_one():
    kube = Cluster(pods=[node("n1", "h100"), shard("theirs", "h100")])
    run(pooled(), kube, False)
    assert shards(kube) == {"theirs": "h100"}
    with refuses("same-name"):
        run(pooled(), Cluster(pods=[node("n1", "h100"), shard("h100", "other")]), False)


def test_a_queue_is_not_moved_to_another_node_pool_while_it_has_pods():
    kube = Cluster(pods=[node("n1", "h100"), node("n2", "a100"), pod("p", "big")])
    run(pooled(), kube, False)
    kube.forget()
    moved = pooled(queues=[POOLED[0] | {"node_pool": "a100"}, POOLED[1]])
    with pytest.raises(TenancyError) as refusal:
        run(moved, kube, False)
    assert refusal.value.problems[0].code == "queue-in-use"
    assert "queues.big: is not moved to another node pool, because pods in it have not ended: ns/p." in refusal.value.message
    assert kube.written == []
    run(moved | {"force": True}, kube, False)
    assert (pools(kube)["big"], shards(kube)) == ("a100", {"a100": "a100"})


def test_a_node_pool_has_nodes_and_their_gpus():
    with refuses("unknown-node-pool") as refusal:
        run(pooled(), Cluster(pods=[node("n1"), node("n2", "a100")]), False)
    assert "queues.fast.node_pool: no node has the label kai.scheduler/node-pool: h100. Pools of the nodes are: a100." in str(
        refusal.value
    )
    small = Cluster(pods=[node("n1", "h100", gpus=2), node("n2", gpus=8)])
    text = "queues: those of node pool h100 are promised 4 GPUs, its nodes have 2."
    making = make_run(pooled(), small)
    reconcile(making)
    assert text in making.warnings
    with refuses("quota-above-gpus"):
        run(pooled(quota_sums="error"), small, False)


def test_a_release_without_node_pools_is_refused():
    with refuses("not-in-release") as refusal:
        run(pooled(queues=POOLED[:1], kai_version="v0.9.20"), Cluster(pods=[node("n1", "h100")]), False)
    assert "KAI Scheduler v0.9.20 has no node pools. v0.10.0 and later have." in str(refusal.value)
