# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The files of a tenant, from the same functions by which this collection makes what stands in them. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from .._admission.plan import record_policies
from .._admission.values import constraints
from .._common.names import namespace_of
from .._common.values import JsonObject
from .._desired.values import vcluster_options
from .._metrics.plan import kai_objects
from .._schedulers.families import family_of
from .._vcluster.facts import RENDERED_ANNOTATION
from .._vcluster.lifecycle import pod_policies
from .._vcluster.values import namespace_metadata, new_namespace, wanted
from .facts import (
    CHART_FILE,
    CONSTRAINTS,
    FOR_FLUX,
    GATEKEEPER,
    INSIDE,
    KUSTOMIZATION,
    KUSTOMIZE,
    POLICIES,
    README,
    SCHEDULER,
    TEMPLATES,
    UNTOUCHED,
    VALUES_FILE,
    VIRTUAL_CLUSTER,
)
from .values import chart_reference, flux_kustomization, flux_objects, gatekeeper_kustomizations, note, text

if t.TYPE_CHECKING:
    from .._admission.values import Constraint
    from .._artifacts.plan import Installation
    from .._desired.model import Tenant

# Documents of files, by their paths in a folder.
Documents = dict[str, list[JsonObject]]


@dataclasses.dataclass(frozen=True)
class Target:
    """Who applies the files, and on which cluster.

    :ivar format: one of FORMATS.
    :ivar path: of the cluster's folder in the repository that Flux reads; ``source``, name of Flux's GitRepository for it.
    :ivar gatekeeper: whether Gatekeeper gets the rules of the policies, too.
    :ivar host: minor version of the cluster's Kubernetes; ``enforces``, whether it has policies for pods.
    :ivar shared: the cluster's own KAI Scheduler, as ``kubegpu_shared_scheduler`` describes it; empty for none.
    :ivar metrics: the Prometheus that reads metrics, as of ``kai_objects``; empty for none.
    """

    format: str
    path: str
    source: str
    gatekeeper: bool
    host: str
    enforces: bool
    shared: t.Mapping[str, t.Any]
    metrics: t.Mapping[str, t.Any]

    @property
    def flux(self) -> bool:
        """Whether Flux applies them."""
        return self.format == FOR_FLUX


class Chart(t.NamedTuple):
    """A Helm release, with the objects that its chart makes."""

    release: Installation
    manifests: list[JsonObject]


def files(tenant: Tenant, charts: t.Sequence[Chart], target: Target) -> dict[str, str]:
    """Return the files of a tenant by their paths in its folder.

    :arg charts: of its virtual cluster, then of its scheduler, if it has one of its own.
    """
    on_host, namespace = _on_host(tenant, target), namespace_of(tenant.name)
    own = tenant.own_scheduler
    inside = _filled(family_of(own.name).documents(own, tenant.queues, charts[-1].manifests)) if own else {}
    beside: Documents = {}
    for name, chart in zip((VIRTUAL_CLUSTER, SCHEDULER), charts):
        if target.flux:
            on_host[f"{name}.yaml"] = flux_objects(chart.release, tenant.name, namespace)
        else:
            beside[f"{name}/{CHART_FILE}"] = [chart_reference(chart.release)]
            beside[f"{name}/{VALUES_FILE}"] = [chart.release.values]
    if inside and target.flux:
        path = f"{target.path}/{tenant.name}/{INSIDE}"
        on_host[f"{SCHEDULER}.yaml"].append(flux_kustomization(tenant.name, namespace, path, target.source))
    beside |= {f"{INSIDE}/{name}": documents for name, documents in _listed(inside, {}).items()}
    reported = constraints(on_host.get(POLICIES, [])) if target.gatekeeper else []
    if reported and target.flux:
        on_host[f"{GATEKEEPER}.yaml"] = gatekeeper_kustomizations(namespace, f"{target.path}/{tenant.name}", target.source)
    documents = _listed(on_host, UNTOUCHED if target.flux else {}) | beside | _for_gatekeeper(reported)
    notes = {f"{GATEKEEPER}/{README}": note(reported)} if reported else {}
    return {path: text(found) for path, found in documents.items()} | notes


def _for_gatekeeper(reported: t.Sequence[Constraint]) -> Documents:
    """Return two folders: their kinds are made by the templates in the first, and only then can the constraints in the second be applied."""
    parts = {TEMPLATES: [one.template for one in reported], CONSTRAINTS: [one.constraint for one in reported]}
    return {
        f"{GATEKEEPER}/{name}/{path}": documents
        for name, found in parts.items()
        if found
        for path, documents in _listed({f"{name}.yaml": found}, {}).items()
    }


def _listed(documents: Documents, annotations: t.Mapping[str, str]) -> Documents:
    """Return the files of a folder, and the one that lists them; none where there are none."""
    if not documents:
        return {}
    listing: JsonObject = {"apiVersion": KUSTOMIZE[0], "kind": KUSTOMIZE[1], "resources": sorted(documents)}
    return documents | {KUSTOMIZATION: [listing | ({"commonAnnotations": dict(annotations)} if annotations else {})]}


def _on_host(tenant: Tenant, target: Target) -> Documents:
    """Return what a tenant has on the host cluster beside its Helm release."""
    options, name = vcluster_options(tenant, target.shared), namespace_of(tenant.name)
    described = wanted(options)
    metadata = namespace_metadata(described, None)
    metadata["annotations"][RENDERED_ANNOTATION] = target.host
    policies = [*(record_policies(tenant.name) if target.enforces else []), *pod_policies(options, described)]
    own = tenant.own_scheduler
    read_by = kai_objects(tenant.name, name, target.metrics) if target.metrics and own and own.own_kai else []
    found = {"namespace.yaml": [new_namespace(tenant.name, name, metadata)], POLICIES: policies, "metrics.yaml": read_by}
    return _filled(found)


def _filled(documents: Documents) -> Documents:
    """Return the files that have a document."""
    return {path: found for path, found in documents.items() if found}
