# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse as parse_queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import INVARIANTS, THRESHOLDS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.measures import Sample, fair_shares
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import Trace, nodes, workload
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round, Violation, Watch
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.verdict import judge
from hypothesis import given
from hypothesis import strategies as st

QUEUES = [
    {"name": "ml", "gpu": {"quota": 4, "limit": 4}, "children": [{"name": "a", "gpu": {"quota": 3}}, {"name": "b"}]},
]
WORK = (
    workload("whole", "a", gpus=2),
    workload("part", "b", gpus=0.5, pods=3),
    workload("memory", "b", gpu_memory=500),
    workload("gang", "a", gpus=1, pods=3, together=3),
    workload("near", "b", pods=2, together=2, topology="racks", topology_required="rack"),
    workload("picky", "a", node_selector={"zone": "x"}, tolerations=[{"key": "gpu", "operator": "Exists"}]),
)
TRACE = Trace(60.0, (nodes(gpus=4),), QUEUES, {}, WORK)
NODES = [
    {
        "metadata": {"name": "n1", "labels": {"zone": "x", "rack": "r1", "nvidia.com/gpu.memory": "1000"}},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"nvidia.com/gpu": "4"}},
    },
    {"metadata": {"name": "n2", "labels": {}}, "spec": {}, "status": {"allocatable": {"nvidia.com/gpu": "2"}}},
]


def pod(name, work, where="", phase="Running", group="", uid="", why="", scheduler="kai"):
    asked = next(item for item in WORK if item.name == work)
    notes = {"gpu-memory": str(asked.gpu_memory)} if asked.gpu_memory else {}
    if 0 < asked.gpus < 1:
        notes = {"gpu-fraction": str(asked.gpus)}
    limits = {"nvidia.com/gpu": str(int(asked.gpus))} if asked.gpus >= 1 else {}
    conditions = [{"type": "PodScheduled", "status": "False", "message": why}] if why else []
    labels = {"rehearsal.kubegpu.tenancy/workload": work, "rehearsal.kubegpu.tenancy/pod": name} | (
        {"runai-gpu-group": group} if group else {}
    )
    tolerations = [{"key": "gpu", "operator": "Exists"}] if where == "n1" else []
    return {
        "metadata": {"name": name, "uid": uid or name, "labels": labels, "annotations": notes},
        "spec": {
            "containers": [{"resources": {"limits": limits}}],
            "nodeName": where,
            "schedulerName": scheduler,
            "tolerations": tolerations,
        },
        "status": {"phase": phase if where else "Pending", "conditions": conditions},
    }


def reservation(group, where="n1", device="GPU-1", **metadata):
    notes = {"run.ai/reserve_for_gpu_index": device} if device else {}
    labels = {"app": "kai-resource-reservation", "runai-gpu-group": group}
    return {
        "metadata": {"name": f"r-{group}", "uid": f"r-{group}", "labels": labels, "annotations": notes} | metadata,
        "spec": {"containers": [], "nodeName": where},
        "status": {"phase": "Running"},
    }


def watch(*observations, queues=None, **more):
    """Observe pods at seconds, and return what came of them.

    :arg more: what is known at the end, as Watch.result takes it.
    """
    made = Watch(TRACE, parse_queues(queues or QUEUES), NODES, "kai")
    for at, pods in observations:
        made.observe(at, pods)
    return made.result(**more)


def violations(*pods, after=60, **more):
    """What has not held, invariants and sentences, where pods were like this from the first second to this one."""
    return [(one.invariant, one.message) for one in watch((1, pods), (after, pods), **more).violations]


# --- what has to hold --------------------------------------------------------------------------------------------


def test_all_is_well():
    shared = [pod("part-0", "part", "n1", group="g"), pod("part-1", "part", "n1", group="g"), reservation("g")]
    assert violations(pod("whole-0", "whole", "n2"), *shared) == []


def test_a_node_with_more_gpus_booked_than_it_has():
    pods = [pod("whole-0", "whole", "n2"), pod("part-0", "part", "n2", group="g"), reservation("g", "n2")]
    assert violations(*pods) == [("one_owner", "3 GPUs of n2 are given out, and it has 2")]


def test_a_gpu_that_is_given_to_too_many():
    pods = [pod(f"part-{n}", "part", "n1", group="g") for n in range(3)]
    assert violations(*pods, reservation("g")) == [
        ("one_owner", "a GPU of n1 is given to part-0, part-1, part-2, which ask for more than one GPU together")
    ]


def test_parts_in_memory_count_by_the_size_of_the_nodes_gpus():
    pods = [pod("memory-0", "memory", "n1", group="g"), pod("part-0", "part", "n1", group="g"), reservation("g")]
    assert violations(*pods) == []
    assert violations(*pods, pod("part-1", "part", "n1", group="g"))[0][0] == "one_owner"


def test_two_groups_on_one_gpu():
    pods = [pod("part-0", "part", "n1", group="g"), pod("part-1", "part", "n1", group="h"), reservation("g"), reservation("h")]
    assert violations(*pods) == [("one_owner", "GPU n1/GPU-1 is reserved for 2 groups of pods")]


@pytest.mark.parametrize(
    "reserved",
    [
        [],
        [reservation("other")],
        [reservation("g", "n2")],
        [reservation("g", device="")],
        [reservation("g", deletionTimestamp="x")],
    ],
)
def test_a_part_of_a_gpu_that_nothing_reserves(reserved):
    pods = [pod("part-0", "part", "n1", group="g"), *reserved]
    assert violations(*pods) == [("reserved", "part-0 has part of a GPU of n1 that is not reserved: others can get it, too")]
    # A reservation comes a moment after the pod.
    assert violations(*pods, after=20) == []


def test_a_group_in_part():
    pods = [pod("gang-0", "gang", "n2"), pod("gang-1", "gang", "n2"), pod("gang-2", "gang", why="no room")]
    assert violations(*pods) == [("whole_groups", "gang has 2 pods placed of 3 that start together")]
    ended = pod("gang-0", "gang", "n2", "Succeeded")
    assert violations(ended, pod("gang-2", "gang", why="x")) == []


def test_a_queue_above_its_limit():
    pods = [
        pod("whole-0", "whole", "n1"),
        pod("whole-1", "whole", "n1"),
        pod("gang-0", "gang", "n2"),
        pod("gang-1", "gang", "n2"),
    ]
    assert ("within_limits", "queue ml holds 6 GPUs, and its limit is 4") in violations(*pods)


def test_a_node_that_a_pod_did_not_ask_for():
    assert violations(pod("picky-0", "picky", "n2")) == [
        ("placement", "picky-0 is on n2, which has not the labels that it asks for")
    ]
    assert ("placement", "whole-0 is on n9, which is no node of the trace") in violations(pod("whole-0", "whole", "n9"))
    bare = pod("whole-0", "whole", "n1")
    bare["spec"]["tolerations"] = [{"key": "gpu", "value": "x"}, {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]
    assert violations(bare) == [("placement", "whole-0 is on n1, whose taint gpu:NoSchedule it does not tolerate")]
    left = pod("whole-0", "whole", "n1", scheduler="default-scheduler")
    assert violations(left) == [("placement", "whole-0 was left to the scheduler default-scheduler, and asked for kai")]


def test_a_group_that_leaves_its_part_of_the_topology():
    apart = [pod("near-0", "near", "n1"), pod("near-1", "near", "n2")]
    assert violations(*apart) == [("placement", "near has to be within one rack, and is in none, r1")]
    assert violations(pod("near-0", "near", "n1"), pod("near-1", "near", "n1")) == []


def test_a_pod_that_waits_has_to_say_why():
    assert violations(pod("whole-0", "whole", why="no node has 2 GPUs")) == []
    assert violations(pod("whole-0", "whole")) == [("explained", "whole-0 waits, and nothing says why")]
    # A pod that came a moment ago, for the first time or again, is not late.
    assert watch((1, []), (51, [pod("whole-0", "whole")]), (60, [pod("whole-0", "whole")])).violations == ()
    again = pod("whole-0", "whole", uid="again")
    assert watch((1, [pod("whole-0", "whole")]), (51, [again]), (60, [again])).violations == ()
    ended = pod("whole-0", "whole")
    ended["status"] = {"phase": "Failed"}
    assert violations(ended) == [("explained", "whole-0 has failed without a node, and nothing says why")]
    ended["status"] |= {"reason": "Preempting"}
    assert violations(ended) == []


def test_what_is_wrong_for_a_moment_is_not():
    wrong = [pod("whole-0", "whole", "n2"), pod("gang-0", "gang", "n2")]
    right = [pod("whole-0", "whole", "n2"), pod("gang-0", "gang", why="x")]
    found = watch((1, wrong), (3, right), (4, wrong), (6, right))
    assert found.violations == ()
    (lasting,) = [one for one in watch((1, wrong), (3, wrong), (6, wrong)).violations if one.invariant == "one_owner"]
    assert (lasting.at, lasting.message) == (1, "3 GPUs of n2 are given out, and it has 2")


# --- what is measured --------------------------------------------------------------------------------------------


def test_how_long_pods_waited():
    waiting = [pod(f"part-{n}", "part", why="x") for n in range(3)]
    two = [pod("part-0", "part", "n1", group="g"), pod("part-1", "part", "n1", group="g"), waiting[2]]
    found = watch((0, waiting), (2, [*two[:1], *waiting[1:]]), (10, two))
    assert found.waits == {"part-0": 2, "part-1": 10}
    assert (found.measures["bind_p50"], found.measures["bind_p99"], found.measures["unbound"]) == (2, 10, 1)
    assert found.unbound == {"part-2": "x"}


def test_evictions_count_whether_or_not_pods_come_back():
    first, second = pod("whole-0", "whole", "n2", uid="1"), pod("whole-0", "whole", uid="2", why="x")
    assert watch((0, [first]), (1, [second])).measures["evicted"] == 1
    assert watch((0, [first]), (1, []), (2, [second]), (3, [second])).measures["evicted"] == 1
    assert watch((0, [first]), (1, []), (2, [])).measures["evicted"] == 1
    assert watch((0, [pod("whole-0", "whole", "n2", "Succeeded")]), (1, [])).measures["evicted"] == 0


def test_what_is_said_of_a_group_explains_its_pods():
    waits = pod("gang-0", "gang")
    waits["metadata"]["annotations"]["pod-group-name"] = "gang"
    assert [one.invariant for one in watch((0, [waits]), (60, [waits])).violations] == ["explained"]
    reasons = [{"reason": "OverLimit", "message": "too many"}]
    group = {"metadata": {"name": "gang"}, "status": {"schedulingConditions": [{"reasons": reasons}]}}
    found = watch((0, [waits]), (60, [waits]), groups=[group])
    assert (found.violations, found.unbound) == ((), {"gang-0": "too many"})
    assert watch((0, [waits]), (60, [waits]), groups=[{"metadata": {"name": "gang"}}]).unbound == {"gang-0": ""}


def test_a_pod_at_work_ends_only_by_the_schedulers_decision():
    first, second = pod("whole-0", "whole", "n2", uid="1"), pod("whole-0", "whole", uid="2", why="x")
    first["metadata"]["annotations"]["pod-group-name"] = "pg-whole-0"
    for seen in ([(0, [first]), (4, [second])], [(0, [first]), (4, []), (5, [second])], [(0, [first]), (4, [])]):
        (lost,) = watch(*seen, evicted={"pg-another"}).violations
        said = "whole-0 was at work and was deleted, and the scheduler did not evict it"
        assert (lost.invariant, lost.at, lost.message) == ("kept", 4, said)
        assert watch(*seen, evicted={"pg-whole-0"}).violations == ()
    # One that had ended, or had no node, was not at work.
    assert watch((0, [pod("whole-0", "whole", "n2", "Succeeded")]), (1, [])).violations == ()
    assert watch((0, [second]), (1, [])).violations == ()


def test_gpus_that_are_free_while_pods_wait():
    waits = pod("gang-0", "gang", why="x")
    half = watch((0, [pod("whole-0", "whole", "n1"), waits]), (10, [pod("whole-0", "whole", "n1")]), (20, []))
    # Four of six for half of the time, two of them beside what is taken.
    assert (half.measures["idle_gpus"], half.measures["fragmented_gpus"]) == (2, 2)
    assert half.samples[0] == Sample(0, {"a": 2.0}, 1, 1)


def queues(*rows):
    return parse_queues(
        [
            {"name": name, "gpu": {"quota": quota, "limit": limit, "over_quota_weight": weight}}
            for name, quota, limit, weight in rows
        ]
    )


@pytest.mark.parametrize(
    ("tree", "asked", "shares"),
    [
        ([("a", 3, "unlimited", 1), ("b", 1, "unlimited", 1)], {"a": 8, "b": 8}, {"a": 5, "b": 3}),
        ([("a", 3, 4, 1), ("b", 1, "unlimited", 1)], {"a": 8, "b": 8}, {"a": 4, "b": 4}),
        ([("a", 3, "unlimited", 3), ("b", 1, "unlimited", 1)], {"a": 8, "b": 8}, {"a": 6, "b": 2}),
        ([("a", 3, "unlimited", 1), ("b", 1, "unlimited", 1)], {"a": 1, "b": 8}, {"a": 1, "b": 7}),
        ([("a", 3, "unlimited", 0), ("b", 1, "unlimited", 0)], {"a": 8, "b": 8}, {"a": 3, "b": 1}),
        ([("a", 0, "unlimited", 1)], {}, {"a": 0}),
    ],
)
def test_fair_shares(tree, asked, shares):
    assert fair_shares(queues(*tree), asked, 8) == shares


def test_fair_shares_go_down_the_tree():
    tree = parse_queues(
        [
            {
                "name": "x",
                "gpu": {"quota": 4},
                "children": [{"name": "a", "gpu": {"quota": 1}}, {"name": "b", "gpu": {"quota": 1}}],
            },
            {"name": "y", "gpu": {"quota": 4}},
        ]
    )
    assert fair_shares(tree, {"a": 8, "b": 8, "y": 2}, 8) == {"a": 3, "b": 3, "y": 2}


AMOUNTS = st.integers(0, 8)


@given(st.lists(st.tuples(AMOUNTS, st.one_of(AMOUNTS, st.just("unlimited")), AMOUNTS, AMOUNTS), min_size=1, max_size=5))
def test_nobody_gets_more_than_it_asks_for_or_may_have(rows):
    names = [f"q{number}" for number in range(len(rows))]
    tree = queues(
        *[
            (name, quota, limit if limit == "unlimited" else quota + limit, weight)
            for name, (quota, limit, weight, _asked) in zip(names, rows)
        ]
    )
    shares = fair_shares(tree, {name: row[3] for name, row in zip(names, rows)}, 8)
    for name, (quota, limit, _weight, asked) in zip(names, rows):
        assert 0 <= shares[name] <= asked + 1e-6
        assert limit == "unlimited" or shares[name] <= quota + limit + 1e-6


# --- the verdict -------------------------------------------------------------------------------------------------


def played(*found, evicted=0.0, **measures):
    """A round with all measures at ten, or as given."""
    values = dict.fromkeys(THRESHOLDS, 10.0) | {"evicted": evicted} | measures
    violations = tuple(Violation(invariant, 7.0, what) for invariant, what in found)
    return Round(violations, values, (Sample(0.0, {}, 1, 1),), {"a-0": 1.0}, {})


SPREAD = "That is above its threshold, within the rounds' spread."


def verdict(baseline, candidate):
    return judge(TRACE, baseline, candidate, THRESHOLDS)


def test_the_same_is_promoted():
    rounds = [played(), played(bind_p50=12.0)]
    found = verdict(rounds, rounds)
    assert (found.result, found.reasons) == ("promote", ("Everything holds, and no measure is above its threshold.",))
    assert "Not exercised by the trace: evictions." in found.notes
    assert "Not exercised by the trace: more than one priority." in found.notes
    assert not any("whole GPUs" in note for note in found.notes)


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_what_does_not_hold_rejects(invariant):
    wrong = played((invariant, "x"), (invariant, "y"), (invariant, "z"), (invariant, "w"))
    found = verdict([played()] * 3, [played(), wrong, played()])
    assert found.result == "reject"
    assert "in 1 of 3 rounds: x (7 s); y (7 s); z (7 s) and 1 more" in found.reasons[0]


def test_both_are_named_where_both_are_wrong():
    found = verdict([played(("reserved", "before"))], [played(("reserved", "after"))])
    assert found.result == "reject"
    (reason,) = found.reasons
    assert reason == (
        "The candidate violates reserved (every GPU that pods share is reserved) in 1 of 1 rounds: after (7 s). "
        "The baseline violates it, too, in 1 of 1 rounds: before (7 s)."
    )
    healed = verdict([played(("reserved", "before"))], [played()])
    assert healed.result == "promote"
    assert healed.notes[0].startswith("Only the baseline violates reserved (every GPU that pods share is reserved)")


def test_what_is_worse_than_allowed_is_held():
    found = verdict([played(bind_p95=10.0)] * 3, [played(bind_p95=30.0)] * 3)
    assert found.result == "hold"
    assert found.reasons == (
        "bind_p95 is 30 (30 to 30) under the candidate and 10 (10 to 10) under the baseline; 17 is allowed.",
    )
    assert [one.name for one in found.comparisons if one.worse] == ["bind_p95"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        # Within the threshold; better; within what the baseline's rounds differ by.
        ([10, 10, 10], [16, 16, 16], ["Everything holds, and no measure is above its threshold."]),
        ([30, 30, 30], [10, 10, 10], ["Everything holds, and no measure is above its threshold."]),
        (
            [10, 10, 40],
            [30, 30, 30],
            [
                "Everything holds, and no measure is known to be worse.",
                f"bind_p95 is 30 (30 to 30) under the candidate and 10 (10 to 40) under the baseline; 17 is allowed. {SPREAD}",
            ],
        ),
        # Outside of that, by less than they differ by.
        (
            [10, 20, 12],
            [29, 29, 29],
            [
                "Everything holds, and no measure is known to be worse.",
                f"bind_p95 is 29 (29 to 29) under the candidate and 12 (10 to 20) under the baseline; 19.4 is allowed. {SPREAD}",
            ],
        ),
    ],
)
def test_what_is_not_known_to_be_worse_is_promoted(before, after, said):
    rounds = [[played(bind_p95=float(value)) for value in values] for values in (before, after)]
    found = verdict(*rounds)
    assert (found.result, list(found.reasons)) == ("promote", said)


def test_a_baseline_that_places_nothing_is_no_measure():
    nothing = dataclasses.replace(played(), waits={})
    found = verdict([nothing], [played()])
    assert (found.result, found.reasons[0]) == (
        "hold",
        "No pod got a node under the baseline, so that there is nothing to compare with.",
    )
    assert verdict([nothing, played()], [played()]).result == "promote"


def test_what_was_not_measured_is_said():
    without = dataclasses.replace(played(), measures={"unbound": 0.0, "evicted": 0.0})
    found = verdict([played()], [without])
    assert [one.name for one in found.comparisons] == ["unbound", "evicted"]
    assert "Not measured in every round: cycle_p95." in found.notes


def test_data_is_plain():
    data = verdict([played(("reserved", "before"))], [played()]).data()
    assert data["result"] == "promote"
    assert data["comparisons"][0] == {
        "name": "bind_p50",
        "baseline": (10.0,),
        "candidate": (10.0,),
        "allowed": 14.0,
        "worse": False,
    }
    assert played(("reserved", "x")).data()["violations"] == ({"invariant": "reserved", "at": 7.0, "message": "x"},)
