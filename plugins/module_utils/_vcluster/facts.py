# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What we know about virtual clusters: names, versions, Helm values, readiness.

Plain data in, plain data out. Upstream facts are tables; their source stands beside each row.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
import typing as t
import urllib.parse

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, refuse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Values, deep_merge
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as _kai_releases
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.validation import Claim

Object = dict[str, t.Any]
T = t.TypeVar("T")

CHART = "vcluster"
REPOSITORY = "https://charts.loft.sh"

MANAGER = "kubegpu.tenancy"
OWNED_LABELS = {"app.kubernetes.io/managed-by": MANAGER}
TENANT_LABEL = "kubegpu.tenancy/tenant"
# Annotations of a tenant's namespace: its profile, and whether its network policies were seen to be enforced.
TRUST_NOTE = "kubegpu.tenancy/trust"
NETWORK_NOTE = "kubegpu.tenancy/network-policies"
ENFORCED, UNENFORCED = "enforced", "unenforced"
# Label of a tenant's namespace whose pods a scheduler of the host cluster places, with that scheduler's name.
HOST_SCHEDULER_LABEL = "kubegpu.tenancy/scheduler"
# Taint of nodes that one tenant has for itself, with the tenant's name.
DEDICATED_TAINT = "kubegpu.tenancy/dedicated"
GPU_QUOTA = "requests.nvidia.com/gpu"
# Label of every control plane (chart/templates/statefulset.yaml).
CONTROL_PLANE = "app=vcluster"

# Label the syncer puts on the cluster-scoped objects it writes to the host (pkg/util/translate/types.go).
MARKER_LABEL = "vcluster.loft.sh/managed-by"

# Label of a synced pod: its namespace in the virtual cluster.
SYNCED_FROM_LABEL = "vcluster.loft.sh/namespace"

# What such objects can be (chart/templates/clusterrole.yaml: the rules that create).
SYNCED_CLUSTER_KINDS = (
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("v1", "PersistentVolume"),
)

# What it writes into its namespace on the host by default, but for pods and volumes (chart/values.yaml, sync.toHost).
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

# Minor version of Kubernetes that a chart's minor brings unless told otherwise (chart/values.yaml); others are not known.
DEFAULT_KUBERNETES = {27: 33, 30: 34, 33: 35, 34: 35, 35: 36, 36: 36}
# The first patch of a chart's minor in which tenants with Kubernetes 1.33 or older become ready on newer hosts (#3578).
OLD_TENANT_FIX = {35: 3, 36: 1}

# What `vcluster pause` writes to the workload (pkg/lifecycle, constants), so that either can resume the other's.
PAUSED, PAUSED_REPLICAS, PAUSED_DATE = "loft.sh/paused", "loft.sh/paused-replicas", "loft.sh/paused-date"

# Keys of values that are gone: the first version without them, and what to write now (diffs of chart/values.schema.json).
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

# What an API server that can be used answers, and nobody without credentials: its controllers made the object.
READY_PATH = "/api/v1/namespaces/default/serviceaccounts/default"
DNS_PATH = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"

# From which store the control plane goes to which (config/config.go ValidateStoreChanges).
STORE_MOVES = (("database embedded", "etcd deploy"), ("etcd external", "etcd deploy"))

# Of a container that keeps crashing: the kubelet has waited 10 and 20 seconds by then.
HOPELESS_RESTARTS = 3
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WRONG = re.compile(r"error|fatal|panic|failed|\bfull\b|no space", re.IGNORECASE)

POD_SECURITY_LEVELS = ("privileged", "baseline", "restricted")

# What else the control plane does not start with, though the chart installs it. The syntax is Kubernetes' own, except for
# tolerations (pkg/util/toleration), mappings (pkg/config/validation.go) and services (pkg/controllers/register.go).
_LABEL = r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
_NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_OBJECT = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_LABEL_KEY = re.compile(rf"({_OBJECT}/)?{_LABEL}", re.ASCII)
_LABEL_VALUE = re.compile(rf"({_LABEL})?", re.ASCII)
_TOLERATION = re.compile(rf"\*|[^:=]*(=({_LABEL})?)?(:(NoSchedule|PreferNoSchedule|NoExecute)?)?", re.ASCII)
# Both sides of a mapping from the host, with "=" between. Without a namespace on the left, it is the tenant's own one.
_MAPPINGS = {
    "configMaps": re.compile(
        rf"({_NAMESPACE})?/({_OBJECT})?={_NAMESPACE}/({_OBJECT}|\*)?|({_NAMESPACE})?/\*={_NAMESPACE}/\*"
        rf"|={_NAMESPACE}(/({_OBJECT}|\*)?)?"
    ),
    "gateways": re.compile(rf"{_NAMESPACE}/{_OBJECT}={_NAMESPACE}/{_OBJECT}|{_NAMESPACE}/\*={_NAMESPACE}/\*"),
}
_MAPPINGS["secrets"] = _MAPPINGS["configMaps"]
_SERVICES = {
    "fromHost": {"from": re.compile(r"[^/]+(/[^/]+)?"), "to": re.compile(r"[^/]+/[^/]+")},
    "toHost": {"from": re.compile(r"[^/]+/[^/]+"), "to": re.compile(r"[^/]+")},
}
_SELECTED = ("runtimeClasses", "ingressClasses", "gatewayClasses", "priorityClasses", "storageClasses")

# A quota counts everything in the tenant's namespace on the host: the control plane (limit 4Gi), CoreDNS, about
# ten KAI pods, then the tenant's own. The control plane's Service takes two node ports, so a tenant gets none.
# The chart's own limits (20 pods, 512Mi, no node port) starve KAI and refuse a NodePort Service.
_BOUNDED: Values = {
    "policies": {
        "resourceQuota": {
            "enabled": True,
            "quota": {
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
            },
        },
        "limitRange": {
            "enabled": True,
            "default": {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "8Gi"},
            "defaultRequest": {"cpu": "50m", "memory": "128Mi", "ephemeral-storage": "100Mi"},
        },
    },
}


# The chart's network policies let a tenant's pods reach each other, their own API server, their DNS and public addresses.
# Its own list of exceptions leaves out the address at which clouds hand the node's credentials to whoever asks.
_NOT_PUBLIC = ["10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.169.254/32", "172.16.0.0/12", "192.168.0.0/16"]

_PARTIAL: Values = deep_merge(
    _BOUNDED,
    {
        "policies": {
            "podSecurityStandard": "baseline",
            "networkPolicy": {"enabled": True, "workload": {"publicEgress": {"except": _NOT_PUBLIC}}},
        },
        # Otherwise a pod's token for the tenant's API server is an annotation, for all who may read pods on the host.
        "sync": {"toHost": {"pods": {"useSecretsForSATokens": True}}},
    },
)

# Label of the host's classes that tenants of trust zero may use: the chart's selectors know classes by their labels only.
LISTED_CLASS = "kubegpu.tenancy/trust-zero"
_LISTED_ONLY: Values = {"enabled": True, "selector": {"matchExpressions": [{"key": LISTED_CLASS, "operator": "Exists"}]}}
# Its value where we set it; people set others.
LISTED_BY_US = "basic"
CLASSES = (("node.k8s.io/v1", "RuntimeClass"), ("storage.k8s.io/v1", "StorageClass"))

# What each level of trust adds to a virtual cluster, as docs/trust.md tells. None of them is a boundary against someone
# who breaks out of a container: tenants share kernels.
TRUST_PROFILES: dict[str, Values] = {
    "high": {},
    "partial": _PARTIAL,
    "zero": deep_merge(
        _PARTIAL,
        {
            "policies": {"podSecurityStandard": "restricted"},
            # Of priority classes none is synced by default, and pods lose theirs on the host.
            "sync": {"fromHost": {"runtimeClasses": _LISTED_ONLY, "storageClasses": _LISTED_ONLY}},
        },
    ),
}
# The first version with publicEgress.
_PROFILES_SINCE = (0, 31)


# --- names and versions ------------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """A Service carries the tenant's name, a StatefulSet adds eleven characters to it in a label."""
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", name):
        raise TenancyError(
            f"name: {name!r} is not a name Kubernetes accepts here: at most 52 of a-z, 0-9 and '-', "
            "a letter first, no '-' at the end."
        )


def check_namespace(namespace: str | None) -> None:
    """Without one, it follows from the name."""
    if namespace and not re.fullmatch(_NAMESPACE, namespace):
        raise TenancyError(
            f"namespace: {namespace!r} is not a name Kubernetes accepts here: at most 63 of a-z, 0-9 and '-', no '-' at the ends."
        )


def check_node_selector(labels: dict[str, t.Any]) -> None:
    def problems() -> t.Iterator[str]:
        for key, value in labels.items():
            if not _LABEL_KEY.fullmatch(key):
                yield f"node_selector.{key}: is not the name of a label."
            if not isinstance(value, str):
                yield f"node_selector.{key}: must be a string, not {value!r}; quote it."
            elif not _LABEL_VALUE.fullmatch(value):
                yield f"node_selector.{key}: {value!r} is not the value of a label."

    refuse(problems())


def check_url(option: str, url: str | None, schemes: tuple[str, ...]) -> None:
    """Refuse what no client could use as an address; none is fine."""
    try:
        parts = urllib.parse.urlsplit(url or "")
        # Asking for a port that is none raises.
        right = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if url and not right:
        raise TenancyError(f"{option}: {url!r} is not an address such as {schemes[0]}://host.example:6443.")


def parse_version(version: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(-[-.0-9A-Za-z]+)?", version)
    if not found:
        raise TenancyError(f"version: {version!r} is not a vCluster version such as 0.36.1 (three numbers, no leading v).")
    return int(found[1]), int(found[2]), int(found[3])


def check_version(version: str, kubernetes_version: str | None = None) -> None:
    problems = []
    if parse_version(version)[:2] < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        problems.append(f"version: vCluster {version} is older than {oldest}, the oldest one this collection can drive.")
    if version in BAD_VERSIONS:
        problems.append(f"version: vCluster {version} is refused: {BAD_VERSIONS[version]}.")
    if kubernetes_version and not re.fullmatch(r"v1\.\d+\.\d+", kubernetes_version):
        problems.append(f"kubernetes_version: {kubernetes_version!r} is not a Kubernetes version such as v1.35.4.")
    refuse(problems)


def check_upgrade(current: str, wanted: str) -> None:
    """Upstream tests upgrades of one minor at a time, and never a way back."""
    have, want = parse_version(current), parse_version(wanted)
    told = "force_version does it all the same."
    if want < have:
        raise TenancyError(f"version: vCluster {current} is running; going back to {wanted} is not supported upstream. {told}")
    if want[0] != have[0] or want[1] > have[1] + 1:
        raise TenancyError(
            f"version: vCluster {current} is running; {wanted} skips a minor version. Go to {have[0]}.{have[1] + 1} first. {told}"
        )


def check_skew(version: str, kubernetes_version: str | None, host_version: str) -> None:
    """Refuse a tenant whose pods would never become ready on a newer host.

    :arg kubernetes_version: of the tenant; None for the chart's own.
    :arg host_version: of the host cluster's API server.
    """
    _major, minor, patch = parse_version(version)
    host = re.match(r"v1\.(\d+)", host_version)
    tenant = int(kubernetes_version.split(".")[1]) if kubernetes_version else DEFAULT_KUBERNETES.get(minor)
    fixed = minor > max(OLD_TENANT_FIX) or patch >= OLD_TENANT_FIX.get(minor, patch + 1)
    if host and tenant and tenant <= 33 and int(host[1]) >= 34 and not fixed:
        raise TenancyError(
            f"kubernetes_version: with vCluster {version}, pods of a tenant with Kubernetes 1.{tenant} never become ready on a host "
            f"with {host_version} (loft-sh/vcluster#3578). Take v1.34 or later for the tenant, or vCluster 0.35.3, 0.36.1 or later."
        )


def cluster_role_name(name: str, namespace: str) -> str:
    """As chart/templates/_rbac.tpl makes it."""
    return f"vc-{name}-v-{namespace}"[:63].removesuffix("-")


def marker(name: str, namespace: str) -> str:
    """The value of MARKER_LABEL on cluster-scoped objects, as pkg/util/translate makes it."""
    full = f"{namespace}-x-{name}"
    if len(full) <= 63:
        return full
    return f"{full[:52]}-{hashlib.sha256(full.encode()).hexdigest()[:10]}".replace(".-", "-")


# --- trust -------------------------------------------------------------------------------------------------------


def check_trust(trust: str, version: str) -> None:
    if trust != "high" and parse_version(version)[:2] < _PROFILES_SINCE:
        oldest = ".".join(map(str, _PROFILES_SINCE))
        raise TenancyError(
            f"trust: {trust} needs vCluster {oldest} or later, whose network policies it sets; {version} was asked for."
        )


def makes_network_policies(values: Values) -> bool:
    """Whether what these values promise rests on a network that enforces policies."""
    return bool(_at(values, "policies.networkPolicy.enabled"))


def trust_values(trust: str, kai: bool) -> Values:
    """The values of a profile.

    :arg kai: KAI Scheduler is to run in the virtual cluster. Its operator (templates/services/operator.yaml) and its reservation
        pods (pkg/binder/binding/resourcereservation) have no security context, and no value gives them one, so that `restricted`
        would refuse them: `baseline` is the strictest level that lets it schedule. It holds for all namespaces or none.
    """
    profile = TRUST_PROFILES[trust]
    if kai and _at(profile, "policies.podSecurityStandard") == "restricted":
        return deep_merge(profile, {"policies": {"podSecurityStandard": "baseline"}})
    return profile


def classes_to_list(classes: t.Iterable[Object]) -> list[Object]:
    """Those of the host's runtime and storage classes that lack the label by which a tenant of trust zero gets them.

    They are NVIDIA's runtime class, without which no pod gets a GPU, and the default storage class, without which an own scheduler
    places no pod with a volume. Further ones are listed by labelling them.
    """
    return [item for item in classes if _is_basic(item) and LISTED_CLASS not in (item["metadata"].get("labels") or {})]


def _is_basic(item: Object) -> bool:
    if item["kind"] == "RuntimeClass":
        return bool(item["metadata"]["name"] == "nvidia")
    return (item["metadata"].get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true"


# --- values ------------------------------------------------------------------------------------------------------


def tenant_values(
    own_scheduler: bool,
    node_selector: dict[str, str],
    trust: str,
    kubernetes_version: str | None,
    values: Values,
    *,
    host_kai: bool = False,
    gpu_quota: int | None = None,
    dedicated_to: str = "",
) -> Values:
    """The Helm values of a tenant: ours, its trust profile's, then the user's own.

    :arg host_kai: the host cluster's KAI Scheduler places the tenant's pods.
    :arg gpu_quota: GPU devices that its pods hold at most.
    :arg dedicated_to: whose dedicated nodes' taint its pods tolerate.
    :raises TenancyError: for values the chart accepts and the control plane then dies of.
    """
    nodes: Values = {"enabled": bool(own_scheduler or node_selector)}
    if node_selector:
        nodes["selector"] = {"labels": node_selector}
    elif own_scheduler:
        nodes["selector"] = {"all": True}
    distro: Values = {"scheduler": {"enabled": own_scheduler}}
    if kubernetes_version:
        distro["version"] = kubernetes_version
    ours: Values = {
        "controlPlane": {
            "distro": {"k8s": distro},
            # On a NodePort the serving certificate names the node, so clients need no port-forward.
            "service": {"spec": {"type": "NodePort"}},
            "statefulSet": {
                "image": {"registry": "ghcr.io", "repository": "loft-sh/vcluster-oss"},
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "200Mi"}},
            },
        },
        # Without the host's RuntimeClasses the tenant's API server refuses every pod that names `nvidia`.
        "sync": {"fromHost": {"nodes": nodes, "runtimeClasses": {"enabled": True}}},
        "telemetry": {"enabled": False},
    }
    merged = deep_merge(ours, trust_values(trust, own_scheduler))
    if gpu_quota is not None:
        merged = deep_merge(deep_merge(merged, _BOUNDED), {"policies": {"resourceQuota": {"quota": {GPU_QUOTA: gpu_quota}}}})
    if host_kai:
        # KAI follows a pod's owners, and may not read the Service that vCluster makes the owner of all it syncs.
        merged = deep_merge(merged, {"experimental": {"syncSettings": {"setOwner": False}}})
    if dedicated_to:
        tolerated = [f"{DEDICATED_TAINT}={dedicated_to}:NoSchedule"]
        merged = deep_merge(merged, {"sync": {"toHost": {"pods": {"enforceTolerations": tolerated}}}})
    merged = deep_merge(merged, values)
    refuse(_refused(merged))
    return merged


def check_moved(values: Values, version: str) -> None:
    """Refuse a user's values that the version's chart has under another name, or not at all."""
    at = parse_version(version)[:2]
    refuse(
        f"values.{path}: vCluster {version} does not have it any more. Write {now}."
        for path, gone, now in MOVED
        if at >= gone and _at(values, path) is not None
    )


def check_store(current: Values, wanted: Values) -> None:
    """A control plane that ran refuses most other stores; the ways to licensed ones are not listed here."""
    have, want = _backing_store(current), _backing_store(wanted)
    if have != want and (have, want) not in STORE_MOVES:
        raise TenancyError(
            f"values.controlPlane.backingStore: the store is {have}; the control plane does not start when it becomes {want}."
        )


def has_dns(values: Values) -> bool:
    """Whether the virtual cluster gets a CoreDNS of its own, as it does by default."""
    return bool(({"enabled": True} | (_at(values, "controlPlane.coredns") or {}))["enabled"])


def claim(tenant: str, config: Values) -> Claim:
    """What a virtual cluster with these values may take of the nodes that it uses."""
    quota = _at(config, "policies.resourceQuota") or {}
    bound = (quota.get("quota") or {}).get(GPU_QUOTA) if quota.get("enabled") in (True, "true") else None
    host_kai = _at(config, "experimental.syncSettings.setOwner") is False
    return Claim(tenant, _has_own_scheduler(config), host_kai, None if bound is None else int(bound))


def uses(config: Values, labels: dict[str, str]) -> bool:
    """Whether a virtual cluster with these values knows a node with these labels."""
    nodes = _at(config, "sync.fromHost.nodes") or {}
    return bool(nodes.get("enabled")) and (_at(nodes, "selector.labels") or {}).items() <= labels.items()


def _at(values: Values, path: str) -> t.Any:
    found: t.Any = values
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _has_own_scheduler(values: Values) -> bool:
    """By today's key, or by the deprecated one that still counts."""
    keys = ("controlPlane.distro.k8s.scheduler.enabled", "controlPlane.advanced.virtualScheduler.enabled")
    return any(_at(values, key) for key in keys)


def _refused(values: Values) -> t.Iterator[str]:
    """What the chart installs, and the pod then refuses to start with: without a licence, or at all."""
    for path, feature in LICENSED.items():
        found = _at(values, path)
        # A section on the first level counts by being there, even empty.
        if found or (found == {} and "." not in path):
            yield f"values.{path}: {feature} needs a vCluster licence; without one the control plane does not start."
    for path in _patches(values.get("sync"), "sync"):
        yield f"values.{path}: patches need a vCluster licence; without one the control plane does not start."
    yield from _conflicts(values)
    yield from _illegible(values)


def _conflicts(values: Values) -> t.Iterator[str]:
    """Values that contradict each other (pkg/config/validation.go)."""
    if _has_own_scheduler(values) and not _at(values, "sync.fromHost.nodes.enabled"):
        yield "values.sync.fromHost.nodes.enabled: an own scheduler needs the host's nodes; it cannot be false."
    for kind in ("storageClasses", "priorityClasses"):
        if _at(values, f"sync.fromHost.{kind}.enabled") in (True, "true") and _at(values, f"sync.toHost.{kind}.enabled"):
            yield f"values.sync.toHost.{kind}.enabled: {kind} are synced either from the host or to it, not both."
    replicas = _at(values, "controlPlane.statefulSet.highAvailability.replicas")
    if isinstance(replicas, int) and replicas > 1 and _backing_store(values) == "database embedded":
        yield (
            "values.controlPlane.statefulSet.highAvailability.replicas: the embedded database has one writer, so it cannot be "
            f"{replicas}. More need controlPlane.backingStore.etcd.deploy."
        )
    if _at(values, "controlPlane.endpoint"):
        yield "values.controlPlane.endpoint: is only for private nodes, which need a vCluster licence."
    budget = _at(values, "controlPlane.advanced.podDisruptionBudget") or {}
    if all(_at(budget, key) is not None for key in ("minAvailable", "maxUnavailable")) and _at(budget, "enabled"):
        yield "values.controlPlane.advanced.podDisruptionBudget: takes minAvailable or maxUnavailable, not both."


def _illegible(values: Values) -> t.Iterator[str]:
    """Texts the control plane cannot read; of wrong types the chart's schema tells."""
    level = _at(values, "policies.podSecurityStandard")
    if level and level not in POD_SECURITY_LEVELS:
        yield f"values.policies.podSecurityStandard: {level!r} is not one of {', '.join(POD_SECURITY_LEVELS)}."
    for index, text in enumerate(_entries(values, "sync.toHost.pods.enforceTolerations", str)):
        if not _TOLERATION.fullmatch(text):
            yield f"values.sync.toHost.pods.enforceTolerations[{index}]: {text!r} is not a toleration such as key=value:NoSchedule."
    server = _at(values, "exportKubeConfig.server")
    if isinstance(server, str) and server and not server.startswith(("https://", "http://")):
        yield f"values.exportKubeConfig.server: {server!r} does not start with https://."
    grants = _at(values, "sync.toHost.gatewayApi.referenceGrants.enabled")
    if grants not in (None, "", True, False, "auto", "true", "false"):
        yield f"values.sync.toHost.gatewayApi.referenceGrants.enabled: {grants!r} is not one of auto, true, false."
    for kind in _MAPPINGS:
        yield from _bad_mappings(values, kind)
    for way, patterns in _SERVICES.items():
        path = f"networking.replicateServices.{way}"
        for index, service in enumerate(_entries(values, path, dict)):
            for end, pattern in patterns.items():
                if not pattern.fullmatch(str(service.get(end, ""))):
                    wanted = "namespace/service" if pattern.fullmatch("a/b") else "service, without a namespace"
                    yield f"values.{path}[{index}].{end}: {service.get(end)!r} does not have the form {wanted}."
    for kind in _SELECTED:
        yield from _bad_selector(values, f"sync.fromHost.{kind}.selector")


def _bad_mappings(values: Values, kind: str) -> t.Iterator[str]:
    path = f"sync.fromHost.{kind}.mappings.byName"
    if _at(values, f"sync.fromHost.{kind}.enabled"):
        mappings = _at(values, path)
        if not mappings:
            yield f"values.{path}: is empty. Say what is synced, such as a/*: b/* for what is in the host's namespace a."
        for source, target in mappings.items() if isinstance(mappings, dict) else ():
            if not _MAPPINGS[kind].fullmatch(f"{source}={target}"):
                yield f"values.{path}: {source!r} to {target!r} is not a mapping such as a/name: b/name or a/*: b/*."


def _bad_selector(values: Values, path: str) -> t.Iterator[str]:
    """The schema takes any text for an operator, and values with each of them."""
    for index, expression in enumerate(_entries(values, f"{path}.matchExpressions", dict)):
        operator, listed = expression.get("operator"), bool(expression.get("values"))
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield f"values.{path}.matchExpressions[{index}].operator: {operator!r} is not one of In, NotIn, Exists, DoesNotExist."
        elif listed != (operator in ("In", "NotIn")):
            yield f"values.{path}.matchExpressions[{index}].values: In and NotIn need some, Exists and DoesNotExist take none."
    labels = _at(values, f"{path}.matchLabels")
    for label, value in labels.items() if isinstance(labels, dict) else ():
        if isinstance(value, str) and not _LABEL_VALUE.fullmatch(value):
            yield f"values.{path}.matchLabels.{label}: {value!r} is not the value of a label."


def _entries(values: Values, path: str, kind: type[T]) -> list[T]:
    """A list of one type; what else is there, the chart's schema refuses."""
    found = _at(values, path)
    return found if isinstance(found, list) and all(isinstance(item, kind) for item in found) else []


def _patches(tree: t.Any, path: str) -> t.Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "patches" and value:
                yield f"{path}.{key}"
            else:
                yield from _patches(value, f"{path}.{key}")


# --- pauses ------------------------------------------------------------------------------------------------------


def is_paused(workload: Object) -> bool:
    return (workload["metadata"].get("annotations") or {}).get(PAUSED) == "true" and workload["spec"].get("replicas") == 0


def paused(workload: Object, now: datetime.datetime) -> dict[str, str | None]:
    """The annotations of a workload that is scaled to nothing, and can be scaled back."""
    replicas = str(workload["spec"].get("replicas", 1) or 1)
    return {PAUSED: "true", PAUSED_REPLICAS: replicas, PAUSED_DATE: now.isoformat(timespec="seconds")}


def resumed(workload: Object) -> dict[str, t.Any]:
    """``replicas`` and ``annotations`` of a paused workload that is to run again."""
    replicas = (workload["metadata"].get("annotations") or {}).get(PAUSED_REPLICAS, "1")
    return {"replicas": int(replicas), "annotations": dict.fromkeys((PAUSED, PAUSED_REPLICAS, PAUSED_DATE))}


# --- readiness ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the control plane's objects say.

    :ivar seen: one line about what is not ready.
    :ivar crashed: (pod, container) that crashes again and again, for its log.
    """

    ready: bool
    seen: str
    crashed: tuple[str, str] | None = None


def judge(workload: Object | None, pods: list[Object]) -> Verdict:
    """Whether the control plane runs as last asked for.

    :arg workload: its StatefulSet, or its Deployment when it keeps no data.
    :arg pods: those of its release, of any revision.
    """
    if workload is None:
        return Verdict(False, "the control plane's StatefulSet does not exist yet")
    status, wanted = workload.get("status", {}), workload["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return Verdict(False, "the controller has not seen the latest change yet")
    revision = status.get("updateRevision")
    current = [pod for pod in pods if not revision or _label(pod, "controller-revision-hash") == revision]
    for pod in current:
        # One on its way out crashes no more.
        container = None if "deletionTimestamp" in pod["metadata"] else crashing_container(pod)
        if container:
            return Verdict(False, pod_state(pod), (pod["metadata"]["name"], container))
    if status.get("readyReplicas", 0) >= wanted and status.get("updatedReplicas", 0) >= wanted:
        return Verdict(True, "")
    return Verdict(False, "; ".join(map(pod_state, current)) or "the control plane has no pod yet")


def _label(item: Object, key: str) -> str | None:
    return t.cast("str | None", item["metadata"].get("labels", {}).get(key))


def _container_statuses(pod: Object) -> list[Object]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def crashing_container(pod: Object) -> str | None:
    """The container that crashes again and again; once or twice is what a host's restart does to it, before its network is there."""
    for status in _container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == "CrashLoopBackOff" and status.get("restartCount", 0) >= HOPELESS_RESTARTS:
            return str(status["name"])
    return None


def pod_state(pod: Object) -> str:
    """One line about a pod that is not ready: the most telling thing its status holds."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    for found in _container_statuses(pod):
        container, state = found["name"], found.get("state") or {}
        for what in (state.get("waiting") or {}, state.get("terminated") or {}):
            if what.get("reason") not in (None, "Completed", "PodInitializing", "ContainerCreating"):
                return f"pod {name}: {container}: {what['reason']}" + (f" ({what['message']})" if what.get("message") else "")
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"pod {name}: {condition.get('reason')} ({condition.get('message', '')})"
    return f"pod {name}: {status.get('phase', 'Unknown')}, not ready"


def last_words(log: str) -> str:
    """The end of a control plane's log: the last three lines about what went wrong, for the first to fail takes others along."""
    lines = [_COLOUR.sub("", line).strip() for line in log.splitlines() if line.strip()]
    wrong = [line for line in lines if _WRONG.search(line)]
    return " | ".join(wrong[-3:] or lines[-1:])


# --- what is there -----------------------------------------------------------------------------------------------


def describe(workload: Object, namespace: Object | None, config: Values, pods: list[Object], volumes: list[Object]) -> Object:
    """One virtual cluster, by what lies on the host cluster.

    :arg workload: its StatefulSet or Deployment.
    :arg namespace: the one it is in.
    :arg config: its whole configuration, from the Secret vc-config-<name>.
    :arg pods: those in its namespace, synced ones as well.
    :arg volumes: claims in its namespace.
    """
    metadata, name = workload["metadata"], workload["metadata"]["name"]
    labels, notes = ((namespace or {}).get("metadata", {}).get(key) or {} for key in ("labels", "annotations"))
    spec = workload["spec"]["template"]["spec"]
    images = {container["name"]: container["image"] for container in [*(spec.get("initContainers") or []), *spec["containers"]]}
    own = [pod for pod in pods if _label(pod, "app") == "vcluster" and _label(pod, "release") == name]
    verdict = judge(workload, own)
    tenant = labels.get(TENANT_LABEL) if OWNED_LABELS.items() <= labels.items() else None
    return {
        "name": name,
        "namespace": metadata["namespace"],
        "tenant": tenant,
        "trust": notes.get(TRUST_NOTE),
        "network_policies": notes.get(NETWORK_NOTE),
        "version": str(_label(workload, "chart") or "").removeprefix(f"{CHART}-"),
        "state": _state(workload, verdict),
        "reason": "" if is_paused(workload) else verdict.seen,
        "kubernetes_version": next((tag for ref in images.values() if (tag := _tag(ref)).startswith("v1.")), None),
        "scheduler": _scheduler(config, pods),
        "nodes": (_at(config, "sync.fromHost.nodes.selector.labels") or {})
        if _at(config, "sync.fromHost.nodes.enabled")
        else None,
        "backing_store": _backing_store(config),
        "volumes": {
            claim["metadata"]["name"]: claim.get("status", {}).get("capacity", {}).get("storage")
            for claim in volumes
            if claim["metadata"]["name"].startswith(f"data-{name}-")
        },
        "images": images,
        "created": metadata.get("creationTimestamp"),
    }


def _state(workload: Object, verdict: Verdict) -> str:
    if is_paused(workload):
        return "paused"
    return "running" if verdict.ready else "crashing" if verdict.crashed else "starting"


def _tag(ref: str) -> str:
    return ref.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _scheduler(config: Values, pods: list[Object]) -> Object:
    """The scheduler that runs in it: KAI's by its synced pod, else Kubernetes' own, or none but the host's."""
    for pod in pods:
        if _label(pod, SYNCED_FROM_LABEL) == _kai_releases.NAMESPACE and _label(pod, "app") in _kai_releases.SCHEDULERS:
            return {"name": "kai", "version": _tag(pod["spec"]["containers"][0]["image"])}
    return {"name": "kube-scheduler"} if _has_own_scheduler(config) else {}


def _backing_store(config: Values) -> str:
    store = _at(config, "controlPlane.backingStore") or {}
    for kind, ways in (("etcd", ("embedded", "deploy", "external")), ("database", ("embedded", "external"))):
        for way in ways:
            if _at(store, f"{kind}.{way}.enabled"):
                return f"{kind} {way}"
    return "database embedded"
