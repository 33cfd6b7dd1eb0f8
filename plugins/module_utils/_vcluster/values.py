# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Helm values of a tenant's virtual cluster, what such values mean, and the metadata that others know a tenant by. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import re
import typing as t

from .._common.names import DEDICATED_TAINT, HOST_SCHEDULER_LABEL, TENANT_LABEL
from .._common.ownership import OWNED_LABELS, annotations_of, labels_of
from .._common.quantity import devices_or_none, whole
from .._common.values import JsonObject, Values, deep_merge, moment, value_at
from .._nodes.validation import Claim
from .facts import (
    ADDED_IMAGE,
    BOUNDED,
    DEFAULT_KUBERNETES,
    DEFAULT_VERSION,
    EXPIRES_ANNOTATION,
    GPU_QUOTA,
    NETWORK_ANNOTATION,
    PAUSED,
    PAUSED_DATE,
    PAUSED_REPLICAS,
    TRUST_ANNOTATION,
    TRUST_PROFILES,
    parse_version,
)

if t.TYPE_CHECKING:
    from .._helm.values import Release

Params = t.Mapping[str, t.Any]

# Options that describe a virtual cluster, and what holds for a new one where they are not given.
DEFAULTS: dict[str, t.Any] = {
    "version": DEFAULT_VERSION,
    "kubernetes_version": None,
    "own_scheduler": False,
    "node_selector": {},
    "host_scheduler": None,
    "gpu_quota": None,
    "quota": {},
    "network": {},
    "sandbox": "",
    "trust": "high",
    "expires": None,
    "values": {},
}

_AGE = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

_SERVICES: dict[str, t.Any] = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {
        "name": {"type": "str", "required": True},
        "namespace": {"type": "str", "required": True},
        "labels": {"type": "dict", "default": {}},
        "ports": {"type": "list", "elements": "int", "required": True},
    },
}
# Option ``network`` of modules, as the documentation fragment _network describes it.
NETWORK_ARGUMENT: dict[str, t.Any] = {"type": "dict", "options": {"egress": _SERVICES, "ingress": _SERVICES}}


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The desired state of one virtual cluster.

    :ivar version: of chart and image.
    :ivar values: what helm is given.
    :ivar trust: its profile; None where a namespace records none.
    :ivar expires: age after which it is not needed; None for never.
    :ivar recorded: this is what was installed before, because nothing else was asked for.
    """

    version: str
    values: Values
    trust: str | None
    host_scheduler: str | None
    expires: str | None
    recorded: bool = False


def kubernetes_of(version: str, values: Values) -> str | None:
    """Return the version of the tenant's Kubernetes that a chart installs, such as v1.35.4; None where it is not known.

    :arg version: of the chart.
    """
    given = value_at(values, "controlPlane.distro.k8s.version") or value_at(values, "controlPlane.distro.k8s.image.tag")
    default = DEFAULT_KUBERNETES.get(parse_version(version)[1])
    return str(given) if given else f"v1.{default}.0" if default else None


def added_image(values: Values) -> str:
    """Return the image of the init container that vCluster adds to pods with a subdomain, such as those of StatefulSets; empty without one.

    It rewrites /etc/hosts (loft-sh/vcluster, pkg/controllers/resources/pods/translate/hosts.go).

    :arg values: of the chart, with or without its defaults.
    """
    rewrite = "sync.toHost.pods.rewriteHosts"
    if value_at(values, f"{rewrite}.enabled") is False:
        return ""
    registry = str(value_at(values, "controlPlane.advanced.defaultImageRegistry") or "").rstrip("/")
    image = value_at(values, f"{rewrite}.initContainer.image") or {}
    if isinstance(image, dict):
        parts = ADDED_IMAGE | {key: value for key, value in image.items() if value is not None}
        registry, image = registry or parts["registry"], f"{parts['repository']}:{parts['tag']}"
    return "/".join(filter(None, [registry, str(image)]))


def is_described(params: Params) -> bool:
    """Tell whether any option that describes the virtual cluster is given."""
    return any(params[key] is not None for key in DEFAULTS)


def with_defaults(params: Params) -> JsonObject:
    """Return the options, with the documented defaults for the options that describe the virtual cluster and are not given."""
    return dict(params) | {key: default for key, default in DEFAULTS.items() if params[key] is None}


def wanted(params: Params) -> Wanted:
    """Return the desired state that a module's options describe.

    :arg params: with defaults filled in.
    """
    values = tenant_values(
        params["own_scheduler"],
        params["node_selector"],
        params["trust"],
        params["kubernetes_version"],
        params["values"],
        host_kai=params["host_scheduler"] == "kai",
        gpu_quota=params["gpu_quota"],
        quota=params["quota"],
        network=params["network"],
        sandbox=params["sandbox"],
        dedicated_to=params["name"] if params["trust"] == "zero" else "",
    )
    return Wanted(params["version"], values, params["trust"], params["host_scheduler"], params["expires"])


def recorded(release: Release, namespace: JsonObject | None) -> Wanted:
    """Return the desired state that a release and its namespace record."""
    noted, scheduler = annotations_of(namespace), labels_of(namespace).get(HOST_SCHEDULER_LABEL)
    trust, expires = noted.get(TRUST_ANNOTATION), noted.get(EXPIRES_ANNOTATION)
    return Wanted(release.chart_version, release.values, trust, scheduler, expires, recorded=True)


def tenant_values(
    own_scheduler: bool,
    node_selector: dict[str, str],
    trust: str,
    kubernetes_version: str | None,
    values: Values,
    *,
    host_kai: bool = False,
    gpu_quota: int | None = None,
    quota: t.Mapping[str, t.Any] | None = None,
    network: t.Mapping[str, t.Any] | None = None,
    sandbox: str = "",
    dedicated_to: str = "",
) -> Values:
    """Return the Helm values of a tenant: this collection's, then its trust profile's, then the user's.

    :arg own_scheduler: pods are placed by a scheduler in the virtual cluster.
    :arg node_selector: labels of the host's nodes that it sees.
    :arg values: the user's.
    :arg host_kai: the host cluster's KAI Scheduler places the tenant's pods.
    :arg gpu_quota: GPU devices that its pods hold at most.
    :arg quota: further bounds of its namespace, by their names in a ResourceQuota, in place of the defaults.
    :arg network: services of the host cluster that its network policies let through, by direction, egress and ingress.
    :arg sandbox: RuntimeClass in which all its pods run, in place of a class that they name; empty for none.
    :arg dedicated_to: name of the tenant whose dedicated nodes' taint its pods tolerate.
    """
    merged = deep_merge(_base_values(own_scheduler, node_selector, kubernetes_version), trust_values(trust, own_scheduler))
    if bounds := dict(quota or {}) | ({} if gpu_quota is None else {GPU_QUOTA: gpu_quota}):
        merged = deep_merge(deep_merge(merged, BOUNDED), {"policies": {"resourceQuota": {"quota": bounds}}})
    if rules := _rules(network or {}):
        merged = deep_merge(merged, {"policies": {"networkPolicy": {"workload": rules}}})
    if host_kai:
        # KAI Scheduler follows a pod's owners, and may not read the Service that vCluster makes the owner of all it syncs.
        merged = deep_merge(merged, {"experimental": {"syncSettings": {"setOwner": False}}})
    return _with_synced_pods(deep_merge(merged, values), sandbox, dedicated_to)


def _with_synced_pods(values: Values, sandbox: str, dedicated_to: str) -> Values:
    """Return values with what holds for all pods that the syncer makes, also if the user's values say something else."""
    pods: Values = {"runtimeClassName": sandbox} if sandbox else {}
    if dedicated_to:
        given = value_at(values, "sync.toHost.pods.enforceTolerations") or []
        pods["enforceTolerations"] = [*given, f"{DEDICATED_TAINT}={dedicated_to}:NoSchedule"]
    return deep_merge(values, {"sync": {"toHost": {"pods": pods}}}) if pods else values


def toleration_text(toleration: JsonObject) -> str:
    """Return a toleration as the syncer reads it (pkg/util/toleration), such as nvidia.com/gpu=present:NoSchedule."""
    key, value, effect = (toleration.get(name, "") for name in ("key", "value", "effect"))
    # Without the colon, it would be compared with an empty value.
    return f"{key}:{effect}" if toleration.get("operator") == "Exists" else f"{key}={value}:{effect}"


def _rules(network: t.Mapping[str, t.Any]) -> Values:
    """Return rules of a NetworkPolicy for services, by direction; the chart adds them to those for the tenant's pods."""
    peers = {"egress": "to", "ingress": "from"}
    return {
        direction: [
            {
                peers[direction]: [
                    {
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": service["namespace"]}},
                        "podSelector": {"matchLabels": service.get("labels") or {}},
                    }
                ],
                "ports": [{"port": port, "protocol": "TCP"} for port in service["ports"]],
            }
            for service in services
        ]
        for direction, services in network.items()
        if services
    }


def _base_values(own_scheduler: bool, node_selector: dict[str, str], kubernetes_version: str | None) -> Values:
    nodes: Values = {"enabled": bool(own_scheduler or node_selector)}
    if node_selector:
        nodes["selector"] = {"labels": node_selector}
    elif own_scheduler:
        nodes["selector"] = {"all": True}
    distro: Values = {"scheduler": {"enabled": own_scheduler}}
    if kubernetes_version:
        distro["version"] = kubernetes_version
    return {
        "controlPlane": {
            "distro": {"k8s": distro},
            # On a NodePort the serving certificate names the node, so clients need no port-forward.
            "service": {"spec": {"type": "NodePort"}},
            "statefulSet": {
                "image": {"registry": "ghcr.io", "repository": "loft-sh/vcluster-oss"},
                # Half an hour to start, as upstream's own; asked each second rather than every six whether it has.
                "probes": {"startupProbe": {"periodSeconds": 1, "failureThreshold": 1800}},
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "200Mi"}},
            },
        },
        # Without the host's RuntimeClasses the tenant's API server refuses every pod that names `nvidia`.
        "sync": {"fromHost": {"nodes": nodes, "runtimeClasses": {"enabled": True}}},
        "telemetry": {"enabled": False},
    }


def trust_values(trust: str, kai: bool) -> Values:
    """Return the values of a trust profile.

    :arg kai: KAI Scheduler is to run in the virtual cluster. Its operator (templates/services/operator.yaml) and its reservation
        pods (pkg/binder/binding/resourcereservation) have no security context, and no value gives them one, so that `restricted`
        would refuse them: `baseline` is the strictest level under which it schedules. The level holds for all namespaces or none.
    """
    profile = TRUST_PROFILES[trust]
    if kai and value_at(profile, "policies.podSecurityStandard") == "restricted":
        return deep_merge(profile, {"policies": {"podSecurityStandard": "baseline"}})
    return profile


# --- metadata ----------------------------------------------------------------------------------------------------


def namespace_metadata(wanted: Wanted, network: str | None) -> JsonObject:
    """Return annotations and labels of the namespace by which others know what the tenant is; None for what it shall not have.

    :arg network: ENFORCED or UNENFORCED; None where there are no network policies.
    """
    return {
        "annotations": {TRUST_ANNOTATION: wanted.trust, NETWORK_ANNOTATION: network, EXPIRES_ANNOTATION: wanted.expires},
        "labels": {HOST_SCHEDULER_LABEL: wanted.host_scheduler},
    }


def new_namespace(tenant: str, namespace: str, metadata: JsonObject) -> JsonObject:
    """Return the namespace of a tenant, owned by this collection.

    :arg metadata: as ``namespace_metadata`` returns it.
    """
    given = {kind: {key: value for key, value in entries.items() if value} for kind, entries in metadata.items()}
    given["labels"] |= OWNED_LABELS | {TENANT_LABEL: tenant}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace} | given}


def age(text: str) -> datetime.timedelta | None:
    """Return the time that a text such as 30m, 2h or 7d says; None where it says none."""
    found = _AGE.fullmatch(text)
    return datetime.timedelta(**{_UNITS[found[2]]: whole(found[1])}) if found else None


def expiry(namespace: JsonObject | None) -> datetime.datetime | None:
    """Return when a tenant is not needed any more, by its namespace; None for never, or where that cannot be read."""
    lifetime = age(annotations_of(namespace).get(EXPIRES_ANNOTATION, ""))
    if namespace is None or lifetime is None:
        return None
    return moment(namespace["metadata"]["creationTimestamp"]) + lifetime


def pause_patch(workload: JsonObject, now: datetime.datetime) -> JsonObject:
    """Return the patch that scales a workload to nothing and notes what it was scaled to."""
    replicas = str(workload["spec"].get("replicas", 1) or 1)
    annotations = {PAUSED: "true", PAUSED_REPLICAS: replicas, PAUSED_DATE: now.isoformat(timespec="seconds")}
    return {"metadata": {"annotations": annotations}, "spec": {"replicas": 0}}


def resume_patch(workload: JsonObject) -> JsonObject:
    """Return the patch that scales a paused workload to what it was before."""
    try:
        replicas = whole(annotations_of(workload).get(PAUSED_REPLICAS, "1")) or 1
    except ValueError:
        # Others write this annotation as well; a control plane has one replica unless a user chose another number.
        replicas = 1
    return {
        "metadata": {"annotations": dict.fromkeys((PAUSED, PAUSED_REPLICAS, PAUSED_DATE))},
        "spec": {"replicas": replicas},
    }


# --- what values mean --------------------------------------------------------------------------------------------


def has_own_scheduler(values: Values) -> bool:
    """Tell whether a scheduler runs in the virtual cluster, by today's key or by the deprecated one that still counts."""
    keys = ("controlPlane.distro.k8s.scheduler.enabled", "controlPlane.advanced.virtualScheduler.enabled")
    return any(value_at(values, key) for key in keys)


def has_dns(values: Values) -> bool:
    """Tell whether the virtual cluster gets a CoreDNS of its own, as it does by default."""
    return bool(({"enabled": True} | (value_at(values, "controlPlane.coredns") or {}))["enabled"])


def pod_networks(nodes: t.Iterable[JsonObject]) -> list[str]:
    """Return the networks of a cluster's pods as CIDRs, as far as its nodes name them."""
    named = {cidr for node in nodes for cidr in node["spec"].get("podCIDRs") or filter(None, [node["spec"].get("podCIDR")])}
    networks = [ipaddress.ip_network(cidr) for cidr in named]
    by_version = ([one for one in networks if one.version == version] for version in (4, 6))
    return [str(one) for alike in by_version for one in ipaddress.collapse_addresses(alike)]  # type: ignore[type-var]


def narrowed_egress(rules: t.Sequence[JsonObject], networks: t.Sequence[str]) -> list[JsonObject]:
    """Return egress rules of a control plane's policy, of which those for any address leave out the networks of pods.

    What it has to reach, the host cluster's API server, is none of the pods in them; its tenant's own pods have a rule of their own.
    """
    if not networks:
        return list(rules)
    everywhere = []
    for address in ("0.0.0.0/0", "::/0"):
        version = ipaddress.ip_network(address).version
        inside = [one for one in networks if ipaddress.ip_network(one).version == version]
        everywhere.append({"ipBlock": {"cidr": address} | ({"except": inside} if inside else {})})
    return [rule | {"to": everywhere} if _is_for_any_address(rule) else rule for rule in rules]


def _is_for_any_address(rule: JsonObject) -> bool:
    """Tell whether a rule is for any address, as the chart has it, or as an earlier run narrowed it."""
    return all((peer.get("ipBlock") or {}).get("cidr") in ("0.0.0.0/0", "::/0") for peer in rule.get("to") or [])


def has_network_policies(values: Values) -> bool:
    """Tell whether what these values promise depends on a network that enforces policies."""
    return bool(value_at(values, "policies.networkPolicy.enabled"))


def backing_store(values: Values) -> str:
    """Return the kind of store that holds the virtual cluster's data, such as ``etcd deploy``."""
    store = value_at(values, "controlPlane.backingStore") or {}
    for kind, variants in (("etcd", ("embedded", "deploy", "external")), ("database", ("embedded", "external"))):
        for variant in variants:
            if value_at(store, f"{kind}.{variant}.enabled"):
                return f"{kind} {variant}"
    return "database embedded"


def claim(tenant: str, config: Values) -> Claim:
    """Return what a virtual cluster with these values may take of the nodes that it uses."""
    bounds = value_at(config, "policies.resourceQuota.quota")
    enabled = value_at(config, "policies.resourceQuota.enabled") in (True, "true")
    bound = bounds.get(GPU_QUOTA) if enabled and isinstance(bounds, dict) else None
    host_kai = value_at(config, "experimental.syncSettings.setOwner") is False
    # What is no amount bounds nothing that is known.
    return Claim(tenant, has_own_scheduler(config), host_kai, devices_or_none(bound))


def selected(config: Values) -> dict[str, str]:
    """Return the labels by which a virtual cluster with these values chooses the nodes that it knows; empty where it knows all, or none."""
    labels = value_at(config, "sync.fromHost.nodes.selector.labels")
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def uses(config: Values, labels: dict[str, str]) -> bool:
    """Tell whether a virtual cluster with these values knows a node with these labels."""
    if not value_at(config, "sync.fromHost.nodes.enabled"):
        return False
    return all(labels.get(key) == value for key, value in selected(config).items())
