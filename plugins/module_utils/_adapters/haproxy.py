# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to HAProxy, and to the host's ports that it binds."""

from __future__ import annotations

import errno
import os
import re
import socket
import tempfile

from .._common.errors import CommandFailed
from .._common.text import shown
from .programs import Programs, last_lines

# Seconds for calls that change nothing.
QUESTION = 30
_USER = re.compile(r'\("([^"]*)",pid=([0-9]{1,10}),')
_UNIT = re.compile(r"([^/\n]+\.service)$", re.MULTILINE)


class HAProxy(Programs):
    """Questions to HAProxy, and to the network."""

    def program(self) -> str | None:
        """Return the path of the program; None where the host has it not."""
        return self._find("haproxy")

    def validate(self, text: str) -> None:
        """Have HAProxy check a configuration before it becomes the real one; without HAProxy, nothing is checked.

        :raises CommandFailed: where it refuses that.
        """
        program = self.program()
        if program is None:
            return
        with tempfile.NamedTemporaryFile("w", suffix=".cfg") as stream:
            stream.write(text)
            stream.flush()
            rc, out, err = self._run(["timeout", "--kill-after=10", str(QUESTION), program, "-c", "-f", stream.name])
            said = (last_lines(err).strip() or last_lines(out).strip()).replace(stream.name, "haproxy.cfg")
        if rc != 0:
            raise CommandFailed(f"haproxy refuses its configuration, so that the former one stays: {said}", rc=rc)

    def unbindable(self, address: str, port: int) -> str:
        """Return why an address and port cannot be bound; empty where they can be."""
        with _socket(address) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((address, port))
            except OSError as exc:
                if exc.errno == errno.EADDRNOTAVAIL:
                    return "this host has no such address"
                return self._holder(port) if exc.errno == errno.EADDRINUSE else str(exc.strerror)
        return ""

    def _holder(self, port: int) -> str:
        """Return which program listens on a port, as far as that can be told."""
        ss = self._find("ss")
        args = ["--no-header", "--listening", "--tcp", "--numeric", "--processes", f"sport = :{port}"]
        out = self._run([ss, *args])[1] if ss else ""
        found = _USER.search(out)
        if not found:
            return "another program listens there"
        unit = _unit_of(found[2])
        return f"{shown(found[1], 100)} listens there (process {found[2]}{f' of {unit}' if unit else ''})"

    def answers(self, address: str, port: int) -> bool:
        """Tell whether a port takes connections."""
        with _socket(address) as tried:
            tried.settimeout(2)
            return tried.connect_ex((address, port)) == 0


def _socket(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)


def _unit_of(process: str) -> str:
    """Return the unit of systemd that a process belongs to; empty where that is not known."""
    try:
        with open(os.path.join("/proc", process, "cgroup"), encoding="utf-8") as stream:
            found = _UNIT.search(stream.read())
    except OSError:
        return ""
    return shown(found[1], 100) if found else ""
