# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The runs of a rollout: playbooks with the options of the run that began them, and the files that they leave in its folder."""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

from ..module_utils._adapters import files
from ..module_utils._adapters.run_lock import locked
from ..module_utils._common.documents import parse_json
from ..module_utils._common.errors import TenancyError, WaitTimeout, refusal
from ..module_utils._common.values import JsonObject
from ..module_utils._common.wait import Deadline
from ..module_utils._rollout.lifecycle import DRIFT, INFO, PLAYBOOKS, Done

Options = t.Mapping[str, t.Any]

# Bytes of the evidence of a run; that of 2,000 tenants has 14 MB.
LARGEST = 256 * 2**20
EVIDENCE, PODS, LOG, RECORD, LOCK = "tenancy.json", "info.json", "run.log", "rollout.json", "lock"

# Options of ansible-playbook that a run takes over, by the names that Ansible gives them: given once, given any number of times, and without a
# value.
_ONE = {
    "private_key_file": "--private-key",
    "remote_user": "--user",
    "connection": "--connection",
    "timeout": "--timeout",
    "ssh_common_args": "--ssh-common-args",
    "sftp_extra_args": "--sftp-extra-args",
    "scp_extra_args": "--scp-extra-args",
    "ssh_extra_args": "--ssh-extra-args",
    "become_method": "--become-method",
    "become_user": "--become-user",
    "connection_password_file": "--connection-password-file",
    "become_password_file": "--become-password-file",
    "forks": "--forks",
}
_ANY = {"inventory": "--inventory", "extra_vars": "--extra-vars"}
_FLAGS = {"become": "--become", "force_handlers": "--force-handlers"}
_ASKING = {"ask_pass": "--ask-pass", "become_ask_pass": "--ask-become-pass"}
# Exit statuses with which a playbook tells what it found: of failed tasks, and of hosts that were not reached.
_TELLING = (0, 2, 4)


def taken_over(given: Options) -> list[str]:
    """Return the options of a run of ``ansible-playbook`` for the runs that it begins: all but what limits it.

    :arg given: as Ansible has them.
    :raises TenancyError: for passwords that each of them would ask for.
    """
    if asking := [option for key, option in _ASKING.items() if given.get(key)]:
        files_instead = "--connection-password-file, --become-password-file or a variable"
        text = f"{', '.join(asking)}: the runs of a rollout cannot ask for it again. Give the password by {files_instead}."
        raise refusal("not-passed-on", text)
    found = [f"{option}={given[key]}" for key, option in _ONE.items() if given.get(key)]
    found += [f"{option}={value}" for key, option in _ANY.items() for value in given.get(key) or ()]
    return [*found, *(option for key, option in _FLAGS.items() if given.get(key))]


class Folder:
    """The folder of a rollout on the controller, with its record, and a folder for each run.

    :raises TenancyError: where it cannot be made, or others may write to it.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.path = os.path.join(os.path.abspath(os.path.expanduser(folder)), name)
        self._record = os.path.join(self.path, RECORD)

    @contextlib.contextmanager
    def held(self) -> t.Iterator[t.IO[bytes] | None]:
        """Make the folder, hold it against other runs until the block ends, and yield the file by which it is held.

        :raises TenancyError: where another run holds it.
        """
        files.make_directories(self.path, 0o700)
        path = os.path.join(self.path, LOCK)
        if not os.path.exists(path):
            files.write_file(path, b"", 0o600)
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(locked(path, Deadline(0)))
            except WaitTimeout as exc:
                name = os.path.basename(self.path)
                raise refusal("already-running", f"Another run of the rollout {name} is under way.") from exc
            yield file

    def read(self) -> JsonObject | None:
        """Return the record; None where there is none.

        :raises TenancyError: where it is none of this collection's.
        """
        content = files.read_file(self._record, LARGEST) if os.path.isdir(self.path) else None
        if content is None:
            return None
        try:
            record = parse_json(content, LARGEST)
            if record["format"] != 1 or not all(one["state"] for one in record["clusters"].values()):
                raise ValueError("it has another format")
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise refusal("not-a-record", f"{self._record} is no record of a rollout: {exc}") from exc
        return t.cast(JsonObject, record)

    def write(self, record: JsonObject) -> None:
        """Write the record in one step."""
        files.write_file(self._record, f"{json.dumps(record, indent=2)}\n".encode(), 0o600)

    def place(self, name: str) -> str:
        """Make the folder of a run, without what a run before left in it, and return its path."""
        path = os.path.join(self.path, name)
        files.make_directories(path, 0o700)
        for file in (EVIDENCE, PODS):
            files.remove_file(os.path.join(path, file))
        return path


class Run:
    """Runs a playbook for some clusters, as ``Runs`` of the lifecycle.

    :arg start: runs ansible-playbook, as ``Playbooks.run``.
    :arg options: of all runs; ``vault``, as that takes it.
    :arg playbooks: names or paths of PLAYBOOKS.
    :arg parts: of info.
    """

    def __init__(
        self,
        start: t.Callable[[t.Sequence[str], t.Mapping[str, bytes], str], int],
        folder: Folder,
        options: t.Sequence[str],
        vault: t.Mapping[str, bytes],
        playbooks: t.Mapping[str, str],
        parts: t.Sequence[str] = ("pending",),
    ) -> None:
        self._start, self._folder = start, folder
        self._options, self._vault = options, vault
        self._parts = parts
        self._playbooks = {name: f"kubegpu.tenancy.{name}" for name in PLAYBOOKS} | dict(playbooks)

    def __call__(self, playbook: str, clusters: t.Sequence[str], place: str, blueprint: str = "", only_due: bool = False) -> Done:
        """Run it, and return what it left."""
        path = self._folder.place(place)
        log = os.path.join(path, LOG)
        variables = {"kubegpu_evidence": path} | ({"kubegpu_blueprint": blueprint} if blueprint else {})
        if only_due:
            variables["_kubegpu_only_due"] = "true"
        more = ["--check"] if playbook == DRIFT else []
        if playbook == INFO:
            variables["info_file"], more = os.path.join(path, PODS), [f"--tags={','.join(self._parts)}"]
        limit = f"--limit={','.join(clusters)}"
        given = [*self._options, f"--extra-vars={json.dumps(variables)}", limit, *more]
        status = self._start([self._playbooks[playbook], *given], self._vault, log)
        found, pods = (self._read(os.path.join(path, file)) for file in (EVIDENCE, PODS))
        # Of drift, 2 says that something differs, and of the others, that something failed, which the evidence names.
        tells = playbook == DRIFT and status in _TELLING and isinstance(found, dict)
        failure = "" if status == 0 or tells else f"{playbook} ended with status {status}, see {log}"
        return Done(found if isinstance(found, dict) else None, pods if isinstance(pods, list) else [], failure)

    @staticmethod
    def _read(path: str) -> t.Any:
        """Return what a run wrote; None where it did not, or where it cannot be read."""
        try:
            content = files.read_file(path, LARGEST)
            return None if content is None else parse_json(content, LARGEST)
        except (TenancyError, ValueError):
            return None
