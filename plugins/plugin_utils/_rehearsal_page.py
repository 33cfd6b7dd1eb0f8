# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The evidence of a rehearsal: its files, a page for people and JUnit for pipelines among them."""

from __future__ import annotations

import json
import statistics
import typing as t

from ..module_utils._rehearsal.change import Change
from ..module_utils._rehearsal.facts import INVARIANTS, MEANINGS, PROMOTE, REJECT, VERDICT
from ..module_utils._rehearsal.model import Trace
from ..module_utils._rehearsal.validation import parse
from ..module_utils._rehearsal.verdict import judgement
from . import _page
from ._junit import ERROR, FAILURE, Case, document, suite

Data = t.Mapping[str, t.Any]

_SIDES = ("baseline", "candidate")
# What a report has beside the verdict.
_RESTS_ON = (*_SIDES, "speed", "notes", "comparisons", "trace", "rounds")
# Rows of a table of what did not hold, and of pods that waited longest.
_MOST_ROWS = 50


def files(result: Data) -> dict[str, str]:
    """Return the content of the files of a rehearsal's evidence, by name.

    :arg result: of module rehearsal, with a verdict.
    """
    verdict = {key: result[key] for key in VERDICT}
    report = {key: result[key] for key in (*VERDICT, *_RESTS_ON)}
    return {
        f"verdict-{result['change']['name']}.json": _json(verdict),
        "rehearsal.json": _json(report),
        "rehearsal.html": page(report),
        "rehearsal.xml": junit(report),
    }


def _json(data: Data) -> str:
    return json.dumps(data, indent=4, sort_keys=True)


def page(report: Data) -> str:
    """Return the page of a report, HTML.

    :arg report: as rehearsal.json has it.
    """
    versions = tuple(f"{side} {report[side]['version']}" for side in _SIDES)
    names = (versions[0], versions[1])
    title = f"{report['result']}: {report['baseline']['version']} → {report['candidate']['version']}"
    trace = parse(report["trace"])
    return _page.document(
        title,
        [
            _page.element("h1", _page.element("span", report["result"], css=report["result"]), f" {' → '.join(names)}"),
            _page.listing(report["reasons"]),
            _page.element("h2", "What changes"),
            _changes(report, names),
            *_charts(report, names),
            _page.element("h2", "Measures"),
            _measures(report, names),
            _page.element("h2", "Violations"),
            _violations(report),
            _page.element("h2", "What was replayed, and what was not exercised"),
            _page.element("p", _played(report, trace)),
            _page.listing(report["notes"]),
        ],
    )


def _changes(report: Data, names: tuple[str, str]) -> _page.Markup:
    change = Change.of(report["change"])
    rows = [(path, _shown(before), _shown(after)) for path, before, after in change.differences]
    if not rows:
        return _page.element("p", "Nothing: the same was rehearsed twice.")
    return _page.table(["what", *names], rows, f"{change.name}, rehearsed {report['at']}")


def _shown(value: t.Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _charts(report: Data, names: tuple[str, str]) -> list[_page.Markup]:
    rounds = [report["rounds"][side] for side in _SIDES]
    gpus = [_curves(side, lambda sample: sum(sample["gpus"].values())) for side in rounds]
    bound = [_curves(side, lambda sample: sample["bound"]) for side in rounds]
    queues = sorted({queue for side in rounds for each in side for sample in each["samples"] for queue in sample["gpus"]})
    shares = [(queue, _mean_share(rounds[0], queue), _mean_share(rounds[1], queue)) for queue in queues]
    return [
        _page.element("h2", "Over time, a line for each round"),
        _page.curves("GPU devices that pods hold", names, *gpus),
        _page.curves("Pods that have a node", names, *bound),
        _page.element("h2", "By queue"),
        _page.bars("GPU devices that a queue holds, on average over time and rounds", names, shares),
    ]


def _curves(rounds: t.Sequence[Data], value: t.Callable[[Data], float]) -> list[list[tuple[float, float]]]:
    return [[(sample["at"], value(sample)) for sample in each["samples"]] for each in rounds]


def _mean_share(rounds: t.Sequence[Data], queue: str) -> float:
    values = [sample["gpus"].get(queue, 0.0) for each in rounds for sample in each["samples"]]
    return statistics.fmean(values) if values else 0.0


def _measures(report: Data, names: tuple[str, str]) -> _page.Markup:
    rows = [
        (
            one["name"],
            _spread(one["baseline"]),
            _spread(one["candidate"]),
            round(one["allowed"], 3),
            judgement(one),
        )
        for one in report["comparisons"]
    ]
    return _page.table(["measure", *names, "allowed", "verdict"], rows, "Median of the rounds, and their range; less is better")


def _spread(values: t.Sequence[float]) -> str:
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def _violations(report: Data) -> _page.Markup:
    rows = [
        (side, number, one["at"], MEANINGS[one["invariant"]], one["message"])
        for side in _SIDES
        for number, each in enumerate(report["rounds"][side], 1)
        for one in each["violations"]
    ]
    if not report["rounds"]["candidate"]:
        return _page.element("p", "The candidate was not played.")
    if not rows:
        return _page.element("p", "No violation in any round.")
    more = f"; the first {_MOST_ROWS} of {len(rows)}" if len(rows) > _MOST_ROWS else ""
    return _page.table(
        ["under", "round", "second", "invariant", "observed"], rows[:_MOST_ROWS], f"Invariants that did not hold{more}"
    )


def _played(report: Data, trace: Trace) -> str:
    nodes = sum(shape.count for shape in trace.nodes)
    counts = " and ".join(f"{len(report['rounds'][side])} under the {side}" for side in _SIDES)
    return (
        f"{trace.pods} pods of {len(trace.workloads)} workloads, {nodes} nodes with {trace.gpus} GPUs, {trace.span:g} seconds of work at "
        f"{report['speed']:g} times its speed. Rounds: {counts}."
    )


def junit(report: Data) -> str:
    """Return the verdict as JUnit's XML: a test for each invariant, for each measure, and for the whole.

    :arg report: as rehearsal.json has it.
    """
    played = report["rounds"]["candidate"]
    seen = [one for each in played for one in each["violations"]]
    cases = []
    # Of a candidate that could not be played, nothing is known.
    for invariant in INVARIANTS if played else ():
        wrong = [one["message"] for one in seen if one["invariant"] == invariant]
        cases.append(Case("rehearsal.invariants", MEANINGS[invariant], "; ".join(wrong[:_MOST_ROWS])))
    for one in report["comparisons"]:
        said = f"{_spread(one['candidate'])} under the candidate, {one['allowed']:g} allowed" if one["worse"] else ""
        cases.append(Case("rehearsal.measures", one["name"], said))
    verdict = "" if report["result"] == PROMOTE else " ".join(report["reasons"])
    cases.append(Case("rehearsal.verdict", "promoted", verdict, ERROR if report["result"] == REJECT else FAILURE))
    return document([suite(f"rehearsal {report['baseline']['version']} to {report['candidate']['version']}", cases)])
