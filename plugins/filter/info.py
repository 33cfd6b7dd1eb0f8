# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook info read, collected from Ansible's variables, and shown as lines of text."""

from __future__ import annotations

import typing as t

from ..module_utils._common.text import LONGEST_LINE, shown_lines
from ..plugin_utils import _info
from .text_table import text_table


def info(clusters: list[dict[str, t.Any]], part: str) -> list[str]:
    """Return the table of one part, and below it what the table does not show, and everything that could not be read."""
    show, nothing = _info.PARTS[part]
    rows, notes = show(clusters)
    failures = [f"FAILED {failure}".replace("\n", "\n  ") for cluster in clusters for failure in cluster["failures"]]
    # What could not be read is not nothing.
    blocks = [text_table(rows) or ([] if failures else [nothing]), notes, failures]
    return [shown_lines(line, LONGEST_LINE) for block in blocks if block for line in ["", *block]][1:]


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"info": info, "info_reports": _info.reports}
