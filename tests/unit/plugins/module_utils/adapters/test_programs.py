# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import selectors
import time

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.programs import (
    LONGEST_LINE,
    MOST_LINES,
    last_lines,
    run_program,
)


def test_a_program_reads_and_writes_and_has_an_environment():
    script = 'cat; echo "$COLOUR" >&2; exit 3'
    assert run_program(["sh", "-c", script], data="given", environ_update={"COLOUR": "blue"}) == (3, "given", "blue\n")
    assert run_program(["cat"]) == (0, "", "")


class Stalled(selectors.PollSelector):
    """A host that is so busy that a process stands still after it heard of nothing for a second. AnsibleModule.run_command then reads nothing."""

    def select(self, timeout=None):
        events = super().select(timeout)
        if not events:
            time.sleep(1)
        return events


def test_what_a_program_writes_at_its_end_is_read_on_a_busy_host(monkeypatch):
    monkeypatch.setattr(selectors, "PollSelector", Stalled)
    command = ["sh", "-c", "sleep 1.3; echo said; echo why >&2; exit 1"]
    assert run_program(command) == (1, "said\n", "why\n")


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
