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
from .._common.variables import BLUEPRINT, GATEWAY, METRICS, ROLLOUT, SHARED_SCHEDULER, TEMPORARY, TENANTS, USAGE
from .._gateway.facts import GATEWAY as GATEWAY_FIELDS
from .._metrics.facts import READER
from .._rollout.facts import CONTENT as ROLLOUT_FIELDS
from .._usage.facts import USAGE as USAGE_FIELDS
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
    "count": Field(int, "Number of nodes with GPUs, ready ones first. No other tenant gets them."),
    "names": Field(list, "Names of nodes with GPUs."),
    "labels": Field(dict, "Labels that the nodes must have, all of them."),
}
GPU_NODES: Fields = _NODES | {
    "shared_gpus": Field(
        int,
        "The most GPU devices that its pods hold on shared nodes, whose tenants all give shared_gpus. Only with names or labels.",
    ),
    "share_gpus_with": Field(
        str,
        "Only with shared_gpus and the host cluster's KAI Scheduler. own, the default: whole GPUs only. any: pods may share a GPU with pods of "
        "tenants that also give any.",
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
    "value": Field(str, "Its value.", ""),
    "effect": Field(str, "Its effect; without one, all.", choices=("NoSchedule", "PreferNoSchedule", "NoExecute")),
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
        "Host name in a tenant's kubeconfig, such as {tenant}.gpu.example, which your DNS resolves. Required for Ingress, refused for NodePort.",
        "",
    ),
    "annotations": Field(dict, "Annotations of the Service or Ingress, such as for an internal load balancer.", {}),
    "ingress_class": Field(str, "IngressClass of an Ingress. Empty: the cluster's default.", ""),
}

VCLUSTER: Fields = {
    "version": Field(str, "Version of vCluster's chart and image.", DEFAULT_VERSION),
    "kubernetes_version": Field(str, "Its Kubernetes version, such as v1.35.4. Empty: the chart's own.", ""),
    "values": Field(dict, "Values for its chart, merged over this collection's.", {}),
}

OIDC: Fields = {
    "issuer_url": Field(str, "Address of the issuer, with https.", required=True),
    "client_id": Field(str, "Client for which its tokens are.", required=True),
    "username_claim": Field(str, "Claim that holds the user's name.", "sub"),
    "groups_claim": Field(str, "Claim that holds the user's groups. Empty: none is read.", ""),
    "prefix": Field(str, "Text in front of names of users and groups.", "oidc:"),
    "scopes": Field(list, "Further scopes that a login asks for, such as groups.", []),
    "ca": Field(str, "PEM certificates of the issuer's authority. Empty: the system's.", ""),
    "admins": Field(list, "Groups, without the prefix, that administer the virtual cluster.", []),
}

SANDBOX: Fields = {
    "runtime_class": Field(str, "RuntimeClass in which all its pods run, such as kata or gvisor. Empty: none.", ""),
    "gpus": Field(bool, "Whether that class passes GPUs of the resource nvidia.com/gpu on.", False),
}

SERVICE: Fields = {
    "name": Field(str, "A name for people, such as registry.", required=True),
    "namespace": Field(str, "Namespace of its pods on the host cluster.", required=True),
    "labels": Field(dict, "Labels of its pods. Empty: all pods of the namespace.", {}),
    "ports": Field(
        list, "TCP ports of the pods that are reached: for egress the service's, for ingress the tenant's.", required=True
    ),
}
NETWORK: Fields = {
    "egress": Field(list, "What the tenant's pods may reach.", [], fields=SERVICE),
    "ingress": Field(list, "What may reach the tenant's pods.", [], fields=SERVICE),
}

RELEASE: Fields = {
    "name": Field(str, "kai, or another scheduler's name, also of its Helm release and namespace.", required=True),
    "version": Field(str, "Release of KAI Scheduler, or version of another scheduler's chart."),
    "gpu_sharing": Field(bool, "Whether pods may ask KAI Scheduler for fractions of a GPU.", False),
    "gpu_memory_enforced": Field(
        bool,
        "Whether KAI Scheduler is refused unless it limits the memory of fractions (docs/explanation/gpu-sharing.md).",
        False,
    ),
    "accept_hazards": Field(list, "Accepted hazards (docs/reference/kai-releases.md).", []),
    "values": Field(dict, "Values for its chart, merged over this collection's.", {}),
}
SCHEDULER: Fields = RELEASE | {
    "shared": Field(bool, "Whether it uses the host cluster's KAI Scheduler, from kubegpu_shared_scheduler.", False),
    "chart": Field(str, "Chart of another scheduler, as helm names charts.", ""),
    "repository": Field(str, "Address of the chart's repository.", ""),
}

TENANT: Fields = {
    "name": Field(str, "Name of the tenant, its virtual cluster and its kubeconfig.", required=True),
    "trust": Field(str, "Isolation profile (docs/explanation/isolation.md).", required=True, choices=tuple(TRUST_PROFILES)),
    "state": Field(
        str,
        "present makes or resumes the tenant. paused ends its control plane and pods, and keeps its data. absent removes it.",
        "present",
        choices=TENANT_STATES,
    ),
    "gpu_nodes": Field(dict, "Its nodes with GPUs. Empty: the nodes without GPUs.", {}, fields=GPU_NODES),
    "vcluster": Field(dict, "Its virtual cluster.", {}, fields=VCLUSTER),
    "oidc": Field(dict, "Issuer whose users the tenant's API server lets in (docs/how-to/tenants.md).", {}, fields=OIDC),
    "sandbox": Field(
        dict,
        "RuntimeClass that keeps its pods from the nodes' kernel (docs/explanation/isolation.md). Default for zero: kubegpu_sandbox.",
        {},
        fields=SANDBOX,
    ),
    "quota": Field(
        dict,
        "Bounds of its namespace, as in a ResourceQuota, such as count/pods: 300. They replace the defaults in docs/explanation/isolation.md.",
        {},
    ),
    "network": Field(
        dict,
        "Services of the host cluster that its network policies let through.",
        {},
        fields=NETWORK,
    ),
    "scheduler": Field(dict, "What places its pods. Empty: the host cluster's default scheduler.", {}, fields=SCHEDULER),
    "queues": Field(list, "Tree of queues of KAI Scheduler.", []),
    "expires": Field(
        str,
        f"Age at which the playbook expire removes it, such as 2h. Only {TEMPORARY} takes it, and requires it.",
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
        "Name of a blueprint, or path of your own file on the controller (docs/how-to/many-clusters.md).",
        "",
    ),
    "kubegpu_cluster_provider": Field(
        str,
        "nvkind: the collection makes the cluster. existing: you have it.",
        "nvkind",
        choices=PROVIDERS,
    ),
    "kubegpu_kubeconfig": Field(
        str,
        "Administrator's kubeconfig on the inventory host, as a path from / or ~. Required for an existing cluster. Default: "
        f"{STATE_FOLDER}/<nvkind_cluster_name>/cluster.yml.",
        "",
    ),
    "kubegpu_kubeconfig_dir": Field(
        str, f"Folder on the controller for the kubeconfigs. Default: {CONTROLLER_FOLDER}/<inventory host>.", ""
    ),
    "kubegpu_kubeconfig_proxy": Field(str, "Proxy, http or https, by which the controller reaches the clusters.", ""),
    "kubegpu_charts": Field(str, "Source of Helm charts: a folder of .tgz files, or an oci:// prefix. Empty: upstream.", ""),
    "kubegpu_runtime_class": Field(
        str,
        "RuntimeClass of pods with GPUs. Empty: the cluster has none (docs/how-to/existing-cluster.md).",
        RUNTIME_CLASS,
    ),
    "kubegpu_tolerations": Field(
        list,
        "Taints, such as nvidia.com/gpu, that all pods of tenants and probes tolerate.",
        [],
        fields=TOLERATION,
    ),
    "kubegpu_storage_class": Field(str, "StorageClass of control planes. Empty: the cluster's default.", ""),
    "kubegpu_sandbox": Field(dict, "Sandbox of tenants with zero trust that name none themselves.", {}, fields=SANDBOX),
    "kubegpu_tenant_api": Field(dict, "How the tenants' API servers are reached.", {}, fields=TENANT_API),
    GATEWAY: Field(
        dict,
        "An address of the GPU host at which the tenants' API servers are reached (docs/how-to/gpu-host.md). Empty: none.",
        {},
        fields=GATEWAY_FIELDS,
    ),
    TENANTS: Field(list, "The tenants.", [], fields=TENANT),
    TEMPORARY: Field(
        dict,
        "One temporary tenant, for the command line (docs/how-to/tenants.md). The run acts on it only.",
        {},
    ),
    SHARED_SCHEDULER: Field(dict, "The host cluster's KAI Scheduler, for tenants with scheduler.shared.", {}, fields=RELEASE),
    METRICS: Field(
        dict,
        "The host cluster's Prometheus (docs/how-to/monitor.md).",
        {},
        fields=READER,
    ),
    USAGE: Field(
        dict,
        "Where GPU-hours and alerts are read, prices, and where the report goes (docs/how-to/usage.md).",
        {},
        fields=USAGE_FIELDS,
    ),
    "kubegpu_only": Field(list, "Tenants to act on, as a list or separated by commas. Empty: all.", []),
    "kubegpu_confirm": Field(
        str,
        "For the command line: inventory hosts, separated by commas, from which cleanup may remove all tenants.",
        "",
    ),
    "kubegpu_unlisted": Field(
        str,
        "What happens to tenants and shared schedulers that the inventory no longer lists.",
        "keep",
        choices=UNLISTED,
    ),
    "kubegpu_accept_unenforced_network_policies": Field(
        bool,
        "Whether to make tenants of partial and zero although nothing enforces network policies.",
        False,
    ),
    "kubegpu_accept_combinations": Field(
        list,
        "Combinations of versions to accept (docs/how-to/many-clusters.md).",
        [],
    ),
    "kubegpu_accept_lost_pods": Field(
        bool, "Whether to pause a tenant although no controller makes some of its pods again.", False
    ),
    "kubegpu_accept_lost_volumes": Field(
        bool, "Whether renew may lose the data of tenants' volumes (docs/how-to/upgrade.md).", False
    ),
    "kubegpu_rehearsal": Field(
        str,
        "required: changes of KAI Scheduler need a verdict (docs/reference/rehearsal.md).",
        OPTIONAL,
        choices=NEED,
    ),
    "kubegpu_rehearsal_verdicts": Field(str, "Folder on the controller with verdict-*.json of rehearsals.", ""),
    "kubegpu_rehearsal_max_age": Field(int, "Days for which a verdict is valid.", 30),
    "kubegpu_accept_holds": Field(list, "Changes to make although their verdict is hold.", []),
    "kubegpu_backup": Field(
        str,
        "required: a tenant is backed up before a reset, a removal, or another version of vCluster or Kubernetes.",
        OPTIONAL,
        choices=NEED,
    ),
    "kubegpu_backup_folder": Field(str, "Folder on the controller for backups (docs/how-to/backup.md).", "~/kubegpu-backups"),
    "kubegpu_backup_keep": Field(int, "Backups kept of each tenant. Older ones are deleted.", 7),
    "kubegpu_backup_encrypt": Field(bool, "Whether backups are encrypted by the run's vault password.", False),
    "kubegpu_backup_timeout": Field(int, "Seconds for the backup of each tenant, and for a restore.", 600),
    "kubegpu_restore": Field(
        str,
        "For the command line: the backup that restore takes, latest or its time.",
        "latest",
    ),
    "kubegpu_restore_from": Field(
        str,
        "For the command line: whose backup restore takes, TENANT or INVENTORY_HOST/TENANT. Empty: the tenant's own.",
        "",
    ),
    "kubegpu_restore_volumes": Field(
        str,
        "For the command line: volumes that restore gives their data back. missing: those whose claims are gone. all: the others, too.",
        "missing",
        choices=("missing", "all"),
    ),
    ROLLOUT: Field(
        dict,
        "Waves in which the playbook rollout changes clusters (docs/how-to/many-clusters.md). The same for all clusters.",
        {},
        fields=ROLLOUT_FIELDS,
    ),
    "kubegpu_evidence": Field(
        str,
        "Folder on the controller for evidence (docs/reference/evidence.md). Empty: none.",
        "",
    ),
}
