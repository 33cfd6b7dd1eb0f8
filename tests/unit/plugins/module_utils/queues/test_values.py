# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import (
    ancestors,
    children_of,
    fields,
    from_live,
    leaves,
    manifest,
    to_users,
    used_to_users,
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
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


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
    assert {parent: [queue.name for queue in found] for parent, found in children_of(queues).items()} == {
        None: ["ml"],
        "ml": ["training", "notebooks"],
    }


def test_live_queues():
    queues = from_live([{"metadata": {"name": "a"}, "spec": {"parentQueue": ""}}, {"metadata": {"name": "b"}}])
    assert {name: (queue.parent, queue.spec) for name, queue in queues.items()} == {
        "a": (None, {"parentQueue": ""}),
        "b": (None, {}),
    }


def test_a_circle_of_parents_ends():
    queues = from_live(
        [{"metadata": {"name": name}, "spec": {"parentQueue": parent}} for name, parent in (("a", "b"), ("b", "a"))]
    )
    assert [queue.name for queue in ancestors(queues, "a")] == ["a", "b"]


@pytest.mark.parametrize(
    ("resource", "written", "api", "read"),
    [
        ("gpu", 2, 2, 2),
        ("gpu", "0.5", 0.5, 0.5),
        ("gpu", "0.00001", 1e-05, 1e-05),
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
    assert to_users(resource, amount) == read


@pytest.mark.parametrize(
    ("resource", "quantity", "shown"), [("cpu", "1500m", "1500m"), ("memory", "2Gi", "2Gi"), ("gpu", "250m", 0.25), ("gpu", 3, 3)]
)
def test_use_is_counted_in_quantities(resource, quantity, shown):
    assert used_to_users(resource, quantity) == shown


def test_fields_are_those_that_users_write():
    shown = fields({"parentQueue": "ml", "displayName": "", "resources": {"cpu": {"quota": 500, "limit": -1}}})
    assert (shown["parent"], shown["priority"], shown["display_name"]) == ("ml", 100, None)
    # What is not set is nothing to the API, a weight included.
    assert (shown["cpu.quota"], shown["cpu.limit"], shown["gpu.limit"]) == ("500m", "unlimited", 0)
