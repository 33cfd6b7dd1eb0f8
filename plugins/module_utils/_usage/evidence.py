# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What kept evidence of runs says of GPU-hours: each tenancy.json is taken for what was until the next one. Pure.

That is coarse: what came and went between two runs is not seen. The use of GPUs and their products are not in evidence.
"""

from __future__ import annotations

import typing as t

from .._common.parties import each
from .._common.quantity import number, plain
from .._common.values import JsonObject, stamped
from .facts import EVIDENCE, FORMAT, HOUR, MOST_AGE, UNKNOWN
from .model import Hours, Readings
from .values import Span, shown_hour

# Of a tenant that is not there.
_GONE = ("absent", "not reached", "no cluster yet")


class Snapshot(t.NamedTuple):
    """What one piece of evidence says of a cluster.

    :ivar at: second of Unix.
    """

    at: float
    cluster: JsonObject


def readings_of(files: t.Iterable[str], load: t.Callable[[str], t.Any], name: str, span: Span) -> Readings:
    """Return what evidence says of a cluster. A file that cannot be read is named, and counts for nothing.

    :arg load: returns what is in a file.
    :arg name: of the cluster's inventory host.
    """
    found, unread = each(files, str, lambda file: _snapshot(load(file), name))
    snapshots = sorted({snapshot.at: snapshot for snapshot in found if snapshot}.values())
    readings = Readings(source=EVIDENCE, notes=[f"{one.sentence}." for one in unread])
    ends = [*(snapshot.at for snapshot in snapshots[1:]), float("inf")]
    counted = 0
    for snapshot, end in zip(snapshots, ends):
        if parts := _parts(snapshot.at, min(end, snapshot.at + MOST_AGE), span):
            _none, odd = each(
                [snapshot], lambda one: f"evidence of {shown_hour(round(one.at))}", lambda one: _read(readings, one, parts)
            )
            readings.notes += [f"{one.sentence}." for one in odd]
            counted += 1
    readings.notes.append(
        f"Counted by {counted} pieces of evidence, which is coarse: each is taken for what was until the next one, for "
        f"{MOST_AGE // HOUR} hours at most. They say nothing about the use of GPUs, nor about products."
    )
    return readings


def _snapshot(document: t.Any, name: str) -> Snapshot | None:
    """Return what evidence says of a cluster; None where it says nothing.

    :raises ValueError: where it is no evidence of a format that is read.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"it is no evidence of format {FORMAT}")
    clusters = [cluster for cluster in document["clusters"] if cluster["name"] == name and cluster["nodes"] is not None]
    kept = {key: clusters[0][key] for key in ("nodes", "tenants")} if clusters else {}
    return Snapshot(stamped(document["at"]).timestamp(), kept) if clusters else None


def _parts(begin: float, end: float, span: Span) -> Hours:
    """Return how much of each hour of a span lies between two moments."""
    found = {}
    for hour in span.hours():
        part = (min(end, hour + HOUR) - max(begin, hour)) / HOUR
        if part > 0:
            found[hour] = part
    return found


def _read(readings: Readings, snapshot: Snapshot, parts: Hours) -> None:
    """Add what a piece of evidence says, all of it or nothing."""
    cluster = snapshot.cluster
    gpus = [(node, gpu) for node in cluster["nodes"] for gpu in node["gpus"]]
    held = [(tenant, amount) for node, gpu in gpus for tenant, amount in _holders(node["tenants"], gpu).items()]
    offered = sum(_amount(node["allocatable"]) for node in cluster["nodes"])
    tenants = [tenant for tenant in cluster["tenants"] if tenant["state"] not in _GONE and tenant["gpus"] is not None]
    promised = [(tenant["name"], _promise(tenant["gpus"])) for tenant in tenants]
    queues = [(tenant["name"], queue) for tenant in tenants for queue in _flat(tenant["queues"])]
    amounts = [(name, queue["name"], *(_known(queue["gpu"][key]) for key in ("quota", "allocated"))) for name, queue in queues]
    _add(readings.measured, parts, 1.0)
    _add(readings.capacity[UNKNOWN], parts, offered)
    for tenant, amount in held:
        _add(readings.taken[tenant, UNKNOWN], parts, amount)
    for tenant, amount in promised:
        _add(readings.own[tenant, UNKNOWN], parts, amount)
        _add(readings.exists[tenant], parts, 1.0)
    for tenant, queue, quota, allocated in amounts:
        if quota is not None:
            _add(readings.queue_promised[tenant, queue], parts, quota)
        if allocated is not None:
            _add(readings.queue_held[tenant, queue], parts, allocated)
    for tenant in {row[0] for row in amounts if row[3] is not None}:
        _add(readings.queues_measured[tenant], parts, 1.0)


def _holders(owners: t.Sequence[str], gpu: t.Mapping[str, t.Any]) -> dict[str, float]:
    """Return who holds how much of a GPU; "" is what no tenant holds of one that is not free.

    A GPU of a tenant's own node is that tenant's as a whole, for no other can have the rest.
    """
    parts = {tenant: _amount(part) for tenant, part in gpu.items()}
    if not parts:
        return {}
    if len(owners) == 1 and set(parts) == set(owners):
        return {owners[0]: 1.0}
    return parts | {"": parts.get("", 0.0) + max(0.0, 1 - sum(parts.values()))}


def _promise(gpus: t.Mapping[str, t.Any]) -> float:
    return _amount(gpus["promised"] if gpus["quota"] is None else gpus["quota"])


def _flat(queues: t.Iterable[JsonObject]) -> t.Iterator[JsonObject]:
    for queue in queues:
        yield queue
        yield from _flat(queue["children"])


def _amount(value: t.Any) -> float:
    return plain(number(value)) * 1.0


def _known(value: t.Any) -> float | None:
    """Return an amount; None where it is unlimited, or was not read."""
    return None if value is None or value == "unlimited" else _amount(value)


def _add(to: Hours, parts: Hours, amount: float) -> None:
    for hour, part in parts.items():
        to[hour] = to.get(hour, 0.0) + part * amount
