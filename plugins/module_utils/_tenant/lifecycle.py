# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read all tenants of a host cluster at once, and record what was verified."""

from __future__ import annotations

import dataclasses
import datetime
import typing as t

from .._admission.facts import API_VERSION as ADMISSION
from .._admission.facts import BINDING, POLICY
from .._common.errors import TenancyError
from .._common.kubeconfig import chosen
from .._common.names import KAI_NAMESPACE
from .._common.ownership import MARKER_LABEL, OWNED_LABELS, OWNED_SELECTOR, annotations_of, is_owned
from .._common.parties import attempt
from .._common.synced import SYNCED_FROM_LABEL
from .._common.values import JsonObject
from .._desired.model import Tenant
from .._kai.status import scheduler_version
from .._metrics.lifecycle import find_all
from .._queues.validation import parse
from .._schedulers.families import family_of
from .._vcluster import facts as vc
from . import facts, status
from .status import Due, Live, Verified

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube

Ask = t.Callable[[JsonObject, str], list[JsonObject]]


def read_all(kube: Kube) -> dict[str, Live]:
    """Read every tenant that this collection made on a host cluster, by name: fourteen LISTs, however many there are.

    :raises TenancyError: where the host cluster does not answer.
    """
    workloads = [item for kind in ("StatefulSet", "Deployment") for item in kube.list("apps/v1", kind, None, vc.CONTROL_PLANE)]
    of_kai = f"{MARKER_LABEL},{SYNCED_FROM_LABEL}={KAI_NAMESPACE}"
    objects = status.HostObjects(
        kube.list("v1", "Namespace", None, OWNED_SELECTOR),
        workloads,
        [*kube.list("v1", "Pod", None, vc.CONTROL_PLANE), *kube.list("v1", "Pod", None, of_kai)],
        kube.list("v1", "Node"),
        kube.list("v1", "Secret", None, facts.KUBECONFIG_SECRETS),
        kube.list("v1", "ConfigMap", None, facts.RECORD_SELECTOR),
        kube.list("v1", "Service", None, vc.CONTROL_PLANE),
        kube.list("v1", "Pod", KAI_NAMESPACE),
        [item for kind in (POLICY, BINDING) for item in kube.list(ADMISSION, kind, None, OWNED_SELECTOR)],
        find_all(kube),
        [item for api_version, kind in facts.BOUNDS for item in kube.list(api_version, kind)],
    )
    return status.gather(objects)


def read_one(kube: Kube, name: str) -> Live:
    """Read one tenant."""
    return read_all(kube).get(name, Live())


def holds_credentials(config: JsonObject | None, secret: JsonObject | None) -> bool:
    """Tell whether a kubeconfig, by its current context, presents the credentials in a virtual cluster's Secret to the server they are for."""
    data = (secret or {}).get("data") or {}
    try:
        cluster, user = chosen(config or {})
        presented = (
            (cluster["certificate-authority-data"], data["certificate-authority"]),
            (user["client-certificate-data"], data["client-certificate"]),
            (user["client-key-data"], data["client-key"]),
        )
        return bool(cluster["server"]) and all(given and given == right for given, right in presented)
    except (KeyError, TypeError, AttributeError):
        return False


def compare_queues(tenant: Tenant, config: JsonObject, ask: Ask) -> tuple[Due, list[JsonObject] | None]:
    """Compare the queues inside a tenant with the desired ones, by a few requests to its virtual cluster.

    Its administrator decides what that answers, so every answer, even an error, is a reason of this tenant's.

    :arg ask: returns the items of a list at a path.
    :returns: what there is to do for them, and the queues with what uses them; None where that is not or cannot be read.
    """
    family = family_of(tenant.own_scheduler.name if tenant.own_scheduler else "")
    found, unread = attempt("", lambda: family.compare_queues(tenant.queues, lambda path: ask(config, path)))
    reasons, queues = found or ([f"its queues cannot be read: {unread.why if unread else ''}"], None)
    return Due((facts.CHANGE, facts.VERIFY), tuple(reasons)) if reasons else Due(), queues


def queues_of(tenant: Tenant, live: list[JsonObject]) -> list[JsonObject]:
    """Return a tenant's own queues among those of the scheduler that it shares."""
    names = parse(list(tenant.queues))
    return [item for item in live if item["metadata"]["name"] in names]


def record(
    kube: Kube,
    name: str,
    wanted: str,
    results: list[JsonObject],
    now: datetime.datetime,
    check_mode: bool = False,
    scheduler_version: str = "",
) -> None:
    """Record what was verified of a tenant, with everything that it rests on, in its namespace on the host cluster.

    :arg wanted: digest of its desired state.
    :arg scheduler_version: of the KAI Scheduler of its own that is installed; empty without one.
    :raises TenancyError: when there is no such tenant.
    """
    live = read_one(kube, name)
    if live.namespace is None:
        raise TenancyError(f"name: there is no tenant {name} on this cluster. Make it first.")
    where = live.namespace["metadata"]["name"]
    if annotations_of(live.namespace).get(vc.SCHEDULER_ANNOTATION, "") != scheduler_version and not check_mode:
        noted = {"metadata": {"annotations": {vc.SCHEDULER_ANNOTATION: scheduler_version or None}}}
        live = dataclasses.replace(live, namespace=kube.patch("v1", "Namespace", where, noted))
    metadata = {
        "name": facts.RECORD,
        "namespace": where,
        "labels": OWNED_LABELS | {facts.RECORD_LABEL: "verified"},
    }
    data = Verified(wanted, status.fingerprint(live), now, tuple(results)).data()
    if not check_mode:
        kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def shared_scheduler(kube: Kube) -> str | None:
    """Return the version of the KAI Scheduler that this collection installed in the host cluster, or None.

    By its namespace, which carries the label of this collection.
    """
    if not is_owned(kube.get("v1", "Namespace", KAI_NAMESPACE)):
        return None
    return scheduler_version(kube.list("apps/v1", "Deployment", KAI_NAMESPACE)) or "unknown"
