# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to a kubeconfig file that others may share."""

from __future__ import annotations

import os
import stat

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import last_write, read_file, write_file
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Write


class KubeconfigFile:
    """A file, read once and replaced or removed as a whole.

    :ivar content: as ``read`` returned it; None where there is no file.
    :ivar mode: such as "0600"; None where there is no file.
    :ivar last_write: of what was read; None where there is no file.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.folder = os.path.dirname(self.path)
        self.content: bytes | None = None
        self.mode: str | None = None
        self.last_write: Write | None = None
        self._owner: tuple[int | None, int | None] = (None, None)

    def read(self) -> bytes | None:
        """Return the content, and note mode and owner.

        :raises TenancyError: when it is no regular file, or cannot be read.
        """
        try:
            self.content = read_file(self.path)
        except TenancyError as exc:
            raise TenancyError(f"path: {exc.message}") from exc
        if self.content is not None:
            status = os.stat(self.path)
            self.last_write = last_write(self.path)
            self.mode, self._owner = f"{stat.S_IMODE(status.st_mode):04o}", (status.st_uid, status.st_gid)
        return self.content

    @property
    def has_folder(self) -> bool:
        """Tell whether the folder of the file exists."""
        return os.path.isdir(self.folder)

    def write(self, content: bytes) -> None:
        """Replace the file in one step, readable by its owner only, who stays the same."""
        try:
            write_file(self.path, content, 0o600, *self._owner)
        except TenancyError as exc:
            needed = "Its folder has to exist, and the user that the task runs as has to be allowed to write there."
            raise TenancyError(f"path: {exc.message}. {needed}") from exc

    def remove(self) -> None:
        """Remove the file."""
        try:
            os.unlink(self.path)
        except OSError as exc:
            raise TenancyError(f"path: {self.path} cannot be removed: {exc}") from exc
