# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Kubernetes' ValidatingAdmissionPolicy, and what of a pod decides where KAI Scheduler books it.

Sources are files of kai-scheduler/KAI-Scheduler, the same from v0.12.0 to v0.17.0.
"""

from __future__ import annotations

from .._common.names import FRACTION_NOTE, GPU_GROUP_LABEL, KAI_NAMESPACE, MEMORY_NOTE, NODE_POOL_LABEL
from .._kai.facts import ADMISSION

API_VERSION = ADMISSION
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
# Where the API is served without a feature gate.
SINCE = (1, 30)

# Gatekeeper's objects, with the engine for the CEL of such policies: from Gatekeeper v3.17.0 on without a flag (its main.go).
TEMPLATE = ("templates.gatekeeper.sh/v1", "ConstraintTemplate")
CONSTRAINT_VERSION = "constraints.gatekeeper.sh/v1beta1"
TARGET, ENGINE = "admission.k8s.gatekeeper.sh", "K8sNativeValidation"
# Where its own programs judge by a constraint (website/docs/enforcement-points.md, from v3.17.0 on). All points would have a policy of the API
# server as well, which is not made of these templates, and whose absence it reports as an error of the constraint.
POINTS = ("audit.gatekeeper.sh", "gator.gatekeeper.sh", "validation.gatekeeper.sh")
# Of the resources in policies; Gatekeeper chooses objects by their kinds.
KINDS = {
    "configmaps": "ConfigMap",
    "deployments": "Deployment",
    "pods": "Pod",
    "replicasets": "ReplicaSet",
    "secrets": "Secret",
} | {"statefulsets": "StatefulSet"}
# What Gatekeeper's audit cannot judge by an object as it is stored (its pkg/audit/manager.go and pkg/target/target.go): terms in expressions,
# and what they ask for. A request that it makes of such an object has an object and no more.
UNKNOWN_TO_AUDIT = {
    "request.userInfo": "which account made or changed an object",
    "request.subResource": "an ephemeral container, which is judged when it is added",
    "object.spec.nodeName": "who chose the node of a pod",
    "variables.own_labels": "who set the labels of KAI Scheduler",
}

# What a policy admits, in words.
ADMITS_ANNOTATION = "kubegpu.tenancy/admits"

# Who changes pods for KAI Scheduler: its service accounts.
KAI_USERS = f"system:serviceaccount:{KAI_NAMESPACE}:"
DEFAULT_SCHEDULER = "default-scheduler"
# Resources of NVIDIA's device plugin: whole GPUs and MIG slices.
GPU_RESOURCES = "nvidia.com/"
# Each DeviceClass of Dynamic Resource Allocation is a resource by itself, too: this and its name (KEP-5004, on by default from Kubernetes 1.36
# on). A quota of GPUs does not count it, unless the class has that resource's name as well (seen with Kubernetes 1.35.4).
CLASS_RESOURCES = "deviceclass.resource.kubernetes.io/"
# Annotations by which a pod asks for part of a GPU (pkg/common/constants), and the form that every release reads alike: a decimal above 0
# and below 1, whole MiB, whole GPUs. Webhooks of older ones let NaN and hexadecimals in (#1798), which not all of their parts read.
SHARING_FORMS = {
    FRACTION_NOTE: r"^0?\.[0-9]*[1-9][0-9]*$",
    MEMORY_NOTE: "^[1-9][0-9]{0,8}$",
    "gpu-fraction-num-devices": "^[1-9][0-9]{0,3}$",
}
SHARING_NOTES = tuple(SHARING_FORMS)
# The variable by which NVIDIA's container runtime knows which devices a container sees (NVIDIA/nvidia-container-toolkit); of the
# device plugin's value and a container's own, the container's counts (kubernetes pkg/kubelet, GenerateRunContainerOptions).
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
# Values of it that show no device.
NO_DEVICES = ("void", "none")
# Name of the ConfigMap from which KAI Scheduler sets it where pods share a GPU (pkg/binder/common/gpusharingconfigmap). The syncer's
# own ConfigMaps end with the virtual cluster's name, or with a digest.
SHARED_GPU_MAP = "-shared-gpu-i?[0-9]+$"
# Annotations by which a container runtime, or NVIDIA's, is asked for devices (cncf-tags/container-device-interface, pkg/cdi).
DEVICE_NOTES = ("cdi.k8s.io/", "nvidia.cdi.k8s.io/")
# Labels that KAI Scheduler's own programs set. With the first, a pod counts as one that runs on a GPU of that group
# (pkg/scheduler/api/pod_info); with the second, it is left to another scheduler, or counted in another queue (pkg/podgrouper).
OWN_LABELS = (GPU_GROUP_LABEL, NODE_POOL_LABEL)
