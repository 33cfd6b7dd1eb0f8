# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The evidence of a run as a page for people: what one reads in a minute, then the details. It is made of the data alone."""

from __future__ import annotations

import itertools
import re
import typing as t

from ..module_utils._common.values import JsonObject
from ..module_utils._ledger.status import shown_holders
from . import _evidence_words
from ._evidence_details import details
from ._evidence_words import changes, many
from ._page import Markup, document, element, figures, fold, listing, parts_bar, verdict

# Colours and patterns of tenants: their numbers have no common divisor, so that each tenant of thirty has its own pair.
HUES, WAYS = 6, 5
# Of what a page shows at first sight: rows, the rest is folded; nodes, or else a line for each cluster.
_MOST_ROWS, _MOST_NODES = 6, 24


# --- the page ----------------------------------------------------------------------------------------------------


def page(evidence: JsonObject) -> str:
    """Return the page, HTML.

    :arg evidence: as ``evidence`` returns it.
    """
    clusters, sentence = evidence["clusters"], _evidence_words.verdict(evidence)
    about = f"kubegpu.tenancy.{evidence['run']}, {_when(evidence['at'])}, {many(len(clusters), 'cluster')}"
    sides = [
        element(
            "section", element("h2", "What needs a person"), *_needs(evidence), element("h2", "What changed"), *_news(evidence)
        ),
        element("section", element("h2", "Nodes and GPUs"), *_map(clusters)),
    ]
    parts = [
        verdict(evidence["result"], sentence, about),
        figures(_evidence_words.figures(evidence)),
        element("div", *sides, css="sides"),
        element("section", element("h2", "Details"), *details(evidence)),
        element("footer", element("p", "The same as data for programs: tenancy.json. For pipelines: tenancy.xml.", css="soft")),
    ]
    return document(f"{evidence['result']}: {sentence}", parts)


def _when(at: str) -> str:
    """Return a time as people write it; what is no time stays as it is."""
    day, _t, clock = at.partition("T")
    return f"{day}, {clock[:5]} UTC" if re.fullmatch(r"[\d-]{10}T[\d:]{8}Z", at) else at


def _needs(evidence: JsonObject) -> list[Markup]:
    needs = _evidence_words.needs(evidence)
    if not needs:
        return [element("p", "Nothing.")]
    return _first_rows([element("span", element("span", one.kind, css=f"badge {one.css}"), " ", one.text) for one in needs])


def _news(evidence: JsonObject) -> list[Markup]:
    """Return what changed since the evidence before, at first sight without digests."""
    since = evidence["since"]
    parts = [element("p", f"Since {_when(since['at'])}:", css="soft")] if since["at"] else []
    if since["changes"]:
        parts += _first_rows([element("span", element("strong", where), " ", said) for where, said in changes(since["changes"])])
    elif since["at"]:
        parts.append(element("p", "Nothing."))
    return parts + (_first_rows([element("span", note) for note in since["notes"]]) if since["notes"] else [])


def _first_rows(rows: t.Sequence[Markup]) -> list[Markup]:
    """Return a list of which the first rows are seen at once."""
    found = [listing(rows[:_MOST_ROWS], "points")]
    rest = rows[_MOST_ROWS:]
    return [*found, fold(f"{len(rest):,} more", "", [listing(rest, "points")])] if rest else found


# --- the map -----------------------------------------------------------------------------------------------------


def _map(clusters: list[JsonObject]) -> list[Markup]:
    """Return nodes with their GPUs and who holds them: open where they are few, or else a line for each cluster."""
    marks, cards = _marks(clusters), sum(len(_with_gpus(cluster)) for cluster in clusters)
    found: list[Markup] = []
    for cluster in clusters:
        parts = _nodes(cluster, marks)
        if cards > _MOST_NODES:
            found.append(fold(cluster["name"], _held(cluster), parts))
        else:
            name = [element("h3", cluster["name"])] if len(clusters) > 1 else []
            found += [*name, *parts]
    return found


def _with_gpus(cluster: JsonObject) -> list[JsonObject]:
    return [node for node in cluster["nodes"] or () if node["gpus"] or node["others"]]


def _held(cluster: JsonObject) -> str:
    if cluster["nodes"] is None:
        return "not read"
    nodes = _with_gpus(cluster)
    held, total = (sum(node[key] for node in nodes) for key in ("in_use", "allocatable"))
    return f"{many(len(nodes), 'node')}, {held:,} of {many(total, 'GPU')} held"


def _nodes(cluster: JsonObject, marks: t.Mapping[str, str]) -> list[Markup]:
    """Return a cluster's nodes, and what each tenant has of them."""
    if cluster["nodes"] is None:
        return [element("p", f"The nodes of {cluster['name']} were not read.")]
    nodes, tenants = _with_gpus(cluster), cluster["tenants"]
    others = [node["node"] for node in cluster["nodes"] if not node["gpus"] and not node["others"]]
    parts = [element("ul", *(_node(node, marks) for node in nodes), css="nodes")] if nodes else []
    whose = [tenant for tenant in tenants if tenant["gpus"] and (tenant["gpus"]["promised"] or tenant["gpus"]["in_use"])]
    if whose:
        parts.append(element("ul", *(_share(tenant, marks) for tenant in whose), css="whose"))
    return parts + ([element("p", f"Without GPUs: {', '.join(others)}.", css="soft")] if others else [])


def _share(tenant: JsonObject, marks: t.Mapping[str, str]) -> Markup:
    """Return a line of the map's legend: a tenant's colour, and what it holds of what it is promised."""
    gpus = tenant["gpus"]
    swatch = Markup(f'<span class="swatch {marks[tenant["name"]]}" aria-hidden="true"></span>')
    bound = "" if gpus["quota"] is None else f", at most {gpus['quota']}"
    shared = f", shared with {', '.join(gpus['shared_with'])}" if gpus["shared_with"] else ""
    text = f" holds {gpus['shares']:g} of {many(gpus['promised'], 'GPU')}{bound}{shared}"
    return element("li", swatch, element("strong", tenant["name"]), text)


def _marks(clusters: list[JsonObject]) -> dict[str, str]:
    """Return colour and pattern of everybody who has nodes or GPUs, the same on all clusters, also of tenants that the run does not act on."""
    nodes = [node for cluster in clusters for node in _with_gpus(cluster)]
    names = dict.fromkeys(name for node in nodes for name in (*node["tenants"], *itertools.chain(*node["gpus"])) if name)
    return {name: f"hue{number % HUES} way{number % WAYS}" for number, name in enumerate(names)} | {"": "nobody"}


def _node(node: JsonObject, marks: t.Mapping[str, str]) -> Markup:
    whose = f"of {', '.join(node['tenants'])}" if node["tenants"] else "of no tenant"
    more = "".join(f"; {name}: {one['in_use']} of {one['allocatable']} held" for name, one in node["others"].items())
    text = f"{whose}, {node['in_use']} of {many(node['allocatable'], 'GPU')} held{more}"
    about: list[str | Markup] = [element("strong", node["node"]), " ", element("span", text, css="soft")]
    if node["gpus"]:
        gpus = [_gpu(parts, marks) for parts in node["gpus"]]
        about.append(element("ul", *gpus, css="boxes", label=f"GPUs of {node['node']}"))
    return element("li", *about)


def _gpu(parts: JsonObject, marks: t.Mapping[str, str]) -> Markup:
    if not parts:
        return element("li", parts_bar([]), "idle", css="free")
    segments, begin = [], 0.0
    for tenant, part in sorted(parts.items()):
        segments.append((marks[tenant], begin, part))
        begin += part
    return element("li", parts_bar(segments), shown_holders(parts))
