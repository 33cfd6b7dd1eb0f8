# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import (
    LONGEST_LINE,
    MOST_LINES,
    Deadline,
    wait_for,
    when_webhook_answers,
)


class Clock:
    """Time that passes only where the code sleeps or works."""

    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(name="clock")
def _clock():
    return Clock()


@pytest.fixture(name="deadline")
def _deadline(clock):
    return Deadline(10, clock, clock.sleep)


def test_time_passes_and_a_step_that_is_due_gets_a_try(deadline, clock):
    assert (deadline.elapsed(), deadline.left()) == (0.0, 10.0)
    clock.now += 3.14159
    assert deadline.elapsed() == 3.1
    assert deadline.left() == pytest.approx(6.85841)
    clock.now += 100
    assert (deadline.left(), deadline.left(0), deadline.left(5)) == (1.0, 0, 5)


def test_a_share_ends_earlier_and_an_extension_at_least_so_late(deadline, clock):
    clock.now += 6
    share, extended, long = deadline.share(0.5), deadline.extended(30), deadline.extended(2)
    assert [each.left(0) for each in (share, extended, long)] == [2, 30, 4]
    clock.now += 5
    assert [each.left(0) for each in (deadline, share, extended, long)] == [0, 0, 25, 0]


def answers(*values):
    remaining = iter(values)
    return lambda: next(remaining)


def test_a_wait_ends_with_the_first_value(deadline, clock):
    assert wait_for("it", answers((None, "no"), (None, "no"), ("", "")), deadline) == ""
    assert clock.now == 52


def test_a_wait_ends_with_the_deadline_and_says_what_was_seen_last(deadline, clock):
    clock.now += 7
    with pytest.raises(TenancyError) as caught:
        wait_for("the pods", lambda: (None, f"at {clock.now:.0f}"), deadline, interval=2)
    assert caught.value.message == "Timed out after 2 s waiting for the pods. Last seen: at 59"
    assert caught.value.details == {"last_seen": "at 59", "waited": 2.0}


def test_a_wait_may_have_seconds_of_its_own(clock):
    with pytest.raises(TenancyError, match="Timed out after 3 s"):
        wait_for("it", lambda: (None, "no"), 3, clock=clock, sleep=clock.sleep)


def test_a_probe_runs_once_when_time_is_up(deadline, clock):
    clock.now += 100
    assert wait_for("it", lambda: (1, ""), deadline) == 1
    with pytest.raises(TenancyError, match="after 0 s"):
        wait_for("it", lambda: (None, "no"), deadline)
    assert clock.now == 150


def test_a_probe_that_gives_up_ends_the_wait(deadline, clock):
    def probe():
        raise TenancyError("It never will be.")

    with pytest.raises(TenancyError, match="It never will be"):
        wait_for("it", probe, deadline)
    assert clock.now == 50


def writes(*answers):
    """A write that fails with each of the answers but the last, which it returns."""
    left = list(answers)

    def write():
        answer = left.pop(0)
        if left:
            raise TenancyError(answer)
        return answer

    return write


SILENT = "failed calling webhook x: connection refused"


def test_a_write_is_tried_again_while_the_webhook_is_silent(clock):
    assert when_webhook_answers("it", writes(SILENT, SILENT, "written"), Deadline(10, clock, clock.sleep)) == "written"
    assert when_webhook_answers("it", writes(None), Deadline(10, clock, clock.sleep)) is None


def test_a_write_is_refused_at_once(clock):
    with pytest.raises(TenancyError, match=r"^forbidden$"):
        when_webhook_answers("it", writes("forbidden", "written"), Deadline(10, clock, clock.sleep))


def test_a_webhook_that_stays_silent_is_named_when_time_is_up(clock):
    with pytest.raises(TenancyError, match=r"Timed out after 2 s waiting for it\. Last seen: failed calling webhook x"):
        when_webhook_answers("it", writes(*[SILENT] * 9), Deadline(2, clock, clock.sleep))


def test_what_was_seen_last_is_shown_as_short_lines(deadline):
    seen = "a\x1b[2J" + "b" * 10_000 + "\nc" * 10_000
    with pytest.raises(TenancyError) as caught:
        wait_for("the pods of \x1b[2Jweb", lambda: (None, seen), deadline)
    last = caught.value.details["last_seen"]
    assert caught.value.message == f"Timed out after 10 s waiting for the pods of web. Last seen: {last}"
    assert last.startswith("a bbb")
    assert max(len(line) for line in last.split("\n")) <= LONGEST_LINE
    assert len(last.split("\n")) <= MOST_LINES + 1
    assert all(line.isprintable() for line in last.split("\n"))
