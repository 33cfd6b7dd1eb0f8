# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of GPUs."""

from __future__ import annotations

import typing as t

from .._common.errors import WaitTimeout
from .._common.values import JsonObject
from .._common.wait import Deadline, wait_for
from .._nodes.status import offered
from .._probe.lifecycle import own_namespace
from .._probe.status import record
from .plan import NODE_NOTE, Settings, manifest
from .status import crowded_out, outcome, why_not

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube


class Probe:
    """One run of the probe, on all nodes at once."""

    def __init__(self, kube: Kube, settings: Settings, deadline: Deadline) -> None:
        self._kube = kube
        self._settings = settings
        self._deadline = deadline
        # By node.
        self._records: dict[str, JsonObject] = {}

    def run(self, check_mode: bool = False) -> list[JsonObject]:
        """Return the record of each node that offers GPUs; in check mode none is tried."""
        nodes = {node["metadata"]["name"]: node for node in self._kube.list("v1", "Node") if offered(node)}
        pods = self._kube.list("v1", "Pod")
        for name, node in nodes.items():
            if reason := "check mode" if check_mode else why_not(node, pods, self._settings.tolerations):
                self._note(name, "not_tried", reason)
        tried = [name for name in nodes if name not in self._records]
        if tried:
            with own_namespace(self._kube, self._settings.namespace, self._deadline):
                self._try(tried)
        return [self._records[name] for name in sorted(self._records)]

    def _try(self, nodes: list[str]) -> None:
        for node in nodes:
            self._kube.create(manifest(self._settings, node))
        try:
            wait_for("the pods to list their GPUs", lambda: self._observe(nodes), self._deadline, interval=0.5)
        except WaitTimeout as exc:
            for node in nodes:
                if node not in self._records:
                    self._note(node, "failed", exc.message)

    def _observe(self, nodes: list[str]) -> tuple[bool | None, str]:
        """Note the verdicts that are due; True when no pod is awaited any more."""
        pods = self._kube.list("v1", "Pod", self._settings.namespace)
        by_node = {pod["metadata"]["annotations"][NODE_NOTE]: pod for pod in pods}
        awaited = []
        for node in [node for node in nodes if node not in self._records]:
            if node not in by_node:
                self._note(node, "failed", "somebody removed the pod")
                continue
            verdict, reason = outcome(by_node[node], self._settings.uuids(node))
            if verdict:
                self._note(node, verdict, reason)
            elif crowded_out(by_node[node]) and (taken := self._taken(node)):
                self._note(node, "not_tried", taken)
            else:
                awaited.append(f"{node}: {reason}")
        return (None, "; ".join(awaited)) if awaited else (True, "")

    def _taken(self, name: str) -> str:
        """Return why there is no GPU for the pod any more; empty where there is one."""
        node = self._kube.get("v1", "Node", name)
        return why_not(node, self._kube.list("v1", "Pod"), self._settings.tolerations) if node else "the node is gone"

    def _note(self, node: str, verdict: str, reason: str) -> None:
        self._records[node] = record(node, verdict, reason, self._deadline.elapsed())
