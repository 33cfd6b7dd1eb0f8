# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to systemd: units that this collection writes."""

from __future__ import annotations

from .._common.errors import CommandFailed
from .programs import Programs, last_lines

# Seconds for calls that change nothing.
QUESTION = 30
PROPERTIES = "ActiveState,UnitFileState,NeedDaemonReload"


class Services(Programs):
    """Verbs over units of systemd."""

    def _call(self, timeout: float, *args: str) -> tuple[int, str, str]:
        return self._run(["timeout", "--kill-after=10", str(round(timeout)), *args], environ_update={"LC_ALL": "C"})

    def _systemctl(self, timeout: float, *args: str) -> str:
        """Return what systemctl prints.

        :raises CommandFailed: where it fails.
        """
        rc, out, err = self._call(timeout, "systemctl", *args)
        if rc != 0:
            said = last_lines(err).strip() or last_lines(out).strip() or f"exit status {rc}"
            raise CommandFailed(f"systemctl {' '.join(args)} failed: {said}", rc=rc)
        return out

    def properties(self, unit: str) -> str:
        """Return state and enablement of a unit as ``systemctl show`` prints them, also of one that is not there."""
        return self._systemctl(QUESTION, "show", f"--property={PROPERTIES}", unit)

    def enable(self, unit: str, timeout: float) -> None:
        """Have systemd read a unit's file, and start the unit with the host."""
        self._systemctl(timeout, "daemon-reload")
        self._systemctl(timeout, "enable", unit)

    def bring(self, verb: str, unit: str, timeout: float) -> None:
        """Reload or restart a unit.

        :arg verb: reload or restart.
        """
        # A few failed starts in a short time, and systemd refuses the next. Of a unit that it does not know, this fails.
        self._call(QUESTION, "systemctl", "reset-failed", unit)
        self._systemctl(timeout, verb, unit)

    def end(self, unit: str, enabled: bool, timeout: float) -> None:
        """Stop a unit, and have it not start with the host.

        :arg enabled: whether it does that now; systemctl disables no unit without a file.
        """
        self._systemctl(timeout, "stop", unit)
        if enabled:
            self._systemctl(timeout, "disable", unit)

    def forget(self, unit: str, timeout: float) -> None:
        """Have systemd know no more of a unit whose file is removed."""
        self._systemctl(timeout, "daemon-reload")
        self._call(QUESTION, "systemctl", "reset-failed", unit)

    def log(self, unit: str) -> str:
        """Return the last lines of a unit's log."""
        _rc, out, _err = self._call(QUESTION, "journalctl", f"--unit={unit}", "--lines=20", "--output=cat", "--no-pager")
        return last_lines(out).strip() or "nothing"
