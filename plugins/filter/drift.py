# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How reality differs from the desired state, collected from Ansible's variables, and shown as lines of text."""

from __future__ import annotations

import typing as t

from ..plugin_utils import _drift


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"drift": _drift.drift, "drift_lines": _drift.lines}
