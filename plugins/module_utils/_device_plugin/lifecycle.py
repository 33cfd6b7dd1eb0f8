# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""NVIDIA's device plugin or GPU operator in one cluster: present or absent, with the nodes' labels."""

from __future__ import annotations

import functools
import typing as t

from .._common.errors import Problem, TenancyError, refusal, refuse
from .._common.ownership import OWNED_LABELS, is_owned, labels_of
from .._common.pods import pods_gone
from .._common.run import Result, Run
from .._common.values import JsonObject
from .._common.wait import wait_for
from .._helm.lifecycle import Edits, HelmRelease
from .._metrics.facts import DCGM
from .._metrics.lifecycle import check_reader, ensure_objects
from .._metrics.plan import dcgm_objects
from .._nodes.facts import DEVICE_CLASS, RESOURCE_SLICE
from .._nodes.status import offered
from .facts import CLUSTER_POLICY, NODE_API, PROVIDERS, RUNTIME_CLASS
from .plan import Plan, Relabel, plan, relabels
from .status import complaints, holders, judge_offer, rivals, still_offered, unread
from .values import has_configs, replicas_of, uses_dra

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart
    from .._adapters.kubernetes import Kube

FindChart = t.Callable[[str], "Chart"]


class DevicePlugin:
    """The program that makes a cluster's nodes offer their GPUs.

    :arg find_chart: returns the provider's chart of a version, from where the options say.
    """

    def __init__(self, run: Run, find_chart: FindChart) -> None:
        self.run = run
        self.kube = run.kube
        self.params = run.params
        self.provider = PROVIDERS[run.params["provider"]]
        self.namespace: str = run.params["namespace"] or self.provider.release
        self.release = HelmRelease(run.kube, run.helm, self.provider.release, self.namespace)
        self.find_chart = find_chart

    # --- present ---

    def present(self) -> Result:
        """Have the release and the nodes' labels as asked, and wait until the nodes offer their GPUs.

        :raises TenancyError: before the first write, when anything of it is refused.
        """
        version: str = self.params["version"] or self.provider.version
        self._refuse_rivals()
        nodes = self.kube.list("v1", "Node")
        wanted = plan(self.params, version, nodes, self.kube.version())
        if wanted.metrics:
            check_reader(self.run, wanted.metrics)
        labels = relabels(nodes, wanted.labels)
        chart = self.find_chart(version)
        objects = self._missing_objects()
        if "namespace" not in objects:
            self.release.inspect()
        upgrade = self.release.changes(version, wanted.values)
        if upgrade:
            served = [f"{DEVICE_CLASS[0]}/{DEVICE_CLASS[1]}"] if wanted.dra and self.kube.served(*DEVICE_CLASS) else []
            self.release.preview(chart, wanted.values, served)
        gpus = self._gpus_to_offer(wanted, nodes)
        for what, item in objects.items():
            self.run.change(what, None, item["metadata"]["name"])
        self.run.change_all(upgrade, self.release.write)
        if not upgrade:
            Edits(self.run, self.release).take_back()
        for relabel in labels:
            self.run.change_all(relabel.changes, relabel.write)
        self._write(objects, labels, chart if upgrade else None, wanted)
        if self.run.check_mode and self.run.changes:
            return self.run.result()
        offer = functools.partial(self._probe_offer, gpus, wanted)
        return self.run.result(gpus=wait_for("the nodes to offer their GPUs", offer, self.run.deadline))

    def _refuse_rivals(self) -> None:
        if found := self._rivals():
            raise TenancyError(
                f"provider: {self.provider.title} cannot be installed beside {' and '.join(found)}: nodes would offer the same GPUs "
                "twice. Remove that first: by state absent of its provider if this module made it, else as it was installed."
            )

    def _rivals(self) -> list[str]:
        daemon_sets = self.kube.list("apps/v1", "DaemonSet")
        operators = self.kube.list("apps/v1", "Deployment", label_selector="app.kubernetes.io/component=gpu-operator")
        return rivals(self.provider, self.namespace, daemon_sets, operators)

    def _missing_objects(self) -> dict[str, JsonObject]:
        """Return what has to be created besides the release, by its name in diffs."""
        objects: dict[str, JsonObject] = {}
        handler = (self.kube.get(NODE_API, "RuntimeClass", "nvidia") or {}).get("handler", "")
        if handler not in ("", "nvidia"):
            raise TenancyError(
                f"The RuntimeClass nvidia exists with handler {handler}, which cannot be changed: remove it first."
            )
        # The operator makes its own RuntimeClass, or takes over the one that is there.
        if not handler and self.provider.name == "device_plugin":
            objects["RuntimeClass"] = RUNTIME_CLASS
        if self.kube.get("v1", "Namespace", self.namespace) is None:
            metadata = {"name": self.namespace, "labels": OWNED_LABELS}
            objects["namespace"] = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        return objects

    def _gpus_to_offer(self, wanted: Plan, nodes: list[JsonObject]) -> dict[str, int]:
        """Return how many GPUs each node has to offer, where that is known.

        :raises TenancyError: where the live release cannot become the wanted one while it is in use.
        """
        live = self.release.found.values if self.release.found else {}
        if self.release.found and uses_dra(live) != wanted.dra:
            raise refusal(
                "cannot-change-in-place",
                "values.gpuCluster: the operator cannot go from device plugin to DRA or back in place. Remove it first, by state absent.",
            )
        gpus = {name: count * wanted.replicas.get(name, 1) for name, count in wanted.expected.items()}
        problems: list[Problem] = []
        pods: list[JsonObject] | None = None
        for node in nodes:
            name, offers = node["metadata"]["name"], offered(node)
            before, after = replicas_of(live, labels_of(node)), wanted.replicas.get(name, 1)
            if before == after or not offers:
                continue
            gpus.setdefault(name, offers // before * after)
            pods = self.kube.list("v1", "Pod") if pods is None else pods
            problems += _in_use(name, before, after, holders(pods, name))
        refuse(problems)
        return gpus

    def _write(self, objects: dict[str, JsonObject], labels: list[Relabel], chart: Chart | None, wanted: Plan) -> None:
        """Take labels off, apply the release, put labels on: at no time a node names a configuration that does not exist."""
        run = self.run
        for what, item in objects.items():
            name = item["metadata"]["name"]
            run.perform(f"create the {what} {name}", "it does not exist", functools.partial(self.kube.create, item))
        self._fence(wanted.metrics)
        if chart:
            for relabel in labels:
                if relabel.retirement:
                    patch = functools.partial(self.kube.patch, "v1", "Node", relabel.node, relabel.retirement)
                    run.perform(f"take labels off node {relabel.node}", "what they name changes with the release", patch)
            if self.release.found and has_configs(self.release.found.values) and not has_configs(wanted.values):
                # Only with configurations its pods have a service account; an update would leave them the name of one that
                # goes, and none would start any more (kubernetes/kubernetes#72519).
                run.perform(
                    "remove the DaemonSets", "their pods would keep a service account that goes", self._remove_daemon_sets
                )
            apply = functools.partial(self.release.apply, chart, wanted.values, run.deadline)
            run.perform(f"apply {chart.ref}", self._why(), apply)
        for relabel in labels:
            patch = functools.partial(self.kube.patch, "v1", "Node", relabel.node, relabel.patch)
            run.perform(f"label node {relabel.node}", "the plugin goes by labels", patch)

    def _fence(self, metrics: t.Mapping[str, t.Any]) -> None:
        """Keep DCGM exporter, which only the operator brings, from everybody but who reads its metrics."""
        if self.provider.name == "gpu_operator":
            ensure_objects(self.run, self.namespace, DCGM, dcgm_objects(self.namespace, metrics))

    def _why(self) -> str:
        if self.release.found is None:
            return "it is not installed"
        return f"the release is {self.release.found.status}" if self.release.unfinished else "version, values or state differ"

    def _remove_daemon_sets(self) -> None:
        for daemon_set in self._daemon_sets():
            self.kube.delete("apps/v1", "DaemonSet", daemon_set["metadata"]["name"], self.namespace)
        ended = functools.partial(pods_gone, self.kube, self.namespace, self.provider.selector)
        wait_for("the end of the pods that share GPUs", ended, self.run.deadline)

    def _daemon_sets(self) -> list[JsonObject]:
        return self.kube.list("apps/v1", "DaemonSet", self.namespace, self.provider.selector)

    def _pods(self) -> list[JsonObject]:
        return self.kube.list("v1", "Pod", self.namespace, self.provider.selector)

    def _probe_offer(self, gpus: dict[str, int], wanted: Plan) -> tuple[dict[str, int] | None, str]:
        slices = self.kube.list(*RESOURCE_SLICE) if wanted.dra else None
        daemon_sets = self._daemon_sets()
        offer = judge_offer(self.provider, gpus, self.kube.list("v1", "Node"), daemon_sets, self._pods(), slices)
        missing = [*unread(daemon_sets, wanted.values), *offer.missing]
        if not missing:
            return offer.gpus, ""
        if self.provider.name == "gpu_operator":
            missing += complaints(self.kube.list(*CLUSTER_POLICY))
        return None, "; ".join(missing)

    # --- absent ---

    def absent(self) -> Result:
        """Remove the release, and what this collection made besides it, and wait until the nodes stop offering GPUs."""
        run = self.run
        namespace = self.kube.get("v1", "Namespace", self.namespace)
        release = self.release.inspect() if namespace else None
        others = self._rivals()
        # What another device plugin may rest on stays.
        labels = [] if others else relabels(self.kube.list("v1", "Node"), {})
        owned_class = not others and is_owned(self.kube.get(NODE_API, "RuntimeClass", "nvidia"))
        if release:
            run.change("version", release.chart_version, None, self.release.write)
            run.perform("remove the release", "as asked", functools.partial(self.release.remove, run.deadline))
        if namespace:
            self._fence({})
        for relabel in labels:
            run.change_all(relabel.changes, relabel.write)
            patch = functools.partial(self.kube.patch, "v1", "Node", relabel.node, relabel.patch)
            run.perform(f"take labels off node {relabel.node}", "this collection put them there", patch)
        if owned_class:
            run.change("RuntimeClass", "nvidia", None)
            delete = functools.partial(self.kube.delete, NODE_API, "RuntimeClass", "nvidia")
            run.perform("remove the RuntimeClass nvidia", "this collection made it", delete)
        if is_owned(namespace):
            run.change("namespace", self.namespace, None)
            run.perform(f"remove the namespace {self.namespace}", "this collection made it", self._remove_namespace)
        if release and not others and not run.check_mode:
            wait_for("the nodes to stop offering GPUs", functools.partial(_withdrawn, self.kube), run.deadline)
        return run.result()

    def _remove_namespace(self) -> None:
        self.kube.delete("v1", "Namespace", self.namespace)
        wait_for(f"the removal of namespace {self.namespace}", self._probe_namespace, self.run.deadline)

    def _probe_namespace(self) -> tuple[bool | None, str]:
        return (None, "it is still there") if self.kube.get("v1", "Namespace", self.namespace) else (True, "")


def _withdrawn(kube: Kube) -> tuple[bool | None, str]:
    left = still_offered(kube.list("v1", "Node"))
    return (None, "; ".join(left)) if left else (True, "")


def _in_use(node: str, before: int, after: int, pods: t.Sequence[str]) -> list[Problem]:
    """Refuse another number of pods a GPU on a node while pods hold some of its GPUs."""
    if not pods:
        return []
    text = (
        f"sharing: node {node} would go from {before} to {after} pods a GPU while {', '.join(pods)} hold some of them, which would be "
        "given to other pods, too. End those pods first."
    )
    return [Problem("gpus-in-use", text)]
