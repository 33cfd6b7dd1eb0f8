# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import DEEPEST, LARGEST, Unreadable
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.verbatim import MOST_VALUES, Scalar, dump, load


@pytest.fixture(params=["in C", "in Python"], autouse=True)
def parser(request, monkeypatch):
    if request.param == "in Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
        monkeypatch.delattr(yaml, "CSafeDumper", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.fail("PyYAML has no parser in C here")


# Values that YAML 1.1, YAML 1.2 and other programs understand each in their own way, as they are written.
WRITTEN = [
    "12:34:56",
    "'12:34:56'",
    "on",
    '"on"',
    "yes",
    "017",
    "0o17",
    "0x1F",
    "1_000",
    "1e3",
    "1.50",
    ".5",
    ".nan",
    "2026-11-26",
    "2026-99-99",
    "2026-11-26 10:00:00",
    "=",
    "''",
    "true",
    "TRUE",
    "!!binary 'AAAA'",
    "!secret 'x'",
    "9" * 100,
]


@pytest.mark.parametrize("value", WRITTEN, ids=lambda value: value[:20])
def test_a_value_is_written_as_it_was(value):
    for text in (f"a: {value}\n", f"- {value}\n"):
        assert dump(load(text)) == text
    assert dump(load(f"{value}: b\n")) in (f"{value}: b\n", f"? {value}\n: b\n")
    # In another layout, too.
    assert dump(load(f"{{a: [{value}]}}\n")) == f"a:\n- {value}\n"


def test_what_is_read_is_text():
    assert load("{a: 12:34:56, b: [1, on, x, ~, '', null], c: {}, 1: }") == {
        "a": "12:34:56",
        "b": ["1", "on", "x", None, "", None],
        "c": {},
        "1": None,
    }
    assert load("key: |\n  a\n  b\n") == {"key": "a\nb\n"}


def test_lines_and_characters_stay():
    number = f"a: {'9' * 5000}\n"
    assert dump(load(number)) == number
    text = 'key: |\n  -----BEGIN\n  END\n\nfolded: >-\n  a b\nother: "\\xE9 \\U0001F600\\n"\n'
    assert load(dump(load(text))) == load(text)
    assert dump(load(text)).startswith("key: |\n  -----BEGIN\n  END\n")


def test_what_is_added_is_written_so_that_every_program_reads_a_text():
    added = {"a": "12:34:56", "b": "on", "c": "0o17", "d": "x"}
    text = dump(load("x: 1\n") | added)
    assert yaml.safe_load(text) == {"x": 1} | added
    assert load(text) == {"x": "1"} | added


def test_no_aliases_are_written():
    shared = {"x": "1"}
    assert dump([shared, shared]) == "- x: '1'\n- x: '1'\n"
    assert dump(load("- &a {x: 1}\n- *a\n- &b y\n- *b\n")) == "- x: 1\n- x: 1\n- y\n- y\n"


def test_merge_keys_are_what_they_bring():
    text = "b: &b {x: 1, y: 2}\nc: &c {y: 3, z: on}\nd: {<<: [*b, *c], x: 5}\ne: {<<: *b}\n'<<': 1\n"
    found = load(text)
    assert found["d"] == {"x": "5", "y": "2", "z": "on"}
    assert found["e"] == {"x": "1", "y": "2"}
    assert found["<<"] == "1"
    plain = yaml.load(text.replace("on", "'on'"), Loader=yaml.SafeLoader)
    assert yaml.safe_load(dump(load(text.replace("on", "'on'")))) == plain


def test_values_can_be_copied():
    copied = copy.deepcopy(load("a: 12:34:56\n"))
    assert isinstance(copied["a"], Scalar)
    assert dump(copied) == "a: 12:34:56\n"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n...\n", "~", b"", "\ufeff"])
def test_nothing(text):
    assert load(text) is None


def test_other_encodings():
    assert load("a: é\n".encode("utf-16")) == {"a": "é"}
    assert load("\ufeffa: é\n".encode()) == {"a": "é"}


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]\n" for level in range(1, 40))
STAIRS = "a0: &a0 {}\n" + "".join(f"a{level}: &a{level} [*a{level - 1}]\n" for level in range(1, 2 * DEEPEST))


@pytest.mark.parametrize(
    "text",
    [
        "KEY: [",
        "KEY\n--- \nb",
        "KEY: 1\nKEY: 2\n",
        "KEY: &a [*a]\n",
        "KEY: *a\n",
        "? [KEY]\n: 1\n",
        "<<: KEY\n",
        "KEY: !!set {a}\n",
        "KEY: !!python/object/apply:os.getcwd []\n",
        "KEY: \x00",
        b"KEY: \xff",
        "KEY: " + "[" * 100_000,
        "- " * 100_000 + "KEY",
        "KEY:\n" + "".join(" " * level + "a:\n" for level in range(1, 2 * DEEPEST)),
        BOMB,
        STAIRS,
        "#" * (LARGEST + 1),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_cannot_be_kept_is_refused_and_not_quoted(text):
    with pytest.raises(Unreadable) as failure:
        load(text)
    assert "KEY" not in str(failure.value)


@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ("{a: ", "}")])
def test_the_deepest_is_read_and_written(open_, close):
    text = open_ * DEEPEST + "x" + close * DEEPEST
    assert load(dump(load(text))) == load(text)
    with pytest.raises(Unreadable, match=f"nested more than {DEEPEST} deep"):
        load(open_ + text + close)


def test_so_many_values_are_read():
    with pytest.raises(Unreadable, match=f"more than {MOST_VALUES} values"):
        load("[" + "1," * MOST_VALUES + "]")
