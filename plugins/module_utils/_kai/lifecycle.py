# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Install, upgrade, downgrade and remove KAI Scheduler in one cluster."""

from __future__ import annotations

import datetime
import functools
import typing as t

from .._common.errors import TenancyError
from .._common.names import KAI_NAMESPACE, TENANT_LABEL
from .._common.ownership import annotations_of, last_write
from .._common.pods import pod_problems
from .._common.run import Step
from .._common.values import JsonObject
from .._helm.lifecycle import Edits, HelmRelease
from . import admission_copy, facts, images
from .availability import Availability
from .export import QUEUE, export_queues, is_exported, restore_queues
from .plan import Action, Transition, actions
from .removal import Removal
from .replacement import Replacement
from .validation import hazards_on, parse_installed, refuse_deeper_queues, refuse_hazards
from .values import accepted_note, images_in, migrates_topologies, parse_manifests, shares_gpus

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart
    from .._adapters.kubernetes import Kube
    from .._common.run import Result, Run
    from .._common.values import Values


def helm_release(run: Run) -> HelmRelease:
    """Return KAI's Helm release in a run's cluster."""
    return HelmRelease(run.kube, run.helm, facts.RELEASE_NAME, KAI_NAMESPACE)


def asked_of(kube: Kube, release: facts.Release, values: Values) -> facts.Asked:
    """Return what is asked of a release in a cluster, by the values of its chart and by whose pods run beside it."""
    return facts.Asked(shares_gpus(values, release), bool(kube.list("v1", "Namespace", None, TENANT_LABEL)))


class Installation:
    """One release of KAI Scheduler in one cluster.

    :arg values: all that the chart is given.
    """

    def __init__(self, run: Run, release: facts.Release, chart: Chart, values: Values) -> None:
        self.run = run
        self.kube = run.kube
        self.release = release
        self.chart = chart
        self.values = values
        self.helm_release = helm_release(run)
        self.availability = Availability(run, release)
        self.current = self.helm_release.inspect()
        self.before = parse_installed(self.current.chart_version) if self.current else release.number

    def present(self, today: datetime.date) -> Result:
        """Install the release, or change the one that is there, and wait until all parts are available."""
        run = self.run
        accepted = self._accepted(today)
        self._restart_crashed()
        replaces = self._compare()
        differs = bool(run.changes)
        if not differs:
            Edits(run, self.helm_release).take_back()
        manifests = self._previewed() if differs else []
        change = self._transition(replaces, differs, manifests)
        if change.exported:
            run.change(f"Secret {facts.EXPORT[0]}", "present", None)
        if left := admission_copy.exists(self.kube):
            run.change(f"Pod {admission_copy.NAME}", "present", None)
        record = self._record()
        run.perform_all([*self._steps(change, manifests), *record])
        if not run.check_mode:
            self.availability.wait()
        if left or change.in_place:
            end = functools.partial(admission_copy.end, run)
            run.perform_all([self._step("remove the copy of the admission pod", "KAI's own answers again", end)])
        if not (run.check_mode and differs):
            self._restart_unauthorised()
        return self._result(today, accepted)

    def _result(self, today: datetime.date, accepted: list[str]) -> Result:
        run, release = self.run, self.release
        notes = facts.upgrade_notes(self.before, release.number) if self.before != release.number else []
        hazards = hazards_on(release, today)
        kinds = {hazard: "accepted hazard" if hazard.name in accepted else "hazard" for hazard in hazards}
        return run.result(
            notes=[*(f"upgrade note: {note}" for note in notes), *(f"{kind}: {hazard}" for hazard, kind in kinds.items())],
            version=release.version,
            known=release.known,
            hazards=[str(hazard) for hazard in hazards],
            accepted_hazards=accepted,
            upgrade_notes=notes,
            steps=run.steps,
            values=self.values,
        )

    def _accepted(self, today: datetime.date) -> list[str]:
        """Refuse the release for hazards that were not accepted; return the names of the hazards that touch and were accepted."""
        run, release, names = self.run, self.release, self.run.params["accept_hazards"]
        installed = self.current is not None and self.before == release.number
        touching = refuse_hazards(release, asked_of(self.kube, release, self.values), names, today, installed)
        for hazard in touching:
            if hazard.name not in names:
                run.warn(f"version: {release.version} is installed and stays. {hazard}.")
        return [hazard.name for hazard in touching if hazard.name in names]

    def _record(self) -> list[Step]:
        """Return the step that notes on KAI's namespace which hazards were accepted; none where it says so."""
        namespace, key = ("v1", "Namespace", KAI_NAMESPACE), facts.ACCEPTED_ANNOTATION
        live = self.kube.get(*namespace)
        before, after = annotations_of(live).get(key), accepted_note(self.run.params["accept_hazards"])
        if before == after:
            return []
        self.run.change("accepted_hazards", before, after, last_write(live, ("metadata", "annotations", key)))
        write = functools.partial(self.kube.patch, *namespace, {"metadata": {"annotations": {key: after}}})
        return [self._step("record the accepted hazards", "kai_scheduler_info reports them", write)]

    def _compare(self) -> bool:
        """Record every difference between the cluster and the desired state.

        :returns: whether another release, or other values, take the place of what is installed.
        """
        run, release = self.run, self.release
        changes = self.helm_release.changes(release.chart_version, self.values)
        run.change_all(changes, self.helm_release.write)
        if self.current:
            if release.operator and self.kube.get(*facts.CONFIG) is None:
                run.change("config", None, facts.CONFIG[2])
            for name in (*release.crds, *release.foreign_crds):
                if self.kube.get(*facts.CRD, name) is None:
                    run.change("CRD", None, name)
        if not run.changes and (missing := self.availability.missing_for_long()):
            run.change("parts", missing, "available")
        return self.current is not None and bool(changes)

    def _previewed(self) -> list[JsonObject]:
        """Return what the chart makes with these values, once nothing stands against them."""
        if self.release.queue_levels is not None:
            refuse_deeper_queues(self.release, self.kube.list(*QUEUE))
        return parse_manifests(self.helm_release.preview(self.chart, self.values))

    def _transition(self, replaces: bool, differs: bool, manifests: t.Sequence[JsonObject]) -> Transition:
        """Read what else the way to the release depends on."""
        hooks = differs and self._has_hooks()
        return Transition(
            self.release,
            self.before,
            self.current is not None,
            differs,
            replaces,
            hooks,
            unfinished=self.current.status if self.current and self.helm_release.unfinished else "",
            exported=is_exported(self.kube),
            images=images.missing(self.kube, images_in(manifests, hooks)) if replaces else (),
        )

    def _has_hooks(self) -> bool:
        """Tell whether the chart's hooks do more than is done here, which is to bring the CRDs and the Config."""
        if not self.release.operator or migrates_topologies(self.values, self.release):
            return True
        return self.kube.get(*facts.CRD, facts.OPENSHIFT_CRD) is not None

    def _steps(self, change: Transition, manifests: t.Sequence[JsonObject]) -> list[Step]:
        """Return the steps to the release, each with what it does."""
        run = self.run
        replacement = Replacement(run, self.helm_release, change, self.chart, self.values, manifests)
        removal = Removal(self.kube, self.helm_release, run.deadline, replaced=True)
        calls: dict[Action, t.Callable[[], object]] = {
            Action.PULL: functools.partial(images.pull, run, change.images, self.values),
            Action.EXPORT_QUEUES: functools.partial(export_queues, self.kube),
            Action.REMOVE: removal.remove,
            Action.REMOVE_REST: removal.remove,
            Action.REPAIR: functools.partial(self.helm_release.repair, run.deadline),
            Action.APPLY_CRDS: replacement.apply_crds,
            Action.START_COPY: functools.partial(admission_copy.start, run),
            Action.APPLY_CHART: replacement.apply_chart,
            Action.WRITE_CONFIG: replacement.write_config,
            Action.RESTART: self.availability.restart_scheduler,
            Action.WRITE_QUEUES: functools.partial(restore_queues, run),
        }
        texts = {action: [text.format(**change.names) for text in action.value] for action in actions(change)}
        return [self._step(what, why, calls[action]) for action, (what, why) in texts.items()]

    def _step(self, what: str, why: str, action: t.Callable[[], object]) -> Step:
        """Return a step whose failure tells why KAI's pods do not start, too."""

        def perform() -> None:
            try:
                action()
            except TenancyError as exc:
                failures = self._start_failures()
                pods = f" Pods in {KAI_NAMESPACE}: {'; '.join(failures)}." if failures else ""
                raise exc.saying(f"{exc.message}{pods}") from exc

        return Step(what, why, perform)

    def _start_failures(self) -> list[str]:
        try:
            return pod_problems(self.kube.list("v1", "Pod", KAI_NAMESPACE))
        except TenancyError:
            # What made the step fail matters more than that the API does not answer now.
            return []

    def _restart_crashed(self) -> None:
        """Restart pods that crashed before this run: their cause may be mended, and the kubelet would wait up to five minutes to try again."""
        if self.current is None or not (names := self.availability.crashed()):
            return
        for name in names:
            restart = functools.partial(self.kube.delete, "v1", "Pod", name, KAI_NAMESPACE)
            self.run.perform(f"restart pod {name}", "it crashed again and again before this run", restart)

    def _restart_unauthorised(self) -> None:
        """Restart a scheduler that a run, killed after an upgrade, left older than its service account."""
        if self.availability.has_unauthorised_scheduler():
            self.run.change("scheduler", "older than its service account", "restarted")
            why = "it is older than its service account, and goes on without rights (#1536)"
            self.run.perform_all([self._step("restart the scheduler", why, self.availability.restart_scheduler)])


def absent(run: Run, purge: bool) -> Result:
    """Remove KAI Scheduler from a run's cluster, whether or not Helm knows of it.

    :arg purge: whether CRDs, with all that users made, and the reservations of shared GPUs go, too.
    """
    release = helm_release(run)
    current = release.inspect()
    removal = Removal(run.kube, release, run.deadline, purge)
    if current:
        run.change("version", current.chart_version, None, release.write)
    for leftover in removal.leftovers():
        run.change(f"{leftover.kind} {leftover.name}", "present", None)
    if run.changes:
        what = current.chart_version if current else "what is left of it"
        run.perform(f"remove {what}", "as asked; webhooks go before what answers them", removal.remove)
    return run.result(notes=[])
