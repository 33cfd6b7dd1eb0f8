# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The page of a rehearsal: the verdict first, then measures, curves, rules and the work, digests last."""

from __future__ import annotations

import functools
import json
import typing as t

from ..module_utils._common.text import LONGEST_LINE, shown
from ..module_utils._rehearsal.change import Change
from ..module_utils._rehearsal.facts import INVARIANTS, MEANINGS
from ..module_utils._rehearsal.model import Trace
from ..module_utils._rehearsal.validation import parse
from ..module_utils._rehearsal.verdict import ABOVE, BETTER, ONLY_BASELINE, WITHIN, WORSE, judgement
from . import _charts, _rehearsal_curves, _verdict_words
from ._measures import GROUPS, MEASURES, Data, amount, first, median, sentence, spread
from ._page import Figure, Markup, document, element, figures, fold, listing, table, verdict
from ._rehearsal_curves import mean
from ._verdict_words import BASELINE, CANDIDATE, SIDES

# Rows of a table at most: of what did not hold, and of pods without a node.
MOST_ROWS = 50

# What is said of a measure beside its badge's sign; each is the badge's class, too.
_STATES = {WORSE: "worse", ABOVE: "unclear", WITHIN: "within limit", BETTER: "better"}
_STATES_MEAN = (
    "Less is better for every measure. Worse and better mean: by more than the limit allows, and in every round. Unclear means above the limit, "
    "but the rounds before the change differ as much among themselves."
)
# How paths of chart values and of queues begin.
_VALUES, _QUEUES = "values.", "queues."

_STYLE = """
.fromto { font-size: 1.1rem; margin: 0 0 .5rem; } .fromto b { padding: .05rem .5rem; border: 1px solid var(--first); border-radius: .3rem; }
.fromto b + b { border: 2px solid var(--text); } .lead { margin: .5rem 0; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; background: var(--card); border: 1px solid var(--line); border-radius: .25rem;
  padding: .05rem .3rem; }
.badge.worse { color: var(--bad); } .badge.worse::before { content: "▲"; content: "▲" / ""; }
.badge.unclear { color: var(--held); } .badge.unclear::before { content: "△"; content: "△" / ""; }
.badge.better { color: var(--good); } .badge.better::before { content: "▼"; content: "▼" / ""; }
.badge.within { color: var(--soft); font-weight: 400; } .badge.within::before { content: "="; content: "=" / ""; }
.figures { grid-template-columns: repeat(4, 1fr); } .figures > div { display: grid; grid-template-rows: subgrid; grid-row: span 3; row-gap: 0; }
.figures .failed { border: 2px solid var(--bad); } .figures .badge { margin-top: .3rem; }
.unshown { margin: 1.5rem 0; border: 1px dashed var(--first); border-radius: .5rem; padding: .8rem 1rem; }
.unshown h2 { margin: 0 0 .4rem; } .unshown p { margin: .4rem 0; }
.chips { list-style: none; padding: 0; margin: .5rem 0; display: flex; flex-wrap: wrap; gap: .4rem; }
.chips li { border: 1px solid var(--first); border-radius: 1rem; padding: .05rem .7rem; }
.rows { list-style: none; padding: 0; margin: 0; } .rows > li { display: grid; grid-template-columns: 8rem 1fr 17rem; gap: .2rem 1rem; align-items: center;
  padding: .6rem 0; border-bottom: 1px solid var(--line); max-width: none; } .rows .badge { justify-self: start; } .rows span > .soft { display: block; }
.keys { max-width: none; display: flex; flex-wrap: wrap; gap: .2rem 1.5rem; }
.keys .strip { display: inline-block; position: relative; width: 1.6rem; height: .95rem; padding: 0; margin-right: .4rem; vertical-align: -.15rem; }
.keys .range { left: 0; right: 0; } .keys .middle { left: 50%; } .keys .over { left: 20%; }
.charts { display: grid; grid-template-columns: 1fr 1fr; gap: 0 3rem; } .charts figure:first-child { grid-column: 1 / 3; }
.charts figure { min-width: 0; }
@media (max-width: 56rem) { .figures { grid-template-columns: 1fr 1fr; } .rows > li, .charts { grid-template-columns: 1fr; }
  .charts figure:first-child { grid-column: auto; } .fromto { font-size: 1rem; } }
@media print { .figures { grid-template-columns: repeat(4, 1fr); } .rows > li { grid-template-columns: 8rem 1fr 15rem; }
  .strip i, .sample, .band { print-color-adjust: exact; } .rows > li, .chart, .unshown { break-inside: avoid; } }
"""


def page(report: Data) -> str:
    """Return the page of a report, HTML.

    :arg report: as rehearsal.json has it.
    """
    change, trace = Change.of(report["change"]), parse(report["trace"])
    judged = (
        [_rules(report), [*_measures(report), *_rehearsal_curves.over_time(report, trace)]] if report["rounds"][CANDIDATE] else []
    )
    # What decides comes first.
    ordered = judged if _verdict_words.broken(report, CANDIDATE) else reversed(judged)
    parts = [
        *_verdict(report, change),
        *_figures(report),
        _not_shown(report),
        *(part for section in ordered for part in section),
        *_work(report, trace),
        *_changes(report, change),
        *_record(report, change),
    ]
    title = f"{report['result']}: {report['baseline']['version']} → {report['candidate']['version']}"
    return document(title, parts, _charts.STYLE + _STYLE)


# --- the first screen -----------------------------------------------------------------------------------------------


def _verdict(report: Data, change: Change) -> list[Markup]:
    about = f"Rehearsal of KAI Scheduler, {_verdict_words.day(report)}"
    advice, accept = _verdict_words.advice(report)
    do = [element("strong", "What to do: "), " ".join(advice), *((" ", element("code", accept)) if accept else ())]
    return [
        verdict(report["result"], f"{_verdict_words.headline(report)}.", about),
        _from_to(report, change),
        element("p", " ".join(_verdict_words.grounds(report)), css="lead"),
        element("p", *do, css="lead"),
    ]


def _from_to(report: Data, change: Change) -> Markup:
    before, after = (element("b", report[side]["version"]) for side in SIDES)
    more = _count_of_changes(change)
    return element("p", "From ", before, " to ", after, f", with {more}" if more else "", css="fromto")


def _count_of_changes(change: Change) -> str:
    counts = [sum(path.startswith(begin) for path, *_rest in change.differences) for begin in (_VALUES, _QUEUES)]
    words = (("changed chart value", "changed chart values"), ("changed queue setting", "changed queue settings"))
    return " and ".join(f"{count} {word[count > 1]}" for count, word in zip(counts, words, strict=True) if count)


def _figures(report: Data) -> list[Markup]:
    before, shown_first = _verdict_words.names(report)[0], first(report["comparisons"])
    shown = [
        Figure(
            MEASURES[one["name"]].title,
            median(one, CANDIDATE),
            element("span", f"{median(one, BASELINE)} with {before}", Markup("<br>"), _state(one)),
            "failed" if one["worse"] else "",
        )
        for one in shown_first
    ]
    return [figures(shown)] if shown else []


def _state(one: Data) -> Markup:
    word = _STATES[judgement(one)]
    return element("span", word, css=f"badge {word.split(' ', maxsplit=1)[0]}")


def _not_shown(report: Data) -> Markup:
    missing, played = _verdict_words.not_exercised(report), report["rounds"][CANDIDATE]
    parts = [element("h2", "What this rehearsal does not show")]
    if missing:
        said = element("p", "The work that was played had none of these. The verdict says nothing of them:")
        parts += [said, element("ul", *(element("li", what) for what in missing), css="chips")]
    elif played:
        parts.append(element("p", "The work that was played had everything that a rehearsal looks for."))
    else:
        parts.append(
            element("p", f"{_verdict_words.names(report)[1]} was not played: nothing was measured, and no rule was checked.")
        )
    parts += [element("p", note) for note in _verdict_words.further(report)]
    parts.append(element("p", "The nodes were simulated: pods were placed and ended, and no container ran.", css="soft"))
    return element("section", *parts, css="unshown")


# --- measures and rules ---------------------------------------------------------------------------------------------


def _measures(report: Data) -> list[Markup]:
    head = element("h2", "Measures")
    if not report["comparisons"]:
        return [head, element("p", "Nothing was measured in every round before and after the change.")]
    parts = [head, element("p", _STATES_MEAN), _keys(_verdict_words.names(report))]
    for group in GROUPS:
        rows = [one for one in report["comparisons"] if MEASURES[one["name"]].group == group]
        if rows:
            parts += [element("h3", group), element("ul", *(_measure(one, report) for one in rows), css="rows")]
    return parts


def _keys(names: t.Sequence[str]) -> Markup:
    sides = [
        element("span", _swatch(f"{css} range", f"{css} middle"), f"{name}: lowest, middle and highest round")
        for css, name in zip(_charts.CLASSES, names, strict=True)
    ]
    return element("p", *sides, element("span", _swatch("over"), "above the limit"), css="soft keys")


def _swatch(*parts: str) -> Markup:
    drawn = "".join(f'<i class="{css}"></i>' for css in parts)
    return Markup(f'<span class="strip" aria-hidden="true">{drawn}</span>')


def _measure(one: Data, report: Data) -> Markup:
    names = _verdict_words.names(report)
    rounds = f"Rounds: {spread(one, CANDIDATE)} ({spread(one, BASELINE)} with {names[0]})."
    limit = f" Limit: {amount(one['allowed'], MEASURES[one['name']].unit)}."
    said = element("span", sentence(one, names), element("span", rounds + limit, css="soft"))
    return element("li", _state(one), said, _charts.strip(one[BASELINE], one[CANDIDATE], one["allowed"]))


def _rules(report: Data) -> list[Markup]:
    broken = _verdict_words.broken(report, CANDIDATE)
    ordered = [*broken, *(name for name in INVARIANTS if name not in broken)]
    rules = element("ul", *(_rule(name, report, name in broken) for name in ordered), css="rows")
    only = [note for note in report["notes"] if note.startswith(ONLY_BASELINE)]
    return [element("h2", "Rules that must always hold"), rules, *([listing(only)] if only else []), _violations(report)]


def _rule(name: str, report: Data, broken: bool) -> Markup:
    before, after = (_held(name, report["rounds"][side]) for side in SIDES)
    found = element("span", "broken" if broken else "held", css=f"badge {'failed' if broken else 'passed'}")
    meaning = f"{MEANINGS[name][:1].upper()}{MEANINGS[name][1:]}."
    rounds = f"{after} rounds ({before} with {_verdict_words.names(report)[0]})"
    return element("li", found, element("span", meaning), element("span", rounds, css="soft"))


def _held(name: str, rounds: t.Sequence[Data]) -> str:
    held = sum(all(one["invariant"] != name for one in each["violations"]) for each in rounds)
    return f"{held} of {len(rounds)}"


def _violations(report: Data) -> Markup:
    names = dict(zip(SIDES, _verdict_words.names(report), strict=True))
    rows = [
        (names[side], number, one["at"], MEANINGS[one["invariant"]], one["message"])
        for side in reversed(SIDES)
        for number, each in enumerate(report["rounds"][side], 1)
        for one in each["violations"]
    ]
    if not rows:
        return element("p", "No violation in any round.")
    return _bounded(["with", "round", "second", "rule", "what was seen"], rows, "What did not hold")


def _bounded(head: t.Sequence[str], rows: t.Sequence[t.Sequence[object]], caption: str) -> Markup:
    more = f"; the first {MOST_ROWS} of {len(rows)}" if len(rows) > MOST_ROWS else ""
    return table(head, rows[:MOST_ROWS], f"{caption}{more}")


# --- what was played, what changes, and the record ------------------------------------------------------------------


def _work(report: Data, trace: Trace) -> list[Markup]:
    nodes = sum(shape.count for shape in trace.nodes)
    counts = " and ".join(
        f"{len(report['rounds'][side])} with {name}" for side, name in zip(SIDES, _verdict_words.names(report), strict=True)
    )
    said = (
        f"{trace.pods} pods of {len(trace.workloads)} workloads, on {nodes} nodes with {trace.gpus} GPUs. {trace.span:g} seconds of work were "
        f"played at {report['speed']:g} times their speed. Rounds: {counts}."
    )
    return [element("h2", "The work that was played"), element("p", said), _queues(report, trace), *_without_node(report)]


def _queues(report: Data, trace: Trace) -> Markup:
    sides = [report["rounds"][side] for side in SIDES]
    used = {queue for side in sides for each in side for sample in each["samples"] for queue in sample["gpus"]}
    rows: list[list[object]] = []
    for queue in sorted({workload.queue for workload in trace.workloads} | used):
        means = [round(mean(side, functools.partial(_of_queue, queue)), 2) for side in sides if side]
        rows.append([queue, sum(workload.pods for workload in trace.workloads if workload.queue == queue), *means])
    names = zip(_verdict_words.names(report), sides, strict=True)
    head = ["queue", "pods", *(f"GPUs with {name}" for name, side in names if side)]
    return _bounded(head, rows, "Queues, and the GPUs that each held on average")


def _of_queue(queue: str, sample: Data) -> float:
    held: float = sample["gpus"].get(queue, 0.0)
    return held


def _without_node(report: Data) -> list[Markup]:
    names = dict(zip(SIDES, _verdict_words.names(report), strict=True))
    rows = [
        (names[side], number, name, shown(why, LONGEST_LINE) or "nothing says why")
        for side in reversed(SIDES)
        for number, each in enumerate(report["rounds"][side], 1)
        for name, why in sorted(each["unbound"].items())
    ]
    if not rows:
        return []
    listed = _bounded(["with", "round", "pod", "why"], rows, "Pods without a node at the end")
    return [fold("Pods that never got a node", "in which round, and why", [listed])]


def _changes(report: Data, change: Change) -> list[Markup]:
    before, after = (report[side]["version"] for side in SIDES)
    more = _count_of_changes(change)
    goes = f"KAI Scheduler goes from {before} to {after}" if before != after else f"KAI Scheduler stays at {before}"
    readable = [
        (_setting(path), _value(old), _value(new)) for path, old, new in change.differences if not path.startswith(_VALUES)
    ]
    parts = [
        element("h2", "What changes"),
        element("p", f"{goes}, with {more}." if more else f"{goes}, and nothing else changes."),
    ]
    if readable:
        parts.append(table(["what", *_verdict_words.names(report)], readable, "Changes that can be read"))
    return parts


def _setting(path: str) -> str:
    return f"queue {path.removeprefix(_QUEUES)}" if path.startswith(_QUEUES) else path


def _value(value: t.Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(inner)}" for key, inner in value.items())
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _record(report: Data, change: Change) -> list[Markup]:
    parts = [element("h2", "For the record"), fold("The verdict", "word for word", [listing(report["reasons"])])]
    if report["comparisons"]:
        parts.append(fold("Every measure in every round", "exact numbers", [_numbers(report)]))
    rows = [(path, _value(old), _value(new)) for path, old, new in change.differences if path.startswith(_VALUES)]
    name = element("p", "The gate knows this change as ", element("code", change.name), f". It was rehearsed at {report['at']}.")
    exact = [table(["chart value", *_verdict_words.names(report)], rows, "Chart values that change, as digests")] if rows else []
    return [*parts, fold("The exact change", "its name, its date, digests of chart values", [name, *exact])]


def _numbers(report: Data) -> Markup:
    rows = [
        (MEASURES[one["name"]].title, one["name"], _all(one[BASELINE]), _all(one[CANDIDATE]), round(one["allowed"], 3))
        for one in report["comparisons"]
    ]
    head = ["measure", "name", *_verdict_words.names(report), "limit"]
    return table(head, rows, "Each round's value, in the measure's own unit")


def _all(values: t.Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
