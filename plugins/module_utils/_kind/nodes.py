# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Give the nodes of a kind cluster that runs their GPUs, and wait until they are ready."""

from __future__ import annotations

import functools
import typing as t

from .._common.documents import parse_json
from .._common.errors import TenancyError
from .._common.parallel import concurrently
from .._common.values import Change, JsonObject, utc_now
from .._common.wait import Deadline, wait_for
from . import plan, status
from .host_files import change

if t.TYPE_CHECKING:
    from .._adapters.docker import Docker
    from .._common.run import Run

# One step inside a node may call for another; a node that still calls for one after so many rounds never stops to.
ROUNDS = 3


class Nodes:
    """The nodes of one cluster."""

    def __init__(self, run: Run, docker: Docker, cluster: str) -> None:
        self._run = run
        self._docker = docker
        self._cluster = cluster
        # What was seen inside nodes, and the number of changes until then: it holds as long as nothing was done since.
        self._seen: dict[str, status.Inside] = {}
        self._seen_after = 0

    def outside(self, live: t.Iterable[status.LiveNode]) -> list[Change]:
        """Return as differences the nodes that run and have not joined the cluster."""
        running = [node.name for node in live if node.running]
        self._seen = dict(zip(running, concurrently(self._inspect, running)))
        self._seen_after = len(self._run.changes)
        return [(name, "not in the cluster", "joined") for name, inside in self._seen.items() if "joined" not in inside.states]

    def _inspect(self, node: str) -> status.Inside:
        return status.parse_inside(self._docker.script(node, status.INSPECT, *status.INSPECTED_FILES))

    def equip(self, node: plan.Node, programs: dict[str, tuple[str, str]], config: tuple[str, str] | None) -> None:
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
                done = (f"{node.name}: {step.what}", "due", "done")
                take = functools.partial(self._apply, node.name, step)
                change(self._run, f"{step.what} in {node.name}", step.why, done, take)
            if self._run.check_mode:
                return
        raise TenancyError(f"{node.name} does not keep what was done in it: {', '.join(step.what for step in steps)}.")

    def _apply(self, node: str, step: plan.NodeStep) -> None:
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
            inside = self._seen_inside(node) or self._inspect(node)
            return (inside, "") if "up" in inside.states else (None, "its services are still being started")

        return wait_for(f"{node} to start", probe, self._deadline())

    def _seen_inside(self, node: str) -> status.Inside | None:
        """Return what was seen inside a node already, once."""
        seen = self._seen.pop(node, None)
        return seen if len(self._run.changes) == self._seen_after else None

    def wait_until_ready(self, nodes: list[plan.Node], live: list[status.LiveNode]) -> list[JsonObject]:
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

        return wait_for(f"the nodes of {self._cluster} to be ready", probe, self._deadline())
