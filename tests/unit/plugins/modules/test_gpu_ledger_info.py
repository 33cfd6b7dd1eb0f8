# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.modules.gpu_ledger_info import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item, node

FOLDER = "/var/lib/kubelet/device-plugins"


def placed(name, where, namespace="default", **spec):
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}} | spec.pop("container", {})
    found = item("v1", "Pod", name, namespace, uid=f"uid-{name}", spec={"nodeName": where, "containers": [container]} | spec)
    return found | {"status": {"phase": "Running"}}


def plugin(name, where):
    mounts = {"name": "ctr", "resources": {}, "volumeMounts": [{"name": "plugins", "mountPath": FOLDER}]}
    return placed(name, where, "gpu", container=mounts, volumes=[{"name": "plugins", "hostPath": {"path": FOLDER}}])


@pytest.fixture
def kube():
    objects = [item("v1", "Namespace", "default"), item("v1", "Namespace", "gpu"), node("cpu", gpus=0)]
    objects += [node(name, gpus=1) for name in ("n1", "n2", "n3")]
    objects += [placed("train", "n1"), plugin("plugin-1", "n1"), plugin("plugin-2", "n2")]
    found = InMemoryApi(objects)
    entry = {"PodUID": "uid-train", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": ["GPU-a"]}}
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": {"nvidia.com/gpu": ["GPU-a"]}}
    found.pod_files["plugin-1"] = json.dumps({"Data": data})
    return found


def test_what_kubelets_know_is_read_only_when_it_is_asked_for(kube):
    found = reconcile(make_run({"devices": False}, kube))
    assert [row["in_use"] for row in found["nodes"]] == [0, 1, 0, 0]
    assert "devices" not in found
    assert found["unread"] == []
    assert {verb for verb, _kind, _where in kube.reads} == {"list"}


def test_a_node_whose_kubelet_cannot_be_asked_is_named_with_the_reason(kube):
    found = reconcile(make_run({"devices": True}, kube))
    assert [(row["node"], row["device"], row["pod"]) for row in found["devices"]] == [
        ("n1", "GPU-a", "default/train"),
        ("n2", None, ""),
        ("n3", None, ""),
    ]
    assert found["unread"] == [
        f"n2: Reading {FOLDER}/kubelet_internal_checkpoint in Pod plugin-2 failed: command terminated with exit code 1",
        f"n3: no device plugin runs there that mounts {FOLDER}",
    ]
    assert found["changed"] is False
    assert kube.writes == []
    kube.pod_files["plugin-2"] = "{}"
    assert reconcile(make_run({"devices": True}, kube))["unread"][0] == "n2: it is not of the form that is known: KeyError 'Data'"
