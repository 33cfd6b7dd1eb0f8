# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Names by which nodes of a host cluster belong to tenants, and how their GPUs are counted."""

from __future__ import annotations

# Set where a node is known to have GPUs before the device plugin has counted them (GPU feature discovery; role nvkind).
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"


# Folder of a node in which kubelet meets the device plugins, which mount it, and the file there in which it keeps the devices that it has
# and which pod got which (pkg/kubelet/cm/devicemanager of Kubernetes).
DEVICE_PLUGINS_FOLDER = "/var/lib/kubelet/device-plugins"
CHECKPOINT = "kubelet_internal_checkpoint"

# Devices that drivers of Dynamic Resource Allocation offer, and the classes by which they are asked for.
DEVICE_CLASS = ("resource.k8s.io/v1", "DeviceClass")
RESOURCE_SLICE = ("resource.k8s.io/v1", "ResourceSlice")
# NVIDIA's driver (kubernetes-sigs/dra-driver-nvidia-gpu).
DRA_DRIVER = "gpu.nvidia.com"
