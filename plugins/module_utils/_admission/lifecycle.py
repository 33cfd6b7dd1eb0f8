# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have, or remove, the policies of the API server that keep a tenant to what is its own: GPUs and RuntimeClass of its pods, and no records of Helm."""

from __future__ import annotations

import functools
import re
import typing as t

from .._common.errors import TenancyError
from .._common.ownership import annotations_of, is_owned, last_write
from .._common.quantity import whole
from .._common.values import JsonObject, merge_patch
from .facts import ADMITS_ANNOTATION, API_VERSION, BINDING, POLICY, SINCE
from .plan import policy_name, record_policies, record_policy_name, workload_policy_name

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


def ensure_policies(run: Run, tenant: str, wanted: t.Sequence[JsonObject]) -> None:
    """Have a tenant's policy and its binding as they are wanted.

    :raises TenancyError: where the cluster is too old for them, or an object of the name is not this collection's.
    """
    if not enforces(run.kube):
        raise TenancyError(
            f"tenant: {tenant} would share nodes or have a sandbox, and Kubernetes {run.kube.version()} cannot keep its pods from the GPUs of "
            f"others, or to their RuntimeClass: {POLICY} needs {SINCE[0]}.{SINCE[1]} or later. Give the tenant nodes and a scheduler of its "
            "own, and no sandbox."
        )
    _ensure(run, wanted, f"it bounds the pods of {tenant}")
    if workload_policy_name(tenant) not in {item["metadata"]["name"] for item in wanted}:
        _remove(run, workload_policy_name(tenant), f"{tenant} has no sandbox any more")


def ensure_record_policies(run: Run, tenant: str) -> bool:
    """Have the policy that keeps a tenant from records of Helm, where the cluster enforces such policies; tell whether it does."""
    if not enforces(run.kube):
        return False
    _ensure(run, record_policies(tenant), f"it keeps {tenant} from what Helm does with the operator's rights")
    return True


def enforces(kube: Kube) -> bool:
    """Tell whether an API server has such policies, by its version."""
    found = re.match(r"v(\d{1,9})\.(\d{1,9})", kube.version())
    return not found or (whole(found[1]), whole(found[2])) >= SINCE


def _ensure(run: Run, wanted: t.Iterable[JsonObject], why: str) -> None:
    for item in wanted:
        kind, name = item["kind"], item["metadata"]["name"]
        live = _own(run, kind, name)
        before, after = annotations_of(live).get(ADMITS_ANNOTATION), annotations_of(item)[ADMITS_ANNOTATION]
        if live and before == after and live["spec"] == item["spec"]:
            continue
        write = last_write(live, ("spec",), ("metadata", "annotations", ADMITS_ANNOTATION))
        run.change(f"{kind} {name}", "something else" if before == after else before, after, write)
        run.perform(f"apply {kind} {name}", why, functools.partial(_write, run, live, item))


def _write(run: Run, live: JsonObject | None, wanted: JsonObject) -> None:
    if live is None:
        run.kube.create(wanted)
        return
    # By server-side apply, what another writer added to a set would stay in it.
    body = {"metadata": wanted["metadata"], "spec": merge_patch(live["spec"], wanted["spec"])}
    run.kube.patch(API_VERSION, wanted["kind"], wanted["metadata"]["name"], body)


def remove_policies(run: Run, tenant: str) -> None:
    """Remove a tenant's policies for pods and workloads, and their bindings, where there are any."""
    for name in (policy_name(tenant), workload_policy_name(tenant)):
        _remove(run, name, f"the pods of {tenant} need no bounds of it any more")


def remove_record_policies(run: Run, tenant: str) -> None:
    """Remove the policy that keeps a tenant from records of Helm, once there are neither."""
    _remove(run, record_policy_name(tenant), "the tenant is gone")


def _remove(run: Run, name: str, why: str) -> None:
    for kind in (BINDING, POLICY):
        if live := _own(run, kind, name):
            run.change(f"{kind} {name}", "present", None, last_write(live, ("spec",)))
            run.perform(f"remove {kind} {name}", why, functools.partial(run.kube.delete, API_VERSION, kind, name))


def _own(run: Run, kind: str, name: str) -> JsonObject | None:
    live = run.kube.get(API_VERSION, kind, name)
    if live is not None and not is_owned(live):
        raise TenancyError(f"tenant: {kind} {name} exists and was not made by this collection; it stays untouched.")
    return live
