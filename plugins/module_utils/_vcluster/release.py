# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The chart of one virtual cluster: what stands against it, what differs from what is installed, and how it is applied."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import TenancyError
from .._common.ownership import annotations_of
from .._common.values import Change, JsonObject
from .._helm.lifecycle import Edits
from .._nodes.dra import list_nodes
from . import validation
from .facts import CILIUM, CONTROL_PLANE, CONTROL_PLANE_POLICY, RENDERED_ANNOTATION
from .inventory import configs
from .overlaps import collisions
from .status import Existing, is_paused
from .values import Wanted, kubernetes_of, narrowed_egress, pod_networks

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart
    from .._common.run import Run
    from .._helm.lifecycle import HelmRelease


class Charts(t.NamedTuple):
    """Where the charts of vCluster come from.

    :ivar find: returns the chart of a version, or raises TenancyError.
    :ivar versions: returns the versions that can be had; None where every release of upstream can.
    """

    find: t.Callable[[str], Chart]
    versions: t.Callable[[], list[str] | None]


# What a difference of the host's Kubernetes is called in changes.
_RENDERED = "host_kubernetes"


class ChartRelease:
    """The release of vCluster's chart for one virtual cluster.

    :arg release: read already.
    """

    def __init__(self, run: Run, release: HelmRelease, charts: Charts) -> None:
        self.run = run
        self.kube = run.kube
        self.release = release
        self.charts = charts
        self.name = release.name
        self.namespace = release.namespace

    def path(self, asked: Wanted, existing: Existing) -> list[Wanted]:
        """Return the desired states by which a change goes, the last one being what is asked for.

        :raises TenancyError: for what does not go with what is in the namespace.
        """
        release = existing.release
        if existing.usable and release is None:
            for other in self.kube.list("apps/v1", "StatefulSet", self.namespace, CONTROL_PLANE):
                if other["metadata"]["name"] != self.name:
                    raise TenancyError(
                        f"namespace: {self.namespace} already holds the virtual cluster {other['metadata']['name']}."
                    )
        if release and release.status == "deployed":
            validation.check_store(release.values, asked.values)
        if not release or release.status == "pending-install" or self.run.params["force_version"]:
            return [asked]
        validation.check_kubernetes_upgrade(
            kubernetes_of(release.chart_version, release.values), kubernetes_of(asked.version, asked.values)
        )
        versions = validation.upgrade_path(release.chart_version, asked.version, self.charts.versions())
        for version in versions:
            validation.check_skew(version, kubernetes_of(version, asked.values), existing.kubernetes)
        return [dataclasses.replace(asked, version=version) for version in versions]

    def changes(self, asked: Wanted, existing: Existing) -> list[Change]:
        """List what differs of the release, and the host's Kubernetes where the chart was rendered for another or an unknown one."""
        changes = self.release.changes(asked.version, asked.values)
        noted, host = annotations_of(existing.usable).get(RENDERED_ANNOTATION), existing.host
        known = asked.recorded or existing.usable is None or not host or noted == host
        return changes if known else [*changes, (_RENDERED, noted, host)]

    def previewed(self, path: list[Wanted]) -> list[Chart]:
        """Return the chart of each step, once none of them and no other virtual cluster stands against the values."""
        charts = [self.charts.find(step.version) for step in path]
        self._refuse_shared_gpus(path[-1])
        for chart, step in zip(charts, path):
            self.release.preview(chart, step.values)
        return charts

    def go_through(self, chart: Chart, step: Wanted, asked: Wanted) -> None:
        """Upgrade the release to a version between."""
        self.run.perform(
            f"upgrade the Helm release {self.name} with vCluster {step.version}",
            f"{asked.version} skips this minor version",
            lambda: self.release.apply(chart, step.values, self.run.deadline),
        )

    def _refuse_shared_gpus(self, asked: Wanted) -> None:
        """Refuse GPUs that another virtual cluster books without seeing this one."""
        key = f"{self.namespace}/{self.name}"
        found = configs(self.kube)
        overlaps = collisions(list_nodes(self.kube), found.read | {key: asked.values}, only=key)
        if overlaps:
            raise TenancyError(
                "node_selector: " + "; ".join(overlaps) + ". Give them different nodes, or a gpu_quota each that fit together.",
                overlaps=overlaps,
            )

    def apply(self, chart: Chart, asked: Wanted, changes: list[Change], host: str) -> None:
        """Install or upgrade the release.

        :arg host: minor version of the host cluster's Kubernetes.
        """
        release = self.release.found
        self.run.change_all(changes, self.release.write)
        why = "it is not installed" if release is None else ", ".join(what for what, _before, _after in changes) + " differ"
        self.run.perform(
            f"{'upgrade' if release else 'install'} the Helm release {self.name} with vCluster {asked.version}",
            why,
            lambda: self._rendered(chart, asked, host if any(what == _RENDERED for what, _before, _after in changes) else ""),
        )

    def take_back_edits(self) -> bool:
        """Undo what others changed of the chart's objects; return whether there was anything."""
        return Edits(self.run, self.release, self._kept).take_back()

    def _kept(self, item: JsonObject, live: JsonObject) -> JsonObject:
        """Return an object of the chart with what this collection keeps otherwise: the narrower policy, and a pause."""
        if item["kind"] == "NetworkPolicy" and item["metadata"]["name"] == CONTROL_PLANE_POLICY.format(self.name):
            kept = {"egress": self._egress(item["spec"].get("egress") or [], live["spec"].get("egress") or [])}
        elif item["kind"] in ("StatefulSet", "Deployment") and is_paused(live):
            kept = {"replicas": live["spec"].get("replicas")}
        else:
            return item
        return item | {"spec": item["spec"] | kept}

    def _egress(self, rules: list[JsonObject], live: list[JsonObject]) -> list[JsonObject]:
        """Return the egress rules of the control plane's policy: the live ones where they differ from the chart's by what is narrowed."""
        networks = [] if self.kube.served(*CILIUM) else pod_networks(self.kube.list("v1", "Node"))
        wanted = narrowed_egress(rules, networks)
        return live if narrowed_egress(live, networks) == wanted else wanted

    def _rendered(self, chart: Chart, asked: Wanted, host: str) -> None:
        """Apply the chart, and only then note for which Kubernetes of the host, so that a run that is killed before that does it again."""
        self.release.apply(chart, asked.values, self.run.deadline)
        if host:
            self.kube.patch("v1", "Namespace", self.namespace, {"metadata": {"annotations": {RENDERED_ANNOTATION: host}}})
