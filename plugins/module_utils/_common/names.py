# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Names that more than one subject reads or writes: of resources, labels, annotations, kinds and namespaces, by who gave them."""

from __future__ import annotations

# --- of NVIDIA -----------------------------------------------------------------------------------------------------

GPU_RESOURCE = "nvidia.com/gpu"
# The RuntimeClass that NVIDIA's programs make, by which a pod gets its GPUs where that is not the nodes' default runtime.
RUNTIME_CLASS = "nvidia"
# A GPU's UUID as nvidia-smi prints it, for a regular expression.
GPU_UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Label of nodes by which KAI knows the memory of each of their GPUs, in MiB.
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
# Label of nodes with the name of their GPUs, of GPU feature discovery.
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"

# --- of this collection ---------------------------------------------------------------------------------------------

# Label of a tenant's namespace on the host cluster, with the tenant's name.
TENANT_LABEL = "kubegpu.tenancy/tenant"
# Label of the namespace of a tenant whose pods a scheduler of the host cluster places, with that scheduler's name.
HOST_SCHEDULER_LABEL = "kubegpu.tenancy/scheduler"
# On a node, with the value "true": "<prefix><tenant>".
NODE_LABEL = "tenant.kubegpu.tenancy/"
# Taint of the nodes of a tenant with zero trust, with the tenant's name as value.
DEDICATED_TAINT = "kubegpu.tenancy/dedicated"

# --- of KAI Scheduler (kai-scheduler/KAI-Scheduler) -------------------------------------------------------------------

# The charts' own clean-up has this name built in until 0.15 (#1618), so there is no other.
KAI_NAMESPACE = "kai-scheduler"
RESERVATION_NAMESPACE = "kai-resource-reservation"
SCALE_ADJUST_NAMESPACE = "kai-scale-adjust"
KAI_SCHEDULER_NAME = "kai-scheduler"
# Label "app" of the scheduler's pods, before and since 0.10.
KAI_SCHEDULERS = ("scheduler", "kai-scheduler-default")
QUEUE_API_VERSION = "scheduling.run.ai/v2"
QUEUE_KIND = "Queue"
# Label of pods; its value is the name of a queue.
QUEUE_LABEL = "kai.scheduler/queue"
# Label of nodes, queues, pods and PodGroups; its value is the node pool whose SchedulingShard takes them for its own. A shard without one takes
# those without the label (pkg/scheduler/conf/scheduler_conf.go, pkg/scheduler/cache/cluster_info/data_lister; v0.10.0 to v0.17.0).
NODE_POOL_LABEL = "kai.scheduler/node-pool"
SHARD = ("kai.scheduler/v1", "SchedulingShard")
# Where KAI puts the work of pods without a label for their queue.
DEFAULT_QUEUE = "default-queue"
TOPOLOGY = ("kai.scheduler/v1alpha1", "Topology")
POD_GROUP = ("scheduling.run.ai/v2alpha2", "PodGroup")
# Annotation of pods, written by the pod grouper (pkg/common/constants).
POD_GROUP_NOTE = "pod-group-name"
# Label of the members of a pod group's parts (pkg/common/constants).
SUB_GROUP_LABEL = "kai.scheduler/subgroup-name"
# Annotations of pods that ask for a part of a GPU, or for MiB of its memory.
FRACTION_NOTE, MEMORY_NOTE = "gpu-fraction", "gpu-memory"
# Label of pods that share a GPU, and of its reservation pod, with the same value. Pods that have parts of several GPUs have a
# label for each, with this before a slash (pkg/common/constants of KAI Scheduler).
GPU_GROUP_LABEL = "runai-gpu-group"
# Label "app" of the pods by which KAI Scheduler holds a GPU for pods that share it.
RESERVATION_APP = "kai-resource-reservation"
# Annotation of these pods, written by themselves: the UUID of the GPU that they hold.
RESERVED_GPU_NOTE = "run.ai/reserve_for_gpu_index"

# --- of vCluster, Helm and Flux --------------------------------------------------------------------------------------

# Names of the Secrets with a virtual cluster's configuration and its kubeconfig, before the name of the virtual cluster.
CONFIG_SECRET, KUBECONFIG_SECRET = "vc-config-", "vc-"
# Annotation of what helm makes at a certain moment only, and does not keep as part of the release.
HELM_HOOK = "helm.sh/hook"
# Before labels and annotations of Flux's controller of Kustomizations, on what it applies (fluxcd/kustomize-controller).
FLUX = "kustomize.toolkit.fluxcd.io/"


def namespace_of(name: str, given: str | None = None) -> str:
    """Return the namespace on the host cluster of a tenant: the given one, or the one that follows from its name."""
    return given or f"tenant-{name}"
