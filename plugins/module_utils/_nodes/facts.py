# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Names by which nodes of a host cluster belong to tenants, and how their GPUs are counted."""

from __future__ import annotations

GPU_RESOURCE = "nvidia.com/gpu"
# The RuntimeClass that NVIDIA's programs make, by which a pod gets its GPUs where that is not the nodes' default runtime.
RUNTIME_CLASS = "nvidia"
# A GPU's UUID as nvidia-smi prints it, for a regular expression.
GPU_UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Set where a node is known to have GPUs before the device plugin has counted them (GPU feature discovery; role nvkind).
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"

# On a node, with the value "true": "<prefix><tenant>".
NODE_LABEL = "tenant.kubegpu.tenancy/"
# Taint of the nodes of a tenant with zero trust, with the tenant's name as value.
DEDICATED_TAINT = "kubegpu.tenancy/dedicated"

# Label "app" of the pods by which KAI Scheduler holds a GPU for pods that share it.
RESERVATION_APP = "kai-resource-reservation"
# Annotation of these pods, written by themselves: the UUID of the GPU that they hold.
RESERVED_GPU_NOTE = "run.ai/reserve_for_gpu_index"
# Label of pods that share a GPU, and of its reservation pod, with the same value. Pods that have parts of several GPUs have a
# label for each, with this before a slash (pkg/common/constants of KAI Scheduler).
GPU_GROUP_LABEL = "runai-gpu-group"
# Folder of a node in which kubelet meets the device plugins, which mount it, and the file there in which it keeps the devices that it has
# and which pod got which (pkg/kubelet/cm/devicemanager of Kubernetes).
DEVICE_PLUGINS_FOLDER = "/var/lib/kubelet/device-plugins"
CHECKPOINT = "kubelet_internal_checkpoint"
# Annotations of pods that ask for a part of a GPU, or for MiB of its memory.
FRACTION_NOTE, MEMORY_NOTE = "gpu-fraction", "gpu-memory"
# Label of nodes by which KAI knows the memory of each of their GPUs, in MiB.
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
