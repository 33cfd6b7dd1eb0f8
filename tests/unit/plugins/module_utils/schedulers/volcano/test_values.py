# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.validation import read_queues, release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.values import chart_values, manifest


def spec(**amounts):
    return manifest(read_queues([{"name": "a"} | amounts])["a"])["spec"]


def test_a_quota_is_deserved_and_a_limit_is_a_capability():
    said = spec(gpu={"quota": 2, "limit": 4}, cpu={"quota": "2500m", "limit": 8}, memory={"quota": "1Gi", "limit": "10G"})
    assert said == {
        "weight": 1,
        "reclaimable": True,
        "deserved": {"nvidia.com/gpu": "2", "cpu": "2500m", "memory": "1073741824"},
        "capability": {"nvidia.com/gpu": "4", "cpu": "8", "memory": "10000000000"},
    }


def test_what_is_not_bounded_is_left_out_and_no_gpu_is_a_bound():
    unlimited = {"cpu": "1000000", "memory": "1Pi"}
    assert spec() == {"weight": 1, "reclaimable": True, "deserved": {"nvidia.com/gpu": "0"} | unlimited, "capability": {}}
    assert spec(gpu={"quota": "unlimited"})["deserved"]["nvidia.com/gpu"] == "1000000"
    assert spec(gpu={"limit": 0})["capability"] == {"nvidia.com/gpu": "0"}


def test_nothing_is_deserved_beyond_a_limit_and_nothing_is_rounded_to_no_limit():
    said = spec(gpu={"quota": 4, "limit": 4}, cpu={"limit": "0.4m"}, memory={"limit": "0.0001k"})
    assert said["capability"] == {"nvidia.com/gpu": "4", "cpu": "1m", "memory": "1"}
    assert said["deserved"] == said["capability"]


def test_the_chart_is_told_to_keep_to_what_queues_deserve():
    values = chart_values(release("1.10.0"), [{"key": "nvidia.com/gpu", "operator": "Exists"}])["custom"]
    config = json.loads(values["scheduler_config_override"])
    assert "reclaim" in config["actions"]
    plugins = [plugin["name"] for tier in config["tiers"] for plugin in tier["plugins"]]
    assert ("capacity" in plugins, "proportion" in plugins, "gang" in plugins) == (True, False, True)
    assert values["default_tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    # Those that give back are decided on by the first tier.
    assert [plugin["name"] for plugin in config["tiers"][0]["plugins"]] == ["priority", "gang", "conformance", "capacity"]
    assert config["tiers"][0]["plugins"][1]["enableReclaimable"] is False
    assert chart_values(release("1.10.0"), [])["custom"].keys() == {"scheduler_config_override"}
    assert chart_values(release("1.15.1"), []) == chart_values(None, []) == {}
