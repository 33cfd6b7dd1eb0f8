# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bring the objects of a release of KAI Scheduler into a cluster, in place of those of the release before."""

from __future__ import annotations

import functools
import typing as t

from .._common.names import KAI_NAMESPACE
from .._common.parallel import concurrently
from .._common.pods import pods_gone
from .._common.values import JsonObject, merge_patch
from .._common.wait import wait_for
from . import admission_copy, facts, status
from .plan import Move, Transition
from .values import config_in, objects_in
from .values import namespace as own_namespace

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart
    from .._common.run import Run
    from .._common.values import Values
    from .._helm.lifecycle import HelmRelease


class Replacement:
    """The chart of the wanted release, against what is installed.

    :arg values: all that the chart is given; ``manifests``, what it makes with them.
    """

    def __init__(
        self,
        run: Run,
        helm_release: HelmRelease,
        change: Transition,
        chart: Chart,
        values: Values,
        manifests: t.Sequence[JsonObject],
    ) -> None:
        self.run = run
        self.kube = run.kube
        self.helm_release = helm_release
        self.change = change
        self.chart = chart
        self.values = values
        self.manifests = manifests

    def apply_crds(self) -> None:
        """Apply the CRDs, of the chart and of others that it needs, and wait until they are served."""
        crds = self.run.helm.crds(self.chart)
        concurrently(self.kube.apply, crds)
        foreign = [name for name in self.change.release.foreign_crds if self.kube.get(*facts.CRD, name) is None]
        for name in foreign:
            self.kube.create(facts.foreign_crd(name))
        names = {crd["metadata"]["name"] for crd in crds} | set(foreign)
        wait_for("the CRDs", lambda: status.established(names, self.kube.list(*facts.CRD)), self.run.deadline)

    def apply_chart(self) -> None:
        """Install or upgrade the Helm release."""
        self._end_former()
        if self.change.hooks:
            # A hook's Job that was left behind would be in the way of the next one.
            for job in self.kube.list("batch/v1", "Job", KAI_NAMESPACE):
                self.kube.delete("batch/v1", "Job", job["metadata"]["name"], KAI_NAMESPACE)
        if self.kube.get("v1", "Namespace", KAI_NAMESPACE) is None:
            self.kube.create(own_namespace())
        if not self.change.hooks:
            self.write_config()
        self.helm_release.apply(self.chart, self.values, self.run.deadline, hooks=self.change.hooks)

    def _end_former(self) -> None:
        """End what would stand in the way of the chart's objects, or undo them."""
        if self.change.release.operator:
            # Seen from v0.12.0 to v0.13.1: until the new one is ready, both undo what the other does to the schedulers.
            self.kube.delete("apps/v1", "Deployment", facts.OPERATOR, KAI_NAMESPACE)
        if self.change.replaces:
            gone = functools.partial(pods_gone, self.kube, KAI_NAMESPACE, f"app={facts.OPERATOR}")
            wait_for("the end of the former operator", gone, self.run.deadline, interval=0.3)
            if self.change.before != self.change.release.number:
                concurrently(self._hand_over, objects_in(self.manifests, facts.MADE_BY_EITHER))
        if self.change.in_place:
            self._end_former_pods()

    def _end_former_pods(self) -> None:
        """End the pods of a release that another one replaces in place, but for the pods that its operator recreates by itself.

        A Deployment that is rolled over would need room for one more pod in the tenant's quota; and of a newer release, none keeps
        what the older operator would not reset. The admission's pod is gone before the operator has its Service select it again.
        """
        admission_copy.take_over(self.run)
        if self.change.before == self.change.release.number:
            return
        deployments = [
            item["metadata"]["name"]
            for item in self.kube.list("apps/v1", "Deployment", KAI_NAMESPACE)
            if self.change.move is Move.DOWNGRADE
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

    def write_config(self) -> None:
        """Bring the Config to what the chart's hook would make it, without that hook's way: to delete it with all that it owns."""
        config = config_in(self.manifests)
        if config is None:
            return
        live = self.kube.get(*facts.CONFIG)
        if live is None:
            self.kube.apply(config)
        else:
            self.kube.patch(*facts.CONFIG, {"spec": merge_patch(live["spec"], config["spec"])})
