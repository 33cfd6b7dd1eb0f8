# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to Docker's service: the only file that asks systemd and dockerd."""

from __future__ import annotations

import os
import tempfile
import typing as t

from .._common.documents import Unreadable, parse_json
from .._common.errors import TenancyError
from .programs import Runner, last_lines

# dockerd is where only root's PATH leads.
PATH = "/usr/local/sbin:/usr/sbin:/sbin"
# Seconds for calls that change nothing.
QUESTION = 30
# What timeout(1) exits with when there is no such program.
NOT_FOUND = 127


class Engine:
    """Verbs over the host's Docker itself, as a service of systemd.

    :arg run: as of Programs.
    """

    def __init__(self, run: Runner) -> None:
        self._run = run

    def _call(self, args: list[str], timeout: float = QUESTION) -> tuple[int, str, str]:
        path = f"{os.environ.get('PATH', os.defpath)}:{PATH}"
        return self._run(["timeout", "--kill-after=10", str(round(timeout)), *args], environ_update={"PATH": path, "LC_ALL": "C"})

    def info(self) -> dict[str, t.Any] | None:
        """Return what ``docker info`` prints; None when Docker does not answer."""
        rc, out, _err = self._call(["docker", "info", "--format", "{{json .}}"])
        try:
            info = parse_json(out) if rc == 0 else None
        except Unreadable:
            info = None
        # Without the server some releases report the client only, and succeed.
        return info if isinstance(info, dict) and "Runtimes" in info and not info.get("ServerErrors") else None

    def client(self) -> str:
        """Return what the program docker says that it is, such as ``Docker version 28.1.0``; empty where it says nothing."""
        _rc, out, _err = self._call(["docker", "--version"])
        return last_lines(out).strip()

    def address(self) -> str:
        """Return which Docker the environment has that program ask; empty for its own choice."""
        return os.environ.get("DOCKER_HOST", "")

    def containers(self) -> list[str]:
        """Return the names of the containers that run."""
        rc, out, err = self._call(["docker", "ps", "--format", "{{.Names}}"])
        if rc != 0:
            raise TenancyError(f"docker ps failed: {last_lines(err).strip()}")
        return sorted(out.split())

    def validate(self, content: bytes, name: str) -> None:
        """Have dockerd check a configuration before it becomes the real one, if its release can.

        :arg name: of the file, in messages.
        :raises TenancyError: when dockerd refuses it.
        """
        with tempfile.NamedTemporaryFile(suffix=".json") as stream:
            stream.write(content)
            stream.flush()
            rc, out, err = self._call(["dockerd", "--validate", "--config-file", stream.name])
            message = (last_lines(err).strip() or last_lines(out).strip()).replace(stream.name, name)
        # Docker has this since 23.0.
        if rc not in (0, NOT_FOUND) and "unknown flag: --validate" not in message:
            raise TenancyError(f"dockerd refuses what {name} would become, so it is left as it is: {message}")

    def failed(self) -> bool:
        """Tell whether the service ended by itself; a service that was stopped did not."""
        _rc, out, _err = self._call(["systemctl", "is-active", "docker"])
        return out.strip() in ("failed", "activating")

    def reload(self, timeout: float) -> None:
        """Have Docker read its file again, within ``timeout`` seconds."""
        self._service("reload", timeout)

    def restart(self, timeout: float) -> None:
        """Restart Docker, or start it, within ``timeout`` seconds."""
        # A few starts in a short time, and systemd refuses the next.
        self._call(["systemctl", "reset-failed", "docker.service", "docker.socket"])
        self._service("restart", timeout)

    def _service(self, verb: str, timeout: float) -> None:
        rc, out, err = self._call(["systemctl", verb, "docker"], timeout)
        if rc != 0:
            raise TenancyError(
                f"systemctl {verb} docker failed: {last_lines(err).strip() or last_lines(out).strip() or f'exit status {rc}'}"
            )

    def log(self) -> str:
        """Return the last lines of Docker's log."""
        for args in (
            ["journalctl", "--unit=docker", "--lines=20", "--output=cat", "--no-pager"],
            ["systemctl", "status", "docker", "--lines=20", "--no-pager"],
        ):
            _rc, out, _err = self._call(args)
            if out.strip():
                return last_lines(out).strip()
        return "nothing"
