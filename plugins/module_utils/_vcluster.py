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

from ansible_collections.kubegpu.tenancy.plugins.module_utils import _kai_releases
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._values import Values, deep_merge

Object = dict[str, t.Any]

CHART = "vcluster"
REPOSITORY = "https://charts.loft.sh"

MANAGER = "kubegpu.tenancy"
OWNED_LABELS = {"app.kubernetes.io/managed-by": MANAGER}
TENANT_LABEL = "kubegpu.tenancy/tenant"
# Annotation of a tenant's namespace.
TRUST_NOTE = "kubegpu.tenancy/trust"
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
)

# Values that need a licence or a login to the vendor's platform: without it the control plane crashes on start
# (config/config.go IsProFeatureEnabled, pkg/pro, and the vendor's table of products).
LICENSED = {
    "controlPlane.advanced.kubeVip.enabled": "kube-vip",
    "controlPlane.backingStore.database.external.enabled": "external database",
    "controlPlane.backingStore.etcd.embedded.enabled": "embedded etcd",
    "controlPlane.coredns.embedded": "embedded CoreDNS",
    "controlPlane.hostPathMapper.central": "central hostPath mapper",
    "deletion": "automatic deletion",
    "experimental.denyProxyRequests": "denial of proxy requests",
    "experimental.proxy.customResources": "proxied custom resources",
    "integrations.certManager.enabled": "cert-manager integration",
    "integrations.externalSecrets.enabled": "External Secrets integration",
    "integrations.istio.enabled": "Istio integration",
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

POD_SECURITY_LEVELS = ("privileged", "baseline", "restricted")

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


# What each level of trust adds to a virtual cluster. None of them is a boundary against someone who breaks out
# of a container: tenants share kernels. Network policies are in none of them, because whether they are enforced
# depends on the host cluster's CNI.
TRUST_PROFILES: dict[str, Values] = {
    "high": {},
    "partial": deep_merge(_BOUNDED, {"policies": {"podSecurityStandard": "baseline"}}),
    "zero": deep_merge(_BOUNDED, {"policies": {"podSecurityStandard": "restricted"}}),
}


# --- names and versions ------------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """A Service carries the tenant's name, a StatefulSet adds eleven characters to it in a label."""
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", name):
        raise TenancyError(
            f"name: {name!r} is not a name Kubernetes accepts here: at most 52 of a-z, 0-9 and '-', "
            "a letter first, no '-' at the end."
        )


def parse_version(version: str) -> tuple[int, int, int]:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)(-|$)", version)
    if not found:
        raise TenancyError(f"version: {version!r} is not a vCluster version such as 0.36.1 (three numbers, no leading v).")
    return int(found[1]), int(found[2]), int(found[3])


def check_version(version: str, kubernetes_version: str | None = None) -> None:
    if parse_version(version)[:2] < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise TenancyError(f"version: vCluster {version} is older than {oldest}, the oldest one this collection can drive.")
    if version in BAD_VERSIONS:
        raise TenancyError(f"version: vCluster {version} is refused: {BAD_VERSIONS[version]}.")
    if kubernetes_version and not re.fullmatch(r"v1\.\d+\.\d+", kubernetes_version):
        raise TenancyError(f"kubernetes_version: {kubernetes_version!r} is not a Kubernetes version such as v1.35.4.")


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


# --- values ------------------------------------------------------------------------------------------------------


def tenant_values(
    own_scheduler: bool, node_selector: dict[str, str], trust: str, kubernetes_version: str | None, values: Values
) -> Values:
    """The Helm values of a tenant: ours, its trust profile's, then the user's own.

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
    merged = deep_merge(deep_merge(ours, TRUST_PROFILES[trust]), values)
    _refuse(merged)
    return merged


def check_moved(values: Values, version: str) -> None:
    """Refuse a user's values that the version's chart has under another name, or not at all."""
    at = parse_version(version)[:2]
    problems = [
        f"values.{path}: vCluster {version} does not have it any more. Write {now}."
        for path, gone, now in MOVED
        if at >= gone and _at(values, path) is not None
    ]
    if problems:
        raise TenancyError("\n".join(problems), problems=problems)


def has_dns(values: Values) -> bool:
    """Whether the virtual cluster gets a CoreDNS of its own, as it does by default."""
    return bool(({"enabled": True} | (_at(values, "controlPlane.coredns") or {}))["enabled"])


def _at(values: Values, path: str) -> t.Any:
    found: t.Any = values
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _has_own_scheduler(values: Values) -> bool:
    """By today's key, or by the deprecated one that still counts."""
    keys = ("controlPlane.distro.k8s.scheduler.enabled", "controlPlane.advanced.virtualScheduler.enabled")
    return any(_at(values, key) for key in keys)


def _refuse(values: Values) -> None:
    for path, feature in LICENSED.items():
        if _at(values, path):
            raise TenancyError(
                f"values.{path}: {feature} needs a vCluster licence; without one the control plane does not start."
            )
    for path in _patches(values.get("sync"), "sync"):
        raise TenancyError(f"values.{path}: patches need a vCluster licence; without one the control plane does not start.")
    # pkg/config/validation.go: the chart installs with these, the pod refuses to start.
    if _has_own_scheduler(values) and not _at(values, "sync.fromHost.nodes.enabled"):
        raise TenancyError("values.sync.fromHost.nodes.enabled: an own scheduler needs the host's nodes; it cannot be false.")
    for kind in ("storageClasses", "priorityClasses"):
        if _at(values, f"sync.fromHost.{kind}.enabled") in (True, "true") and _at(values, f"sync.toHost.{kind}.enabled"):
            raise TenancyError(f"values.sync.toHost.{kind}.enabled: {kind} are synced either from the host or to it, not both.")
    level = _at(values, "policies.podSecurityStandard")
    if level and level not in POD_SECURITY_LEVELS:
        raise TenancyError(f"values.policies.podSecurityStandard: {level!r} is not one of {', '.join(POD_SECURITY_LEVELS)}.")


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
        container = crashing_container(pod)
        if container:
            return Verdict(False, pod_state(pod), (pod["metadata"]["name"], container))
    if status.get("readyReplicas", 0) >= wanted and status.get("updatedReplicas", 0) >= wanted:
        return Verdict(True, "")
    return Verdict(False, "; ".join(map(pod_state, current)) or "the control plane has no pod yet")


def _label(item: Object, key: str) -> str | None:
    return t.cast("str | None", item["metadata"].get("labels", {}).get(key))


def _container_states(pod: Object) -> t.Iterator[tuple[str, Object]]:
    status = pod.get("status", {})
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        yield container["name"], container.get("state") or {}


def crashing_container(pod: Object) -> str | None:
    for name, state in _container_states(pod):
        if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
            return name
    return None


def pod_state(pod: Object) -> str:
    """One line about a pod that is not ready: the most telling thing its status holds."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    for container, state in _container_states(pod):
        for what in (state.get("waiting") or {}, state.get("terminated") or {}):
            if what.get("reason") not in (None, "Completed", "PodInitializing", "ContainerCreating"):
                return f"pod {name}: {container}: {what['reason']}" + (f" ({what['message']})" if what.get("message") else "")
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"pod {name}: {condition.get('reason')} ({condition.get('message', '')})"
    return f"pod {name}: {status.get('phase', 'Unknown')}, not ready"


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
