# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What adapters to programs of the host have in common."""

from __future__ import annotations

import typing as t


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
