# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What adapters to programs of the host have in common."""

from __future__ import annotations

import typing as t

from .._common.text import shown_lines

# The exit status of timeout(1) when it had to end its program, and when that was killed, by it or by another process.
CUT_SHORT = (124, 137, -9)

# Of what a program says of its failure: lines, the last ones, and characters of a line. What others wrote may be in it, such as the message
# of a tenant's webhook.
MOST_LINES = 200
LONGEST_LINE = 2000


class Runner(t.Protocol):
    """AnsibleModule.run_command, as far as adapters use it."""

    def __call__(
        self, args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None
    ) -> tuple[int, str, str]: ...


class Programs:
    """An adapter to programs of the host.

    :arg run: AnsibleModule.run_command.
    :arg find: returns the path of a program, or None.
    """

    def __init__(self, run: Runner, find: t.Callable[[str], str | None]) -> None:
        self._run = run
        self._find = find


def last_lines(text: str) -> str:
    """Return the end of what a program printed, where its error stands, as lines that can be shown."""
    end = text[-MOST_LINES * LONGEST_LINE :].split("\n")[-MOST_LINES:]
    return shown_lines("\n".join(end), LONGEST_LINE, MOST_LINES)
