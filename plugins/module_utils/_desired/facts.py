# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The schema of the desired state: every variable that an inventory may set, its type, its default and what it means.

docs/inventory.md is written from it, and validation.py checks against it.
"""

from __future__ import annotations

from .._common.names import RUNTIME_CLASS
from .._common.schema import Field, Fields
from .._common.variables import BLUEPRINT, METRICS, SHARED_SCHEDULER, TEMPORARY, TENANTS
from .._metrics.facts import READER
from .._vcluster.facts import DEFAULT_VERSION, TRUST_PROFILES

# Variables of roles with versions that go together, or not.
VERSIONS = (
    "device_plugin_driver_version",
    "device_plugin_provider",
    "device_plugin_version",
    "docker_nvidia_runtime_toolkit_version",
    "lab_driver_version",
    "nvkind_image",
)

PROVIDERS = ("nvkind", "existing")
TENANT_STATES = ("present", "paused", "absent")
UNLISTED = ("keep", "remove")
API_TYPES = NODE_PORT, LOAD_BALANCER, INGRESS = ("NodePort", "LoadBalancer", "Ingress")
OPTIONAL, REQUIRED = REHEARSAL = ("optional", "required")

# Folder of everything this collection keeps about clusters on their hosts, one sub-folder a cluster.
STATE_FOLDER = "/etc/kubegpu"
# Name of an nvkind cluster whose inventory gives none; as in the defaults of role nvkind.
CLUSTER_NAME = "kubegpu"
# On the controller, one sub-folder an inventory host.
CONTROLLER_FOLDER = "~/.kube/kubegpu"

# What the playbooks set themselves on the hosts of clusters; and with the inventory plugin, on those that stand for tenants, such as gpu1/ml.
FOUND = ("kubegpu_info",)
INTERNAL = (*FOUND, "kubegpu_cluster", "kubegpu_observed", "kubegpu_tenant_kubeconfig")

_NODES: Fields = {
    "count": Field(int, "Number of nodes with GPUs, which are the tenant's own."),
    "names": Field(list, "Names of nodes with GPUs."),
    "labels": Field(dict, "Labels that the nodes with GPUs have to carry, all of them."),
}
GPU_NODES: Fields = _NODES | {
    "shared_gpus": Field(
        int,
        "Says that the nodes are shared with other tenants that say so, too: GPU devices that this tenant's pods hold at most. "
        "With names or labels only.",
    ),
    "share_gpus_with": Field(
        str,
        "With shared_gpus and the host cluster's KAI Scheduler: with whom this tenant's pods may share one GPU. own, as without it: with "
        "nobody's pods but its own, which get whole GPUs only, because KAI Scheduler does not keep parts of several tenants apart. any: with "
        "pods of other tenants that say any, too.",
        choices=("own", "any"),
    ),
}
# Of these exactly one is given.
NODE_CHOICES = tuple(_NODES)

TOLERATION: Fields = {
    "key": Field(
        str,
        "Key of the taint. It cannot be left out, which would tolerate all taints, those of nodes of tenants with zero trust among them.",
        required=True,
    ),
    "operator": Field(str, "Equal compares the value, too.", "Equal", choices=("Exists", "Equal")),
    "value": Field(str, "Value of the taint.", ""),
    "effect": Field(str, "Effect of the taint; without one, all.", choices=("NoSchedule", "PreferNoSchedule", "NoExecute")),
}
TENANT_API: Fields = {
    "type": Field(
        str,
        "NodePort: a port of the nodes. LoadBalancer: an address of its own, which the cluster has to be able to give. Ingress: a host "
        "name at an ingress controller that passes TLS through.",
        NODE_PORT,
        choices=API_TYPES,
    ),
    "host": Field(
        str,
        "Host name that a tenant's kubeconfig names, with {tenant} for the tenant's name, as in {tenant}.gpu.example. Whoever runs the "
        "cluster's DNS has it lead to the load balancer or the ingress controller. Required for Ingress, refused for NodePort.",
        "",
    ),
    "annotations": Field(
        dict, "Annotations of the Service, of the Ingress with Ingress, such as for an internal load balancer.", {}
    ),
    "ingress_class": Field(str, "IngressClass, with Ingress; empty for the cluster's default.", ""),
}

VCLUSTER: Fields = {
    "version": Field(str, "Version of vCluster's chart and image.", DEFAULT_VERSION),
    "kubernetes_version": Field(
        str, "Kubernetes version of the virtual cluster, such as v1.35.4; empty for the chart's own.", ""
    ),
    "values": Field(dict, "Values for vCluster's chart, merged over those of this collection.", {}),
}

SERVICE: Fields = {
    "name": Field(str, "What it is, for people: ingress, monitoring, registry.", required=True),
    "namespace": Field(str, "Namespace of its pods on the host cluster.", required=True),
    "labels": Field(dict, "Labels of its pods there; without any, all pods of the namespace.", {}),
    "ports": Field(list, "TCP ports, of its pods for egress, of the tenant's for ingress.", required=True),
}
NETWORK: Fields = {
    "egress": Field(list, "What the tenant's pods may reach.", [], fields=SERVICE),
    "ingress": Field(list, "What may reach the tenant's pods.", [], fields=SERVICE),
}

RELEASE: Fields = {
    "name": Field(str, "kai, or the name of another scheduler, which its Helm release and namespace get.", required=True),
    "version": Field(str, "Version of the scheduler; of one that is not kai, version of its chart."),
    "gpu_sharing": Field(bool, "Whether pods may ask KAI Scheduler for fractions of a GPU.", False),
    "accept_hazards": Field(
        list, "Names of hazards of KAI Scheduler's release that are accepted, see docs/reference/kai-releases.md.", []
    ),
    "values": Field(dict, "Values for the scheduler's chart, merged over those of this collection.", {}),
}
SCHEDULER: Fields = RELEASE | {
    "shared": Field(bool, "Whether it is the host cluster's KAI Scheduler, described by kubegpu_shared_scheduler.", False),
    "chart": Field(str, "Chart of a scheduler that is not kai, as helm takes it.", ""),
    "repository": Field(str, "Address of the chart repository in which that chart is.", ""),
}

TENANT: Fields = {
    "name": Field(str, "Name of the tenant, its virtual cluster, its kubeconfig and its context in it.", required=True),
    "trust": Field(str, "Isolation profile, see docs/trust.md.", required=True, choices=tuple(TRUST_PROFILES)),
    "state": Field(
        str,
        "present makes the tenant, or resumes it. paused ends its control plane and its pods and keeps its data. absent removes it.",
        "present",
        choices=TENANT_STATES,
    ),
    "gpu_nodes": Field(dict, "Nodes with GPUs that it gets; without it, the nodes without GPUs.", {}, fields=GPU_NODES),
    "vcluster": Field(dict, "Its virtual cluster.", {}, fields=VCLUSTER),
    "quota": Field(
        dict,
        "Bounds of its namespace on the host cluster, as a ResourceQuota names them, such as count/pods: 300, in place of those of "
        "docs/trust.md. They hold for everything of the tenant, its control plane and KAI Scheduler, too. GPUs are bounded by "
        "gpu_nodes.shared_gpus instead.",
        {},
    ),
    "network": Field(
        dict,
        "Services of the host cluster that its network policies let through, with a trust that has any, see docs/trust.md.",
        {},
        fields=NETWORK,
    ),
    "scheduler": Field(dict, "What places its pods; without it, the host cluster's default scheduler.", {}, fields=SCHEDULER),
    "queues": Field(list, "Tree of queues of KAI Scheduler, as the module kai_queues takes it.", []),
    "expires": Field(
        str, f"Age after which kubegpu.tenancy.expire removes it, such as 30m, 2h or 7d. Of {TEMPORARY} only, which needs it.", ""
    ),
}

# Of each entry of nvkind_workers, as role nvkind takes it.
WORKER: Fields = {
    "gpus": Field(list, "The worker's GPUs, by index or UUID."),
    "count": Field(int, "How many of the remaining GPUs it gets."),
    "labels": Field(dict, "Labels of its node.", {}),
}

CLUSTER: Fields = {
    BLUEPRINT: Field(
        str,
        "Versions and settings that hold where the inventory gives none, see docs/blueprints.md: the name of a blueprint with its date, "
        "or the path of a file of your own on the controller.",
        "",
    ),
    "kubegpu_cluster_provider": Field(
        str,
        "nvkind: the cluster is made on the inventory host. existing: it is there, and the inventory host reaches its API.",
        "nvkind",
        choices=PROVIDERS,
    ),
    "kubegpu_kubeconfig": Field(
        str,
        "Path of the administrator's kubeconfig on the inventory host. Required where the cluster exists; otherwise "
        f"{STATE_FOLDER}/<nvkind_cluster_name>/cluster.yml.",
        "",
    ),
    "kubegpu_kubeconfig_dir": Field(
        str, f"Folder on the controller for the kubeconfigs; {CONTROLLER_FOLDER}/<inventory host> where it is not given.", ""
    ),
    "kubegpu_kubeconfig_proxy": Field(
        str, "Address of a proxy, http or https, through which the controller reaches the clusters.", ""
    ),
    "kubegpu_charts": Field(
        str, "Where Helm charts come from: empty for upstream, a folder of .tgz files, or an oci:// prefix.", ""
    ),
    "kubegpu_runtime_class": Field(
        str,
        "RuntimeClass by which pods get GPUs; empty where the nodes' default runtime, or their device plugin alone, gives them. KAI "
        "Scheduler, its reservation pods and the probes use it.",
        RUNTIME_CLASS,
    ),
    "kubegpu_tolerations": Field(
        list,
        "Taints, such as nvidia.com/gpu, that everything of a tenant tolerates: its control plane, its pods, which need not say so "
        "themselves, and KAI Scheduler. Also what probes run on the host cluster.",
        [],
        fields=TOLERATION,
    ),
    "kubegpu_storage_class": Field(
        str, "StorageClass of the volumes of the tenants' control planes; empty for the cluster's default.", ""
    ),
    "kubegpu_tenant_api": Field(dict, "How the tenants' API servers are reached.", {}, fields=TENANT_API),
    TENANTS: Field(list, "The tenants.", [], fields=TENANT),
    TEMPORARY: Field(
        dict,
        f"One tenant more, for a while, such as for a job of a pipeline: the keys of {TENANTS}, and expires. With it, only this tenant "
        "is acted on. It is given on the command line, see docs/tenants.md.",
        {},
    ),
    SHARED_SCHEDULER: Field(
        dict, "The host cluster's own KAI Scheduler, which tenants with scheduler.shared use.", {}, fields=RELEASE
    ),
    METRICS: Field(
        dict,
        "The Prometheus of the host cluster that reads the metrics of the tenants' own KAI Schedulers, and the only one that may read those of "
        "the shared one, see docs/how-to/monitor.md. Empty: none is told of them.",
        {},
        fields=READER,
    ),
    "kubegpu_only": Field(list, "Names of the tenants to act on; all where it is not given. A string with commas will do.", []),
    "kubegpu_confirm": Field(
        str,
        "Inventory hosts, separated by commas, whose tenants the playbook cleanup may remove all at once, with their data. "
        "It belongs on the command line.",
        "",
    ),
    "kubegpu_unlisted": Field(
        str,
        "What happens to tenants and shared schedulers that this collection made and the inventory does not list any more: keep "
        "names them in the summary, remove removes them.",
        "keep",
        choices=UNLISTED,
    ),
    "kubegpu_accept_unenforced_network_policies": Field(
        bool,
        "Whether tenants whose profile needs network policies are made where the cluster's network does not enforce them.",
        False,
    ),
    "kubegpu_accept_combinations": Field(
        list,
        "Names of combinations of versions that are accepted although upstream does not list them, see docs/blueprints.md.",
        [],
    ),
    "kubegpu_accept_lost_pods": Field(
        bool, "Whether tenants are paused although that ends pods for good, because no controller makes them anew.", False
    ),
    "kubegpu_rehearsal": Field(
        str,
        "required: KAI Scheduler's release, values and queues are changed only with a verdict on exactly that change, see "
        "docs/reference/rehearsal.md. optional: without one, too.",
        OPTIONAL,
        choices=REHEARSAL,
    ),
    "kubegpu_rehearsal_verdicts": Field(
        str, "Folder on the controller with the verdicts, the files verdict-*.json that rehearsals write.", ""
    ),
    "kubegpu_rehearsal_max_age": Field(int, "How many days a verdict is good for.", 30),
    "kubegpu_accept_holds": Field(list, "Names of changes that are made although their verdict is hold.", []),
    "kubegpu_evidence": Field(
        str, "Folder on the controller for what a run found out, see docs/evidence.md. Empty: none is written.", ""
    ),
}
