# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The report of the playbook usage: collected from Ansible's variables, with prices, as CSV and as lines of text."""

from __future__ import annotations

import collections
import csv
import io
import typing as t

from ..module_utils._common.quantity import number, plain
from ..module_utils._common.text import legible
from ..module_utils._common.values import JsonObject
from . import _reports

Mapping = t.Mapping[str, t.Any]

FORMAT = 1
# What the playbook registers; the last one where it refuses.
_REGISTERED = ("_kubegpu_usage_series", "_kubegpu_usage_evidence", "_kubegpu_usage")
_NOT_READ = "it was not reached, see the output above"
AMOUNTS = ("promised", "held", "borrowed", "idle", "used", "unused", "use_not_measured")
_OF_QUEUES = AMOUNTS[:4]
_COST = ("price", "cost", "currency")
# By the name of each CSV file, the rows that it has, and its columns.
TABLES = {
    "usage": ("tenant_days", ("cluster", "tenant", "product", "day", *AMOUNTS, *_COST)),
    "usage-queues": ("queue_days", ("cluster", "tenant", "queue", "day", *_OF_QUEUES)),
    "usage-cluster": ("cluster_days", ("cluster", "day", "hours", "not_measured", "had", "held", "other", "free")),
}


def report(hostvars: Mapping, clusters: t.Iterable[str], at: str) -> JsonObject:
    """Collect what was counted, one record for each cluster of the inventory.

    :arg hostvars: Ansible's, in which the playbook left its results; ``clusters``, names of inventory hosts, reached or not.
    :arg at: the time of it, in UTC.
    """
    found = {"format": FORMAT, "at": at, "clusters": [_cluster(name, hostvars[name]) for name in clusters]}
    return t.cast(JsonObject, legible(found))


def _cluster(name: str, variables: Mapping) -> JsonObject:
    settings = (variables.get("_kubegpu") or {}).get("usage") or {}
    found: Mapping = next(filter(None, (_reports.registered(variables, one) for one in _REGISTERED)), {})
    usage = found.get("usage")
    refused = None if variables.get("_kubegpu") else _reports.registered(variables, "_kubegpu_plan").get("msg")
    why = _reports.failure_of(found) if found else str(refused or _NOT_READ)
    only = (variables.get("_kubegpu") or {}).get("only") or []
    counted = _counted(usage, settings, only) if usage else {}
    return {"cluster": name, "failure": "" if usage else why, "folder": settings.get("folder", "")} | counted


def _counted(usage: Mapping, settings: Mapping, only: t.Collection[str]) -> JsonObject:
    """Return the record of a cluster that was read, with prices."""
    theirs = {key: [row for row in usage[key] if not only or row["tenant"] in only] for key in ("tenants", "queues")}
    prices = {product: plain(number(price)) for product, price in settings.get("prices", {}).items()}
    tenant_days = [_priced(row, prices, settings) for row in theirs["tenants"]]
    totals = [_priced(row, prices, settings) for row in _totals(theirs["tenants"], "product", AMOUNTS)]
    unpriced = sorted({row["product"] for row in totals if prices and row["price"] is None and row["held"]})
    notes = [f"No price is known of {', '.join(unpriced)}."] if unpriced else []
    return {key: usage[key] for key in ("begin", "end", "time_zone", "source", "not_measured", "products")} | {
        "currency": settings.get("currency", ""),
        "notes": [*usage["notes"], *notes],
        "tenants": totals,
        "tenant_days": tenant_days,
        "queues": _totals(theirs["queues"], "queue", _OF_QUEUES),
        "queue_days": theirs["queues"],
        "cluster_days": usage["cluster"],
    }


def _priced(row: JsonObject, prices: Mapping, settings: Mapping) -> JsonObject:
    """Return a row with what its held GPU-hours cost; null without a price."""
    price = prices.get(row["product"])
    cost = None if price is None else round(row["held"] * price, 2)
    return row | {"price": price, "cost": cost, "currency": settings.get("currency", "") if price is not None else ""}


def _totals(rows: t.Iterable[JsonObject], by: str, amounts: t.Collection[str]) -> list[JsonObject]:
    """Return the rows of all days as one, by tenant and another column. A sum of what is not known is not known."""
    sums: dict[tuple[str, str], list[JsonObject]] = collections.defaultdict(list)
    for row in rows:
        sums[row["tenant"], row[by]].append(row)
    return [
        {"tenant": tenant, by: what} | {amount: total(same, amount) for amount in amounts}
        for (tenant, what), same in sums.items()
    ]


def total(rows: t.Iterable[Mapping], amount: str) -> float | None:
    """Return the sum of an amount of some rows; None where one of them has none."""
    found = [row[amount] for row in rows]
    return None if None in found else round(sum(found), 6)


def table(found: Mapping, name: str) -> str:
    """Return a CSV file of a report, such as ``usage``: a row for each day, so that every column can be added up."""
    key, columns = TABLES[name]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for cluster in found["clusters"]:
        writer.writerows(row | {"cluster": cluster["cluster"]} for row in cluster.get(key, []))
    return text.getvalue()


def rows_of(found: Mapping) -> list[JsonObject]:
    """Return the table of a report for people, a row for each tenant and product."""
    clusters = [cluster for cluster in found["clusters"] if not cluster["failure"]]
    rows = []
    for cluster in clusters:
        for row in cluster["tenants"]:
            first = {"cluster": cluster["cluster"]} if len(found["clusters"]) > 1 else {}
            cells = {key.replace("_", " "): amount(row[key]) for key in AMOUNTS}
            cost = "" if row["cost"] is None else f"{row['cost']:.2f} {row['currency']}".rstrip()
            rows.append(first | {"tenant": row["tenant"], "product": row["product"]} | cells | {"cost": cost})
    return rows


def remarks(found: Mapping) -> list[str]:
    """Return what the table does not show: what was not measured, what else is to be known, and what failed."""
    lines = []
    for cluster in found["clusters"]:
        where = f"{cluster['cluster']}: " if len(found["clusters"]) > 1 else ""
        if cluster["failure"]:
            lines.append(f"FAILED {cluster['cluster']}: {cluster['failure']}")
            continue
        lines += [
            f"{where}{sentence}" for sentence in [about(cluster), balance(cluster), *gaps(cluster), *cluster["notes"]] if sentence
        ]
    return lines


def about(cluster: Mapping) -> str:
    """Return which span was counted, and by what."""
    return f"From {cluster['begin']} to {cluster['end']}, days of {cluster['time_zone']}, counted by {cluster['source']}."


def balance(cluster: Mapping) -> str:
    """Return what the cluster had, and who held it; empty where that is not known."""
    sums = {key: total(cluster["cluster_days"], key) for key in ("had", "held", "other", "free")}
    if not cluster["cluster_days"]:
        return ""
    return (
        f"The cluster had {amount(sums['had'])} GPU-hours: tenants held {amount(sums['held'])}, pods of no tenant {amount(sums['other'])}, "
        f"and {amount(sums['free'])} were free."
    )


def gaps(cluster: Mapping) -> list[str]:
    """Return what was not measured, a sentence each."""
    return [f"Not measured: {one['what']}, {amount(one['hours'])} hours." for one in cluster["not_measured"]]


def amount(value: float | None) -> str:
    """Return an amount of GPU-hours for people; a dash where it is not known."""
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")
