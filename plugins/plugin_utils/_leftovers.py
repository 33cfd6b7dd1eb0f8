# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Runs whose snapshots of volumes belong to no backup any more: a file for each, which the tenant's next backup removes with the snapshots.

A run has its file from before it makes snapshots until its backup is kept, and again once that backup is deleted. So what a run that was killed
made is deleted as well, and nothing else is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import typing as t

from ..module_utils._adapters import files

# In the folder of a cluster's backups; no tenant has a name with a dot.
FOLDER = ".snapshots"
_NAME = re.compile(r"(?P<tenant>[a-z0-9-]+)\.(?P<run>[0-9a-f]{32})")


class Leftovers:
    """The files of one cluster.

    :arg folder: of the cluster's backups.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, FOLDER)

    def add(self, tenant: str, run: str) -> None:
        """Have a run's snapshots of a tenant's volumes deleted by the next backup.

        :raises TenancyError: where the file cannot be written.
        """
        files.make_directories(self._folder, 0o700)
        files.write_file(self._path(tenant, run), b"", 0o600)

    def remove(self, tenant: str, run: str) -> None:
        """Forget a run whose snapshots are deleted, or belong to a backup."""
        files.remove_file(self._path(tenant, run))

    def of(self, tenant: str) -> list[str]:
        """Return the runs whose snapshots of a tenant's volumes are to be deleted; not one that goes on."""
        found = filter(None, map(_NAME.fullmatch, files.list_directory(self._folder)))
        return sorted(name["run"] for name in found if name["tenant"] == tenant and not self._goes_on(tenant, name["run"]))

    @contextlib.contextmanager
    def during(self, tenant: str, run: str) -> t.Iterator[None]:
        """Have the file of a run, and hold it so that no other run takes this one for one that has ended.

        :raises TenancyError: where it cannot be written.
        """
        self.add(tenant, run)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                fcntl.flock(stack.enter_context(open(self._path(tenant, run), "rb")), fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def _path(self, tenant: str, run: str) -> str:
        return os.path.join(self._folder, f"{tenant}.{run}")

    def _goes_on(self, tenant: str, run: str) -> bool:
        try:
            with open(self._path(tenant, run), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False
