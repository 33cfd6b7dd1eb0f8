# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module host_file."""

from __future__ import annotations

import getpass
import os
import pathlib
import sys

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.journal import Journal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run
from ansible_collections.kubegpu.tenancy.plugins.modules import host_file
from ansible_collections.kubegpu.tenancy.tests.unit.runs import untimed


@pytest.fixture
def journal(tmp_path: pathlib.Path) -> Journal:
    return Journal(str(tmp_path / "var" / "journal"))


@pytest.mark.parametrize(
    ("name", "before", "content", "changed"),
    [
        # Before Python 3.11, which brings a parser, the text counts.
        ("config.toml", b"# mine\na   = true\n", "a = true\n", sys.version_info < (3, 11)),
        ("config.toml", b"a = false\n", "a = true\n", True),
        ("config.conf", b"a   = 1\n", "a = 1\n", True),
        ("config.conf", None, "a = 1", True),
        ("config.conf", b"a = 1\n", "a = 1", False),
    ],
)
def test_host_files(
    tmp_path: pathlib.Path, journal: Journal, name: str, before: bytes | None, content: str, changed: bool
) -> None:
    path = tmp_path / name
    if before is not None:
        path.write_bytes(before)

    def run(state: str, check_mode: bool = False) -> Result:
        params = {"path": str(path), "content": content}
        return getattr(host_file, state)(Run(params, check_mode), journal)

    predicted = run("present", check_mode=True)
    why = "it does not exist" if before is None else "it holds something else"
    assert (predicted["changed"], predicted.get("steps")) == (
        changed,
        [{"step": f"write {path}", "why": why}] if changed else None,
    )
    assert untimed(run("present")) == untimed(predicted)
    assert not run("present")["changed"]
    predicted = run("absent", check_mode=True)
    assert predicted.get("steps") == ([{"step": f"restore {path}", "why": "absent is wanted"}] if changed else None)
    assert untimed(again := run("absent")) == untimed(predicted)
    assert again["outcome"] == ("restored" if changed else "unknown")
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_file_says_whose_it_is_and_since_when(tmp_path: pathlib.Path, journal: Journal) -> None:
    path = tmp_path / "config.conf"
    path.write_text("a = 2\n")
    os.utime(path, (1795514520, 1795514520))
    params = {"path": str(path), "content": "a = 1"}
    diff = host_file.present(Run(params, True), journal)["diff"]
    assert (diff["before"], diff["after"]) == ("a = 2\n", "a = 1\n")
    assert diff["written"] == {str(path): {"since": "2026-11-24T10:02:00Z", "by": f"owner {getpass.getuser()}"}}
    assert "written" not in host_file.present(Run(params | {"content": "a = 2"}, True), journal)["diff"]


def test_a_file_that_was_edited_since_is_left_alone_with_a_warning(tmp_path: pathlib.Path, journal: Journal) -> None:
    path = tmp_path / "config.conf"
    host_file.present(Run({"path": str(path), "content": "a = 1"}), journal)
    path.write_text("a = 2\n")
    run = Run({"path": str(path)})
    assert host_file.absent(run, journal)["outcome"] == "edited"
    assert run.warnings == [f"{path} was edited since it was written, and is left as it is."]
    assert path.read_text() == "a = 2\n"
