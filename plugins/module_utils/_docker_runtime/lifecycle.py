# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bring Docker's configuration file, and the Docker that reads it, to the desired state, or restore them."""

from __future__ import annotations

import functools
import json
import typing as t

from .._common.errors import TenancyError
from .._common.values import differences
from .._common.wait import Deadline, wait_for
from .facts import SETTINGS, Path
from .plan import Need, need, pending
from .status import Running
from .validation import check_engine, parse
from .values import Undone, Wanted, edit, lookup, setting_differences, undo

if t.TYPE_CHECKING:
    from .._adapters.docker_service import Engine
    from .._adapters.journal import Entry, Journal
    from .._common.run import Result, Run

# Seconds in which a reload takes effect, or never does.
RELOAD = 20
# Seconds for bringing Docker back with its former file when time is up.
ROLL_BACK = 60


class Runtime:
    """One daemon.json and the Docker that reads it.

    :arg run: its ``params`` are the options of the module docker_runtime.
    """

    def __init__(self, run: Run, journal: Journal, engine: Engine) -> None:
        self._run = run
        self._params = run.params
        self._path: str = run.params["config_file"]
        self._journal = journal
        self._engine = engine
        self._before = journal.read(self._path)
        self._entry = journal.entry(self._path)

    def present(self) -> Result:
        """Add the settings; return ``docker``, what it takes for Docker to run with them."""
        if self._params["apply"]:
            document, engine = parse(self._before, self._path), self._engine
            check_engine(engine.client(), engine.address(), engine.info(), document, self._path)
        wanted = Wanted(self._params["name"], self._params["path"], self._params["set_as_default"], self._params["cdi"])
        after = edit(self._before, wanted, self._path)
        if after != self._before:
            self._engine.validate(after, self._path)
        needed, missing = self._needed(after, wanted.settings(), running=True)
        self._record(after, needed, missing)
        if after != self._before:

            def write() -> None:
                # What was edited by hand since is then part of what will be restored.
                self._journal.write(self._path, after, lambda now, entry: self._undo(now, entry).content)

            self._run.perform(f"write {self._path}", "it does not have the settings", write)
        self._settle(needed, missing, after, wanted.settings())
        return self._run.result(docker=needed)

    def absent(self) -> Result:
        """Restore the file; return ``docker``, ``outcome`` (see ``Journal.restore``), and ``kept`` settings."""
        entry = self._entry
        outcome, after = self._journal.restore(self._path, self._strip, dry=True)
        if entry is None:
            if not self._run.check_mode:
                self._journal.forget(self._path)
            return self._run.result(docker="nothing", outcome=outcome, kept=[])
        kept = self._undo(self._before, entry).kept if self._before is not None and outcome == "merged" else []
        if outcome == "merged" and after is not None:
            self._engine.validate(after, self._path)
        owned: dict[Path, t.Any] = {}
        for left in entry.left:
            owned |= setting_differences(parse(entry.original), parse(left))
        needed, missing = self._needed(after, owned, running=False)
        self._record(after, needed, missing)
        restore = functools.partial(self._journal.restore, self._path, self._strip, forget=False)
        if after != self._before:
            self._run.perform(f"restore {self._path}", "absent is wanted", restore)
        elif not self._run.check_mode:
            restore()
        self._settle(needed, missing, after, owned)
        if not self._run.check_mode:
            # Only now: a run that was killed before Docker let go of the settings is taken up again.
            self._journal.forget(self._path)
        if outcome == "merged":
            stay = f", and these, changed since, stay as they are: {', '.join(kept)}." if kept else "."
            self._run.warn(f"{self._path} was edited since; only the settings of this module were taken out{stay}")
        return self._run.result(docker=needed, outcome=outcome, kept=kept)

    # --- the file ---

    def _undo(self, now: bytes, entry: Entry) -> Undone:
        return undo(now, entry.left[-1], entry.original, self._path)

    def _strip(self, now: bytes, entry: Entry) -> bytes | None:
        """Return the file without the owned settings.

        :raises TenancyError: with ``conflicts``, where it is not clear what the file should become.
        """
        undone = self._undo(now, entry)
        if undone.conflicts:
            versions = "; ".join(
                f"{conflict['setting']} is {json.dumps(conflict['now'])} now, was made {json.dumps(conflict['written'])}"
                f" and was {json.dumps(conflict['before'])} before that"
                for conflict in undone.conflicts
            )
            raise TenancyError(
                f"{self._path} was edited since so that it is not clear what it should become, and is left as it is: {versions}. "
                "Either undo that edit, or keep what is there now by naming in default-runtime a runtime that stays.",
                conflicts=undone.conflicts,
            )
        return undone.content

    def _record(self, after: bytes | None, needed: Need, missing: list[Path]) -> None:
        """Record what changes: settings of the file, else the settings of the file that Docker does not run with yet."""
        if after != self._before:
            # The rest of the file, which stays, may hold a proxy's password or a log server's token.
            old, new = (
                {key: value for key, value in parse(content, self._path).items() if key in SETTINGS}
                for content in (self._before, after)
            )
            changes = differences(old, new, self._path) or [(self._path, "there", None)]
            self._run.change_all(changes, self._journal.last_write(self._path))
        elif self._params["apply"] and needed != "nothing":
            for path in missing:
                self._run.change(f"docker.{'.'.join(path)}", None, "as in the file")
            if not missing:
                self._run.change("docker", "stopped", "running")

    # --- Docker ---

    def _needed(self, after: bytes | None, owned: dict[Path, t.Any], running: bool) -> tuple[Need, list[Path]]:
        """Return what Docker needs to run with the file, and the settings that it does not run with.

        :arg running: whether a Docker that does not run is to be started.
        :raises TenancyError: with ``containers``, where it has to be restarted and that would stop them.
        """
        document = parse(after, self._path)
        if not self._params["apply"]:
            needs = pending(document, owned, Running.of_file(parse(self._before, self._path)))
            return need(needs.values()), []
        info = self._engine.info()
        if info is None:
            return ("restart" if running or self._engine.failed() else "nothing"), []
        docker = Running.of_info(info)
        needs = pending(document, owned, docker)
        needed = need(needs.values())
        if needed == "restart" and not docker.live_restore and not self._params["allow_restart"]:
            containers = self._engine.containers()
            if containers:
                settings = ", ".join(".".join(path) for path, how in needs.items() if how == "restart")
                raise TenancyError(
                    f"Docker has to be restarted to take over {settings} of {self._path}, which would stop these containers: "
                    f"{', '.join(containers)}. Nothing was touched. Stop them first, have Docker run with live-restore, "
                    "or allow it with allow_restart.",
                    containers=containers,
                )
        return needed, list(needs)

    def _settle(self, needed: Need, missing: list[Path], after: bytes | None, owned: dict[Path, t.Any]) -> None:
        """Have Docker run with the file; where it does not, put the former one back."""
        if not self._params["apply"] or needed == "nothing":
            return
        document = parse(after, self._path)
        # Docker's own default for CDI, where the file does not mention it, is not checked.
        checked = {path: value for path, value in owned.items() if path[0] != "features" or lookup(document, path) is not None}

        def settle() -> None:
            try:
                unmet = functools.partial(_unmet, document, checked)
                self._bring(needed, unmet, self._run.deadline)
            except TenancyError as exc:
                log = self._engine.log()
                raise TenancyError(
                    f"Docker did not take over {self._path}. {exc.message} {self._roll_back(after)} Docker's log ends with:\n{log}",
                    docker_log=log,
                ) from exc

        settings = ", ".join(".".join(path) for path in missing)
        self._run.perform(f"{needed} Docker", f"to take over {settings}" if settings else "it does not run", settle)

    def _bring(self, needed: Need, unmet: t.Callable[[Running], list[str]], deadline: Deadline) -> None:
        """Reload or restart Docker, and wait until nothing is unmet."""
        if needed == "reload":
            deadline = Deadline(min(RELOAD, deadline.left()), deadline.clock, deadline.sleep)
            self._engine.reload(deadline.left())
        else:
            self._engine.restart(deadline.left())

        def probe() -> tuple[bool | None, str]:
            info = self._engine.info()
            if info is None:
                return None, "Docker does not answer."
            missing = unmet(Running.of_info(info))
            return (None, f"It runs without {', '.join(missing)}.") if missing else (True, "")

        wait_for("Docker to run with its configuration", probe, deadline)

    def _roll_back(self, after: bytes | None) -> str:
        """Put the former file back, have Docker run with it, and return the outcome as a sentence."""
        if after != self._before:
            self._journal.roll_back(self._path, self._before, self._entry)
        elif self._entry is not None and self._params["state"] == "present":
            # An earlier run wrote it, and was killed before it saw this.
            self._journal.restore(self._path, lambda now, entry: self._undo(now, entry).content)
        else:
            return "The file is as it was before."
        try:
            deadline = self._run.deadline.extended(ROLL_BACK)
            self._bring("reload" if self._engine.info() else "restart", lambda _docker: [], deadline)
        except TenancyError as exc:
            return f"The file is restored, but Docker does not come back with it either: {exc.message}"
        return "The file is restored, and Docker runs with it."


def _unmet(document: dict[str, t.Any], settings: dict[Path, t.Any], docker: Running) -> list[str]:
    return [".".join(path) for path in pending(document, settings, docker)]
