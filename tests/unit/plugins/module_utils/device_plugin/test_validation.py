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

# What is given, the path that is named, a part of the reason.
ROWS: list[tuple[dict[str, t.Any], str, str]] = [
    ({"version": "v0.17.4"}, "version", "such as 0.17.4"),
    ({"version": "latest"}, "version", "such as 0.17.4"),
    (OPERATOR | {"version": "26.7.0"}, "version", "such as v26.7.0"),
    ({"nodes": ["w9"]}, "nodes", "w9 is not a node of the cluster. The cluster's nodes: plain, w1, w2."),
    (OPERATOR | {"nodes": ["w1"]}, "nodes", "labels the nodes with GPUs itself"),
    ({"cluster": [node("plain")]}, "nodes", "no node of the cluster is labelled nvidia.com/gpu.present=true"),
    ({"expected_gpus": {"w1": "4"}}, "expected_gpus.w1", "a number of GPUs or the list"),
    ({"expected_gpus": {"w1": True}}, "expected_gpus.w1", "a number of GPUs or the list"),
    ({"expected_gpus": {"w1": -1}}, "expected_gpus.w1", "a number of GPUs or the list"),
    ({"expected_gpus": {"w1": ["0"]}}, "expected_gpus.w1", "a number of GPUs or the list"),
    ({"expected_gpus": {"w9": 4}}, "expected_gpus.w9", "not a node of the cluster"),
    ({"expected_gpus": {"plain": 4}}, "expected_gpus.plain", "Name it in nodes"),
    # Groups.
    ({"sharing": ["shared"]}, "sharing[0]", "must be a dictionary"),
    (sharing(timeslicing={}), "sharing[0].timeslicing", "unknown key. Allowed here: name, nodes, labels, time_slicing, mps."),
    (sharing(name=None), "sharing[0].name", "cannot be a label's value"),
    (sharing(name=7), "sharing[0].name", "7 cannot be a label's value"),
    (sharing(name="a b"), "sharing[0].name", "cannot be a label's value"),
    (sharing(name="-a"), "sharing[0].name", "cannot be a label's value"),
    (sharing(name="a" * 64), "sharing[0].name", "at most 63"),
    (sharing(name=""), "sharing[0].name", "cannot be a label's value"),
    (sharing(name="default"), "sharing[0].name", "Choose another name"),
    (two(name="shared"), "sharing[1].name", "the name of sharing[0] already"),
    (sharing(mps={"replicas": 2}), "sharing[0]", "either time_slicing or mps"),
    (sharing(time_slicing=None), "sharing[0]", "either time_slicing or mps"),
    (sharing(time_slicing=4), "sharing[0].time_slicing", "the key replicas only"),
    (sharing(time_slicing={}), "sharing[0].time_slicing", "the key replicas only"),
    (sharing(time_slicing={"replicas": 2, "renameByDefault": True}), "sharing[0].time_slicing", "the key replicas only"),
    (sharing(time_slicing={"replicas": 1}), "sharing[0].time_slicing.replicas", "1 is not a whole number of 2 or more"),
    (sharing(time_slicing={"replicas": "4"}), "sharing[0].time_slicing.replicas", "'4' is not a whole number"),
    (sharing(time_slicing={"replicas": True}), "sharing[0].time_slicing.replicas", "True is not a whole number"),
    (sharing(time_slicing={"replicas": 2.5}), "sharing[0].time_slicing.replicas", "2.5 is not a whole number"),
    (sharing(time_slicing=None, mps={"replicas": 0}), "sharing[0].mps.replicas", "0 is not a whole number"),
    (sharing(nodes=None), "sharing[0]", "either by nodes"),
    (sharing(labels={"rack": "a"}), "sharing[0]", "either by nodes"),
    (sharing(nodes="w1"), "sharing[0].nodes", "must be a list of names"),
    (sharing(nodes=[]), "sharing[0].nodes", "must be a list of names"),
    (sharing(nodes=[1]), "sharing[0].nodes", "must be a list of names"),
    (sharing(nodes=["w9"]), "sharing[0].nodes", "w9 is not a node of the cluster"),
    (sharing(nodes=["plain"]), "sharing[0].nodes", "plain is not labelled"),
    (sharing(nodes=None, labels={}), "sharing[0].labels", "a dictionary of labels"),
    (sharing(nodes=None, labels={"rack": 1}), "sharing[0].labels", "whose values are strings"),
    (sharing(nodes=None, labels={"rack": "b"}), "sharing[0].labels", "no node with GPUs has them all"),
    (two(nodes=["w1", "w2"]), "sharing[1]", "node w1 is in sharing[0] already"),
    (two(nodes=None, labels={"rack": "a"}), "sharing[1]", "node w1 is in sharing[0] already"),
    (sharing(time_slicing=None, mps={"replicas": 2}) | {"mig_strategy": "mixed"}, "mig_strategy", "in MIG mode"),
    (sharing(time_slicing=None, mps={"replicas": 2}) | {"version": "0.14.5"}, "version", "from 0.15.0 on"),
    # Versions that cannot work.
    ({"kubernetes": "v1.9.11"}, "version", "from 1.10 on, and the cluster has v1.9.11"),
    ({"driver_version": "375.66"}, "version", "a driver from 384.81 on, and a node has 375.66"),
    (
        {"cluster": [node("w1", **PRESENT, **{"nvidia.com__cuda.driver-version.full": "367.48"}), *NODES[1:]]},
        "version",
        "a node has 367.48",
    ),
    (
        {"cluster": [node("w1", **PRESENT, **{"nvidia.com__cuda.driver.major": "367", "nvidia.com__cuda.driver.minor": "48"})]},
        "version",
        "a node has 367.48",
    ),
    (OPERATOR | {"kubernetes": "v1.32.9"}, "version", "from 1.33 to 1.36, and the cluster has v1.32.9 (https://docs.nvidia.com"),
    (OPERATOR | {"kubernetes": "v1.37.0"}, "version", "from 1.33 to 1.36"),
    (
        OPERATOR | {"values": DRA, "driver_version": "580.1", "kubernetes": "v1.34.1"},
        "version",
        "with DRA works with Kubernetes from",
    ),
    (OPERATOR | {"values": DRA, "driver_version": "570.1"}, "version", "needs a driver from 580 on"),
    (OPERATOR | {"values": DRA}, "driver_version", "no node's labels tell its own"),
    (OPERATOR | {"values": {"gpuCluster": {"deployCR": True}}}, "values.clusterPolicy.deployCR", "has to be false"),
    (OPERATOR | {"values": DRA, "driver_version": "580.1"} | sharing(), "sharing", "claims name how a GPU is shared"),
    ({"values": DRA}, "values.gpuCluster", "Set provider to gpu_operator"),
    ({"metrics": {"provider": "annotations", "namespace": "m"}}, "metrics", "comes with the GPU operator"),
    (OPERATOR | {"metrics": {"provider": "annotations"}}, "metrics.namespace", "is missing"),
]


@pytest.mark.parametrize(("given", "path", "reason"), ROWS)
def test_bad_input_is_refused_by_its_path(given: dict[str, t.Any], path: str, reason: str) -> None:
    with pytest.raises(TenancyError) as caught:
        plan(**given)
    problems = [problem for problem in caught.value.problems if problem.startswith(f"{path}: ")]
    assert problems
    assert any(reason in problem for problem in problems), problems


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
