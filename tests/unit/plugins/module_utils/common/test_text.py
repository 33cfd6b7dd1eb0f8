# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import unicodedata

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.text import shown, shown_lines
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a pod", "a pod"),
        (None, ""),
        (7, "7"),
        ("web\x1b[2J\n\nPLAY RECAP ***\ngpu1 : ok=99", "web PLAY RECAP *** gpu1 : ok=99"),
        ("\x1b]0;title\x07rest", "rest"),
        ("v0.13.1😀", "v0.13.1"),
        ("a\u202eb\u2028c\ud800d\x00e", "a b c d e"),
        ("größe 日本", "größe 日本"),
        ("team\u3164a\u2800b\u115fc\ufe0f", "team a b c"),
        ("x" * 401, "x" * 399 + "…"),
        ("x" * 400, "x" * 400),
    ],
)
def test_one_printable_line(text, line):
    assert shown(text) == line


def test_a_text_of_any_length_costs_no_more_than_what_is_shown():
    assert len(shown("\x00" * 10_000_000 + "x", 20)) <= 20
    assert len(shown_lines("x\n" * 1_000_000, 10, 5).splitlines()) == 6


def test_lines_stay_lines():
    assert shown_lines("one\n  two\x1b[31m  red\nthree") == "one\n  two   red\nthree"
    assert shown_lines("a\nb\nc", lines=2) == "a\nb\n… and 1 more lines"


@given(st.text(), st.integers(1, 50))
def test_nothing_but_printable_characters_within_the_length(text, most):
    line = shown(text, most)
    assert len(line) <= most
    assert all(char <= "\uffff" and (char == " " or unicodedata.category(char)[0] not in "CZ" or char == "\xa0") for char in line)
    assert shown(line, most) == line
