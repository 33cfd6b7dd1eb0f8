# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host clusters of other people's, as far as their API shows what they are."""

from __future__ import annotations

from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.facts import SECURITY_CONTEXTS
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item

Object = dict[str, Any]
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(name: str, gpus: int = 0, taints: list[Object] | None = None, provider: str = "", **labels: str) -> Object:
    spec: Object = {"taints": taints or []} | ({"providerID": provider} if provider else {})
    amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4"},
    }
    return item("v1", "Node", name, labels=labels, spec=spec, status=status)


def daemon_set(name: str, image: str) -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    return item("apps/v1", "DaemonSet", name, "kube-system", spec={"template": template})


def storage_class(name: str, default: bool = False) -> Object:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return item("storage.k8s.io/v1", "StorageClass", name, annotations=annotations)


class Gke(InMemoryApi):
    """A cluster as GKE's documentation describes it, with one node with GPUs and one without."""

    def __init__(self, *more: Object, version: str = "v1.35.4-gke.1200") -> None:
        gpu = node("gpu-1", 8, [GPU_TAINT], **{"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"})
        plugin = daemon_set("nvidia-gpu-device-plugin", "gke.gcr.io/nvidia-gpu-device-plugin@sha256:00")
        network = daemon_set("anetd", "gke.gcr.io/cilium/cilium:v1")
        objects = [gpu, node("cpu-1"), plugin, network, storage_class("standard-rwo", default=True), *more]
        super().__init__(objects, [SECURITY_CONTEXTS], version)
