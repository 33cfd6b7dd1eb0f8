# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tutorial, typed in as it stands: each block of commands does what the page shows, and in the end nothing is left.

While its lab is there, the page for team leads is typed in, too.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, Lab
from ansible_collections.kubegpu.tenancy.tests.faults.steps import Step, steps

# The lab's own name, and that of the one in which make rehearse works.
LABS = Lab("kubegpu-lab"), Lab("kubegpu-rehearsal")
TUTORIAL = (ROOT / "docs/tutorial.md").read_text()
# Of the tutorial, the steps before this heading leave the teams as they were.
HEADING = "\n## Two releases, the same jobs\n"
BEFORE = steps(TUTORIAL.partition(HEADING)[0])
TEAM_LEAD = steps((ROOT / "docs/how-to/team-lead.md").read_text())
STEPS = {
    **{f"tutorial.md, line {step.line}": step for step in BEFORE},
    **{f"team-lead.md, line {step.line}": step for step in TEAM_LEAD},
    **{f"tutorial.md, line {step.line}": step for step in steps(TUTORIAL)[len(BEFORE) :]},
}
# Seconds for a block: the first run on a machine builds all images.
LONG, SHORT = 3600, 300


class Typist:
    """A reader who types in the page, block by block, in what to them is one shell."""

    def __init__(self, folder: Path) -> None:
        self.output, self.exported = folder / "output", folder / "exported"
        # What the page makes by mktemp goes with the folder, even after a failure.
        self.environment = os.environ | {"TMPDIR": str(folder)}

    def type(self, step: Step) -> tuple[int, str]:
        """Run a block within its time; its exit status, and what it printed."""
        limit = LONG if "make " in step.commands or "ansible-playbook " in step.commands else SHORT
        script = f"{step.commands}env --null >'{self.exported}'\n"
        command = ["timeout", "--kill-after=30", str(limit), "bash", "-euo", "pipefail", "-c", script]
        # Into a file, because a process that outlives the shell would keep a pipe open.
        with self.output.open("w") as output:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode == 0:
            self.environment = dict(entry.split("=", 1) for entry in self.exported.read_text().split("\0")[:-1])
        return done.returncode, self.output.read_text(errors="replace")


@pytest.fixture(scope="module", name="typist")
def _typist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typist]:
    there = [one for lab in LABS for one in lab.everything()]
    assert there == [], "the tutorial would take a user's lab away; make cleanup does"
    with LABS[0], LABS[1]:
        yield Typist(tmp_path_factory.mktemp("tutorial"))


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_what_the_page_shows_is_seen(typist: Typist, step: Step) -> None:
    code, said = typist.type(step)
    assert (code, step.missing(said)) == (0, []), said[-8000:]


def test_nothing_is_left_for_the_fixture_to_remove(typist: Typist) -> None:
    assert [one for lab in LABS for one in lab.everything()] == []
