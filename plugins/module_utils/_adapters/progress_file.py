# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The file in which a module keeps what it does while it works. The controller shows that, and leaves a sign that it is still there."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import typing as t

from .._common.errors import Superseded
from .._common.text import shown
from .._common.wait import LISTENER

# The controller touches a file with this ending at each look. After so many seconds without one, the controller has gone.
LOOKED = ".looked"
GONE = 120.0


class ProgressFile:
    """What is done for each of several tenants, or other subjects of the work. Threads may share it.

    :arg path: of the file; empty for none. A file that cannot be written is not an error.
    :arg clock: returns seconds of Unix time.
    """

    def __init__(self, path: str, clock: t.Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._doing: dict[str, dict[str, t.Any]] = {}

    @contextlib.contextmanager
    def during(self, subject: str, what: str, *checks: t.Callable[[], object]) -> t.Iterator[None]:
        """Note what is done while a block runs, and what it waits for. It goes no further for a controller that has gone.

        :arg checks: are called at the beginning and at each look of a wait, and raise where the block is to go no further either.
        :raises Superseded: see ``check``.
        """

        def listen(awaited: str, seen: str) -> None:
            self.doing(subject, what, f"waiting for {shown(awaited)}: {shown(seen)}")
            for check in (self.check, *checks):
                check()

        self.doing(subject, what)
        for check in (self.check, *checks):
            check()
        token = LISTENER.set(listen)
        try:
            yield
        finally:
            LISTENER.reset(token)

    def doing(self, subject: str, what: str, seen: str = "") -> None:
        """Note what is done for a subject, from now on if it is something else than before, and what is waited for."""
        with self._lock:
            before = self._doing.get(subject, {})
            since = before["since"] if before.get("what") == what else self._clock()
            now = {"what": what, "since": since, "seen": seen}
            if now != before:
                self._doing[subject] = now
                self._write()

    def done(self, subject: str) -> None:
        """Note that nothing more is done for a subject."""
        with self._lock:
            if self._doing.pop(subject, None):
                self._write()

    def check(self) -> None:
        """Refuse to go on for a controller that has gone, such as one that was killed: the next run may want something else.

        :raises Superseded: where it looked before, and does not any more.
        """
        try:
            looked = os.stat(f"{self._path}{LOOKED}").st_mtime
        except OSError:
            return
        if self._clock() - looked > GONE:
            raise Superseded(f"The controller has not looked for {GONE:.0f} s: the run that this is for has ended.")

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
