# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a page that a program writes, between two lines that the program knows."""

from __future__ import annotations

from pathlib import Path

END = "<!-- end -->\n"


def replaced(current: str, name: str, begin: str, content: str, page: Path) -> str:
    """Return the text of a page with one part written anew.

    :arg name: of the part, for people; ``begin``, the line before the part; ``END`` is the line after it.
    :arg content: the part, without the empty lines around it.
    :raises ValueError: where one of the two lines is missing.
    """
    head, found, rest = current.partition(begin)
    _former, end, tail = rest.partition(END)
    if not (found and end):
        raise ValueError(f"{page.name}: the lines around {name!r} are missing.")
    return "".join([head, begin, "\n", content, "\n", end, tail])
