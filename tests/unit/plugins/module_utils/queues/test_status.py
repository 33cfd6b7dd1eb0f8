# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.status import overview
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
