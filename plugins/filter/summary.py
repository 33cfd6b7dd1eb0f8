# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run found out and did, collected from Ansible's variables, and shown as lines of text."""

from __future__ import annotations

import typing as t

from ..module_utils._common.text import LONGEST_LINE, shown_lines
from ..plugin_utils import _reports, _summary
from .text_table import text_table

# Columns of a table that a terminal of 120 shows, beside what Ansible puts before each line.
_WIDTH = 112


def summary(clusters: list[dict[str, t.Any]], steps: bool = False, wide: bool = False) -> list[str]:
    """Return what needs a person, a table of all tenants, who has which GPUs, what else there is to know, and how to run a first job.

    :arg steps: whether each step is told; ``wide``, whether all columns are shown, however wide the table is.
    """
    needs, table, notes = _summary.needs(clusters), _table(clusters, wide), _summary.notes(clusters, steps)
    blocks = [
        needs,
        table or ([] if needs or notes else ["No tenants are listed."]),
        _summary.picture(clusters),
        notes,
        [] if wide else _summary.kubeconfigs(clusters),
        _summary.first_job(clusters),
    ]
    return [shown_lines(line, LONGEST_LINE) for block in blocks if block for line in ["", *block]][1:]


def _table(clusters: list[dict[str, t.Any]], wide: bool) -> list[str]:
    """Return the table of all tenants, as much of it as fits."""
    rows = _summary.rows(clusters, wide)
    tables = [text_table(rows)] if wide else map(text_table, _summary.narrower(rows))
    found: list[str] = []
    for found in tables:
        if all(len(line) <= _WIDTH for line in found):
            break
    return found


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"reports": _reports.reports, "summary": summary}
