# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read a host cluster and its tenants, and compare them with the desired state."""

from __future__ import annotations

import datetime
import os.path
import typing as t

from .._adapters.asking import ask_list
from .._adapters.kubeconfig import is_private_folder, kubeconfig_exists, read_kubeconfig
from .._assignment.lifecycle import nodes_to_give
from .._common.names import GPU_RESOURCE, HOST_SCHEDULER_LABEL, POD_GROUP, QUEUE_API_VERSION, QUEUE_KIND
from .._common.ownership import annotations_of, labels_of
from .._common.parallel import concurrently
from .._common.parties import attempt
from .._common.run import Result, Run
from .._common.values import stamp, utc_now
from .._desired.model import Tenant
from .._desired.tenants import tenants_from
from .._metrics.lifecycle import may_have_rules
from .._queues.status import counted, overview
from .._tenant.facts import CHANGE, NOT_READ, VERIFY
from .._tenant.lifecycle import compare_queues, holds_credentials, queues_of, read_all, shared_scheduler
from .._tenant.status import Live, due, temporary
from .._tenant.values import wanted
from .._vcluster import facts as vc
from . import cluster_info, gpu_ledger_info

if t.TYPE_CHECKING:
    from .._kernel.module import ClusterRun

# Seconds for each list of a virtual cluster: its administrator decides how slowly it answers, and others wait.
_PATIENCE = 10

ARGUMENT_SPEC: dict[str, t.Any] = cluster_info.ARGUMENT_SPEC | {
    "only": {"type": "list", "elements": "str", "default": []},
    "kubeconfigs": {"type": "path", "required": True},
    "settings": {"type": "dict", "default": {}},
    "max_age": {"type": "int", "default": 3600},
    "also": {"type": "list", "elements": "str", "choices": ["cluster", "ledger"], "default": []},
}
LEAST = {"max_age": 0}


def reconcile(run: ClusterRun) -> Result:
    """Read the cluster, where there is one, and compare each tenant that is listed, several at once."""
    kubeconfig = run.params.get("kubeconfig")
    if isinstance(kubeconfig, str) and not kubeconfig_exists(kubeconfig):
        return run.result(exists=False)
    return read(run) | {name: READERS[name](run) for name in run.params["also"]}


def _ledger(run: ClusterRun) -> Result:
    """Return what module gpu_ledger_info returns; where the ledger cannot be read, the reason as ``msg``, and ``failed``."""
    found, failure = attempt("it", lambda: gpu_ledger_info.reconcile(run.part({"devices": False})))
    return found or {"failed": True, "msg": failure.why if failure else ""}


def _cluster(run: ClusterRun) -> Result:
    """Return what module cluster_info returns."""
    params = {name: run.params[name] for name in cluster_info.ARGUMENT_SPEC}
    only = run.params["only"]
    compared = [tenant for tenant in params["tenants"] if not only or tenant["name"] in only]
    return cluster_info.reconcile(run.part(params | {"tenants": compared}))


READERS = {"cluster": _cluster, "ledger": _ledger}


def read(run: Run) -> Result:
    """Read the host cluster's tenants once, and compare each that is listed."""
    params = run.params
    tenants = tenants_from(params["tenants"])
    live = read_all(run.kube)
    now = utc_now()
    compared = [tenant for tenant in tenants if not params["only"] or tenant.name in params["only"]]
    nodes_due, node_problems = nodes_to_give(run.kube, tenants, params["only"])
    waiting = temporary(live, now)
    unread: list[str] = []
    sharing = {name: labels_of(item.namespace).get(HOST_SCHEDULER_LABEL) for name, item in live.items()}
    shared_queues: list[Result] = []
    if any(sharing.values()):
        shared_queues, unread_parts = counted(run.kube.list(QUEUE_API_VERSION, QUEUE_KIND), run.kube.list(*POD_GROUP))
        unread += [f"shared scheduler: {one.sentence}" for one in unread_parts]

    host = vc.minor_version(run.kube.version())

    def record(tenant: Tenant) -> Result:
        found, failure = attempt("it", lambda: compare(params, tenant, live.get(tenant.name, Live()), now, shared_queues, host))
        return found or not_read(tenant, wanted(tenant, params["settings"]), failure.sentence if failure else "")

    listed = {tenant.name for tenant in tenants}
    unlisted = sorted(live.keys() - listed - {one["name"] for one in waiting if not one["expired"]})
    return run.result(
        exists=True,
        tenants=concurrently(record, compared),
        unread=unread,
        unlisted=unlisted,
        temporary=waiting,
        others=sorted({*unlisted, *(one["name"] for one in waiting)} - listed),
        shared_scheduler=shared_scheduler(run.kube),
        monitoring=may_have_rules(run.kube),
        sharing=sorted(name for name, scheduler in sharing.items() if scheduler),
        nodes_due=nodes_due,
        has_folder=is_private_folder(params["kubeconfigs"]),
        node_problems=[problem.data() for problem in node_problems],
    )


def not_read(tenant: Tenant, digest: str, why: str) -> Result:
    """Return the record of a tenant that could not be compared: it is worked on, and what is wrong is then its own failure.

    :arg digest: of the tenant's desired state.
    """
    work = [CHANGE] if tenant.state != "present" else [CHANGE, VERIFY]
    unknown = (
        "vcluster_version",
        "kubernetes_version",
        "scheduler_version",
        "network_policies",
        "created",
        "queues",
        "verified_at",
    )
    nothing = dict.fromkeys(unknown)
    known = {"name": tenant.name, "desired": tenant.data(), "wanted": digest, "state": NOT_READ, "due": work, "reasons": [why]}
    return known | nothing | {"images": {}, "results": []}


def _ask(config: Result, path: str) -> list[Result]:
    return ask_list(config, path, timeout=_PATIENCE)


def compare(
    params: t.Mapping[str, t.Any], tenant: Tenant, live: Live, now: datetime.datetime, shared_queues: list[Result], host: str
) -> Result:
    """Compare one tenant with the desired state.

    :arg shared_queues: those of the host cluster's KAI Scheduler, with what uses them.
    :arg host: minor version of its Kubernetes; empty where it is not known.
    :returns: its record, as RETURN documents it.
    """
    path = os.path.join(params["kubeconfigs"], f"{tenant.name}.yml")
    config = read_kubeconfig(path)
    has_kubeconfig = kubeconfig_exists(path) if tenant.state == "absent" else holds_credentials(config, live.secret)
    digest, last = wanted(tenant, params["settings"]), live.verified
    found = due(tenant, digest, live, has_kubeconfig, params["max_age"], now, host)
    queues = None
    if tenant.state == "present" and CHANGE not in found.work and tenant.own_scheduler and config:
        # A user of the tenant may have changed them from within, which the host cluster does not show.
        differing, queues = compare_queues(tenant, config, _ask)
        found = differing if differing.work else found
    elif tenant.shares_scheduler and live.host_scheduler:
        queues = queues_of(tenant, shared_queues)
    return {
        "name": tenant.name,
        "desired": tenant.data(),
        "wanted": digest,
        "state": live.state,
        "due": list(found.work),
        "reasons": list(found.reasons),
        "vcluster_version": live.vcluster_version,
        "kubernetes_version": live.kubernetes_version,
        "scheduler_version": live.scheduler_version,
        "network_policies": annotations_of(live.namespace).get(vc.NETWORK_ANNOTATION),
        "created": live.created,
        "images": live.images,
        "queues": None if queues is None else overview(queues, GPU_RESOURCE),
        "verified_at": stamp(last.at) if last else None,
        "results": list(last.results) if last else [],
    }
