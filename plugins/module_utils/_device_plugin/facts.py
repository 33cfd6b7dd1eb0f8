# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Constants and tables about NVIDIA's device plugin and GPU operator."""

from __future__ import annotations

import dataclasses

from .._common.names import DEDICATED_TAINT, GPU_RESOURCE
from .._common.ownership import OWNED_LABELS

PRESENT_LABEL = "nvidia.com/gpu.present"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
MPS_LABEL = "nvidia.com/mps.capable"
# Any of these brings the chart's pods to a node (affinity in deployments/helm/nvidia-device-plugin/values.yaml).
GPU_NODE = {
    PRESENT_LABEL: "true",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA",
}
# Label app of the operator's DaemonSet that offers GPUs.
PLUGIN_APP = "nvidia-device-plugin-daemonset"
# What the operator acts on, and the reason of its condition where it cannot (internal/conditions/consts.go).
CLUSTER_POLICY = ("nvidia.com/v1", "ClusterPolicy")
FAILED = "ReconcileFailed"
# A node with one of these set to false gets no device plugin of the operator, though it has GPUs
# (controllers/state_manager.go, commonOperandsLabelKey and gpuStateLabels).
OPERAND_LABELS = ("nvidia.com/gpu.deploy.operands", "nvidia.com/gpu.deploy.device-plugin")
# The configuration of nodes in no group.
DEFAULT = "default"
# What the name of the operator's ConfigMap with configurations begins with.
CONFIG_MAP = "kubegpu-device-plugin"
# How a GPU is shared, by the key that asks for it: the configuration file's key.
STRATEGIES = {"time_slicing": "timeSlicing", "mps": "mps"}
# Of the device plugin's chart (README, "With CUDA MPS").
MPS_SINCE = "0.15.0"

TIME_SLICING_WARNING = (
    "Time-slicing isolates nothing: pods that share a GPU use all of its memory, see no bound on their part of its time, and a "
    "fault of one can end the others. It is for pods that trust each other."
)

# From so many replicas of a GPU on, they are taken for an attempt to divide its memory (NVIDIA/k8s-device-plugin#1433).
MANY_REPLICAS = 100
MANY_REPLICAS_WARNING = (
    "sharing: {group} has {replicas} replicas of each GPU. Replicas of time-slicing are no amounts of memory: a pod with one of them can use "
    "all of the GPU's memory, and quotas and queues count each one as a GPU. Where memory is to be divided, take mps, MIG, or gpu-memory of "
    "KAI Scheduler."
)

# The pods go to every node with GPUs, also to nodes dedicated to one tenant, which the charts' own tolerations do not cover.
TOLERATIONS = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
    {"key": DEDICATED_TAINT, "operator": "Exists", "effect": "NoSchedule"},
]

NODE_API = "node.k8s.io/v1"
RUNTIME_CLASS = {
    "apiVersion": NODE_API,
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia", "labels": OWNED_LABELS},
    "handler": "nvidia",
}


@dataclasses.dataclass(frozen=True)
class Provider:
    """A program that makes nodes offer their GPUs.

    :ivar name: of this provider, in the module's option.
    :ivar pattern: regular expression of its chart's versions.
    :ivar selector: label of its DaemonSets and their pods.
    """

    name: str
    title: str
    chart: str
    repository: str
    release: str
    version: str
    pattern: str
    selector: str


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider(
            "device_plugin",
            "NVIDIA's device plugin",
            "nvidia-device-plugin",
            "https://nvidia.github.io/k8s-device-plugin",
            "nvidia-device-plugin",
            "0.17.4",
            r"\d+\.\d+\.\d+(-[-.0-9A-Za-z]+)?",
            "app.kubernetes.io/instance=nvidia-device-plugin",
        ),
        Provider(
            "gpu_operator",
            "NVIDIA's GPU operator",
            "gpu-operator",
            "https://helm.ngc.nvidia.com/nvidia",
            "gpu-operator",
            "v26.7.0",
            r"v\d+\.\d+\.\d+(-[-.0-9A-Za-z]+)?",
            "app.kubernetes.io/managed-by=gpu-operator",
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Limit:
    """Versions outside of which something cannot work.

    :ivar series: prefix of the chart versions that it holds for.
    :ivar dra: whether it holds only where the operator uses Dynamic Resource Allocation.
    :ivar kubernetes: first and last version that work; empty for no bound.
    :ivar driver: first driver that works; empty where any does.
    """

    provider: str
    series: str
    source: str
    dra: bool = False
    kubernetes: tuple[str, str] = ("", "")
    driver: str = ""


_PREREQUISITES = "https://github.com/NVIDIA/k8s-device-plugin#prerequisites"
_PLATFORMS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/26.7/platform-support.html"
LIMITS = (
    Limit("device_plugin", "", _PREREQUISITES, kubernetes=("1.10", ""), driver="384.81"),
    Limit("gpu_operator", "v26.7.", _PLATFORMS, kubernetes=("1.33", "1.36")),
    Limit("gpu_operator", "v26.7.", _PLATFORMS, dra=True, kubernetes=("1.34.2", ""), driver="580"),
)
