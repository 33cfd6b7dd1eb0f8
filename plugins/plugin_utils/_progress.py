# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Show what a module is at while it works, for modules with the option ``progress``."""

from __future__ import annotations

import contextlib
import shlex
import threading
import typing as t

from ansible.utils.display import Display

from ..module_utils._adapters.progress_file import LOOKED
from ..module_utils._common.documents import parse_json
from ..module_utils._common.text import shown
from ._quiet import QuietAction

# Seconds until the first look, and between two of them.
FIRST, EVERY = 3, 15
# Lines that are shown at once, and characters of what one of them waits for.
MOST, LONGEST = 20, 160


def lines(host: str, text: str) -> list[str]:
    """Return a line for each tenant, or other subject of the work: what is done, for how many seconds, and what is waited for.

    :arg text: a line with what a module keeps in its file, and one with the time of the host.
    """
    progress, now = map(parse_json, text.splitlines())
    found = []
    for name, one in list(progress.items())[:MOST]:
        seen = f", {shown(one['seen'], LONGEST)}" if one["seen"] else ""
        found.append(f"{host}: {shown(name)}: {shown(one['what'])}, {now - one['since']:.0f} s{seen}")
    more = len(progress) - MOST
    return [*found, f"{host}: and {more} more"] if more > 0 else found


class ProgressAction(QuietAction):
    """Runs the module of the same name, shows meanwhile what it is at, and keeps values of charts from the screen."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the module, beside a thread that looks at what it is at."""
        # No thread looks at a module that goes on by itself, and it would take the controller for gone.
        if self._task.args.get("progress") or self._task.async_val:
            return super().run(tmp, task_vars)
        shell = self._connection._shell
        path = shell.join_path(shell.tmpdir or self._make_tmp_path(), "progress.json")
        self._task.args["progress"] = path
        host = str((task_vars or {}).get("inventory_hostname", "localhost"))
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(path, host, over), daemon=True)
        watcher.start()
        try:
            return super().run(tmp, task_vars)
        finally:
            over.set()

    def _watch(self, path: str, host: str, over: threading.Event) -> None:
        """Show every few seconds what the module is at, until that is over, and leave a sign that the controller looks.

        What cannot be read is not an error.
        """
        look = f"touch {shlex.quote(path + LOOKED)} && cat {shlex.quote(path)} && date +%s"
        looks = 0
        while not over.wait(EVERY if looks else FIRST):
            looks += 1
            with contextlib.suppress(Exception):
                done = self._low_level_execute_command(look, executable="/bin/sh")
                if done["rc"] == 0 and looks > 1 and not over.is_set():
                    for line in lines(host, done["stdout"]):
                        Display().display(line)
