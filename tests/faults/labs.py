# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab, and the playbooks on it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Lab:
    """The lab's inventory under another name, and the playbooks on it."""

    def __init__(self, name: str, *options: str) -> None:
        self.name = name
        self.options = options

    def command(self, book: str, *args: str) -> list[str]:
        playbook = ["ansible-playbook", f"playbooks/{book}.yml", "--inventory=inventories/lab"]
        return [*playbook, f"--extra-vars=lab_name={self.name}", *self.options, *args]

    def play(self, book: str, *args: str) -> str:
        """Run a playbook to its end; what it printed, also when it failed."""
        done = subprocess.run(self.command(book, *args), cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
        self.code = done.returncode
        return done.stdout + done.stderr

    def site(self, *args: str) -> str:
        said = self.play("site", *args)
        assert self.code == 0, said[-6000:]
        return said

    def kill_site_at(self, task: str, seconds: float) -> None:
        """Start site.yml and kill all of it without a warning, some seconds into a task."""
        with subprocess.Popen(
            self.command("site"), cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stdout
            reached = any(line.startswith("TASK [") and task in line for line in process.stdout)
            time.sleep(seconds if reached else 0)
            os.killpg(process.pid, signal.SIGKILL)
        assert reached, f"site.yml never came to the task {task}"

    def run(self, *command: str) -> str:
        """Run a program on the simulated host."""
        done = subprocess.run(["docker", "exec", self.name, *command], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def everything(self) -> list[str]:
        """What Docker has of this lab."""
        found = []
        for kind, what in (
            ("container", "{{.Names}}"),
            ("network", "{{.Name}}"),
            ("volume", "{{.Name}}"),
            ("image", "{{.Repository}}"),
        ):
            options = ["--all"] if kind == "container" else []
            listing = [
                "docker",
                kind,
                "ls",
                *options,
                f"--filter=label=kubegpu.tenancy.lab={self.name}",
                f"--format={kind} {what}",
            ]
            found += subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
        return found


def changed(said: str) -> int:
    """How many tasks changed something, by the play recap."""
    return sum(int(count) for count in re.findall(r"changed=(\d+)", said))
