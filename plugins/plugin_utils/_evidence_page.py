# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The evidence of a run, shown: a page for people, and JUnit for pipelines. Both are made of the data alone."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import itertools
import math
import typing as t

from ..module_utils._common.values import JsonObject, stamp, stamped
from ..module_utils._ledger.status import shown_holders
from ..module_utils._queues.facts import UNLIMITED
from . import _junit
from ._differences import shown
from ._drift import place_of, sentence
from ._evidence import SHARED, parties
from ._page import Markup, document, element, listing, parts_bar, table
from ._reports import PASSED, counted, named, shown_blueprint

# Colours of tenants, which come round again where there are more.
HUES = 6


# --- the page ----------------------------------------------------------------------------------------------------


def page(evidence: JsonObject) -> str:
    """Return the page, HTML.

    :arg evidence: as ``evidence`` returns it.
    """
    clusters = evidence["clusters"]
    # What drift found has tables of its own.
    first = evidence["problems"] + ([] if evidence["drift"] else evidence["pending"])
    tenants = sum(len(cluster["tenants"]) for cluster in clusters)
    about = f"{_many(len(clusters), 'cluster')}, {_many(tenants, 'tenant')}"
    parts = [
        element("h1", element("span", evidence["result"], css=evidence["result"]), f": {about}"),
        element("p", f"kubegpu.tenancy.{evidence['run']}, {evidence['at']}", css="soft"),
        *([listing(first)] if first else []),
        *(_drift(evidence["drift"]) if evidence["drift"] else []),
        element("h2", "Who has which GPUs"),
        *(part for cluster in clusters for part in _picture(cluster)),
        element("h2", "What was asked, and what is"),
        *(part for cluster in clusters for part in _asked(cluster, evidence["at"])),
        *_hazards(clusters),
        *_images(clusters),
        element("h2", "Queues"),
        *_queues(clusters),
        element("h2", "Checks"),
        *_checks(clusters),
        *_removed(clusters),
        *([] if evidence["drift"] else [element("h2", "Time line"), *_time_line(clusters)]),
        element("h2", "What changed"),
        *_changes(evidence["since"]),
    ]
    return document(f"{evidence['result']}: {about}, {evidence['at']}", parts)


def _drift(drift: JsonObject) -> list[Markup]:
    """Return what differs from what is wanted, and what would be done about it."""
    found = [element("h2", "What differs")]
    if not drift["differences"]:
        return [*found, element("p", "Nothing.")]
    rows = [
        [
            place_of(row),
            ", ".join(filter(None, (row["subject"], row["what"]))),
            shown(row["real"]),
            shown(row["wanted"]),
            element("span", _time(row["since"]), f", {row['by']}") if row["since"] else "",
            _time(row["verified"]),
        ]
        for row in drift["differences"]
    ]
    head = ["where", "what", "is", "wanted", "since, by", "was as wanted at"]
    steps = [[place_of(row), row["subject"], row["step"], row["why"]] for row in drift["steps"]]
    found.append(table(head, rows, "Differences; since when it is so and who wrote it, where that is known"))
    return [*found, table(["where", "subject", "step", "why"], steps, "What kubegpu.tenancy.site would do")]


def _time(text: str) -> Markup:
    """Return a time that stays on one line."""
    return element("span", text, css="time")


def _removed(clusters: list[JsonObject]) -> list[Markup]:
    """Return the tenants that the run removed, and how."""
    rows = [
        [f"{cluster['name']}/{tenant['name']}", step["step"], step["why"], step.get("seconds", "")]
        for cluster in clusters
        for tenant in cluster["removed"]
        for step in tenant["steps"]
    ]
    head = ["where", "step", "why", "seconds"]
    return [element("h2", "Removed"), table(head, rows, "Tenants that were removed, in steps")] if rows else []


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _picture(cluster: JsonObject) -> list[Markup]:
    """Return a cluster's nodes with their GPUs, and what each tenant has of them."""
    name, tenants = cluster["name"], cluster["tenants"]
    if cluster["nodes"] is None:
        return [element("h3", name), element("p", "Its nodes were not read.")]
    with_gpus = [node for node in cluster["nodes"] if node["gpus"] or node["others"]]
    others = [node["node"] for node in cluster["nodes"] if not node["gpus"] and not node["others"]]
    parts = [element("h3", name)]
    if with_gpus:
        hues = _hues(tenants, with_gpus)
        parts.append(element("ul", *(_node(node, hues) for node in with_gpus), css="plain"))
    if others:
        parts.append(element("p", f"Without GPUs: {', '.join(others)}.", css="soft"))
    if cluster["overlaps"]:
        parts += [element("p", "GPUs with more than one owner:"), listing(cluster["overlaps"])]
    rows = [_row(tenant) for tenant in tenants if tenant["gpus"]]
    head = ["tenant", "nodes", "promised", "quota", "asked for", "in use", "parts of GPUs", "shared with"]
    return [*parts, table(head, rows, f"GPU devices of the tenants of {name}")] if rows else parts


def _hues(tenants: list[JsonObject], nodes: list[JsonObject]) -> dict[str, str]:
    """Return the colour of everybody who has nodes or GPUs, also of tenants that the run does not act on."""
    names = [tenant["name"] for tenant in tenants]
    names += [name for node in nodes for name in (*node["tenants"], *itertools.chain(*node["gpus"]))]
    return {name: f"hue{number % HUES}" for number, name in enumerate(dict.fromkeys(filter(None, names)))} | {"": "nobody"}


def _node(node: JsonObject, hues: t.Mapping[str, str]) -> Markup:
    whose = f"of {', '.join(node['tenants'])}" if node["tenants"] else "of no tenant"
    more = "".join(f"; {name}: {one['in_use']} of {one['allocatable']} in use" for name, one in node["others"].items())
    text = f" {whose}, {node['in_use']} of {_many(node['allocatable'], 'GPU')} in use{more}"
    gpus = element("ul", *(_gpu(parts, hues) for parts in node["gpus"]), css="boxes", label=f"GPUs of {node['node']}")
    return element("li", element("strong", node["node"]), text, *([gpus] if node["gpus"] else []))


def _gpu(parts: JsonObject, hues: t.Mapping[str, str]) -> Markup:
    if not parts:
        return element("li", shown_holders(parts), parts_bar([]), css="free")
    segments, begin = [], 0.0
    for tenant, part in sorted(parts.items()):
        segments.append((hues[tenant], begin, part))
        begin += part
    return element("li", shown_holders(parts), parts_bar(segments))


def _row(tenant: JsonObject) -> list[object]:
    gpus = tenant["gpus"]
    return [
        tenant["name"],
        " ".join(tenant["nodes"]),
        gpus["promised"],
        "" if gpus["quota"] is None else gpus["quota"],
        *(gpus[key] for key in ("requested", "in_use", "shares")),
        " ".join(gpus["shared_with"]),
    ]


def _asked(cluster: JsonObject, now: str) -> list[Markup]:
    """Return versions, digests, ages and support of a cluster's tenants and of the scheduler that they share."""
    rows = [
        [
            tenant["name"],
            _change(tenant["wanted_state"].replace("present", "running"), tenant["state"]),
            tenant["trust"] + (", network open" if tenant["network_policies"] == "unenforced" else ""),
            _change(tenant["vcluster"]["wanted"], tenant["vcluster"]["running"]),
            *_scheduler(tenant["scheduler"]),
            _age(tenant["created"], now),
            _age(tenant["verified_at"], now),
            tenant["digest"] or "",
        ]
        for tenant in cluster["tenants"]
    ]
    if shared := cluster["shared_scheduler"]:
        rows.append([SHARED, "", "", "", *_scheduler(shared["scheduler"]), "", "", ""])
    head = ["tenant", "state", "trust", "vCluster", "scheduler", "supported until", "made", "verified", "digest of what is asked"]
    found = (
        [table(head, rows, f"Tenants of {cluster['name']}; what is asked stands behind an arrow where it is not so")]
        if rows
        else []
    )
    unlisted = [f"{cluster['name']}/{name}: made by this collection, not listed any more" for name in cluster["unlisted"]]
    said = [shown_blueprint(cluster["blueprint"])] if cluster["blueprint"] else []
    said += [f"{kind} combination: {text}" for kind, texts in cluster["combinations"].items() for text in texts]
    said = [f"{cluster['name']}: {text}" for text in said] + unlisted
    return found + ([listing(said)] if said else [])


def _change(wanted: str | None, running: str | None) -> str:
    if not wanted or not running or running == wanted:
        return running or wanted or ""
    return f"{running} → {wanted}"


def _scheduler(scheduler: JsonObject | None) -> tuple[str, str | Markup]:
    if scheduler is None:
        return "cluster's own", ""
    shared = ", shared" if scheduler["shared"] else ""
    until = scheduler["end_of_support"] or ""
    version = _change(scheduler["wanted"], scheduler["running"])
    return f"{scheduler['name']} {version}{shared}", until if scheduler["supported"] is not False else element(
        "span", f"{until}, over", css="failed"
    )


def _age(then: str | None, now: str) -> str:
    if then is None:
        return ""
    seconds = (stamped(now) - stamped(then)).total_seconds()
    # The cluster's clock may be ahead of the controller's.
    seconds = max(seconds, 0.0)
    size, unit = next(
        ((size, unit) for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")) if seconds >= size), (1, "second")
    )
    return f"{_many(math.floor(seconds / size), unit)} ago"


def _hazards(clusters: list[JsonObject]) -> list[Markup]:
    found = []
    for key, title in (
        ("accepted_hazards", "Accepted hazards"),
        ("hazards", "Other hazards"),
        ("upgrade_notes", "Upgrade notes"),
    ):
        about: dict[str, list[str]] = {}
        for name, party in parties(clusters):
            for text in party[key]:
                about.setdefault(text, []).append(name)
        if about:
            found += [element("h3", title), listing(f"{', '.join(names)}: {text}" for text, names in about.items())]
    return found


def _images(clusters: list[JsonObject]) -> list[Markup]:
    """Return what runs, by digest: of a release that was pulled again, tenants may run two."""
    whose: dict[tuple[str, str], list[str]] = {}
    for name, party in parties(clusters):
        for image in party.get("images", {}).items():
            whose.setdefault(image, []).append(name)
    rows = [[image, digest, ", ".join(names)] for (image, digest), names in sorted(whose.items())]
    return [table(["image", "digest", "tenants"], rows, "Images of control planes and of KAI Schedulers")] if rows else []


def _queues(clusters: list[JsonObject]) -> list[Markup]:
    trees = [(name, party["queues"]) for name, party in parties(clusters) if party.get("queues")]
    if not trees:
        return [element("p", "There are none.")]
    about = "GPU devices. The bar is what pods hold, the field behind it the limit, the line across it the quota."
    found = [element("p", about, css="soft")]
    for name, tree in trees:
        most = max([1.0, *(amount for queue in _all_of(tree) for amount in _finite(queue["gpu"]))])
        found += [element("h3", name), _tree(tree, most)]
    return found


def _all_of(tree: list[JsonObject]) -> t.Iterator[JsonObject]:
    for queue in tree:
        yield queue
        yield from _all_of(queue["children"])


def _finite(gpu: JsonObject) -> list[float]:
    return [gpu[key] for key in ("quota", "limit", "allocated") if gpu[key] not in (None, UNLIMITED)]


def _tree(tree: list[JsonObject], most: float) -> Markup:
    """Return queues, each with a bar of which ``most`` GPUs are the whole."""
    items = []
    for queue in tree:
        gpu = queue["gpu"]
        used = "use not read" if gpu["allocated"] is None else f"{gpu['allocated']} in use, {gpu['requested']} asked for"
        below = [_tree(queue["children"], most)] if queue["children"] else []
        text = f" {used}; quota {gpu['quota']}, limit {gpu['limit']}"
        items.append(element("li", element("strong", queue["name"]), text, _bounds(gpu, most), *below))
    return element("ul", *items, css="plain")


def _bounds(gpu: JsonObject, most: float) -> Markup:
    """Return a queue's bar: its limit, what its pods hold, and a mark for its quota."""
    limit = most if gpu["limit"] == UNLIMITED else gpu["limit"]
    parts = [(css, 0.0, amount / most) for css, amount in (("bound", limit), ("share", gpu["allocated"])) if amount]
    if gpu["quota"] and gpu["quota"] != UNLIMITED:
        parts.append(("mark", min(gpu["quota"] / most, 0.99), 0.0))
    return parts_bar(parts)


def _checks(clusters: list[JsonObject]) -> list[Markup]:
    """Return a table for everybody, and names of those who were not verified."""
    found, unverified = [], []
    for name, party in parties(clusters):
        rows = [
            [
                check["name"],
                check["queue"] or "",
                element("span", check["verdict"].replace("_", " "), css=check["verdict"]),
                check["reason"],
                "" if check["seconds"] is None else check["seconds"],
            ]
            for check in party["checks"]
        ]
        if rows:
            head = ["check", "queue", "verdict", "evidence", "seconds"]
            found.append(table(head, rows, f"{name}: {counted(party['checks'])}"))
        else:
            unverified.append(name)
    return [*found, *([element("p", f"Not verified: {', '.join(unverified)}.")] if unverified else [])]


def _time_line(clusters: list[JsonObject]) -> list[Markup]:
    """Return a bar for everything that was timed, and the steps of it."""
    timed = [(cluster["name"], span) for cluster in clusters for span in cluster["spans"]]
    timed += [(name, span) for name, party in parties(clusters) for span in party.get("spans", ())]
    if not timed:
        return [element("p", "There was nothing to do.")]
    starts = [stamped(span["began"]).timestamp() for _name, span in timed]
    first = min(starts)
    whole = max(start - first + span["seconds"] for start, (_name, span) in zip(starts, timed, strict=True)) or 1.0
    items = [
        element(
            "li",
            element("strong", name),
            f" {span['work']}: {span['seconds']:g} s, from second {start - first:g}",
            parts_bar([("share", (start - first) / whole, span["seconds"] / whole)]),
        )
        for start, (name, span) in sorted(zip(starts, timed, strict=True), key=lambda one: one[0])
    ]
    began = stamp(datetime.datetime.fromtimestamp(first, datetime.UTC))
    rows = [
        [name, step["step"], step["why"], step.get("seconds", "")] for name, party in parties(clusters) for step in party["steps"]
    ]
    steps = [table(["where", "step", "why", "seconds"], rows, "Steps, in the order in which they were taken")] if rows else []
    about = element("p", f"{whole:g} seconds from {began} on. What the playbooks do between is not timed.", css="soft")
    return [about, element("ul", *items, css="plain"), *steps]


def _changes(since: JsonObject) -> list[Markup]:
    rows = [[row["where"], row["what"], row["before"] or "", row["after"] or ""] for row in since["changes"]]
    found = [table(["where", "what", "before", "now"], rows, f"Since {since['at']}")] if rows else []
    if since["at"] and not rows:
        found.append(element("p", f"Nothing since {since['at']}."))
    return [*found, *([listing(since["notes"])] if since["notes"] else [])]


# --- JUnit -------------------------------------------------------------------------------------------------------


def junit(evidence: JsonObject) -> str:
    """Return JUnit's XML: a suite for each cluster, tenant and shared scheduler, with a test for each check.

    :arg evidence: as ``evidence`` returns it.
    """
    clusters, drift = evidence["clusters"], evidence["drift"]
    found = _found(drift) if drift else None
    suites = [
        _junit.suite(cluster["name"], [_whole(cluster), *_compared(found, cluster["name"], cluster)]) for cluster in clusters
    ]
    for cluster in clusters:
        for name, party in parties([cluster]):
            cases = [_case(name, check) for check in party["checks"]]
            if "state" in party:
                cases = [*(_compared(found, name, cluster) if found else [_as_asked(name, party)]), *cases]
            suites.append(_junit.suite(name, cases, [("accepted hazard", hazard) for hazard in party["accepted_hazards"]]))
    # Of tenants that the inventory does not list.
    others = {place_of(row): row["cluster"] for row in (drift["differences"] if drift else ())}
    known = {suite.get("name") for suite in suites}
    by_name = {cluster["name"]: cluster for cluster in clusters}
    suites += [
        _junit.suite(place, _compared(found, place, by_name[cluster])) for place, cluster in others.items() if place not in known
    ]
    return _junit.document(suites)


@dataclasses.dataclass(frozen=True)
class _Found:
    """What a drift found, by the place that it is about: sentences about differences, and about steps."""

    differences: dict[str, list[str]]
    steps: dict[str, list[str]]


def _found(drift: JsonObject) -> _Found:
    found = _Found(collections.defaultdict(list), collections.defaultdict(list))
    for row in drift["differences"]:
        found.differences[place_of(row)].append(sentence(row))
    for row in drift["steps"]:
        found.steps[place_of(row)].append(f"site would {row['step']} ({row['why']})")
    return found


def _compared(found: _Found | None, place: str, cluster: JsonObject) -> list[_junit.Case]:
    """Return the test of whether a place is as the inventory says: a failure where something differs, not tried where nobody could tell.

    :arg found: what was found; None where that was not asked.
    :arg cluster: the place, or the cluster that it is on.
    """
    if found is None:
        return []
    wrong = "\n".join(found.differences.get(place, ()))
    failed = [one for one in cluster["failures"] if one.startswith((f"{place}: ", f"{cluster['name']}: "))]
    unread = "it could not be told" if not wrong and (failed or cluster["nodes"] is None) else ""
    kind = _junit.SKIPPED if unread else _junit.FAILURE
    seen = "\n".join(found.steps.get(place, ()))
    return [_junit.Case(place, "as the inventory says", wrong or unread, kind, seen)]


def _whole(cluster: JsonObject) -> _junit.Case:
    """Return the test of a cluster; failures of tenants with tests of their own are not repeated."""
    theirs = tuple(f"{name}: " for name, _party in parties([cluster]))
    own = [failure for failure in cluster["failures"] if not failure.startswith(theirs)]
    return _junit.Case(cluster["name"], "worked on to the end", "\n".join(own), _junit.ERROR, "\n".join(cluster["overlaps"]))


def _as_asked(name: str, tenant: JsonObject) -> _junit.Case:
    """Return the test of whether a tenant is as it was asked for; what is left to do is no failure."""
    if tenant["failure"]:
        return _junit.Case(name, "as asked", tenant["failure"])
    return _junit.Case(name, "as asked", tenant["to_do"], _junit.SKIPPED)


def _case(name: str, check: JsonObject) -> _junit.Case:
    kind = {"failed": _junit.FAILURE, "not_tried": _junit.SKIPPED}.get(check["verdict"])
    wrong = check["reason"] or check["verdict"] if kind else ""
    seen = check["reason"] if check["verdict"] == PASSED else f"{check['verdict']}: {check['reason']}"
    return _junit.Case(name, named(check), wrong, kind or "", "" if kind else seen, check["seconds"])
