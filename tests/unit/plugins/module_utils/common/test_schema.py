# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common import schema
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Problem, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.schema import Problems, plain
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed


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
        ({None: 1}, "None: wrong-type"),
        ({"a": [{"b": {1: "x"}}]}, "a[0].b.1: wrong-type"),
        ({"a": {True: 1}}, "a.True: wrong-type"),
        ({"a": {("b",): 1}}, "a.('b',): wrong-type"),
        ({"a": 10**30}, "a: out-of-range"),
        ({"a": [0, -(10**30)]}, "a[1]: out-of-range"),
        ({"a": 16**5000}, "a: out-of-range"),
        ({"a": float("nan")}, "a: out-of-range"),
        ({"a": ["\ud800"]}, "a[0]: wrong-type"),
        ({"a": float("inf")}, "a: out-of-range"),
        (nested(300), "a.a.a…: nested-too-deep"),
        (nested(100_000), "a.a.a…: nested-too-deep"),
        (holding_itself(), "a[0].a…: nested-too-deep"),
    ],
)
def test_what_can_be_no_data_is_refused_with_its_path(given, expected):
    assert placed(refused(given)) == [expected]
    assert refused([given], "kubegpu_tenants")[0].text.startswith("kubegpu_tenants[0]")


def test_what_is_wrong_is_told_with_all_else_where_that_goes_on():
    problems = Problems()
    assert plain({"a": {1: 2, "b": 3}, "c": 10**30}, problems) == {"a": {"b": 3}, "c": 0}
    assert placed(problems) == ["a.1: wrong-type", "c: out-of-range"]


def test_what_doubles_itself_at_each_level_is_refused_early(monkeypatch):
    monkeypatch.setattr(schema, "_MOST_VALUES", 2000)
    value = "x"
    for _level in range(90):
        value = [value, value]
    # Written out, it would have 2^90 values.
    (problem,) = refused({"a": value})
    assert problem.code == "too-many-values"


def test_a_refusal_repeats_no_megabytes():
    problems = Problems()
    for value in ("x" * 10**6, ["x"] * 10**5, 16**5000, b"x" * 10**6):
        problems.typed(value, int, "a")
    problems.mapping({"k" * 10**6: 1}, {}, "b")
    problems.allowed("x" * 10**6, ("y",), "c")
    problems.add("empty", "d", "x" * 10**6)
    problems.extend([Problem("empty", "e")] * 10**5)
    with pytest.raises(TenancyError) as caught:
        problems.raise_if_any("what was given")
    assert len(caught.value.message) < 20_000
    assert caught.value.message.endswith("and 99506 more")
    assert caught.value.message.startswith("100006 problems in what was given")
