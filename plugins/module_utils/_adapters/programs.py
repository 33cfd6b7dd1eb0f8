# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What adapters to programs of the host have in common."""

from __future__ import annotations

import os
import subprocess
import typing as t

from .._common.errors import TenancyError
from .._common.text import shown_lines

# The exit status of timeout(1) when it had to end its program, and when that was killed, by it or by another process.
CUT_SHORT = (124, 137, -9)

# Of what a program says of its failure: lines, the last ones, and characters of a line. What others wrote may be in it, such as the message
# of a tenant's webhook.
MOST_LINES = 200
LONGEST_LINE = 2000


class Runner(t.Protocol):
    """What runs a program of the host, as ``run_program`` does."""

    def __call__(
        self, args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None
    ) -> tuple[int, str, str]: ...


class Programs:
    """An adapter to programs of the host.

    :arg run: ``run_program``, or a double of it.
    :arg find: returns the path of a program, or None.
    """

    def __init__(self, run: Runner, find: t.Callable[[str], str | None]) -> None:
        self._run = run
        self._find = find


def run_program(
    args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Run a program to its end, and return its exit status, output and error output.

    Not by ``AnsibleModule.run_command``: where a program is silent for a second, and writes and ends before that looks again, it returns nothing
    of what was written (lib/ansible/module_utils/basic.py of ansible-core 2.19). A busy host is slow enough for that.

    :arg data: what the program reads from its standard input; nothing by default.
    :arg environ_update: variables of its environment, beside the module's own.
    :raises TenancyError: where it cannot be started.
    """
    try:
        done = subprocess.run(
            args, input=(data or "").encode(), capture_output=True, env=os.environ | (environ_update or {}), check=False
        )
    except OSError as exc:
        raise TenancyError(f"{args[0]} cannot be started: {exc.strerror or exc}.") from exc
    out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
    return done.returncode, out, err


def last_lines(text: str) -> str:
    """Return the end of what a program printed, where its error stands, as lines that can be shown."""
    end = text[-MOST_LINES * LONGEST_LINE :].split("\n")[-MOST_LINES:]
    return shown_lines("\n".join(end), LONGEST_LINE, MOST_LINES)
