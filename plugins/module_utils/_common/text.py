# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The one way by which texts that others wrote get into a terminal, a page, a report or an error: one line, printable, cut.

Others are tenants, API servers, logs and programs. What they write may hold line breaks, escape sequences of terminals, characters that
turn the direction of writing, or megabytes.
"""

from __future__ import annotations

import re
import typing as t
import unicodedata

# Characters of a foreign text that are shown at most, where a place does not say another number.
LONGEST = 400
# Of a line that may name many of them.
LONGEST_LINE = 4000

# Beyond U+FFFF stand pictures, for which Ansible shows a whole result as one quoted line: its YAML library takes them for not printable.
_LARGEST = "\uffff"
# Control, format, surrogate, private and unassigned characters, and the separators of lines and paragraphs.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
# Characters of other categories that Unicode lists as Default_Ignorable_Code_Point, and the blank pattern of Braille: nothing is to be seen.
_BLANK = frozenset(
    map(
        chr,
        (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, *range(0xFE00, 0xFE10), 0xFFA0),
    )
)
# Sequences by which terminals clear a screen, move and colour; without them their letters would stay.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def shown(text: t.Any, most: int = LONGEST) -> str:
    """Return a foreign text as one printable line of at most so many characters, which ends in ``…`` where it was cut.

    :arg text: of any type; None is empty.
    """
    # Four times as much as is shown: what is cut out may be most of the beginning, and a text may be of any length.
    given = str("" if text is None else text)[: 4 * most + 100]
    return _cut(" ".join(printable(_ESCAPES.sub(" ", given)).split()), most)


def shown_lines(text: t.Any, most: int = LONGEST, lines: int = 200) -> str:
    """Return a text of several lines, each printable and cut, spaces kept, and at most so many of them."""
    found = str("" if text is None else text)[: 2**24].split("\n")
    kept = [_cut(printable(_ESCAPES.sub(" ", line[: 4 * most + 100])).rstrip(), most) for line in found[:lines]]
    more = [f"… and {len(found) - lines} more lines"] if len(found) > lines else []
    return "\n".join([*kept, *more])


def legible(data: t.Any, lines: bool = True) -> t.Any:
    """Return plain data with each text in it as ``shown_lines`` has it, for reports, in which texts of others stand anywhere.

    :arg lines: whether a text may have several lines; else each is as ``shown`` has it.
    """
    if isinstance(data, str):
        plain = len(data) <= (LONGEST_LINE if lines else LONGEST) and data.isascii() and data.isprintable()
        return data if plain else shown_lines(data, LONGEST_LINE) if lines else shown(data)
    if isinstance(data, dict):
        return {legible(key, lines): legible(value, lines) for key, value in data.items()}
    return [legible(item, lines) for item in data] if isinstance(data, (list, tuple)) else data


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 1]}…"


def line(text: object) -> str:
    """Return what others wrote as one printable line, without the full stop at its end."""
    return shown(text or "").rstrip(" .")


def pairs(values: t.Mapping[str, t.Any]) -> str:
    """Return labels as people write them, such as ``app=web, tier=2``."""
    return ", ".join(f"{key}={value}" for key, value in values.items())


def bracketed(host: str) -> str:
    """Return a name or address of a host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def printable(text: str) -> str:
    """Return a text with a space for each run of characters that are not printed as one."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if _is_unseen(char) else char for char in text)


def _is_unseen(char: str) -> bool:
    return char > _LARGEST or char in _BLANK or unicodedata.category(char) in _HIDDEN
