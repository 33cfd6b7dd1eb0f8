# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run found out and did, collected from Ansible's variables, and shown as lines of text."""

from __future__ import annotations

import typing as t

from ..module_utils._common.text import LONGEST_LINE, shown_lines
from ..plugin_utils import _reports, _summary
from .text_table import text_table


def summary(clusters: list[dict[str, t.Any]]) -> list[str]:
    """Return a table of all tenants and, below it, who has which GPUs, what else there is to know, and how to run a first job."""
    table, notes = text_table(_summary.rows(clusters)), _summary.notes(clusters)
    blocks = [
        table or ([] if notes else ["No tenants are listed."]),
        _summary.picture(clusters),
        notes,
        _summary.first_job(clusters),
    ]
    return [shown_lines(line, LONGEST_LINE) for block in blocks if block for line in ["", *block]][1:]


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"reports": _reports.reports, "summary": summary}
