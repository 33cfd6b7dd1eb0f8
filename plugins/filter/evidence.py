# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a run: as data, as a page, and as JUnit."""

from __future__ import annotations

import typing as t

from ..plugin_utils import _evidence, _evidence_junit, _evidence_page


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "evidence": _evidence.evidence,
            "evidence_page": _evidence_page.page,
            "evidence_junit": _evidence_junit.junit,
        }
