# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check by pods what a cluster does, or what a tenant gets of it."""

from __future__ import annotations

import typing as t

from .._adapters.kubernetes import Kube
from .._common.errors import Problem, refuse
from .._common.names import GPU_RESOURCE, KAI_SCHEDULER_NAME, RUNTIME_CLASS
from .._common.run import Params, Result, Run
from .._probe import connectivity, gpu, image_pull, network_policy, sandbox, volcano, web
from .._probe.kai_policies.facts import CHECKS as KAI_POLICIES
from .._probe.kai_policies.lifecycle import probe as probe_kai_policies
from .._probe.kai_scheduling.facts import CHECKS as KAI_SCHEDULING
from .._probe.kai_scheduling.lifecycle import probe as probe_kai_scheduling
from .._probe.lifecycle import Connect
from .._probe.plan import IMAGE
from .._probe.shared_scheduler.lifecycle import probe as probe_shared_scheduler
from .._probe.shared_scheduler.plan import CHECKS as SHARED_SCHEDULER
from .._vcluster.values import NETWORK_ARGUMENT

# The probe of each kind.
KINDS: dict[str, t.Callable[[Run], Result]] = {
    "web": web.probe,
    "gpu": gpu.probe,
    "image_pull": image_pull.probe,
    "network_policy": network_policy.probe,
    "kai_scheduling": probe_kai_scheduling,
    "kai_policies": probe_kai_policies,
    "volcano_scheduling": volcano.probe,
    "sandbox": sandbox.probe,
}
# The kinds that ask a tenant's API server as well as its host cluster's.
KINDS_OF_TENANTS: dict[str, t.Callable[[Run, Connect], Result]] = {
    "connectivity": connectivity.probe,
    "shared_scheduler": probe_shared_scheduler,
}

_PODS: Params = {"image": IMAGE, "tolerations": []}
_KAI: Params = {
    **_PODS,
    "gpu_resource": GPU_RESOURCE,
    "runtime_class": RUNTIME_CLASS,
    "scheduler_name": KAI_SCHEDULER_NAME,
}
# In place of a default, of an option that has to be given.
_REQUIRED = object()
_TENANT: Params = {"tenant": _REQUIRED, "tenant_kubeconfig": _REQUIRED}
# Options of each kind, with their defaults.
OPTIONS: dict[str, Params] = {
    "web": {
        **_PODS,
        "namespace": web.NAME,
        "timeout": 90,
        "scheduler_name": web.DEFAULT_SCHEDULER,
        "queues": [],
    },
    "gpu": {
        "namespace": gpu.NAME,
        "timeout": 120,
        "image": gpu.IMAGE,
        "tolerations": [{"operator": "Exists"}],
        "expected_gpus": {},
        "runtime_class": RUNTIME_CLASS,
    },
    "image_pull": {
        "namespace": image_pull.NAME,
        "timeout": 300,
        "tolerations": [],
        "images": _REQUIRED,
    },
    "network_policy": {
        **_PODS,
        "namespace": network_policy.NAME,
        "timeout": 180,
        "policy_timeout": network_policy.POLICY_TIMEOUT,
    },
    "connectivity": {
        **_PODS,
        **_TENANT,
        "namespace": connectivity.NAME,
        "timeout": 120,
        "network": _REQUIRED,
    },
    "sandbox": {
        **_PODS,
        "tenant": _REQUIRED,
        "timeout": 120,
        "runtime_class": _REQUIRED,
    },
    "kai_scheduling": {
        **_KAI,
        "namespace": "kai-probe",
        "timeout": 240,
        "queues": [],
        "checks": list(KAI_SCHEDULING),
        "accept_hazards": [],
        "node_selector": {},
        "namespace_labels": {},
        "max_age": None,
    },
    "kai_policies": {
        **_KAI,
        "namespace": "kai-policy-probe",
        "timeout": 300,
        "checks": list(KAI_POLICIES),
        "node_selector": {},
        "namespace_labels": {},
    },
    "volcano_scheduling": {
        **_PODS,
        "namespace": volcano.NAMESPACE,
        "timeout": 120,
        "queues": [],
    },
    "shared_scheduler": {
        **_KAI,
        **_TENANT,
        "namespace": "kubegpu-shared-probe",
        "timeout": 120,
        "queues": [],
        "checks": list(SHARED_SCHEDULER),
        "accept_hazards": [],
    },
}

# The defaults are those of OPTIONS.
ARGUMENT_SPEC: dict[str, t.Any] = {
    "kind": {"type": "str", "choices": list(OPTIONS), "required": True},
    "tenant": {"type": "str"},
    "tenant_kubeconfig": {"type": "path"},
    "network": NETWORK_ARGUMENT,
    "namespace": {"type": "str"},
    "image": {"type": "str"},
    "images": {"type": "list", "elements": "str"},
    "tolerations": {"type": "list", "elements": "dict"},
    "scheduler_name": {"type": "str"},
    "queues": {"type": "list", "elements": "dict"},
    "checks": {"type": "list", "elements": "str"},
    "accept_hazards": {"type": "list", "elements": "str"},
    "expected_gpus": {"type": "dict"},
    "gpu_resource": {"type": "str"},
    "runtime_class": {"type": "str"},
    "node_selector": {"type": "dict"},
    "namespace_labels": {"type": "dict"},
    "timeout": {"type": "int"},
    "policy_timeout": {"type": "int"},
    "max_age": {"type": "int"},
}
LEAST = {"policy_timeout": 1, "max_age": 0}


def reconcile(run: Run, inside: Kube | None = None) -> Result:
    """Run the probe of a kind.

    :arg inside: the tenant's API server; by default the one of its kubeconfig.
    :raises TenancyError: when a check failed, with all ``results``; for options that the kind does not take, or lacks.
    """
    kind: str = run.params["kind"]
    refuse(_problems(kind, run.params))
    run.fill_in(OPTIONS[kind])
    if kind in KINDS:
        return KINDS[kind](run)
    return KINDS_OF_TENANTS[kind](
        run, lambda: inside or Kube.connect(deadline=run.deadline, kubeconfig=run.params["tenant_kubeconfig"])
    )


def _problems(kind: str, params: Params) -> t.Iterator[Problem]:
    for option in sorted(ARGUMENT_SPEC.keys() - {"kind"}):
        given, taken = params.get(option) is not None, option in OPTIONS[kind]
        if given and not taken:
            others = ", ".join(other for other, options in OPTIONS.items() if option in options)
            yield Problem("not-applicable", f"{option}: a probe of kind {kind} does not take it. Kinds that do: {others}.")
        elif taken and not given and OPTIONS[kind][option] is _REQUIRED:
            yield Problem("missing", f"{option}: a probe of kind {kind} needs it.")
    known = OPTIONS[kind].get("checks", ())
    if unknown := [check for check in params.get("checks") or () if known and check not in known]:
        yield Problem("not-a-choice", f"checks: a probe of kind {kind} has no {', '.join(unknown)}. It has {', '.join(known)}.")
