# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Where the lab's parts are made: scratch folders, files that count only once they are whole, and programs that show signs of life."""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import os
import shutil
import signal
import subprocess
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import CommandFailed, TenancyError

HEARTBEAT, POLL = 30.0, 1.0
# Seconds for a program to end when it is asked to.
END = 20.0
# mmdebstrap and the Go client resume nothing half-made, but a step never takes longer than this on two cores.
STEP_TIMEOUT = 3600.0

# What is made, for messages, and what makes it.
Step = tuple[str, t.Callable[[], None]]


class Workshop:
    """Makes files in a cache. Several threads may work in it, each on a step of its own.

    :arg say: prints one line of progress; ``doing`` is its verb.
    """

    def __init__(self, cache: Path, say: t.Callable[[str], None], doing: str) -> None:
        self.cache = cache
        self.say = say
        self.doing = doing
        self._tmp = cache / "tmp" / "build"
        self._of_thread = threading.local()
        self._stopped = threading.Event()
        self._started = time.monotonic()

    @property
    def step(self) -> str:
        """What this thread makes now, for messages."""
        return getattr(self._of_thread, "step", "")

    @step.setter
    def step(self, step: str) -> None:
        self._of_thread.step = step

    @property
    def _own(self) -> Path:
        """The folder of this thread."""
        return self._tmp / str(threading.get_ident())

    def side_by_side(self, *lanes: list[Step]) -> None:
        """Make the steps of several lanes, each one after another. The first failure stops the others."""
        self._stopped.clear()
        with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
            try:
                for lane in concurrent.futures.as_completed([pool.submit(self.make, steps) for steps in lanes]):
                    lane.result()
            except BaseException:
                self._stopped.set()
                raise

    def make(self, steps: list[Step]) -> None:
        """Make some steps, one after another."""
        for step, make in steps:
            if self._stopped.is_set():
                return
            self.step = step
            self.say(f"{self.doing} {step} ({clock(time.monotonic() - self._started)} so far)")
            try:
                make()
            except OSError as exc:
                raise TenancyError(f"{step}: {exc}.{self.disk_hint(str(exc))}") from exc

    def clear(self) -> None:
        """Remove all scratch folders, those of a killed build, too."""
        shutil.rmtree(self._tmp, ignore_errors=True)

    @contextlib.contextmanager
    def scratch(self, name: str) -> t.Iterator[Path]:
        """An empty folder that goes with the block."""
        path = self._own / name
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
        log_path = self._own / "log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(log_path, "w+b") as log, open(f"{log_path}.out", "w+b") as out:
                with running(command, log, out, cwd, env) as process:
                    code = self._ended(process, command[0])
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

    def _ended(self, process: subprocess.Popen[bytes], name: str) -> int:
        """Return the exit status of a program, once it has ended."""
        start, told = time.monotonic(), 0.0
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(POLL)
            waited = time.monotonic() - start
            if self._stopped.is_set() or waited > STEP_TIMEOUT:
                raise TenancyError(f"{self.step}: {name} was stopped after {clock(waited)}.")
            if waited >= told + HEARTBEAT:
                told = waited
                self.say(f"still {self.doing} {self.step}: {clock(waited)}")

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
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(END)
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(math.floor(seconds), 60)
    return f"{minutes}:{rest:02d}"
