# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kills of the fault tests, on a playbook that only sleeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab


class Sleeping(Lab):
    """A playbook that sleeps in a task, and then leaves a file."""

    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__("none")
        self.after, self.book = folder / "after", folder / "book.yml"
        tasks = [
            {"name": "Leave out", "ansible.builtin.command": "false", "when": False},
            {"name": "Sleep", "ansible.builtin.command": f"sleep {seconds}"},
            {"name": "Go on", "ansible.builtin.command": f"touch {self.after}"},
        ]
        self.book.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))

    def command(self, book: str, *_args: str, **_more: str) -> list[str]:
        return ["ansible-playbook", str(self.book)]


def test_a_run_is_killed_in_the_middle_of_a_task(tmp_path: Path) -> None:
    lab = Sleeping(tmp_path, 20)
    lab.kill_at("site", "Sleep", 0.5)
    assert not lab.after.exists()


def test_a_run_that_has_ended_is_not_killed(tmp_path: Path) -> None:
    lab = Sleeping(tmp_path, 0)
    with pytest.raises(AssertionError, match="had ended"):
        lab.kill_at("site", "Sleep", 10)
    with pytest.raises(AssertionError, match="had ended"):
        lab.kill_when("site", lambda: True, 10)
    assert lab.after.exists()
