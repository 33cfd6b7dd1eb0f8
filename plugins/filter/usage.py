# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of the playbook usage: as data, as CSV, as a page, and as lines of text."""

from __future__ import annotations

import typing as t

from ..module_utils._common.text import LONGEST_LINE, shown_lines
from ..plugin_utils import _usage, _usage_page
from .text_table import text_table


def usage_lines(report: dict[str, t.Any]) -> list[str]:
    """Return the table of a report, and below it what the table does not show."""
    blocks = [text_table(_usage.rows_of(report)), _usage.remarks(report)]
    return [shown_lines(line, LONGEST_LINE) for block in blocks if block for line in ["", *block]][1:]


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "usage": _usage.report,
            "usage_csv": _usage.table,
            "usage_page": _usage_page.page,
            "usage_lines": usage_lines,
        }
