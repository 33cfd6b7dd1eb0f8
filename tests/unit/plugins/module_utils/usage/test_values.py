# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The span that is asked for."""

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.values import days_of, shown_hour, span_of, zone_of
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

NOW = datetime.datetime(2026, 11, 28, 10, 40, tzinfo=datetime.timezone.utc)


def asked(month="", begin="", end="", now=NOW):
    span, unfinished = span_of(month, begin, end, now)
    return shown_hour(span.begin), shown_hour(span.end), unfinished


def test_a_month_is_one_of_utc():
    assert asked("2026-02") == ("2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z", False)
    assert asked("2025-12") == ("2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z", False)


def test_without_a_month_it_is_the_last_one_that_is_over():
    assert asked() == ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", False)
    new_year = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    assert asked(now=new_year) == ("2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z", False)


def test_a_span_that_is_not_over_ends_with_the_last_hour_that_is():
    assert asked("2026-11") == ("2026-11-01T00:00:00Z", "2026-11-28T10:00:00Z", True)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("2026-13",), "not-a-time"),
        (("November",), "not-a-time"),
        (("2026-10", "2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z"), "not-applicable"),
        (("", "2026-10-01T00:30:00Z", "2026-10-02T00:00:00Z"), "not-a-time"),
        (("", "2026-10-01", "2026-10-02T00:00:00Z"), "not-a-time"),
        (("", "2026-10-01T00:00:00Z", ""), "not-a-time"),
        (("", "2026-10-02T00:00:00Z", "2026-10-02T00:00:00Z"), "not-a-span"),
        (("", "2024-10-02T00:00:00Z", "2026-10-02T00:00:00Z"), "not-a-span"),
        (("2026-12",), "not-a-span"),
    ],
)
def test_what_is_no_span_is_refused(given, code):
    with refuses(code):
        asked(*given)


def test_queries_are_of_a_day_at_most():
    span, _unfinished = span_of("", "2026-10-01T06:00:00Z", "2026-10-03T00:00:00Z", NOW)
    assert [(shown_hour(part.begin), len(part.hours())) for part in span.chunks()] == [
        ("2026-10-01T06:00:00Z", 24),
        ("2026-10-02T06:00:00Z", 18),
    ]


def test_an_hour_belongs_to_the_day_in_which_it_begins():
    span, _unfinished = span_of("", "2026-10-01T17:00:00Z", "2026-10-01T20:00:00Z", NOW)
    assert list(days_of(span, zone_of("Asia/Kolkata")).values()) == ["2026-10-01", "2026-10-01", "2026-10-02"]


@pytest.mark.parametrize("name", ["Mars/Base", "", "../etc/passwd", "/etc/passwd", "Europe"])
def test_what_is_no_time_zone_is_refused(name):
    with refuses("not-a-time-zone"):
        zone_of(name)
