# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to ansible-playbook: a run of a playbook within a run of another one, on the controller."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import typing as t

from .._common.errors import Superseded, TenancyError

# Seconds between two looks at whether a run is over and its caller still there, and for which one that is ended may take.
_EVERY, _GRACE = 1.0, 30.0


class Playbooks:
    """Runs playbooks for the process that it is made in, as long as the process that started that one is there.

    Ansible runs actions in processes of their own, which go on if Ansible itself is killed.

    :arg lock: a file that each run holds as well. It stays held while a run goes on without its caller.
    """

    def __init__(self, lock: t.IO[bytes] | None = None) -> None:
        self._lock = lock
        self._caller = os.getppid()

    def run(self, options: t.Sequence[str], vault: t.Mapping[str, bytes], log: str) -> int:
        """Run a playbook to its end, and return its exit status.

        :arg options: of ``ansible-playbook``, its playbook among them.
        :arg vault: passwords of vault by their ids; they go through pipes, and reach no disk.
        :arg log: path of the file that its output is added to; only its owner may read it.
        :raises TenancyError: where it cannot be started, and Superseded where the caller was killed meanwhile.
        """
        with contextlib.ExitStack() as stack:
            pipes = {name: _pipe(password, stack) for name, password in vault.items()}
            named = [f"--vault-id={name}@/dev/fd/{descriptor}" for name, descriptor in pipes.items()]
            try:
                output = stack.enter_context(open(log, "ab", opener=_private))
                process = subprocess.Popen(
                    [sys.executable, "-m", "ansible", "playbook", *options, *named],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=[*pipes.values(), *([self._lock.fileno()] if self._lock else [])],
                )
            except OSError as exc:
                raise TenancyError(f"ansible-playbook cannot be started: {exc}") from exc
            return self._awaited(process)

    def sleep(self, seconds: float) -> None:
        """Wait.

        :raises Superseded: where the caller was killed meanwhile.
        """
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            self._check_caller()
            time.sleep(min(rest, _EVERY))

    def _awaited(self, process: subprocess.Popen[bytes]) -> int:
        """Return the exit status of a process once it is over; end it where no caller would read that."""
        try:
            while True:
                self._check_caller()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(_EVERY)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE)
                process.kill()

    def _check_caller(self) -> None:
        if os.getppid() != self._caller:
            raise Superseded("The run that began this one was killed.")


def _pipe(password: bytes, stack: contextlib.ExitStack) -> int:
    """Return the end of a pipe from which a password is read, which is shorter than what a pipe holds."""
    reading, writing = os.pipe()
    stack.callback(os.close, reading)
    with os.fdopen(writing, "wb") as file:
        file.write(password)
    return reading


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
