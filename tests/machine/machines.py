# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian in QEMU, root of which has all capabilities. Without /dev/kvm it is emulated, about five times slower."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ansible_collections.kubegpu.tenancy.tests.faults.labs import free_ports

FUNCTIONS = Path(__file__).parent / "debian.sh"
# Where the machine finds the loopback of the one around it, by QEMU's own network; and its own address there.
AROUND, ADDRESS = "10.0.2.2", "10.0.2.15"
PROXY = 8888


class Machine:
    """A machine, made in two steps: its files, to which others can be added, and its start. As a context, it ends.

    :ivar root: its files, until it starts.
    :ivar proxy: address here of its HTTP proxy, by which its own addresses are reached.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        self._ssh, proxy = free_ports(2)
        self._forwards = (f"{self._ssh}:22", f"{proxy}:{PROXY}")
        self.proxy = f"http://127.0.0.1:{proxy}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)
        (self.folder / "disk").unlink(missing_ok=True)

    def unpack(self, packages: Sequence[str]) -> None:
        """Make the files of a Debian with a kernel."""
        self._call("unpack", "trixie", *packages)

    def write(self, path: str, text: str) -> None:
        """Add a file, before it starts."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def start(self, disk: str, memory: str) -> None:
        """Start it, and wait until it answers."""
        self._call("boot", disk, memory, *self._forwards)
        self._call("await", str(self._ssh))

    def run(self, script: str, timeout: float = 600, given: str = "") -> str:
        """Run a script as root in it, which has to succeed.

        :arg given: to its standard input.
        """
        return self._call("inside", str(self._ssh), script, timeout=timeout, given=given)

    def _call(self, function: str, *args: str, timeout: float = 900, given: str = "") -> str:
        """Call a function of the file that the scripts beside this one source."""
        script = f'set -euo pipefail; . "{FUNCTIONS}"; "$@"'
        command = ["bash", "-c", script, "-", function, str(self.folder), *args]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, f"{function} {args}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout
