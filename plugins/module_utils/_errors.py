# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The one exception of the collection's library code."""

from __future__ import annotations

import typing as t


class TenancyError(Exception):
    """Something the user can act on: what is wrong, where, and what to do.

    :arg message: one sentence for the user.
    :arg details: plain data a module adds to its failure (what was seen last, a program's output).
    """

    def __init__(self, message: str, **details: t.Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
