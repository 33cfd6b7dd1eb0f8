# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to Docker's service: the only file that asks systemd and dockerd."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.docker import Runner
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

# dockerd is where only root's PATH leads.
PATH = "/usr/local/sbin:/usr/sbin:/sbin"
# Seconds for what only asks.
QUESTION = 30
# What timeout(1) exits with when there is no such program.
NOT_FOUND = 127


class Engine:
    """Verbs over the host's Docker itself, as a service of systemd."""

    def __init__(self, run: Runner, timeout: int) -> None:
        self._run = run
        self._timeout = timeout

    def _call(self, args: list[str], timeout: int = QUESTION) -> tuple[int, str, str]:
        path = f"{os.environ.get('PATH', os.defpath)}:{PATH}"
        return self._run(["timeout", "--kill-after=10", str(timeout), *args], environ_update={"PATH": path, "LC_ALL": "C"})

    def info(self) -> dict[str, t.Any] | None:
        """What Docker runs with; None when it does not answer."""
        rc, out, _err = self._call(["docker", "info", "--format", "{{json .}}"])
        found = json.loads(out) if rc == 0 else {}
        # Without the server some releases tell about the client only, and succeed.
        return found if "Runtimes" in found and not found.get("ServerErrors") else None

    def containers(self) -> list[str]:
        """The names of those that run."""
        rc, out, err = self._call(["docker", "ps", "--format", "{{.Names}}"])
        if rc != 0:
            raise TenancyError(f"docker ps failed: {err.strip()}")
        return sorted(out.split())

    def validate(self, content: bytes, name: str) -> None:
        """Have dockerd check a configuration before it becomes the real one, if it can.

        :arg name: how the message calls the file.
        """
        with tempfile.NamedTemporaryFile(suffix=".json") as stream:
            stream.write(content)
            stream.flush()
            rc, out, err = self._call(["dockerd", "--validate", "--config-file", stream.name])
            said = (err.strip() or out.strip()).replace(stream.name, name)
        # Docker learnt this in 23.0.
        if rc not in (0, NOT_FOUND) and "unknown flag: --validate" not in said:
            raise TenancyError(f"dockerd refuses what {name} would become, so it is left as it is: {said}")

    def failed(self) -> bool:
        """Whether the service ended by itself; one that somebody stopped did not."""
        _rc, out, _err = self._call(["systemctl", "is-active", "docker"])
        return out.strip() in ("failed", "activating")

    def reload(self) -> None:
        self._service("reload")

    def restart(self) -> None:
        # A few starts in a short time, and systemd refuses the next.
        self._call(["systemctl", "reset-failed", "docker.service", "docker.socket"])
        self._service("restart")

    def _service(self, verb: str) -> None:
        rc, out, err = self._call(["systemctl", verb, "docker"], self._timeout)
        if rc != 0:
            raise TenancyError(f"systemctl {verb} docker failed: {err.strip() or out.strip() or f'exit status {rc}'}")

    def words(self) -> str:
        """The last that Docker said."""
        for args in (
            ["journalctl", "--unit=docker", "--lines=20", "--output=cat", "--no-pager"],
            ["systemctl", "status", "docker", "--lines=20", "--no-pager"],
        ):
            _rc, out, _err = self._call(args)
            if out.strip():
                return out.strip()
        return "nothing"
