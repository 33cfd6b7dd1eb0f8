# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a rehearsal."""

from __future__ import annotations

import typing as t

from ..module_utils._common.schema import plain
from ..plugin_utils import _rehearsal_evidence


def rehearsal_evidence(result: dict[str, t.Any]) -> dict[str, str]:
    """Return the files of a rehearsal's evidence by name; none of a result without a verdict."""
    return _rehearsal_evidence.files(plain(result)) if "result" in result else {}


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rehearsal_evidence": rehearsal_evidence}
