# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to a kubeconfig file that others may share."""

from __future__ import annotations

import os

from .._common.errors import TenancyError
from .._common.values import Write
from .files import written
from .folders import Held, Identity, reach


class KubeconfigFile:
    """A file, read once and replaced or removed as a whole; in a folder of another user, root writes it as that user's.

    :ivar content: as ``read`` returned it; None where there is no file.
    :ivar mode: such as "0600"; None where there is no file.
    :ivar last_write: of what was read; None where there is no file.
    :ivar has_folder: whether there was a folder.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.folder, self._name = os.path.split(self.path)
        self.content: bytes | None = None
        self.mode: str | None = None
        self.last_write: Write | None = None
        self.has_folder = False
        self._file: Held | None = None
        self._read_in: Identity | None = None

    def read(self) -> bytes | None:
        """Return the content, and note mode, owner and folder.

        :raises TenancyError: when it is no regular file, cannot be read, or stands in a folder that others may write to.
        """
        try:
            with reach(self.folder) as folder:
                self.has_folder = not folder.missing
                if self.has_folder:
                    self._file, self._read_in = folder.read(self._name), folder.identity
        except TenancyError as exc:
            raise TenancyError(f"path: {exc.message}") from exc
        except OSError as exc:
            raise TenancyError(f"path: {self.path} cannot be read: {exc}") from exc
        if self._file:
            self.content, self.mode, self.last_write = self._file.content, f"{self._file.mode:04o}", written(self._file)
        return self.content

    def make_folder(self, mode: int) -> None:
        """Make the folder of the file, and those above it, where they are missing.

        :raises OSError: when one cannot be made.
        """
        with reach(self.folder, mode):
            pass

    def write(self, content: bytes) -> None:
        """Replace the file in one step, readable by its owner only, who stays the same."""
        try:
            with reach(self.folder) as folder:
                folder.require(self._read_in)
                uid, gid = (self._file.uid, self._file.gid) if self._file else folder.owner
                folder.replace(self._name, content, 0o600, uid, gid)
        except TenancyError as exc:
            raise TenancyError(f"path: {exc.message}") from exc
        except OSError as exc:
            needed = "Its folder has to exist, and the user that the task runs as has to be allowed to write there."
            raise TenancyError(f"path: {self.path} cannot be written: {exc}. {needed}") from exc

    def remove(self) -> None:
        """Remove the file."""
        try:
            with reach(self.folder) as folder:
                folder.require(self._read_in)
                folder.remove(self._name)
        except TenancyError as exc:
            raise TenancyError(f"path: {exc.message}") from exc
        except OSError as exc:
            raise TenancyError(f"path: {self.path} cannot be removed: {exc}") from exc
