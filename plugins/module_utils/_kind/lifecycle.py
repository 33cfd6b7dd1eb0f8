# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bring a kind cluster with GPUs to what is wanted of it, or delete it."""

from __future__ import annotations

import functools
import math
import os
import typing as t

from .._common.documents import parse_json
from .._common.errors import TenancyError
from .._common.parallel import concurrently
from .._common.values import JsonObject, utc_now
from .._common.wait import Deadline, wait_for
from . import plan, status
from .facts import NETWORK
from .validation import NETWORK_MARKER, check_mirrors, check_name

if t.TYPE_CHECKING:
    from .._adapters.docker import Docker
    from .._adapters.files import Files
    from .._adapters.host import Host
    from .._common.run import Result, Run
    from .._common.values import Change

STATE = "/var/lib/kubegpu"
KUBECONFIGS = "/etc/kubegpu"

# One step inside a node may call for another; a node that still calls for one after so many rounds never stops to.
ROUNDS = 3


class Cluster:
    """One cluster as wanted, against the one that Docker runs.

    :arg run: its ``params`` are the options of the module nvkind_cluster.
    :arg state: the host's folder for this collection's state, and ``kubeconfigs`` that for kubeconfigs: only there are folders
        removed, and made for root alone.
    :raises TenancyError: when no folder can be made of the cluster's name, whatever is wanted of it.
    """

    def __init__(
        self, run: Run, docker: Docker, host: Host, files: Files, state: str = STATE, kubeconfigs: str = KUBECONFIGS
    ) -> None:
        self._run = run
        self._params = run.params
        self._name: str = run.params["name"]
        check_name(self._name)
        self._kubeconfig: str = run.params["kubeconfig"]
        self._docker = docker
        self._host = host
        self._files = files
        self._top = state
        self._kubeconfigs = kubeconfigs
        self._clusters = os.path.join(state, "kind")
        self._state = os.path.join(self._clusters, self._name)
        self._certs = os.path.join(self._state, "certs.d")
        # Exists while a cluster is made or deleted, with what the engine needs: a cluster with it is half-made.
        self._making = os.path.join(self._state, "making")
        self._scratch = os.path.join(self._making, "kubeconfig")
        # Exists while Docker has a network that it did not have before the first cluster of this collection.
        self._network = os.path.join(self._clusters, NETWORK_MARKER)
        # What was seen inside nodes, as long as nothing was done since.
        self._seen: dict[str, status.Inside] = {}
        # nvkind's error message, where it left a cluster that may be whole.
        self._engine_error = ""

    def present(self) -> Result:
        """Make the cluster, or bring it to what is wanted; return ``kubeconfig``, ``readable`` and ``nodes`` besides."""
        check_mirrors(self._params["registry_mirrors"])
        workers = self._params["workers"]
        gpus = self._host.gpus() if any(worker["gpus"] or worker["count"] for worker in workers) else []
        nodes = plan.plan_nodes(self._name, workers, gpus)
        live = status.parse_nodes(self._docker.nodes(self._name))
        stopped = sorted(node.name for node in live if not node.running)
        reason = self._reason_to_make(live, nodes)
        self._write_mirrors()
        if reason:
            self._make(reason, bool(live), nodes)
        else:
            self._start(stopped)
        # What is due inside nodes that do not run yet shows only once they do.
        if not (self._run.check_mode and (reason or stopped)):
            self._converge(nodes, status.parse_nodes(self._docker.nodes(self._name)) if reason or stopped else live)
        # Check mode neither makes or starts a cluster nor writes its kubeconfig.
        unwritten = any(what == "kubeconfig" for what, _before, _after in self._run.changes)
        readable = not (self._run.check_mode and (reason or stopped or unwritten))
        return self._run.result(kubeconfig=self._kubeconfig, readable=readable, nodes=[_listed(node) for node in nodes])

    def absent(self) -> Result:
        """Delete the cluster with its kubeconfig and state, and Docker's network after the last one; return ``kubeconfig``."""
        live = status.parse_nodes(self._docker.nodes(self._name))
        if live:
            names = ", ".join(sorted(node.name for node in live))
            self._change(
                f"delete the cluster {self._name}", "absent is wanted", (f"cluster {self._name}", names, None), self._delete
            )
        for path, remove in ((self._kubeconfig, self._files.remove), (self._state, self._remove_state)):
            if self._files.exists(path):
                change = (path, "there", None)
                self._change(f"remove {path}", "it belongs to the cluster", change, functools.partial(remove, path))
        if self._files.exists(self._network) and not self._docker.others(self._name):
            why = "it came with the first cluster of this collection, and this was the last one"
            self._change(f"remove Docker's network {NETWORK}", why, (f"network {NETWORK}", "there", None), self._remove_network)
        if not self._run.check_mode:
            self._files.remove_empty(os.path.dirname(self._kubeconfig), self._kubeconfigs)
            self._files.remove_empty(self._clusters, self._top)
        return self._run.result(kubeconfig=self._kubeconfig)

    def _change(self, what: str, why: str, change: Change, action: t.Callable[[], object]) -> None:
        """Record a change and take the step that makes it."""
        self._seen.clear()
        self._run.change(*change)
        self._run.take(what, why, action)

    # --- making and deleting ---

    def _reason_to_make(self, live: list[status.LiveNode], nodes: list[plan.Node]) -> str:
        """Return why the cluster has to be made; empty when it exists as wanted.

        :raises TenancyError: when only a new cluster can be what is wanted, and ``recreate`` does not allow that.
        """
        if not live:
            return "absent"
        # One that somebody made by hand since has other mounts.
        if self._files.exists(self._making) and all(node.certs == self._certs for node in live):
            return "half-made"
        different = self._differences(live, nodes)
        if different and not self._params["recreate"]:
            raise TenancyError(
                f"The cluster {self._name} has another layout: {different}. Nodes and their GPUs come only with another cluster. Pass recreate "
                "(in an inventory nvkind_recreate) to delete this one, with everything in it, and make it again.",
                differences=different,
            )
        return different

    def _differences(self, live: list[status.LiveNode], nodes: list[plan.Node]) -> str:
        """Return what only a new cluster can change, as text."""
        different = plan.layout_differences(nodes, live, self._params["image"], self._certs)
        running = [node.name for node in live if node.running]
        self._seen = dict(zip(running, concurrently(self._inspect, running)))
        different += [
            (name, "not in the cluster", "joined") for name, inside in self._seen.items() if "joined" not in inside.states
        ]
        return "; ".join(f"{what} is {before}, wanted is {after}" for what, before, after in different)

    def _make(self, reason: str, exists: bool, nodes: list[plan.Node]) -> None:
        # A missing program is reported before anything is deleted.
        self._docker.program(self._params["engine"])
        after = {node.name: node.describe() for node in nodes}

        def make() -> None:
            if exists:
                self._delete_nodes()
            self._create(nodes)

        why = {"absent": "there is none", "half-made": "an earlier run did not finish it"}.get(reason, reason)
        self._change(f"make the cluster {self._name}", why, (f"cluster {self._name}", reason, after), make)

    def _create(self, nodes: list[plan.Node]) -> None:
        self._begin()
        if not self._docker.has_network(NETWORK):
            self._files.write(self._network, b"", 0o600)
        self._make_kubeconfig_folder()
        engine, image, seconds = self._params["engine"], self._params["image"], math.floor(self._run.deadline.left())
        config = plan.kind_config(
            nodes,
            self._certs,
            self._host.cgroup_v1(),
            self._host.user_namespace(),
            self._params["component_tags"],
            by_index=engine == "nvkind",
        )
        if engine == "nvkind":
            template = os.path.join(self._making, "template.yml")
            self._files.write(template, plan.nvkind_template(config).encode(), 0o600)
            try:
                self._docker.create_by_nvkind(self._name, image, template, self._scratch, seconds)
            except TenancyError as exc:
                self._judge(exc, nodes)
        else:
            self._docker.create_cluster(self._name, image, config, self._scratch, seconds)
        self._files.remove_tree(self._making, self._state)

    def _judge(self, error: TenancyError, nodes: list[plan.Node]) -> None:
        """Decide by what is there whether nvkind failed; it also ends with an error when its cluster is whole."""
        live = status.parse_nodes(self._docker.nodes(self._name))
        stopped = [f"{node.name} is stopped" for node in live if not node.running]
        different = "; ".join(filter(None, [self._differences(live, nodes), *stopped])) if live else "it left no node"
        if different:
            raise error.saying(f"{error.message}. The cluster is not whole: {different}. Run again to make it anew.")
        self._engine_error = f"{error.message}."

    def _begin(self) -> None:
        """Note on the host that the cluster is half-made from here on."""
        self._files.remove_tree(self._making, self._state)
        self._files.make_directories(self._making, 0o700)

    def _delete_nodes(self) -> None:
        self._begin()
        self._docker.delete_cluster(self._name, self._scratch)

    def _delete(self) -> None:
        self._delete_nodes()
        self._files.remove_tree(self._making, self._state)
        self._files.remove_empty(self._state, self._clusters)

    def _remove_state(self, path: str) -> None:
        self._files.remove_tree(path, self._clusters)

    def _remove_network(self) -> None:
        self._docker.remove_network(NETWORK)
        self._files.remove(self._network)

    def _start(self, stopped: list[str]) -> None:
        for name in stopped:
            start = (f"{name}: start", "stopped", "running")
            self._change(f"start {name}", "it is stopped", start, functools.partial(self._docker.start, [name]))

    # --- what is due in a cluster that runs ---

    def _converge(self, nodes: list[plan.Node], live: list[status.LiveNode]) -> None:
        """Bring nodes, kubeconfig, labels and taints to what is wanted, and wait until the nodes are ready.

        :arg live: their containers, all of them running.
        """
        try:
            programs = self._host.programs() if any(node.gpus for node in nodes) else {}
            config = self._host.toolkit_config()
            for node in nodes:
                self._equip(node, programs if node.gpus else {}, config)
            self._write("kubeconfig", self._kubeconfig, self._docker.kubeconfig(self._name).encode(), 0o600)
            ready = self._wait_until_ready(nodes, live)
            for what, args in plan.kubectl_steps(ready, nodes, self._params["control_plane_schedulable"]):
                set_it = functools.partial(self._docker.kubectl, nodes[0].name, *args)
                self._change(what, "it is not set so", (what, "due", "done"), set_it)
        except TenancyError as exc:
            raise exc.saying(f"{exc.message} {self._engine_error}".rstrip()) from exc
        if self._engine_error:
            self._run.warn(f"{self._engine_error} All the same its nodes are ready, with the GPUs that were asked for.")

    def _inspect(self, node: str) -> status.Inside:
        return status.parse_inside(self._docker.script(node, status.INSPECT, *status.INSPECTED_FILES))

    def _equip(self, node: plan.Node, programs: dict[str, tuple[str, str]], config: tuple[str, str] | None) -> None:
        """Give a node its GPUs and, if it has any, NVIDIA's container toolkit.

        :arg programs: those of the host with their checksums, as ``Host.programs`` returns them; ``config`` alike.
        """
        for _round in range(ROUNDS):
            inside = self._wait_until_up(node.name)
            steps = plan.node_steps(node, inside, programs, config)
            if not steps:
                status.check_gpus(node.name, node.gpus, inside)
                return
            for step in steps:
                change = (f"{node.name}: {step.what}", "due", "done")
                self._change(f"{step.what} in {node.name}", step.why, change, functools.partial(self._take, node.name, step))
            if self._run.check_mode:
                return
        raise TenancyError(f"{node.name} does not keep what was done in it: {', '.join(step.what for step in steps)}.")

    def _take(self, node: str, step: plan.NodeStep) -> None:
        if step.copy:
            self._docker.copy(node, *step.copy)
        else:
            self._docker.script(node, step.script)

    def _deadline(self) -> Deadline:
        """Return that of the run; check mode starts nothing, and therefore waits for nothing."""
        return self._run.deadline if not self._run.check_mode else Deadline(0)

    def _wait_until_up(self, node: str) -> status.Inside:
        """Wait for a node's services: one that was just started takes other nodes' GPUs away by itself before that."""

        def probe() -> tuple[status.Inside | None, str]:
            inside = self._seen.pop(node, None) or self._inspect(node)
            return (inside, "") if "up" in inside.states else (None, "its services are still being started")

        return wait_for(f"{node} to start", probe, self._deadline())

    def _wait_until_ready(self, nodes: list[plan.Node], live: list[status.LiveNode]) -> list[JsonObject]:
        """Wait until all nodes are ready and have reported, and return the Node objects."""
        now = utc_now()
        started = {node.name: node.started for node in live if status.lately(node.started, now)}

        def listed(*kinds: str) -> list[JsonObject]:
            return list(parse_json(self._docker.kubectl(nodes[0].name, "get", *kinds, "--output=json"))["items"])

        def probe() -> tuple[list[JsonObject] | None, str]:
            try:
                found = listed("nodes")
                reasons = status.unready(found, [node.name for node in nodes])
                if started and not reasons:
                    reasons = status.unreported(listed("pods", "--all-namespaces"), started)
            except TenancyError as exc:
                return None, exc.message
            return (None, "; ".join(reasons)) if reasons else (found, "")

        return wait_for(f"the nodes of {self._name} to be ready", probe, self._deadline())

    # --- files on the host ---

    def _write_mirrors(self) -> None:
        """Write the registry mirrors, host files that every node has mounted: a change reaches them at once."""
        mirrors = self._params["registry_mirrors"]
        if not self._run.check_mode:
            self._files.make_directories(self._certs)
        for registry in self._files.names(self._certs):
            if registry not in mirrors:
                path = os.path.join(self._certs, registry)
                change = (f"mirror of {registry}", "there", None)
                remove = functools.partial(self._files.remove_tree, path, self._certs)
                self._change(f"remove the mirror of {registry}", "it is not wanted", change, remove)
        for registry, mirror in mirrors.items():
            path = os.path.join(self._certs, registry, "hosts.toml")
            self._write(f"mirror of {registry}", path, plan.hosts_toml(mirror).encode(), 0o644)

    def _write(self, what: str, path: str, content: bytes, mode: int) -> None:
        before = self._files.read(path)
        if before == content:
            return

        def write() -> None:
            if path == self._kubeconfig:
                self._make_kubeconfig_folder()
            else:
                self._files.make_directories(os.path.dirname(path))
            self._files.write(path, content, mode)

        why = "it does not exist" if before is None else "it differs"
        self._change(f"write the {what}", why, (what, None if before is None else "different", path), write)

    def _make_kubeconfig_folder(self) -> None:
        """Make the folder of the kubeconfig, if it is missing; only this collection's own is for root alone."""
        folder = os.path.dirname(self._kubeconfig)
        owned = f"{os.path.normpath(folder)}/".startswith(f"{self._kubeconfigs}/")
        self._files.make_directories(folder, 0o700 if owned else 0o755)


def _listed(node: plan.Node) -> JsonObject:
    gpus = [{"index": gpu.index, "uuid": gpu.uuid} for gpu in node.gpus]
    return {"name": node.name, "role": node.role, "gpus": gpus}
