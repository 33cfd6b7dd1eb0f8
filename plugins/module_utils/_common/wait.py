# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bound how long a change may take, and wait within that bound."""

from __future__ import annotations

import contextvars
import time
import typing as t

from .errors import TenancyError, WaitTimeout
from .text import shown, shown_lines

T = t.TypeVar("T")

# Characters of a line, and lines, of what was seen last: the message of a webhook, or the reasons of many pods.
LONGEST_LINE = 2000
MOST_LINES = 50


# Is told what a wait is for and what was seen last, as often as that is looked at; of the thread that waits.
LISTENER: contextvars.ContextVar[t.Callable[[str, str], None] | None] = contextvars.ContextVar("LISTENER", default=None)


def announce(what: str, seen: str) -> None:
    """Tell the listener, if there is one, what is waited for and what was seen last.

    :raises TenancyError: where the work is to go no further.
    """
    if listener := LISTENER.get():
        listener(what, seen)


class Deadline:
    """The end of the time that one change may take, waits included.

    :arg seconds: from now.
    :arg clock: returns seconds that only grow; ``sleep`` takes seconds. Tests pass their own.
    """

    def __init__(
        self, seconds: float, clock: t.Callable[[], float] = time.monotonic, sleep: t.Callable[[float], None] = time.sleep
    ) -> None:
        self.seconds = seconds
        self.clock = clock
        self.sleep = sleep
        self._start = clock()

    def elapsed(self) -> float:
        """Return the seconds since the change began, rounded to a tenth."""
        return round(self.clock() - self._start, 1)

    def left(self, least: float = 1.0) -> float:
        """Return the seconds that are left, at least ``least``: a step that is due gets a try."""
        return max(least, self._start + self.seconds - self.clock())

    def share(self, part: float) -> Deadline:
        """Return a deadline that ends when ``part`` (0 to 1) of the time left is used up."""
        return Deadline(self.left() * part, self.clock, self.sleep)

    def extended(self, seconds: float) -> Deadline:
        """Return a deadline at least ``seconds`` away, for a clean-up that has to happen when time is up, too."""
        return Deadline(self.left(seconds), self.clock, self.sleep)


def wait_for(
    what: str,
    probe: t.Callable[[], tuple[T | None, str]],
    deadline: Deadline | float,
    interval: float = 1.0,
    clock: t.Callable[[], float] = time.monotonic,
    sleep: t.Callable[[float], None] = time.sleep,
) -> T:
    """Call ``probe`` until it returns a value, and return that.

    :arg what: what is awaited, as the end of "timed out waiting for ...".
    :arg probe: returns ``(value, seen)``. A value other than None ends the wait; ``seen`` says what was observed instead
        and ends up in the error. It raises TenancyError to give up at once, when waiting mends nothing.
    :arg deadline: of the whole change, or seconds for this wait alone. The probe runs at least once.
    :arg interval: seconds between two probes; ``clock`` and ``sleep`` are those of the deadline where one is given.
    :raises WaitTimeout: when time is up.
    """
    if not isinstance(deadline, Deadline):
        deadline = Deadline(deadline, clock, sleep)
    start = deadline.clock()
    while True:
        value, seen = probe()
        if value is not None:
            return value
        announce(what, seen)
        waited = deadline.clock() - start
        if interval > deadline.left(0):
            last = shown_lines(seen, LONGEST_LINE, MOST_LINES)
            raise WaitTimeout(
                f"Timed out after {waited:.0f} s waiting for {shown(what, LONGEST_LINE)}. Last seen: {last}",
                last_seen=last,
                waited=round(waited, 1),
            )
        deadline.sleep(interval)


def when_webhook_answers(what: str, write: t.Callable[[], T], deadline: Deadline | float) -> T:
    """Call ``write``, and again while the API server cannot reach the webhook that has to admit it; return what it returns.

    KAI Scheduler's queue controller has no readiness probe, so it counts as ready before it listens (#1980).

    :arg what: what is awaited, as in ``wait_for``.
    :raises TenancyError: any other error of ``write`` at once; the webhook's error when time is up.
    """

    def attempt() -> tuple[list[T] | None, str]:
        try:
            return [write()], ""
        except TenancyError as exc:
            if "failed calling webhook" not in exc.message:
                raise
            return None, exc.message

    return wait_for(what, attempt, deadline)[0]
