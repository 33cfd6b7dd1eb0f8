# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The text of a file, the chart of a Helm release, and Flux's objects for it. Pure."""

from __future__ import annotations

import math
import re
import typing as t

from .._common.names import KUBECONFIG_SECRET
from .._common.values import JsonObject
from .._kai.facts import CHART as KAI_CHART
from .facts import (
    CONSTRAINTS,
    FLUX_KUSTOMIZATION,
    GATEKEEPER,
    HELM_RELEASE,
    HELM_REPOSITORY,
    KUBECONFIG_KEY,
    MARK,
    NOTE,
    SCHEDULER,
    TEMPLATES,
    VIRTUAL_CLUSTER,
)

if t.TYPE_CHECKING:
    from .._admission.values import Constraint
    from .._artifacts.plan import Installation

try:
    import yaml
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

# Texts that every reader of YAML takes for texts without quotes: some take y for a boolean, and 1e3 or 0o17 for numbers.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9./_-]*( [A-Za-z0-9./_-]+)*", re.ASCII)
_NO_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def text(documents: t.Iterable[JsonObject]) -> str:
    """Return a file: the mark and the documents, the same for the same content; keys are sorted, and nothing is an alias."""
    base: t.Any = yaml.SafeDumper

    class Dumper(base):
        def ignore_aliases(self, data: t.Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> t.Any:
            return super().increase_indent(flow, False)

    Dumper.add_representer(str, lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:str", data, _style(data)))
    # No line is broken, which would depend on its length.
    dumped = (yaml.dump(document, Dumper=Dumper, sort_keys=True, width=math.inf, allow_unicode=True) for document in documents)
    return f"{MARK}\n" + "".join(f"---\n{one}" for one in dumped)


def _style(data: str) -> str | None:
    """Return how a text is written: without quotes where no reader takes it for something else."""
    if "\n" in data:
        return "|"
    return None if _PLAIN.fullmatch(data) and data.lower() not in _NO_TEXT else "'"


def chart_of(item: Installation) -> tuple[str, str]:
    """Return the repository of a release's chart, and its name there; no repository where it is a path.

    A folder of a host is upstream to everybody else.
    """
    if item.source.startswith("oci://"):
        return item.source.rstrip("/"), item.chart
    if item.reference.startswith("oci://"):
        repository, _slash, name = item.reference.rstrip("/").rpartition("/")
        return repository, name
    return item.repository, item.reference


def chart_reference(item: Installation) -> JsonObject:
    """Return the arguments of ``helm upgrade --install`` for a release, without its values."""
    repository, chart = chart_of(item)
    place = {"release": item.release, "namespace": item.namespace, "hooks": item.hooks}
    return place | {"repository": repository, "chart": chart, "version": item.version}


def flux_objects(item: Installation, tenant: str, namespace: str) -> list[JsonObject]:
    """Return Flux's objects for a release: where its chart is, and what it becomes.

    :arg namespace: the tenant's on the host cluster, in which the objects stand.
    """
    repository, chart = chart_of(item)
    inside = item.namespace != namespace
    name = SCHEDULER if inside else VIRTUAL_CLUSTER
    # Its own OCIRepository would add a digest to the version of the chart.
    source = {"interval": "1h", "url": repository} | ({"type": "oci"} if repository.startswith("oci://") else {})
    reference = {"chart": chart, "version": item.version, "sourceRef": {"kind": HELM_REPOSITORY[1], "name": name}}
    # As this collection applies it: nothing is waited for, and nothing goes back by itself.
    applied: JsonObject = {"disableWait": True, "strategy": {"name": "RetryOnFailure"}} | (
        {} if item.hooks else {"disableHooks": True}
    )
    applied |= {"crds": "CreateReplace"} if item.chart == KAI_CHART else {}
    spec: JsonObject = {
        "interval": "10m",
        "releaseName": item.release,
        "chart": {"spec": reference},
        "install": applied | ({"createNamespace": True} if inside else {}),
        "upgrade": applied,
        "values": item.values,
    }
    if inside:
        spec |= {"targetNamespace": item.namespace, "storageNamespace": item.namespace, "kubeConfig": _kubeconfig(tenant)}
        spec |= {"dependsOn": [{"name": VIRTUAL_CLUSTER}]}
    return [_object(HELM_REPOSITORY, name, namespace, source), _object(HELM_RELEASE, name, namespace, spec)]


def flux_kustomization(tenant: str, namespace: str, path: str, source: str) -> JsonObject:
    """Return the object by which Flux applies a folder inside a virtual cluster.

    :arg path: of the folder in the repository; ``source``, name of Flux's GitRepository, which stands in a namespace of that name.
    """
    # Queues in use are not removed.
    return _folder(SCHEDULER, namespace, path, source, {"prune": False, "kubeConfig": _kubeconfig(tenant)})


def gatekeeper_kustomizations(namespace: str, path: str, source: str) -> list[JsonObject]:
    """Return the objects by which Flux applies what is for Gatekeeper: templates, then constraints.

    :arg path: of the tenant's folder; the others are as of ``flux_kustomization``.
    """
    first = f"{GATEKEEPER}-{TEMPLATES}"
    after: JsonObject = {"dependsOn": [{"name": first}]}
    return [
        # They go with the namespace of the tenant, because nothing of the tenant depends on them.
        _folder(f"{GATEKEEPER}-{name}", namespace, f"{path}/{GATEKEEPER}/{name}", source, {"prune": True} | more)
        for name, more in ((TEMPLATES, {}), (CONSTRAINTS, after))
    ]


def _folder(name: str, namespace: str, path: str, source: str, more: JsonObject) -> JsonObject:
    found = {"kind": "GitRepository", "name": source, "namespace": source}
    spec: JsonObject = {"interval": "10m", "retryInterval": "1m", "path": path, "sourceRef": found}
    return _object(FLUX_KUSTOMIZATION, name, namespace, spec | more)


def note(reported: t.Iterable[Constraint]) -> str:
    """Return the text beside constraints of Gatekeeper, with what its audit leaves out of them."""
    rows = (f"- `{one.template['metadata']['name']}`: {told}\n" for one in reported for told in one.unknown or ["nothing"])
    return f"{MARK}\n{NOTE}" + "".join(rows)


def _kubeconfig(tenant: str) -> JsonObject:
    return {"secretRef": {"name": f"{KUBECONFIG_SECRET}{tenant}", "key": KUBECONFIG_KEY}}


def _object(kind: tuple[str, str], name: str, namespace: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name, "namespace": namespace}, "spec": spec}
