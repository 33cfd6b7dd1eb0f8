# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.status import counted, overview
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest

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


def test_overview_counts_use_in_the_units_of_quotas():
    objects = [manifest(queue) for queue in parse(TREE).values()]
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
    assert (lost["name"], lost["parent"], lost["owned"], lost["gpu"]["limit"]) == ("orphan", "gone", False, 0)


def group(queue, allocated, requested=None):
    status = {"allocated": allocated, "requested": requested or allocated}
    return {"metadata": {"name": queue}, "spec": {"queue": queue}, "status": {"resourcesStatus": status}}


def test_what_pod_groups_use_counts_in_their_queue_and_above_whatever_the_queues_status_says():
    objects = [manifest(queue) for queue in parse(TREE).values()]
    objects[0]["status"] = {"allocated": {"nvidia.com/gpu": "9"}}
    groups = [
        group("training", {"nvidia.com/gpu": "500m", "cpu": "10m", "memory": "16Mi"}),
        group("training", {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}),
        group("notebooks", {"nvidia.com/gpu": "500m"}),
        group("gone", {"nvidia.com/gpu": "4"}),
        {"metadata": {"name": "new"}, "spec": {"queue": "training"}},
    ]
    (ml,) = overview(counted(objects, groups)[0], "nvidia.com/gpu")
    assert [(row["name"], row["gpu"]["allocated"], row["gpu"]["requested"]) for row in (ml, *ml["children"])] == [
        ("ml", 2, 3),
        ("notebooks", 0.5, 0.5),
        ("training", 1.5, 2.5),
    ]
    assert (ml["cpu"]["allocated"], ml["memory"]["allocated"]) == ("10m", "16Mi")


def test_queues_in_a_circle_are_counted_once():
    circle = [{"metadata": {"name": a}, "spec": {"parentQueue": b}} for a, b in (("a", "b"), ("b", "a"))]
    assert [
        item["status"]["allocated"]["nvidia.com/gpu"] for item in counted(circle, [group("a", {"nvidia.com/gpu": "1"})])[0]
    ] == [
        1,
        1,
    ]


def test_names_that_a_tenant_makes_up_are_not_counted_for_each_queue_above():
    chain = [
        {"metadata": {"name": f"c{level}"}, "spec": {"parentQueue": f"c{level - 1}"} if level else {}} for level in range(300)
    ]
    made_up = {f"r{number}": "1" for number in range(300)}
    group = {
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"queue": "c299"},
        "status": {"resourcesStatus": {"allocated": made_up | {"nvidia.com/gpu": "2", "cpu": "1"}}},
    }
    queues, unread = counted(chain, [group])
    assert unread == []
    assert all(set(item["status"]["allocated"]) == {"nvidia.com/gpu", "cpu"} for item in queues)


def test_an_amount_below_anything_that_counts_is_nothing():
    queue = {"metadata": {"name": "q"}, "spec": {}}
    used = {"resourcesStatus": {"allocated": {"memory": "1e-94", "cpu": "1e-9"}}}
    queues, unread = counted([queue], [{"metadata": {"name": "g", "namespace": "ns"}, "spec": {"queue": "q"}, "status": used}])
    (row,) = overview(queues, "nvidia.com/gpu")
    assert (row["memory"]["allocated"], unread) == (0, [])
