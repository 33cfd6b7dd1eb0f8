# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Facts about vCluster: names, labels, versions, and tables of what its charts and its control plane take.

Each row names its source, a file of loft-sh/vcluster unless it says otherwise.
"""

from __future__ import annotations

import re

from .._common.errors import refusal
from .._common.ownership import NOT_SYNCED
from .._common.quantity import whole
from .._common.values import Values, deep_merge

CHART = "vcluster"
REPOSITORY = "https://charts.loft.sh"

# Version of chart and image for a tenant that names none.
DEFAULT_VERSION = "0.36.1"

# Annotations of a tenant's namespace: its trust profile, and whether a probe saw its network policies enforced.
TRUST_ANNOTATION = "kubegpu.tenancy/trust"
NETWORK_ANNOTATION = "kubegpu.tenancy/network-policies"
# Age, from its namespace's creation, after which the tenant is not needed any more.
EXPIRES_ANNOTATION = "kubegpu.tenancy/expires"
# Minor version of the host cluster's Kubernetes for which the chart was rendered: what it makes depends on that (chart/templates/role.yaml
# gives the right to resize pods from 1.35 on, without which its syncer cannot go on there, #4091).
RENDERED_ANNOTATION = "kubegpu.tenancy/rendered-for"
# On a namespace that is being deleted.
PODS_ENDED_ANNOTATION = "kubegpu.tenancy/pods-ended"
ENFORCED, UNENFORCED = "enforced", "unenforced"
# Annotation of a tenant's namespace: the version of its own KAI Scheduler that was installed last, and verified.
SCHEDULER_ANNOTATION = "kubegpu.tenancy/scheduler-version"
# Resource of a ResourceQuota that counts GPU devices.
GPU_QUOTA = "requests.nvidia.com/gpu"

# Label of every control plane (chart/templates/statefulset.yaml), of the Secret with its configuration
# (chart/templates/config-secret.yaml) and of the one with its kubeconfig (pkg/util/kubeconfig), from 0.26 to 0.36 at least.
# Secrets, Services and pods that a tenant made may carry it as well, and are none of these.
CONTROL_PLANE = f"app=vcluster,{NOT_SYNCED}"

# Annotation of a synced pod: its ownerReferences as JSON in the virtual cluster, only where it has some, or what its tenant wrote there
# (pkg/controllers/resources/pods/translate/translator.go, 0.26 to 0.36).
SYNCED_OWNERS = "vcluster.loft.sh/owner-references"

# Cluster-scoped kinds that it may write (chart/templates/clusterrole.yaml: the rules that create).
SYNCED_CLUSTER_KINDS = (
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("v1", "PersistentVolume"),
)

# Kinds that it writes into its namespace on the host by default, besides pods and volumes (chart/values.yaml, sync.toHost).
SYNCED_KINDS = (
    ("v1", "Service"),
    ("v1", "Endpoints"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("networking.k8s.io/v1", "Ingress"),
)

# 0.26 brought controlPlane.distro.k8s.scheduler and today's image layout (chart/values.yaml of 0.25 and 0.26).
OLDEST_VERSION = (0, 26)
BAD_VERSIONS = {
    # Fixed in 0.35.3 and 0.36.1.
    "0.36.0": "pods of a tenant with Kubernetes 1.33 or older stay not ready on a newer host (loft-sh/vcluster#3578)",
}

# The image of the container that vCluster adds to pods with a subdomain (chart/values.yaml of 0.34.0, 0.35.2 and 0.36.1). It sets no
# NVIDIA_VISIBLE_DEVICES.
ADDED_IMAGE = {"registry": "mirror.gcr.io", "repository": "library/alpine", "tag": "3.20"}

# Minor version of Kubernetes that a minor version of the chart installs by default (chart/values.yaml of the first and the last tag of each,
# of 0.37 of 0.37.0-rc.1), without holes from OLDEST_VERSION on; of later ones it is not known.
DEFAULT_KUBERNETES = {26: 32, 27: 33, 28: 33, 29: 33, 30: 34, 31: 34, 32: 35, 33: 35, 34: 35, 35: 36, 36: 36, 37: 36}
# The newest patch of each minor version (git tags), by which an upgrade over several minor versions goes.
NEWEST_PATCH = {26: 5, 27: 3, 28: 2, 29: 3, 30: 5, 31: 3, 32: 3, 33: 4, 34: 7, 35: 3, 36: 1}
# CoreDNS that the syncer starts, by minor version of the virtual cluster's Kubernetes (pkg/constants/coredns.go of 0.26 to 0.37.0-rc.1, none
# of which knows Kubernetes 1.37). A version that the syncer does not know gets the image of the newest one that it knows
# (pkg/coredns/coredns.go), which is listed by the first minor version of the chart that has it.
COREDNS_REPOSITORY = "coredns/coredns"
COREDNS = {30: "1.11.3", 31: "1.11.3", 32: "1.11.3", 33: "1.12.0", 34: "1.12.1", 35: "1.14.1", 36: "1.14.2"}
NEWEST_KUBERNETES = {26: 32, 27: 33, 30: 34, 32: 35, 35: 36}
# The first patch of a minor version of the chart in which tenants with Kubernetes 1.33 or older become ready on newer hosts (#3578).
OLD_TENANT_FIX = {35: 3, 36: 1}

# Annotations that `vcluster pause` writes to the workload, too (pkg/lifecycle, constants): either resumes what the other paused.
PAUSED, PAUSED_REPLICAS, PAUSED_DATE = "loft.sh/paused", "loft.sh/paused-replicas", "loft.sh/paused-date"
# Annotation of a workload whose database is being replaced by a backup, with the digest of that. A restore that was cut off leaves it.
RESTORING = "kubegpu.tenancy/restoring"

# Keys of values that were removed: the first version without them, and what to write instead (diffs of values.schema.json).
MOVED: tuple[tuple[str, tuple[int, int], str], ...] = (
    ("controlPlane.distro.k0s", (0, 26), "controlPlane.distro.k8s"),
    ("experimental.genericSync", (0, 28), "nothing: it was removed"),
    ("experimental.isolatedControlPlane", (0, 28), "nothing: it was removed"),
    ("experimental.syncSettings.targetNamespace", (0, 30), "nothing: it was removed"),
    ("policies.networkPolicy.outgoingConnections", (0, 31), "policies.networkPolicy.workload.publicEgress"),
    ("policies.networkPolicy.extraWorkloadRules", (0, 31), "policies.networkPolicy.workload.ingress and egress"),
    ("policies.networkPolicy.extraControlPlaneRules", (0, 31), "policies.networkPolicy.controlPlane.ingress and egress"),
    ("external", (0, 32), "platform, sleep, deletion and snapshots on the first level"),
    ("controlPlane.distro.k3s", (0, 33), "controlPlane.distro.k8s"),
    ("sync.toHost.volumeSnapshots", (0, 36), "nothing: it was removed"),
    ("sync.toHost.volumeSnapshotContents", (0, 36), "nothing: it was removed"),
    ("sync.fromHost.volumeSnapshotClasses", (0, 36), "nothing: it was removed"),
    # Still in the schema, refused by chart/templates/_validate.tpl.
    ("deploy.volumeSnapshotController", (0, 36), "nothing: it was removed"),
    ("rbac.enableVolumeSnapshotRules", (0, 36), "nothing: it was removed"),
)

# Values that need a licence or a login to the vendor's platform: without it the control plane crashes on start
# (config/config.go IsProFeatureEnabled, pkg/pro, the vendor's table of products, and its list of licensed features in
# loft-sh/admin-apis pkg/licenseapi/features.go).
LICENSED = {
    "controlPlane.advanced.kubeVip.enabled": "kube-vip",
    "controlPlane.backingStore.database.external.enabled": "external database",
    "controlPlane.backingStore.etcd.embedded.enabled": "embedded etcd",
    "controlPlane.coredns.embedded": "embedded CoreDNS",
    "controlPlane.hostPathMapper.central": "central hostPath mapper",
    "controlPlane.standalone.enabled": "standalone mode",
    "deletion": "automatic deletion",
    "experimental.denyProxyRequests": "denial of proxy requests",
    "experimental.proxy.customResources": "proxied custom resources",
    "integrations.argoCD.enabled": "Argo CD integration",
    "integrations.certManager.enabled": "cert-manager integration",
    "integrations.externalSecrets.enabled": "External Secrets integration",
    "integrations.istio.enabled": "Istio integration",
    "integrations.kubeVirt.enabled": "KubeVirt integration",
    "integrations.netris.enabled": "Netris integration",
    "networking.resolveDNS": "DNS resolution rules",
    "platform": "platform connection",
    "policies.centralAdmission.mutatingWebhooks": "central admission",
    "policies.centralAdmission.validatingWebhooks": "central admission",
    "privateNodes.enabled": "private nodes",
    "sleep": "sleep mode",
    "snapshots": "scheduled snapshots",
    "sync.fromHost.customResources": "sync of custom resources",
    "sync.fromHost.deviceClasses.enabled": "sync of DRA device classes",
    "sync.toHost.customResources": "sync of custom resources",
    "sync.toHost.namespaces.enabled": "sync of namespaces",
    "sync.toHost.pods.hybridScheduling.enabled": "hybrid scheduling",
    "sync.toHost.resourceClaimTemplates.enabled": "sync of DRA claims",
    "sync.toHost.resourceClaims.enabled": "sync of DRA claims",
}

# Object that exists once the API server can be used, because its controllers create it; only clients with credentials get it.
READY_PATH = "/api/v1/namespaces/default/serviceaccounts/default"
DNS_PATH = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"

# Changes of the backing store, from and to, that the control plane takes (config/config.go ValidateStoreChanges).
STORE_MOVES = (("database embedded", "etcd deploy"), ("etcd external", "etcd deploy"))

POD_SECURITY_LEVELS = ("privileged", "baseline", "restricted")

# Bounds of a tenant's namespace on the host, by their names in a ResourceQuota. They count everything in it: the control plane,
# CoreDNS, KAI Scheduler, then the tenant's own. The control plane's Service takes two node ports, so a tenant gets none. The
# chart's own bounds (20 pods, 512Mi, no node port) starve KAI Scheduler and refuse a NodePort Service.
QUOTA: dict[str, str | int] = {
    "requests.cpu": "64",
    "requests.memory": "256Gi",
    "requests.storage": "500Gi",
    "requests.ephemeral-storage": "200Gi",
    "limits.cpu": "256",
    "limits.memory": "512Gi",
    "limits.ephemeral-storage": "1Ti",
    "services.nodeports": 2,
    "services.loadbalancers": 1,
    "count/endpoints": 100,
    "count/pods": 150,
    "count/services": 50,
    "count/secrets": 300,
    "count/configmaps": 300,
    "count/persistentvolumeclaims": 50,
}
# What a control plane and its CoreDNS take of them: their own amounts, and the limits that BOUNDED gives containers without any.
# Seen with vCluster 0.36.1, 2026-11-22.
LEAST_QUOTA: dict[str, str | int] = {
    "requests.cpu": "120m",
    "requests.memory": "320Mi",
    "requests.storage": "5Gi",
    "requests.ephemeral-storage": "300Mi",
    "limits.cpu": "5",
    "limits.memory": "4266Mi",
    "limits.ephemeral-storage": "18Gi",
    "services.nodeports": 2,
    "count/endpoints": 4,
    "count/pods": 2,
    "count/services": 4,
    "count/secrets": 4,
    "count/configmaps": 4,
    "count/persistentvolumeclaims": 1,
}
# Names of a ResourceQuota that bound the same as one in LEAST_QUOTA (k8s.io/kubernetes, pkg/quota/v1/evaluator/core).
SAME_BOUND = {
    **{name: f"requests.{name}" for name in ("cpu", "memory", "ephemeral-storage")},
    **{name: f"count/{name}" for name in ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims")},
}
BOUNDED: Values = {
    "policies": {
        "resourceQuota": {"enabled": True, "quota": QUOTA},
        "limitRange": {
            "enabled": True,
            "default": {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "8Gi"},
            "defaultRequest": {"cpu": "50m", "memory": "128Mi", "ephemeral-storage": "100Mi"},
        },
    },
}

# The chart's policy for the pods of a control plane (templates/networkpolicy.yaml). It lets them reach any address at the ports of API
# servers, and a tenant's API server connects to what its administrator names, by its proxies and webhooks.
NETWORK_POLICY = ("networking.k8s.io/v1", "NetworkPolicy")
CONTROL_PLANE_POLICY = "vc-cp-{}"
# Where this kind is served, Cilium enforces policies, for which no ipBlock holds the cluster's own nodes, on which its API server may be
# (docs.cilium.io, Layer 3 Policies, "Selecting nodes with CIDR / ipBlock").
CILIUM = ("cilium.io/v2", "CiliumNetworkPolicy")

# The chart's network policies let a tenant's pods reach each other, their own API server, their DNS and public addresses.
# Its own exceptions from public addresses lack the one at which clouds hand out the node's credentials.
_NOT_PUBLIC = ["10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.169.254/32", "172.16.0.0/12", "192.168.0.0/16"]

_PARTIAL: Values = deep_merge(
    BOUNDED,
    {
        "policies": {
            "podSecurityStandard": "baseline",
            "networkPolicy": {"enabled": True, "workload": {"publicEgress": {"except": _NOT_PUBLIC}}},
        },
        # Otherwise a pod's token for the tenant's API server is an annotation of the pod on the host.
        "sync": {"toHost": {"pods": {"useSecretsForSATokens": True}}},
    },
)

# Label of the host's runtime and storage classes that tenants of trust zero may use: the chart selects classes by labels only.
LISTED_CLASS = "kubegpu.tenancy/trust-zero"
_LISTED_ONLY: Values = {"enabled": True, "selector": {"matchExpressions": [{"key": LISTED_CLASS, "operator": "Exists"}]}}
# Its value where this collection sets it; people set others.
LISTED_BASIC = "basic"
RUNTIME_CLASS = ("node.k8s.io/v1", "RuntimeClass")
CLASSES = (RUNTIME_CLASS, ("storage.k8s.io/v1", "StorageClass"))

# Of all pods that the syncer makes on the host cluster, in place of a class that they name (pkg/controllers/resources/pods/translate/translator.go).
SYNCED_RUNTIME_CLASS = "sync.toHost.pods.runtimeClassName"

# Values that each trust profile adds (docs/explanation/isolation.md). None is a boundary against a user who breaks out of a container, because
# tenants share kernels.
TRUST_PROFILES: dict[str, Values] = {
    "high": {},
    "partial": _PARTIAL,
    "zero": deep_merge(
        _PARTIAL,
        {
            "policies": {"podSecurityStandard": "restricted"},
            # No priority class is synced by default, and pods lose theirs on the host.
            "sync": {"fromHost": {"runtimeClasses": _LISTED_ONLY, "storageClasses": _LISTED_ONLY}},
        },
    ),
}
# The first version with publicEgress.
PROFILES_SINCE = (0, 31)
# The first patch of a minor version of the chart in which a tenant gets from its nodes' kubelets only what is its own; later minors
# begin with it (pkg/server/filters/metrics.go, #3723).
KUBELET_FIX = {31: 3, 32: 2, 33: 2}


# Another way to write a number would pass for another version.
_NUMBER = r"(0|[1-9]\d{0,8})"
RELEASE = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}", re.ASCII)
KUBERNETES_VERSION = re.compile(rf"v1\.{_NUMBER}\.{_NUMBER}", re.ASCII)


_VERSION = re.compile(rf"{RELEASE.pattern}(-[-.0-9A-Za-z]+)?", re.ASCII)


def is_version(text: str) -> bool:
    """Tell whether a text is a version of vCluster."""
    return bool(_VERSION.fullmatch(text))


def parse_version(version: str) -> tuple[int, int, int]:
    """Return major, minor and patch of a version of vCluster.

    :raises TenancyError: for what is no such version.
    """
    parts = _VERSION.fullmatch(version)
    if not parts:
        raise refusal(
            "not-a-version", f"version: {version!r} is not a vCluster version such as 0.36.1 (three numbers, no leading v)."
        )
    return whole(parts[1]), whole(parts[2]), whole(parts[3])


def minor_version(kubernetes: str) -> str:
    """Return the minor version of a Kubernetes, such as 1.35 of v1.35.4; empty where it is none."""
    found = re.match(r"v?(\d{1,9}\.\d{1,9})", kubernetes, re.ASCII)
    return found[1] if found else ""


def cluster_role_name(name: str, namespace: str) -> str:
    """Return the name of a virtual cluster's ClusterRole and ClusterRoleBinding (chart/templates/_rbac.tpl)."""
    return f"vc-{name}-v-{namespace}"[:63].removesuffix("-")
