# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a rehearsal."""

from __future__ import annotations

import typing as t

from ..module_utils._common.schema import plain
from ..plugin_utils import _rehearsal_page


def rehearsal_page(report: dict[str, t.Any]) -> str:
    """Return the page of a rehearsal, HTML."""
    return _rehearsal_page.page(plain(report))


def rehearsal_junit(report: dict[str, t.Any]) -> str:
    """Return a rehearsal as JUnit's XML."""
    return _rehearsal_page.junit(plain(report))


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rehearsal_page": rehearsal_page, "rehearsal_junit": rehearsal_junit}
