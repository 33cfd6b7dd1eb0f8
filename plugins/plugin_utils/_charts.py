# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Charts that compare two sides: the first is grey and dashed, the second coloured and solid. SVG holds lines only; words are HTML, of one size."""

from __future__ import annotations

import bisect
import dataclasses
import html
import math
import statistics
import typing as t

from ._page import Markup, element

Points = t.Sequence[tuple[float, float]]

CLASSES = ("first", "second")
# Places at which the curves of several rounds are read, and parts of the height above the highest value, for names of lines.
_PLACES, _HEADROOM = 120, 1.22
# Width and height of a name, in percent of the chart, on a narrow screen.
_WIDE, _HIGH = 30.0, 10.0
# Ticks of an axis, at most, beside 0; how much longer a strip is than what is on it.
_TICKS, _BEYOND = 5, 1.15

STYLE = """
.chart { margin: 1rem 0 1.5rem; } .chart figcaption { font-size: 1rem; color: var(--text); margin-bottom: .6rem; }
.plot { display: grid; grid-template: 13rem 1.5rem / 2.6rem 1fr; } .canvas, .up, .along { position: relative; }
.canvas { border-left: 1px solid var(--first); border-bottom: 1px solid var(--first); } .along { grid-column: 2; }
.canvas svg { position: absolute; inset: 0; width: 100%; height: 100%; } .canvas svg * { vector-effect: non-scaling-stroke; }
.up span, .along span, .beside { position: absolute; font-size: .8rem; line-height: 1.2; color: var(--soft); white-space: nowrap; }
.up span { right: .45rem; transform: translateY(50%); } .along span { top: .3rem; transform: translateX(-50%); }
.along span:first-child { transform: none; } .along .end, .beside.end { transform: translateX(-100%); }
.grid { stroke: var(--line); stroke-width: 1; } .bound { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 1 3; }
.chart .line { fill: none; stroke-width: 2.25; stroke-linejoin: round; } .band { stroke: none; opacity: .2; }
.first .line { stroke: var(--first); stroke-dasharray: 5 4; } .second .line { stroke: var(--second); }
.first .band { fill: var(--first); } .second .band { fill: var(--second); }
.beside { font-size: .85rem; font-weight: 600; color: var(--text); background: color-mix(in srgb, var(--paper) 80%, transparent);
  border-radius: .2rem; padding: .05rem .3rem; }
.beside.bound { font-weight: 400; color: var(--soft); right: 0; }
.sample { display: inline-block; width: 1.5rem; margin-right: .35rem; vertical-align: .25rem; border-top: 3px dashed var(--first); }
.sample.second { border-top: 3px solid var(--second); }
.strip { display: block; padding: 0 .5rem; } .strip b { display: block; position: relative; height: .95rem; }
.strip b::before { content: ""; position: absolute; left: 0; right: 0; top: 50%; border-top: 1px solid var(--line); }
.strip i { position: absolute; } .strip .range { top: calc(50% - 2px); height: 4px; border-radius: 2px; }
.strip .middle { top: calc(50% - .375rem); width: .75rem; height: .75rem; margin-left: -.375rem; box-sizing: border-box; border-radius: 50%; }
.strip .first { background: var(--first); } .strip .second { background: var(--second); }
.strip .first.middle { background: var(--paper); border: 2.5px solid var(--first); }
.strip .over { top: 0; bottom: 0; right: 0; border-left: 2px solid var(--text);
  background: repeating-linear-gradient(135deg, var(--line) 0 1px, transparent 1px 5px); }
"""


@dataclasses.dataclass(frozen=True)
class Band:
    """The curves of several rounds, read at the same places.

    :ivar places: x of each; ``least``, ``middle`` and ``most``, the lowest round, the median and the highest one there.
    """

    places: tuple[float, ...]
    least: tuple[float, ...]
    middle: tuple[float, ...]
    most: tuple[float, ...]

    def at(self, place: float) -> float:
        """Return the median at a place; that of its end beyond it."""
        return self.middle[max(0, min(bisect.bisect_right(self.places, place), len(self.places)) - 1)]


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis from 0.

    :ivar most: its end; ``ticks``, the values that it names, each with its text.
    """

    most: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def to(cls, most: float, unit: str = "") -> Axis:
        """Return an axis with round ticks; the last of them has the unit."""
        step = _round_step(most or 1.0)
        values = [number * step for number in range(math.floor((most or 1.0) / step + 1e-9) + 1)]
        texts = [f"{value:g}" for value in values]
        return cls(most or 1.0, tuple(zip(values, [*texts[:-1], f"{texts[-1]}{unit}"], strict=True)))

    def part(self, value: float) -> float:
        """Return where a value is, in percent of the axis."""
        return 100 * min(value / self.most, 1.0)


def band(rounds: t.Sequence[Points]) -> Band | None:
    """Return what rounds have in common; None where none has a point.

    A round counts up to its last point, and has the value of its point before in between.
    """
    known = [sorted(points) for points in rounds if points]
    if not known:
        return None
    longest = max(points[-1][0] for points in known)
    places = [longest * number / _PLACES for number in range(_PLACES + 1)]
    values = [[found for points in known if (found := _value(points, place)) is not None] for place in places]
    held = [(place, min(each), statistics.median(each), max(each)) for place, each in zip(places, values, strict=True) if each]
    return Band(*zip(*held, strict=True))


def _value(points: Points, place: float) -> float | None:
    if place > points[-1][0] + 1e-9:
        return None
    return points[max(0, bisect.bisect_right(points, (place, math.inf)) - 1)][1]


def over(
    title: str,
    said: str,
    names: t.Sequence[str],
    bands: t.Sequence[Band],
    axes: tuple[Axis, Axis],
    bound: tuple[float, str] | None = None,
) -> Markup:
    """Return a chart of the two sides' bands, each with its name beside its line.

    :arg title: what is drawn; ``said``, what it comes to, a sentence or two.
    :arg axes: the horizontal and the vertical one; ``bound``, a value that the latter has a line for, and its name.
    """
    across, up = axes
    drawn = "".join(f'<path class="grid" d="M0 {100 - up.part(value):.2f}H100"/>' for value, _text in up.ticks[1:])
    words = ""
    if bound:
        drawn += f'<path class="bound" d="M0 {100 - up.part(bound[0]):.2f}H100"/>'
        words += f'<span class="beside bound" style="bottom:{up.part(bound[0]):.1f}%">{html.escape(bound[1])}</span>'
    drawn += "".join(_drawn(one, css, across, up) for one, css in zip(bands, CLASSES, strict=True))
    words += "".join(_beside(names, bands, across, up, bound))
    picture = f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="{html.escape(title)}">{drawn}</svg>'
    rows = "".join(f'<span style="bottom:{up.part(value):.1f}%">{text}</span>' for value, text in up.ticks)
    columns = "".join(
        f'<span{" class=end" if across.part(value) > 95 else ""} style="left:{across.part(value):.1f}%">{text}</span>'
        for value, text in across.ticks
    )
    plot = (
        f'<div class="plot"><div class="up" aria-hidden="true">{rows}</div><div class="canvas">{picture}<div aria-hidden="true">{words}'
        f'</div></div><div class="along" aria-hidden="true">{columns}</div></div>'
    )
    return element("figure", element("figcaption", element("strong", title), f" {said}"), Markup(plot), css="chart")


def _drawn(one: Band, css: str, across: Axis, up: Axis) -> str:
    def line(values: t.Iterable[float]) -> list[str]:
        pairs = zip(one.places, values, strict=True)
        return [f"{across.part(place):.2f},{100 - up.part(value):.2f}" for place, value in pairs]

    area = " ".join([*line(one.most), *reversed(line(one.least))])
    middle = " ".join(line(one.middle))
    return f'<g class="{css}"><polygon class="band" points="{area}"/><polyline class="line" points="{middle}"/></g>'


class _Box(t.NamedTuple):
    """A part of a chart, in percent of its width and height."""

    left: float
    right: float
    bottom: float
    top: float

    def meets(self, other: _Box) -> bool:
        return self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top

    @property
    def inside(self) -> bool:
        return self.left >= 0 and self.right <= 100 and self.bottom >= 0 and self.top <= 100


def _beside(
    names: t.Sequence[str], bands: t.Sequence[Band], across: Axis, up: Axis, bound: tuple[float, str] | None
) -> t.Iterator[str]:
    """Yield the names of the lines, each beside its own, where the least is below it and the lines are furthest apart."""
    taken = list(_outline(bands, across, up))
    if bound:
        taken.append(_Box(100 - _WIDE, 100, up.part(bound[0]), up.part(bound[0]) + _HIGH))
    for name, css, own, other in zip(names, CLASSES, bands, reversed(bands), strict=True):
        spots = list(_spots(own, other, across, up))
        place, box, _apart = max(spots, key=lambda spot: (-sum(map(spot[1].meets, taken)), spot[2]))
        taken.append(box)
        end = " end" if box.left < place else ""
        yield (
            f'<span class="beside{end}" style="left:{place:.1f}%;bottom:{box.bottom:.1f}%"><i class="sample {css}"></i>'
            f"{html.escape(name)}</span>"
        )


def _spots(own: Band, other: Band, across: Axis, up: Axis) -> t.Iterator[tuple[float, _Box, float]]:
    """Yield the places where a name may stand, above or below its line, to the right or left, and how far apart the lines are there."""
    for place in own.places[::3]:
        here, there = up.part(own.at(place)), up.part(other.at(place))
        for left in (across.part(place), across.part(place) - _WIDE):
            for bottom in (here + 3, here - _HIGH - 3):
                box = _Box(left, left + _WIDE, bottom, bottom + _HIGH)
                if box.inside:
                    yield across.part(place), box, abs(here - there)


def _outline(bands: t.Sequence[Band], across: Axis, up: Axis) -> t.Iterator[_Box]:
    for one in bands:
        for place, least, most in zip(one.places, one.least, one.most, strict=True):
            yield _Box(across.part(place), across.part(place) + 0.1, up.part(least), up.part(most) + 0.1)


def strip(first: t.Sequence[float], second: t.Sequence[float], allowed: float) -> Markup:
    """Return the ranges of two sides on one scale, with the rounds in the middle and a line for what is allowed.

    It is a picture only: what it shows has to stand beside it as text.
    """
    scale = Axis(max(*first, *second, allowed) * _BEYOND or 1.0, ())
    drawn = ""
    for values, css in zip((first, second), CLASSES, strict=True):
        begin, end, middle = (scale.part(value) for value in (min(values), max(values), statistics.median(values)))
        drawn += (
            f'<b><i class="over" style="left:{scale.part(allowed):.1f}%"></i>'
            f'<i class="{css} range" style="left:{begin:.1f}%;width:{end - begin:.1f}%"></i>'
            f'<i class="{css} middle" style="left:{middle:.1f}%"></i></b>'
        )
    return Markup(f'<span class="strip" aria-hidden="true">{drawn}</span>')


def height_for(bands: t.Sequence[Band], least: float = 0.0) -> float:
    """Return how high an axis is for bands, with room for the names of their lines."""
    return max([least, *(value for one in bands for value in one.most)]) * _HEADROOM or 1.0


def _round_step(most: float) -> float:
    """Return 1, 2 or 5 times a power of ten, a few of which make up a number."""
    rough = most / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= rough * (1 - 1e-9))
