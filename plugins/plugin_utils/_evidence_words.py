# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The evidence of a run in a few words, for readers who look at it for a minute: a verdict, figures, what needs a person, what changed."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ..module_utils._common.values import JsonObject
from ._drift import place_of, sentence
from ._evidence import FAILED, INCOMPLETE, SHARED, parties
from ._page import Figure
from ._reports import NOT_REACHED, PASSED

# Names that a sentence holds; more are counted.
_MOST_NAMES = 2
# Kinds of what needs a person that are written otherwise where there are several.
_SEVERAL = {"differs": "differ", "overlap": "overlaps"}
# Where a number is not known.
_UNKNOWN = "?"


def many(count: int, what: str) -> str:
    """Return a number of things, with a comma for thousands."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


# --- the verdict -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Standing:
    """Who is how: names of clusters and of shared schedulers that failed, of tenants, each once, and of places that differ."""

    clusters: list[str] = dataclasses.field(default_factory=list)
    schedulers: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)
    unreached: list[str] = dataclasses.field(default_factory=list)
    unfinished: list[str] = dataclasses.field(default_factory=list)
    differing: list[str] = dataclasses.field(default_factory=list)
    good: list[str] = dataclasses.field(default_factory=list)


def verdict(evidence: JsonObject) -> str:
    """Return in a sentence how the tenants are.

    :arg evidence: as ``evidence`` of ``_evidence`` returns it.
    """
    clusters, standing = evidence["clusters"], _standing(evidence)
    tenants = sum(len(cluster["tenants"]) for cluster in clusters)
    if not tenants and evidence["result"] == PASSED:
        return "The inventory lists no tenants."
    failed = "could not be compared" if evidence["drift"] else "failed"
    clauses = [
        _clause("cluster", standing.clusters, failed),
        _clause("the shared scheduler of cluster", standing.schedulers, "failed its checks"),
        _clause("tenant", standing.failed, failed),
        _clause("tenant", standing.unreached, "was not reached", "were not reached"),
        _clause("tenant", standing.unfinished, "is not finished", "are not finished"),
        _clause("place", standing.differing, "differs", "differ"),
    ]
    return _sentence([clause for clause in clauses if clause], standing.good, tenants, evidence)


def _standing(evidence: JsonObject) -> _Standing:
    found, drift = _Standing(), evidence["drift"]
    differing = {place_of(row) for row in drift["differences"]} if drift else set()
    for cluster in evidence["clusters"]:
        if own_failures(cluster):
            found.clusters.append(cluster["name"])
        for name, party in parties([cluster]):
            wrong = _unread(name, evidence["problems"]) if drift else _failed(party["checks"])
            if name == f"{cluster['name']}/{SHARED}":
                found.schedulers += [cluster["name"]] if wrong else []
            else:
                shown = name if len(evidence["clusters"]) > 1 else party["name"]
                _list_of(found, party, bool(wrong), name in differing).append(shown)
                differing.discard(name)
    found.differing += sorted(differing)
    return found


def _list_of(standing: _Standing, tenant: JsonObject, wrong: bool, differs: bool) -> list[str]:
    """Return the list that a tenant belongs to."""
    if tenant["failure"] or wrong:
        return standing.failed
    if NOT_REACHED in (tenant["to_do"], tenant["state"]):
        return standing.unreached
    return standing.unfinished if tenant["to_do"] else standing.differing if differs else standing.good


def own_failures(cluster: JsonObject) -> list[str]:
    """Return the failures of a cluster that are not those of one of its tenants."""
    theirs = tuple(f"{name}: " for name, _party in parties([cluster]))
    return [failure for failure in cluster["failures"] if not failure.startswith(theirs)]


def _failed(checks: t.Iterable[JsonObject]) -> bool:
    return any(check["verdict"] == FAILED for check in checks)


def _unread(name: str, problems: t.Iterable[str]) -> bool:
    return any(problem.startswith(f"{name}: ") for problem in problems)


def _clause(kind: str, names: t.Sequence[str], one: str, several: str = "") -> str:
    """Return which things are in a state, by their names where these are few; empty where there are none."""
    if not names:
        return ""
    if len(names) > _MOST_NAMES:
        said = many(len(names), kind)
    else:
        # A place may be a cluster or a tenant.
        said = f"{'' if kind == 'place' else f'{kind} ' if len(names) == 1 else f'{kind}s '}{' and '.join(names)}"
    return f"{said} {one if len(names) == 1 else several or one}"


def _sentence(clauses: list[str], good: t.Sequence[str], tenants: int, evidence: JsonObject) -> str:
    desired = "as the inventory says" if evidence["drift"] else "in the desired state"
    if len(good) == tenants > 0:
        state = f"all {many(tenants, 'tenant')} are {desired}" if tenants > 1 else f"tenant {good[0]} is {desired}"
    else:
        state = f"{len(good):,} of {many(tenants, 'tenant')} are {desired}" if good else f"no tenant is {desired}"
    if not clauses:
        text = _joined([state, *_checked(evidence)])
    else:
        text = f"{state}{', but ' if len(good) == tenants else ': '}{_joined(clauses)}" if tenants else _joined(clauses)
    return f"{text[:1].upper()}{text[1:]}."


def _joined(clauses: t.Sequence[str]) -> str:
    *first, last = clauses
    return f"{', '.join(first)}{',' if len(first) > 1 else ''} and {last}" if first else last


def _checked(evidence: JsonObject) -> list[str]:
    """Return how the checks of a run that passed ended."""
    counts = _counts(evidence)
    total = sum(counts.values())
    if not total:
        return []
    return [
        f"all {many(total, 'check')} passed"
        if counts[PASSED] == total > 1
        else f"{counts[PASSED]:,} of {many(total, 'check')} passed"
    ]


def _counts(evidence: JsonObject) -> collections.Counter[str]:
    return collections.Counter(check["verdict"] for _name, party in parties(evidence["clusters"]) for check in party["checks"])


# --- what needs a person -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Need:
    """Something that a person has to look at: its kind in a word or two, the class of that, and what it is."""

    kind: str
    css: str
    text: str


def needs(evidence: JsonObject) -> list[Need]:
    """Return what needs a person, failures first."""
    clusters, drift = evidence["clusters"], evidence["drift"]
    several = len(clusters) > 1
    found = [Need("failed", FAILED, text) for text in dict.fromkeys(evidence["problems"])]
    # When and by whom it was written stands in the details.
    differences = [sentence(row | {"since": "", "verified": ""}) for row in drift["differences"]] if drift else []
    found += [Need("differs", INCOMPLETE, text) for text in dict.fromkeys(differences)]
    found += [Need("to do", INCOMPLETE, text) for text in dict.fromkeys(evidence["pending"] if not drift else ())]
    for cluster in clusters:
        start = f"{cluster['name']}: " if several else ""
        found += [Need("overlap", INCOMPLETE, f"{start}{text}") for text in cluster["overlaps"]]
    if not drift:
        names = [f"{cluster['name']}/{name}" for cluster in clusters for name in cluster["unlisted"]]
        found += [
            Need("not listed", INCOMPLETE, f"{name}: this collection made it, the inventory lists it no more") for name in names
        ]
    return found


# --- figures -----------------------------------------------------------------------------------------------------


def figures(evidence: JsonObject) -> list[Figure]:
    """Return the six figures of a run."""
    tenants = [tenant for cluster in evidence["clusters"] for tenant in cluster["tenants"]]
    states = collections.Counter(tenant["state"] for tenant in tenants)
    about = ", ".join(f"{count:,} {state}" for state, count in states.most_common(3))
    return [Figure("Tenants", f"{len(tenants):,}", about), *_gpus(evidence), _checks(evidence), _persons(evidence)]


def _gpus(evidence: JsonObject) -> list[Figure]:
    clusters = evidence["clusters"]
    names = ("GPUs promised", "GPUs held", "GPUs idle")
    nodes = [node for cluster in clusters for node in cluster["nodes"] or ()]
    unread = sum(cluster["nodes"] is None for cluster in clusters)
    if unread == len(clusters):
        return [Figure(name, _UNKNOWN, "the nodes were not read") for name in names]
    total = sum(node["allocatable"] for node in nodes)
    amounts = (
        sum(node["allocatable"] for node in nodes if node["tenants"]),
        sum(node["in_use"] for node in nodes),
        sum(max(0, node["allocatable"] - node["in_use"]) for node in nodes),
    )
    more = f"; {many(unread, 'cluster')} not read" if unread else ""
    rests = (f"of {many(total, 'GPU')}", _percent(amounts[1], total), _percent(amounts[2], total))
    return [Figure(name, f"{amount:,}", f"{rest}{more}") for name, amount, rest in zip(names, amounts, rests, strict=True)]


def _percent(amount: int, total: int) -> str:
    return f"{amount / total:.0%} of the GPUs" if total else "there are no GPUs"


def _checks(evidence: JsonObject) -> Figure:
    counts = _counts(evidence)
    total = sum(counts.values())
    if not total:
        return Figure("Checks passed", "0", "none was made")
    others = [f"{count:,} {verdict.replace('_', ' ')}" for verdict, count in counts.most_common() if verdict != PASSED]
    css = FAILED if counts[FAILED] else ""
    return Figure("Checks passed", f"{counts[PASSED]:,} of {total:,}", ", ".join(others) or "all of them", css)


def _persons(evidence: JsonObject) -> Figure:
    found = needs(evidence)
    counts = collections.Counter(need.kind for need in found)
    about = ", ".join(f"{count:,} {_SEVERAL.get(kind, kind) if count > 1 else kind}" for kind, count in counts.items())
    css = FAILED if any(need.css == FAILED for need in found) else INCOMPLETE if found else ""
    return Figure("Need a person", f"{len(found):,}", about or "nothing to do", css)


# --- what changed ------------------------------------------------------------------------------------------------


def changes(rows: t.Iterable[JsonObject]) -> list[tuple[str, str]]:
    """Return what changed as places and words, tenants and clusters that came and went first, digests last.

    :arg rows: of ``since``.
    """
    return [(str(row["where"]), _change(row)) for row in sorted(rows, key=_rank)]


def _rank(row: JsonObject) -> int:
    return 0 if row["what"] == "state" else 2 if is_digest(row) else 1


def is_digest(row: JsonObject) -> bool:
    """Tell whether a change is of a digest, which says no more than that there is one."""
    return row["what"] == "what is asked" or str(row["what"]).startswith("image ")


def _change(row: JsonObject) -> str:
    what, before, after = row["what"], row["before"], row["after"]
    if what == "what is asked":
        return "the inventory asks for something else"
    if is_digest(row):
        said = "is new" if before is None else "runs no more" if after is None else "has another digest"
        return f"{what} {said}"
    if what == "state":
        return f"is new: {after}" if before is None else f"is gone, was {before}" if after is None else f"{before} → {after}"
    return f"{what}: {before or 'none'} → {after or 'none'}"
