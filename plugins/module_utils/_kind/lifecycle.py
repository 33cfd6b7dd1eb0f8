# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bring a kind cluster with GPUs to the desired state, or delete it."""

from __future__ import annotations

import functools
import math
import typing as t

from .._common.errors import TenancyError
from .._common.values import JsonObject
from . import plan, status
from .facts import NETWORK
from .host_files import HostFiles, change
from .nodes import Nodes
from .status import WHY_TO_MAKE, State
from .validation import check_mirrors, check_name

if t.TYPE_CHECKING:
    from .._adapters.docker import Docker
    from .._adapters.files import Files
    from .._adapters.host import Host
    from .._common.run import Result, Run

STATE = "/var/lib/kubegpu"
KUBECONFIGS = "/etc/kubegpu"


class Cluster:
    """One cluster as desired, against the one that Docker runs.

    :arg run: its ``params`` are the options of the module nvkind_cluster.
    :arg state: the host's folder for this collection's state, and ``kubeconfigs`` that for kubeconfigs: only there are folders
        removed, and made for root alone.
    :raises TenancyError: when no folder can be made of the cluster's name, even if it is to be absent.
    """

    def __init__(
        self, run: Run, docker: Docker, host: Host, files: Files, state: str = STATE, kubeconfigs: str = KUBECONFIGS
    ) -> None:
        self._run = run
        self._params = run.params
        self._name: str = run.params["name"]
        check_name(self._name)
        self._docker = docker
        self._host = host
        self._files = HostFiles(run, files, self._name, state, kubeconfigs)
        self._nodes = Nodes(run, docker, self._name)
        # nvkind's error message, where it left a cluster that may be whole.
        self._engine_error = ""

    def present(self) -> Result:
        """Make the cluster, or bring it to the desired state; return ``kubeconfig``, ``readable`` and ``nodes`` besides."""
        check_mirrors(self._params["registry_mirrors"])
        workers = self._params["workers"]
        gpus = self._host.gpus() if any(worker["gpus"] or worker["count"] for worker in workers) else []
        nodes = plan.plan_nodes(self._name, workers, gpus)
        live = self._live()
        stopped = sorted(node.name for node in live if not node.running)
        state, different = self._state(live, nodes)
        self._files.write_mirrors(self._params["registry_mirrors"])
        if state is not State.MADE:
            self._make(state, different, nodes)
        else:
            self._start(stopped)
        moved = state is not State.MADE or bool(stopped)
        # What is due inside nodes that do not run yet shows only once they do.
        if not (self._run.check_mode and moved):
            self._converge(nodes, self._live() if moved else live)
        # Check mode neither makes or starts a cluster nor writes its kubeconfig.
        unwritten = any(what == "kubeconfig" for what, _before, _after in self._run.changes)
        readable = not (self._run.check_mode and (moved or unwritten))
        return self._run.result(kubeconfig=self._files.kubeconfig, readable=readable, nodes=[_listed(node) for node in nodes])

    def absent(self) -> Result:
        """Delete the cluster with its kubeconfig and state, and Docker's network after the last one; return ``kubeconfig``."""
        live = self._live()
        if live:
            gone = (f"cluster {self._name}", ", ".join(sorted(node.name for node in live)), None)
            change(self._run, f"delete the cluster {self._name}", "absent is wanted", gone, self._delete)
        self._files.remove()
        if self._files.is_network_marked and not self._docker.others(self._name):
            why = "it came with the first cluster of this collection, and this was the last one"
            gone = (f"network {NETWORK}", "there", None)
            change(self._run, f"remove Docker's network {NETWORK}", why, gone, self._remove_network)
        if not self._run.check_mode:
            self._files.remove_empty()
        return self._run.result(kubeconfig=self._files.kubeconfig)

    def _live(self) -> list[status.LiveNode]:
        return status.parse_nodes(self._docker.nodes(self._name))

    # --- making and deleting ---

    def _state(self, live: list[status.LiveNode], nodes: list[plan.Node]) -> tuple[State, str]:
        """Return what there is of the cluster, and what only a new one can change.

        :raises TenancyError: when only a new cluster can have the desired state, and ``recreate`` does not allow that.
        """
        if not live:
            return State.ABSENT, ""
        # A cluster that was made by hand since has other mounts.
        if self._files.is_half_made and all(node.certs == self._files.certs for node in live):
            return State.HALF_MADE, ""
        different = self._differences(live, nodes)
        if different and not self._params["recreate"]:
            raise TenancyError(
                f"The cluster {self._name} has another layout: {different}. Nodes and their GPUs come only with another cluster. Pass recreate "
                "(in an inventory nvkind_recreate) to delete this one, with everything in it, and make it again.",
                differences=different,
            )
        return State.DIFFERENT if different else State.MADE, different

    def _differences(self, live: list[status.LiveNode], nodes: list[plan.Node]) -> str:
        """Return what only a new cluster can change, as text."""
        different = plan.layout_differences(nodes, live, self._params["image"], self._files.certs)
        different += self._nodes.outside(live)
        return "; ".join(f"{what} is {before}, wanted is {after}" for what, before, after in different)

    def _make(self, state: State, different: str, nodes: list[plan.Node]) -> None:
        # A missing program is reported before anything is deleted.
        self._docker.program(self._params["engine"])
        after = {node.name: node.describe() for node in nodes}

        def make() -> None:
            if state is not State.ABSENT:
                self._delete_nodes()
            self._create(nodes)

        made = (f"cluster {self._name}", different or state.value, after)
        change(self._run, f"make the cluster {self._name}", different or WHY_TO_MAKE[state], made, make)

    def _create(self, nodes: list[plan.Node]) -> None:
        self._files.begin()
        if not self._docker.has_network(NETWORK):
            self._files.mark_network()
        self._files.make_kubeconfig_folder()
        engine, image, seconds = self._params["engine"], self._params["image"], math.floor(self._run.deadline.left())
        config = plan.kind_config(
            nodes,
            self._files.certs,
            self._host.cgroup_v1(),
            self._host.user_namespace(),
            self._params["component_tags"],
            by_index=engine == "nvkind",
        )
        if engine == "nvkind":
            self._files.write_template(plan.nvkind_template(config))
            try:
                self._docker.create_by_nvkind(self._name, image, self._files.template, self._files.scratch, seconds)
            except TenancyError as exc:
                self._judge(exc, nodes)
        else:
            self._docker.create_cluster(self._name, image, config, self._files.scratch, seconds)
        self._files.finish()

    def _judge(self, error: TenancyError, nodes: list[plan.Node]) -> None:
        """Decide by what is there whether nvkind failed; it also ends with an error when its cluster is whole."""
        live = self._live()
        stopped = [f"{node.name} is stopped" for node in live if not node.running]
        different = "; ".join(filter(None, [self._differences(live, nodes), *stopped])) if live else "it left no node"
        if different:
            raise error.saying(f"{error.message}. The cluster is not whole: {different}. Run again to make it anew.")
        self._engine_error = f"{error.message}."

    def _delete_nodes(self) -> None:
        self._files.begin()
        self._docker.delete_cluster(self._name, self._files.scratch)

    def _delete(self) -> None:
        self._delete_nodes()
        self._files.forget()

    def _remove_network(self) -> None:
        self._docker.remove_network(NETWORK)
        self._files.forget_network()

    def _start(self, stopped: list[str]) -> None:
        for name in stopped:
            started = (f"{name}: start", "stopped", "running")
            change(self._run, f"start {name}", "it is stopped", started, functools.partial(self._docker.start, [name]))

    def _converge(self, nodes: list[plan.Node], live: list[status.LiveNode]) -> None:
        """Bring nodes, kubeconfig, labels and taints to the desired state, and wait until the nodes are ready.

        :arg live: their containers, all of them running.
        """
        try:
            programs = self._host.programs() if any(node.gpus for node in nodes) else {}
            config = self._host.toolkit_config()
            for node in nodes:
                self._nodes.equip(node, programs if node.gpus else {}, config)
            self._files.write_kubeconfig(self._docker.kubeconfig(self._name).encode())
            ready = self._nodes.wait_until_ready(nodes, live)
            for what, args in plan.kubectl_steps(ready, nodes, self._params["control_plane_schedulable"]):
                set_it = functools.partial(self._docker.kubectl, nodes[0].name, *args)
                change(self._run, what, "it is not set so", (what, "due", "done"), set_it)
        except TenancyError as exc:
            raise exc.saying(f"{exc.message} {self._engine_error}".rstrip()) from exc
        if self._engine_error:
            self._run.warn(f"{self._engine_error} All the same its nodes are ready, with the GPUs that were asked for.")


def _listed(node: plan.Node) -> JsonObject:
    gpus = [{"index": gpu.index, "uuid": gpu.uuid} for gpu in node.gpus]
    return {"name": node.name, "role": node.role, "gpus": gpus}
