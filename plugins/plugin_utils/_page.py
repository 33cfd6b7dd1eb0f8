# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""One look for all pages of evidence: HTML that needs no network and no script, by light and in the dark, on a desk and a phone."""

from __future__ import annotations

import dataclasses
import html
import typing as t

# Width and height of a chart, and the room for its axes on the left and below, in the units of its own drawing.
_WIDTH, _HEIGHT, _LEFT, _BELOW = 640.0, 200.0, 40.0, 24.0

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --paper: #ffffff; --line: #d0d7de; --first: #6e7781; --second: #0969da;
  --good: #1a7f37; --held: #9a6700; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9198a1; --paper: #0d1117; --line: #3d444d; --first: #9198a1;
  --second: #4493f8; --good: #3fb950; --held: #d29922; --bad: #f85149; } }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--paper); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.promote { color: var(--good); } .hold { color: var(--held); } .reject { color: var(--bad); }
.soft, caption, figcaption { color: var(--soft); font-size: .9rem; } caption, figcaption { text-align: left; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.axis { stroke: var(--line); } .first { stroke: var(--first); } .second { stroke: var(--second); }
polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; } .first polyline { stroke-dasharray: 4 2; }
.key::before { content: ""; display: inline-block; width: 1.5rem; border-top: 3px solid var(--first); margin: 0 .4rem .25rem 0; }
.key.second::before { border-color: var(--second); } .key + .key { margin-left: 1rem; }
.key:not(.second)::before { border-top-style: dashed; }
@media (max-width: 40rem) { svg text { font-size: 17px; } }
rect.first { fill: var(--first); } rect.second { fill: var(--second); }
"""


@dataclasses.dataclass(frozen=True)
class Markup:
    """Text that is HTML already; any other text is escaped."""

    text: str


def document(title: str, parts: t.Iterable[Markup]) -> str:
    """Return a whole page."""
    body = "\n".join(part.text for part in parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def element(name: str, *parts: str | Markup, css: str = "") -> Markup:
    """Return an element with these parts, texts or elements."""
    style = f' class="{html.escape(css)}"' if css else ""
    return Markup(f"<{name}{style}>{''.join(map(_text, parts))}</{name}>")


def listing(items: t.Iterable[str]) -> Markup:
    """Return a list of sentences."""
    return element("ul", *(element("li", item) for item in items))


def table(head: t.Sequence[str], rows: t.Iterable[t.Sequence[object]], caption: str = "") -> Markup:
    """Return a table; numbers are put to the right.

    :arg head: titles of the columns; ``rows``, cells, texts or numbers.
    """
    rows = list(rows)
    numbers = [bool(rows) and all(isinstance(row[column], (int, float)) for row in rows) for column in range(len(head))]
    titles = "".join(_cell("th", title, number, ' scope="col"') for title, number in zip(head, numbers, strict=True))
    lines = "".join(
        f"<tr>{''.join(_cell('td', cell, number) for cell, number in zip(row, numbers, strict=True))}</tr>\n" for row in rows
    )
    said = _text(element("caption", caption)) if caption else ""
    # Reached by the keyboard where it is wider than the screen.
    return Markup(
        f'<div class="wide" tabindex="0" role="region" aria-label="{html.escape(caption or head[0])}"><table>{said}<thead><tr>{titles}</tr>'
        f"</thead><tbody>\n{lines}</tbody></table></div>"
    )


def curves(
    what: str,
    names: tuple[str, str],
    first: t.Sequence[t.Sequence[tuple[float, float]]],
    second: t.Sequence[t.Sequence[tuple[float, float]]],
) -> Markup:
    """Return a chart of two groups of curves over time.

    :arg what: what is drawn, with its unit; ``names``, of the groups.
    :arg first: curves, each points of seconds and values, in their order; ``second`` alike.
    """
    points = [point for curve in (*first, *second) for point in curve] or [(0.0, 0.0)]
    longest, highest = (max(values) or 1.0 for values in zip(*points, strict=True))
    groups = "".join(
        f'<g class="{css}">{"".join(_curve(curve, longest, highest) for curve in group)}</g>'
        for css, group in (("first", first), ("second", second))
    )
    bottom, right = _HEIGHT - _BELOW, _WIDTH - 4
    axes = (
        f'<path class="axis" fill="none" d="M{_LEFT} 4V{bottom}H{right}"/>'
        f'<text x="{_LEFT - 6}" y="12" text-anchor="end">{highest:g}</text><text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'
        f'<text x="{right}" y="{_HEIGHT - 6}" text-anchor="end">{longest:.0f} s</text><text x="{_LEFT}" y="{_HEIGHT - 6}">0 s</text>'
    )
    return _figure(what, names, f"{axes}{groups}", _HEIGHT)


def bars(what: str, names: tuple[str, str], rows: t.Sequence[tuple[str, float, float]]) -> Markup:
    """Return a chart with two bars for each row.

    :arg what: what is drawn, with its unit; ``names``, of the bars.
    :arg rows: a title, and the two values.
    """
    most = max((value for _title, *values in rows for value in values), default=0.0) or 1.0
    step, left = 44.0, 200.0
    drawn = ""
    for number, (title, *values) in enumerate(rows):
        top = number * step
        drawn += f'<text x="{left - 8}" y="{top + 24}" text-anchor="end">{html.escape(title[:20])}</text>'
        for place, (css, value) in enumerate(zip(("first", "second"), values, strict=True)):
            length = (_WIDTH - left - 60) * value / most
            y = top + 6 + place * 15
            drawn += f'<rect class="{css}" x="{left}" y="{y}" width="{length:.1f}" height="12"/>'
            drawn += f'<text x="{left + length + 6:.1f}" y="{y + 10}">{value:.2f}</text>'
    return _figure(what, names, drawn, max(step, len(rows) * step))


def _figure(what: str, names: tuple[str, str], drawn: str, height: float) -> Markup:
    key = "".join(_text(element("span", name, css=css)) for name, css in zip(names, ("key", "key second"), strict=True))
    return Markup(
        f'<figure><figcaption>{html.escape(what)}<br>{key}</figcaption><svg viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'aria-label="{html.escape(what)}">{drawn}</svg></figure>'
    )


def _curve(curve: t.Sequence[tuple[float, float]], longest: float, highest: float) -> str:
    wide, high = _WIDTH - _LEFT - 4, _HEIGHT - _BELOW - 4
    points = " ".join(
        f"{_LEFT + seconds / longest * wide:.1f},{_HEIGHT - _BELOW - value / highest * high:.1f}" for seconds, value in curve
    )
    return f'<polyline points="{points}"/>'


def _cell(name: str, cell: object, number: bool, more: str = "") -> str:
    text = f"{cell:g}" if isinstance(cell, (int, float)) else html.escape(str(cell))
    return f"<{name}{more}{' class=number' if number else ''}>{text}</{name}>"


def _text(part: str | Markup) -> str:
    return part.text if isinstance(part, Markup) else html.escape(part)
