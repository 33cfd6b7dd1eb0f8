# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, check_all, refuse


def test_nothing_is_refused_without_problems():
    refuse([])
    check_all(lambda: None)


def test_problems_are_refused_at_once_and_each_is_named_once():
    with pytest.raises(TenancyError) as caught:
        refuse(["a: wrong", "b: wrong", "a: wrong"])
    assert caught.value.message == "a: wrong\nb: wrong"
    assert caught.value.problems == ["a: wrong", "b: wrong"]


def test_every_check_is_run():
    def one():
        raise TenancyError("a: wrong")

    with pytest.raises(TenancyError) as caught:
        check_all(one, lambda: refuse(["b: wrong", "c: wrong"]), lambda: None, one)
    assert caught.value.problems == ["a: wrong", "b: wrong", "c: wrong"]


def test_other_exceptions_of_a_check_pass():
    with pytest.raises(ZeroDivisionError):
        check_all(lambda: 1 / 0)
