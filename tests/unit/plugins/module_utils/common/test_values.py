# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import (
    deep_merge,
    differences,
    merge_patch,
    moment,
    stamp,
)
from ansible_collections.kubegpu.tenancy.tests.unit.api import merged
from hypothesis import given
from hypothesis import strategies as st


def test_mappings_merge_and_everything_else_replaces():
    base = {"a": {"b": 1, "c": [1]}, "d": {"e": 2}}
    assert deep_merge(base, {"a": {"c": [2]}, "d": None, "f": 3}) == {"a": {"b": 1, "c": [2]}, "d": None, "f": 3}
    assert base == {"a": {"b": 1, "c": [1]}, "d": {"e": 2}}


def test_differences_are_leaves():
    before = {"a": {"b": 1, "c": 2}, "d": 3}
    after = {"a": {"b": 1, "c": 4}, "e": {"f": 5}}
    assert differences(before, after) == [("values.a.c", 2, 4), ("values.d", 3, None), ("values.e", None, {"f": 5})]
    assert differences(before, before) == []


TREES = st.recursive(
    st.integers(0, 2) | st.lists(st.integers(), max_size=1),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), TREES), st.dictionaries(st.sampled_from("abc"), TREES))
def test_a_merge_patch_turns_one_tree_into_the_other(before, after):
    assert merged(before, merge_patch(before, after)) == after


@given(st.datetimes(timezones=st.just(datetime.timezone.utc)))
def test_a_moment_is_written_to_the_second_and_read_again(at):
    assert moment(stamp(at)) == at.replace(microsecond=0)
    assert len(stamp(at)) == len("2026-11-21T12:00:00Z")
