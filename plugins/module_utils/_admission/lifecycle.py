# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have, or remove, the policies that keep a tenant's pods to its queues of the host cluster's KAI Scheduler."""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.facts import (
    ADMITS_ANNOTATION,
    API_VERSION,
    BINDING,
    POLICY,
    SINCE,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.plan import policies, policy_name
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import annotations_of, is_owned

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run

Object = dict[str, t.Any]


def have_policies(run: Run, tenant: str, queues: t.Sequence[str], gpu_sharing: bool) -> None:
    """Have a tenant's policy and its binding as they are wanted.

    :arg queues: names of the queues that its pods may use.
    :arg gpu_sharing: whether they may ask for part of a GPU.
    :raises TenancyError: where the cluster is too old for them, or an object of the name is not this collection's.
    """
    version = run.kube.version()
    found = re.match(r"v(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < SINCE:
        raise TenancyError(
            f"tenant: {tenant} would share the host cluster's KAI Scheduler, and Kubernetes {version} cannot keep its pods to its own "
            f"queues: {POLICY} needs {SINCE[0]}.{SINCE[1]} or later. Give the tenant a KAI Scheduler of its own."
        )
    for wanted in policies(tenant, queues, gpu_sharing):
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        live = _own(run, kind, name)
        before, after = annotations_of(live).get(ADMITS_ANNOTATION), annotations_of(wanted)[ADMITS_ANNOTATION]
        if live and before == after and live["spec"] == wanted["spec"]:
            continue
        run.change(f"{kind} {name}", "something else" if before == after else before, after)
        run.take(
            f"apply {kind} {name}", f"it keeps the pods of {tenant} to its queues", functools.partial(_write, run, live, wanted)
        )


def _write(run: Run, live: Object | None, wanted: Object) -> None:
    if live is None:
        run.kube.create(wanted)
        return
    # By server-side apply, what somebody else added to a set would stay in it.
    body = {"metadata": wanted["metadata"], "spec": _merge_patch(live["spec"], wanted["spec"])}
    run.kube.patch(API_VERSION, wanted["kind"], wanted["metadata"]["name"], body)


def _merge_patch(live: Object, wanted: Object) -> Object:
    """Return the merge patch that makes one tree of another."""
    patch: Object = dict.fromkeys(live.keys() - wanted.keys())
    for key, value in wanted.items():
        below = live.get(key)
        patch[key] = _merge_patch(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return patch


def remove_policies(run: Run, tenant: str) -> None:
    """Remove a tenant's policy and its binding, where there are any."""
    name = policy_name(tenant)
    for kind in (BINDING, POLICY):
        if _own(run, kind, name):
            run.change(f"{kind} {name}", "present", None)
            why = f"{tenant} does not use the host cluster's KAI Scheduler"
            run.take(f"remove {kind} {name}", why, functools.partial(run.kube.delete, API_VERSION, kind, name))


def _own(run: Run, kind: str, name: str) -> Object | None:
    live = run.kube.get(API_VERSION, kind, name)
    if live is not None and not is_owned(live):
        raise TenancyError(f"tenant: {kind} {name} exists and was not made by this collection; it stays untouched.")
    return live
