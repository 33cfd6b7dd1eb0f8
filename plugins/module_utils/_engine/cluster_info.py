# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell what a host cluster is, has for GPUs, and lacks for its tenants."""

from __future__ import annotations

import typing as t

from .._cluster.facts import BOUNDED, MONITORED, READER, SHARED, TENANT
from .._cluster.lifecycle import lacking, read
from .._cluster.status import Seen, report
from .._cluster.validation import notes, problems, without_rights
from .._combinations.validation import Host, check_names, judge
from .._common.errors import FORBIDDEN, ApiError, Problem, TenancyError, refuse
from .._common.names import RUNTIME_CLASS, namespace_of
from .._common.run import Result, Run
from .._desired.model import Tenant
from .._desired.tenants import tenants_from
from .._metrics.facts import SERVICE_MONITORS

ARGUMENT_SPEC: dict[str, t.Any] = {
    "tenants": {"type": "list", "elements": "dict", "default": []},
    "runtime_class": {"type": "str", "default": RUNTIME_CLASS},
    "shared_scheduler": {"type": "dict", "default": {}},
    "metrics": {"type": "dict", "default": {}},
    "accept_combinations": {"type": "list", "elements": "str", "default": []},
    "helm_binary": {"type": "str", "default": "helm"},
}


def reconcile(run: Run) -> Result:
    tenants, shared = tenants_from(run.params["tenants"]), run.params["shared_scheduler"]
    check_names(run.params["accept_combinations"])
    tools = _without_tools(run, [tenant for tenant in tenants if tenant.state == "present"], bool(shared))
    cluster = report(_read(run, tools))
    wanted = (cluster, tenants, run.params["runtime_class"])
    host = Host(kubernetes=cluster["kubernetes_version"])
    shared_version = shared.get("version", "")
    judged = judge(tenants, shared_version, host, run.params["accept_combinations"])
    said = [*(f"{text}." for text in judged.untested), *(f"Accepted: {text}." for text in judged.accepted)]
    return {
        "changed": False,
        **cluster,
        "problems": [problem.data() for problem in (*tools, *problems(*wanted, shared_version), *judged.problems)],
        "notes": [*notes(*wanted), *said],
    }


def _without_tools(run: Run, present: list[Tenant], shared: bool) -> list[Problem]:
    """Return why tenants cannot be made by the host's helm and the kubeconfig's user; in check mode nothing is made."""
    if not present or run.check_mode:
        return []
    found: list[Problem] = []
    try:
        run.helm.major()
    except TenancyError as exc:
        found += exc.problems
    bounded = any(tenant.trust != "high" or tenant.quota or any(tenant.network.values()) for tenant in present)
    metrics = run.params["metrics"]
    monitored = metrics.get("provider") == SERVICE_MONITORS
    made = [what for what, wanted in ((SHARED, shared), (BOUNDED, bounded), (MONITORED, monitored)) if wanted]
    namespaces = {TENANT: namespace_of(present[0].name), READER: metrics.get("namespace", "")}
    return [*found, *without_rights(lacking(run.kube, namespaces, made))]


def _read(run: Run, problems: list[Problem]) -> Seen:
    """Read the cluster; where that is not allowed, everything that was found until then is told with it."""
    try:
        return read(run.kube)
    except ApiError as exc:
        if exc.status == FORBIDDEN:
            refuse([*problems, *exc.problems])
        raise
