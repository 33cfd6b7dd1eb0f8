# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Where the lab's parts are made: scratch folders, files that count only once they are whole, and programs that show signs of life."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import time
import typing as t
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import CommandFailed, TenancyError

HEARTBEAT = 30.0
# mmdebstrap and the Go client resume nothing half-made, but a step never takes longer than this on two cores.
STEP_TIMEOUT = 3600.0


class Workshop:
    """Makes files in a cache.

    :arg say: prints one line of progress; ``doing`` is its verb.
    :ivar step: what is made now, for messages.
    """

    def __init__(self, cache: Path, say: t.Callable[[str], None], doing: str) -> None:
        self.cache = cache
        self.say = say
        self.doing = doing
        self.step = ""
        self._tmp = cache / "tmp" / "build"

    def clear(self) -> None:
        """Remove all scratch folders, those of a killed build, too."""
        shutil.rmtree(self._tmp, ignore_errors=True)

    @contextlib.contextmanager
    def scratch(self, name: str) -> t.Iterator[Path]:
        """An empty folder that goes with the block."""
        path = self._tmp / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextlib.contextmanager
    def atomic(self, target: Path) -> t.Iterator[Path]:
        """A path to make something at; it becomes ``target`` only when all went well."""
        with self.scratch("new") as scratch:
            target.parent.mkdir(parents=True, exist_ok=True)
            made = scratch / target.name
            yield made
            os.replace(made, target)

    def run(self, command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
        """Run to the end with a sign of life every HEARTBEAT seconds; its standard output."""
        if not shutil.which(command[0]):
            raise TenancyError(f"{self.step} needs the program {command[0]}, which is not installed.")
        log_path = self._tmp / f"log-{os.getpid()}"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        try:
            with open(log_path, "w+b") as log, open(f"{log_path}.out", "w+b") as out:
                with running(command, log, out, cwd, env) as process:
                    while True:
                        try:
                            code = process.wait(HEARTBEAT)
                            break
                        except subprocess.TimeoutExpired:
                            waited = time.monotonic() - start
                            if waited > STEP_TIMEOUT:
                                raise TenancyError(f"{self.step}: {command[0]} was stopped after {clock(waited)}.") from None
                            self.say(f"still {self.doing} {self.step}: {clock(waited)}")
                out.seek(0)
                if code == 0:
                    return out.read().decode(errors="replace")
                log.seek(0)
                output = (log.read()[-3000:] + out.read()[-500:]).decode(errors="replace").strip()
        finally:
            log_path.unlink(missing_ok=True)
            Path(f"{log_path}.out").unlink(missing_ok=True)
        raise CommandFailed(
            f"{self.step}: {' '.join(command[:3])} ended with code {code}.{self.disk_hint(output)} Its last output: {output}",
            rc=code,
        )

    def disk_hint(self, output: str) -> str:
        """A sentence about the cache's disk where that is full; empty otherwise."""
        free = shutil.disk_usage(self.cache).free // 2**20
        if "no space left" not in output.lower() and free > 100:
            return ""
        return f" The disk of {self.cache} is full, {free} MiB are left. What was built stays, the next run goes on from there."


@contextlib.contextmanager
def running(
    command: list[str],
    log: t.IO[bytes],
    out: t.IO[bytes] | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> t.Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, which ends with this block, or with this process should that be killed."""
    with subprocess.Popen(
        ["setpriv", "--pdeathsig=TERM", "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=out or log,
        stderr=log,
        cwd=cwd,
        env=env,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(20)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(math.floor(seconds), 60)
    return f"{minutes}:{rest:02d}"
