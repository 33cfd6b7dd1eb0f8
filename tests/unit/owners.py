# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and folders of several users, for tests of what root does with them."""

from __future__ import annotations

import os
import pathlib

import pytest

# Users that no machine has.
ALICE, MALLORY = 54321, 54322


class Owners:
    """Gives files to users, and has root run the test.

    As root, they are really given away. Otherwise all that the process owns is said to be root's, but for what was given away.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._said: dict[tuple[int, int], int] = {}
        self._real = os.geteuid() == 0
        if self._real:
            return
        real_user, stat, fstat = os.geteuid(), os.stat, os.fstat

        def said(found: os.stat_result) -> os.stat_result:
            uid = self._said.get((found.st_dev, found.st_ino), 0 if found.st_uid == real_user else found.st_uid)
            # Group 0 is root's.
            return os.stat_result((*found[:4], uid, uid, *found[6:]))

        def fchown(descriptor: int, uid: int, _gid: int) -> None:
            found = fstat(descriptor)
            self._said[found.st_dev, found.st_ino] = max(uid, 0)

        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "stat", lambda *args, **more: said(stat(*args, **more)))
        monkeypatch.setattr(os, "fstat", lambda descriptor: said(fstat(descriptor)))
        monkeypatch.setattr(os, "fchown", fchown)

    def give(self, path: pathlib.Path, uid: int) -> None:
        """Give a file, folder or link to a user and the group of the same number."""
        if self._real:
            os.lchown(path, uid, uid)
        else:
            found = path.lstat()
            self._said[found.st_dev, found.st_ino] = uid

    def of(self, path: pathlib.Path) -> int:
        """Return whose a file is."""
        return os.stat(path, follow_symlinks=False).st_uid
