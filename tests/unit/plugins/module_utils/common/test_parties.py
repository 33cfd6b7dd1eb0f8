# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.parties import Unread, attempt, each


def deep():
    return deep()


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda: int("1k"), "invalid literal for int() with base 10: '1k'"),
        (lambda: {}["spec"], "KeyError: 'spec'"),
        (lambda: [] + None, 'TypeError: can only concatenate list (not "NoneType") to list'),
        (deep, "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_any_failure_is_that_ones_reason(read, why):
    assert attempt("its queue", read) == (None, Unread("its queue", why))


def test_an_error_of_ours_says_itself_and_what_it_says_of_others_is_one_line():
    def refuse():
        raise TenancyError("no answer\n\x1b[2J from web")

    _found, unread = attempt("its queue", refuse)
    assert unread.sentence == "its queue cannot be read: no answer from web"
    assert attempt("x", lambda: 3) == (3, None)


def test_those_that_can_be_read_are_read():
    found, unread = each(
        [{"name": "a", "gpus": 1}, {"name": "b"}, 7], lambda item: f"pod {item['name']}", lambda item: item["gpus"]
    )
    assert found == [1]
    assert [one.what for one in unread] == ["pod b", "an object"]
