# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import (
    ApiError,
    CommandFailed,
    Problem,
    Superseded,
    TenancyError,
    WaitTimeout,
    check_all,
    refusal,
    refuse,
)


def wrong(place):
    return Problem("empty", f"{place}: wrong")


def test_nothing_is_refused_without_problems():
    refuse([])
    check_all(lambda: None)


def test_problems_are_refused_at_once_and_each_is_named_once():
    with pytest.raises(TenancyError) as caught:
        refuse([wrong("a"), wrong("b"), wrong("a")])
    assert caught.value.message == "a: wrong\nb: wrong"
    assert caught.value.problems == [wrong("a"), wrong("b")]
    assert caught.value.details == {"problems": [{"code": "empty", "text": f"{place}: wrong"} for place in "ab"]}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TenancyError("a: wrong"), "failed"),
        (ApiError("a: wrong", 404), "api-error"),
        (WaitTimeout("a: wrong", "b"), "timeout"),
        (CommandFailed("a: wrong", 1), "command-failed"),
        (Superseded("a: wrong"), "superseded"),
        (refusal("empty", "a: wrong"), "empty"),
        (refusal("empty", "wrong").saying("a: wrong"), "empty"),
    ],
)
def test_every_error_is_a_problem_with_a_code(error, code):
    assert [problem.code for problem in error.problems] == [code]
    assert error.message == "a: wrong"


def test_every_check_is_run():
    def one():
        raise TenancyError("a: wrong")

    with pytest.raises(TenancyError) as caught:
        check_all(one, lambda: refuse([wrong("b"), wrong("c")]), lambda: None, one)
    assert caught.value.problems == [Problem("failed", "a: wrong"), wrong("b"), wrong("c")]


def test_other_exceptions_of_a_check_pass():
    with pytest.raises(ZeroDivisionError):
        check_all(lambda: 1 / 0)
