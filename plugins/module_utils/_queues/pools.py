# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The SchedulingShards of the node pools that queues are for: each has KAI Scheduler's operator run a scheduler for the pool's nodes.

Upstream's own shard "default" serves the nodes without a pool, and is left alone.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import Problem, refuse
from .._common.forms import is_object
from .._common.names import SHARD
from .._common.ownership import OWNED_LABELS, is_owned
from .._common.text import shown
from .._common.values import JsonObject, value_at
from .values import Queue, pool_of


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """SchedulingShards to create, and names of those to delete."""

    create: tuple[JsonObject, ...] = ()
    delete: tuple[str, ...] = ()


def have_pools(wanted: t.Mapping[str, Queue], live: t.Iterable[JsonObject]) -> bool:
    """Tell whether any queue is, or is to be, in a node pool."""
    return any(queue.pool for queue in wanted.values()) or any(map(pool_of, live))


def plan_shards(
    wanted: t.Mapping[str, Queue],
    live: t.Iterable[JsonObject],
    shards: t.Sequence[JsonObject],
    state: str,
    doomed: t.Container[str],
) -> ShardPlan:
    """Return which SchedulingShards are missing, and which of this collection's no queue is for any more.

    :arg live: Queue objects of the cluster; ``doomed``, names of the queues that are deleted.
    :arg shards: SchedulingShards of the cluster. A pool that any of them serves gets no second scheduler.
    :arg state: present, exact or absent, as of the queues; with present, none is deleted.
    :raises Refused: where the name of a missing one is taken.
    """
    # In a virtual cluster its administrator decides what is served as one.
    shards = [item for item in shards if is_object(item["metadata"]["name"])]
    names = {item["metadata"]["name"] for item in shards}
    pools = set() if state == "absent" else {queue.pool for queue in wanted.values() if queue.pool}
    missing = sorted(pools - {_served(item) for item in shards})
    refuse(
        Problem(
            "same-name", f"SchedulingShard {name} serves another node pool than {name}. Remove it, or name the pool otherwise."
        )
        for name in missing
        if name in names
    )
    stay = {pool_of(item) for item in live if item["metadata"]["name"] not in wanted and item["metadata"]["name"] not in doomed}
    unused = [item["metadata"]["name"] for item in shards if is_owned(item) and _served(item) not in pools | stay]
    return ShardPlan(tuple(map(_shard, missing)), () if state == "present" else tuple(sorted(unused)))


def _served(item: JsonObject) -> str:
    """Return the node pool that a SchedulingShard serves; empty for the nodes without a label."""
    return shown(value_at(item, "spec.partitionLabelValue") or "")


def _shard(pool: str) -> JsonObject:
    api_version, kind = SHARD
    metadata = {"name": pool, "labels": dict(OWNED_LABELS)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"partitionLabelValue": pool}}
