# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The sums: what tenants, queues and the cluster were promised, held and used, by day. Pure.

Two equations hold on each day. Of a tenant or queue: held + idle = promised + borrowed. Of the cluster: had = held + other + free.
"""

from __future__ import annotations

import collections
import typing as t

from .._common.values import JsonObject
from .facts import ANY, HOUR, QUEUES, UNKNOWN
from .model import Hours, Party, Readings, many

# Digits that are kept of GPU-hours, and what their rounding and that of the exporters comes to at most, in GPU-hours of a day.
DIGITS, _TOLERANCE = 6, 0.5
_AMOUNTS = ("promised", "held", "borrowed", "idle", "used", "unused", "use_not_measured")

Amounts = dict[str, float]


def account(readings: Readings, tenants: t.Sequence[Party], days: t.Mapping[int, str]) -> JsonObject:
    """Return the sums of a span.

    :arg days: the day of each of its hours.
    :returns: ``cluster``, a row for each day; ``products``, the GPU-hours that the cluster had of each; ``tenants``, a row for each tenant,
        product and day; ``queues``, one for each queue and day; ``not_measured``, hours in which something was not read; ``notes``.
    """
    held = _held(readings, tenants)
    promised = _promised(readings, tenants)
    names = sorted({tenant for tenant, _product in held} | promised.keys() | {tenant.name for tenant in tenants})
    notes = [*readings.notes, *_unpromised(names, tenants, promised)]
    cluster = _cluster(readings, held, days)
    return {
        "cluster": cluster,
        "products": {product: _rounded(sum(hours.values())) for product, hours in sorted(readings.capacity.items())},
        "tenants": [row for name in names for row in _tenant(name, readings, held, promised.get(name), days)],
        "queues": [row for tenant in tenants for row in _queues(tenant, readings, days)],
        "not_measured": _not_measured(readings, tenants, days),
        "notes": [*notes, *_contradictions(cluster)],
    }


# --- what was held, and what was promised ----------------------------------------------------------------------------------


def _held(readings: Readings, tenants: t.Iterable[Party]) -> dict[tuple[str, str], Hours]:
    """Return the GPU-hours that each tenant held, by tenant and product.

    The pods of a tenant hold whole GPUs. Of one that several tenants share, the shared scheduler's queues have their parts; the GPU itself
    is held by a pod of no tenant.
    """
    held: dict[tuple[str, str], Hours] = many()
    for (tenant, product), hours in readings.taken.items():
        if tenant:
            held[tenant, product] = dict(hours)
    # No series says which GPU a part is of, but which ones are shared at all.
    products = readings.reserved or readings.capacity
    only = next(iter(products)) if len(products) == 1 else UNKNOWN
    for party in tenants:
        if party.shared or readings.source == QUEUES:
            whole = _sum(_of(party.name, held).values())
            parts = held[party.name, only]
            for hour, amount in _sum(readings.queue_held.get((party.name, root), {}) for root in party.roots).items():
                parts[hour] = parts.get(hour, 0.0) + max(0.0, amount - whole.get(hour, 0.0))
    return held


class Promise(t.NamedTuple):
    """What a tenant was promised.

    :ivar quota: GPU-hours of any product; in an hour that has them, nothing else counts. ``own``, those of its nodes, by product.
    """

    quota: Hours
    own: dict[str, Hours]


def _promised(readings: Readings, tenants: t.Iterable[Party]) -> dict[str, Promise]:
    """Return what each tenant was promised: its quota, else its nodes, else the quotas of its top queues. Who is not in it, is not known."""
    names = {*readings.quota, *(tenant for tenant, _product in readings.own)}
    found = {name: Promise(dict(readings.quota.get(name, {})), _of(name, readings.own)) for name in names}
    for party in tenants:
        if party.name not in found:
            keys = [(party.name, root) for root in party.roots if (party.name, root) in readings.queue_promised]
            if keys or not party.has_gpus:
                found[party.name] = Promise(_sum(readings.queue_promised[key] for key in keys), {})
    return found


def _unpromised(names: t.Iterable[str], tenants: t.Iterable[Party], promised: t.Container[str]) -> list[str]:
    missing = [name for name in names if name not in promised]
    return [f"No series says what was promised to {', '.join(missing)}."] if missing else []


# --- rows ------------------------------------------------------------------------------------------------------------------


def _tenant(
    name: str,
    readings: Readings,
    held: t.Mapping[tuple[str, str], Hours],
    promised: Promise | None,
    days: t.Mapping[int, str],
) -> list[JsonObject]:
    """Return the rows of a tenant, one for each product and day on which there is anything to say."""
    own, seen, used = (_of(name, each) for each in (held, readings.seen, readings.used))
    quota, nodes = promised or Promise({}, {})
    # What is promised of any product stands beside the only one that its tenant held, where there is one.
    pool = next(iter(own)) if len(own) == 1 else ANY
    together = _sum(own.values())
    sums: dict[tuple[str, str], Amounts] = collections.defaultdict(lambda: dict.fromkeys(_AMOUNTS, 0.0))
    for product in sorted({*own, *nodes, *([pool] if quota else [])}):
        mine, due = own.get(product, {}), nodes.get(product, {})
        for hour, day in days.items():
            got = mine.get(hour, 0.0)
            weighed = (due.get(hour, 0.0), got)
            if hour in quota:
                weighed = (quota[hour], together.get(hour, 0.0)) if product == pool else (0.0, 0.0)
            row = _hour(*weighed) | {"held": got}
            row |= _use(got, seen.get(product, {}).get(hour, 0.0), used.get(product, {}).get(hour, 0.0))
            if any(row.values()):
                _add(sums[product, day], row)
    unknown = dict.fromkeys(("promised", "borrowed", "idle")) if promised is None else {}
    return [{"tenant": name, "product": key[0], "day": key[1]} | _all_rounded(row) | unknown for key, row in sums.items()]


def _of(name: str, each: t.Mapping[tuple[str, str], Hours]) -> dict[str, Hours]:
    return {product: hours for (tenant, product), hours in each.items() if tenant == name}


def _hour(promised: float, held: float) -> Amounts:
    return {
        "promised": promised,
        "held": held,
        "borrowed": max(held - promised, 0.0),
        "idle": max(promised - held, 0.0),
    }


def _use(held: float, seen: float, used: float) -> Amounts:
    """Return the use of what was held in an hour: a GPU without a series of its use is not taken for one that was not used."""
    missing = max(held - seen, 0.0)
    return {"used": used, "unused": max(held - missing - used, 0.0), "use_not_measured": missing}


def _queues(tenant: Party, readings: Readings, days: t.Mapping[int, str]) -> list[JsonObject]:
    """Return the rows of a tenant's queues without queues below them: those of others contain them."""
    rows = []
    for queue, path in tenant.paths.items():
        sums: dict[str, Amounts] = collections.defaultdict(lambda: dict.fromkeys(_AMOUNTS[:4], 0.0))
        promised, held = (each.get((tenant.name, queue), {}) for each in (readings.queue_promised, readings.queue_held))
        for hour in sorted({*promised, *held} & days.keys()):
            _add(sums[days[hour]], _hour(promised.get(hour, 0.0), held.get(hour, 0.0)))
        rows += [{"tenant": tenant.name, "queue": path, "day": day} | _all_rounded(row) for day, row in sums.items()]
    return rows


def _cluster(readings: Readings, held: t.Mapping[tuple[str, str], Hours], days: t.Mapping[int, str]) -> list[JsonObject]:
    """Return what the cluster had on each day, and who held it."""
    if not readings.capacity:
        return []
    had, taken, theirs = (_sum(each.values()) for each in (readings.capacity, readings.taken, held))
    sums: dict[str, Amounts] = {}
    for hour, day in days.items():
        row = sums.setdefault(day, dict.fromkeys(("hours", "not_measured", "had", "held", "other", "free"), 0.0))
        _add(row, {"hours": 1.0, "not_measured": max(0.0, 1 - readings.measured.get(hour, 0.0))})
        mine, all_of_it = theirs.get(hour, 0.0), taken.get(hour, 0.0)
        _add(row, {"had": had.get(hour, 0.0), "held": mine, "other": all_of_it - mine, "free": had.get(hour, 0.0) - all_of_it})
    return [{"day": day} | _all_rounded(row) for day, row in sums.items()]


def _contradictions(cluster: t.Iterable[JsonObject]) -> list[str]:
    """Return a sentence for each day on which more was held than there was."""
    sentences = []
    for row in cluster:
        if row["free"] < -_TOLERANCE or row["other"] < -_TOLERANCE:
            more = max(-row["free"], -row["other"])
            sentences.append(f"{row['day']}: {more:.1f} GPU-hours more were held than the series of nodes and pods have.")
    return sentences


def _not_measured(readings: Readings, tenants: t.Iterable[Party], days: t.Mapping[int, str]) -> list[JsonObject]:
    """Return in how many hours something was not read, where there are any: the cluster's GPUs, their use, and a tenant's queues."""
    hours = len(days)
    found = [("GPUs", hours - sum(readings.measured.values()))]
    if readings.seen:
        found.append(("use of GPUs", hours - sum(readings.use_measured.values())))
    for tenant in tenants:
        if tenant.queues:
            there = sum(readings.exists[tenant.name].values()) if tenant.name in readings.exists else hours
            found.append((f"queues of {tenant.name}", there - sum(readings.queues_measured.get(tenant.name, {}).values())))
    return [{"what": what, "hours": round(missing, 2)} for what, missing in found if missing * HOUR >= 1]


# --- sums ------------------------------------------------------------------------------------------------------------------


def _sum(each: t.Iterable[Hours]) -> Hours:
    found: Hours = collections.defaultdict(float)
    for hours in each:
        for hour, amount in hours.items():
            found[hour] += amount
    return dict(found)


def _add(to: Amounts, more: t.Mapping[str, float]) -> None:
    for key, amount in more.items():
        to[key] += amount


def _all_rounded(row: Amounts) -> JsonObject:
    return {key: _rounded(amount) for key, amount in row.items()}


def _rounded(amount: float) -> float:
    return round(amount, DIGITS) + 0.0
