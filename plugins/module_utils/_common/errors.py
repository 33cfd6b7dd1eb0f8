# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The one exception of the collection's library code."""

from __future__ import annotations

import difflib
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

    @property
    def problems(self) -> list[str]:
        """Return everything that is wrong, each with its path."""
        return list(self.details.get("problems", [self.message]))


def refuse(problems: t.Iterable[str]) -> None:
    """Raise once for all problems, each named once; do nothing where there are none.

    :raises TenancyError: with the list ``problems``, and a message that names one a line.
    """
    if distinct := list(dict.fromkeys(problems)):
        raise TenancyError("\n".join(distinct), problems=distinct)


def did_you_mean(key: t.Any, known: t.Iterable[str]) -> str:
    """Return a question that names the closest known name, a space in front; empty where none is close."""
    close = difflib.get_close_matches(str(key), known, n=1)
    return f" Did you mean {close[0]}?" if close else ""


def check_all(*checks: t.Callable[[], object]) -> None:
    """Run every check and raise once for what all of them refuse, so that a user mends it in one go.

    :raises TenancyError: as ``refuse`` does.
    """
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except TenancyError as exc:
            problems += exc.problems
    refuse(problems)
