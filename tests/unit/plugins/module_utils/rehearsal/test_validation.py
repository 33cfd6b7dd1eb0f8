# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Problem, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse as parse_queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import nodes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.patterns import PATTERNS, generate
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.validation import check_playable, parse, thresholds
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses, sentences

TRACE = """
format: 1
span: 600
nodes:
  - {count: 2, gpus: 8, gpu_memory: 81920, labels: {zone: a}}
queues:
  - name: ml
    gpu: {quota: 16}
    children: [{name: training, gpu: {quota: 12}}, {name: notebooks}]
priority_classes: {urgent: 200}
workloads:
  - {name: train, queue: training, pods: 4, together: 4, gpus: 2, runs: 120}
  - {name: note, queue: notebooks, arrives: 10, gpus: 0.5, priority_class: urgent}
"""


def trace(**changes):
    return yaml.safe_load(TRACE) | changes


def problems(given):
    with pytest.raises(TenancyError) as caught:
        parse(given)
    return caught.value.problems


def test_a_trace_is_read_and_written_as_it_was():
    found = parse(trace())
    assert (found.gpus, found.span) == (16, 600)
    assert found.workloads[0].pod_names == ["train-0", "train-1", "train-2", "train-3"]
    assert [workload.shares_a_gpu for workload in found.workloads] == [False, True]
    assert found.data() == trace()
    assert parse(yaml.safe_load(yaml.safe_dump(found.data()))) == found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format": 2}, "trace.format: other-format"),
        ({"span": 0}, "trace.span: out-of-range"),
        ({"span": "600"}, "trace.span: wrong-type"),
        ({"kind": "x"}, "trace.kind: unknown-key"),
        ({"nodes": [{"count": 0}]}, "trace.nodes[0].count: out-of-range"),
        ({"nodes": [{"count": 10**9}]}, "trace.nodes: out-of-range"),
        ({"nodes": [{"count": 9000}, {"count": 1001}]}, "trace.nodes: out-of-range"),
        ({"nodes": [{"cpu": "many"}]}, "trace.nodes[0].cpu: not-an-amount"),
        ({"priority_classes": {"a": "high"}}, "trace.priority_classes.a: wrong-type"),
        ({"queues": [{"name": "a", "gpus": 1}]}, "trace.queues.a.gpus: unknown-key"),
    ],
)
def test_what_is_wrong_is_named(changes, expected):
    assert expected in placed(problems(trace(**changes)))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({}, "trace.workloads[0].name: missing"),
        ({"name": "a b", "queue": "training"}, "trace.workloads[0].name: not-a-name"),
        ({"name": "a", "queue": "ml"}, "trace.workloads[0].queue: unknown-queue"),
        ({"name": "a", "queue": "training", "gpus": 1.5}, "trace.workloads[0].gpus: not-an-amount"),
        (
            {"name": "a", "queue": "training", "gpus": 1, "gpu_memory": 9},
            "trace.workloads[0].gpu_memory: not-exactly-one",
        ),
        ({"name": "a", "queue": "training", "together": 2}, "trace.workloads[0].together: out-of-range"),
        ({"name": "a", "queue": "training", "runs": -1}, "trace.workloads[0].runs: out-of-range"),
        ({"name": "a", "queue": "training", "pods": 10**12}, "trace.workloads: out-of-range"),
        ({"name": "a", "queue": "training", "pods": True}, "trace.workloads[0].pods: wrong-type"),
        ("a", "trace.workloads[0]: wrong-type"),
    ],
)
def test_what_is_wrong_with_a_workload_is_named(item, expected):
    assert expected in placed(problems(trace(workloads=[item])))


def test_two_pods_of_one_name_are_refused():
    twice = [{"name": "a", "queue": "training", "pods": 2}, {"name": "a", "queue": "training"}]
    assert sentences(problems(trace(workloads=twice))) == ["trace.workloads: a and a would both have a pod a-0."]


def test_workloads_name_levels_of_topologies():
    near = {"name": "a", "queue": "training", "pods": 2, "together": 2, "topology": "racks", "topology_required": "rack"}
    topologies = {"racks": ["rack", "kubernetes.io/hostname"]}
    assert parse(trace(workloads=[near], topologies=topologies)).topologies == topologies
    assert placed(problems(trace(workloads=[near]))) == ["trace.workloads: unknown-topology"]
    assert sentences(problems(trace(workloads=[near | {"topology_preferred": "row"}], topologies=topologies))) == [
        "trace.workloads: a: row is no level of topology racks."
    ]
    assert placed(problems(trace(topologies={"racks": []}))) == ["trace.topologies.racks: wrong-type"]


def test_a_group_arrives_as_one():
    group = {"queue": "training", "group": "job"}
    (problem,) = problems(trace(workloads=[{"name": "a", **group}, {"name": "b", **group, "arrives": 1}]))
    assert problem == Problem("group-differs", "trace.workloads: a and b are one group, and differ in arrives.")


@pytest.mark.parametrize("given", [None, [], "trace", 1])
def test_what_is_no_trace_at_all(given):
    assert placed(problems(given)) == ["trace: wrong-type"]


def test_thresholds():
    assert thresholds({}) == THRESHOLDS
    assert thresholds({"bind_p50": {"ratio": 1}})["bind_p50"] == {"ratio": 1, "amount": 2.0}
    with refuses("unknown-measure"):
        thresholds({"bind_p51": {}})
    with refuses("unknown-key"):
        thresholds({"bind_p50": {"rate": 1}})


# --- patterns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("shape", [{"count": 2, "gpus": 4}, {"count": 50, "gpus": 8}, {"gpus": 1}])
def test_patterns_are_traces_the_same_for_the_same_seed(pattern, shape):
    made = generate(pattern, [nodes(**shape)], 600, seed=1)
    assert parse(made.data()) == made
    assert generate(pattern, [nodes(**shape)], 600, seed=1) == made
    assert made.workloads
    assert all(0 <= workload.arrives < 600 and workload.gpus <= shape["gpus"] for workload in made.workloads)
    assert generate(pattern, [nodes(**shape)], 600, seed=2) != made
    for version in ("v0.12.0", "v0.16.8"):
        assert parse_queues(made.queues, release(version).queue_levels)


def test_each_pattern_has_what_it_is_named_for():
    made = {pattern: generate(pattern, [nodes(count=4, gpus=8)], 600, seed=1) for pattern in PATTERNS}
    assert all(workload.shares_a_gpu for workload in made["fractions"].workloads)
    assert len({workload.arrives for workload in made["fractions"].workloads}) == 8
    assert all(workload.together == workload.pods > 1 for workload in made["gangs"].workloads)
    assert any(workload.runs == 0 and workload.queue == "serving" for workload in made["inference"].workloads)
    owners = [workload.arrives for workload in made["reclaim"].workloads if workload.queue == "owners"]
    assert min(owners) >= 200
    assert len(owners) == 16
    assert {workload.queue for workload in made["research"].workloads} == {"training", "notebooks"}
    assert {int(workload.gpus) for workload in made["nearly_full"].workloads} > {1, 8}


def test_patterns_that_cannot_be_made():
    with refuses("not-a-choice"):
        generate("gang", [nodes(gpus=1)], 600, 1)
    with refuses("too-few-gpus"):
        generate("gangs", [nodes()], 600, 1)


def test_node_pools_are_not_rehearsed():
    pooled = parse(trace(queues=[{"name": "ml", "node_pool": "h100", "children": [{"name": "training"}, {"name": "notebooks"}]}]))
    with refuses("not-applicable") as refusal:
        check_playable(pooled, {"version": "v0.16.8"}, "candidate", datetime.date(2026, 11, 22), installed=False)
    assert "candidate.queues.ml.node_pool: a rehearsal has one scheduler for all of its nodes." in str(refusal.value)
