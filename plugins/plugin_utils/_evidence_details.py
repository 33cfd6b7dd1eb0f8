# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The details of a page of evidence: parts that a reader opens, digests last."""

from __future__ import annotations

import datetime
import math
import typing as t

from ..module_utils._common.values import JsonObject, stamp, stamped
from ..module_utils._queues.facts import UNLIMITED
from ._differences import shown
from ._drift import place_of
from ._evidence import SHARED, parties
from ._evidence_words import many
from ._page import Markup, element, fold, listing, parts_bar, table
from ._reports import PASSED, counted, shown_blueprint

# So many checks are shown one by one; of more checks, only the ones that did not pass.
_MOST_CHECKS = 2000


def details(evidence: JsonObject) -> list[Markup]:
    """Return everything, folded; what was found wrong stands first, digests stand last."""
    clusters = evidence["clusters"]
    return [
        *(_drift(evidence["drift"]) if evidence["drift"] else []),
        *_asked(clusters, evidence["at"]),
        *_gpus(clusters),
        *_queues(clusters),
        *_checks(clusters),
        *_hazards(clusters),
        *_removed(clusters),
        *([] if evidence["drift"] else _time_line(clusters)),
        *_changes(evidence["since"]),
        *_digests(clusters),
    ]


def _drift(drift: JsonObject) -> list[Markup]:
    """Return what differs from the desired state, and what would be done about it."""
    if not drift["differences"]:
        return []
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
    head = ["where", "what", "is", "inventory", "written", "last verified"]
    steps = [[place_of(row), row["subject"], row["step"], row["why"]] for row in drift["steps"]]
    about = "What differs from the inventory; when and by whom it was written, where that is known"
    done = table(["where", "subject", "step", "why"], steps, "Steps that kubegpu.tenancy.site would take")
    return [
        fold("Differences", many(len(rows), "difference"), [table(head, rows, about)], is_open=True),
        fold("What kubegpu.tenancy.site would do", many(len(steps), "step"), [done]),
    ]


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
    count = many(sum(len(cluster["removed"]) for cluster in clusters), "tenant")
    head = ["where", "step", "why", "seconds"]
    return [fold("Removed", count, [table(head, rows, "Tenants that were removed, in steps")])] if rows else []


def _gpus(clusters: list[JsonObject]) -> list[Markup]:
    """Return what each tenant is promised and has, and GPUs with more than one owner."""
    head = ["tenant", "nodes", "promised", "quota", "asked for", "held", "parts of GPUs", "shared with"]
    found = []
    for cluster in clusters:
        rows = [_row(tenant) for tenant in cluster["tenants"] if tenant["gpus"]]
        found += [table(head, rows, f"GPU devices of the tenants of {cluster['name']}")] if rows else []
        found += [element("p", "GPUs with more than one owner:"), listing(cluster["overlaps"])] if cluster["overlaps"] else []
    return [fold("GPUs of tenants", "promised, asked for and held", found)] if found else []


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


def _asked(clusters: list[JsonObject], now: str) -> list[Markup]:
    """Return states, versions, ages and support of tenants and of the schedulers that they share."""
    head = ["tenant", "state", "trust", "vCluster", "scheduler", "supported until", "made", "verified"]
    found = []
    for cluster in clusters:
        rows = _versions(cluster, now)
        about = f"Tenants of {cluster['name']}; the desired one stands behind an arrow where another one runs"
        found += [table(head, rows, about)] if rows else []
    ended = sum((party["scheduler"] or {}).get("supported") is False for _name, party in parties(clusters))
    said = f"{many(ended, 'scheduler')} past the end of support" if ended else "states, releases and their support"
    return [fold("Tenants and versions", said, found)] if found else []


def _versions(cluster: JsonObject, now: str) -> list[list[object]]:
    rows: list[list[object]] = [
        [
            tenant["name"],
            _change(tenant["wanted_state"].replace("present", "running"), tenant["state"]),
            tenant["trust"] + (", network open" if tenant["network_policies"] == "unenforced" else ""),
            _change(tenant["vcluster"]["wanted"], tenant["vcluster"]["running"]),
            *_scheduler(tenant["scheduler"]),
            age(tenant["created"], now),
            age(tenant["verified_at"], now),
        ]
        for tenant in cluster["tenants"]
    ]
    if shared := cluster["shared_scheduler"]:
        rows.append([SHARED, "", "", "", *_scheduler(shared["scheduler"]), "", ""])
    return rows


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


def age(then: str | None, now: str) -> str:
    """Return how long ago something was, in the largest unit of which there is one; empty for None."""
    if then is None:
        return ""
    seconds = (stamped(now) - stamped(then)).total_seconds()
    # The cluster's clock may be ahead of the controller's.
    seconds = max(seconds, 0.0)
    size, unit = next(
        ((size, unit) for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")) if seconds >= size), (1, "second")
    )
    return f"{many(math.floor(seconds / size), unit)} ago"


def _hazards(clusters: list[JsonObject]) -> list[Markup]:
    """Return risks that were accepted or only told, what an upgrade brings, and what the inventory names as a whole."""
    found, counts = [], []
    for key, title in (("accepted_hazards", "accepted hazard"), ("hazards", "other hazard"), ("upgrade_notes", "upgrade note")):
        about: dict[str, list[str]] = {}
        for name, party in parties(clusters):
            for text in party[key]:
                about.setdefault(text, []).append(name)
        if about:
            counts.append(many(len(about), title))
            heading = element("h4", f"{title[:1].upper()}{title[1:]}s")
            found += [heading, listing(f"{', '.join(names)}: {text}" for text, names in about.items())]
    said = [
        f"{cluster['name']}: {kind} combination: {text}"
        for cluster in clusters
        for kind, texts in cluster["combinations"].items()
        for text in texts
    ]
    if said:
        counts.append(many(len(said), "combination of versions").replace("versionss", "versions"))
        found += [element("h4", "Combinations of versions"), listing(said)]
    return [fold("Risks and notes", ", ".join(counts), found)] if found else []


def _digests(clusters: list[JsonObject]) -> list[Markup]:
    """Return what runs and what is asked for, by digest: of a release that was pulled again, tenants may run two images."""
    whose: dict[tuple[str, str], list[str]] = {}
    for name, party in parties(clusters):
        for image in party.get("images", {}).items():
            whose.setdefault(image, []).append(name)
    asked = [[name, party["digest"]] for name, party in parties(clusters) if party.get("digest")]
    images = [[image, digest, ", ".join(names)] for (image, digest), names in sorted(whose.items())]
    said = [f"{cluster['name']}: {shown_blueprint(cluster['blueprint'])}" for cluster in clusters if cluster["blueprint"]]
    found = [listing(said)] if said else []
    found += [table(["tenant", "digest"], asked, "Digests of everything that the inventory asks for, by tenant")] if asked else []
    found += [table(["image", "digest", "tenants"], images, "Images of control planes and of KAI Schedulers")] if images else []
    return [fold("Digests", f"{many(len(images), 'image')}, {many(len(asked), 'desired state')}", found)] if found else []


def _queues(clusters: list[JsonObject]) -> list[Markup]:
    trees = [(name, party["queues"]) for name, party in parties(clusters) if party.get("queues")]
    if not trees:
        return []
    about = "GPU devices. The bar is what pods hold, the field behind it the limit, the line across it the quota."
    found = [element("p", about, css="soft")]
    for name, tree in trees:
        most = max([1.0, *(amount for queue in _all_of(tree) for amount in _finite(queue["gpu"]))])
        found += [element("h4", name), _tree(tree, most)]
    count = sum(1 for _name, tree in trees for _queue in _all_of(tree))
    return [fold("Queues", f"{many(count, 'queue')} of {many(len(trees), 'tenant')}", found)]


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
        used = "use not read" if gpu["allocated"] is None else f"{gpu['allocated']} held, {gpu['requested']} asked for"
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
    """Return a table for everybody, and the names of tenants and shared schedulers that were not verified."""
    checked = [(name, party["checks"]) for name, party in parties(clusters) if party["checks"]]
    every = [check for _name, checks in checked for check in checks]
    unverified = [name for name, party in parties(clusters) if not party["checks"]]
    head = ["check", "queue", "verdict", "evidence", "seconds"]
    found = []
    if len(every) > _MOST_CHECKS:
        found.append(element("p", "Checks that passed are too many for this page; tenancy.json has them."))
        checked = [(name, [check for check in checks if check["verdict"] != PASSED]) for name, checks in checked]
    found += [table(head, map(_check, checks), f"{name}: {counted(checks)}") for name, checks in checked if checks]
    found += [element("p", f"Not verified: {', '.join(unverified)}.")] if unverified else []
    return [fold("Checks", counted(every), found)] if found else []


def _check(check: JsonObject) -> list[object]:
    verdict_said = element("span", check["verdict"].replace("_", " "), css=check["verdict"])
    seconds = "" if check["seconds"] is None else check["seconds"]
    return [check["name"], check["queue"] or "", verdict_said, check["reason"], seconds]


def _time_line(clusters: list[JsonObject]) -> list[Markup]:
    """Return a bar for everything that was timed, and the steps of it."""
    timed = [(cluster["name"], span) for cluster in clusters for span in cluster["spans"]]
    timed += [(name, span) for name, party in parties(clusters) for span in party.get("spans", ())]
    if not timed:
        return []
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
    about = element("p", f"{whole:g} seconds from {began} on. What the playbooks do between is not timed.", css="soft")
    steps = _steps(clusters)
    return [
        fold(
            "Time line",
            f"{whole:g} seconds, {many(len(steps), 'step')}",
            [about, element("ul", *items, css="plain"), *_steps_table(steps)],
        )
    ]


def _steps(clusters: list[JsonObject]) -> list[list[object]]:
    return [
        [name, step["step"], step["why"], step.get("seconds", "")] for name, party in parties(clusters) for step in party["steps"]
    ]


def _steps_table(steps: list[list[object]]) -> list[Markup]:
    about = "Steps, in the order in which they were taken"
    return [table(["where", "step", "why", "seconds"], steps, about)] if steps else []


def _changes(since: JsonObject) -> list[Markup]:
    """Return every change with both values, digests among them."""
    rows = [[row["where"], row["what"], row["before"] or "", row["after"] or ""] for row in since["changes"]]
    if not rows:
        return []
    said = table(["where", "what", "before", "now"], rows, f"Since {since['at']}")
    return [fold("All changes", many(len(rows), "change"), [said])]
