# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of manifests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def templates(part: Any) -> Iterator[dict[str, Any]]:
    """Return the templates of pods in an object, wherever they stand in it."""
    if isinstance(part, dict):
        if "containers" in (part.get("spec") or {}):
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for value in part:
            yield from templates(value)
