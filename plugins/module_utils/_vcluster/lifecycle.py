# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The life of one virtual cluster on one host cluster: present, paused, absent."""

from __future__ import annotations

import typing as t

from .._admission.lifecycle import ensure_policies, ensure_record_policies, remove_policies, remove_record_policies
from .._admission.plan import policies
from .._common.errors import TenancyError, check_all, refuse
from .._common.names import namespace_of
from .._common.run import Params, Result
from .._common.schema import Problems
from .._common.values import JsonObject
from .._helm.lifecycle import HelmRelease
from .._queues.validation import parse
from .._queues.values import leaves
from . import validation
from .classes import ListedClasses
from .control_plane import Ask, ControlPlane, expired
from .facts import LEAST_QUOTA
from .namespace import Namespace
from .network import Network, NetworkProbe
from .operation import Operation
from .records import Records
from .release import ChartRelease, Charts
from .removal import Removal
from .status import Existing, is_terminating, is_zero_trust, lost_pods
from .values import Wanted, added_image, has_network_policies, is_described, recorded, wanted, with_defaults

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart
    from .._common.run import Run


class VirtualCluster:
    """One virtual cluster on one host cluster.

    :arg run: its options are those of module vcluster.
    """

    def __init__(self, run: Run, ask: Ask, charts: Charts, probe_network: NetworkProbe) -> None:
        self.run = run
        self.kube = run.kube
        self.name: str = run.params["name"]
        self.namespace = namespace_of(self.name, run.params["namespace"])
        self.space = Namespace(run, self.name, self.namespace)
        self.release = HelmRelease(run.kube, run.helm, self.name, self.namespace)
        self.chart = ChartRelease(run, self.release, charts)
        self.network = Network(run, self.name, self.namespace, probe_network)
        self.plane = ControlPlane(run.kube, self.name, self.namespace)
        self.operation = Operation(run, self.plane, ask)
        self.classes = ListedClasses(run)
        self.records = Records(run, self.name, self.namespace, self.operation.end_syncer)

    def present(self) -> Result:
        """Create, change or resume it, and wait until clients can use it."""
        described = self._checked()
        existing = self._read()
        asked = self._asked(described, existing)
        path = self.chart.path(asked, existing)
        changes = self.chart.changes(asked, existing)
        charts = self.chart.previewed(path) if changes else []
        network = self.network.judge(asked, existing.usable, bool(changes))
        # That was the last check; everything below writes.
        bounds = self._policies(asked)
        self._ensure_surroundings(asked, existing, network, bounds)
        for step, chart in zip(path[:-1], charts):
            self._go_through(step, chart, asked, existing.expired)
        if charts:
            self.chart.apply(charts[-1], asked, changes, existing.host)
        edited = not charts and self.chart.take_back_edits()
        if has_network_policies(asked.values):
            self.network.narrow(applied=bool(charts))
        restarts = existing.release is not None and self.operation.start(existing.expired)
        if is_zero_trust(existing.usable) and asked.trust != "zero":
            self.classes.remove_unneeded(leaving=self.namespace)
        ready = {} if self.run.check_mode else self.operation.wait_until_ready(asked, starts=restarts or edited or bool(charts))
        if not bounds and not asked.recorded:
            remove_policies(self.run, self.name)
        return self.run.result(namespace=self.namespace, version=asked.version, network_policies=network, **ready)

    def _go_through(self, step: Wanted, chart: Chart, asked: Wanted, expired: str | None) -> None:
        """Upgrade it to a version between, and wait until clients can use that."""
        self.chart.go_through(chart, step, asked)
        self.operation.start(expired)
        self.run.perform(
            f"wait for vCluster {step.version}",
            "the next upgrade begins from a control plane that works",
            lambda: self.operation.wait_until_ready(step, starts=True),
        )

    def _read(self) -> Existing:
        """Read what the host cluster has of it; the records of Helm only once its tenant can forge none."""
        kubernetes, namespace = self.kube.version(), self.space.read()
        if namespace is None or is_terminating(namespace):
            return Existing(kubernetes, namespace)
        self.records.guard()
        release = self.release.inspect()
        return Existing(kubernetes, namespace, release, expired(self.plane.secret()) if release else None)

    def _asked(self, described: Wanted, existing: Existing) -> Wanted:
        """Return the desired state: what the options describe, or, where they describe nothing, what is installed."""
        if existing.release and not is_described(self.run.params):
            return recorded(existing.release, existing.usable)
        options = with_defaults(self.run.params)
        validation.check_skew(options["version"], options["kubernetes_version"], existing.kubernetes)
        if options["sandbox"]:
            self.classes.check_sandbox(options["sandbox"], self.name)
        return described

    def _ensure_surroundings(self, asked: Wanted, existing: Existing, network: str | None, bounds: list[JsonObject]) -> None:
        """Create or change what is needed before the chart is applied.

        :arg bounds: policies of the host's API server.
        """
        if not existing.usable:
            ensure_record_policies(self.run, self.name)
        if bounds:
            ensure_policies(self.run, self.name, bounds)
        self.space.ensure(existing.namespace, asked, network, existing.host)
        if asked.trust == "zero":
            self.classes.ensure_listed()

    def _checked(self) -> Wanted:
        """Return what the options describe, with defaults, once nothing is wrong with them."""
        options = with_defaults(self.run.params)
        described = wanted(options)
        check_all(
            lambda: validation.check_name(self.name),
            lambda: validation.check_namespace(options["namespace"]),
            lambda: validation.check_version(options["version"], options["kubernetes_version"]),
            lambda: validation.check_node_selector(options["node_selector"]),
            lambda: validation.check_trust(options["trust"], options["version"]),
            lambda: validation.check_moved(options["values"], options["version"]),
            lambda: validation.check_values(described.values),
            lambda: validation.check_quota(options["quota"]),
            lambda: validation.check_expires(options["expires"]),
            lambda: validation.check_network(options["network"], options["trust"], options["values"]),
            lambda: validation.check_room(described.values, ("the control plane", LEAST_QUOTA)),
            lambda: _leaf_names(options["host_queues"]),
        )
        return described

    def _policies(self, asked: Wanted) -> list[JsonObject]:
        """Return the policies of the host's API server that bound the tenant's pods; none where what is recorded is asked for."""
        return [] if asked.recorded else pod_policies(with_defaults(self.run.params), asked)

    def paused(self) -> Result:
        """End its control plane and its pods, and keep its data."""
        workload = self.plane.workload() if self.space.read() else None
        if workload is None:
            raise TenancyError(
                f"name: there is no virtual cluster {self.name} in namespace {self.namespace} that could be paused."
            )
        pods = self.plane.synced("v1", "Pod")
        lost = lost_pods(pods)
        if lost and not self.run.params["accept_lost_pods"]:
            raise TenancyError(
                f"accept_lost_pods: {len(lost)} pods of tenant {self.name} have no controller that brings them back after the pause: "
                f"{', '.join(lost)}. Have controllers make them, such as Deployments or Jobs, or accept that they are lost: by "
                "kubegpu_accept_lost_pods in an inventory, by accept_lost_pods of this module.",
                lost_pods=lost,
            )
        self.operation.pause(workload, pods, lost)
        return self.run.result(namespace=self.namespace, lost_pods=lost)

    def absent(self) -> Result:
        """Remove it with all that it left on the host cluster, and wait until that is gone."""
        keep: bool = self.run.params["keep_volumes"]
        removal = Removal(self.run, self.plane, self.space, self.operation)
        namespace = self.space.read()
        usable = namespace is not None and not is_terminating(namespace)
        if usable:
            self.records.clear()
        release = self.release.inspect() if usable else None
        scoped = removal.cluster_scoped()
        if release:
            self.run.change("release", f"{release.chart}-{release.chart_version}", None, self.release.write)
            self.run.perform(
                f"uninstall the Helm release {self.name}", "it is installed", lambda: self.release.remove(self.run.deadline)
            )
        if namespace and keep:
            removal.remove_synced(installed=release is not None)
        elif namespace:
            removal.remove_namespace(namespace)
        removal.remove_cluster_scoped(scoped)
        remove_policies(self.run, self.name)
        remove_record_policies(self.run, self.name)
        self.classes.remove_unneeded(leaving="" if keep else self.namespace)
        return self.run.result(namespace=self.namespace)


def pod_policies(params: Params, described: Wanted) -> list[JsonObject]:
    """Return the policies of the host's API server that bound a tenant's pods; none where they need no bounds of it.

    :arg params: options of module vcluster, with defaults filled in; ``described``, what they describe.
    """
    queues = _leaf_names(params["host_queues"]) if params["host_scheduler"] else None
    shares_nodes, sandbox = params["gpu_quota"] is not None, params["sandbox"] or ""
    added = added_image(described.values)
    return policies(params["name"], params["trust"], queues, shares_nodes, params["gpu_sharing"], sandbox, added)


def _leaf_names(tree: t.Any) -> list[str]:
    """Return the names of the queues of the option host_queues to which work is submitted.

    :raises TenancyError: with all ``problems`` of the tree.
    """
    problems = Problems()
    found = problems.ask("host_", lambda: leaves(parse(tree)))
    refuse(problems)
    return [queue.name for queue in found or ()]
