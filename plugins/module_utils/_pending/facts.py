# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The words by which Kubernetes and KAI Scheduler say why a pod does not run, and what to do about each.

A path is one in the repository of kai-scheduler/KAI-Scheduler; unless said otherwise, it reads alike from v0.7.11 to v0.16.8.
"""

from __future__ import annotations

import re
import typing as t

from .._common.names import DEDICATED_TAINT, KAI_NAMESPACE
from .._common.pods import IMAGE_REASONS
from .._kai.facts import WORK_HAZARDS, Version, dotted

# States of what is reported.
PENDING, PAST_KAI, REFUSED = "pending", "past_kai", "refused"
# Reason of a pod of which nothing is known.
UNKNOWN = "unknown"


class Fault(t.NamedTuple):
    """A fault of KAI Scheduler that keeps pods from running.

    :ivar issue: of kai-scheduler/KAI-Scheduler.
    :ivar mended: the first release without it of each line that has one; from the last one on, all lines are without it.
    """

    issue: str
    mended: tuple[Version, ...]

    def is_in(self, version: Version | None) -> bool:
        """Tell whether a release has the fault; one that is not known may have it."""
        if version is None:
            return True
        return version < self.mended[-1] and not any(first[:2] == version[:2] and first <= version for first in self.mended)

    def __str__(self) -> str:
        *lines, last = (f"v{dotted(release)}" for release in self.mended)
        before = f"in {', '.join(lines)} and " if lines else ""
        return f"KAI {self.issue}, mended {before}from {last} on"


def _fault(issue: str) -> Fault:
    """Return a fault by the rows of WORK_HAZARDS of its name; the minor version after the last of them never had it."""
    mended = tuple(hazard.fixed for hazard in WORK_HAZARDS if hazard.name == issue)
    major, minor, patch = mended[-1]
    return Fault(issue, (*mended, (major, minor + 1, 0)) if patch else mended)


SIDECARS, OPTIONAL, ZEROES, NOT_A_NUMBER, DOTS = map(_fault, ("#1556", "#988", "#1120", "#1798", "#1729"))

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
IMAGE_PULL = "image_pull"
_IMAGE = (IMAGE_PULL, "Correct the image's name, or give the node access to its registry (imagePullSecrets, mirror, network).")
_CONFIG = ("container_config", "Create the ConfigMap, Secret or key that it names, or correct the container's settings.")
_CONTAINER = (
    "container_start",
    "See the container's log and its last state: it, or an init container, ends before the pod can run.",
)
WAITING = {
    **dict.fromkeys((*IMAGE_REASONS, "ImageInspectError"), _IMAGE),
    **dict.fromkeys(("CreateContainerConfigError", "CreateContainerError"), _CONFIG),
    **dict.fromkeys(("RunContainerError", "CrashLoopBackOff", "StartError"), _CONTAINER),
}
# Events of a pod on its node, alike (pkg/kubelet/events/event.go there).
NODE_EVENTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("FailedMount", "FailedAttachVolume", "FailedMapVolume"),
        ("volume", "Create what the volume names (claim, Secret, ConfigMap), and see whether its storage can be reached."),
    ),
    "FailedCreatePodSandBox": (
        "sandbox",
        "See the node's container runtime and network plugin; the handler of the pod's RuntimeClass has to be configured there.",
    ),
}

# What kubelet says of an image that it cannot pull, in events (pkg/kubelet/images/image_manager.go there), and what it says once it has it.
PULL_FAILED = r'(?:Failed to pull|[Bb]ack-off pulling) image "(?P<image>[^"]+)"(?:: (?P<answer>.+))?'
PULL_EVENTS, PULLED_EVENTS = ("Failed", "BackOff"), ("Pulled", "Created", "Started")
# The part of an event's involvedObject that names a container.
CONTAINER_PATH = r"spec\.(?:initContainers|containers)\{(?P<name>[^}]+)\}"
# The container that vCluster adds to pods with a subdomain, such as those of StatefulSets (pkg/controllers/resources/pods/translate/hosts.go
# of loft-sh/vcluster). Its status is kept from the tenant, its events are not.
ADDED_CONTAINER = "vcluster-rewrite-hosts"
ADDED_ADVICE = (
    "Have the platform team put {image} into the registry or mirror of the nodes, as the playbook artifacts lists it; without it no "
    "pod of a StatefulSet with a serviceName starts here."
)

# What kubelet writes into the status of a pod that it does not take (pkg/kubelet/kubelet.go there, rejectPod), and what to do; the first
# that fits reason and message. Of devices, see pkg/kubelet/cm/devicemanager/manager.go there.
REJECTED = "Pod was rejected: "
SHORT_OF = r"OutOf.+"
REJECTIONS = rf"{SHORT_OF}|UnexpectedAdmissionError|TopologyAffinityError|Node(?:Affinity|Name|Ports)\b|.*Taint"
REJECTED_ADVICE: tuple[tuple[str, str], ...] = (
    (
        rf"{SHORT_OF}, capacity: 0\b|UnexpectedAdmissionError .*(?:healthy|unregistered device)",
        (
            "See the log of the node's device plugin, and its kernel log for Xid errors: its GPUs are unhealthy, or the plugin does not offer "
            "them. Mend that, and create the pod anew."
        ),
    ),
    (
        rf"{SHORT_OF}|UnexpectedAdmissionError .*devices unavailable",
        (
            "See who else uses the node (gpu_ledger_info on the host cluster): two schedulers gave out the same. Give each tenant nodes of its "
            "own, or quotas that fit."
        ),
    ),
    (
        r"NodeAffinity|.*Taint.*",
        "Compare the node's labels and taints with the pod's: they changed while it was placed. Then create it anew.",
    ),
    (
        r"UnexpectedAdmissionError",
        "See the logs of the node's kubelet and device plugin for what the message names, and create the pod anew.",
    ),
    (r"TopologyAffinityError", "Ask for what one NUMA node has, or change the topology policy of the node's kubelet."),
    (r"", "Change what the message names, in the pod or on its node, and create the pod anew."),
)

# Written by vCluster's syncer for a pod that it cannot bring to the host cluster or back, and what it gets over by itself
# (pkg/controllers/resources/pods/syncer.go of loft-sh/vcluster; k8s.io/apimachinery, pkg/api/errors).
SYNC_ERROR = "SyncError"
SYNC_PASSES = r"object has been modified|already exists"
# Seconds after which a state that is not written back is no delay any more.
WRITTEN_BACK = 60
# Why a state is not written back, and what to do; the first that fits.
WRITE_BACK_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"pods/resize",
        (
            "Have the chart of the virtual cluster rendered for the host cluster's Kubernetes, so that its Role has pods/resize "
            "(vCluster #4091): the playbook site."
        ),
    ),
    (
        r"Forbidden: pod updates may not change|field is immutable",
        "See which webhook or policy of the host cluster fills in fields of pods, and have it leave out the tenant's namespace (vCluster #4150).",
    ),
    (r"", "See the log of the tenant's control plane, which runs in its namespace of the host cluster."),
)

# Before v0.10, releases differ in the label of node pools.
NODE_POOLS_SINCE = (0, 10, 0)

# pkg/scheduler/k8s_internal/predicates/config_maps.go
CONFIG_MAPS_MISSING = r"Missing required configmaps: \[(?P<names>[^\]]*)\]"

# Of a node with slices of GPUs: their names, the label by whose value KAI keeps other GPU pods off it, what it says then, and the label that
# overrules what it makes of the names (pkg/scheduler/api/node_info/node_info.go, PredicateByNodeResourcesType).
SLICE_PREFIX = "nvidia.com/mig-"
STRATEGY_LABEL = "nvidia.com/mig.strategy"
SLICES_ONLY = r"MigStrategy='(?P<strategy>mixed|single)'"
SLICES_LABEL = "node-role.kubernetes.io/mig-enabled"

# Parts of GPUs as people write them who had read of it elsewhere; no tag up to v0.17.0 reads these.
UNREAD_NOTES = ("kai.scheduler/gpu-fraction", "kai.scheduler/gpu-memory")
# The fields of a pod by which Kubernetes' own API groups pods, 1.35 and since 1.36; no tag of KAI up to v0.17.0 reads these.
OWN_GROUP_FIELDS = ("workloadRef", "schedulingGroup")


class Refusal(t.NamedTuple):
    """Why an API server refuses pods, by its words, which appear in an event of the controller that creates them.

    :ivar cause: may hold ``{release}``, in place of KAI Scheduler with its version.
    :ivar fault: of KAI Scheduler that is behind it.
    """

    pattern: str
    reason: str
    cause: str
    advice: str
    fault: Fault | None = None


# The kinds that create pods themselves, with the version of their API. JobSets create Jobs, and LeaderWorkerSets StatefulSets.
_KUBERNETES = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "ReplicationController": "v1",
}
_KUBEFLOW = dict.fromkeys(("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob"), "kubeflow.org/v1")
CREATORS = _KUBERNETES | _KUBEFLOW | {"MPIJob": "kubeflow.org/v2beta1", "RayCluster": "ray.io/v1"}
# How the reason and message of an event begin, by which each of them says that it could not create a pod: k8s.io/kubernetes,
# pkg/controller/controller_utils.go; kubeflow/training-operator, pkg/controller.v1/control/pod_control.go; kubeflow/mpi-operator,
# pkg/controller/mpi_job_controller.go; ray-project/kuberay, ray-operator/controllers/ray/raycluster_controller.go.
FAILED_CREATE = {
    **dict.fromkeys(_KUBERNETES, r"FailedCreate "),
    **dict.fromkeys(_KUBEFLOW, r"FailedCreatePod "),
    "MPIJob": r"MPIJobFailed worker pod created failed: ",
    "RayCluster": r"FailedToCreate(?:Head|Worker)Pod ",
}
# All of these are warnings. A field selector can name no alternatives.
CREATION_EVENTS = "type=Warning,involvedObject.kind!=Pod"
# The first that fits. Words of KAI's webhook: pkg/admission/webhook/v1alpha2/gpusharing and the validator above.
REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        r'spec\.volumes\[\d+\]\.name: Invalid value: "[^"]*\.[^"]*-shared-gpu',
        "workload_name",
        "{release} names a volume of pods that share a GPU after their workload, and the name of a volume has no dots",
        "Give the workload a name without dots, or change to a release of KAI Scheduler that takes them.",
        DOTS,
    ),
    Refusal(
        r"gpu-(?:fraction|memory) annotation value",
        "fraction",
        "KAI Scheduler cannot read the part of a GPU that it asks for",
        'Write annotation gpu-fraction as a decimal between 0 and 1, such as "0.5", or gpu-memory as whole MiB, such as "8000".',
    ),
    Refusal(
        r"GPU sharing is disabled",
        "policy",
        "KAI Scheduler was installed without GPU sharing",
        "Ask for whole GPUs (limit nvidia.com/gpu), or have gpu_sharing set for the tenant's scheduler.",
    ),
    Refusal(
        r"failed quota: .*must specify",
        "quota",
        "a ResourceQuota counts amounts that its containers do not give",
        "Give each container the requests and limits that the message names.",
    ),
    Refusal(
        r"exceeded quota",
        "quota",
        "a ResourceQuota of its namespace is used up",
        "Ask for less, end other work of the namespace, or have the quota raised; kubectl describe resourcequota shows what is used.",
    ),
    Refusal(
        r"(?:minimum|maximum) .+ per \w+ is|limit to request ratio per \w+ is",
        "quota",
        "its containers are not within the LimitRange of its namespace",
        "Ask for amounts within the bounds that kubectl describe limitrange shows.",
    ),
    Refusal(
        r"violates PodSecurity",
        "pod_security",
        "its pods are not within the pod security standard of their namespace",
        "Set what the message names in the securityContext of its pods, as the workloads in examples/workloads have it.",
    ),
    # Before what a webhook may quote in its answer.
    Refusal(
        r"ValidatingAdmissionPolicy|admission webhook .+ denied the request",
        "policy",
        "an admission policy or webhook of the cluster refuses its pods",
        "Change what the message names in the workload; the platform team decides on the policy.",
    ),
    Refusal(
        rf'failed calling webhook (?:"[^"]*\.run\.ai"|.*\.{KAI_NAMESPACE}\.svc)',
        "webhook",
        "KAI Scheduler's webhook for pods does not answer",
        f"Have the pods of Deployment admission in namespace {KAI_NAMESPACE} run; the playbook site mends it.",
    ),
    Refusal(
        r"failed calling webhook",
        "webhook",
        "a webhook that judges pods does not answer",
        "Have the platform team see why the program behind the webhook that the message names does not answer.",
    ),
    Refusal(
        r"(?:serviceaccount|RuntimeClass|PriorityClass).* (?:not|was) found|no PriorityClass",
        "missing_name",
        "it names something that does not exist",
        "Create what the message names, or correct the name in the workload.",
    ),
    Refusal(
        r"because it is being terminated",
        "not_created",
        "its namespace is being deleted",
        "Wait until the namespace is gone, and create both anew. If it stays, its conditions name what holds it.",
    ),
    Refusal(
        r"etcdserver: |unable to handle the request|received too many requests|request timed out|request did not complete within",
        "not_created",
        "the API server did not answer in time",
        "Wait: it is tried again. If this stays, have the platform team see the control plane's load and the disk of etcd.",
    ),
)
OTHER_REFUSAL = Refusal(
    r"",
    "not_created",
    "the API server refuses its pods",
    "Change what the message names in the workload; kubectl describe shows all of its events.",
)

# What schedulers write of a node that kubectl cordon took out of use (plugins nodeunschedulable and tainttoleration of k8s.io/kubernetes).
CORDONED = r"were unschedulable|\{node\.kubernetes\.io/unschedulable\b"
# What to do where there is no node for a pod, by what its scheduler writes; the first that fits.
NO_NODE_ADVICE: tuple[tuple[str, str], ...] = (
    ("MigStrategy='mixed'", "Ask for slices of GPUs as these nodes have them (nvidia.com/mig-…), or add a node without MIG."),
    ("MigStrategy='single'", "Ask for whole GPUs, which are slices on these nodes (nvidia.com/gpu), or add a node without MIG."),
    (r"no nodes available to schedule", "Give the cluster a node: it has none, or shows none to this tenant (gpu_nodes)."),
    (CORDONED, "Take a cordoned node back into use (kubectl uncordon NODE), or wait until work on another node ends."),
    # Taints that Kubernetes itself sets on a node that fails.
    (
        r"\{node(?:\.cloudprovider)?\.kubernetes\.io/",
        "Mend the node whose taint is named; kubectl describe node shows its conditions. A toleration does not help.",
    ),
    (r"[Ii]nsufficient|have enough|Too many pods", "Wait until running work ends, ask for less, or add nodes."),
    (r"[Vv]olume", "Create and bind the volume claims that the pod names, with storage that its nodes reach."),
    (
        r"anti-affinity",
        "Add nodes, end the pods that its anti-affinity keeps it away from, or loosen that rule. No label of a node helps.",
    ),
    (r"pod affinity", "Start the pods that its pod affinity asks for, or change that rule. No label of a node helps."),
    (r"affinity|selector", "Label a node as the pod's node selector or affinity asks for, or change these."),
    (
        re.escape(f"{{{DEDICATED_TAINT}:"),
        "Have nodes given to its tenant (gpu_nodes): those with this taint belong to another tenant alone.",
    ),
    (r"taint", "Give the pod a toleration of the taint, or take the taint off a node."),
    (r"", "Compare what the pod asks for with the nodes: resources, labels, taints, topology."),
)

# Lines of a log that are read, and how old they may be in seconds. What keeps failing is logged about every minute.
LOG_LINES, LOG_SECONDS = 2000, 300

# Ways of a container to say that it has no GPU: exit status of a shell for a command that does not exist, and its words.
NOT_FOUND = 127
NO_GPU_MESSAGE = r"nvidia-smi.*(not found|No such file)"
