# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the values that the charts of the device plugin and the operator get."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.values import replicas_of
from ansible_collections.kubegpu.tenancy.tests.unit.device_plugin import OPERATOR, node, plan, sharing, two


def test_values_of_the_plugin() -> None:
    values = plan().values
    assert values.keys() == {"runtimeClassName", "migStrategy", "tolerations"}
    assert (values["runtimeClassName"], values["migStrategy"]) == ("nvidia", "none")
    assert "kubegpu.tenancy/dedicated" in [toleration["key"] for toleration in values["tolerations"]]


def test_values_of_sharing() -> None:
    groups = two(time_slicing=None, mps={"replicas": 2})
    found = plan(**groups)
    assert found.labels == {
        "w1": {"nvidia.com/device-plugin.config": "shared"},
        "w2": {"nvidia.com/device-plugin.config": "other", "nvidia.com/mps.capable": "true"},
    }
    assert found.replicas == {"w1": 4, "w2": 2}
    config = found.values["config"]
    assert (config["default"], found.values["deviceListStrategy"]) == ("default", "envvar")
    assert {name: yaml.safe_load(text) for name, text in config["map"].items()} == {
        "default": {"version": "v1"},
        "shared": {
            "version": "v1",
            "sharing": {
                "timeSlicing": {"failRequestsGreaterThanOne": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
            },
        },
        "other": {"version": "v1", "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}},
    }
    # The operator takes the same under names of its own.
    operators = plan(**OPERATOR, **groups).values["devicePlugin"]["config"]
    name = operators["name"]
    assert operators == {"create": True, "name": name, "default": "default", "data": config["map"]}
    for values in (found.values, {"devicePlugin": {"config": operators}}):
        labels = ({}, {"nvidia.com/device-plugin.config": "shared"}, {"nvidia.com/device-plugin.config": "other"})
        assert [replicas_of(values, given) for given in labels] == [1, 4, 2]


def test_other_configurations_of_the_operator_have_another_name() -> None:
    """The operator sees no change of a ConfigMap's content, and the plugin's pods do not read it again."""
    names = {replicas: _config_map(time_slicing={"replicas": replicas}) for replicas in (2, 4)}
    assert names[2] != names[4] == _config_map()
    assert all(re.fullmatch("kubegpu-device-plugin-[0-9a-f]{8}", name) for name in names.values())


def _config_map(**change: t.Any) -> str:
    return str(plan(**OPERATOR, **sharing(**change)).values["devicePlugin"]["config"]["name"])


def test_values_of_feature_discovery_and_mig() -> None:
    values = plan(gpu_feature_discovery=True, mig_strategy="mixed").values
    assert (values["gfd"], values["migStrategy"]) == ({"enabled": True}, "mixed")
    assert values["nfd"]["worker"]["tolerations"] == values["tolerations"]
    # It finds nodes with GPUs itself.
    assert plan(cluster=[node("plain")], gpu_feature_discovery=True)


def test_values_of_the_operator() -> None:
    values = plan(**OPERATOR, gpu_feature_discovery=True, mig_strategy="single").values
    assert {part: values[part]["enabled"] for part in ("driver", "toolkit", "migManager", "dcgmExporter", "nfd", "gfd")} == {
        "driver": False,
        "toolkit": False,
        "migManager": False,
        "dcgmExporter": False,
        "nfd": True,
        "gfd": True,
    }
    assert values["mig"] == {"strategy": "single"}
    keys = [toleration["key"] for toleration in values["daemonsets"]["tolerations"]]
    assert "kubegpu.tenancy/dedicated" in keys


@pytest.mark.parametrize(
    ("metrics", "monitor"),
    [
        ({"provider": "annotations"}, {"enabled": False}),
        ({"provider": "service_monitor"}, {"enabled": True, "additionalLabels": {}}),
        ({"provider": "service_monitor", "labels": {"a": "b"}}, {"enabled": True, "additionalLabels": {"a": "b"}}),
    ],
)
def test_the_operator_brings_dcgm_exporter_where_a_prometheus_is_to_read_it(metrics, monitor) -> None:
    values = plan(**OPERATOR, metrics=metrics | {"namespace": "monitoring"}).values
    assert values["dcgmExporter"] == {"enabled": True, "serviceMonitor": monitor}


def test_the_users_values_win() -> None:
    values = plan(values={"migStrategy": "single", "gfd": {"x": 1}}, gpu_feature_discovery=True).values
    assert (values["migStrategy"], values["gfd"]) == ("single", {"enabled": True, "x": 1})


@pytest.mark.parametrize("values", [{}, {"config": None}, {"config": {"map": "x"}}, {"config": {"map": {"default": 7}}}])
def test_foreign_values_share_nothing(values: dict[str, t.Any]) -> None:
    assert replicas_of(values, {}) == 1
