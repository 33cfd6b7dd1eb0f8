# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Versions as people write them, compared by their numbers."""

from __future__ import annotations

import re

from .quantity import whole


def number(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, a leading v aside; empty where it begins with none."""
    found = re.match(r"v?(\d{1,9}(?:\.\d{1,9}){0,9})(?!\d)", version, re.ASCII)
    return tuple(whole(part) for part in found[1].split(".")) if found else ()


def within(version: str, first: str, last: str) -> bool:
    """Tell whether a version is one of a range.

    :arg first: and ``last`` are both in it, and 1.36 as the last one includes 1.36.4; empty for no bound.
    """
    found, end = number(version), number(last)
    return number(first) <= found and (not end or found[: len(end)] <= end)


def shown(first: str, last: str) -> str:
    """Return a range as text."""
    return f"{first} to {last}" if first and last else f"{first} or later" if first else f"{last} or earlier"
