# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of data as lines of aligned text."""

from __future__ import annotations

import typing as t

from ..module_utils._common.text import shown


def text_table(rows: list[dict[str, t.Any]]) -> list[str]:
    """Return a heading of the first row's keys, a rule, then one line a row.

    :arg rows: all with the same keys. A column of whole numbers stands to the right; cells of it may be empty text. A list is shown with
        commas, true as yes; false and nothing as an empty cell.
    """
    if not rows:
        return []
    heads = list(rows[0])
    cells = [[_cell(row[head]) for head in heads] for row in rows]
    widths = [max(len(row[i]) for row in [heads, *cells]) for i in range(len(heads))]
    right = [_is_numeric([row[head] for row in rows]) for head in heads]

    def line(row: list[str]) -> str:
        return "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()

    return [line(heads), "  ".join("-" * width for width in widths), *(line(row) for row in cells)]


def _cell(value: t.Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    # What is below something else is indented.
    return f"{' ' * min(len(text) - len(text.lstrip(' ')), 40)}{shown(text)}"


def _is_numeric(column: list[t.Any]) -> bool:
    numbers = [isinstance(cell, int) and not isinstance(cell, bool) for cell in column]
    return any(numbers) and all(number or cell == "" for number, cell in zip(numbers, column, strict=True))


class FilterModule:
    """The collection's filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"text_table": text_table}
