# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.filter.text_table import text_table


def test_numbers_to_the_right():
    assert text_table([{"tenant": "web", "GPUs": 0}, {"tenant": "ml", "GPUs": 16}]) == [
        "tenant  GPUs",
        "------  ----",
        "web        0",
        "ml        16",
    ]


def test_no_rows():
    assert text_table([]) == []


def test_cells_may_be_empty():
    assert text_table([{"tenant": "web", "GPUs": "", "note": ""}, {"tenant": "ml", "GPUs": 16, "note": ""}]) == [
        "tenant  GPUs  note",
        "------  ----  ----",
        "web",
        "ml        16",
    ]


def test_one_word_among_numbers_makes_it_text():
    assert text_table([{"a": 1, "long head": "x"}, {"a": "many", "long head": "y"}])[2:] == ["1     x", "many  y"]


def test_lists_and_what_is_true_or_not_there():
    rows = [
        {"image": "a", "optional": False, "digest": None, "for": ["x", "y"]},
        {"image": "b", "optional": True, "digest": None, "for": []},
    ]
    assert text_table(rows)[2:] == ["a                        x, y", "b      yes"]
