# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Verify one tenant by what its workloads do, and record what was seen. Each probe is a module of its own, too."""

from __future__ import annotations

from .._common.names import KAI_SCHEDULER_NAME
from .._common.run import Params
from .._common.variables import KAI
from .._probe.status import record
from .._schedulers.families import family_of
from .._tenant.facts import CHECKS, NETWORK, POLICIES, RECORDED, SANDBOX, SHARED
from .._tenant.status import results
from . import probe, tenant_record
from .work import Work


def verify(work: Work, wanted: str) -> None:
    """Run the probes in the order of PROBES, up to the first that fails or dies, and record what was seen, failures too.

    :arg wanted: digest of what the tenant was brought to; empty where it was not, and nothing is recorded.
    """
    work.work_through("verify", PROBES, (lambda work: _record(work, wanted),))


def _checks(work: Work) -> None:
    """Check its own scheduler. Of one that has no probe, and of the host cluster's, a tenant sees only that its pods are placed."""
    own, scheduler, params = work.tenant.own_scheduler, work.tenant.scheduler, work.params
    options: Params = {"queues": list(work.tenant.queues), "image": params["probe_image"] or None}
    family = family_of(own.name) if own else None
    if own and family and family.probe:
        options = {**options, "timeout": params["probe_timeout"], **family.probe_options(own, params)}
        work.do(CHECKS, f"Check what {family.title} does", probe, inside=True, kind=family.probe.kind, **options)
        return
    placed_by = "" if scheduler is None else scheduler.name
    name = KAI_SCHEDULER_NAME if placed_by == KAI else placed_by
    title = "Verify that a web page is served, by pods that the tenant's scheduler places"
    work.do(CHECKS, title, probe, inside=True, kind="web", scheduler_name=name or None, **options)


def _policies(work: Work) -> None:
    own, params = work.tenant.own_scheduler, work.params
    if own is None or not own.own_kai or not params["policy_checks"]:
        return
    options = {"checks": params["policy_checks"], "image": params["probe_image"] or None}
    title = "Check that it divides GPUs as its policies say"
    work.do(POLICIES, title, probe, inside=True, kind="kai_policies", runtime_class=params["runtime_class"], **options)


def _shared(work: Work) -> None:
    """Check what the tenant gets, and what it is kept from, on what it shares with others."""
    tenant, shared = work.tenant, work.params["shared_scheduler"]
    divides = tenant.divides_gpus(shared)
    if tenant.shares_scheduler:
        checks = [
            "queue",
            "devices",
            *(["gpu"] if tenant.gpu_nodes else []),
            *(["fraction"] if tenant.gpu_nodes and divides else []),
        ]
    elif tenant.trust == "partial" and tenant.gpu_nodes.shared_gpus is not None and not divides:
        checks = ["devices"]
    else:
        return
    work.do(
        SHARED,
        "Verify what the tenant gets, and what it is kept from, on what it shares with others",
        probe,
        kind="shared_scheduler",
        tenant=tenant.name,
        tenant_kubeconfig=work.kubeconfig,
        queues=list(tenant.queues),
        checks=checks,
        accept_hazards=list(shared.get("accept_hazards") or []),
        runtime_class=work.params["runtime_class"],
        image=work.params["probe_image"] or None,
    )


def _network(work: Work) -> None:
    tenant = work.tenant
    if any(tenant.network.values()):
        title = "Verify that the services which its network lets through are reached"
        work.do(
            NETWORK,
            title,
            probe,
            kind="connectivity",
            tenant=tenant.name,
            tenant_kubeconfig=work.kubeconfig,
            network=tenant.network,
            tolerations=work.params["tolerations"],
            image=work.params["probe_image"] or None,
        )


def _sandbox(work: Work) -> None:
    if runtime_class := work.tenant.runtime_class:
        title = "Verify that its pods see another kernel than their nodes'"
        work.do(
            SANDBOX,
            title,
            probe,
            kind="sandbox",
            tenant=work.tenant.name,
            runtime_class=runtime_class,
            tolerations=work.params["tolerations"],
            image=work.params["probe_image"] or None,
        )


# In order. What fails in one of them leaves out the later ones.
PROBES = (_checks, _policies, _shared, _network, _sandbox)


def _record(work: Work, wanted: str) -> None:
    """Record what was seen; where nothing was, because the first probe died, the record before stays."""
    tenant, own, parts = work.tenant, work.tenant.own_scheduler, work.report.parts
    if not wanted or work.check_mode or "results" not in parts.get(CHECKS, {}):
        return
    version = own.version if own and own.own_kai else ""
    # A probe that died found out nothing, which is no pass.
    died = [record(part, "failed", parts[part]["msg"]) for part in RECORDED if part in parts and "results" not in parts[part]]
    work.do(
        "record",
        "Record what was seen",
        tenant_record,
        name=tenant.name,
        wanted=wanted,
        scheduler_version=version,
        results=[*results(parts), *died],
    )
