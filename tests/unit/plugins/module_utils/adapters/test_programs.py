# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.programs import LONGEST_LINE, MOST_LINES, last_lines


def test_what_a_program_said_is_shown_as_it_is():
    assert last_lines("") == ""
    assert last_lines("Error: one\n  two\n") == "Error: one\n  two\n"


def test_its_end_is_shown_where_it_said_much():
    lines = [f"line {number}" for number in range(10_000)]
    assert last_lines("\n".join(lines)).split("\n") == lines[-MOST_LINES:]
    assert len(last_lines("a" * 10_000_000)) == LONGEST_LINE
    assert last_lines("\n" * 10_000_000 + "Error: it").endswith("\nError: it")


def test_what_others_wrote_in_it_moves_no_cursor():
    assert last_lines("Error: \x1b[2Jdenied\x07") == "Error:  denied"
