# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What was read, hour by hour, and what one asks about. Pure."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from .._common.values import JsonObject
from .._common.variables import KAI
from .._queues.validation import parse
from .._queues.values import ancestors, leaves

# Amounts by the hours in which they were read, each by the second of Unix at which it begins. GPU-hours, or hours.
Hours = dict[int, float]
Key = t.TypeVar("Key")


def many() -> t.Any:
    """Return amounts by a key, none for each so far."""
    return collections.defaultdict(lambda: collections.defaultdict(float))


@dataclasses.dataclass
class Readings:
    """What was read of a cluster. The tenant "" stands for namespaces of no tenant.

    :ivar measured: how much of each hour the cluster's GPUs were read; ``use_measured``, their use.
    :ivar capacity: GPU-hours that nodes offered, by product; ``taken``, of which pods held some, by tenant and product;
        ``reserved``, of which the shared KAI Scheduler held some for pods that share a GPU, by product.
    :ivar quota: GPU-hours of quotas, by tenant; ``own``, those of a tenant's own nodes, by tenant and product.
    :ivar exists: hours in which a tenant was there; ``queues_measured``, in which its queues were read.
    :ivar queue_promised: GPU-hours of quotas of queues, by tenant and queue; ``queue_held``, what they had.
    :ivar seen: GPU-hours of which the use was read, by tenant and product; ``used``, the use.
    :ivar source: name of what told the GPUs; ``notes``, sentences about what was not read.
    """

    measured: Hours = dataclasses.field(default_factory=lambda: collections.defaultdict(float))
    use_measured: Hours = dataclasses.field(default_factory=lambda: collections.defaultdict(float))
    capacity: dict[str, Hours] = dataclasses.field(default_factory=many)
    taken: dict[tuple[str, str], Hours] = dataclasses.field(default_factory=many)
    reserved: dict[str, Hours] = dataclasses.field(default_factory=many)
    quota: dict[str, Hours] = dataclasses.field(default_factory=many)
    own: dict[tuple[str, str], Hours] = dataclasses.field(default_factory=many)
    exists: dict[str, Hours] = dataclasses.field(default_factory=many)
    queues_measured: dict[str, Hours] = dataclasses.field(default_factory=many)
    queue_promised: dict[tuple[str, str], Hours] = dataclasses.field(default_factory=many)
    queue_held: dict[tuple[str, str], Hours] = dataclasses.field(default_factory=many)
    seen: dict[tuple[str, str], Hours] = dataclasses.field(default_factory=many)
    used: dict[tuple[str, str], Hours] = dataclasses.field(default_factory=many)
    source: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Party:
    """A tenant as the inventory lists it.

    :ivar shared: whether the host cluster's KAI Scheduler places its pods.
    :ivar has_gpus: whether it is promised any.
    :ivar roots: names of its top queues; ``paths``, of each queue without queues below it, the names from the top, by its name.
    """

    name: str
    shared: bool = False
    has_gpus: bool = True
    roots: tuple[str, ...] = ()
    paths: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def queues(self) -> tuple[str, ...]:
        """Return the names of the queues that are read."""
        return tuple(dict.fromkeys([*self.roots, *self.paths]))


def parties(tenants: t.Iterable[JsonObject]) -> list[Party]:
    """Return the tenants of the desired state, as its plain data has them."""
    return [_party(tenant) for tenant in tenants]


def _party(tenant: JsonObject) -> Party:
    scheduler = tenant.get("scheduler") or {}
    queues = parse(tenant.get("queues") or []) if scheduler.get("name") == KAI else {}
    return Party(
        tenant["name"],
        bool(scheduler.get("shared")),
        bool(tenant.get("gpu_nodes")),
        tuple(name for name, queue in queues.items() if queue.parent is None),
        {leaf.name: "/".join(one.name for one in reversed(ancestors(queues, leaf.name))) for leaf in leaves(queues)},
    )
