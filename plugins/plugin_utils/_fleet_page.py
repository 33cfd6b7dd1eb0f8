# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The state of a fleet as a page for people: a row for each cluster, and below, all that waits or differs. It is made of the data alone."""

from __future__ import annotations

import collections
import typing as t

from ..module_utils._common.values import JsonObject
from ._evidence import FAILED, INCOMPLETE
from ._evidence_details import age
from ._evidence_words import many
from ._fleet import DIFFERS, UNKNOWN
from ._page import Figure, Markup, document, element, figures, fold, link, listing, table, verdict
from ._reports import PASSED

# In the order in which a reader looks at them: the results of clusters, how one and several of them are told, and the class of each.
_RESULTS = {
    FAILED: ("failed", "failed", FAILED),
    INCOMPLETE: ("waits for a person", "wait for a person", INCOMPLETE),
    DIFFERS: ("differs from the inventory", "differ from the inventory", INCOMPLETE),
    UNKNOWN: ("has no evidence", "have no evidence", INCOMPLETE),
    PASSED: ("is as the inventory says", "are as the inventory says", PASSED),
}
_SIGNS = {PASSED: "✓", FAILED: "✕", INCOMPLETE: "◐"}
_HEAD = (
    "cluster",
    "state",
    "evidence",
    "blueprint",
    "releases",
    "tenants",
    "promised",
    "held",
    "idle",
    "differs",
    "waits",
    "last runs",
)


def page(fleet: JsonObject, pages: t.Mapping[str, str]) -> str:
    """Return the page, HTML.

    :arg fleet: as ``Fleet.state`` returns it.
    :arg pages: of clusters that have one, the path of the page of their newest evidence, relative to this page.
    """
    order = list(_RESULTS)
    clusters = sorted(fleet["clusters"], key=lambda one: (order.index(one["result"]), one["name"]))
    worst = clusters[0]["result"] if clusters else PASSED
    sentence = _sentence(clusters)
    about = f"kubegpu.tenancy.fleet, {fleet['at']}, {many(len(clusters), 'cluster')}"
    rows = [_row(one, fleet["at"], pages) for one in clusters]
    caption = "Releases are KAI Scheduler's and vCluster's, each with the number of tenants. Numbers are GPU devices. The newest run stands last."
    parts = [
        verdict(_RESULTS[worst][2], sentence, about),
        figures(_figures(clusters, fleet["at"])),
        *([element("section", element("h2", "Clusters"), table(_HEAD, rows, caption))] if rows else []),
        element("section", element("h2", "Details"), *_details(clusters, fleet["unread"])),
        element("footer", element("p", "The same as data for programs: fleet.json.", css="soft")),
    ]
    return document(sentence, parts)


def _sentence(clusters: list[JsonObject]) -> str:
    counts = collections.Counter(one["result"] for one in clusters)
    if not clusters:
        return "There is no evidence of any cluster."
    if counts[PASSED] == len(clusters):
        return (
            f"All {many(len(clusters), 'cluster')} are as the inventory says."
            if len(clusters) > 1
            else "The cluster is as the inventory says."
        )
    clauses = [f"{counts[key]:,} {_RESULTS[key][counts[key] > 1]}" for key in _RESULTS if key != PASSED and counts[key]]
    return f"{counts[PASSED]:,} of {many(len(clusters), 'cluster')} are as the inventory says: {', '.join(clauses)}."


def _figures(clusters: list[JsonObject], now: str) -> list[Figure]:
    tenants = [tenant for one in clusters for tenant in one["tenants"]]
    read = [one["gpus"] for one in clusters if one["gpus"]]
    unread = len(clusters) - len(read)
    about = f"{many(unread, 'cluster')} not read" if unread else "of all clusters"
    waits = sum(len(one["waits"]) for one in clusters)
    oldest = min((one["at"] for one in clusters if one["at"]), default=None)
    states = collections.Counter(tenant["state"] for tenant in tenants)
    return [
        Figure("Tenants", f"{len(tenants):,}", ", ".join(f"{count:,} {state}" for state, count in states.most_common(3))),
        *(Figure(f"GPUs {key}", f"{sum(gpus[key] for gpus in read):,}", about) for key in ("promised", "held", "idle")),
        Figure(
            "Need a person",
            f"{waits:,}",
            "failures and work that is left" if waits else "nothing to do",
            INCOMPLETE if waits else "",
        ),
        Figure("Oldest evidence", age(oldest, now) or "none", "of the clusters"),
    ]


def _row(one: JsonObject, now: str, pages: t.Mapping[str, str]) -> list[object]:
    gpus = one["gpus"] or dict.fromkeys(("promised", "held", "idle"), "")
    said = f"{one['run']}, {age(one['at'], now)}" if one["at"] else ""
    if one["at"] and one["read_at"] != one["at"]:
        said += f"; read {age(one['read_at'], now)}" if one["read_at"] else "; never read"
    word, _several, css = _RESULTS[one["result"]]
    return [
        link(one["name"], pages[one["name"]]) if one["name"] in pages else one["name"],
        element("span", word, css=css),
        said,
        one["blueprint"] or "",
        ", ".join(_releases(one)),
        len(one["tenants"]),
        *(gpus[key] for key in ("promised", "held", "idle")),
        len(one["differs"]),
        len(one["waits"]),
        _trend(one["trend"]),
    ]


def _releases(one: JsonObject) -> list[str]:
    """Return the releases of a cluster, each with how many tenants have it, and whether upstream's support of it is over."""
    schedulers = [tenant["scheduler"] for tenant in one["tenants"] if tenant["scheduler"]]
    over = {found["release"] for found in [*schedulers, one["shared_scheduler"] or {}] if found.get("supported") is False}
    counts = collections.Counter(f"{found['name']} {found['release']}" for found in schedulers)
    counts.update(f"vCluster {tenant['vcluster']}" for tenant in one["tenants"] if tenant["vcluster"])
    return [
        f"{name} ({count}{', support over' if name.partition(' ')[2] in over else ''})" for name, count in sorted(counts.items())
    ]


def _trend(runs: t.Iterable[JsonObject]) -> Markup:
    """Return a sign for each run, which readers hear as words."""
    return element(
        "span",
        *(
            element("span", _SIGNS[run["result"]], css=run["result"], label=f"{run['run']} {run['result']}", role="img")
            for run in runs
        ),
        css="time",
    )


def _details(clusters: list[JsonObject], unread: t.Sequence[str]) -> list[Markup]:
    """Return all that waits, all that differs, and what could not be read, folded."""
    parts = []
    for key, title in (("waits", "What waits for a person"), ("differs", "What differs from the inventory")):
        found = {one["name"]: one[key] for one in clusters if one[key]}
        count = sum(map(len, found.values()))
        inside = [element("div", element("h4", name), listing(lines)) for name, lines in found.items()]
        parts += [fold(title, f"{count:,} on {many(len(found), 'cluster')}", inside)] if inside else []
    if unread:
        parts.append(fold("Evidence that could not be read", f"{len(unread):,}", [listing(unread)]))
    return parts or [element("p", "Nothing waits, and nothing differs.", css="soft")]
