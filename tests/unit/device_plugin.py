# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the device plugin share: nodes, and the module's options."""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.facts import PROVIDERS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.plan import Plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.plan import plan as make_plan

UUID = "GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10"


def node(name: str, **labels: str) -> dict[str, t.Any]:
    return {
        "metadata": {"name": name, "labels": {key.replace("__", "/").replace("_", "."): text for key, text in labels.items()}}
    }


PRESENT = {"nvidia.com__gpu.present": "true"}
NODES = [node("w1", **PRESENT, rack="a"), node("w2", **PRESENT, rack="a"), node("plain")]
DRA = {"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}}


def plan(version: str = "", cluster: list[dict[str, t.Any]] | None = None, kubernetes: str = "v1.35.4", **params: t.Any) -> Plan:
    defaults: dict[str, t.Any] = {"provider": "device_plugin", "values": {}, "nodes": [], "sharing": [], "expected_gpus": {}}
    defaults |= {"gpu_feature_discovery": False, "mig_strategy": "none", "driver_version": "", "metrics": {}}
    given = defaults | params
    return make_plan(given, version or PROVIDERS[given["provider"]].version, NODES if cluster is None else cluster, kubernetes)


def sharing(**change: t.Any) -> dict[str, t.Any]:
    """One group; what is changed to None is left out."""
    group = {"name": "shared", "nodes": ["w1"], "time_slicing": {"replicas": 4}} | change
    return {"sharing": [{key: value for key, value in group.items() if value is not None}]}


def two(**change: t.Any) -> dict[str, t.Any]:
    return {"sharing": sharing()["sharing"] + sharing(**({"name": "other", "nodes": ["w2"]} | change))["sharing"]}


OPERATOR = {"provider": "gpu_operator"}
