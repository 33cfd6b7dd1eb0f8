# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Files of a task on their way between the controller and a host, and what makes them unreadable."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import shlex
import tempfile
import typing as t

from ansible.errors import AnsibleError
from ansible.parsing.vault import VaultLib

from ..module_utils._common.errors import TenancyError, refusal
from ..module_utils._common.text import shown
from ._progress import ProgressAction

# Bytes of a file that one command answers with.
PIECE = 24 * 2**20
NOT_ENCRYPTING = (
    "There is no vault password, which encrypts and decrypts backups. Run with --vault-password-file or --vault-id, or set "
    "ANSIBLE_VAULT_PASSWORD_FILE."
)


class FileTransfer(ProgressAction):
    """An action whose module reads or writes files of its own in the task's folder on the host, which goes with the task."""

    def _cluster(self, task_vars: dict[str, t.Any] | None) -> str:
        """Return the option ``cluster``, which defaults to the inventory host."""
        return str(self._task.args.get("cluster") or (task_vars or {}).get("inventory_hostname", "localhost"))

    def _task_folder(self) -> str:
        """Return the task's own folder on the host, which goes when the module has ended."""
        return str(self._connection._shell.tmpdir or self._make_tmp_path())

    @contextlib.contextmanager
    def _host_folder(self) -> t.Iterator[str]:
        """Make a folder on the host that the user whom the task becomes alone can read, and remove it at the end.

        :raises TenancyError: where it cannot be made.
        """
        answer = self._low_level_execute_command("mktemp -d", executable="/bin/sh")
        if answer["rc"] != 0:
            raise TenancyError(f"No folder can be made on the host: {shown(answer['stderr'])}")
        # Logins and sudo may print lines before it.
        path = answer["stdout"].split("\n")[-2 if answer["stdout"].endswith("\n") else -1].strip()
        try:
            yield path
        finally:
            self._low_level_execute_command(f"rm -rf {shlex.quote(path)}", executable="/bin/sh")

    def _fetched(self, path: str, size: int) -> bytes:
        """Return the content of a file of the host, which the user that the task becomes can read.

        :arg size: in bytes.
        :raises TenancyError: where it cannot be fetched, or is shorter.
        """
        pieces = []
        # The connection's own way to fetch a file is that of the user who logs in.
        for begin in range(0, size, PIECE):
            command = f"tail -c +{begin + 1} {shlex.quote(path)} | head -c {PIECE} | base64 -w 0"
            with self._unlogged():
                answer = self._low_level_execute_command(command, executable="/bin/sh")
            if answer["rc"] != 0:
                raise TenancyError(f"{path} cannot be fetched from the host: {shown(answer['stderr'])}")
            pieces.append(_decoded(answer["stdout"], path))
        return b"".join(pieces)

    def _sent(self, content: bytes, path: str) -> None:
        """Write a file into the task's folder on the host.

        :raises TenancyError: where it cannot be sent.
        """
        with tempfile.NamedTemporaryFile() as file, self._unlogged():
            file.write(content)
            file.flush()
            try:
                self._transfer_file(file.name, path)
                self._fixup_perms2((os.path.dirname(path), path))
            except (AnsibleError, OSError) as exc:
                raise TenancyError(f"{path} cannot be sent to the host: {exc}") from exc


def failure(exc: TenancyError) -> dict[str, t.Any]:
    """Return the result of a task that failed, as a module returns it."""
    return {"failed": True, "msg": exc.message, "problems": [problem.data() for problem in exc.problems]}


def _decoded(text: str, path: str) -> bytes:
    try:
        # Logins and sudo may print lines before it.
        return base64.b64decode(text.rsplit(maxsplit=1)[-1] if text.strip() else "", validate=True)
    except binascii.Error as exc:
        raise TenancyError(f"{path} cannot be fetched from the host, which answered with no base64.") from exc


class Vault:
    """Encrypts and decrypts by the passwords that Ansible was given, in the format of ansible-vault."""

    def __init__(self, library: VaultLib) -> None:
        self._library = library

    def encrypt(self, content: bytes) -> bytes:
        """Return the content, encrypted by the first password."""
        return bytes(self._library.encrypt(content))

    def decrypt(self, content: bytes) -> bytes:
        """Return the content, decrypted by whichever password fits.

        :raises TenancyError: where none does.
        """
        try:
            return bytes(self._library.decrypt(content))
        except AnsibleError as exc:
            raise refusal("not-decrypted", f"No vault password decrypts the backup: {exc}") from exc


def vault_of(loader: t.Any) -> Vault:
    """Return what encrypts by the passwords of this run.

    :arg loader: Ansible's.
    :raises TenancyError: where the run has none.
    """
    secrets = loader._vault.secrets
    if not secrets:
        raise refusal("no-vault-password", NOT_ENCRYPTING)
    return Vault(VaultLib(secrets))
