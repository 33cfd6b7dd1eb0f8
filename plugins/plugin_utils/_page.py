# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""One look for all pages of evidence: HTML that needs no network and no script, by light and in the dark, on a desk and a phone."""

from __future__ import annotations

import dataclasses
import html
import re
import typing as t

# Width and height of a chart, and the room for its axes on the left and below, in the units of its own drawing.
_WIDTH, _HEIGHT, _LEFT, _BELOW = 640.0, 200.0, 40.0, 24.0

# Characters from which a cell gets more room on a narrow screen.
_LONG = 40
_TAG = re.compile("<[^>]*>")

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --paper: #ffffff; --line: #d0d7de; --first: #6e7781; --second: #0969da;
  --good: #1a7f37; --held: #9a6700; --bad: #cf222e;
  --hue0: #0969da; --hue1: #8250df; --hue2: #bc4c00; --hue3: #1a7f37; --hue4: #bf3989; --hue5: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9198a1; --paper: #0d1117; --line: #3d444d; --first: #9198a1;
  --second: #4493f8; --good: #3fb950; --held: #d29922; --bad: #f85149;
  --hue0: #4493f8; --hue1: #ab7df8; --hue2: #db6d28; --hue3: #3fb950; --hue4: #db61a2; --hue5: #d29922; } }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--paper); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
h1, h2, h3, p, li { overflow-wrap: anywhere; } p, li, figure { max-width: 60rem; } li li, .plain > li { max-width: none; }
.promote, .passed { color: var(--good); } .hold, .incomplete, .not_tried, .accepted { color: var(--held); }
.reject, .failed { color: var(--bad); }
.soft, caption, figcaption { color: var(--soft); font-size: .9rem; } caption, figcaption { text-align: left; }
.wide { overflow-x: auto; margin: 1rem 0; } table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; min-width: 4rem; text-align: left; vertical-align: top; }
.long { min-width: 16rem; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.axis { stroke: var(--line); } .first { stroke: var(--first); } .second { stroke: var(--second); }
polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; } .first polyline { stroke-dasharray: 4 2; }
.key::before { content: ""; display: inline-block; width: 1.5rem; border-top: 3px solid var(--first); margin: 0 .4rem .25rem 0; }
.key.second::before { border-color: var(--second); } .key + .key { margin-left: 1rem; }
.key:not(.second)::before { border-top-style: dashed; }
@media (max-width: 40rem) { svg text { font-size: 17px; } caption { max-width: calc(100vw - 2rem); } }
.time { white-space: nowrap; }
rect.first { fill: var(--first); } rect.second { fill: var(--second); }
.plain { list-style: none; padding: 0; } .plain .plain { padding-left: 1rem; border-left: 1px solid var(--line); }
.plain > li { margin: .6rem 0; }
.boxes { list-style: none; padding: 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(6.6rem, 1fr)); gap: .4rem; }
.boxes > li { border: 1px solid var(--first); border-radius: .25rem; padding: .25rem .4rem; font-size: .9rem; overflow-wrap: anywhere; }
.boxes > .free { border-style: dashed; color: var(--soft); }
.bar { display: block; position: relative; height: .6rem; margin-top: .2rem; overflow: hidden; border: 1px solid var(--line); }
.bar i { position: absolute; top: 0; bottom: 0; min-width: 3px; } .bar .bound { background: var(--line); }
.bar .share { background: var(--second); } .bar .mark { background: var(--text); width: 3px; }
.hue0 { background: var(--hue0); } .hue1 { background: var(--hue1); } .hue2 { background: var(--hue2); } .hue3 { background: var(--hue3); }
.hue4 { background: var(--hue4); } .hue5 { background: var(--hue5); } .nobody { background: var(--bad); }
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


def element(name: str, *parts: str | Markup, css: str = "", label: str = "") -> Markup:
    """Return an element with these parts, texts or elements.

    :arg label: its name for those who hear the page.
    """
    given = {"class": css, "aria-label": label}
    attributes = "".join(f' {key}="{html.escape(value)}"' for key, value in given.items() if value)
    return Markup(f"<{name}{attributes}>{''.join(map(_text, parts))}</{name}>")


def listing(items: t.Iterable[str]) -> Markup:
    """Return a list of sentences."""
    return element("ul", *(element("li", item) for item in items))


def parts_bar(parts: t.Iterable[tuple[str, float, float]]) -> Markup:
    """Return a bar. It is a picture only: what it shows has to stand beside it as text.

    :arg parts: class, begin and length of each, as parts of the whole; a part without length is a mark.
    """
    drawn = "".join(
        f'<i class="{css}" style="left:{100 * begin:.1f}%{f";width:{100 * length:.1f}%" if length else ""}"></i>'
        for css, begin, length in parts
    )
    return Markup(f'<span class="bar" aria-hidden="true">{drawn}</span>')


def table(head: t.Sequence[str], rows: t.Iterable[t.Sequence[object]], caption: str = "") -> Markup:
    """Return a table; numbers are put to the right.

    :arg head: titles of the columns; ``rows``, cells, texts, elements or numbers.
    """
    rows = list(rows)
    numbers = [_is_numeric([row[column] for row in rows]) for column in range(len(head))]
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


def _is_numeric(column: t.Sequence[object]) -> bool:
    """Tell whether a column holds numbers, some of which may be missing."""
    found = [isinstance(cell, (int, float)) for cell in column if cell != ""]
    return bool(found) and all(found)


def _cell(name: str, cell: object, number: bool, more: str = "") -> str:
    text = f"{cell:g}" if isinstance(cell, (int, float)) else _text(cell if isinstance(cell, Markup) else str(cell))
    css = "number" if number else "long" if len(_TAG.sub("", text)) > _LONG else ""
    return f"<{name}{more}{f' class={css}' if css else ''}>{text}</{name}>"


def _text(part: str | Markup) -> str:
    return part.text if isinstance(part, Markup) else html.escape(part)
