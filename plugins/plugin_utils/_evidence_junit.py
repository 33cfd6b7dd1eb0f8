# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The evidence of a run for pipelines: JUnit's XML, made of the data alone."""

from __future__ import annotations

import collections
import dataclasses

from ..module_utils._common.values import JsonObject
from . import _junit
from ._drift import place_of, sentence
from ._evidence import parties
from ._evidence_words import own_failures
from ._reports import PASSED, named


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
    """Return the test of whether a place is as the inventory says: a failure where something differs, not tried where that is not known.

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
    own = "\n".join(own_failures(cluster))
    return _junit.Case(cluster["name"], "worked on to the end", own, _junit.ERROR, "\n".join(cluster["overlaps"]))


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
