# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read what the checks that run are judged by: pods with their logs, PodGroups, and whose GPUs are whose."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ..._common.errors import TenancyError
from ..._common.names import GPU_RESOURCE, KAI_NAMESPACE, POD_GROUP, QUEUE_API_VERSION, QUEUE_KIND, RESERVED_GPU_NOTE
from ..._common.ownership import annotations_of
from ..._common.quantity import devices
from ..._common.values import JsonObject
from ..._common.wait import Deadline
from ..facts import PASSED
from ..lifecycle import INTERVAL
from . import status
from .memory import read_memory
from .plan import NONE, Capacity, Check

if t.TYPE_CHECKING:
    from ..._adapters.kubernetes import Kube
    from ..._common.run import Run

# Seconds after which a GPU that shared pods run on, and that no reservation pod holds, is called lost.
SETTLE = 5.0


@dataclasses.dataclass
class Trial:
    """A check that runs.

    :ivar began: the clock's time; ``complete``, when all of its pods were first seen running, None before.
    :ivar deadline: the end of its part of the probe's time.
    :ivar coming: those of its pods that are still to be created.
    """

    began: float
    deadline: Deadline
    coming: list[JsonObject]
    complete: float | None = None

    @property
    def over(self) -> bool:
        """Whether no other look at it fits into its time."""
        return self.deadline.left(0) < INTERVAL


class Observer:
    """What is seen of the checks of one probe.

    :arg nodes: the nodes that the probe may use; ``pods``, all pods of the cluster, before the probe begins.
    """

    def __init__(self, run: Run, capacity: Capacity, nodes: list[JsonObject], pods: list[JsonObject]) -> None:
        self.kube = run.kube
        self.deadline = run.deadline
        self.namespace: str = run.params["namespace"]
        self.resource: str = run.params["gpu_resource"]
        self.capacity = capacity
        self.logs: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}
        self.devices = {
            node["metadata"]["name"]: devices(node["status"].get("capacity", {}).get(GPU_RESOURCE, 0)) for node in nodes
        }
        self.memory = read_memory(run.kube, nodes)
        # UUIDs of the GPUs that were reserved before the probe began, or that other pods were seen to share since.
        self.others = set(filter(None, (annotations_of(pod).get(RESERVED_GPU_NOTE) for pod in pods)))

    def observe(self, running: t.Mapping[Check, Trial]) -> status.Observation:
        """Read what the checks that run are judged by."""
        if not running:
            return status.Observation({}, {})
        pods = {pod["metadata"]["name"]: pod for pod in self.kube.list("v1", "Pod", self.namespace)}
        seen = status.Observation(pods, self.logs, self.unreadable)
        for check in running:
            self._read_logs(check, pods)
        if any(check.name in ("over_limit", "gang_too_large") for check in running):
            seen.groups = {group["metadata"]["name"]: group for group in self.kube.list(*POD_GROUP, self.namespace)}
        for check in running:
            if check.portions and status.judge_begun(check, len(check.pods), seen)[0] == PASSED:
                self._observe_sharing(check, running[check], seen)
        return seen

    def _observe_sharing(self, check: Check, trial: Trial, seen: status.Observation) -> None:
        """Read whose GPUs are whose, now that all pods of a check run."""
        now = self.deadline.clock()
        trial.complete = trial.complete or now
        seen.settled = now - trial.complete >= SETTLE
        seen.cluster, seen.devices, seen.memory = self.kube.list("v1", "Pod"), self.devices, self.memory
        self._note(seen.cluster)
        seen.others = frozenset(self.others)
        groups, queue = self.kube.list(*POD_GROUP), self.kube.get(QUEUE_API_VERSION, QUEUE_KIND, check.queue)
        before = self.capacity.allocated.get(check.queue, NONE)
        seen.counts = status.counts(check, seen.pods, groups, queue, self.resource, before)

    def note_sharing(self) -> None:
        """Note which GPUs other pods share now: pods of others may come back and end while a check's pods are placed."""
        self._note(self.kube.list("v1", "Pod"))

    def _note(self, cluster: list[JsonObject]) -> None:
        """Note which GPUs other pods share now: pods of a check may have been placed beside them."""
        self.others |= status.shared_gpus(pod for pod in cluster if pod["metadata"].get("namespace") != self.namespace)

    def _read_logs(self, check: Check, pods: dict[str, JsonObject]) -> None:
        for name in check.pod_names:
            phase = pods.get(name, {}).get("status", {}).get("phase")
            if phase == "Failed" or (phase in ("Running", "Succeeded") and check.gpus and not self.logs.get(name)):
                try:
                    self.logs[name] = self.kube.pods.logs(name, self.namespace)
                    self.unreadable.pop(name, None)
                except TenancyError as exc:
                    # Read again with the next observation; until then there is no verdict that rests on it.
                    self.unreadable[name] = exc.message


def kai_logs(kube: Kube, apps: t.Iterable[str], seconds: float) -> tuple[dict[str, str], dict[str, str]]:
    """Return what KAI's pods with these labels logged in the last ``seconds``, and why a log could not be read, by pod."""
    logs: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    for pod in kube.list("v1", "Pod", KAI_NAMESPACE, f"app in ({', '.join(apps)})"):
        name = pod["metadata"]["name"]
        try:
            logs[name] = kube.pods.logs(name, KAI_NAMESPACE, lines=10_000, seconds=math.ceil(seconds))
        except TenancyError as exc:
            unreadable[name] = exc.message
    return logs, unreadable
