# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The words by which Kubernetes and KAI Scheduler say why a pod does not run, and what to do about each.

A path is one in the repository of kai-scheduler/KAI-Scheduler; unless said otherwise, it reads alike from v0.7.11 to v0.16.8.
"""

from __future__ import annotations

# States of a pod that is reported.
PENDING, PAST_KAI = "pending", "past_kai"
# Reason of a pod of which nothing is known.
UNKNOWN = "unknown"

# pkg/apis/scheduling/v1alpha2/bindrequest_types.go
BIND_REQUEST = ("scheduling.run.ai/v1alpha2", "BindRequest")
BIND_SUCCEEDED, BIND_FAILED = "Succeeded", "Failed"

# Reasons of a pod group beside OverLimit (pkg/apis/scheduling/v2alpha2/podgroup_types.go); the second since v0.13.0.
OVER_QUOTA, QUEUE_MISSING = "NonPreemptibleOverQuota", "QueueDoesNotExist"

# What the pod's condition PodScheduled and its events carry when there is no node for it: of KAI
# (pkg/scheduler/cache/status_updater/default_status_updater.go), and of kube-scheduler (pkg/scheduler/schedule_one.go there).
UNSCHEDULABLE = "Unschedulable"
UNSCHEDULABLE_EVENTS = (UNSCHEDULABLE, "FailedScheduling")
# Written by the API server itself, and left there when the gates are gone (k8s.io/api core/v1, PodReasonSchedulingGated).
GATED = "SchedulingGated"
# Events and conditions that only a scheduler and its helpers write, so that there is one.
SCHEDULING_EVENTS = (*UNSCHEDULABLE_EVENTS, "Scheduled", "Pipelined", "FailedBinding", "BindingError", "Bound")
SCHEDULING_CONDITIONS = ("PodScheduled", "PodBound")
# Written after each attempt that will be repeated, the failed ones too (pkg/binder/controllers/bindrequest_controller.go,
# updatePodCondition), so it says nothing of a pod without a node.
BOUND_EVENT = "Bound"
# pkg/podgrouper/pod_controller.go: why a pod got no PodGroup.
GROUPER_EVENT = "PodGrouperWarning"

# Reasons for which a container waits (k8s.io/kubernetes, pkg/kubelet/images/types.go and pkg/kubelet/container/sync_result.go),
# the name of each here, and what to do.
_IMAGE = ("image_pull", "Correct the image's name, or give the node access to its registry (imagePullSecrets, mirror, network).")
_CONFIG = ("container_config", "Create the ConfigMap, Secret or key that it names, or correct the container's settings.")
_CONTAINER = (
    "container_start",
    "See the container's log and its last state: it, or an init container, ends before the pod can run.",
)
WAITING = {
    **dict.fromkeys(("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"), _IMAGE),
    **dict.fromkeys(("CreateContainerConfigError", "CreateContainerError"), _CONFIG),
    **dict.fromkeys(("RunContainerError", "CrashLoopBackOff", "StartError"), _CONTAINER),
}
# Events of a pod on its node, alike (pkg/kubelet/events/event.go there).
NODE_EVENTS = {
    **dict.fromkeys(
        ("FailedMount", "FailedAttachVolume", "FailedMapVolume"),
        ("volume", "Create what the volume names (claim, Secret, ConfigMap), and see whether its storage can be reached."),
    ),
    "FailedCreatePodSandBox": (
        "sandbox",
        "See the node's container runtime and network plugin; the handler of the pod's RuntimeClass has to be configured there.",
    ),
}

# What to do where there is no node for a pod, by what its scheduler writes; the first that fits.
NO_NODE_ADVICE: tuple[tuple[str, str], ...] = (
    (r"[Ii]nsufficient|have enough", "Wait until running work ends, ask for less, or add nodes."),
    (r"[Vv]olume", "Create and bind the volume claims that the pod names, with storage that its nodes reach."),
    (r"affinity|selector", "Label a node as the pod's node selector or affinity asks for, or change these."),
    (r"taint", "Give the pod a toleration of the taint, or take the taint off a node."),
    (r"", "Compare what the pod asks for with the nodes: resources, labels, taints, topology."),
)

# Lines of a log that are read, and how old they may be in seconds. What keeps failing is logged about every minute.
LOG_LINES, LOG_SECONDS = 2000, 300

# Ways of a container to say that it has no GPU: exit status of a shell for a command that does not exist, and its words.
NOT_FOUND = 127
NO_GPU_MESSAGE = r"nvidia-smi.*(not found|No such file)"
