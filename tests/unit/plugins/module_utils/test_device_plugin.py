# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what the device plugin's and the operator's charts are told, and of what is refused."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin import plan as core

UUID = "GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10"


def node(name: str, **labels: str) -> dict[str, t.Any]:
    return {
        "metadata": {"name": name, "labels": {key.replace("__", "/").replace("_", "."): text for key, text in labels.items()}}
    }


PRESENT = {"nvidia.com__gpu.present": "true"}
NODES = [node("w1", **PRESENT, rack="a"), node("w2", **PRESENT, rack="a"), node("plain")]
DRA = {"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}}


def plan(
    version: str = "", cluster: list[dict[str, t.Any]] | None = None, kubernetes: str = "v1.35.4", **params: t.Any
) -> core.Plan:
    defaults: dict[str, t.Any] = {"provider": "device_plugin", "values": {}, "nodes": [], "sharing": [], "expected_gpus": {}}
    defaults |= {"gpu_feature_discovery": False, "mig_strategy": "none", "driver_version": ""}
    given = defaults | params
    return core.plan(
        given, version or core.PROVIDERS[given["provider"]].version, NODES if cluster is None else cluster, kubernetes
    )


def sharing(**change: t.Any) -> dict[str, t.Any]:
    """One group; what is changed to None is left out."""
    group = {"name": "shared", "nodes": ["w1"], "time_slicing": {"replicas": 4}} | change
    return {"sharing": [{key: value for key, value in group.items() if value is not None}]}


def two(**change: t.Any) -> dict[str, t.Any]:
    return {"sharing": sharing()["sharing"] + sharing(**({"name": "other", "nodes": ["w2"]} | change))["sharing"]}


OPERATOR = {"provider": "gpu_operator"}

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
    (OPERATOR | {"values": DRA, "driver_version": "580.1"} | sharing(), "sharing", "claims say how a GPU is shared"),
    ({"values": DRA}, "values.gpuCluster", "Set provider to gpu_operator"),
]


@pytest.mark.parametrize(("given", "path", "reason"), ROWS)
def test_bad_input_is_refused_by_its_path(given: dict[str, t.Any], path: str, reason: str) -> None:
    with pytest.raises(TenancyError) as caught:
        plan(**given)
    told = [problem for problem in caught.value.problems if problem.startswith(f"{path}: ")]
    assert told
    assert any(reason in problem for problem in told), told


def test_all_problems_are_told_at_once() -> None:
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
    assert all(limit.source.startswith("https://") and limit.provider in core.PROVIDERS for limit in core.LIMITS)


# --- values ------------------------------------------------------------------------------------------------------


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
    assert operators == {"create": True, "name": "kubegpu-device-plugin", "default": "default", "data": config["map"]}
    for values in (found.values, {"devicePlugin": {"config": operators}}):
        labels = ({}, {"nvidia.com/device-plugin.config": "shared"}, {"nvidia.com/device-plugin.config": "other"})
        assert [core.replicas_of(values, given) for given in labels] == [1, 4, 2]


def test_values_of_feature_discovery_and_mig() -> None:
    values = plan(gpu_feature_discovery=True, mig_strategy="mixed").values
    assert (values["gfd"], values["migStrategy"]) == ({"enabled": True}, "mixed")
    assert values["nfd"]["worker"]["tolerations"] == values["tolerations"]
    # It finds nodes with GPUs itself.
    assert plan(cluster=[node("plain")], gpu_feature_discovery=True)


def test_values_of_the_operator() -> None:
    values = plan(**OPERATOR, gpu_feature_discovery=True, mig_strategy="single").values
    assert {part: values[part]["enabled"] for part in ("driver", "toolkit", "dcgmExporter", "nfd", "gfd")} == {
        "driver": False,
        "toolkit": False,
        "dcgmExporter": False,
        "nfd": True,
        "gfd": True,
    }
    assert values["mig"] == {"strategy": "single"}
    keys = [toleration["key"] for toleration in values["daemonsets"]["tolerations"]]
    assert "kubegpu.tenancy/dedicated" in keys


def test_the_users_values_win() -> None:
    values = plan(values={"migStrategy": "single", "gfd": {"x": 1}}, gpu_feature_discovery=True).values
    assert (values["migStrategy"], values["gfd"]) == ("single", {"enabled": True, "x": 1})


def test_gpus_by_uuid_are_counted() -> None:
    assert plan(expected_gpus={"w1": [UUID], "w2": 4}).expected == {"w1": 1, "w2": 4}


@pytest.mark.parametrize("values", [{}, {"config": None}, {"config": {"map": "x"}}, {"config": {"map": {"default": 7}}}])
def test_foreign_values_share_nothing(values: dict[str, t.Any]) -> None:
    assert core.replicas_of(values, {}) == 1


# --- labels ------------------------------------------------------------------------------------------------------

KEY = "nvidia.com/gpu.present"


def noted(labels: dict[str, str], note: str | None) -> dict[str, t.Any]:
    return {"metadata": {"name": "w1", "labels": labels, "annotations": {core.NOTE: note} if note else {}}}


@pytest.mark.parametrize(
    ("labels", "note", "wanted", "after", "owned"),
    [
        ({}, None, {KEY: "true"}, {KEY: "true"}, {KEY: "true"}),
        ({KEY: "true"}, f'{{"{KEY}": "true"}}', {}, {KEY: None}, {}),
        # Somebody took ours off: it comes back.
        ({}, f'{{"{KEY}": "true"}}', {KEY: "true"}, {KEY: "true"}, {KEY: "true"}),
        # Somebody changed ours: it is theirs, and the note forgets it.
        ({KEY: "false"}, f'{{"{KEY}": "true"}}', {}, {}, {}),
        # Notes that nobody can read.
        ({KEY: "true"}, "{", {}, {}, {}),
        ({KEY: "true"}, "[]", {}, {}, {}),
    ],
)
def test_whose_label_it_is(
    labels: dict[str, str], note: str | None, wanted: dict[str, str], after: dict[str, t.Any], owned: dict[str, str]
) -> None:
    (found,) = core.relabels([noted(labels, note)], {"w1": wanted})
    assert (found.after, found.owned) == (after, owned)
    assert found.changes


@pytest.mark.parametrize(
    ("labels", "note", "wanted"),
    [
        ({}, None, {}),
        ({KEY: "true"}, None, {KEY: "true"}),
        ({KEY: "true"}, None, {}),
        ({KEY: "true"}, f'{{"{KEY}": "true"}}', {KEY: "true"}),
    ],
)
def test_labels_that_stay(labels: dict[str, str], note: str | None, wanted: dict[str, str]) -> None:
    assert core.relabels([noted(labels, note)], {"w1": wanted}) == []


def test_a_retirement_keeps_the_note_of_what_stays() -> None:
    labels = {KEY: "true", core.CONFIG_LABEL: "a"}
    note = core._note(labels)
    (found,) = core.relabels([noted(labels, note)], {"w1": {KEY: "true", core.CONFIG_LABEL: "b"}})
    metadata = found.retirement["metadata"]
    assert metadata == {"labels": {core.CONFIG_LABEL: None}, "annotations": {core.NOTE: core._note({KEY: "true"})}}


def test_mig_devices_count() -> None:
    allocatable = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "1", "cpu": "8"}
    assert core.mig_devices({"status": {"allocatable": allocatable}}) == 8
