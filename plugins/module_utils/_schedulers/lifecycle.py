# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Install a scheduler in a virtual cluster by its chart, and remove schedulers that are not wanted any more."""

from __future__ import annotations

import functools
import typing as t

from .._common.documents import Unreadable, load_manifests
from .._common.errors import TenancyError, WaitTimeout
from .._common.ownership import labels_of, last_write
from .._common.pods import pod_problems
from .._common.text import shown
from .._common.values import JsonObject
from .._common.wait import wait_for
from .._helm.lifecycle import Edits, HelmRelease
from .facts import LABEL, NAME, WORKLOADS, is_reserved
from .status import judge, listed, unready
from .values import namespace as own_namespace

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart
    from .._adapters.kubernetes import Kube
    from .._common.run import Result, Run
    from .._common.values import Values

_WHY = "its virtual cluster is to have another scheduler, or none"


def ensure_scheduler(run: Run, name: str, chart: Chart, values: Values) -> Result:
    """Have a scheduler in a virtual cluster by its chart, and after a change wait until its pods run.

    :arg name: of the scheduler, its namespace and its release.
    :arg chart: with its exact version.
    :raises TenancyError: before the first write where the name or the chart's values are refused; where its pods do not run in time.
    """
    if not NAME.fullmatch(name) or is_reserved(name):
        raise TenancyError(f"name: {listed([name])} is no name of such a scheduler, or is Kubernetes' or KAI Scheduler's own.")
    namespace = run.kube.get("v1", "Namespace", name)
    before = labels_of(namespace).get(LABEL) if namespace else None
    release = HelmRelease(run.kube, run.helm, name, name)
    live = release.inspect()
    # Charts, and who asks for them, write a version with or without a v.
    same = live is not None and live.chart_version.removeprefix("v") == chart.version.removeprefix("v")
    changes = release.changes(live.chart_version if live and same else chart.version, values)
    made = _workloads(release.preview(chart, values), name) if changes else []
    if before != name:
        run.change(f"Namespace {name}", {"label": before} if namespace else None, {"label": name})
        apply = functools.partial(run.kube.apply, own_namespace(name))
        run.perform(f"label namespace {name}", "its scheduler is found by the label", apply)
    if changes:
        run.change_all(changes, release.write)
        why = "it differs from what is asked for" if release.found else "it is not installed"
        run.perform(f"apply {name}", why, functools.partial(release.apply, chart, values, run.deadline))
    else:
        Edits(run, release).take_back()
    if changes and not run.check_mode:
        wait_for(f"scheduler {name}", functools.partial(_runs, run.kube, made), run.deadline)
    return run.result(notes=[])


def _workloads(manifests: str, namespace: str) -> list[tuple[str, str, str]]:
    """Return kind, name and namespace of what runs pods for a chart."""
    try:
        items = [item for item in load_manifests(manifests) if isinstance(item, dict) and item.get("kind") in WORKLOADS]
        found = [(item["kind"], item["metadata"]["name"], item["metadata"].get("namespace") or namespace) for item in items]
    except (Unreadable, KeyError, TypeError, AttributeError) as exc:
        raise TenancyError(f"chart: what it renders cannot be read: {shown(exc)}") from exc
    if odd := [one for one in found if not all(isinstance(part, str) for part in one)]:
        raise TenancyError(f"chart: it renders a {odd[0][0]} whose name or namespace is no text: {shown(odd[0][1:])}")
    return found


def _runs(kube: Kube, workloads: t.Iterable[tuple[str, str, str]]) -> tuple[bool | None, str]:
    """Probe for ``wait_for``: True once all pods of these workloads are there and ready."""
    phrases: list[str] = []
    namespaces: list[str] = []
    for kind, name, namespace in workloads:
        live = kube.get("apps/v1", kind, name, namespace)
        if said := unready(live) if live else f"{kind} {name} does not exist":
            phrases.append(said)
            namespaces.append(namespace)
    for namespace in dict.fromkeys(namespaces):
        phrases += pod_problems(kube.list("v1", "Pod", namespace))
    return (None, "; ".join(phrases)) if phrases else (True, "")


def remove_former(run: Run, keep: t.Collection[str]) -> Result:
    """Remove the schedulers of a virtual cluster that are not wanted, and wait until their namespaces are gone.

    :arg keep: names of the schedulers that are wanted.
    :returns: the names of the removed schedulers.
    :raises TenancyError: where there are more than can be, or one is not gone when the time of the run is up.
    """
    namespaces = run.kube.list("v1", "Namespace", None, LABEL)
    found = judge(namespaces, keep)
    if found.foreign:
        run.warn(
            f"Namespaces with the label {LABEL} that are no scheduler's of this collection were left alone: {listed(found.foreign)}."
        )
    if found.ending:
        # Who waits for it would wait in every run, because its tenant decides when its finalizers end.
        run.warn(f"The removal of these schedulers' namespaces began before, and has not ended: {listed(found.ending)}.")
    items = {item["metadata"]["name"]: item for item in namespaces}
    for name in found.former:
        _refuse_when_time_is_up(run, name)
        run.change(f"Namespace {name}", "present", None, last_write(items[name], ("metadata", "labels", LABEL)))
        release = HelmRelease(run.kube, run.helm, name, name)
        if current := release.inspect():
            run.change(f"release {name}", current.chart_version, None, release.write)
            # Its hooks are what its tenant has written into its record; each of them could take the time of the whole run.
            run.perform(f"uninstall {name}", _WHY, functools.partial(release.remove, run.deadline, hooks=False))
    for name in found.former:
        run.perform(f"remove namespace {name}", _WHY, functools.partial(run.kube.delete, "v1", "Namespace", name))
    if found.former and not run.check_mode:
        _await_end(run, [items[name] for name in found.former])
    return run.result(notes=[], schedulers=found.former)


def _refuse_when_time_is_up(run: Run, name: str) -> None:
    """Refuse to begin with another scheduler; each step gets some time even when there is none left."""
    if not run.deadline.left(0):
        raise TenancyError(
            f"Time was up after {run.deadline.seconds:g} s, before scheduler {name} was looked at. Run this again."
        )


def _await_end(run: Run, namespaces: t.Sequence[JsonObject]) -> None:
    """Wait until namespaces are gone; one that was made anew meanwhile is another one."""

    def is_there(item: JsonObject) -> bool:
        live = run.kube.get("v1", "Namespace", item["metadata"]["name"])
        return live is not None and live["metadata"].get("uid") == item["metadata"].get("uid")

    def gone() -> tuple[bool | None, str]:
        left = [item["metadata"]["name"] for item in namespaces if is_there(item)]
        return (None, f"{listed(left)} still there") if left else (True, "")

    try:
        wait_for("the end of the namespaces of former schedulers", gone, run.deadline)
    except WaitTimeout as exc:
        advice = "What is left in them, or their finalizers, keeps them: kubectl get namespace NAME -o yaml tells which."
        raise exc.saying(f"{exc.message}. {advice}") from exc
