# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failed task as one line, for the report of a run."""

from __future__ import annotations

import typing as t


def failure_text(result: dict[str, t.Any], task: dict[str, t.Any]) -> str:
    """Return the task's name, its message, and the last line that its program wrote to its standard error."""
    parts = [task.get("name") or "a task", result.get("msg", "see the output above"), *(result.get("stderr_lines") or [])[-1:]]
    return ": ".join(map(str, parts))


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"failure_text": failure_text}
