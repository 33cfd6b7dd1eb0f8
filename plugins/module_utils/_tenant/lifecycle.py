# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read all tenants of a host cluster at once, and record what was verified."""

from __future__ import annotations

import datetime
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.facts import API_VERSION as ADMISSION
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.facts import BINDING, POLICY
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS, OWNED_SELECTOR, is_owned
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.model import Tenant
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.status import scheduler_version
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.lifecycle import find_all
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.facts import POD_GROUP
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import API_VERSION
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.status import counted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant import facts, status
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.status import Due, Live, Verified
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vc

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube

Object = dict[str, t.Any]
Ask = t.Callable[[Object, str], Object]

QUEUES_PATH = f"/apis/{API_VERSION}/queues"
POD_GROUPS_PATH = f"/apis/{POD_GROUP[0]}/podgroups"


def read_all(kube: Kube) -> dict[str, Live]:
    """Read every tenant that this collection made on a host cluster, by name: fourteen LISTs, however many there are."""
    workloads = [item for kind in ("StatefulSet", "Deployment") for item in kube.list("apps/v1", kind, None, vc.CONTROL_PLANE)]
    of_kai = f"{vc.SYNCED_FROM_LABEL}={kai.NAMESPACE}"
    return status.gather(
        kube.list("v1", "Namespace", None, OWNED_SELECTOR),
        workloads,
        [*kube.list("v1", "Pod", None, vc.CONTROL_PLANE), *kube.list("v1", "Pod", None, of_kai)],
        kube.list("v1", "Node"),
        kube.list("v1", "Secret", None, facts.KUBECONFIG_SECRETS),
        kube.list("v1", "ConfigMap", None, facts.RECORD_SELECTOR),
        kube.list("v1", "Service", None, vc.CONTROL_PLANE),
        kube.list("v1", "Pod", kai.NAMESPACE),
        [item for kind in (POLICY, BINDING) for item in kube.list(ADMISSION, kind, None, OWNED_SELECTOR)],
        find_all(kube),
    )


def read_one(kube: Kube, name: str) -> Live:
    """Read one tenant."""
    return read_all(kube).get(name, Live())


def leads_there(config: Object | None, secret: Object | None) -> bool:
    """Tell whether a kubeconfig presents the credentials in a virtual cluster's Secret to the API server they are for."""
    data = (secret or {}).get("data") or {}
    try:
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]  # type: ignore[index]
        presented = (
            (cluster["certificate-authority-data"], data["certificate-authority"]),
            (user["client-certificate-data"], data["client-certificate"]),
            (user["client-key-data"], data["client-key"]),
        )
        return bool(cluster["server"]) and all(given and given == right for given, right in presented)
    except (KeyError, IndexError, TypeError):
        return False


def compare_queues(tenant: Tenant, config: Object, ask: Ask) -> tuple[Due, list[Object] | None]:
    """Compare the queues inside a tenant with those that are wanted, by two requests to its virtual cluster.

    :returns: what there is to do for them, and the queues with what uses them; None where that cannot be read.
    """
    try:
        live, groups = (ask(config, path)["items"] for path in (QUEUES_PATH, POD_GROUPS_PATH))
    except TenancyError as exc:
        return Due((facts.CHANGE, facts.VERIFY), (f"its queues cannot be read: {exc.message}",)), None
    try:
        differing = ", ".join(sorted(change.name for change in plan(parse(list(tenant.queues)), live, "exact")))
    except TenancyError as exc:
        differing = exc.message
    return Due((facts.CHANGE, facts.VERIFY), (f"its queues differ: {differing}",)) if differing else Due(), counted(live, groups)


def queues_of(tenant: Tenant, live: list[Object]) -> list[Object]:
    """Return a tenant's own queues among those of the scheduler that it shares."""
    names = parse(list(tenant.queues))
    return [item for item in live if item["metadata"]["name"] in names]


def record(kube: Kube, name: str, wanted: str, results: list[Object], now: datetime.datetime, check_mode: bool = False) -> None:
    """Record what was verified of a tenant, with everything that it rests on, in its namespace on the host cluster.

    :arg wanted: digest of everything that was wanted of it.
    :raises TenancyError: when there is no such tenant.
    """
    live = read_one(kube, name)
    if live.namespace is None:
        raise TenancyError(f"name: there is no tenant {name} on this cluster. Make it first.")
    metadata = {
        "name": facts.RECORD,
        "namespace": live.namespace["metadata"]["name"],
        "labels": OWNED_LABELS | {facts.RECORD_LABEL: "verified"},
    }
    data = Verified(wanted, status.fingerprint(live), now, tuple(results)).data()
    if not check_mode:
        kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def shared_scheduler(kube: Kube) -> str | None:
    """Return the version of the KAI Scheduler that this collection installed in the host cluster, or None.

    By its namespace, which carries the label of this collection.
    """
    if not is_owned(kube.get("v1", "Namespace", kai.NAMESPACE)):
        return None
    return scheduler_version(kube.list("apps/v1", "Deployment", kai.NAMESPACE)) or "unknown"
