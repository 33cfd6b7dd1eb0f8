# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bring one tenant to the state that is wanted. Each part of it is a module of its own, too, whose code stands beside this file."""

from __future__ import annotations

import typing as t

from .._adapters.helm import Chart, find_chart
from .._common.names import KAI_SCHEDULER_NAME
from .._desired.values import vcluster_options
from .._schedulers.families import family_of
from .._schedulers.model import Scheduler
from .._tenant.facts import (
    FORMER_KAI,
    FORMER_SCHEDULERS,
    KAI_SCHEDULER,
    KUBECONFIG,
    METRICS,
    NODES,
    QUEUES,
    REHEARSAL,
    SCHEDULER,
    VIRTUAL_CLUSTER,
)
from . import (
    chart_scheduler,
    former_schedulers,
    kai_metrics,
    kai_queues,
    kai_scheduler,
    rehearsal_gate,
    scheduler_queues,
    tenant_nodes,
    vcluster,
    vcluster_kubeconfig,
)
from .work import Work


def change(work: Work, state: str = "") -> None:
    """Bring a tenant to the state that is wanted, as far as that goes.

    :arg state: present, paused or absent; empty for the tenant's own one.
    """
    state = state or work.tenant.state
    work.work_through("remove" if state == "absent" else "change", STEPS[state])


# --- present -----------------------------------------------------------------------------------------------------


def _virtual_cluster(work: Work) -> None:
    params = work.params
    work.do(
        VIRTUAL_CLUSTER,
        "Create or change the virtual cluster",
        vcluster,
        **vcluster_options(work.tenant, params["shared_scheduler"]),
        accept_unenforced=params["accept_unenforced"],
        probe_image=params["probe_image"] or None,
        chart_source=params["chart_source"],
        timeout=params["timeout"],
    )


def _metrics(work: Work) -> None:
    """Let the Prometheus read KAI Scheduler's metrics, before that is installed, so that its pods are never open to others."""
    own, reader = work.tenant.own_scheduler, work.params["metrics"]
    read = bool(reader) and own is not None and own.own_kai
    if read or not work.is_new("namespace"):
        title = "Let the Prometheus read the metrics of the tenant's KAI Scheduler, or no client"
        options = {key: reader.get(key) for key in ("provider", "namespace", "labels")} if read else {"state": "absent"}
        work.do(METRICS, title, kai_metrics, name=work.tenant.name, **options)


def _kubeconfig(work: Work) -> None:
    # In check mode, a control plane that is yet to be started runs on no node, and has no address.
    if work.check_mode and work.is_new("state"):
        return
    name = work.tenant.name
    server = work.params["server"].replace("{tenant}", name) or None
    options = {"name": name, "path": work.kubeconfig, "server": server, "timeout": work.params["timeout"]}
    work.do(KUBECONFIG, "Write the tenant's kubeconfig", vcluster_kubeconfig, **options)


def _former_schedulers(work: Work) -> None:
    own, timeout = work.tenant.own_scheduler, work.params["timeout"]
    if work.is_new("namespace") or not work.can_answer:
        return
    if own is None or not own.own_kai:
        title = "Remove a KAI Scheduler of its own"
        options = {"state": "absent", "purge": True, "timeout": timeout}
        work.do(FORMER_KAI, title, kai_scheduler, inside=True, **options)
    title = "Remove schedulers that were installed by their charts and are not wanted"
    keep = [own.name] if own and not own.own_kai else []
    work.do(FORMER_SCHEDULERS, title, former_schedulers, inside=True, keep=keep, timeout=timeout)


def _scheduler(work: Work) -> None:
    own = work.tenant.own_scheduler
    if own is None or not work.can_answer:
        return
    if own.own_kai:
        _own_kai(work, own)
        return
    family, timeout = family_of(own.name), work.params["timeout"]
    chart = Chart(own.chart, own.version, own.repository)
    if family.brings(own):
        chart = find_chart(work.params["chart_source"], own.chart, own.version, chart)
    options = {"name": own.name, "version": own.version, "values": own.values, "chart": chart.ref, "repository": chart.repo}
    work.do(SCHEDULER, "Install another scheduler by its chart", chart_scheduler, inside=True, timeout=timeout, **options)
    if family.has_queues:
        title = "Bring the queues to what the tree says"
        asked = {"scheduler": own.name, "queues": list(work.tenant.queues), "version": own.version}
        work.do(QUEUES, title, scheduler_queues, inside=True, timeout=timeout, **asked)


def _own_kai(work: Work, own: Scheduler) -> None:
    params, queues = work.params, list(work.tenant.queues)
    asked = {"version": own.version, "gpu_sharing": own.gpu_sharing, "values": own.values}
    if gate := params["rehearsal"]:
        title = "Refuse a change that no rehearsal promoted"
        work.do(REHEARSAL, title, rehearsal_gate, inside=True, queues=queues, **asked, **gate)
    timeout = params["scheduler_timeout"]
    more = {"accept_hazards": own.accept_hazards, "chart_source": params["chart_source"], "timeout": timeout}
    work.do(KAI_SCHEDULER, "Install or upgrade KAI Scheduler", kai_scheduler, inside=True, **asked, **more)
    title = "Bring the queues to what the tree says"
    options = {"state": "exact", "kai_version": own.version, "timeout": timeout, "scheduler_name": KAI_SCHEDULER_NAME}
    work.do(QUEUES, title, kai_queues, inside=True, queues=queues, **options)


# --- paused, absent ----------------------------------------------------------------------------------------------


def _pause(work: Work) -> None:
    options = {"accept_lost_pods": work.params["accept_lost_pods"], "timeout": work.params["timeout"]}
    work.do(VIRTUAL_CLUSTER, "Pause the virtual cluster", vcluster, name=work.tenant.name, state="paused", **options)


def _no_virtual_cluster(work: Work) -> None:
    """Remove the virtual cluster, and with it all that runs in it, its scheduler included."""
    options = {"name": work.tenant.name, "state": "absent", "timeout": work.params["timeout"]}
    work.do(VIRTUAL_CLUSTER, "Remove the virtual cluster", vcluster, **options)


def _no_kubeconfig(work: Work) -> None:
    title = "Remove the tenant's kubeconfig"
    work.do(KUBECONFIG, title, vcluster_kubeconfig, name=work.tenant.name, path=work.kubeconfig, state="absent")


def _no_nodes(work: Work) -> None:
    work.do(NODES, "Give up the tenant's nodes", tenant_nodes, tenants=[{"name": work.tenant.name}], state="absent")


# What there is to do for each state, in order.
STEPS: dict[str, tuple[t.Callable[[Work], None], ...]] = {
    "present": (_virtual_cluster, _metrics, _kubeconfig, _former_schedulers, _scheduler),
    "paused": (_pause,),
    "absent": (_no_virtual_cluster, _no_kubeconfig, _no_nodes),
}
