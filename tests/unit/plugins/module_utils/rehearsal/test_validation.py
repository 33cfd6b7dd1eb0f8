# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse as parse_queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import nodes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.patterns import PATTERNS, generate
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.validation import parse, thresholds

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
    ("changes", "said"),
    [
        ({"format": 2}, "trace.format: is 2; this release reads 1."),
        ({"span": 0}, "trace.span: must be more than 0 seconds."),
        ({"span": "600"}, "trace.span: must be a number, not '600'."),
        ({"kind": "x"}, "trace.kind: unknown key."),
        ({"nodes": [{"count": 0}]}, "trace.nodes[0].count: is 0; it is 1 at least."),
        ({"nodes": [{"cpu": "many"}]}, "trace.nodes[0].cpu: 'many' is not a quantity such as 500m or 64Gi."),
        ({"priority_classes": {"a": "high"}}, "trace.priority_classes.a: must be a whole number"),
        ({"queues": [{"name": "a", "gpus": 1}]}, "trace.queues.a.gpus: unknown key."),
    ],
)
def test_what_is_wrong_is_named(changes, said):
    assert any(problem.startswith(said) for problem in problems(trace(**changes)))


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({}, "trace.workloads[0].name: is missing."),
        ({"name": "a b", "queue": "training"}, "trace.workloads[0].name: 'a b' is not a name for pods"),
        ({"name": "a", "queue": "ml"}, "trace.workloads[0].queue: ml is none of the trace's leaf queues: notebooks, training."),
        ({"name": "a", "queue": "training", "gpus": 1.5}, "trace.workloads[0].gpus: 1.5 is neither"),
        (
            {"name": "a", "queue": "training", "gpus": 1, "gpu_memory": 9},
            "trace.workloads[0].gpu_memory: is given in place of gpus",
        ),
        ({"name": "a", "queue": "training", "together": 2}, "trace.workloads[0].together: is 2, and it has 1 pods."),
        ({"name": "a", "queue": "training", "runs": -1}, "trace.workloads[0].runs: is -1; it is 0 at least."),
        ({"name": "a", "queue": "training", "pods": True}, "trace.workloads[0].pods: must be a whole number, not True."),
        ("a", "trace.workloads[0]: must be a dictionary, not 'a'."),
    ],
)
def test_what_is_wrong_with_a_workload_is_named(item, said):
    assert any(problem.startswith(said) for problem in problems(trace(workloads=[item])))


def test_two_pods_of_one_name_are_refused():
    twice = [{"name": "a", "queue": "training", "pods": 2}, {"name": "a", "queue": "training"}]
    assert problems(trace(workloads=twice)) == ["trace.workloads: a and a would both have a pod a-0."]


def test_workloads_name_levels_of_topologies():
    near = {"name": "a", "queue": "training", "pods": 2, "together": 2, "topology": "racks", "topology_required": "rack"}
    topologies = {"racks": ["rack", "kubernetes.io/hostname"]}
    assert parse(trace(workloads=[near], topologies=topologies)).topologies == topologies
    assert problems(trace(workloads=[near])) == ["trace.workloads: a asks for topology 'racks', which the trace does not have."]
    assert problems(trace(workloads=[near | {"topology_preferred": "row"}], topologies=topologies)) == [
        "trace.workloads: a: row is no level of topology racks."
    ]
    assert problems(trace(topologies={"racks": []}))[0].startswith("trace.topologies.racks: must be a list of the labels")


def test_a_group_arrives_as_one():
    group = {"queue": "training", "group": "job"}
    assert problems(trace(workloads=[{"name": "a", **group}, {"name": "b", **group, "arrives": 1}])) == [
        "trace.workloads: a and b are one group, and differ in arrives."
    ]


@pytest.mark.parametrize("given", [None, [], "trace", 1])
def test_what_is_no_trace_at_all(given):
    assert problems(given) == [f"trace: must be a dictionary, not {'a list' if given == [] else repr(given)}."]


def test_thresholds():
    assert thresholds({}) == THRESHOLDS
    assert thresholds({"bind_p50": {"ratio": 1}})["bind_p50"] == {"ratio": 1, "amount": 2.0}
    with pytest.raises(TenancyError, match=r"thresholds.bind_p51: is no measure. Measures: bind_p50, "):
        thresholds({"bind_p51": {}})
    with pytest.raises(TenancyError, match=r"thresholds.bind_p50.rate: unknown key. Did you mean ratio\?"):
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
    with pytest.raises(TenancyError, match=r"pattern: gang: unknown. Did you mean gangs\? Known are research, "):
        generate("gang", [nodes(gpus=1)], 600, 1)
    with pytest.raises(TenancyError, match=r"nodes: none of them has GPUs"):
        generate("gangs", [nodes()], 600, 1)
