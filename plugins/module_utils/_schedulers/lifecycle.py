# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Remove schedulers that were installed in a virtual cluster by their charts, and are not wanted any more."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import Object, last_write
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.lifecycle import HelmRelease
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.facts import LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.status import judge, told

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run

_WHY = "its virtual cluster is to have another scheduler, or none"


def remove_former(run: Run, keep: t.Collection[str]) -> Result:
    """Remove the schedulers of a virtual cluster but for those that are wanted, and wait until their namespaces are gone.

    :arg keep: names of those that are wanted.
    :returns: the names of those that are removed.
    :raises TenancyError: where there are more than can be, or one is not gone when the time of the run is up.
    """
    namespaces = run.kube.list("v1", "Namespace", None, LABEL)
    found = judge(namespaces, keep)
    if found.foreign:
        run.warn(
            f"Namespaces with the label {LABEL} that are no scheduler's of this collection were left alone: {told(found.foreign)}."
        )
    if found.ending:
        # Who waits for it would wait in every run, because its tenant decides when its finalizers end.
        run.warn(f"The removal of these schedulers' namespaces began before, and has not ended: {told(found.ending)}.")
    items = {item["metadata"]["name"]: item for item in namespaces}
    for name in found.former:
        _refuse_when_time_is_up(run, name)
        run.change(f"Namespace {name}", "present", None, last_write(items[name], ("metadata", "labels", LABEL)))
        release = HelmRelease(run.kube, run.helm, name, name)
        if current := release.inspect():
            run.change(f"release {name}", current.chart_version, None, release.write)
            # Its hooks are what its tenant has written into its record; each of them could take the time of the whole run.
            run.take(f"uninstall {name}", _WHY, functools.partial(release.remove, run.deadline, hooks=False))
    for name in found.former:
        run.take(f"remove namespace {name}", _WHY, functools.partial(run.kube.delete, "v1", "Namespace", name))
    if found.former and not run.check_mode:
        _await_end(run, [items[name] for name in found.former])
    return run.result(notes=[], schedulers=found.former)


def _refuse_when_time_is_up(run: Run, name: str) -> None:
    """Refuse to begin with another scheduler; each step gets some time even when there is none left."""
    if not run.deadline.left(0):
        raise TenancyError(
            f"Time was up after {run.deadline.seconds:g} s, before scheduler {name} was looked at. Run this again."
        )


def _await_end(run: Run, namespaces: t.Sequence[Object]) -> None:
    """Wait until namespaces are gone; one that was made anew meanwhile is another one."""

    def is_there(item: Object) -> bool:
        live = run.kube.get("v1", "Namespace", item["metadata"]["name"])
        return live is not None and live["metadata"].get("uid") == item["metadata"].get("uid")

    def gone() -> tuple[bool | None, str]:
        left = [item["metadata"]["name"] for item in namespaces if is_there(item)]
        return (None, f"{told(left)} still there") if left else (True, "")

    try:
        wait_for("the end of the namespaces of former schedulers", gone, run.deadline)
    except TenancyError as exc:
        advice = "What is left in them, or their finalizers, keeps them: kubectl get namespace NAME -o yaml tells which."
        raise TenancyError(f"{exc.message}. {advice}", **exc.details) from exc
