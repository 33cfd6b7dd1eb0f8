# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import (
    DEEPEST,
    Unreadable,
    depth,
    load_document,
    load_documents,
    load_manifests,
    parse_json,
)

TEXT = "a: 1\n---\n---\nb: [x, 2026-11-25]\n"
UNSAFE = "!!python/object/apply:os.getcwd []"


@pytest.fixture(params=["in C", "in Python"], autouse=True)
def parser(request, monkeypatch):
    if request.param == "in Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.fail("PyYAML has no parser in C here")


def test_documents_are_plain_data():
    assert load_documents(TEXT) == list(yaml.safe_load_all(TEXT))
    assert load_document(TEXT) == {"a": 1}
    assert load_document(b"") is None


def test_nothing_but_plain_data_is_made():
    with pytest.raises(Unreadable):
        load_document(UNSAFE)


# What sigs.k8s.io/yaml v1.6.0 makes of each text (yaml.YAMLToJSON).
OF_KUBERNETES = {
    "a: =": {"a": "="},
    "a: <<": {"a": "<<"},
    "a: 1:30": {"a": "1:30"},
    "a: 190:20:30.15": {"a": "190:20:30.15"},
    "a: 2026-11-25": {"a": "2026-11-25"},
    "a: 2026-11-25T00:00:00Z": {"a": "2026-11-25T00:00:00Z"},
    "a: !!timestamp 2026-11-25": {"a": "2026-11-25"},
    "[y, Y, yes, on, True]": [True] * 5,
    "[n, N, NO, Off, false]": [False] * 5,
    "[tRue, nOT, '1', !!str 1, _1, 0x, 1e]": ["tRue", "nOT", "1", "1", "_1", "0x", "1e"],
    "[0644, 0o644, -0o7, 0x1F, 0b11, 1_000, +1, 0]": [420, 420, -7, 31, 3, 1000, 1, 0],
    "[089, 1e3, 12e03, 1., .5, -1_0.5]": [89, 1000, 12000, 1, 0.5, -10.5],
    "{on: a, 1: b, 1.5: c, 2026-11-25: d}": {"true": "a", "1": "b", "1.5": "c", "2026-11-25": "d"},
    "[~, null, '']": [None, None, ""],
    "a: {<<: {b: c}}": {"a": {"b": "c"}},
}


@pytest.mark.parametrize("text", OF_KUBERNETES)
def test_manifests_are_read_as_kubernetes_programs_read_them(text):
    assert json.dumps(load_manifests(text)) == json.dumps([OF_KUBERNETES[text]])


@pytest.mark.parametrize(
    "text", ["a: !!binary aGk=", "!!set {a}", "a: 1e999", "a: " + "9" * 5000, "a: 1." + "9" * 5000, "[" * 101, UNSAFE]
)
def test_of_a_manifest_nothing_but_data_of_json_is_made(text):
    with pytest.raises(Unreadable):
        load_manifests(text)


DEEP = 100_000
ALIASES = "a: &a [x]\nb: [" + ", ".join(["*a"] * 101) + "]"
# Each level is twice the one before, as an alias, and merged into it.
DOUBLED = "a0: &a0 [x]\n" + "".join(f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]\n" for level in range(1, 40))
MERGED = "a0: &a0 {k: v}\n" + "".join(f"a{level}: &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}\n" for level in range(1, 40))


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP,
        "{" * DEEP,
        "{a: " * DEEP,
        "- " * 2000,
        "? " * 2000,
        # Line breaks of YAML that are none of Python's, and a mark of the byte order.
        "#\r" + "- " * DEEP + "x",
        "#\x85" + "- " * DEEP + "x",
        "# \u2028" + "? " * DEEP + "x",
        "\ufeff" + "- " * DEEP + "x",
        DOUBLED,
        MERGED,
        # Numbers without a bound: of base 60, of base 16, decimal, and none at all.
        "a: 1" + ":1" * 40_000,
        "a: 1" + ":1" * 40_000 + ".5",
        "a: 0x" + "f" * 5000,
        "a: " + "9" * 5000,
        "a: !!int ''",
        "a: !!float ''",
        "".join(f"{' ' * level}a:\n" for level in range(200)),
        "[" * DEEP + "]" * DEEP,
        b"[" * DEEP,
        ALIASES,
        "a: {",
        "a: 2026-99-99",
        "? {a: b}\n: c",
        b"\xff\xfe\xfa",
        "x" * 1001,
    ],
)
def test_what_is_too_deep_too_large_or_no_yaml_is_refused(text):
    with pytest.raises(Unreadable):
        load_document(text, largest=2 * DEEP if len(text) > 20_000 else 50_000 if text != "x" * 1001 else 1000)


def test_an_ordinary_configuration_is_read_however_it_is_indented():
    deep = "".join(f"{'  ' * level}a:\n" for level in range(60)) + "  " * 60 + "b: [{}, [], {c: [1]}]\n"
    value = load_document(deep)
    assert depth(value) == 64
    shared = load_document("a: &a {b: 1}\nc: *a")
    assert shared == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    "text",
    ["[" * DEEP, '{"a":' * DEEP, "[NaN]", "1e999", "[-1e999]", '{"a": Infinity}', "", "{", b"\xff", "1" * 5000, " " * 1001],
)
def test_what_is_too_deep_too_large_or_no_json_is_refused(text):
    with pytest.raises(Unreadable):
        parse_json(text, largest=1000 if text == " " * 1001 else 10 * DEEP)


def test_json_is_plain_data():
    assert parse_json('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
    assert parse_json(b"[]") == []


def test_a_value_that_holds_itself_is_deeper_than_any_bound():
    value = {}
    value["a"] = [value]
    assert depth(value) == DEEPEST + 1
    shared = []
    for _level in range(90):
        shared = [shared, shared]
    assert depth(shared) == 91
    assert [depth(one) for one in (1, "x", [], {"a": {}}, [[[]]])] == [0, 0, 1, 2, 3]
