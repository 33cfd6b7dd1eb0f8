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
import urllib.parse

# Characters from which a cell gets more room on a narrow screen.
_LONG = 40
_TAG = re.compile("<[^>]*>")

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --paper: #ffffff; --card: #f6f8fa; --line: #d0d7de; --first: #6e7781;
  --second: #0969da; --good: #1a7f37; --held: #8a5c00; --bad: #cf222e;
  --hue0: #0969da; --hue1: #8250df; --hue2: #bc4c00; --hue3: #1a7f37; --hue4: #bf3989; --hue5: #8a5c00; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9198a1; --paper: #0d1117; --card: #161b22; --line: #3d444d;
  --first: #9198a1; --second: #4493f8; --good: #3fb950; --held: #d29922; --bad: #f85149;
  --hue0: #4493f8; --hue1: #ab7df8; --hue2: #db6d28; --hue3: #3fb950; --hue4: #db61a2; --hue5: #d29922; } }
body { margin: 0 auto; max-width: 80rem; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 3rem; background: var(--paper); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0; max-width: 72rem; text-wrap: pretty; }
h2 { font-size: 1.15rem; line-height: 1.3; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
h4 { font-size: 1rem; margin: 1rem 0 .25rem; }
a { color: var(--second); }
h1, h2, h3, h4, p, li, dd { overflow-wrap: anywhere; } p, li { max-width: 60rem; } li li, .plain > li { max-width: none; }
.promote, .passed { color: var(--good); } .hold, .incomplete, .not_tried, .accepted { color: var(--held); }
.reject, .failed { color: var(--bad); }
.soft, caption { color: var(--soft); font-size: .9rem; } caption { text-align: left; }
.wide { overflow-x: auto; margin: 1rem 0; } table { border-collapse: collapse; min-width: min(100%, 45rem); }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; min-width: 4rem; text-align: left; vertical-align: top; }
.long { min-width: 16rem; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media (max-width: 40rem) { caption { max-width: calc(100vw - 2rem); } h1 { font-size: 1.4rem; } }
.time { white-space: nowrap; }
.plain { list-style: none; padding: 0; } .plain .plain { padding-left: 1rem; border-left: 1px solid var(--line); }
.plain > li { margin: .6rem 0; } .plain .bar { max-width: 40rem; }
.badge { display: inline-block; padding: 0 .55em; border: 1px solid; border-radius: 1em; font-size: .8rem; font-weight: 600; line-height: 1.5;
  white-space: nowrap; }
.badge::before { margin-right: .35em; } .badge.passed::before, .badge.promote::before { content: "✓"; content: "✓" / ""; }
.badge.failed::before, .badge.reject::before { content: "✕"; content: "✕" / ""; }
.badge.incomplete::before, .badge.hold::before { content: "◐"; content: "◐" / ""; }
header { margin-bottom: 1.25rem; } header p { margin: 0 0 .5rem; } header .badge { font-size: 1rem; margin-right: .5rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .75rem; margin: 1.5rem 0; }
.figures > div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem; }
.figures dt { color: var(--soft); font-size: .9rem; } .figures dd { margin: 0; font-size: .85rem; color: var(--soft); line-height: 1.35; }
.figures dd.value { color: var(--text); font-size: 1.75rem; font-weight: 650; line-height: 1.25; font-variant-numeric: tabular-nums; }
.figures .failed dd.value { color: var(--bad); } .figures .incomplete dd.value { color: var(--held); }
@media (max-width: 40rem) { .figures { grid-template-columns: 1fr 1fr; gap: .5rem; } .figures > div { padding: .5rem .7rem; } }
.sides { display: grid; gap: 0 2.5rem; } .sides h2 { margin-top: .5rem; } .sides h2 ~ h2 { margin-top: 1.75rem; }
.sides > * { min-width: 0; } .sides p { margin: .25rem 0 .5rem; }
@media (min-width: 64rem) { .sides { grid-template-columns: 2fr 3fr; } }
.points { list-style: none; padding: 0; margin: .5rem 0 1rem; } .points > li { padding: .45rem 0; border-bottom: 1px solid var(--line); }
.points > li { white-space: pre-line; } .points > li:last-child { border-bottom: 0; } .points .badge { margin-right: .4rem; }
details { border-top: 1px solid var(--line); } details:last-of-type { border-bottom: 1px solid var(--line); }
summary { padding: .6rem 0; cursor: pointer; overflow-wrap: anywhere; } summary > h3 { display: inline; margin: 0 .5rem 0 .15rem; }
summary:focus-visible, .wide:focus-visible { outline: 2px solid var(--second); outline-offset: 2px; }
details > :last-child { margin-bottom: 1.5rem; } footer { margin-top: 2.5rem; }
.nodes { list-style: none; padding: 0; margin: .5rem 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17.5rem), 1fr)); gap: .75rem; }
.nodes > li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .75rem .75rem; font-size: .9rem; }
.nodes strong { font-size: 1rem; } .nodes .soft { display: block; }
.boxes { list-style: none; padding: 0; margin: .4rem 0 0; display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: .4rem; }
.boxes > li { font-size: .8rem; line-height: 1.25; }
.boxes .bar { height: 1.4rem; margin: 0 0 .15rem; border-color: var(--first); border-radius: .2rem; }
.boxes > .free { color: var(--soft); } .boxes > .free .bar { border-style: dashed; background: none; }
.whose { list-style: none; padding: 0; margin: .75rem 0; font-size: .9rem; display: grid;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 17.5rem), 1fr)); gap: .2rem 1.5rem; }
.swatch { display: inline-block; width: 1.4rem; height: .8rem; margin-right: .5rem; border-radius: .15rem; }
.bar { display: block; position: relative; height: .6rem; margin-top: .2rem; overflow: hidden; border: 1px solid var(--line); }
.bar i { position: absolute; top: 0; bottom: 0; min-width: 3px; } .bar .bound { background: var(--line); }
.bar .share { background: var(--second); } .bar .mark { background: var(--text); width: 3px; }
.bar, .bar i, .swatch { print-color-adjust: exact; forced-color-adjust: none; }
.hue0 { background-color: var(--hue0); } .hue1 { background-color: var(--hue1); } .hue2 { background-color: var(--hue2); }
.hue3 { background-color: var(--hue3); } .hue4 { background-color: var(--hue4); } .hue5 { background-color: var(--hue5); }
.nobody { background-color: var(--bad); background-image: repeating-linear-gradient(45deg, var(--paper) 0 3px, transparent 3px 6px),
  repeating-linear-gradient(-45deg, var(--paper) 0 3px, transparent 3px 6px); }
.way1 { background-image: repeating-linear-gradient(45deg, transparent 0 5px, var(--paper) 5px 7px); }
.way2 { background-image: radial-gradient(var(--paper) 1.5px, transparent 2px); background-size: 7px 7px; }
.way3 { background-image: repeating-linear-gradient(90deg, transparent 0 5px, var(--paper) 5px 7px); }
.way4 { background-image: repeating-linear-gradient(0deg, transparent 0 4px, var(--paper) 4px 6px); }
@media print { .figures { grid-template-columns: repeat(3, 1fr); } body { max-width: none; padding: 0; font-size: 10pt; }
  h1 { font-size: 16pt; } .wide { overflow: visible; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; }
  summary { list-style: none; } h2, h3, h4, summary { break-after: avoid; } .nodes > li, .figures > div, tr { break-inside: avoid; } }
"""


@dataclasses.dataclass(frozen=True)
class Markup:
    """Text that is HTML already; any other text is escaped."""

    text: str


def document(title: str, parts: t.Iterable[Markup], style: str = "") -> str:
    """Return a whole page.

    :arg style: CSS beside that of all pages.
    """
    body = "\n".join(part.text for part in parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def element(name: str, *parts: str | Markup, css: str = "", label: str = "", role: str = "") -> Markup:
    """Return an element with these parts, texts or elements.

    :arg label: its name for readers who hear the page; an element that has none by itself needs a ``role`` for that.
    """
    given = {"class": css, "aria-label": label, "role": role}
    attributes = "".join(f' {key}="{html.escape(value)}"' for key, value in given.items() if value)
    return Markup(f"<{name}{attributes}>{''.join(map(_text, parts))}</{name}>")


def link(text: str, path: str) -> Markup:
    """Return a link to a file beside the page.

    :arg path: relative to the page.
    """
    return Markup(f'<a href="{html.escape(urllib.parse.quote(path))}">{html.escape(text)}</a>')


def listing(items: t.Iterable[str | Markup], css: str = "") -> Markup:
    """Return a list of sentences."""
    return element("ul", *(element("li", item) for item in items), css=css)


def verdict(result: str, sentence: str, about: str) -> Markup:
    """Return the head of a page: how it ended as a word with a sign, what that means, and what was looked at.

    :arg result: a word that is also its class, such as ``passed``.
    """
    badge = element("span", result.replace("_", " "), css=f"badge {result}")
    return element("header", element("p", badge, " ", about, css="soft"), element("h1", sentence))


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number that tells a reader much.

    :ivar about: what it is made of, in a few words or elements; ``css``, a result's class where it is to be seen at once.
    """

    name: str
    value: str
    about: str | Markup
    css: str = ""


def figures(shown: t.Iterable[Figure]) -> Markup:
    """Return figures side by side."""
    return element(
        "dl",
        *(
            element("div", element("dt", one.name), element("dd", one.value, css="value"), element("dd", one.about), css=one.css)
            for one in shown
        ),
        css="figures",
    )


def fold(title: str, about: str, parts: t.Iterable[Markup], is_open: bool = False) -> Markup:
    """Return a part of the details with a heading of the third level, which a reader opens; on paper it is open.

    :arg about: what is in it, in a few words.
    """
    head = element("summary", element("h3", title), element("span", about, css="soft"))
    return Markup(f"<details{' open' if is_open else ''}>{_text(head)}{''.join(map(_text, parts))}</details>")


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


def _is_numeric(column: t.Sequence[object]) -> bool:
    """Tell whether a column holds numbers, some of which may be missing."""
    found = [isinstance(cell, (int, float)) for cell in column if cell not in ("", "-")]
    return bool(found) and all(found)


def _cell(name: str, cell: object, number: bool, more: str = "") -> str:
    text = f"{cell:g}" if isinstance(cell, float) else _text(cell if isinstance(cell, Markup) else str(cell))
    css = "number" if number else "long" if len(_TAG.sub("", text)) > _LONG else ""
    return f"<{name}{more}{f' class={css}' if css else ''}>{text}</{name}>"


def _text(part: str | Markup) -> str:
    return part.text if isinstance(part, Markup) else html.escape(part)
