# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a tenant's own values for vCluster's chart would reach beyond the tenant, which is refused. Pure.

The author of one tenant's values speaks for that tenant alone. But Helm installs the chart with the rights of the host cluster's
administrator, and the control plane has rights there that its tenant has not. What values do to the tenant itself is its own affair.

Sources are files of loft-sh/vcluster, v0.26 to v0.37: chart/templates, and pkg where a line says so.
"""

from __future__ import annotations

import re
import typing as t

from .._common.errors import Problem, refuse
from .._common.names import DEDICATED_TAINT, NODE_LABEL, namespace_of
from .._common.schema import named, quoted
from .._common.values import Values, value_at
from .._nodes.validation import tolerates_others

_CODE = (
    "runs in its control plane, whose service account reads the pods and nodes of the whole host cluster (clusterrole.yaml). Run it in the "
    "virtual cluster"
)
_MANIFESTS = (
    "goes to the host cluster with its administrator's rights, into any namespace (manifests.yaml). What is for the virtual cluster stands "
    "in experimental.deploy.vcluster"
)
# A value at one of these paths that is not empty is refused.
_REACHING = {
    "experimental.deploy.host.manifests": _MANIFESTS,
    "experimental.deploy.host.manifestsTemplate": _MANIFESTS,
    "experimental.genericSync": "syncs objects of any kind with the host cluster",
    "experimental.isolatedControlPlane": "has the control plane somewhere else than in the tenant's namespace",
    "experimental.syncSettings.targetNamespace": "puts the tenant's pods into another namespace than its own, with its quota and policies",
    "rbac.clusterRole.extraRules": "are rights in the whole host cluster (clusterrole.yaml)",
    "rbac.clusterRole.overwriteRules": "are rights in the whole host cluster (clusterrole.yaml)",
    "plugin": _CODE,
    "plugins": _CODE,
    "controlPlane.statefulSet.args": _CODE,
    "controlPlane.statefulSet.command": _CODE,
    "controlPlane.statefulSet.initContainers": _CODE,
    "controlPlane.statefulSet.sidecarContainers": _CODE,
    "controlPlane.distro.k8s.apiServer.command": _CODE,
    "controlPlane.distro.k8s.controllerManager.command": _CODE,
    "controlPlane.distro.k8s.scheduler.command": _CODE,
    "controlPlane.service.spec.externalIPs": "takes these addresses away from everybody else on the host cluster",
    "sync.fromHost.nodes.syncBackChanges": (
        "lets the tenant change labels and taints of the host cluster's nodes, by which they belong to tenants (clusterrole.yaml)"
    ),
    "sync.toHost.persistentVolumes.enabled": (
        "lets the tenant make volumes of the host cluster of any folder of a node, and of others' storage (pkg/controllers/resources). "
        "It gets volumes by the host cluster's storage classes"
    ),
    "sync.toHost.storageClasses.enabled": (
        "lets the tenant make storage classes of the host cluster, whose parameters name any server, path and Secret. Make the class on the "
        "host cluster, and show it by sync.fromHost.storageClasses"
    ),
}
# Alike where the tenant's pods run beside those of others.
_REACHING_ON_SHARED_NODES = dict.fromkeys(
    (
        "sync.fromHost.priorityClasses.enabled",
        "sync.toHost.priorityClasses.enabled",
        "sync.toHost.pods.priorityClassName",
    ),
    "lets its pods take the place of others' on nodes that are not its own alone",
)
# Where pods of the chart have what concerns their node: lists of volumes, security contexts, tolerations, names of priority classes.
_WORKLOADS = ("controlPlane.statefulSet", "controlPlane.backingStore.etcd.deploy.statefulSet")
_VOLUMES = ("persistence.addVolumes", "persistence.dataVolume", "persistence.binariesVolume")
_CONTEXTS = (
    *(f"{workload}.security.{part}" for workload in _WORKLOADS for part in ("podSecurityContext", "containerSecurityContext")),
    "controlPlane.distro.k8s.securityContext",
)
# What the chart hands to Helm's templates once more (ingress.yaml, tlsroute.yaml, statefulset.yaml).
_EVALUATED = ("controlPlane.ingress", "controlPlane.tlsRoute", "controlPlane.statefulSet")
# Where texts may have several lines: documents for the virtual cluster, and what the chart quotes.
_DOCUMENTS = ("controlPlane.coredns", "experimental.deploy.vcluster")
_QUOTED = ("annotations", "labels", "env")
# As YAML 1.1 has them.
_BREAK = re.compile("[\n\r\x85\u2028\u2029]")


def check_reach(values: Values, tenant: str, trust: str, shares_nodes: bool) -> None:
    """Refuse values that reach others than their tenant.

    :arg values: all that the chart is given, the collection's among them.
    :arg shares_nodes: whether pods of others run on the tenant's nodes.
    :raises TenancyError: with every reason.
    """
    refuse(
        [
            *_set(values, _REACHING | (_REACHING_ON_SHARED_NODES if shares_nodes else {})),
            *_nodes(values, tenant),
            *_tolerations(values, tenant),
            *_pods_of_the_chart(values, trust),
            *_namespaces(values, namespace_of(tenant)),
            *_injected(values),
        ]
    )


def _problem(path: str, why: str) -> Problem:
    return Problem("reaches-beyond-tenant", f"values.{path}: reaches beyond the tenant: it {why}.")


def _set(values: Values, reaching: t.Mapping[str, str]) -> t.Iterator[Problem]:
    for path, why in reaching.items():
        if _says(value_at(values, path)):
            yield _problem(path, why)


def _says(value: t.Any) -> bool:
    """Tell whether a value says anything: an empty dictionary of empty texts does not."""
    return any(map(_says, value.values())) if isinstance(value, dict) else bool(value)


def _nodes(values: Values, tenant: str) -> t.Iterator[Problem]:
    """Compare the nodes that it sees, and that its pods are bound to, with its own (pkg/controllers/resources/pods/syncer.go)."""
    path, own = "sync.fromHost.nodes", f"{NODE_LABEL}{tenant}"
    if value_at(values, f"{path}.enabled") is not True:
        yield _problem(f"{path}.enabled", "lets its pods run on everybody's nodes where it is not true. Leave it out")
    if value_at(values, f"{path}.selector.all"):
        yield _problem(f"{path}.selector.all", "shows it everybody's nodes. Leave it out")
    found = value_at(values, f"{path}.selector.labels")
    labels = found if isinstance(found, dict) else {}
    if labels.get(own) != "true":
        why = f"chooses other nodes than its own where {own} is not 'true'. Leave that out; further labels choose some of its own"
        yield _problem(f"{path}.selector.labels", why)
    for key in labels:
        if isinstance(key, str) and key.startswith(NODE_LABEL) and key != own:
            yield _problem(f"{path}.selector.labels.{named(key)}", "names nodes of another tenant")


def _tolerations(values: Values, tenant: str) -> t.Iterator[Problem]:
    why = (
        f"lets pods onto the nodes of tenants with zero trust, which have the taint {DEDICATED_TAINT}. Name the taints that are meant, for "
        "all tenants in kubegpu_tolerations"
    )
    path = "sync.toHost.pods.enforceTolerations"
    for number, text in enumerate(_listed(values, path)):
        if isinstance(text, str) and tolerates_others(*_parsed(text), tenant):
            yield _problem(f"{path}[{number}]", why)
    for path in [f"{workload}.scheduling.tolerations" for workload in _WORKLOADS]:
        for number, item in enumerate(_listed(values, path)):
            if isinstance(item, dict) and tolerates_others(item.get("key"), item.get("operator"), item.get("value"), tenant):
                yield _problem(f"{path}[{number}]", why)


def _parsed(text: str) -> tuple[str, str, str]:
    """Return key, operator and value of a toleration as the syncer reads its text (pkg/util/toleration)."""
    if text == "*":
        return "", "Exists", ""
    compared, colon, _effect = text.partition(":")
    key, equals, value = compared.partition("=")
    return key, "Exists" if colon and not equals else "Equal", value


def _pods_of_the_chart(values: Values, trust: str) -> t.Iterator[Problem]:
    """List what gives the chart's own pods, which no standard of the virtual cluster holds, a hand on their node or on its other pods."""
    for path in [f"{workload}.{part}" for workload in _WORKLOADS for part in _VOLUMES]:
        for number, volume in enumerate(_listed(values, path)):
            if isinstance(volume, dict) and "hostPath" in volume:
                yield _problem(f"{path}[{number}].hostPath", "mounts a folder of a node that others use")
    for path in [f"{context}.{key}" for context in _CONTEXTS for key in ("privileged", "capabilities.add")]:
        if value_at(values, path):
            yield _problem(path, "gives rights on a node that others use")
    for path in [f"{workload}.scheduling.priorityClassName" for workload in _WORKLOADS]:
        if str(value_at(values, path) or "").startswith("system-"):
            yield _problem(path, "takes the place of others' pods, as only Kubernetes' own parts may")
    if trust != "high" and value_at(values, "controlPlane.hostPathMapper.enabled"):
        yield _problem(
            "controlPlane.hostPathMapper.enabled", "shows its pods the logs of all pods of a node (pkg/controllers/resources)"
        )


def _namespaces(values: Values, own: str) -> t.Iterator[Problem]:
    """List what is read from, or written to, namespaces of others."""
    for kind in ("configMaps", "secrets"):
        for source in _mapped(values, kind):
            if _namespace(source) not in ("", own):
                why = f"reads {kind} of another namespace. Have a copy in {own}, and map it by '/name'"
                yield _problem(f"sync.fromHost.{kind}.mappings.byName.{named(source)}", why)
    for source in _mapped(values, "gateways"):
        if _of_another(_namespace(source), own):
            yield _problem(f"sync.fromHost.gateways.mappings.byName.{named(source)}", "is a gateway of another tenant")
    path = "networking.replicateServices.fromHost"
    for number, service in enumerate(_listed(values, path)):
        if isinstance(service, dict) and _of_another(_namespace(str(service.get("from", ""))), own):
            yield _problem(f"{path}[{number}].from", "is a service of another tenant")
    exported = [("exportKubeConfig.secret", value_at(values, "exportKubeConfig.secret"))]
    more = enumerate(_listed(values, "exportKubeConfig.additionalSecrets"))
    for path, secret in [*exported, *((f"exportKubeConfig.additionalSecrets[{number}]", item) for number, item in more)]:
        if isinstance(secret, dict) and secret.get("namespace") not in (None, "", own):
            yield _problem(f"{path}.namespace", f"writes into another namespace than {own}")


def _mapped(values: Values, kind: str) -> list[str]:
    """Return what is mapped from the host cluster; nothing where that is off."""
    mappings = value_at(values, f"sync.fromHost.{kind}.mappings.byName")
    return list(mappings) if isinstance(mappings, dict) and value_at(values, f"sync.fromHost.{kind}.enabled") else []


def _namespace(source: str) -> str:
    """Return the namespace in a source such as namespace/name; empty for the tenant's own."""
    return source.rpartition("/")[0]


def _of_another(namespace: str, own: str) -> bool:
    return namespace.startswith(namespace_of("", None)) and namespace != own


def _injected(values: Values) -> t.Iterator[Problem]:
    """List texts that would become something else than a text in the chart's manifests, which Helm writes with all rights."""
    for path, text, in_quotes in _texts(values, ""):
        if path.startswith(_DOCUMENTS):
            continue
        if "{{" in text and path.startswith(_EVALUATED):
            yield _problem(path, "is a template, which Helm evaluates with the rights of the host cluster's administrator")
        if not in_quotes and _BREAK.search(text):
            yield _problem(
                path, f"is written into manifests as it is, and {quoted(text)} has several lines, which may be other objects"
            )


def _texts(value: t.Any, path: str, in_quotes: bool = False) -> t.Iterator[tuple[str, str, bool]]:
    """Return all texts and keys in a value, each with its path, and whether the chart quotes it."""
    if isinstance(value, dict):
        for key, item in value.items():
            here = f"{path}.{named(key)}".lstrip(".")
            yield here, str(key), False
            yield from _texts(item, here, in_quotes or key in _QUOTED)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{path}[{number}]", in_quotes)
    elif isinstance(value, str):
        yield path, value, in_quotes


def _listed(values: Values, path: str) -> list[t.Any]:
    """Return the list at a path; empty for anything else, which the chart's schema refuses."""
    found = value_at(values, path)
    return found if isinstance(found, list) else []
