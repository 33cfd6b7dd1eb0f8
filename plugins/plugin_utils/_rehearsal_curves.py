# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The curves of a rehearsal: GPUs in use, pods that wait, and how soon pods were placed, each side with the spread of its rounds."""

from __future__ import annotations

import statistics
import typing as t

from ..module_utils._rehearsal.model import Trace
from . import _charts
from ._measures import Data, digits
from ._page import Markup, element
from ._verdict_words import SIDES
from ._verdict_words import names as names_of

Rounds = t.Sequence[Data]


def over_time(report: Data, trace: Trace) -> list[Markup]:
    """Return the curves of a report, with how to read them; nothing where a side has none."""
    names, rounds = names_of(report), [report["rounds"][side] for side in SIDES]
    drawn = (_gpus_in_use(rounds, names, trace.gpus), _pods_waiting(rounds, names), _waits(rounds, names))
    charts = [chart for chart in drawn if chart]
    if not charts:
        return []
    lines = (element("span", element("i", css=f"sample {css}"), name) for css, name in zip(_charts.CLASSES, names, strict=True))
    said = "A line is the round in the middle. The band around it goes from the lowest round to the highest one."
    return [
        element("h2", "Over time"),
        element("p", said),
        element("p", *lines, css="soft keys"),
        element("div", *charts, css="charts"),
    ]


def _gpus_in_use(rounds: t.Sequence[Rounds], names: t.Sequence[str], gpus: int) -> Markup | None:
    bands = [_charts.band(_curves(side, lambda sample: sum(sample["gpus"].values()))) for side in rounds]
    means = [mean(side, lambda sample: sum(sample["gpus"].values())) for side in rounds]
    said = f"On average {digits(means[0])} with {names[0]} and {digits(means[1])} with {names[1]}, by seconds of the round."
    return _chart("GPUs in use.", said, names, bands, (1.0 * gpus, f"all {gpus} GPUs"))


def _pods_waiting(rounds: t.Sequence[Rounds], names: t.Sequence[str]) -> Markup | None:
    bands = [_charts.band(_curves(side, lambda sample: sample["waiting"])) for side in rounds]
    most = [max((sample["waiting"] for each in side for sample in each["samples"]), default=0) for side in rounds]
    said = f"At most {most[0]} with {names[0]} and {most[1]} with {names[1]}, by seconds of the round."
    return _chart("Pods that wait for a node.", said, names, bands)


def _waits(rounds: t.Sequence[Rounds], names: t.Sequence[str]) -> Markup | None:
    """Return how many percent of the pods were placed within which time."""
    longest = max((wait for side in rounds for each in side for wait in each["waits"].values()), default=0.0)
    bands = [_charts.band([_placed(each["waits"].values(), longest) for each in side if each["waits"]]) for side in rounds]
    said = "Percent of the pods that got a node, by seconds that they waited for it."
    ticks = ((0.0, "0"), (25.0, "25"), (50.0, "50"), (75.0, "75"), (95.0, "95 %"))
    return _chart("Pods placed.", said, names, bands, up=_charts.Axis(112.0, ticks))


def _placed(waits: t.Iterable[float], longest: float) -> list[tuple[float, float]]:
    ordered = sorted(waits)
    return [(0.0, 0.0), *((wait, 100 * number / len(ordered)) for number, wait in enumerate(ordered, 1)), (longest, 100.0)]


def _chart(
    title: str,
    said: str,
    names: t.Sequence[str],
    bands: t.Sequence[_charts.Band | None],
    bound: tuple[float, str] | None = None,
    up: _charts.Axis | None = None,
) -> Markup | None:
    """Return a chart; None where a side has nothing to draw."""
    drawn = [one for one in bands if one and one.places[-1] > 0]
    if len(drawn) < len(SIDES):
        return None
    across = _charts.Axis.to(max(one.places[-1] for one in drawn), " s")
    up = up or _charts.Axis.to(_charts.height_for(drawn, bound[0] if bound else 0.0))
    return _charts.over(title, said, names, drawn, (across, up), bound)


def _curves(rounds: Rounds, value: t.Callable[[Data], float]) -> list[list[tuple[float, float]]]:
    return [[(sample["at"], value(sample)) for sample in each["samples"]] for each in rounds]


def mean(rounds: Rounds, value: t.Callable[[Data], float]) -> float:
    """Return the mean of a value over all samples of some rounds; 0 where there is none."""
    values = [value(sample) for each in rounds for sample in each["samples"]]
    return statistics.fmean(values) if values else 0.0
