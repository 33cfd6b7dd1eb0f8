# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""KAI Scheduler's releases as a table: where they are, what they consist of, what goes wrong with them.

A fact holds from an exact version on, not for a minor: 0.9.2 and 0.9.3 were cut from main, 0.9.4 to 0.9.20 from the 0.9
branch, and the two install differently. The source stands beside each row; "#" is an issue or pull request of
kai-scheduler/KAI-Scheduler, a path is one in its repository at the tags from that version on.

To add a release: its line in LINES, a row in FACTS for each fact that changes with it, and what is known to go wrong in
HAZARDS, WORK_HAZARDS and UPGRADE_NOTES.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import KAI_NAMESPACE
from .._common.ownership import OWNED_LABELS
from .._common.values import JsonObject

Version = tuple[int, int, int]

CHART = RELEASE_NAME = "kai-scheduler"
CONFIG = ("kai.scheduler/v1", "Config", "kai-config")
# Reason of a pod group that has to wait (pkg/apis/scheduling/v2alpha2/podgroup_types.go).
OVER_LIMIT = "OverLimit"
# The image that the operator takes for a part where the Config names none (pkg/apis/kai/v1), and the variables of its own environment with
# the repository and the tag for images that have none (pkg/apis/kai/v1/common/image.go), from 0.9 on.
PART_IMAGES = {
    "admission": "admission",
    "binder": "binder",
    "podGroupController": "podgroupcontroller",
    "podGrouper": "podgrouper",
    "queueController": "queuecontroller",
    "scheduler": "scheduler",
}
# Parts without which nothing is scheduled; others are off, or on by what else is there.
CONFIG_PARTS = tuple(PART_IMAGES)
REPOSITORY_VARIABLE, TAG_VARIABLE = "MS_REPOSITORY", "MS_TAG"
# By which helm knows what it made, and takes nothing else for its own.
HELM_LABELS = {"app.kubernetes.io/managed-by": "Helm"}
HELM_ANNOTATIONS = {"meta.helm.sh/release-name": RELEASE_NAME, "meta.helm.sh/release-namespace": KAI_NAMESPACE}
# Kinds of which one release has its operator make what another one's chart makes: the binder is the chart's from 0.9.4 to 0.9.20
# (templates/services), the reservations' service account the operator's from 0.16 on (pkg/operator/operands/binder).
MADE_BY_EITHER = ("Deployment", "ServiceAccount", "Service")
OPERATOR = "kai-operator"
# Deployment and Service behind the pod webhooks, from 0.9 on.
ADMISSION_SERVER = "admission"

# What it takes of a tenant's bounds, by their names in a ResourceQuota: its own amounts, and the limits that the namespace gives
# containers without any; one more admission pod while it is changed. Seen with v0.12.0 and v0.13.1, 2026-11-22.
LEAST_QUOTA: dict[str, str | int] = {
    "requests.cpu": "600m",
    "requests.memory": "2120Mi",
    "requests.ephemeral-storage": "800Mi",
    "limits.cpu": "5300m",
    "limits.memory": "7368Mi",
    "limits.ephemeral-storage": "64Gi",
    "count/endpoints": 5,
    "count/pods": 8,
    "count/services": 5,
    "count/secrets": 3,
    "count/configmaps": 3,
}

# The same of the scheduler of one node pool: pkg/apis/kai/v1/scheduler, v0.10.0 to v0.17.0; its Service and ConfigMap. Not seen.
POOL_QUOTA: dict[str, str | int] = {
    "requests.cpu": "250m",
    "requests.memory": "512Mi",
    "limits.cpu": "700m",
    "limits.memory": "512Mi",
    "count/pods": 1,
    "count/endpoints": 1,
    "count/services": 1,
    "count/configmaps": 1,
}

# test/e2e/modules/wait/kai_config.go: what upstream waits for, on the Config and on each shard.
CONDITIONS = ("Deployed", "Available", "DependenciesFulfilled")


@dataclasses.dataclass(frozen=True)
class Line:
    """The releases of one minor version.

    :ivar first: the first release; ``last``, the last one known.
    :ivar ended: whether no release follows ``last``.
    """

    first: Version
    last: Version
    ended: bool
    source: str


# There is no 0.11. First and last releases are upstream's git tags; pkg.go.dev for 0.18.
LINES: tuple[Line, ...] = (
    Line((0, 7, 0), (0, 7, 13), True, "SUPPORT.md: never listed"),
    Line((0, 8, 0), (0, 8, 5), True, "SUPPORT.md: never listed"),
    Line((0, 9, 0), (0, 9, 20), True, "SUPPORT.md: until 2026-09"),
    Line((0, 10, 0), (0, 10, 5), True, "SUPPORT.md: until 0.12"),
    Line((0, 12, 0), (0, 12, 23), False, "SUPPORT.md: until 2026-12"),
    Line((0, 13, 0), (0, 13, 4), True, "SUPPORT.md: until 0.14"),
    Line((0, 14, 0), (0, 14, 9), False, "SUPPORT.md: until 2027-03"),
    Line((0, 15, 0), (0, 15, 3), True, "SUPPORT.md: until 0.16"),
    Line((0, 16, 0), (0, 16, 9), False, "SUPPORT.md: until 2027-06"),
    Line((0, 17, 0), (0, 17, 1), False, "#2153 names v0.17.1; later ones, if any, were not read"),
    Line((0, 18, 0), (0, 18, 6), False, "SUPPORT.md: until 2027-10"),
)
# Minor versions whose tags exist, and sort above all others, but were retracted in go.mod.
RETRACTED = ((0, 20),)

_EVER: Version = (0, 0, 0)
# Above every version: of a range without an end.
_OPEN: Version = (10**9, 0, 0)


@dataclasses.dataclass(frozen=True)
class Fact:
    """Something that is so from release ``since`` on, up to the next row of the same fact."""

    since: Version
    value: t.Any
    source: str


# What puts HAMi-core into pods with parts of GPUs, on the host cluster: a webhook, and a DaemonSet that copies the library to nodes
# (README.md of Project-HAMi/KAI-resource-isolator; docs/gpu-sharing/hami at v0.17.0 and #2008 name the chart's version 1.1.0-chart). A pod with
# the annotation kai-resource-isolator.io/inject: "false" is left out, and each other one can write the folder of the library (cmd/webhook/main.go
# there, commit 1609f2f).
MEMORY_ADD_ON = "kai-resource-isolator"

NONE_OF_THEM, RESERVATIONS, ALL_WITH_GPUS = "", "reservation pods", "all pods with GPUs"
_OLD_HOME = "oci://ghcr.io/nvidia/kai-scheduler/kai-scheduler"
_NEW_HOME = "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"

_OPERANDS = ("pod-grouper", "binder", "queue-controller", "podgroup-controller", ADMISSION_SERVER)

# CRDs of Kueue and of NVIDIA's GPU operator: kind and version that KAI reads.
KUEUE_TOPOLOGIES, CLUSTER_POLICIES = "topologies.kueue.x-k8s.io", "clusterpolicies.nvidia.com"
FOREIGN_KINDS = {KUEUE_TOPOLOGIES: ("Topology", "v1alpha1"), CLUSTER_POLICIES: ("ClusterPolicy", "v1")}
# Of a cluster in which hooks of KAI's charts bring security contexts (templates/rbac/scc.yaml).
OPENSHIFT_CRD = "clusterversions.config.openshift.io"
# Of all releases; a release's own are among its facts.
CRDS = (
    "bindrequests.scheduling.run.ai",
    "podgroups.scheduling.run.ai",
    "queues.scheduling.run.ai",
    "configs.kai.scheduler",
    "schedulingshards.kai.scheduler",
    "topologies.kai.scheduler",
)

FACTS: dict[str, tuple[Fact, ...]] = {
    # Where the chart is; its images are beside it.
    "chart": (
        Fact(_EVER, _OLD_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 9, 16), _NEW_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 10, 0), _OLD_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 12, 18), _NEW_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 13, 0), _OLD_HOME, ".github/workflows/push-artifacts.yaml"),
        Fact((0, 13, 1), _NEW_HOME, ".github/workflows/push-artifacts.yaml"),
    ),
    # What precedes the number in the chart's tag.
    "tag_prefix": (
        Fact(_EVER, "v", ".github/workflows/push-artifacts.yaml"),
        Fact((0, 18, 5), "", "chart dependencies of kai-resource-management (inferred for the chart itself)"),
    ),
    # Kind of installation: Deployments by Helm, or an operator that acts on a Config.
    "operator": (
        Fact(_EVER, False, "deployments/kai-scheduler/templates/services"),
        Fact((0, 9, 0), True, "deployments/kai-scheduler/templates/services/operator.yaml"),
    ),
    # The SchedulingShard "default", from which the operator makes the scheduler's Deployment. It makes one of each other SchedulingShard, too,
    # kai-scheduler-NAME, for the nodes of a pool (pkg/operator/controller/schedulingshard_controller.go, docs/operator/scheduling-shards.md).
    "shard": (
        Fact(_EVER, False, "deployments/kai-scheduler/templates"),
        Fact((0, 10, 0), True, "deployments/kai-scheduler/templates/default-shard.yaml"),
    ),
    # The Deployments without which nothing is scheduled.
    "deployments": (
        Fact(
            _EVER,
            ("binder", "podgrouper", "podgroup-controller", "queuecontroller", "scheduler"),
            "deployments/kai-scheduler/templates/services",
        ),
        Fact(
            (0, 7, 13),
            ("kai-admission", "binder", "podgrouper", "podgroup-controller", "queuecontroller", "scheduler"),
            "deployments/kai-scheduler/templates/services/admission.yaml",
        ),
        Fact((0, 9, 0), (OPERATOR, "scheduler", *_OPERANDS), "templates/services, pkg/operator/operands"),
        Fact((0, 10, 0), (OPERATOR, "kai-scheduler-default", *_OPERANDS), "templates/services, pkg/operator/operands"),
    ),
    # The CRDs of its objects.
    "crds": (
        Fact(_EVER, CRDS[:3], "cmd of the image crd-upgrader"),
        Fact((0, 9, 0), CRDS[:5], "deployments/kai-scheduler/crds"),
        Fact((0, 12, 0), CRDS, "deployments/kai-scheduler/crds"),
    ),
    # CRDs of others without which it does nothing: its scheduler waits for Kueue's, its operator for the GPU operator's.
    "foreign_crds": (
        Fact(_EVER, (), "pkg/scheduler/cache/cache.go"),
        Fact(
            (0, 7, 8), (KUEUE_TOPOLOGIES,), "pkg/scheduler/cache/cache.go: WaitForCacheSync; only the image crd-upgrader has it"
        ),
        Fact((0, 9, 0), (KUEUE_TOPOLOGIES, CLUSTER_POLICIES), "pkg/operator/controller/config_controller.go, #649, #659"),
        Fact((0, 12, 0), (), "#717; kai.scheduler/v1alpha1 has Topologies of its own"),
    ),
    # Whether helm keeps the Config as an object of the release, which it deletes when it upgrades to a release that does not.
    "config_by_helm": (
        Fact(_EVER, False, "no Config"),
        Fact((0, 9, 0), True, "templates/kai-config.yaml is no hook"),
        Fact((0, 9, 5), False, "templates/kai-config.yaml is a hook, later templates/hooks: kai-config-deployer"),
    ),
    # How many levels of queues are scheduled, exactly; None for any number.
    "queue_levels": (
        Fact(_EVER, 2, "pkg/scheduler/actions/utils/job_order_by_queue.go"),
        Fact((0, 13, 0), None, "pkg/scheduler/actions/utils/job_order_by_queue.go"),
    ),
    # Keys in the chart's values; None where the chart has none.
    "gpu_sharing_key": (Fact(_EVER, "global.gpuSharing", "values.yaml; after 0.17 deprecated, but honoured"),),
    "cdi_key": (
        Fact(_EVER, "binder.cdi", "templates/services/binder.yaml"),
        Fact((0, 9, 2), None, "templates/kai-config.yaml"),
        Fact((0, 9, 4), "binder.cdi", "templates/services/binder.yaml"),
        Fact((0, 10, 0), None, "templates/kai-config.yaml"),
        Fact((0, 12, 11), "binder.cdiEnabled", "templates/kai-config.yaml"),
    ),
    # Where the RuntimeClass of reservation pods has to be set; None where it is nvidia already, or cannot be set.
    "reservation_runtime_key": (
        Fact(_EVER, None, "none can be set: needs nvidia as the nodes' default runtime, #340; seen here with v0.7.11"),
        Fact((0, 7, 12), None, "pkg/binder/binding/resourcereservation: built in"),
        Fact((0, 9, 6), "global.resourceReservation.runtimeClassName", "templates/services/binder.yaml"),
        Fact((0, 10, 0), None, "pkg/common/constants: DefaultRuntimeClassName"),
        Fact((0, 16, 0), "binder.runtimeClassName", "templates/kai-config.yaml (the docs name another key)"),
    ),
    # Where another RuntimeClass than nvidia, or none, can be named: for pods with GPUs, and for reservation pods.
    "runtime_class_keys": (
        Fact(_EVER, (), "pkg/binder/binding/resourcereservation"),
        Fact((0, 9, 6), ("global.resourceReservation.runtimeClassName",), "templates/services/binder.yaml"),
        Fact(
            (0, 9, 7),
            ("admission.gpuPodRuntimeClassName", "global.resourceReservation.runtimeClassName"),
            "templates/kai-config.yaml, templates/services/binder.yaml",
        ),
        Fact((0, 10, 0), ("admission.gpuPodRuntimeClassName", "binder.runtimeClassName"), "templates/kai-config.yaml"),
        Fact((0, 16, 0), ("admission.gpuFractionRuntimeClassName", "binder.runtimeClassName"), "templates/kai-config.yaml"),
    ),
    # Which pods name the RuntimeClass nvidia although those values are empty: none, the pods that hold GPUs for others, or all with GPUs.
    "needs_runtime_class": (
        Fact(_EVER, NONE_OF_THEM, "pkg/binder/binding/resourcereservation"),
        Fact((0, 7, 12), RESERVATIONS, "pkg/binder/binding/resourcereservation: built in"),
        Fact((0, 9, 6), NONE_OF_THEM, "cmd/binder: --runtime-class-name, empty by default"),
        Fact((0, 9, 7), ALL_WITH_GPUS, 'templates/kai-config.yaml: gpuPodRuntimeClassName | default "nvidia"'),
        Fact(
            (0, 13, 0),
            RESERVATIONS,
            "templates/kai-config.yaml: an empty binder.runtimeClassName is left out, pkg/apis/kai/v1/binder",
        ),
        Fact((0, 16, 0), NONE_OF_THEM, "pkg/apis/kai/v1/binder: no default any more"),
    ),
    # Where the chart's values, and the Config's spec alike, ask for the memory of parts of GPUs to be limited, and by what; None where a
    # part is scheduled only. KAI sets CUDA_DEVICE_MEMORY_LIMIT then, in MiB, of nodes with the label nvidia.com/gpu.memory (#1967); HAMi-core,
    # which MEMORY_ADD_ON puts into pods, keeps to it.
    # Whether it gives pods the GPUs that a DeviceClass offers as nvidia.com/gpu (KEP-5004); parts of such GPUs it does not.
    "gpus_by_dra": (
        Fact(_EVER, False, "pkg/scheduler/plugins/dynamicresources: claims only"),
        Fact((0, 17, 0), True, "docs/developer/designs/dra-extended-resources at v0.17.0, and seen with its programs"),
    ),
    "memory_limit": (
        Fact(_EVER, None, "docs/gpu-sharing/README.md: no memory limits"),
        Fact(
            (0, 17, 0),
            ("binder.plugins.hamicore.enabled", True),
            "pkg/binder/plugins/hamicore, templates/_helpers.tpl; at the tags from v0.16.0 on, but docs/gpu-sharing/hami asks for v0.17.0, #2008",
        ),
        Fact(
            (0, 18, 0),
            ("global.gpuSharingMode", "HamiCore"),
            "values.yaml and templates/_helpers.tpl of main, commit 0053730, after v0.17.0; no tag of 0.18 was read",
        ),
    ),
    # The way to memory limits that needs no library in pods; it is not set here, and was not tried. kai-gpu-fractioning, the chart's second
    # one, limits memory by MPS and NRI: driver 615, GPU operator 26.7.1, containerd 2.0, and other annotations than gpu-fraction.
    "fractioning_key": (
        Fact(_EVER, None, "no such chart"),
        Fact(
            (0, 18, 0),
            "global.nvFractions.set",
            "values.yaml of main, commit 0053730; README.md of kai-scheduler/kai-gpu-fractioning, commit 0249ece; no tag of 0.18 was read",
        ),
    ),
    # Whether an installation makes a queue without a limit, in which every pod runs that names none.
    "default_queue_key": (
        Fact(_EVER, None, "no such queue"),
        Fact(
            (0, 10, 0),
            "defaultQueue.createDefaultQueue",
            "templates/default-queue.yaml; seen with v0.13.1: a way round all limits",
        ),
    ),
    # Whether a hook looks for Topologies of Kueue, to copy them; a pod that every installation waits for.
    "topology_migration": (
        Fact(_EVER, False, "templates/hooks: no such job"),
        Fact((0, 12, 0), True, "templates/hooks/pre/topology-migration/job.yaml, topologyMigration.enabled"),
    ),
    # Requests per second that keep the operator from taking a core: it answers its own status changes without pause.
    "operator_qps": (
        Fact(_EVER, None, "no such loop seen with v0.12.0"),
        Fact((0, 13, 0), 5, "seen: v0.13.1 changes its SchedulingShard's status 13,314 times in 17 minutes"),
        Fact((0, 14, 0), None, "not tried"),
    ),
    # Whether the pods of a Job start together where an annotation of it says how many have to.
    "job_gangs": (
        Fact(_EVER, False, "pkg/podgrouper/podgrouper/plugins/job: a pod group for each pod"),
        Fact((0, 14, 1), True, "pkg/podgrouper/podgrouper/plugins/job: kai.scheduler/batch-min-member"),
    ),
    # Long-term support, of a year.
    "long_term": (
        Fact(_EVER, False, "SUPPORT.md"),
        Fact((0, 9, 0), True, "SUPPORT.md: transitional"),
        Fact((0, 10, 0), False, "SUPPORT.md"),
        Fact((0, 12, 0), True, "SUPPORT.md: from 0.12 on, even numbers are"),
        Fact((0, 13, 0), False, "SUPPORT.md"),
        Fact((0, 14, 0), True, "SUPPORT.md"),
        Fact((0, 15, 0), False, "SUPPORT.md"),
        Fact((0, 16, 0), True, "SUPPORT.md"),
        Fact((0, 17, 0), False, "SUPPORT.md"),
        Fact((0, 18, 0), True, "SUPPORT.md: even numbers are"),
    ),
    # The last month with corrections, as YYYY-MM; None where it is not known yet.
    "end_of_support": (
        Fact(_EVER, "2025-09", "SUPPORT.md: never listed, followed by 0.9"),
        Fact((0, 9, 0), "2026-09", "SUPPORT.md"),
        Fact((0, 10, 0), "2025-12", "SUPPORT.md: until 0.12"),
        Fact((0, 12, 0), "2026-12", "SUPPORT.md"),
        Fact((0, 13, 0), "2026-03", "SUPPORT.md: until 0.14"),
        Fact((0, 14, 0), "2027-03", "SUPPORT.md"),
        Fact((0, 15, 0), "2026-06", "SUPPORT.md: until 0.16"),
        Fact((0, 16, 0), "2027-06", "SUPPORT.md"),
        Fact((0, 17, 0), "2026-10", "SUPPORT.md: until 0.18"),
        Fact((0, 18, 0), "2027-10", "SUPPORT.md: a year"),
        Fact((0, 19, 0), None, "not released when this was written"),
    ),
    # Minor versions of Kubernetes that upstream tests with, both included; None where it does not say.
    "kubernetes": (
        Fact(_EVER, None, "SUPPORT.md"),
        Fact((0, 14, 0), ((1, 31), (1, 35)), "SUPPORT.md"),
        Fact((0, 16, 0), ((1, 28), (1, 36)), "SUPPORT.md"),
    ),
    # Helm makes the Config anew with an upgrade, and with it service accounts: a scheduler that goes on is not authorised any more.
    "restart_after_upgrade": (
        Fact(_EVER, False, "templates/kai-config.yaml is no hook"),
        Fact((0, 9, 5), True, "templates/kai-config.yaml is a hook, #1536"),
        Fact((0, 12, 22), False, "templates/hooks: kai-config-deployer"),
        Fact((0, 13, 0), True, "templates/kai-config.yaml is a hook, #1536"),
        Fact((0, 14, 6), False, "templates/hooks: kai-config-deployer"),
        Fact((0, 15, 0), True, "templates/kai-config.yaml is a hook, #1536"),
        Fact((0, 15, 3), False, "templates/hooks: kai-config-deployer"),
    ),
}


@dataclasses.dataclass(frozen=True)
class Asked:
    """What is asked of a release, as far as hazards touch it.

    :ivar gpu_sharing: whether pods share GPUs.
    :ivar others: whether pods of others run in the cluster, as those of tenants in a host cluster.
    :ivar shares_nodes: whether, besides, they share GPUs of nodes on which others have some, too, and are not trusted.
    """

    gpu_sharing: bool = False
    others: bool = False
    shares_nodes: bool = False


@dataclasses.dataclass(frozen=True)
class Hazard:
    """Something that goes wrong with the releases from ``since`` up to, but not including, ``fixed``.

    :ivar name: by which it is accepted: upstream's first issue of it, or a few words.
    :ivar touches: the field of Asked with which it goes wrong; empty where it always does.
    """

    name: str
    since: Version
    fixed: Version
    touches: str
    text: str
    source: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


EVERY_POD = "every pod of the cluster"
_FAIL_CLOSED = f"its pod webhook stops {EVERY_POD} while it does not answer"
_RESERVATION_RACE = (
    "when pods that share GPUs start at once, a GPU's reservation can be taken away while it is used, and the GPU is given twice"
)
_TWO_RESERVATIONS = "two reservation pods can take two GPUs for pods that share one, and no pod gets the other GPU any more"
HAZARDS: tuple[Hazard, ...] = (
    Hazard("#104", _EVER, (0, 13, 0), "others", _FAIL_CLOSED, "#104, #227, #883"),
    Hazard("#1103", _EVER, (0, 9, 16), "gpu_sharing", _RESERVATION_RACE, "#1103"),
    Hazard("#1103", (0, 10, 0), (0, 12, 19), "gpu_sharing", _RESERVATION_RACE, "#1103"),
    Hazard("#1103", (0, 13, 0), (0, 14, 1), "gpu_sharing", _RESERVATION_RACE, "#1103; seen here with v0.13.1"),
    Hazard("#1673", _EVER, (0, 9, 20), "gpu_sharing", _TWO_RESERVATIONS, "#1673"),
    Hazard("#1673", (0, 10, 0), (0, 12, 22), "gpu_sharing", _TWO_RESERVATIONS, "#1673"),
    Hazard("#1673", (0, 13, 0), (0, 14, 6), "gpu_sharing", _TWO_RESERVATIONS, "#1673"),
    Hazard("#1673", (0, 15, 0), (0, 16, 0), "gpu_sharing", _TWO_RESERVATIONS, "#1673"),
    Hazard("#340", _EVER, (0, 7, 12), "gpu_sharing", "GPU sharing needs nvidia as the default runtime of the nodes", "#340"),
)
# The hazard of every release whose end_of_support is over.
END_OF_SUPPORT = "end-of-support"
# The hazard of every release, where it is asked for: none of its own, but of who writes what it reads.
OPEN_GPUS = Hazard(
    "open-gpus",
    _EVER,
    _OPEN,
    "shares_nodes",
    "which GPU a pod shares is said by a ConfigMap that the tenant itself can write, so that its pods can use every GPU of the nodes "
    "that it shares with others",
    "pkg/binder/common/gpusharingconfigmap",
)
HAZARD_NAMES = (*dict.fromkeys(hazard.name for hazard in HAZARDS), END_OF_SUPPORT, OPEN_GPUS.name)


@dataclasses.dataclass(frozen=True)
class WorkHazard:
    """Something that goes wrong with some work, with any options, in the releases from ``since`` up to, but not including, ``fixed``.

    Whether it touches is not known beforehand: kai_scheduler_info tells it, and it refuses nothing.
    """

    name: str
    since: Version
    fixed: Version
    text: str
    source: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


_NAN = 'a pod with gpu-fraction "NaN" is let in, and then the use of its queue is counted wrong'
_SIDECARS = "requests of native sidecars are not added, so that pods go to nodes that are too small, and end as OutOfcpu. Use an ordinary container"
_NO_SLICES_LEFT = (
    "a node that still lists 0 MIG slices gets no pods with GPUs (strategy mixed) or with parts of GPUs (single). Give the node the label "
    'node-role.kubernetes.io/mig-enabled: "false"'
)
_DOTS = "a workload that shares GPUs and has a dot in its name gets no pods. Use a name without dots"
_OPTIONAL = "a pod waits for an optional ConfigMap that is missing. Create an empty one"
_ROOT_QUEUE = "if a queue without parent takes work beside a tree of queues, the scheduler ends when one reclaims from the other. Give that queue a parent"
_RESIZED = (
    "a pod that is resized in place gets past the CPU and memory limits of its queue. Give no user the right to patch pods/resize"
)
_OPERATOR_MEMORY = (
    "the operator's memory grows with the cluster, and its limit of 256Mi ends the operator in a large one. Raise operator.resources in the "
    "chart's values"
)
_OVERPACKED = "if many pods that share GPUs start at once, one GPU can be given more than once while others are free. Start them one after the other"
WORK_HAZARDS: tuple[WorkHazard, ...] = (
    WorkHazard("#1798", _EVER, (0, 12, 23), _NAN, "#1798: gpu_request_validator.go"),
    WorkHazard("#1798", (0, 13, 0), (0, 14, 7), _NAN, "#1798: gpu_request_validator.go"),
    WorkHazard("#1798", (0, 15, 0), (0, 16, 3), _NAN, "#1798: gpu_request_validator.go"),
    WorkHazard("#1556", _EVER, (0, 9, 20), _SIDECARS, "#1556: pkg/scheduler/api/pod_info"),
    WorkHazard("#1556", (0, 10, 0), (0, 12, 22), _SIDECARS, "#1556: pkg/scheduler/api/pod_info; seen here with v0.12.0"),
    WorkHazard("#1556", (0, 13, 0), (0, 14, 6), _SIDECARS, "#1556: pkg/scheduler/api/pod_info; seen here with v0.13.1"),
    WorkHazard("#1556", (0, 15, 0), (0, 15, 3), _SIDECARS, "#1556: pkg/scheduler/api/pod_info"),
    WorkHazard("#1120", _EVER, (0, 9, 16), _NO_SLICES_LEFT, "#1120: pkg/scheduler/api/resource_info, node_info"),
    WorkHazard(
        "#1120", (0, 10, 0), (0, 12, 19), _NO_SLICES_LEFT, "#1120: pkg/scheduler/api/resource_info; seen here with v0.12.0"
    ),
    WorkHazard("#1120", (0, 13, 0), (0, 13, 1), _NO_SLICES_LEFT, "#1120: pkg/scheduler/api/resource_info, node_info"),
    # Of 0.12.24, 0.14.8 and 0.14.9, no tag was read: the branches that they come from have the correction.
    WorkHazard("#1729", _EVER, (0, 12, 24), _DOTS, "#1729: pkg/binder/common/volumes.go, branch v0.12; seen here with v0.12.0"),
    WorkHazard("#1729", (0, 13, 0), (0, 14, 8), _DOTS, "#1729: pkg/binder/common/volumes.go, branch v0.14"),
    WorkHazard("#1729", (0, 15, 0), (0, 16, 5), _DOTS, "#1729: pkg/binder/common/volumes.go"),
    WorkHazard("#988", _EVER, (0, 13, 0), _OPTIONAL, "#988: predicates/config_maps.go; seen here with v0.12.0"),
    WorkHazard("#1863", (0, 13, 0), (0, 14, 8), _ROOT_QUEUE, "#1863: pkg/scheduler/actions/utils/action.go, branch v0.14"),
    WorkHazard("#1863", (0, 15, 0), (0, 16, 5), _ROOT_QUEUE, "#1863: pkg/scheduler/actions/utils/action.go"),
    WorkHazard("#1906", _EVER, (0, 18, 0), _RESIZED, "#1906; of 0.18, no tag was read: main has it after v0.17.0"),
    WorkHazard("#1780", (0, 15, 0), (0, 16, 4), _OPERATOR_MEMORY, "#1780: cmd/operator"),
    WorkHazard("#2153", (0, 17, 0), _OPEN, _OVERPACKED, "#2153: seen by others with v0.17.1, open"),
)


@dataclasses.dataclass(frozen=True)
class UpgradeNote:
    """Something to know of a change from one release to another.

    :ivar start: the releases it comes from, the second of the pair not included; ``end``, those it goes to, alike.
    :ivar regroups: whether pods are grouped in another way, which a rehearsal does not play.
    """

    start: tuple[Version, Version]
    end: tuple[Version, Version]
    text: str
    source: str
    regroups: bool = False


UPGRADE_NOTES: tuple[UpgradeNote, ...] = (
    UpgradeNote((_EVER, (0, 9, 0)), ((0, 9, 0), _OPEN), "helm brings no CRDs with an upgrade: they are applied first", "#549"),
    UpgradeNote(
        (_EVER, (0, 13, 0)), ((0, 13, 0), _OPEN), "queues below the second level are scheduled from now on", "release notes"
    ),
    UpgradeNote(
        ((0, 13, 0), _OPEN),
        (_EVER, (0, 13, 0)),
        "queues below the second level would not be scheduled any more",
        "see queue_levels",
    ),
    UpgradeNote(
        ((0, 13, 0), (0, 14, 0)),
        ((0, 14, 0), _OPEN),
        "kept values break the chart: all values are given anew",
        "values.yaml: prometheus",
    ),
    UpgradeNote(
        (_EVER, (0, 16, 0)),
        ((0, 16, 0), _OPEN),
        "pods with whole GPUs get no RuntimeClass any more, and reservation pods only the one that is set",
        "values.yaml: admission.gpuFractionRuntimeClassName, binder.runtimeClassName",
    ),
    UpgradeNote(
        (_EVER, (0, 15, 0)),
        ((0, 15, 0), (0, 16, 0)),
        "pods of a JobSet start one by one, unless its annotation kai.scheduler/batch-min-member says how many start together",
        "pkg/podgrouper/podgrouper/plugins/jobset of 0.15",
        regroups=True,
    ),
    UpgradeNote(
        (_EVER, (0, 16, 0)),
        ((0, 16, 0), _OPEN),
        "a JobSet has one pod group, with a part for each replica of each of its jobs, of which as many pods as its parallelism start together",
        "pkg/podgrouper/podgrouper/plugins/jobset of 0.16",
        regroups=True,
    ),
    UpgradeNote(
        (_EVER, (0, 18, 0)),
        ((0, 18, 0), _OPEN),
        "a Deployment has one pod group, where each of its pods had one of its own",
        "#2109, release notes; no tag of 0.18 was read",
        regroups=True,
    ),
    UpgradeNote(
        (_EVER, (0, 18, 0)),
        ((0, 18, 0), _OPEN),
        "the chart takes a second one, NvFractions, from an OCI registry: where nodes have no internet, mirror both",
        "release notes; no tag of 0.18 was read",
    ),
    UpgradeNote(
        (_EVER, (0, 13, 0)),
        ((0, 13, 0), _OPEN),
        "pods that wait for an optional ConfigMap start from now on",
        "#988",
    ),
    UpgradeNote(
        (_EVER, (0, 15, 0)),
        ((0, 15, 0), _OPEN),
        "scheduler.additionalArgs is gone, scheduler.args is a map of strings",
        "values.yaml",
    ),
)

# Keys of users' values that moved: the old one, the first release without it, the new one or None.
RENAMED: tuple[tuple[str, Version, str | None], ...] = (
    ("webhookmanager", (0, 9, 0), None),
    ("scheduler.additionalArgs", (0, 10, 0), "scheduler.args, from 0.15 on"),
    ("binder.additionalArgs", (0, 10, 0), None),
    ("binder.cdi", (0, 10, 0), "binder.cdiEnabled, from 0.12.11 on"),
    ("global.resourceReservation.runtimeClassName", (0, 10, 0), "binder.runtimeClassName"),
    ("binder.resourceReservation.runtimeClassName", (0, 7, 0), "binder.runtimeClassName, against upstream's documentation"),
    ("admission.cdi", (0, 7, 0), "binder.cdiEnabled, against upstream's values.yaml"),
)

# --- objects that have the same names in every release --------------------------------------------------------------

CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
RBAC = "rbac.authorization.k8s.io/v1"
ADMISSION = "admissionregistration.k8s.io/v1"
WEBHOOK_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
WEBHOOKS: tuple[tuple[str, str], ...] = (
    ("MutatingWebhookConfiguration", "mutating-kai-admission"),  # pkg/apis/kai/v1/admission
    ("ValidatingWebhookConfiguration", "validating-kai-admission"),
    ("ValidatingWebhookConfiguration", "kai-queue-validation-v2"),  # pkg/apis/kai/v1/queue_controller
    ("ValidatingWebhookConfiguration", "kai-podgroup-validation-v2alpha2"),  # pkg/apis/kai/v1/pod_group_controller
    ("MutatingWebhookConfiguration", "kai-binder"),  # up to 0.7.12: templates/binder-webhook.yaml
    ("ValidatingWebhookConfiguration", "kai-binder"),
    ("MutatingWebhookConfiguration", "kai-admission"),  # 0.7.13 to 0.8: templates/admission-webhook.yaml
    ("ValidatingWebhookConfiguration", "kai-admission"),
    ("ValidatingWebhookConfiguration", "kai-queuecontroller"),
)
# Cluster-scoped objects of hooks: Helm does not record them, and leaves them behind.
HOOK_ROLES = (
    "kai-webhookmanager",  # up to 0.8: templates/rbac/webhookmanager.yaml
    "kai-scheduler-crd-manager",  # from 0.7.1 on: templates/rbac/crd-manager.yaml
    "post-delete-cleanup",  # from 0.10.2 on: templates/rbac/post-delete-clusterrole.yaml
    "kai-topology-migration",  # from 0.12 on: templates/hooks/pre/topology-migration
    "kai-scheduler-config-deployer",  # where a job makes the Config: templates/hooks/post/kai-config-deployer
)

# Kinds that a release has in its namespace, and objects that every namespace has of itself.
CONTENT: tuple[tuple[str, str], ...] = (
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("coordination.k8s.io/v1", "Lease"),
    (RBAC, "Role"),
    (RBAC, "RoleBinding"),
)
BUILT_IN = {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")}

# Annotation of KAI's namespace: the names of the hazards that were accepted, with commas between them.
ACCEPTED_ANNOTATION = "kubegpu.tenancy/accepted-hazards"
# Name and namespace of the Secret that keeps the queues during a downgrade; a namespace that outlives KAI.
EXPORT = ("kubegpu-kai-export", "kube-system")


def foreign_crd(name: str) -> JsonObject:
    """Return as much of another project's CRD as KAI needs to list its objects."""
    kind, version = FOREIGN_KINDS[name]
    plural, group = name.split(".", 1)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": CRD[0],
        "kind": CRD[1],
        "metadata": {"name": name, "labels": OWNED_LABELS},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


# --- lookup --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Release:
    """One release with every fact that holds for it; the fields without a description here are those of FACTS.

    :ivar number: for comparison with others.
    :ivar known: False for a release newer than those in LINES.
    :ivar hazards: what is known to go wrong with it, on any day.
    """

    number: Version
    known: bool
    hazards: tuple[Hazard, ...]
    chart: str
    tag_prefix: str
    operator: bool
    shard: bool
    deployments: tuple[str, ...]
    crds: tuple[str, ...]
    foreign_crds: tuple[str, ...]
    config_by_helm: bool
    queue_levels: int | None
    gpu_sharing_key: str
    cdi_key: str | None
    reservation_runtime_key: str | None
    runtime_class_keys: tuple[str, ...]
    needs_runtime_class: str
    gpus_by_dra: bool
    memory_limit: tuple[str, t.Any] | None
    fractioning_key: str | None
    default_queue_key: str | None
    topology_migration: bool
    operator_qps: int | None
    job_gangs: bool
    long_term: bool
    end_of_support: str | None
    kubernetes: tuple[tuple[int, int], tuple[int, int]] | None
    restart_after_upgrade: bool

    @property
    def version(self) -> str:
        """The version as users name it, with a leading v."""
        return f"v{dotted(self.number)}"

    @property
    def chart_version(self) -> str:
        """The chart's tag."""
        return self.tag_prefix + dotted(self.number)

    @property
    def registry(self) -> str:
        """Where the images are. Charts packaged from the source, and release assets, name another one."""
        return self.chart.removeprefix("oci://").rpartition("/")[0]

    @property
    def scheduler(self) -> str:
        """The Deployment of the scheduler, whose pods carry its name as label ``app``."""
        return next(name for name in self.deployments if "scheduler" in name)


def dotted(version: Version) -> str:
    """Return a version as text, without a leading v."""
    return ".".join(map(str, version))


def first_with(fact: str) -> str:
    """Return the first version, as users name it, that has a fact."""
    return f"v{dotted(next(row.since for row in FACTS[fact] if row.value))}"


def facts_of(version: Version) -> dict[str, t.Any]:
    """Return the value of every fact for one version, by the fact's name."""
    return {name: next(row.value for row in reversed(rows) if row.since <= version) for name, rows in FACTS.items()}


def hazards_of(version: Version) -> tuple[Hazard, ...]:
    """Return what is known to go wrong with one version, on any day."""
    return tuple(hazard for hazard in HAZARDS if hazard.since <= version < hazard.fixed)


def work_hazards_of(version: Version) -> tuple[WorkHazard, ...]:
    """Return what is known to go wrong with some work under one version."""
    return tuple(hazard for hazard in WORK_HAZARDS if hazard.since <= version < hazard.fixed)


def upgrade_notes(before: Version, after: Version, regroups: bool = False) -> list[str]:
    """Return what is known of a change from one version to another, with the source.

    :arg regroups: only of how pods are grouped.
    """
    return [
        f"{note.text} ({note.source})"
        for note in UPGRADE_NOTES
        if note.start[0] <= before < note.start[1] and note.end[0] <= after < note.end[1] and (note.regroups or not regroups)
    ]


# What lines in the logs of KAI's pods come from: pattern, what it means, what to do. The first that fits.
LOG_CAUSES: tuple[tuple[str, str, str], ...] = (
    # client-go: tools/cache/reflector.go. Seen with v0.9.3 without the CRD of Kueue's topologies; alike with ResourceClaim (#1124).
    (
        r"failed to list \*?(?P<kind>[\w.]+): the server could not find the requested resource(?: \(get (?P<resource>[\w.-]+)\))?",
        "it cannot list {kind}, because the CRD {resource} is missing",
        "Install that CRD; kai_scheduler brings the CRDs that a release needs.",
    ),
    (r"Unauthorized", "the API server refuses its credentials (401, #1536)", "Restart those pods."),
    (r"is forbidden", "it lacks a right", "Run kai_scheduler again, which mends its roles."),
    (r"failed calling webhook", "a webhook does not answer", "See whether KAI Scheduler's own pods run: kai_scheduler_info."),
    (r"x509:", "a certificate does not verify", "See whether KAI Scheduler's own pods run: kai_scheduler_info."),
)
# Lines that are errors: of klog, of zap as text (without its colours) and as JSON, and of Go.
LOG_ERROR = r"^[EF]\d{4} |\t(ERROR|FATAL)\t|\"level\":\"(?i:error|fatal)\"|^panic: "
