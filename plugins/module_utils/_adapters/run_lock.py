# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A lock that keeps two runs on one host from working on the tenants of one cluster at once. It leaves nothing behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import typing as t

from .._common.wait import Deadline, wait_for


@contextlib.contextmanager
def locked(path: str, deadline: Deadline) -> t.Iterator[t.IO[bytes] | None]:
    """Hold a file against other processes that ask for it here, until the block ends or this process does, and yield it.

    A process that inherits the file holds it as well. None is yielded where it cannot be opened.

    :arg path: of a file that is there; where it cannot be held, such as on some network file systems, nothing is.
    :raises WaitTimeout: where another process holds it until the deadline.
    """
    with contextlib.ExitStack() as stack:
        file: t.IO[bytes] | None = None
        with contextlib.suppress(OSError):
            file = stack.enter_context(open(os.path.expanduser(path), "rb"))
            held = file
            wait_for("another run that works on the tenants of this cluster", lambda: (_hold(held), "it goes on"), deadline)
        yield file


def _hold(file: t.IO[bytes]) -> bool | None:
    """Hold a file; None where another process holds it.

    :raises OSError: where it cannot be held.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return True
