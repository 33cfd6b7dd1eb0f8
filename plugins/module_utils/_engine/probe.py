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
from .._common.names import RUNTIME_CLASS
from .._common.run import Params, Result, Run
from .._probe import connectivity, gpu, image_pull, network_policy, sandbox, web
from .._probe.kai_policies.facts import CHECKS as KAI_POLICIES
from .._probe.kai_policies.lifecycle import probe as probe_kai_policies
from .._probe.lifecycle import Connect
from .._probe.plan import KAI_OPTIONS, POD_OPTIONS
from .._probe.shared_scheduler.lifecycle import probe as probe_shared_scheduler
from .._probe.shared_scheduler.plan import CHECKS as SHARED_SCHEDULER
from .._schedulers.families import FAMILIES
from .._vcluster.values import NETWORK_ARGUMENT

_OF_FAMILIES = [family.probe for family in FAMILIES.values() if family.probe]
# The probe of each kind.
KINDS: dict[str, t.Callable[[Run], Result]] = {
    "web": web.probe,
    "gpu": gpu.probe,
    "image_pull": image_pull.probe,
    "network_policy": network_policy.probe,
    "kai_policies": probe_kai_policies,
    "sandbox": sandbox.probe,
    **{probe.kind: probe.run for probe in _OF_FAMILIES},
}
# The kinds that ask a tenant's API server as well as its host cluster's.
KINDS_OF_TENANTS: dict[str, t.Callable[[Run, Connect], Result]] = {
    "connectivity": connectivity.probe,
    "shared_scheduler": probe_shared_scheduler,
}

# In place of a default, of an option that has to be given.
_REQUIRED = object()
_TENANT: Params = {"tenant": _REQUIRED, "tenant_kubeconfig": _REQUIRED}
# Options of each kind, with their defaults.
OPTIONS: dict[str, Params] = {
    "web": {
        **POD_OPTIONS,
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
        **POD_OPTIONS,
        "namespace": network_policy.NAME,
        "timeout": 180,
        "policy_timeout": network_policy.POLICY_TIMEOUT,
    },
    "connectivity": {
        **POD_OPTIONS,
        **_TENANT,
        "namespace": connectivity.NAME,
        "timeout": 120,
        "network": _REQUIRED,
    },
    "sandbox": {
        **POD_OPTIONS,
        "tenant": _REQUIRED,
        "timeout": 120,
        "runtime_class": _REQUIRED,
    },
    "kai_policies": {
        **KAI_OPTIONS,
        "namespace": "kai-policy-probe",
        "timeout": 300,
        "checks": list(KAI_POLICIES),
        "node_selector": {},
        "namespace_labels": {},
    },
    "shared_scheduler": {
        **KAI_OPTIONS,
        **_TENANT,
        "namespace": "kubegpu-shared-probe",
        "timeout": 120,
        "queues": [],
        "checks": list(SHARED_SCHEDULER),
        "accept_hazards": [],
    },
    **{probe.kind: probe.options for probe in _OF_FAMILIES},
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
