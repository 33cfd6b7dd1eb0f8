# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has to do for the tenants of a cluster."""

from __future__ import annotations

import typing as t

from ..plugin_utils._work import preview, work


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"tenants_work": work, "tenants_preview": preview}
