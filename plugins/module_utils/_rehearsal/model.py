# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A trace as objects: what a cluster had to schedule."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from .._common.schema import Fields
from .._common.values import JsonObject
from .facts import FORMAT, NODES, WORKLOAD


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Nodes that are alike; fields are those of facts.NODES."""

    count: int
    gpus: int
    gpu_memory: int
    cpu: str
    memory: str
    labels: JsonObject
    taints: list[JsonObject]


@dataclasses.dataclass(frozen=True)
class Workload:
    """Pods that are alike; fields are those of facts.WORKLOAD."""

    name: str
    queue: str
    arrives: float
    runs: float
    pods: int
    together: int
    group: str
    topology: str
    topology_required: str
    topology_preferred: str
    gpus: float
    gpu_memory: int
    cpu: str
    memory: str
    priority_class: str
    node_selector: JsonObject
    tolerations: list[JsonObject]

    @property
    def pod_names(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.pods)]

    @property
    def group_name(self) -> str:
        """The name of its group."""
        return self.group or self.name

    @property
    def shares_a_gpu(self) -> bool:
        return 0 < self.gpus < 1 or self.gpu_memory > 0


@dataclasses.dataclass(frozen=True)
class Trace:
    """What a cluster had to schedule; fields are those of facts.TRACE.

    :ivar queues: as the module kai_queues takes them.
    """

    span: float
    nodes: tuple[Nodes, ...]
    queues: list[JsonObject]
    priority_classes: dict[str, int]
    workloads: tuple[Workload, ...]
    topologies: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """All GPU devices."""
        return sum(shape.count * shape.gpus for shape in self.nodes)

    @property
    def pods(self) -> int:
        """The number of all pods."""
        return sum(workload.pods for workload in self.workloads)

    @property
    def together(self) -> dict[str, int]:
        """How many pods of each group start together, or none, by the name of the group."""
        least: collections.Counter[str] = collections.Counter()
        for workload in self.workloads:
            least[workload.group_name] += workload.together
        return dict(least)

    def data(self) -> JsonObject:
        """Return it as plain data, without what is as by default; validation.parse reads that again."""
        topologies = {"topologies": self.topologies} if self.topologies else {}
        return {
            "format": FORMAT,
            "span": self.span,
            "nodes": [_explicit(shape, NODES) for shape in self.nodes],
            "queues": self.queues,
            "priority_classes": self.priority_classes,
            **topologies,
            "workloads": [_explicit(workload, WORKLOAD) for workload in self.workloads],
        }


def workload(name: str, queue: str, **given: t.Any) -> Workload:
    """Return a workload with defaults where nothing is given."""
    defaults = {key: field.default for key, field in WORKLOAD.items()}
    return Workload(**(defaults | {"name": name, "queue": queue} | given))


def nodes(**given: t.Any) -> Nodes:
    """Return nodes with defaults where nothing is given."""
    return Nodes(**({key: field.default for key, field in NODES.items()} | given))


def _explicit(item: Nodes | Workload, fields: Fields) -> JsonObject:
    return {key: value for key, value in dataclasses.asdict(item).items() if fields[key].required or value != fields[key].default}
