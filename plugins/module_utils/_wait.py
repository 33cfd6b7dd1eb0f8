# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bounded waits."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError

T = t.TypeVar("T")


def wait_for(
    what: str,
    probe: t.Callable[[], tuple[T | None, str]],
    timeout: float,
    interval: float = 1.0,
    clock: t.Callable[[], float] = time.monotonic,
    sleep: t.Callable[[float], None] = time.sleep,
) -> T:
    """Call ``probe`` until it returns a value.

    :arg what: what is being waited for, as the end of "timed out waiting for ...".
    :arg probe: returns ``(value, seen)``: a value other than None ends the wait; ``seen`` says what was
        observed instead and ends up in the error. It raises TenancyError to give up at once.
    :arg timeout: seconds; the probe always runs at least once.
    :raises TenancyError: after ``timeout`` seconds, with ``last_seen`` and ``waited`` in its details.
    """
    start = clock()
    while True:
        value, seen = probe()
        if value is not None:
            return value
        waited = clock() - start
        if waited + interval > timeout:
            raise TenancyError(
                f"Timed out after {waited:.0f} s waiting for {what}. Last seen: {seen}", last_seen=seen, waited=round(waited, 1)
            )
        sleep(interval)
