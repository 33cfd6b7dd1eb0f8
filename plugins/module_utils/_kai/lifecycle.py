# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Install, upgrade, downgrade and remove KAI Scheduler in one cluster."""

from __future__ import annotations

import base64
import datetime
import functools
import json
import typing as t

from .._common.documents import parse_json
from .._common.errors import TenancyError, WaitTimeout
from .._common.names import KAI_NAMESPACE, QUEUE_API_VERSION, QUEUE_KIND, TENANT_LABEL
from .._common.ownership import OWNED_LABELS, annotations_of, last_write
from .._common.parallel import concurrently
from .._common.parties import reason
from .._common.pods import pod_problems, pods_gone
from .._common.run import Step
from .._common.values import JsonObject, merge_patch
from .._common.wait import wait_for, when_webhook_answers
from .._helm.lifecycle import HelmRelease
from .._queues.values import from_live, levels, readable
from . import facts, stand_in, status
from .removal import Removal
from .validation import hazards_on, parse_installed, refuse_deeper_queues, refuse_hazards
from .values import config_in, images_in, migrates_topologies, objects_in, parse_manifests, pulling_pod, shares_gpus

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart
    from .._adapters.kubernetes import Kube
    from .._common.run import Result, Run
    from .._common.values import Values


QUEUE = (QUEUE_API_VERSION, QUEUE_KIND)


def helm_release(run: Run) -> HelmRelease:
    """Return KAI's Helm release in a run's cluster."""
    return HelmRelease(run.kube, run.helm, facts.RELEASE_NAME, KAI_NAMESPACE)


def asked_of(kube: Kube, release: facts.Release, values: Values) -> facts.Asked:
    """Return what is asked of a release in a cluster, by the values of its chart and by whose pods run beside it."""
    return facts.Asked(shares_gpus(values, release), bool(kube.list("v1", "Namespace", None, TENANT_LABEL)))


def read_parts(kube: Kube, release: facts.Release) -> status.Parts:
    """Read the objects that show whether a release is available."""
    return status.Parts(
        config=kube.get(*facts.CONFIG) if release.operator else None,
        shards=kube.list(*facts.SHARD) if release.shard else [],
        # An operator reports on its webhooks in the Config's conditions.
        webhooks=[] if release.operator else [item for kind in facts.WEBHOOK_KINDS for item in kube.list(facts.ADMISSION, kind)],
        deployments=kube.list("apps/v1", "Deployment", KAI_NAMESPACE),
    )


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
        current = self.helm_release.inspect()
        self.current = current
        self.before = parse_installed(current.chart_version) if current else release.number
        self.is_downgrade = self.before > release.number
        # Whether another release, or other values, take the place of what is installed.
        self.replaces = False
        # What the chart makes with these values; rendered where something changes.
        self.manifests: list[JsonObject] = []
        # What a downgrade that was killed left for the next run.
        self.export = self.kube.get("v1", "Secret", *facts.EXPORT)

    def present(self, today: datetime.date) -> Result:
        """Install the release, or change the one that is there, and wait until all parts are available."""
        run, release = self.run, self.release
        accepted = self._accepted(today)
        self._compare()
        changing = bool(run.changes)
        if changing:
            if release.queue_levels is not None:
                refuse_deeper_queues(release, self.kube.list(*QUEUE))
            self.manifests = parse_manifests(self.helm_release.preview(self.chart, self.values))
        if self.export:
            run.change(f"Secret {facts.EXPORT[0]}", "present", None)
        if left := stand_in.exists(self.kube):
            run.change(f"Pod {stand_in.NAME}", "present", None)
        record = self._record()
        run.take_all([*self._steps(changing), *record])
        if not run.check_mode:
            wait_for(f"KAI Scheduler {release.version}", self._ready, run.deadline)
        if left or (changing and self._in_place):
            end = functools.partial(stand_in.end, run)
            run.take_all([self._step("remove the copy of the admission pod", "KAI's own answers again", end)])
        if not (run.check_mode and changing):
            self._restart_unauthorised()
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

    # --- what is accepted ---

    def _accepted(self, today: datetime.date) -> list[str]:
        """Refuse the release for hazards that nobody accepted; return the names of those that touch and were accepted."""
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
        before = annotations_of(live).get(key)
        after = ",".join(sorted(set(self.run.params["accept_hazards"]))) or None
        if before == after:
            return []
        self.run.change("accepted_hazards", before, after, last_write(live, ("metadata", "annotations", key)))
        write = functools.partial(self.kube.patch, *namespace, {"metadata": {"annotations": {key: after}}})
        return [self._step("record the accepted hazards", "kai_scheduler_info reports them", write)]

    # --- what differs ---

    def _compare(self) -> None:
        """Record every difference between the cluster and what is wanted."""
        run, release = self.run, self.release
        changes = self.helm_release.changes(release.chart_version, self.values)
        run.change_all(changes, self.helm_release.write)
        self.replaces = self.current is not None and bool(changes)
        if self.current:
            if release.operator and self.kube.get(*facts.CONFIG) is None:
                run.change("config", None, facts.CONFIG[2])
            for name in (*release.crds, *release.foreign_crds):
                if self.kube.get(*facts.CRD, name) is None:
                    run.change("CRD", None, name)
        if not run.changes and (missing := self._missing_for_long()):
            run.change("parts", missing, "available")

    def _missing(self) -> list[str]:
        return status.missing(self.release, read_parts(self.kube, self.release))

    def _missing_for_long(self) -> str:
        """Return which parts of a release that is as asked are missing, and do not come back by themselves.

        After a reboot, for example, they only need time: up to a third of what is left. Check mode does not wait.
        """
        missing = "; ".join(self._missing())
        if not missing or self.run.check_mode:
            return missing
        try:
            wait_for(f"KAI Scheduler {self.release.version}", self._ready, self.run.deadline.share(1 / 3))
        except WaitTimeout as exc:
            return exc.last_seen
        return ""

    def _ready(self, ended: t.Collection[str] = ()) -> tuple[bool | None, str]:
        """Probe for ``wait_for``: True once all parts are available and the pods named by ``ended`` are gone."""
        phrases = self._missing()
        if phrases or ended:
            pods = self.kube.list("v1", "Pod", KAI_NAMESPACE)
            phrases += [f"pod {pod['metadata']['name']} still runs" for pod in pods if pod["metadata"]["name"] in ended]
            phrases += pod_problems(pods)
        return (None, "; ".join(phrases)) if phrases else (True, "")

    # --- what is done ---

    def _steps(self, changing: bool) -> list[Step]:
        """Return the steps to the wanted release; a run that was killed between two of them is finished by the next."""
        version, current = self.release.version, self.current
        steps = self._preparation()
        if self.replaces and (images := self._images_to_pull()):
            why = "what is installed stays until they are there"
            steps.insert(0, self._step("pull the images", why, lambda: self._pull(images)))
        if changing:
            steps.append(self._step("apply the CRDs", "helm installs them once and never changes them", self._apply_crds))
            upgrade = current is not None and not self.is_downgrade
            if self._in_place:
                why = "new pods would be refused until KAI's own is there again"
                steps.append(self._step("start a copy of the admission pod", why, functools.partial(stand_in.start, self.run)))
            verb = "upgrade to" if upgrade else "downgrade to" if self._in_place else "install"
            steps.append(self._step(f"{verb} {version}", "as asked, with all values", self._install))
            if upgrade and facts.facts_of(self.before)["config_by_helm"] and not self.release.config_by_helm:
                why = "helm deletes it after the upgrade, because it was an object of the former release"
                steps.append(self._step("write back the Config", why, self._write_config))
            if upgrade and self.release.restart_after_upgrade and (self._hooks or not self._made_alike):
                why = "its service account was made anew, and it would go on without rights (#1536)"
                steps.append(self._step("restart the scheduler", why, self._restart))
        if self.export or (self.is_downgrade and not self._in_place):
            steps.append(
                self._step("write back the queues", "some may be missing or changed since the export", self._restore_queues)
            )
        return steps

    def _preparation(self) -> list[Step]:
        """Return the steps that clear the way for the chart: a downgrade's removal, or a repair."""
        current, version = self.current, self.before
        if current and self.is_downgrade and not self._in_place:
            why = f"v{facts.dotted(version)} is made of other parts"
            removal = self._step(f"remove v{facts.dotted(version)}", why, self._remove_former)
            export = self._step("export the queues", "a downgrade goes by removal", self._export_queues)
            return [removal] if self.export else [export, removal]
        if self.export and not current:
            why = "a downgrade was killed in the middle of the removal"
            return [self._step("remove the rest of the former release", why, self._remove_former)]
        if current and self.helm_release.unfinished:
            why = f"it is {current.status}, which a killed run leaves, and helm would refuse to go on"
            repair = functools.partial(self.helm_release.repair, self.run.deadline)
            return [self._step("repair the unfinished Helm release", why, repair)]
        return []

    def _step(self, what: str, why: str, action: t.Callable[[], object]) -> Step:
        """Return a step whose failure tells why KAI's pods do not start, too."""

        def take() -> None:
            try:
                action()
            except TenancyError as exc:
                failures = self._start_failures()
                pods = f" Pods in {KAI_NAMESPACE}: {'; '.join(failures)}." if failures else ""
                raise exc.saying(f"{exc.message}{pods}") from exc

        return Step(what, why, take)

    def _start_failures(self) -> list[str]:
        try:
            return pod_problems(self.kube.list("v1", "Pod", KAI_NAMESPACE))
        except TenancyError:
            # What made the step fail matters more than that the API does not answer now.
            return []

    def _images_to_pull(self) -> list[str]:
        present = status.images_on(self.kube.list("v1", "Node"))
        return [image for image in images_in(self.manifests, self._hooks) if image not in present]

    def _pull(self, images: list[str]) -> None:
        """Have a node pull images.

        :raises TenancyError: when one does not come within two thirds of the time that is left.
        """
        pod = pulling_pod(images, self.values)
        name = pod["metadata"]["name"]
        seen = functools.partial(self.kube.get, "v1", "Pod", name, KAI_NAMESPACE)
        if self.kube.delete("v1", "Pod", name, KAI_NAMESPACE):
            wait_for("the end of a killed run's pod", lambda: (seen() is None or None, "it is there"), self.run.deadline)
        try:
            self.kube.create(pod)
        except TenancyError as exc:
            # A webhook that does not answer, for example, is what this change may mend.
            self.run.warn(f"Whether the images can be pulled was not tried: {exc.message}")
            return
        try:
            wait_for(f"the images {', '.join(images)}", lambda: status.pulled(seen()), self.run.deadline.share(2 / 3))
        finally:
            self.kube.delete("v1", "Pod", name, KAI_NAMESPACE)

    def _apply_crds(self) -> None:
        crds = self.run.helm.crds(self.chart)
        concurrently(self.kube.apply, crds)
        foreign = [name for name in self.release.foreign_crds if self.kube.get(*facts.CRD, name) is None]
        for name in foreign:
            self.kube.create(facts.foreign_crd(name))
        names = {crd["metadata"]["name"] for crd in crds} | set(foreign)
        wait_for("the CRDs", lambda: status.established(names, self.kube.list(*facts.CRD)), self.run.deadline)

    @functools.cached_property
    def _hooks(self) -> bool:
        """Whether the chart's hooks do more than is done here, which is to bring the CRDs and the Config."""
        openshift = self.kube.get(*facts.CRD, facts.OPENSHIFT_CRD) is not None
        return not self.release.operator or migrates_topologies(self.values, self.release) or openshift

    @property
    def _made_alike(self) -> bool:
        """Whether an operator made all of what is installed, as that of the wanted release does."""
        return bool(self.release.shard and facts.facts_of(self.before)["shard"])

    @property
    def _in_place(self) -> bool:
        """Whether another release, or other values, take over the Config, webhooks and service accounts of what is installed.

        Each operator removes what another one made for the same Config and it does not know itself.
        """
        return self.replaces and self._made_alike and not self._hooks

    def _install(self) -> None:
        if self.release.operator:
            # Seen from v0.12.0 to v0.13.1: until the new one is ready, both undo what the other does to the schedulers.
            self.kube.delete("apps/v1", "Deployment", facts.OPERATOR, KAI_NAMESPACE)
        if self.replaces:
            gone = functools.partial(pods_gone, self.kube, KAI_NAMESPACE, f"app={facts.OPERATOR}")
            wait_for("the end of the former operator", gone, self.run.deadline, interval=0.3)
            if self.before != self.release.number:
                concurrently(self._hand_over, objects_in(self.manifests, facts.MADE_BY_EITHER))
        if self._in_place:
            self._end_former_pods()
        if self._hooks:
            # A hook's Job that was left behind would be in the way of the next one.
            for job in self.kube.list("batch/v1", "Job", KAI_NAMESPACE):
                self.kube.delete("batch/v1", "Job", job["metadata"]["name"], KAI_NAMESPACE)
        if self.kube.get("v1", "Namespace", KAI_NAMESPACE) is None:
            # By the label others know that this installation is owned by this collection.
            metadata = {"name": KAI_NAMESPACE, "labels": OWNED_LABELS}
            self.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        if not self._hooks:
            self._write_config()
        self.helm_release.apply(self.chart, self.values, self.run.deadline, hooks=self._hooks)

    def _end_former_pods(self) -> None:
        """End the pods of a release that another one replaces in place, but for those that its operator recreates by itself.

        A Deployment that is rolled over would need room for one more pod in the tenant's quota; and of a newer release, none keeps
        what the older operator would not reset. The admission's pod is gone before the operator has its Service select it again.
        """
        stand_in.take_over(self.run)
        if self.before == self.release.number:
            return
        deployments = [
            item["metadata"]["name"]
            for item in self.kube.list("apps/v1", "Deployment", KAI_NAMESPACE)
            if self.is_downgrade
            or item["metadata"]["name"] == facts.ADMISSION_SERVER
            or (item["spec"].get("strategy") or {}).get("type") != "Recreate"
        ]
        concurrently(lambda name: self.kube.delete("apps/v1", "Deployment", name, KAI_NAMESPACE), deployments)

    def _hand_over(self, item: JsonObject) -> None:
        """Have helm own an object that the former operator made and that this chart makes itself: it would refuse to touch it.

        A Deployment is deleted, for helm to make anew: what the operator set there could exclude what the chart sets.
        """
        ref = (item["apiVersion"], item["kind"], item["metadata"]["name"])
        namespace = item["metadata"].get("namespace", KAI_NAMESPACE)
        owners = ((self.kube.get(*ref, namespace) or {"metadata": {}})["metadata"]).get("ownerReferences") or []
        if not any(owner["kind"] == facts.CONFIG[1] for owner in owners):
            return
        if item["kind"] == "Deployment":
            self.kube.delete(*ref, namespace)
        else:
            marks = {"labels": facts.HELM_LABELS, "annotations": facts.HELM_ANNOTATIONS, "ownerReferences": None}
            self.kube.patch(*ref, {"metadata": marks}, namespace)

    def _write_config(self) -> None:
        """Bring the Config to what the chart's hook would make it, without that hook's way: to delete it with all that it owns."""
        config = config_in(self.manifests)
        if config is None:
            return
        live = self.kube.get(*facts.CONFIG)
        if live is None:
            self.kube.apply(config)
        else:
            self.kube.patch(*facts.CONFIG, {"spec": merge_patch(live["spec"], config["spec"])})

    def _scheduler_pods(self) -> list[JsonObject]:
        return self.kube.list("v1", "Pod", KAI_NAMESPACE, f"app={self.release.scheduler}")

    def _restart(self) -> None:
        names = [pod["metadata"]["name"] for pod in self._scheduler_pods()]
        for name in names:
            self.kube.delete("v1", "Pod", name, KAI_NAMESPACE)
        wait_for("the restart of the scheduler", lambda: self._ready(names), self.run.deadline)

    def _restart_unauthorised(self) -> None:
        """Restart a scheduler that a run, killed after an upgrade, left older than its service account."""
        if not self.release.restart_after_upgrade:
            return
        for pod in self._scheduler_pods():
            account = self.kube.get("v1", "ServiceAccount", pod["spec"].get("serviceAccountName", "default"), KAI_NAMESPACE)
            if status.is_unauthorised(pod, account):
                self.run.change("scheduler", "older than its service account", "restarted")
                why = "it is older than its service account, and goes on without rights (#1536)"
                self.run.take_all([self._step("restart the scheduler", why, self._restart)])
                return

    # --- a downgrade ---

    def _remove_former(self) -> None:
        Removal(self.kube, self.helm_release, self.run.deadline, replaced=True).remove()

    def _export_queues(self) -> None:
        name, namespace = facts.EXPORT
        metadata = {"name": name, "namespace": namespace, "labels": OWNED_LABELS}
        queues = json.dumps(self.kube.list(*QUEUE))
        self.kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"queues": queues}})

    def _restore_queues(self) -> None:
        """Write the exported queues back that are missing or not as they were, and remove the export."""
        secret = self.kube.get("v1", "Secret", *facts.EXPORT)
        if secret is None:
            return
        # In a virtual cluster its administrator may have written it.
        exported = _exported(secret)
        live = {item["metadata"]["name"]: item for item in self.kube.list(*QUEUE)}
        # Parents first, as the webhook of some releases wants it.
        queues = from_live(exported)
        level = levels(queues)
        for item in sorted(exported, key=lambda item: level[item["metadata"]["name"]]):
            name = item["metadata"]["name"]
            metadata = {key: item["metadata"][key] for key in ("name", "labels", "annotations") if key in item["metadata"]}
            body = {"apiVersion": QUEUE_API_VERSION, "kind": QUEUE_KIND, "metadata": metadata, "spec": item["spec"]}
            if name not in live:
                write = functools.partial(self.kube.create, body)
            elif live[name]["spec"] != item["spec"]:
                write = functools.partial(self.kube.apply, body)
            else:
                continue
            when_webhook_answers(f"queue {name} to be written back", write, self.run.deadline)
        self.kube.delete("v1", "Secret", *facts.EXPORT)


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
        run.take(f"remove {what}", "as asked; webhooks go before what answers them", removal.remove)
    return run.result(notes=[])


def _exported(secret: JsonObject) -> list[JsonObject]:
    """Return the queues in the Secret that keeps them over a change of their CRD; others of its objects are none.

    :raises TenancyError: where it holds no list.
    """
    try:
        items = parse_json(base64.b64decode(secret["data"]["queues"]))
        known = [item for item in items if item["kind"] == QUEUE[1] and item["apiVersion"] == QUEUE[0]]
    except (ValueError, KeyError, TypeError) as exc:
        where = "/".join(reversed(facts.EXPORT))
        raise TenancyError(
            f"Secret {where}, which keeps the queues over an upgrade, cannot be read: {reason(exc)}. Remove it."
        ) from exc
    return readable(known)[0]
