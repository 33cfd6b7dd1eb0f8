# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A page as a list of steps: blocks of commands, each with the block of what it shows, if any."""

from __future__ import annotations

import dataclasses
import re

COMMANDS, SHOWN = "bash", "text"
_FENCE = re.compile(r"^```(.*)\n((?:(?!```).*\n)*)```\n", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Step:
    """A block of commands.

    :ivar line: of the page, in which the commands begin.
    :ivar shown: lines of what they print, an ellipsis for any text within a line.
    """

    line: int
    commands: str
    shown: tuple[str, ...] = ()

    def missing(self, said: str) -> list[str]:
        """Return the lines that are shown and do not stand in what the commands printed."""
        return [line for line in self.shown if not re.search(_pattern(line), said, re.MULTILINE)]


def steps(page: str) -> list[Step]:
    """Return the steps of a page, in its order.

    :raises ValueError: for a block that is neither commands nor right below some.
    """
    found: list[Step] = []
    end = 0
    for block in _FENCE.finditer(page):
        kind, body, line = block[1], block[2], page.count("\n", 0, block.start()) + 2
        if kind == COMMANDS:
            found.append(Step(line, body))
        elif kind == SHOWN and found and not found[-1].shown and not page[end : block.start()].strip():
            found[-1] = dataclasses.replace(found[-1], shown=tuple(body.splitlines()))
        else:
            raise ValueError(f"line {line}: a block is {COMMANDS}, or {SHOWN} right below such a one.")
        end = block.end()
    return found


def _pattern(line: str) -> str:
    """Return a regular expression for a whole line, in which blanks may be as many as they like."""
    parts = re.split(r"(\s*…\s*|\s+)", line.strip())
    given = "".join(".*" if "…" in part else r"[ \t]+" if part.isspace() else re.escape(part) for part in parts)
    return rf"^[ \t]*{given}[ \t]*$"
