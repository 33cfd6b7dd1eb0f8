# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import (
    ancestors,
    at_work,
    leaves,
    manifest,
    overview,
    parse,
    plan,
    promised_twice,
    to_people,
)

TREE = [
    {
        "name": "ml",
        "gpu": {"quota": 4, "limit": 4},
        "children": [
            {"name": "training", "gpu": {"quota": 3, "limit": 4, "over_quota_weight": 2}},
            {"name": "notebooks", "gpu": {"quota": 1, "limit": 2}, "priority": 50},
        ],
    }
]
FLAT = [
    {"name": "training", "parent": "ml", "gpu": {"quota": 3, "limit": 4, "over_quota_weight": 2}},
    {"name": "notebooks", "parent": "ml", "gpu": {"quota": 1, "limit": 2}, "priority": 50},
    {"name": "ml", "gpu": {"quota": 4, "limit": 4}},
]
FREE = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


def problems(data, levels=None, version="v0.12.0"):
    with pytest.raises(TenancyError) as caught:
        parse(data, levels, version)
    return caught.value.details["problems"]


def live(*queues):
    return [manifest(queue) for queue in queues]


def test_tree_and_flat_list_say_the_same():
    assert parse(TREE) == parse(FLAT)
    assert list(parse(FLAT)) == ["ml", "training", "notebooks"]


def test_manifest():
    assert manifest(parse(TREE)["training"]) == {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "training", "labels": {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}},
        "spec": {
            "parentQueue": "ml",
            "priority": 100,
            "resources": {"gpu": {"quota": 3, "limit": 4, "overQuotaWeight": 2}, "cpu": FREE, "memory": FREE},
        },
    }


def test_leaves_and_ancestors():
    queues = parse(TREE)
    assert [queue.name for queue in leaves(queues)] == ["training", "notebooks"]
    assert [queue.name for queue in ancestors(queues, "training")] == ["training", "ml"]


@pytest.mark.parametrize(
    ("resource", "written", "api", "read"),
    [
        ("gpu", 2, 2, 2),
        ("gpu", "0.5", 0.5, 0.5),
        ("gpu", "unlimited", -1, "unlimited"),
        ("cpu", 8, 8000, 8),
        ("cpu", 0.5, 500, "500m"),
        ("cpu", "500m", 500, "500m"),
        ("cpu", "1500m", 1500, "1500m"),
        ("memory", "64Gi", 68719.476736, "64Gi"),
        ("memory", "512Mi", 536.870912, "512Mi"),
        ("memory", "10G", 10000, "10G"),
        ("memory", "1.5Gi", 1610.612736, "1536Mi"),
        ("memory", 0, 0, 0),
    ],
)
def test_units(resource, written, api, read):
    amount = parse([{"name": "q", resource: {"limit": written}}])["q"].spec["resources"][resource]["limit"]
    assert amount == api
    assert to_people(resource, amount) == read


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        ({"name": "q"}, "queues", "must be a list"),
        (["q"], "queues[0]", "must be a dictionary with a name"),
        ([{"name": "Q"}], "queues.Q", "not a name Kubernetes accepts"),
        ([{"name": "q" * 64}], f"queues.{'q' * 64}", "not a name Kubernetes accepts"),
        ([{"name": "a", "children": [{"name": "a"}]}], "queues.a.a", "two queues a"),
        ([{"name": "q", "gpus": 1}], "queues.q.gpus", "Allowed: name, parent"),
        ([{"name": "q", "gpu": 4}], "queues.q.gpu", "dictionary of quota, limit, over_quota_weight"),
        ([{"name": "q", "gpu": {"max": 4}}], "queues.q.gpu.max", "Allowed: quota"),
        ([{"name": "q", "gpu": {"quota": True}}], "queues.q.gpu.quota", "not a number"),
        ([{"name": "q", "gpu": {"limit": -1}}], "queues.q.gpu.limit", "Write unlimited"),
        ([{"name": "q", "gpu": {"over_quota_weight": "unlimited"}}], "queues.q.gpu.over_quota_weight", "not a number"),
        ([{"name": "q", "gpu": {"quota": 4, "limit": 2}}], "queues.q.gpu.limit", "2 is below the quota, 4"),
        ([{"name": "q", "gpu": {"quota": "unlimited", "limit": 2}}], "queues.q.gpu.limit", "below the quota, unlimited"),
        ([{"name": "q", "cpu": {"quota": "8 cores"}}], "queues.q.cpu.quota", "not an amount of CPU"),
        ([{"name": "q", "memory": {"quota": 64}}], "queues.q.memory.quota", "such as 64Gi"),
        ([{"name": "q", "priority": "high"}], "queues.q.priority", "whole number"),
        ([{"name": "q", "display_name": 5}], "queues.q.display_name", "quote it"),
        ([{"name": "q", "preempt_min_runtime": "5"}], "queues.q.preempt_min_runtime", "not a duration"),
        ([{"name": "q", "reclaim_min_runtime": "-5m"}], "queues.q.reclaim_min_runtime", "not a duration"),
        ([{"name": "q", "parent": "p"}], "queues.q.parent", "no queue p here"),
        ([{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}], "queues.a.parent", "circle"),
        ([{"name": "a", "children": [{"name": "b", "parent": "a"}]}], "queues.a.b.parent", "only outside"),
    ],
)
def test_refused(data, where, what):
    assert any(problem.startswith(f"{where}: ") and what in problem for problem in problems(data))


def test_everything_wrong_is_told_at_once():
    assert len(problems([{"name": "q", "gpu": {"quota": -1}, "cpu": {"limit": "x"}, "colour": "red"}])) == 3


def test_levels():
    assert parse(TREE, 2)
    assert parse([{"name": "q"}], None)
    assert "no child" in problems([{"name": "q"}], 2)[0]
    deep = [{"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}]
    assert problems(deep, 2) == ["queues.c: is on level 3, but KAI Scheduler v0.12.0 knows 2 levels only."]


def test_nothing_to_do():
    queues = parse(TREE)
    assert plan(queues, live(*queues.values()), "present") == []
    assert plan(queues, [], "absent") == []


def test_create_parents_first_and_delete_leaves_first():
    queues = parse(TREE)
    assert [(change.verb, change.name) for change in plan(queues, [], "present")] == [
        ("create", "ml"),
        ("create", "training"),
        ("create", "notebooks"),
    ]
    deletions = plan(queues, live(*queues.values()), "absent")
    assert [(change.verb, change.name) for change in deletions] == [
        ("delete", "notebooks"),
        ("delete", "training"),
        ("delete", "ml"),
    ]


def test_update_names_what_differs_in_peoples_units():
    before = parse([{"name": "q", "memory": {"limit": "32Gi"}, "display_name": "Old", "cpu": {"quota": "500m"}}])
    after = parse([{"name": "q", "memory": {"limit": "64Gi"}, "cpu": {"quota": 1}}])
    (change,) = plan(after, live(*before.values()), "present")
    assert change.before == {"display_name": "Old", "cpu.quota": "500m", "memory.limit": "32Gi"}
    assert change.after == {"display_name": None, "cpu.quota": 1, "memory.limit": "64Gi"}
    assert change.body["spec"]["displayName"] is None


def test_a_queue_of_others_is_taken_over_and_its_unset_limit_is_nothing():
    foreign = {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"quota": 1}}}}
    (change,) = plan(parse([{"name": "q", "gpu": {"quota": 1}}]), [foreign], "present")
    assert change.before["owner"] is None
    assert change.before["gpu.limit"] == 0
    assert "gpu.quota" not in change.before


def test_a_child_that_would_be_cut_off():
    with pytest.raises(TenancyError, match="its child training"):
        plan(parse([{"name": "ml"}]), live(*parse(TREE).values()), "absent")


def test_exact_moves_before_it_deletes_and_cuts_nothing_off():
    before = live(*parse([{"name": "old", "children": [{"name": "q"}]}]).values())
    moved = parse([{"name": "new", "children": [{"name": "q"}]}])
    assert [(change.verb, change.name) for change in plan(moved, before, "exact")] == [
        ("create", "new"),
        ("update", "q"),
        ("delete", "old"),
    ]
    foreign = {"metadata": {"name": "theirs"}, "spec": {"parentQueue": "old"}}
    with pytest.raises(TenancyError, match=r"queues\.old: its child theirs"):
        plan(moved, [*before, foreign], "exact")
    assert [change.name for change in plan(moved, [*before, foreign], "exact", remove_foreign=True)][-2:] == ["theirs", "old"]


def test_who_is_at_work():
    def pod(name, labels, scheduler="kai-scheduler", phase="Pending"):
        metadata = {"name": name, "namespace": "ns", "labels": labels}
        return {"metadata": metadata, "spec": {"schedulerName": scheduler}, "status": {"phase": phase}}

    pods = [
        pod("a", {"kai.scheduler/queue": "q"}),
        pod("b", {"kai.scheduler/queue": "q"}, phase="Failed"),
        pod("c", {"kai.scheduler/queue": "other"}),
        pod("d", None),
        pod("e", {}, scheduler="default-scheduler"),
    ]
    assert at_work({"q", "default-queue"}, pods, "kai-scheduler") == {"q": ["ns/a"], "default-queue": ["ns/d"]}


@pytest.mark.parametrize(
    ("own", "children", "told"),
    [
        (3, [1, 2], None),
        (2, [1, 2], "sum up to 3, its own is 2"),
        ("unlimited", ["unlimited"], None),
        (8, ["unlimited"], "sum up to unlimited, its own is 8"),
        (0, [0, 0.5], "sum up to 0.5, its own is 0"),
    ],
)
def test_promised_twice(own, children, told):
    tree = [
        {"name": "r", "gpu": {"quota": own}, "children": [{"name": f"c{n}", "gpu": {"quota": q}} for n, q in enumerate(children)]}
    ]
    found = promised_twice(parse(tree))
    assert found == ([f"queues.r.gpu.quota: the quotas of its children {told}."] if told else [])


def test_overview_counts_use_in_the_units_of_quotas():
    objects = live(*parse(TREE).values())
    used = {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "1500m"}
    objects[1]["status"] = {"allocated": used, "requested": {"nvidia.com/gpu": "3"}}
    orphan = {"metadata": {"name": "orphan"}, "spec": {"parentQueue": "gone"}}
    ml, lost = overview([*objects, orphan], "nvidia.com/gpu")
    assert [row["name"] for row in ml["children"]] == ["notebooks", "training"]
    assert ml["children"][1]["gpu"] == {
        "quota": 3,
        "limit": 4,
        "over_quota_weight": 2,
        "allocated": 1.5,
        "allocated_non_preemptible": 0,
        "requested": 3,
    }
    assert (ml["children"][1]["cpu"]["allocated"], ml["children"][1]["memory"]["allocated"]) == ("1500m", "2Gi")
    assert (lost["name"], lost["parent"], lost["ours"], lost["gpu"]["limit"]) == ("orphan", "gone", False, 0)
