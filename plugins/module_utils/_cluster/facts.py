# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""By what a host cluster shows where it comes from, who labelled its GPUs, and what runs in it for them.

Each row names its source. Rows are read from documentation and source, unless they say where they were seen.
"""

from __future__ import annotations

import dataclasses

SECURITY_CONTEXTS = ("security.openshift.io/v1", "SecurityContextConstraints")
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

OPENSHIFT = "openshift"


@dataclasses.dataclass(frozen=True)
class Distribution:
    """How a cluster of one kind is recognised: by any of these.

    :ivar version: part of the API server's version.
    :ivar mark: label or annotation of nodes.
    :ivar provider: beginning of a node's spec.providerID.
    """

    name: str
    source: str
    version: str = ""
    mark: str = ""
    provider: str = ""


# The first that fits: kind makes its clusters with kubeadm.
DISTRIBUTIONS = (
    Distribution(
        "gke", "cloud.google.com/kubernetes-engine/docs: versioning, node labels", "-gke.", "cloud.google.com/gke-nodepool"
    ),
    Distribution(
        "eks", "docs.aws.amazon.com/eks: platform versions, managed node groups", "-eks-", "eks.amazonaws.com/nodegroup"
    ),
    Distribution("aks", "learn.microsoft.com/azure/aks: reserved labels", mark="kubernetes.azure.com/cluster"),
    Distribution(OPENSHIFT, "github.com/openshift/machine-config-operator: node labels", mark="node.openshift.io/os_id"),
    Distribution("k3s", "docs.k3s.io: releases", "+k3s"),
    Distribution("rke2", "docs.rke2.io: releases", "+rke2"),
    Distribution("kind", "sigs.k8s.io/kind pkg/cluster/internal/create: seen in the lab", provider="kind://"),
    Distribution("kubeadm", "kubernetes cmd/kubeadm/app/constants", mark="kubeadm.alpha.kubernetes.io/cri-socket"),
)

# Labels that say that a node has GPUs, each with the software that sets it.
GPU_LABELS = {
    "nvidia.com/gpu.deploy.device-plugin": "GPU operator",
    "nvidia.com/gpu.product": "GPU feature discovery",
    "nvidia.com/gpu.present": "GPU feature discovery, the GPU operator or this collection",
    "feature.node.kubernetes.io/pci-10de.present": "Node Feature Discovery",
    "cloud.google.com/gke-accelerator": "GKE",
    "k8s.amazonaws.com/accelerator": "eksctl",
    "kubernetes.azure.com/accelerator": "AKS",
}

# In the image of a DaemonSet's container that offers NVIDIA's GPUs: NVIDIA's own, GKE's.
DEVICE_PLUGIN_IMAGES = ("k8s-device-plugin", "nvidia-gpu-device-plugin")

# DaemonSets of network plugins, and whether they enforce network policies; None where that is a setting of theirs.
NETWORKS: dict[str, bool | None] = {
    "anetd": True,  # GKE Dataplane V2
    "antrea-agent": True,
    "aws-node": None,  # VPC CNI: enableNetworkPolicy
    "azure-cns": None,  # Azure CNI: the cluster's network policy engine
    "azure-npm": True,
    "calico-node": True,
    "canal": True,
    "cilium": True,
    "kindnet": None,  # newer ones do
    "kube-flannel-ds": False,
    "kube-network-policies": True,
    "kube-router": True,
    "ovnkube-node": True,  # OpenShift
    "rke2-canal": True,
}
# Has one in its own process, unless it is started with --disable-network-policy (docs.k3s.io, networking).
NETWORK_IN_PROCESS = "k3s"

# Beginnings of taints that come and go with a node's state.
PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


@dataclasses.dataclass(frozen=True)
class Right:
    """What is done to resources of one API group.

    :ivar within: in which namespace: TENANT or READER; empty for the whole cluster.
    :ivar only: for what alone it is done: SHARED, BOUNDED or MONITORED; empty for every tenant.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    within: str = ""
    only: str = ""


# A KAI Scheduler that tenants share, and a tenant whose trust, quota or network makes bounds of its namespace.
SHARED, BOUNDED = "shared", "bounded"
# A Prometheus whose operator finds what it reads, and its rules.
MONITORED = "monitored"
# The namespaces of a tenant and of that Prometheus.
TENANT, READER = "tenant", "reader"

_WRITES = ("create", "delete", "get", "patch")
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_MONITORING = "monitoring.coreos.com"

# What site does on a host cluster, by the modules' own calls and by Helm with vCluster's and KAI Scheduler's charts. What their ClusterRoles
# and Roles hold, Kubernetes lets only those write who hold it themselves, or may "escalate".
RIGHTS = (
    Right("", ("namespaces",), ("create", "delete", "list", "patch")),
    Right("", ("nodes",), ("list", "patch")),
    Right("", ("configmaps", "limitranges", "persistentvolumeclaims", "persistentvolumes", "pods"), ("list",)),
    Right("", ("resourcequotas", "secrets", "services"), ("list",)),
    Right("apps", ("daemonsets", "deployments", "statefulsets"), ("list",)),
    Right("networking.k8s.io", ("networkpolicies",), ("list",)),
    Right("node.k8s.io", ("runtimeclasses",), ("list",)),
    Right("resource.k8s.io", ("deviceclasses", "resourceclaims", "resourceslices"), ("list",)),
    Right("storage.k8s.io", ("storageclasses",), ("list",)),
    Right("scheduling.k8s.io", ("priorityclasses",), ("list",)),
    Right(_RBAC, ("clusterrolebindings", "clusterroles"), _WRITES),
    Right(_ADMISSION, ("validatingadmissionpolicies", "validatingadmissionpolicybindings"), (*_WRITES, "list")),
    Right("", ("configmaps", "secrets", "serviceaccounts", "services"), _WRITES, within=TENANT),
    Right("", ("limitranges", "resourcequotas"), _WRITES, within=TENANT, only=BOUNDED),
    Right("", ("persistentvolumeclaims",), ("delete",), within=TENANT),
    Right("", ("pods",), ("create", "delete"), within=TENANT),
    Right("", ("pods/log",), ("get",), within=TENANT),
    Right("apps", ("statefulsets",), _WRITES, within=TENANT),
    Right("networking.k8s.io", ("networkpolicies",), _WRITES, within=TENANT, only=BOUNDED),
    Right(_RBAC, ("rolebindings", "roles"), _WRITES, within=TENANT),
    Right("apiextensions.k8s.io", ("customresourcedefinitions",), _WRITES, only=SHARED),
    Right(_ADMISSION, ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"), _WRITES, only=SHARED),
    Right("scheduling.k8s.io", ("priorityclasses",), _WRITES, only=SHARED),
    Right("scheduling.run.ai", ("queues",), (*_WRITES, "list"), only=SHARED),
    Right(_MONITORING, ("prometheusrules", "servicemonitors"), ("list",), only=MONITORED),
    Right(_MONITORING, ("servicemonitors",), _WRITES, within=TENANT, only=MONITORED),
    Right("networking.k8s.io", ("networkpolicies",), _WRITES, within=TENANT, only=MONITORED),
    Right(_MONITORING, ("prometheusrules",), _WRITES, within=READER, only=MONITORED),
    Right("", ("configmaps",), _WRITES, within=READER, only=MONITORED),
)

# By the keys of a webhook's or an admission policy's rule, the values with which it is asked when a pod is made.
POD_RULE = {
    "apiGroups": ("", "*"),
    "operations": ("CREATE", "*"),
    "resources": ("pods", "*", "pods/*", "*/*"),
    "scope": ("Namespaced", "*"),
}

# What changes pods, by the name of its MutatingWebhookConfiguration.
POD_CHANGERS = {
    # github.com/kubernetes-sigs/kueue: config/components/webhook
    "kueue-mutating-webhook-configuration": "Kueue holds pods by scheduling gates, so tenants pass by its quotas.",
    # github.com/apache/yunikorn-k8shim: pkg/admission
    "yunikorn-admission-controller-mutations": "YuniKorn names itself as the scheduler of pods, also of control planes and probes.",
}
