# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common import schema
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.schema import Problems, plain


class Templated(dict):
    """A dictionary as Ansible has them, which cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError


def nested(deep):
    value = {}
    for _level in range(deep):
        value = {"a": value}
    return value


def holding_itself():
    value = {}
    value["a"] = [value, value]
    return value


def refused(given, root=""):
    with pytest.raises(TenancyError) as caught:
        plain(given, root=root)
    return caught.value.problems


def test_what_comes_out_is_pythons_own():
    given = Templated(a=Templated(b=(1, "x")), c=None)
    assert plain(given) == {"a": {"b": [1, "x"]}, "c": None}
    assert plain(given)["a"].__class__ is dict
    assert plain(nested(90)) == nested(90)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({None: 1}, "None: its key must be a string, not None; quote it."),
        ({"a": [{"b": {1: "x"}}]}, "a[0].b.1: its key must be a string, not 1; quote it."),
        ({"a": {True: 1}}, "a.True: its key must be a string"),
        ({"a": {("b",): 1}}, "a.('b',): its key must be a string"),
        ({"a": 10**30}, "a: a number beyond 2^63 is no number"),
        ({"a": [0, -(10**30)]}, "a[1]: a number beyond 2^63"),
        ({"a": 16**5000}, "a: a number beyond 2^63"),
        ({"a": float("nan")}, "a: nan is no number"),
        ({"a": float("inf")}, "a: inf is no number"),
        (nested(300), "a.a.a…: is nested more than 100 deep, or holds itself."),
        (nested(100_000), "a.a.a…: is nested more than 100 deep, or holds itself."),
        (holding_itself(), "is nested more than 100 deep, or holds itself."),
    ],
)
def test_what_can_be_no_data_is_refused_with_its_path(given, expected):
    (problem,) = refused(given)
    assert expected in problem
    assert refused([given], "kubegpu_tenants")[0].startswith("kubegpu_tenants[0]")


def test_what_is_wrong_is_told_with_all_else_where_that_goes_on():
    problems = Problems()
    assert plain({"a": {1: 2, "b": 3}, "c": 10**30}, problems) == {"a": {"b": 3}, "c": 0}
    assert [problem.partition(":")[0] for problem in problems] == ["a.1", "c"]


def test_what_doubles_itself_at_each_level_is_refused_early(monkeypatch):
    monkeypatch.setattr(schema, "_MOST_VALUES", 2000)
    value = "x"
    for _level in range(90):
        value = [value, value]
    # Written out, it would have 2^90 values.
    assert "there are more than 2000 values" in refused({"a": value})[0]


def test_a_refusal_repeats_no_megabytes():
    problems = Problems()
    for value in ("x" * 10**6, ["x"] * 10**5, 16**5000, b"x" * 10**6):
        problems.typed(value, int, "a")
    problems.mapping({"k" * 10**6: 1}, {}, "b")
    problems.allowed("x" * 10**6, ("y",), "c")
    problems.add("d", "x" * 10**6)
    problems.extend(["e"] * 10**5)
    with pytest.raises(TenancyError) as caught:
        problems.raise_if_any("what was given")
    assert len(caught.value.message) < 20_000
    assert caught.value.message.endswith("and 99506 more")
    assert caught.value.message.startswith("100006 problems in what was given")
