# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import plan, pods_in_use
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from ansible_collections.kubegpu.tenancy.tests.unit.api import written_by
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

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


def live(*queues):
    return [manifest(queue) for queue in queues]


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


def test_an_update_shows_what_differs_in_users_units():
    before = parse([{"name": "q", "memory": {"limit": "32Gi"}, "display_name": "Old", "cpu": {"quota": "500m"}}])
    after = parse([{"name": "q", "memory": {"limit": "64Gi"}, "cpu": {"quota": 1}}])
    (change,) = plan(after, live(*before.values()), "present")
    assert change.before == {"display_name": "Old", "cpu.quota": "500m", "memory.limit": "32Gi"}
    assert change.after == {"display_name": None, "cpu.quota": 1, "memory.limit": "64Gi"}
    assert change.body["spec"]["displayName"] is None


def test_a_queue_says_who_wrote_what_differs():
    (old,) = live(*parse([{"name": "q", "gpu": {"limit": 2}, "display_name": "Old"}]).values())
    edited = written_by(old, "kubegpu.tenancy", "2026-11-20T10:00:00Z", ("spec", "displayName"), ("spec", "priority"))
    edited = written_by(edited, "kubectl-edit", "2026-11-24T10:02:00Z", ("spec", "resources", "gpu", "limit"))

    def write(tree, state="present"):
        (change,) = plan(parse(tree), [edited], state)
        return change.write

    by_hand, by_us = ("2026-11-24T10:02:00Z", "kubectl-edit"), ("2026-11-20T10:00:00Z", "kubegpu.tenancy")
    assert write([{"name": "q", "gpu": {"limit": 3}, "display_name": "Old"}]) == by_hand
    assert write([{"name": "q", "gpu": {"limit": 2}}]) == by_us
    assert write([{"name": "q", "gpu": {"limit": 2}, "display_name": "Old", "priority": 50}]) == by_us
    assert write([{"name": "q", "gpu": {"limit": 2}, "display_name": "Old", "cpu": {"quota": 1}}]) is None
    assert write([{"name": "q"}], "absent") == by_hand
    (created,) = plan(parse([{"name": "new"}]), [], "present")
    assert created.write is None


def test_a_queue_of_others_becomes_owned_and_its_unset_limit_is_nothing():
    foreign = {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"quota": 1}}}}
    (change,) = plan(parse([{"name": "q", "gpu": {"quota": 1}}]), [foreign], "present")
    assert change.before["owner"] is None
    assert change.before["gpu.limit"] == 0
    assert "gpu.quota" not in change.before


def test_a_child_that_would_be_cut_off():
    with refuses("child-cut-off"):
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
    with refuses("child-cut-off"):
        plan(moved, [*before, foreign], "exact")
    assert [change.name for change in plan(moved, [*before, foreign], "exact", remove_foreign=True)][-2:] == ["theirs", "old"]


def test_pods_in_use():
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
    assert pods_in_use({"q", "default-queue"}, pods, "kai-scheduler") == {"q": ["ns/a"], "default-queue": ["ns/d"]}
