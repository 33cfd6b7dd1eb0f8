# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The schema of the desired state: every variable that an inventory may set, its type, its default and what it means.

docs/reference/inventory.md is written from it, and the files beside it check against it.
"""

from __future__ import annotations

from .._common.names import RUNTIME_CLASS
from .._common.schema import Field, Fields
from .._common.variables import BLUEPRINT, GATEWAY, METRICS, SHARED_SCHEDULER, TEMPORARY, TENANTS
from .._gateway.facts import GATEWAY as GATEWAY_FIELDS
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
OPTIONAL, REQUIRED = NEED = ("optional", "required")

# Folder of everything this collection keeps about clusters on their hosts, one sub-folder a cluster.
STATE_FOLDER = "/etc/kubegpu"
# Name of an nvkind cluster whose inventory gives none; as in the defaults of role nvkind.
CLUSTER_NAME = "kubegpu"
# On the controller, one sub-folder an inventory host.
CONTROLLER_FOLDER = "~/.kube/kubegpu"

# What the playbooks set themselves on the hosts of clusters; and with the inventory plugin, on the hosts of tenants, such as gpu1/ml.
FOUND = ("kubegpu_info",)
INTERNAL = (*FOUND, "kubegpu_cluster", "kubegpu_observed", "kubegpu_tenant_kubeconfig")

_NODES: Fields = {
    "count": Field(int, "Number of nodes with GPUs. No other tenant gets them."),
    "names": Field(list, "Names of nodes with GPUs."),
    "labels": Field(dict, "Labels that the nodes with GPUs must have, all of them."),
}
GPU_NODES: Fields = _NODES | {
    "shared_gpus": Field(
        int,
        "The most GPU devices that the tenant's pods hold on nodes that it shares with other tenants. All of them give shared_gpus. Only with names or labels.",
    ),
    "share_gpus_with": Field(
        str,
        "Only with shared_gpus and the host cluster's KAI Scheduler. own, the default: pods get whole GPUs only. any: a pod may share one "
        "GPU with pods of other tenants that also give any.",
        choices=("own", "any"),
    ),
}
# Of these exactly one is given.
NODE_CHOICES = tuple(_NODES)

TOLERATION: Fields = {
    "key": Field(
        str,
        "Key of the taint.",
        required=True,
    ),
    "operator": Field(str, "Equal compares the value, too.", "Equal", choices=("Exists", "Equal")),
    "value": Field(str, "Value of the taint.", ""),
    "effect": Field(str, "Effect of the taint; without one, all.", choices=("NoSchedule", "PreferNoSchedule", "NoExecute")),
}
TENANT_API: Fields = {
    "type": Field(
        str,
        "NodePort: a port of the nodes. LoadBalancer: an address of its own. Ingress: a host name at an ingress controller that passes TLS "
        "through.",
        NODE_PORT,
        choices=API_TYPES,
    ),
    "host": Field(
        str,
        "Host name in a tenant's kubeconfig, with {tenant} for the tenant's name, as in {tenant}.gpu.example. Your DNS has to resolve it. "
        "Required for Ingress, refused for NodePort.",
        "",
    ),
    "annotations": Field(dict, "Annotations of the Service, or of the Ingress, such as for an internal load balancer.", {}),
    "ingress_class": Field(str, "IngressClass of an Ingress. Empty: the cluster's default.", ""),
}

VCLUSTER: Fields = {
    "version": Field(str, "Version of vCluster's chart and image.", DEFAULT_VERSION),
    "kubernetes_version": Field(str, "Kubernetes version of the virtual cluster, such as v1.35.4. Empty: the chart's own.", ""),
    "values": Field(dict, "Values for vCluster's chart, merged over those of this collection.", {}),
}

OIDC: Fields = {
    "issuer_url": Field(str, "Address of the issuer, with https.", required=True),
    "client_id": Field(str, "Client for which its tokens are.", required=True),
    "username_claim": Field(str, "Claim that holds the user's name.", "sub"),
    "groups_claim": Field(str, "Claim that holds the user's groups. Empty: groups are not read.", ""),
    "prefix": Field(str, "Text in front of the names of users and groups in the virtual cluster.", "oidc:"),
    "scopes": Field(list, "Further scopes that a login asks for, such as groups.", []),
    "ca": Field(str, "PEM certificates of the authority behind the issuer's certificate. Empty: those of the system.", ""),
    "admins": Field(list, "Groups, without the prefix, that administer the virtual cluster.", []),
}

SERVICE: Fields = {
    "name": Field(str, "Name of the service, for people, such as registry.", required=True),
    "namespace": Field(str, "Namespace of its pods on the host cluster.", required=True),
    "labels": Field(dict, "Labels of its pods. Without labels, all pods of the namespace.", {}),
    "ports": Field(
        list, "TCP ports of the pods that are reached: for egress the service's, for ingress the tenant's.", required=True
    ),
}
NETWORK: Fields = {
    "egress": Field(list, "What the tenant's pods may reach.", [], fields=SERVICE),
    "ingress": Field(list, "What may reach the tenant's pods.", [], fields=SERVICE),
}

RELEASE: Fields = {
    "name": Field(str, "kai, or the name of another scheduler, of its Helm release and of its namespace.", required=True),
    "version": Field(str, "Release of KAI Scheduler. For another scheduler, version of its chart."),
    "gpu_sharing": Field(bool, "Whether pods may ask KAI Scheduler for fractions of a GPU.", False),
    "accept_hazards": Field(list, "Names of hazards that are accepted, see docs/reference/kai-releases.md.", []),
    "values": Field(dict, "Values for its chart, merged over those of this collection.", {}),
}
SCHEDULER: Fields = RELEASE | {
    "shared": Field(
        bool, "Whether the tenant uses the host cluster's KAI Scheduler, which kubegpu_shared_scheduler describes.", False
    ),
    "chart": Field(str, "Chart of a scheduler that is not kai, as helm names charts.", ""),
    "repository": Field(str, "Address of the chart's repository.", ""),
}

TENANT: Fields = {
    "name": Field(str, "Name of the tenant, of its virtual cluster, and of its kubeconfig.", required=True),
    "trust": Field(str, "Isolation profile, see docs/explanation/isolation.md.", required=True, choices=tuple(TRUST_PROFILES)),
    "state": Field(
        str,
        "present makes the tenant, or resumes it. paused ends its control plane and its pods and keeps its data. absent removes it.",
        "present",
        choices=TENANT_STATES,
    ),
    "gpu_nodes": Field(dict, "Nodes with GPUs that the tenant gets. Empty: the nodes without GPUs.", {}, fields=GPU_NODES),
    "vcluster": Field(dict, "Its virtual cluster.", {}, fields=VCLUSTER),
    "oidc": Field(dict, "Issuer whose users the tenant's API server lets in, see docs/how-to/tenants.md.", {}, fields=OIDC),
    "quota": Field(
        dict,
        "Bounds of the tenant's namespace, in the words of a ResourceQuota, such as count/pods: 300. They replace the defaults in "
        "docs/explanation/isolation.md.",
        {},
    ),
    "network": Field(
        dict,
        "Services of the host cluster that the tenant's network policies let through.",
        {},
        fields=NETWORK,
    ),
    "scheduler": Field(dict, "What places the tenant's pods. Empty: the host cluster's default scheduler.", {}, fields=SCHEDULER),
    "queues": Field(list, "Tree of queues of KAI Scheduler, as the module kai_queues takes it.", []),
    "expires": Field(
        str,
        f"Age after which kubegpu.tenancy.expire removes the tenant, such as 2h. Only for {TEMPORARY}, which requires it.",
        "",
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
        "Name of a blueprint with its date, or path of your own file on the controller, see docs/how-to/many-clusters.md.",
        "",
    ),
    "kubegpu_cluster_provider": Field(
        str,
        "nvkind: the collection makes the cluster on the inventory host. existing: you have the cluster, and the inventory host reaches its API.",
        "nvkind",
        choices=PROVIDERS,
    ),
    "kubegpu_kubeconfig": Field(
        str,
        "Administrator's kubeconfig on the inventory host. Required for an existing cluster. Default: "
        f"{STATE_FOLDER}/<nvkind_cluster_name>/cluster.yml.",
        "",
    ),
    "kubegpu_kubeconfig_dir": Field(
        str, f"Folder on the controller for the kubeconfigs. Default: {CONTROLLER_FOLDER}/<inventory host>.", ""
    ),
    "kubegpu_kubeconfig_proxy": Field(
        str, "Address of a proxy, http or https, through which the controller reaches the clusters.", ""
    ),
    "kubegpu_charts": Field(
        str, "Where Helm charts come from: a folder of .tgz files, or an oci:// prefix. Empty: upstream.", ""
    ),
    "kubegpu_runtime_class": Field(
        str,
        "RuntimeClass of pods with GPUs. Empty: the cluster has none, because the nodes' default runtime or the device plugin gives GPUs to "
        "pods.",
        RUNTIME_CLASS,
    ),
    "kubegpu_tolerations": Field(
        list,
        "Taints, such as nvidia.com/gpu, that a tenant's control plane, pods and KAI Scheduler tolerate, and the probes' pods.",
        [],
        fields=TOLERATION,
    ),
    "kubegpu_storage_class": Field(str, "StorageClass for the volumes of control planes. Empty: the cluster's default.", ""),
    "kubegpu_tenant_api": Field(dict, "How the tenants' API servers are reached.", {}, fields=TENANT_API),
    GATEWAY: Field(
        dict,
        "An address of the GPU host at which the tenants' API servers are reached, see docs/how-to/gpu-host.md. Empty: none.",
        {},
        fields=GATEWAY_FIELDS,
    ),
    TENANTS: Field(list, "The tenants.", [], fields=TENANT),
    TEMPORARY: Field(
        dict,
        f"One temporary tenant, with the keys of {TENANTS}, for the command line, see docs/how-to/tenants.md. The run acts on this tenant only.",
        {},
    ),
    SHARED_SCHEDULER: Field(dict, "The host cluster's KAI Scheduler, for tenants with scheduler.shared.", {}, fields=RELEASE),
    METRICS: Field(
        dict,
        "The Prometheus of the host cluster that reads the metrics of KAI Schedulers, see docs/how-to/monitor.md.",
        {},
        fields=READER,
    ),
    "kubegpu_only": Field(list, "Names of the tenants to act on, as a list or separated by commas. Empty: all.", []),
    "kubegpu_confirm": Field(
        str,
        "For the command line: inventory hosts, separated by commas, whose tenants the playbook cleanup may remove all at once.",
        "",
    ),
    "kubegpu_unlisted": Field(
        str,
        "What happens to tenants and shared schedulers that the inventory no longer lists: keep leaves them, remove removes them.",
        "keep",
        choices=UNLISTED,
    ),
    "kubegpu_accept_unenforced_network_policies": Field(
        bool,
        "Whether to make tenants of partial and zero if the cluster's network enforces no network policies.",
        False,
    ),
    "kubegpu_accept_combinations": Field(
        list,
        "Names of combinations of versions to accept, see docs/how-to/many-clusters.md.",
        [],
    ),
    "kubegpu_accept_lost_pods": Field(
        bool, "Whether to pause a tenant although no controller makes some of its pods again.", False
    ),
    "kubegpu_accept_lost_volumes": Field(
        bool, "Whether the playbook renew may lose the data of tenants' volumes, see docs/how-to/upgrade.md.", False
    ),
    "kubegpu_rehearsal": Field(
        str,
        "required: a change of KAI Scheduler's release, values or queues needs a verdict, see docs/reference/rehearsal.md.",
        OPTIONAL,
        choices=NEED,
    ),
    "kubegpu_rehearsal_verdicts": Field(str, "Folder on the controller with the files verdict-*.json of rehearsals.", ""),
    "kubegpu_rehearsal_max_age": Field(int, "Days for which a verdict is valid.", 30),
    "kubegpu_accept_holds": Field(list, "Names of changes to make although their verdict is hold.", []),
    "kubegpu_backup": Field(
        str,
        "required: a tenant is backed up before its vCluster or Kubernetes gets another version, and before a reset or removal.",
        OPTIONAL,
        choices=NEED,
    ),
    "kubegpu_backup_folder": Field(
        str, "Folder on the controller for backups of tenants, see docs/how-to/backup.md.", "~/kubegpu-backups"
    ),
    "kubegpu_backup_keep": Field(int, "How many backups of each tenant are kept. Older ones are deleted.", 7),
    "kubegpu_backup_encrypt": Field(bool, "Whether backups are encrypted by the vault password that the run is given.", False),
    "kubegpu_restore": Field(
        str,
        "Which backup the playbook restore takes: latest, or the time of one. It belongs on the command line.",
        "latest",
    ),
    "kubegpu_restore_from": Field(
        str,
        "Whose backup the playbook restore takes, as TENANT or INVENTORY_HOST/TENANT. Empty: the tenant's own. It belongs on the command line.",
        "",
    ),
    "kubegpu_evidence": Field(
        str,
        "Folder on the controller for the evidence of a run, see docs/reference/evidence.md. Empty: none is written.",
        "",
    ),
}
