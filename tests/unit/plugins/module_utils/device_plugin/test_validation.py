# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is refused of the module's options."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.facts import LIMITS, PROVIDERS
from ansible_collections.kubegpu.tenancy.tests.unit.device_plugin import (
    DRA,
    NODES,
    OPERATOR,
    PRESENT,
    UUID,
    node,
    plan,
    sharing,
    two,
)
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed

# What is given, the path that is named, and the code of the problem.
ROWS: list[tuple[dict[str, t.Any], str, str]] = [
    ({"version": "v0.17.4"}, "version", "not-a-version"),
    ({"version": "latest"}, "version", "not-a-version"),
    (OPERATOR | {"version": "26.7.0"}, "version", "not-a-version"),
    ({"nodes": ["w9"]}, "nodes", "unknown-node"),
    (OPERATOR | {"nodes": ["w1"]}, "nodes", "not-applicable"),
    ({"cluster": [node("plain")]}, "nodes", "too-few-nodes"),
    ({"expected_gpus": {"w1": "4"}}, "expected_gpus.w1", "wrong-type"),
    ({"expected_gpus": {"w1": True}}, "expected_gpus.w1", "wrong-type"),
    ({"expected_gpus": {"w1": -1}}, "expected_gpus.w1", "wrong-type"),
    ({"expected_gpus": {"w1": ["0"]}}, "expected_gpus.w1", "wrong-type"),
    ({"expected_gpus": {"w9": 4}}, "expected_gpus.w9", "unknown-node"),
    ({"expected_gpus": {"plain": 4}}, "expected_gpus.plain", "no-gpu-node"),
    # Groups.
    ({"sharing": ["shared"]}, "sharing[0]", "wrong-type"),
    (sharing(timeslicing={}), "sharing[0].timeslicing", "unknown-key"),
    (sharing(name=None), "sharing[0].name", "not-a-label-value"),
    (sharing(name=7), "sharing[0].name", "not-a-label-value"),
    (sharing(name="a b"), "sharing[0].name", "not-a-label-value"),
    (sharing(name="-a"), "sharing[0].name", "not-a-label-value"),
    (sharing(name="a" * 64), "sharing[0].name", "not-a-label-value"),
    (sharing(name=""), "sharing[0].name", "not-a-label-value"),
    (sharing(name="default"), "sharing[0].name", "reserved-name"),
    (two(name="shared"), "sharing[1].name", "same-name"),
    (sharing(mps={"replicas": 2}), "sharing[0]", "not-exactly-one"),
    (sharing(time_slicing=None), "sharing[0]", "not-exactly-one"),
    (sharing(time_slicing=4), "sharing[0].time_slicing", "wrong-type"),
    (sharing(time_slicing={}), "sharing[0].time_slicing", "wrong-type"),
    (sharing(time_slicing={"replicas": 2, "renameByDefault": True}), "sharing[0].time_slicing", "wrong-type"),
    (sharing(time_slicing={"replicas": 1}), "sharing[0].time_slicing.replicas", "not-a-whole-number"),
    (sharing(time_slicing={"replicas": "4"}), "sharing[0].time_slicing.replicas", "not-a-whole-number"),
    (sharing(time_slicing={"replicas": True}), "sharing[0].time_slicing.replicas", "not-a-whole-number"),
    (sharing(time_slicing={"replicas": 2.5}), "sharing[0].time_slicing.replicas", "not-a-whole-number"),
    (sharing(time_slicing=None, mps={"replicas": 0}), "sharing[0].mps.replicas", "not-a-whole-number"),
    (sharing(nodes=None), "sharing[0]", "not-exactly-one"),
    (sharing(labels={"rack": "a"}), "sharing[0]", "not-exactly-one"),
    (sharing(nodes="w1"), "sharing[0].nodes", "wrong-type"),
    (sharing(nodes=[]), "sharing[0].nodes", "wrong-type"),
    (sharing(nodes=[1]), "sharing[0].nodes", "wrong-type"),
    (sharing(nodes=["w9"]), "sharing[0].nodes", "unknown-node"),
    (sharing(nodes=["plain"]), "sharing[0].nodes", "no-gpu-node"),
    (sharing(nodes=None, labels={}), "sharing[0].labels", "wrong-type"),
    (sharing(nodes=None, labels={"rack": 1}), "sharing[0].labels", "wrong-type"),
    (sharing(nodes=None, labels={"rack": "b"}), "sharing[0].labels", "too-few-nodes"),
    (two(nodes=["w1", "w2"]), "sharing[1]", "listed-twice"),
    (two(nodes=None, labels={"rack": "a"}), "sharing[1]", "listed-twice"),
    (sharing(time_slicing=None, mps={"replicas": 2}) | {"mig_strategy": "mixed"}, "mig_strategy", "mps-with-mig"),
    (sharing(time_slicing=None, mps={"replicas": 2}) | {"version": "0.14.5"}, "version", "not-in-release"),
    # Versions that cannot work.
    ({"kubernetes": "v1.9.11"}, "version", "kubernetes-not-supported"),
    ({"driver_version": "375.66"}, "version", "driver-too-old"),
    (
        {"cluster": [node("w1", **PRESENT, **{"nvidia.com__cuda.driver-version.full": "367.48"}), *NODES[1:]]},
        "version",
        "driver-too-old",
    ),
    (
        {"cluster": [node("w1", **PRESENT, **{"nvidia.com__cuda.driver.major": "367", "nvidia.com__cuda.driver.minor": "48"})]},
        "version",
        "driver-too-old",
    ),
    (OPERATOR | {"kubernetes": "v1.32.9"}, "version", "kubernetes-not-supported"),
    (OPERATOR | {"kubernetes": "v1.37.0"}, "version", "kubernetes-not-supported"),
    (
        OPERATOR | {"values": DRA, "driver_version": "580.1", "kubernetes": "v1.34.1"},
        "version",
        "kubernetes-not-supported",
    ),
    (OPERATOR | {"values": DRA, "driver_version": "570.1"}, "version", "driver-too-old"),
    (OPERATOR | {"values": DRA}, "driver_version", "driver-not-known"),
    (OPERATOR | {"values": {"gpuCluster": {"deployCR": True}}}, "values.clusterPolicy.deployCR", "dra-with-device-plugin"),
    (OPERATOR | {"values": DRA, "driver_version": "580.1"} | sharing(), "sharing", "dra-with-sharing"),
    ({"values": DRA}, "values.gpuCluster", "not-applicable"),
    ({"metrics": {"provider": "annotations", "namespace": "m"}}, "metrics", "not-applicable"),
    (OPERATOR | {"metrics": {"provider": "annotations"}}, "metrics.namespace", "missing"),
]


@pytest.mark.parametrize(("given", "path", "code"), ROWS)
def test_bad_input_is_refused_by_its_path(given: dict[str, t.Any], path: str, code: str) -> None:
    with pytest.raises(TenancyError) as caught:
        plan(**given)
    assert f"{path}: {code}" in placed(caught.value.problems)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(TenancyError) as caught:
        plan(version="v1", sharing=[{"name": "a b"}], expected_gpus={"w9": 1})
    assert len(caught.value.problems) == 5


@pytest.mark.parametrize(
    ("provider", "version", "kubernetes", "driver"),
    [
        ("device_plugin", "0.20.0", "v1.37.0", "595.91.07"),
        ("gpu_operator", "v26.7.0", "v1.33.0", ""),
        ("gpu_operator", "v26.7.0", "v1.36.4", ""),
        ("gpu_operator", "v99.1.0", "v1.50.0", ""),
    ],
)
def test_versions_within_the_limits(provider: str, version: str, kubernetes: str, driver: str) -> None:
    assert plan(version, kubernetes=kubernetes, provider=provider, driver_version=driver)


def test_every_limit_has_its_source() -> None:
    assert all(limit.source.startswith("https://") and limit.provider in PROVIDERS for limit in LIMITS)


def test_gpus_by_uuid_are_counted() -> None:
    assert plan(expected_gpus={"w1": [UUID], "w2": 4}).expected == {"w1": 1, "w2": 4}
