# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Facts about kind, nvkind, containerd and NVIDIA's container toolkit, each with its source."""

from __future__ import annotations

# kind v0.33.0, pkg/cluster/internal/providers/docker/constants.go.
ROLE_LABEL = "io.x-k8s.kind.role"
# kind v0.33.0, pkg/cluster/internal/providers/docker/network.go: made with the first cluster and never removed.
NETWORK = "kind"
# kind v0.33.0, pkg/internal/apis/config/validate.go; its nodes are called NAME-control-plane, NAME-worker, NAME-worker2.
CLUSTER_NAME = r"[a-z0-9.-]+"
CONTROL_PLANE_SUFFIX = "-control-plane"
# A node's name is a DNS subdomain (k8s.io/apimachinery, pkg/util/validation, IsDNS1123Subdomain), and the value of its label
# kubernetes.io/hostname, which bounds its length (IsValidLabelValue).
DNS_SUBDOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
NODE_NAME_LENGTH = 63
# kubeadm's taint of control planes (k8s.io/kubernetes, cmd/kubeadm/app/constants).
TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
# The label by which the device plugin's chart selects nodes (k8s-device-plugin v0.17.4, values.yaml, affinity).
GPU_LABEL = "nvidia.com/gpu.present"

# A mount of /dev/null here asks NVIDIA's runtime for a GPU (nvidia-container-toolkit v1.20.1, cuda_image.go).
GPU_MOUNTS = "/var/run/nvidia-container-devices/"
# Registry hosts of containerd (containerd, docs/hosts.md).
CERTS = "/etc/containerd/certs.d"
# Written so that running it again gives the same files: the dry run prints what `configure` would write.
CONFIGURE = "nvidia-ctk runtime configure --runtime=containerd --config-source=file"
CONTAINERD_FILES = "/etc/containerd/conf.d/99-nvidia.toml /etc/containerd/config.toml"
CDI_SPEC = "/etc/cdi/nvidia.yaml"
# Of the NVIDIA driver's devices (linux, Documentation/admin-guide/devices.txt).
MAJOR = 195

# What this collection puts into a node.
CONFINE_SCRIPT = "/usr/local/sbin/kubegpu-confine-gpus"
CONFINE_UNIT = "/etc/systemd/system/kubegpu-confine-gpus.service"
# Exists from before containerd's configuration changes until containerd runs with it.
RESTART_DUE = "/etc/containerd/kubegpu-restart-due"

# The sections of containerd's configuration with the registry and the runtime, in both schemas (containerd, docs/cri/config.md);
# kind applies the patch whose version fits the node image.
CONTAINERD_SECTIONS = {
    2: ("io.containerd.grpc.v1.cri", "io.containerd.grpc.v1.cri"),
    3: ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"),
}
