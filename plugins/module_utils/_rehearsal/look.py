# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""One look at a cluster in which a trace is played, and what that trace asks for. Pure."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from .._common.names import GPU_MEMORY_LABEL, RESERVATION_APP
from .._common.ownership import labels_of
from .._common.pods import ENDED
from .._common.quantity import plain
from .._common.values import JsonObject
from .._nodes.status import gpu_groups, gpus_of, offered, part_of_gpu
from .._queues.values import Queue
from .facts import WORKLOAD_LABEL
from .model import Trace, Workload


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a trace is played in.

    :ivar workloads: by name; ``together``, how many pods of each group start together, by the group's name.
    :ivar queues: the trace's tree; ``nodes``, its nodes as objects of the API, by name; ``gpus``, GPU devices of each.
    :ivar scheduler: the name by which pods ask for KAI Scheduler.
    """

    workloads: dict[str, Workload]
    together: dict[str, int]
    queues: t.Mapping[str, Queue]
    nodes: dict[str, JsonObject]
    gpus: dict[str, int]
    scheduler: str

    @classmethod
    def of(cls, trace: Trace, queues: t.Mapping[str, Queue], nodes: t.Sequence[JsonObject], scheduler: str) -> Setting:
        """Return that of a trace; arguments as of the fields."""
        by_name = {node["metadata"]["name"]: node for node in nodes}
        gpus = {name: offered(node) for name, node in by_name.items()}
        return cls({one.name: one for one in trace.workloads}, trace.together, queues, by_name, gpus, scheduler)

    def workload(self, pod: JsonObject) -> Workload:
        """Return the workload of one of the trace's pods."""
        return self.workloads[labels_of(pod)[WORKLOAD_LABEL]]

    def devices(self, pod: JsonObject) -> float:
        """Return the GPU devices that a pod asks for, with parts."""
        return plain(gpus_of(pod["spec"]) + part_of_gpu(pod, self._gpu_memory(pod["spec"].get("nodeName", ""))))

    def _gpu_memory(self, node: str) -> str:
        return labels_of(self.nodes.get(node)).get(GPU_MEMORY_LABEL, "")

    def shares(self, placed: t.Iterable[JsonObject]) -> dict[tuple[str, str], dict[str, float]]:
        """Return the parts that pods have of each shared GPU, by its node and group, then by pod."""
        shares: dict[tuple[str, str], dict[str, float]] = collections.defaultdict(dict)
        for pod in placed:
            node = pod["spec"]["nodeName"]
            for group in gpu_groups(pod):
                shares[node, group][pod["metadata"]["name"]] = plain(part_of_gpu(pod, self._gpu_memory(node)))
        return shares

    def booked(self, placed: t.Iterable[JsonObject]) -> collections.Counter[str]:
        """Return the GPU devices of each node that are given out, in whole or in parts."""
        booked: collections.Counter[str] = collections.Counter()
        for pod in placed:
            booked[pod["spec"]["nodeName"]] += gpus_of(pod["spec"])
        for node, _group in self.shares(placed):
            booked[node] += 1
        return booked

    def by_queue(self, pods: t.Iterable[JsonObject]) -> dict[str, float]:
        """Return the GPU devices that pods ask for, by leaf queue."""
        used: dict[str, float] = collections.defaultdict(float)
        for pod in pods:
            used[self.workload(pod).queue] += self.devices(pod)
        return dict(used)


@dataclasses.dataclass(frozen=True)
class Look:
    """The pods of one listing.

    :ivar mine: those of the trace; ``placed``, those of them that have a node and have not ended, ``waiting``, that have none.
    :ivar reservations: those by which KAI Scheduler reserves GPUs.
    """

    mine: list[JsonObject]
    placed: list[JsonObject]
    waiting: list[JsonObject]
    reservations: list[JsonObject]

    @classmethod
    def at(cls, pods: t.Iterable[JsonObject], setting: Setting) -> Look:
        """Sort all pods of a cluster."""
        pods = list(pods)
        mine = [pod for pod in pods if labels_of(pod).get(WORKLOAD_LABEL) in setting.workloads]
        alive = [pod for pod in mine if pod["status"].get("phase") not in ENDED]
        return cls(
            mine,
            [pod for pod in alive if pod["spec"].get("nodeName")],
            [pod for pod in alive if not pod["spec"].get("nodeName")],
            [pod for pod in pods if labels_of(pod).get("app") == RESERVATION_APP],
        )
