# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The span of a report, in whole hours of UTC, and its days in a time zone. Pure."""

from __future__ import annotations

import datetime
import math
import typing as t
import zoneinfo

from .._common.errors import refusal
from .._common.values import stamp, stamped
from .facts import HOUR, HOURS_OF_QUERY, MOST_DAYS


class Span(t.NamedTuple):
    """A span of whole hours.

    :ivar begin: second of Unix at which it begins; ``end``, at which it ends.
    """

    begin: int
    end: int

    def hours(self) -> range:
        """Return the seconds at which its hours begin."""
        return range(self.begin, self.end, HOUR)

    def chunks(self) -> list[Span]:
        """Return it in parts that one query is about."""
        size = HOURS_OF_QUERY * HOUR
        return [Span(begin, min(begin + size, self.end)) for begin in range(self.begin, self.end, size)]


def span_of(month: str, begin: str, end: str, now: datetime.datetime) -> tuple[Span, bool]:
    """Return the span that is asked for, and whether it ends earlier than that, because it is not over.

    :arg month: such as 2026-11; empty for the last one that is over, where there is no ``begin`` either.
    :arg begin: of another span, as ``stamp`` writes moments; ``end`` alike.
    :raises TenancyError: where it is no span, or has not begun.
    """
    if begin or end:
        if month:
            raise refusal("not-applicable", "month: give either a month, or begin and end.")
        first, last = _whole(begin, "begin"), _whole(end, "end")
    else:
        first, last = _month(month, now)
    over = _second(now) // HOUR * HOUR
    if first >= last or last - first > MOST_DAYS * 24 * HOUR:
        raise refusal("not-a-span", f"end: has to be later than begin, by {MOST_DAYS} days at most.")
    if first >= over:
        raise refusal("not-a-span", f"begin: no hour since {shown_hour(first)} is over.")
    return Span(first, min(last, over)), last > over


def _whole(text: str, option: str) -> int:
    try:
        found = _second(stamped(text))
    except ValueError:
        found = -1
    if found < 0 or found % HOUR:
        raise refusal("not-a-time", f"{option}: has to be a whole hour of UTC, such as 2026-11-01T00:00:00Z.")
    return found


def _month(text: str, now: datetime.datetime) -> tuple[int, int]:
    try:
        first = stamped(f"{text}-01T00:00:00Z") if text else (now.replace(day=1) - datetime.timedelta(days=1)).replace(day=1)
    except ValueError:
        raise refusal("not-a-time", "month: has to be a month, such as 2026-11.") from None
    first = first.replace(hour=0, minute=0, second=0, microsecond=0)
    following = (first + datetime.timedelta(days=31)).replace(day=1)
    return _second(first), _second(following)


def _second(moment: datetime.datetime) -> int:
    return math.floor(moment.timestamp())


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """Return a time zone.

    :raises TenancyError: where this host knows none of this name.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise refusal("not-a-time-zone", "time_zone: is no time zone that this host knows, such as Europe/Berlin.") from None


def days_of(span: Span, zone: datetime.tzinfo) -> dict[int, str]:
    """Return the day of each hour of a span, such as 2026-11-01: that in which it begins in the time zone."""
    return {hour: datetime.datetime.fromtimestamp(hour, zone).date().isoformat() for hour in span.hours()}


def shown_hour(second: int) -> str:
    """Return a second of Unix as a moment in UTC."""
    return stamp(datetime.datetime.fromtimestamp(second, datetime.timezone.utc))


def label_value(value: str) -> str:
    """Return the value of a label as a string of Prometheus, in PromQL and in its text format alike."""
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
