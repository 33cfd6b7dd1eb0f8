# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The page of the report of usage: figures, a calendar with a bar for each day, tables, and what was not measured."""

from __future__ import annotations

import itertools
import typing as t

from ..module_utils._common.values import JsonObject
from ._evidence_page import HUES, WAYS
from ._page import Figure, Markup, document, element, figures, fold, listing, parts_bar, table
from ._usage import AMOUNTS, about, amount, balance, gaps, total

Mapping = t.Mapping[str, t.Any]

# Tenants that have a colour of their own in the calendar; the others have one together. Rows of a table of days.
_MOST_COLOURS, _MOST_ROWS = 12, 400
_OTHERS, _NO_TENANT, _FREE, _GAP = "other tenants", "pods of no tenant", "free", "not measured"
_MEANS = (
    "All amounts are GPU-hours. Idle was promised and not held; borrowed was held and not promised; unused was held, and DCGM exporter "
    "saw it idle. The cost is that of what was held."
)
_STYLE = """
.calendar { list-style: none; padding: 0; margin: .75rem 0; } .calendar > li { display: grid; grid-template-columns: 7rem 1fr 17rem;
  gap: .1rem 1rem; align-items: center; max-width: none; padding: .15rem 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
.calendar .bar { height: 1.1rem; margin: 0; } .gap { background: repeating-linear-gradient(45deg, var(--line) 0 3px, transparent 3px 7px); }
.rest { background: var(--first); } .calendar .bound, .swatch.bound { background: var(--soft); }
.swatch.gap { border: 1px solid var(--first); } .swatch.room { border: 1px dashed var(--first); }
@media (max-width: 40rem) { .calendar > li { grid-template-columns: 1fr; padding: .4rem 0; } }
@media print { .calendar > li { break-inside: avoid; } }
"""


def page(report: Mapping) -> str:
    """Return the page of a report, HTML."""
    read = [cluster for cluster in report["clusters"] if not cluster["failure"]]
    failed = [cluster for cluster in report["clusters"] if cluster["failure"]]
    parts = [_head(report, read), *_figures(read)]
    if failed:
        parts += [element("h2", "Not read"), listing(f"{one['cluster']}: {one['failure']}" for one in failed)]
    for cluster in read:
        parts += _cluster(cluster, len(report["clusters"]) > 1)
    parts.append(element("footer", element("p", f"Written at {report['at']}.", css="soft")))
    return document("Usage of GPUs", parts, _STYLE)


def _head(report: Mapping, read: t.Sequence[Mapping]) -> Markup:
    spans = dict.fromkeys(f"{cluster['begin']} to {cluster['end']}" for cluster in read)
    had, held = (sum(total(cluster["cluster_days"], key) or 0.0 for cluster in read) for key in ("had", "held"))
    names = ", ".join(cluster["cluster"] for cluster in report["clusters"])
    sentence = f"Tenants held {amount(held)} of {amount(had)} GPU-hours" if had else "Who held which GPUs"
    return element(
        "header", element("p", f"Usage of GPUs, {names}, {', '.join(spans)}", css="soft"), element("h1", f"{sentence}.")
    )


def _figures(read: t.Sequence[Mapping]) -> list[Markup]:
    rows = [row for cluster in read for row in cluster["tenants"]]
    days = [row for cluster in read for row in cluster["cluster_days"]]
    gap = sum(row["not_measured"] for row in days)
    known = [row for row in rows if row["promised"] is not None]
    shown = [
        Figure("Promised", amount(total(known, "promised")), "GPU-hours of quotas and own nodes"),
        Figure("Held", amount(total(rows, "held")), "GPU-hours that tenants' pods had"),
        Figure("Used", amount(total(rows, "used")), "GPU-hours by utilisation"),
        Figure("Idle", amount(total(known, "idle")), "promised, and not held"),
        Figure("Unused", amount(total(rows, "unused")), "held, and not used"),
        Figure("Not measured", amount(gap), "hours, which count for nothing", "incomplete" if gap else ""),
    ]
    return [figures(shown)] if rows or days else []


def _cluster(cluster: Mapping, several: bool) -> list[Markup]:
    """Return the parts about one cluster."""
    marks = _marks(cluster)
    parts = [element("h2", cluster["cluster"])] if several else []
    parts.append(element("p", about(cluster), " ", balance(cluster)))
    if remarks := [*gaps(cluster), *cluster["notes"]]:
        parts.append(listing(remarks))
    if cluster["cluster_days"]:
        parts += [element("h2", "Each day"), _legend(marks), _calendar(cluster, marks)]
    parts += [element("h2", "Tenants"), _tenants(cluster), element("p", _MEANS, css="soft")]
    if cluster["queues"]:
        head = ("tenant", "queue", "promised", "held", "borrowed", "idle")
        rows = [[row["tenant"], row["queue"], *(_cell(row[key]) for key in head[2:])] for row in cluster["queues"][:_MOST_ROWS]]
        said = f"Queues without queues below them; {len(cluster['queues'])} in all"
        parts.append(fold("Queues", f"{len(cluster['queues'])}, each without queues below it", [table(head, rows, said)]))
    if cluster["products"]:
        rows = [[product, _cell(hours)] for product, hours in cluster["products"].items()]
        parts.append(
            fold("GPU products", "what the cluster had", [table(("product", "GPU-hours"), rows, "GPU-hours by product")])
        )
    return parts


def _tenants(cluster: Mapping) -> Markup:
    unit = f", {cluster['currency']}" if cluster["currency"] else ""
    head = ["tenant", "product", *(key.replace("_", " ") for key in AMOUNTS), f"price{unit}", f"cost{unit}"]
    rows: list[list[object]] = []
    for row in cluster["tenants"]:
        cost = "-" if row["cost"] is None else f"{row['cost']:.2f}"
        price = "-" if row["price"] is None else f"{row['price']:g}"
        rows.append([row["tenant"], row["product"], *(_cell(row[key]) for key in AMOUNTS), price, cost])
    return table(head, rows, "GPU-hours by tenant and GPU product")


def _cell(value: float | None) -> object:
    return "-" if value is None else round(value, 1)


# --- the calendar ----------------------------------------------------------------------------------------------------------


def _marks(cluster: Mapping) -> dict[str, str]:
    """Return the class of each tenant in the calendar, by what they held; all but the first ones have one together."""
    held: dict[str, float] = {}
    for row in cluster["tenants"]:
        held[row["tenant"]] = held.get(row["tenant"], 0.0) + row["held"]
    names = sorted((name for name in held if held[name]), key=lambda name: (-held[name], name))
    marks = {name: f"hue{number % HUES} way{number % WAYS}" for number, name in enumerate(names[:_MOST_COLOURS])}
    others = {_OTHERS: "bound"} if len(names) > _MOST_COLOURS else {}
    return marks | others | {_NO_TENANT: "rest", _FREE: "room", _GAP: "gap"}


def _legend(marks: t.Mapping[str, str]) -> Markup:
    lines = [element("li", Markup(f'<span class="swatch {css}" aria-hidden="true"></span>'), name) for name, css in marks.items()]
    return element("ul", *lines, css="whose", label="Colours")


def _calendar(cluster: Mapping, marks: t.Mapping[str, str]) -> Markup:
    """Return a bar for each day: who held how much of what the cluster had, and how much of the day was not measured."""
    held: dict[str, dict[str, float]] = {}
    for row in cluster["tenant_days"]:
        name = row["tenant"] if row["tenant"] in marks else _OTHERS
        day = held.setdefault(row["day"], {})
        day[name] = day.get(name, 0.0) + row["held"]
    lines = [_day(row, held.get(row["day"], {}), marks) for row in cluster["cluster_days"]]
    return element("ul", *lines, css="calendar", label="Each day")


def _day(row: JsonObject, held: t.Mapping[str, float], marks: t.Mapping[str, str]) -> Markup:
    measured = 1 - row["not_measured"] / row["hours"]
    whole = max(row["had"], row["held"] + max(row["other"], 0.0)) or 1.0
    lengths = [(marks[name], held[name] / whole * measured) for name in marks if held.get(name)]
    lengths.append((marks[_NO_TENANT], max(row["other"], 0.0) / whole * measured))
    begins = [0.0, *itertools.accumulate(length for _css, length in lengths)]
    segments = [(css, begin, length) for (css, length), begin in zip(lengths, begins, strict=False) if length > 0]
    if measured < 1:
        segments.append((marks[_GAP], measured, 1 - measured))
    missing = f", not measured: {amount(row['not_measured'])} of {amount(row['hours'])} hours" if row["not_measured"] else ""
    said = f"{amount(row['held'])} of {amount(row['had'])}{missing}"
    return element("li", element("span", row["day"]), parts_bar(segments), element("span", said))
