# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.lifecycle import read
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.status import report
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.pending import (
    HEALTHY,
    event,
    group,
    node,
    pod,
    queue,
    scheduler,
    shard,
    told,
    unschedulable,
)

NOW = datetime.datetime(2026, 11, 22, 12, 10, tzinfo=datetime.timezone.utc)
QUEUES = (queue("all"), queue("ml", "all"))


def rows(*objects):
    cluster, _unread = read(InMemoryApi(objects), "kai-scheduler")
    return report([one for one in cluster.pods if one["metadata"]["namespace"] == "team"], cluster, NOW)[0]


def only(*objects):
    (row,) = rows(*objects)
    return row


def in_pool(pool, made):
    made["metadata"].setdefault("labels", {})["kai.scheduler/node-pool"] = pool
    return made


# --- node pools --------------------------------------------------------------------------------------------------


def test_a_node_pool_that_no_shard_serves():
    row = only(*HEALTHY, shard(), pod(labels={"kai.scheduler/node-pool": "a100"}))
    assert (row["reason"], row["message"]) == (
        "node_pool",
        "It is for node pool a100, which no SchedulingShard of KAI Scheduler serves.",
    )
    assert row["advice"] == (
        "Take label kai.scheduler/node-pool off its workload, or create a SchedulingShard with its partitionLabelValue."
    )
    # The label of its group comes first, as the pod grouper copies it there from the workload.
    assert only(*HEALTHY, shard(), pod(), in_pool("a100", group()))["reason"] == "node_pool"


def test_a_shard_that_cannot_be_read_may_serve_any_pool():
    odd = shard("a100") | {"spec": "odd"}
    pooled = [in_pool("a100", one) for one in (*copy.deepcopy(QUEUES), node())]
    assert only(scheduler(), *pooled, odd, pod(labels={"kai.scheduler/node-pool": "a100"}))["reason"] != "node_pool"


def test_a_node_pool_that_others_serve():
    row = only(*HEALTHY, shard("h200"), pod())
    assert row["message"] == "It is for no node pool, and every SchedulingShard of KAI Scheduler serves one."
    assert row["advice"].startswith("Give label kai.scheduler/node-pool of its workload the value h200, or create")


def test_nodes_with_the_label_of_a_pool():
    row = only(scheduler(), *QUEUES, in_pool("a100", node()), shard(), shard("a100"), pod())
    assert row["reason"] == "node_pool"
    assert row["message"] == (
        "It is for none of the node pools, and no node is: label kai.scheduler/node-pool of the nodes says a100."
    )
    assert "off a node" in row["advice"]
    pooled = pod(labels={"kai.scheduler/node-pool": "a100"})
    row = only(*HEALTHY, shard(), shard("a100"), pooled)
    assert row["message"].startswith(
        "It is for node pool a100, and no node is: label kai.scheduler/node-pool of the nodes says nothing"
    )


def test_a_queue_of_another_node_pool():
    pooled = [in_pool("a100", one) for one in (*copy.deepcopy(QUEUES), node("p1"))]
    row = only(scheduler(), node(), *pooled, shard(), shard("a100"), pod())
    assert (row["reason"], row["message"]) == (
        "node_pool",
        "It is for no node pool, and its queue ml for node pool a100: no scheduler of KAI Scheduler sees both.",
    )
    assert row["advice"] == (
        "Give its workload the label kai.scheduler/node-pool: a100, or have it name a queue of its own pool."
    )
    row = only(*HEALTHY, in_pool("a100", node("p1")), shard(), shard("a100"), pod(labels={"kai.scheduler/node-pool": "a100"}))
    assert row["message"] == (
        "It is for node pool a100, and its queue ml for no node pool: no scheduler of KAI Scheduler sees both."
    )
    assert row["advice"].startswith("Take label kai.scheduler/node-pool off its workload, or have it name")


def test_nodes_of_other_pools_are_named_where_there_is_no_room():
    others = [in_pool("a100", node(f"p{n:02}")) for n in range(11)]
    row = only(*HEALTHY, shard(), shard("a100"), *others, pod(status=unschedulable("no room")))
    assert row["message"] == (
        "kai-scheduler finds no node for it: no room; not of its node pool are p00, p01, p02, p03, p04, p05, p06, p07, p08 and 2 more."
    )


@pytest.mark.parametrize(
    "objects",
    [
        # Served, with a node.
        [
            scheduler(),
            *(in_pool("a100", one) for one in (*copy.deepcopy(QUEUES), node())),
            shard("a100"),
            pod(labels={"kai.scheduler/node-pool": "a100"}),
        ],
        # Before v0.10 releases differ in the label.
        [scheduler("v0.9.20"), node(), *QUEUES, pod(labels={"kai.scheduler/node-pool": "a100"})],
    ],
)
def test_other_pods_wait_for_other_reasons(objects):
    assert only(*objects)["reason"] == "unknown"


# --- parts of GPUs -----------------------------------------------------------------------------------------------


# Of these, a webhook with the fault lets in the first alone.
@pytest.mark.parametrize("text", ["NaN", "inf", "-0.5", "1_0", "2", "0", "0x1p10", "0x0p1", "", "half"])
def test_a_fraction_that_is_none(text):
    row = only(*HEALTHY, pod(annotations={"gpu-fraction": text}))
    assert row["reason"] == "fraction"
    told = f'Its annotation gpu-fraction is "{text}", which KAI Scheduler v0.13.1 cannot place'
    assert row["message"].startswith(f"{told} (KAI #1798, mended in" if text == "NaN" else f"{told}.")
    assert row["advice"].startswith('Write gpu-fraction in its workload as a decimal between 0 and 1 in quotes, such as "0.5"')


def test_a_release_that_refuses_such_a_fraction_has_not_that_fault():
    row = only(scheduler("v0.17.0"), node(), *QUEUES, pod(annotations={"gpu-fraction": "NaN"}))
    assert row["message"] == 'Its annotation gpu-fraction is "NaN", which KAI Scheduler v0.17.0 cannot place.'


def test_an_amount_of_memory_that_is_none():
    assert only(*HEALTHY, pod(annotations={"gpu-memory": "8Gi"}))["advice"].startswith(
        "Write gpu-memory in its workload as whole MiB"
    )


@pytest.mark.parametrize("notes", [{"gpu-fraction": "0.5 "}, {"gpu-memory": " 8000"}])
def test_blanks_are_named(notes):
    assert '" with blanks around it, which KAI' in only(*HEALTHY, pod(annotations=notes))["message"]


# The releases that take a power of two run it: half a GPU. The other releases refuse the pod, see test_workloads.py.
@pytest.mark.parametrize(
    "notes", [{"gpu-fraction": "0x1p-1"}, {"gpu-fraction": "5e-00001"}, {"gpu-fraction": "1"}, {"gpu-memory": "8000"}]
)
def test_parts_that_kai_reads(notes):
    assert only(*HEALTHY, pod(annotations=notes))["reason"] == "unknown"


# --- ConfigMaps --------------------------------------------------------------------------------------------------

MISSING = told("PodSchedulingErrors", "Missing required configmaps: [not-there]")


@pytest.mark.parametrize("how", ["envFrom", "env", "volume", "projected"])
@pytest.mark.parametrize("optional", [True, False])
def test_a_config_map_that_is_missing(how, optional):
    reference = {"name": "not-there"} | ({"optional": True} if optional else {})
    waits = pod()
    container, spec = waits["spec"]["containers"][0], waits["spec"]
    if how == "envFrom":
        container["envFrom"] = [{"configMapRef": reference}]
    elif how == "env":
        container["env"] = [
            {"name": "A", "value": "b"},
            {"name": "B", "valueFrom": {"configMapKeyRef": reference | {"key": "b"}}},
        ]
    elif how == "volume":
        spec["volumes"] = [{"name": "v", "configMap": reference}]
    else:
        spec["volumes"] = [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": reference}]}}]
    row = only(scheduler("v0.12.0"), node(), *QUEUES, waits, group("train-0", MISSING))
    assert row["reason"] == "config_map"
    if optional:
        assert row["message"] == (
            "KAI Scheduler v0.12.0 waits for ConfigMap not-there, which does not exist in namespace team, although the pod marks it optional "
            "(KAI #988, mended from v0.13.0 on)."
        )
        assert row["advice"].startswith("Create an empty ConfigMap not-there in namespace team, or change to a release")
    else:
        assert row["message"] == "It names ConfigMap not-there, which does not exist in namespace team."
        assert row["advice"] == "Create ConfigMap not-there in namespace team, or correct its name."


def test_a_secret_that_is_missing_is_what_kubelet_says():
    status = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CreateContainerConfigError"}}}]}
    status["containerStatuses"][0]["state"]["waiting"]["message"] = 'secret "key" not found'
    row = only(*HEALTHY, pod(nodeName="n1", status=status))
    assert (row["reason"], 'secret "key" not found' in row["message"]) == ("container_config", True)


# --- slices of GPUs ----------------------------------------------------------------------------------------------

MIG = "no nodes with enough resources were found: non MIG jobs cant run on a node with MigStrategy='mixed'."


def sliced(amount, **labels):
    made = node()
    made["metadata"]["labels"] = {"nvidia.com/mig.strategy": "mixed"} | labels
    made["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = amount
    return made


def test_slices_that_a_node_had_once():
    row = only(scheduler("v0.12.0"), sliced("0"), *QUEUES, pod(gpus=1), group("train-0", told("PodSchedulingErrors", MIG)))
    assert row["reason"] == "mig_leftover"
    assert row["message"] == (
        "KAI Scheduler v0.12.0 takes node n1 for one of MIG slices only, because it still lists slices, 0 of them "
        "(KAI #1120, mended in v0.9.16, v0.12.19, v0.13.1 and from v0.14.0 on)."
    )
    assert row["advice"].startswith("Label the node node-role.kubernetes.io/mig-enabled=false")


@pytest.mark.parametrize(
    ("version", "made"),
    [
        ("v0.12.0", sliced("2")),
        ("v0.13.1", sliced("0")),
        ("v0.12.0", sliced("0", **{"node-role.kubernetes.io/mig-enabled": "true"})),
        # Another node's refusal: KAI reads this label's value.
        ("v0.12.0", sliced("0", **{"nvidia.com/mig.strategy": "none"})),
        ("v0.12.0", sliced("0", **{"nvidia.com/mig.strategy": "single"})),
    ],
)
def test_slices_that_a_node_has(version, made):
    row = only(scheduler(version), made, *QUEUES, pod(gpus=1), group("train-0", told("PodSchedulingErrors", MIG)))
    assert (row["reason"], "Ask for slices of GPUs" in row["advice"]) == ("no_node", True)


def test_parts_of_gpus_where_slices_look_like_whole_ones():
    message = "no nodes with enough resources were found: only whole gpu jobs can run on a node with MigStrategy='single'."
    half, said = pod(annotations={"gpu-fraction": "0.5"}), group("train-0", told("PodSchedulingErrors", message))
    single = {"nvidia.com/mig.strategy": "single"}
    row = only(scheduler("v0.12.0"), sliced("0", **single), *QUEUES, half, said)
    assert row["reason"] == "mig_leftover"
    row = only(scheduler("v0.13.1"), sliced("0", **single), *QUEUES, half, said)
    assert (row["reason"], row["advice"].split(",")[0]) == ("no_node", "Ask for whole GPUs")


# --- what KAI Scheduler does not read ----------------------------------------------------------------------------

RUNNING = {"phase": "Running", "startTime": "2026-11-22T12:05:00Z"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"annotations": {"kai.scheduler/gpu-fraction": "0.5"}}, "annotation kai.scheduler/gpu-fraction"),
        ({"labels": {"kai.scheduler/gpu-fraction": "0.5"}}, "label kai.scheduler/gpu-fraction"),
        ({"labels": {"gpu-fraction": "0.5"}}, "label gpu-fraction"),
    ],
)
def test_a_part_of_a_gpu_in_words_that_no_release_reads(given, said):
    row = only(*HEALTHY, pod(status=RUNNING, nodeName="n1", **given))
    assert (row["state"], row["reason"]) == ("past_kai", "unread_fraction")
    assert row["message"] == f"No release of KAI Scheduler reads its {said}: it gets no part of a GPU."
    assert row["advice"].startswith(
        'Write it in its workload as annotation gpu-fraction: "0.5", with schedulerName: kai-scheduler'
    )
    past = only(*HEALTHY, pod(status=RUNNING, nodeName="n1", schedulerName="default-scheduler", **given))
    assert past["message"].endswith("it gets no part of a GPU, and default-scheduler places it.")


def test_the_words_that_are_read_and_pods_that_have_ended_are_none_of_this():
    both = {"kai.scheduler/gpu-fraction": "0.5", "gpu-fraction": "0.5"}
    assert rows(*HEALTHY, pod(status=RUNNING, nodeName="n1", annotations=both)) == []
    assert rows(*HEALTHY, pod(status={"phase": "Failed"}, annotations={"kai.scheduler/gpu-fraction": "0.5"})) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("schedulingGroup", {"podGroupName": "g"}), ("workloadRef", {"name": "w", "podGroup": "g"})],
)
def test_a_group_of_kubernetes_own_api_is_ignored(field, value):
    row = only(*HEALTHY, pod(status=RUNNING, nodeName="n1", **{field: value}))
    assert (row["state"], row["reason"]) == ("past_kai", "own_group")
    assert f"KAI Scheduler does not read spec.{field}" in row["message"]
    # Of another scheduler, which may well read it.
    assert rows(*HEALTHY, pod(status=RUNNING, nodeName="n1", schedulerName="default-scheduler", **{field: value})) == []


def test_a_pod_that_waits_has_a_row_for_that_and_one_for_what_is_not_read():
    waits = pod(annotations={"kai.scheduler/gpu-fraction": "0.5"}, status=unschedulable("no room"))
    assert [row["reason"] for row in rows(*HEALTHY, waits, event("Unschedulable", "no room"))] == ["no_node", "unread_fraction"]
