# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong while a lab's cache is filled: real gcc, skopeo and docker-registry on a recipe of two programs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

# Builds the recipe in a process that can be killed; argv: cache, the role's files, MiB in the image.
BUILD = """
import json, sys
from pathlib import Path
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.lab.plugins.plugin_utils._build import Builder
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import File, Image, Program, Recipe

programs = tuple(Program(name, "v1", c_source=f"role:{name}/main.c") for name in ("quick", "slow"))
image = Image("example.com/big:1", (File("/big", "text:" + "x" * int(sys.argv[3]) * 2**20),))
parts = Recipe(programs, (), (), (image,), (), Image("host", ()), (), {})
builder = Builder(parts, Path(sys.argv[1]), Path(sys.argv[2]), lambda line: print(line, flush=True))
before = builder.missing()
try:
    builder.build()
except TenancyError as exc:
    print(exc.message)
still = builder.missing()
print(json.dumps([name for name in before if name not in still]))
"""
MAIN = "int main(void) { return 0; }\n"
EVERYTHING = ["program quick-v1", "program slow-v1", "image example.com/big:1"]


@pytest.fixture
def role_files(tmp_path: Path) -> Path:
    for name in ("quick", "slow"):
        (tmp_path / "role" / name).mkdir(parents=True)
        (tmp_path / "role" / name / "main.c").write_text(MAIN)
    return tmp_path / "role"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def build(cache: Path, role_files: Path) -> list[str]:
    command = [sys.executable, "-c", BUILD, str(cache), str(role_files), "1"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return json.loads(said[-1])


def kill_at(
    step: str, cache: Path, role_files: Path, path: str = os.environ["PATH"], afterwards: Callable[[], object] = lambda: None
) -> None:
    """Start a build, and kill it without a warning as soon as something works on the step; then nothing may go on."""
    command = [sys.executable, "-c", BUILD, str(cache), str(role_files), "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PATH": path}) as process:
        assert process.stdout
        for line in process.stdout:
            if step in line:
                break
        within(10, lambda: working_in(cache, but="setpriv") - {process.pid})
        process.send_signal(signal.SIGKILL)
    within(10, lambda: afterwards() or not working_in(cache))


def working_in(cache: Path, but: str = "") -> set[int]:
    """Processes whose command line names the cache, but those of one program."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and str(cache) in (entry / "cmdline").read_text()
                and (entry / "comm").read_text().strip() != but
            ):
                found.add(int(entry.name))
        except OSError:
            pass
    return found


def within(seconds: float, holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_compiler_leaves_nothing_and_the_next_run_goes_on(cache, role_files):
    (role_files / "slow/main.c").unlink()
    os.mkfifo(role_files / "slow/main.c")

    def end_of_file() -> None:
        # gcc ends with its build, the compiler proper with the file it reads.
        with contextlib.suppress(OSError):
            os.close(os.open(role_files / "slow/main.c", os.O_WRONLY | os.O_NONBLOCK))

    kill_at("program slow-v1", cache, role_files, afterwards=end_of_file)
    assert [path.name.rpartition("-")[0] for path in (cache / "programs").iterdir()] == ["quick-v1"]

    (role_files / "slow/main.c").unlink()
    (role_files / "slow/main.c").write_text(MAIN)
    assert build(cache, role_files) == EVERYTHING[1:]
    assert not (cache / "tmp/build").exists()
    assert build(cache, role_files) == []


def test_a_killed_push_leaves_no_registry_and_the_next_run_goes_on(cache, role_files, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/skopeo").write_text(f"#!/bin/sh\n# {cache}\nexec sleep 600\n")
    (tmp_path / "bin/skopeo").chmod(0o755)
    kill_at("image example.com/big:1", cache, role_files, f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    assert build(cache, role_files) == EVERYTHING[2:]
    assert build(cache, role_files) == []


def test_a_full_disk_is_explained_and_the_next_run_goes_on(cache, role_files):
    # A file system of its own, seen by no other process.
    cache.mkdir()
    script = (
        'mount -t tmpfs -o size=6m tmpfs "$1" && "$3" -c "$4" "$1" "$2" 8 &&'
        'mount -o remount,size=60m tmpfs "$1" && "$3" -c "$4" "$1" "$2" 8'
    )
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    command = [*unshare, "sh", "-c", script, "sh", str(cache), str(role_files), sys.executable, BUILD]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"3 of 3, image example.com/big:1: [Errno 28] No space left on device. The disk of {cache} is full" in said
    assert [json.loads(line) for line in said.splitlines() if line.startswith("[")] == [EVERYTHING[:2], EVERYTHING[2:]]
