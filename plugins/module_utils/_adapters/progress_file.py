# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The file in which a module keeps what it does while it works. The controller shows that, and leaves a sign that it is still there."""

from __future__ import annotations

import json
import os
import threading
import time
import typing as t

from .._common.errors import TenancyError

# The controller touches a file with this ending at each look. After so many seconds without one, the controller has gone.
LOOKED = ".looked"
GONE = 120.0


class ProgressFile:
    """What is done for each of several tenants. Threads may share it.

    :arg path: of the file; empty for none. One that cannot be written is nobody's failure.
    :arg clock: returns seconds of Unix time.
    """

    def __init__(self, path: str, clock: t.Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._doing: dict[str, dict[str, t.Any]] = {}

    def doing(self, tenant: str, what: str, seen: str = "") -> None:
        """Note what is done for a tenant, from now on if it is something else than before, and what is waited for."""
        with self._lock:
            before = self._doing.get(tenant, {})
            since = before["since"] if before.get("what") == what else self._clock()
            now = {"what": what, "since": since, "seen": seen}
            if now != before:
                self._doing[tenant] = now
                self._write()

    def done(self, tenant: str) -> None:
        """Note that nothing more is done for a tenant."""
        with self._lock:
            if self._doing.pop(tenant, None):
                self._write()

    def check(self) -> None:
        """Refuse to go on for a controller that has gone, such as one that was killed: the next run may want something else.

        :raises TenancyError: where it looked before, and does not any more.
        """
        try:
            looked = os.stat(f"{self._path}{LOOKED}").st_mtime
        except OSError:
            return
        if self._clock() - looked > GONE:
            raise TenancyError(f"The controller has not looked for {GONE:.0f} s: the run that this is for has ended.")

    def _write(self) -> None:
        if not self._path:
            return
        partial = f"{self._path}.new"
        try:
            with open(partial, "w", encoding="utf-8") as file:
                # The line break separates it from the host's time, which the controller reads in the same command.
                file.write(f"{json.dumps(self._doing)}\n")
            os.replace(partial, self._path)
        except OSError:
            self._path = ""
