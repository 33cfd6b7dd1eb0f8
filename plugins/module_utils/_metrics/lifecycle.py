# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have, or remove, the objects by which a Prometheus reads metrics in a namespace of the host cluster, and its rules."""

from __future__ import annotations

import functools
import typing as t

from .._common.errors import FORBIDDEN, ApiError, TenancyError
from .._common.names import KAI_NAMESPACE, TENANT_LABEL, namespace_of
from .._common.ownership import OWNED_SELECTOR, annotations_of, is_owned, labels_of, last_write
from .._common.values import JsonObject, Write
from .._vcluster.facts import NETWORK_ANNOTATION, UNENFORCED
from .facts import (
    ANNOTATIONS,
    CONFIG_MAP,
    KAI,
    KINDS,
    LABEL,
    NETWORK_POLICY,
    PROMETHEUS_RULE,
    RULES,
    SERVICE,
    SERVICE_MONITOR,
    SERVICE_MONITORS,
    SHARED,
)
from .plan import kai_objects, patch, rule_objects, shared_objects, shown

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run

Metrics = t.Mapping[str, t.Any]


def serve_kai(run: Run, tenant: str, metrics: Metrics) -> None:
    """Have the metrics of a tenant's own KAI Scheduler read by the Prometheus, or, without one, by no client.

    :arg metrics: as ``kai_objects`` takes them; empty for none.
    :raises TenancyError: before the first write, where the tenant or something of the Prometheus is not there, or is another tenant's.
    """
    namespace = namespace_of(tenant)
    if metrics:
        check_reader(run, metrics)
        _check_tenant(run, tenant, namespace)
    ensure_objects(run, namespace, KAI, kai_objects(tenant, namespace, metrics) if metrics else [])


def fence_shared(run: Run, metrics: Metrics) -> None:
    """Have the metrics of the host cluster's own KAI Scheduler read by the Prometheus alone, or, without one, by any client that reaches them.

    :arg metrics: as for ``serve_kai``.
    :raises TenancyError: before the first write, where that KAI Scheduler is not there, or the Prometheus may not read.
    """
    if metrics:
        check_reader(run, metrics)
        # Check mode runs before it is installed.
        if run.kube.get("v1", "Namespace", KAI_NAMESPACE) is None and not run.check_mode:
            raise TenancyError(
                f"There is no namespace {KAI_NAMESPACE} on this cluster. Install its KAI Scheduler first, or name a tenant."
            )
    ensure_objects(run, KAI_NAMESPACE, SHARED, shared_objects(metrics) if metrics else [])


def give_rules(run: Run, metrics: Metrics, groups: t.Sequence[JsonObject], dashboard: JsonObject) -> None:
    """Have rules and a dashboard in the namespace of the Prometheus, and in no other; without a Prometheus, in none.

    :arg metrics: ``namespace`` of the Prometheus, whose operator finds them, and ``labels`` by which it chooses rules; empty for none.
    :arg groups: as ``rule_objects`` takes them, ``dashboard`` as well.
    :raises TenancyError: before the first write, where the Prometheus may not read; with the right that is missing, where one is.
    """
    wanted: list[JsonObject] = []
    if metrics:
        reader = {"provider": SERVICE_MONITORS} | dict(metrics)
        check_reader(run, reader)
        # It is warned of.
        if run.kube.get("v1", "Namespace", metrics["namespace"]) is not None:
            wanted = rule_objects(metrics, groups, dashboard)
    found = _find(run.kube, (CONFIG_MAP,), RULES)
    # The ConfigMap is made first and removed last, and to ask for a kind that is not served takes several requests.
    if found or wanted:
        found += _find(run.kube, (PROMETHEUS_RULE,), RULES)
    try:
        _reconcile(run, found, wanted)
    except ApiError as exc:
        if exc.status != FORBIDDEN:
            raise
        # The API server has named the right.
        raise exc.saying(f"{exc.message} Give it to the kubeconfig's user by a Role in the namespace of the Prometheus.") from exc


def may_have_rules(kube: Kube) -> bool:
    """Tell whether a cluster has rules or a dashboard of this collection; yes also where the right to read that is missing."""
    try:
        return bool(_find(kube, (CONFIG_MAP,), RULES))
    except ApiError as exc:
        if exc.status != FORBIDDEN:
            raise
        return True


def check_reader(run: Run, metrics: Metrics) -> None:
    """Refuse a Prometheus that could not, or may not, read anything.

    :raises TenancyError: where its namespace is a tenant's, or the cluster lacks the kind ServiceMonitor.
    """
    name = metrics["namespace"]
    namespace = run.kube.get("v1", "Namespace", name)
    if owner := labels_of(namespace).get(TENANT_LABEL):
        raise TenancyError(
            f"namespace: {name} is that of tenant {owner}, whose pods would read what is other tenants'. Name that of the Prometheus."
        )
    if metrics["provider"] == SERVICE_MONITORS and not run.kube.served(*SERVICE_MONITOR):
        raise TenancyError(
            f"provider: the host cluster has no {SERVICE_MONITOR[1]} in {SERVICE_MONITOR[0]}, a CRD of the Prometheus operator. Install "
            f"that first, or take {ANNOTATIONS}, which need none."
        )
    if namespace is None:
        run.warn(f"The host cluster has no namespace {name}: no client reads metrics until a Prometheus runs in it.")


def _check_tenant(run: Run, tenant: str, namespace: str) -> None:
    found = run.kube.get("v1", "Namespace", namespace)
    if annotations_of(found).get(NETWORK_ANNOTATION) == UNENFORCED:
        run.warn(
            f"The network of this cluster does not enforce network policies: any client that reaches its pods reads {tenant}'s metrics."
        )
    # Check mode runs before the tenant is made.
    if not is_owned(found) and not run.check_mode:
        raise TenancyError(f"name: there is no tenant {tenant} on this cluster. Make it first.")


def find_all(kube: Kube) -> list[JsonObject]:
    """Return what this collection made for the metrics of KAI Schedulers, in all namespaces."""
    found = _find(kube, (NETWORK_POLICY, SERVICE), KAI)
    # None of them has a ServiceMonitor alone, and to ask for a kind that is not served takes several requests.
    return found + (_find(kube, (SERVICE_MONITOR,), KAI) if found else [])


def _find(kube: Kube, kinds: t.Iterable[tuple[str, str]], subject: str, namespace: str | None = None) -> list[JsonObject]:
    return [item for kind in kinds for item in kube.list(*kind, namespace, f"{OWNED_SELECTOR},{LABEL}={subject}")]


def ensure_objects(run: Run, namespace: str, subject: str, wanted: t.Sequence[JsonObject]) -> None:
    """Have exactly these objects of this collection in a namespace; without any, none.

    :arg subject: what they are about, ``kai`` or ``dcgm``.
    """
    _reconcile(run, _find(run.kube, KINDS, subject, namespace), wanted)


def _reconcile(run: Run, found: t.Iterable[JsonObject], wanted: t.Iterable[JsonObject]) -> None:
    """Have exactly these objects.

    :arg found: live objects of the same kinds, in the order in which they are made.
    """
    live = {_key(item): item for item in found}
    for item in wanted:
        _ensure_object(run, live.pop(_key(item), None), item)
    # First what announces, then what fences.
    for item in reversed(live.values()):
        kind, name, namespace = _key(item)
        run.change(_title(item), shown(item, item), None, _last_write(item))
        delete = functools.partial(run.kube.delete, item["apiVersion"], kind, name, namespace)
        run.perform(f"remove {_title(item)}", "it is not wanted any more", delete)


def _ensure_object(run: Run, live: JsonObject | None, item: JsonObject) -> None:
    title, after = _title(item), shown(item, item)
    if live is None:
        run.change(title, None, after)
        run.perform(f"create {title}", "it does not exist", functools.partial(run.kube.create, item))
    elif (before := shown(live, item)) != after:
        run.change(title, before, after, _last_write(live))
        name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
        change = functools.partial(run.kube.patch, item["apiVersion"], item["kind"], name, patch(live, item), namespace)
        run.perform(f"change {title}", "it differs", change)


def _last_write(live: JsonObject) -> Write | None:
    return last_write(live, ("spec",), ("data",), ("metadata", "labels"), ("metadata", "annotations"))


def _key(item: JsonObject) -> tuple[str, str, str]:
    return item["kind"], item["metadata"]["name"], item["metadata"]["namespace"]


def _title(item: JsonObject) -> str:
    return f"{item['kind']} {item['metadata']['namespace']}/{item['metadata']['name']}"
