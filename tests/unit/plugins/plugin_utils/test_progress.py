# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.progress_file import GONE, LOOKED, ProgressFile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Superseded
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import LISTENER, announce
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._progress import MOST, ProgressAction, lines


def read(path, now):
    return lines("gpu1", f"{path.read_text()}{now}\n")


def test_what_each_tenant_is_at_and_for_how_long(tmp_path):
    now = [100.0]
    progress = ProgressFile(str(tmp_path / "p.json"), lambda: now[0])
    progress.doing("ml", "Install KAI Scheduler")
    now[0] = 110.0
    progress.doing("ml", "Install KAI Scheduler", "waiting for KAI Scheduler: binder 0/1")
    progress.doing("web", "Write the kubeconfig")
    assert read(tmp_path / "p.json", 115) == [
        "gpu1: ml: Install KAI Scheduler, 15 s, waiting for KAI Scheduler: binder 0/1",
        "gpu1: web: Write the kubeconfig, 5 s",
    ]
    progress.done("ml")
    progress.doing("web", "Check")
    assert read(tmp_path / "p.json", 110) == ["gpu1: web: Check, 0 s"]


def test_there_are_no_more_lines_than_people_read(tmp_path):
    progress = ProgressFile(str(tmp_path / "p.json"), lambda: 0.0)
    for number in range(MOST + 3):
        progress.doing(f"t{number}", "x\x1b[2J")
    found = read(tmp_path / "p.json", 1)
    assert (len(found), found[-1], "\x1b" in str(found)) == (MOST + 1, "gpu1: and 3 more", False)


@pytest.mark.parametrize("path", ["", "/there/is/none/p.json"])
def test_a_file_that_cannot_be_written_is_nobodys_failure(path):
    progress = ProgressFile(path)
    progress.doing("ml", "x")
    progress.done("ml")


def test_nothing_goes_on_for_a_controller_that_has_gone(tmp_path):
    progress = ProgressFile(str(tmp_path / "p.json"), lambda: 1000.0)
    progress.check()
    looked = tmp_path / f"p.json{LOOKED}"
    looked.touch()
    os.utime(looked, (1000 - GONE, 1000 - GONE))
    progress.check()
    os.utime(looked, (999 - GONE, 999 - GONE))
    with pytest.raises(Superseded, match="the run that this is for has ended"):
        progress.check()
    ProgressFile("").check()


def test_what_is_read_while_it_is_written_is_whole(tmp_path):
    progress = ProgressFile(str(tmp_path / "p.json"))
    progress.doing("ml", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
    assert json.loads((tmp_path / "p.json").read_text())["ml"]["what"] == "x"


def test_what_a_block_waits_for_is_noted_until_it_ends(tmp_path):
    progress = ProgressFile(str(tmp_path / "p.json"), lambda: 100.0)
    before = LISTENER.get()
    with progress.during("ml", "Install KAI Scheduler"):
        assert read(tmp_path / "p.json", 107) == ["gpu1: ml: Install KAI Scheduler, 7 s"]
        announce("KAI Scheduler", "binder 0/1")
        assert read(tmp_path / "p.json", 107) == ["gpu1: ml: Install KAI Scheduler, 7 s, waiting for KAI Scheduler: binder 0/1"]
    assert LISTENER.get() is before


def test_a_block_ends_at_a_wait_where_it_is_to_go_no_further():
    others, seen = [], []

    def check():
        if others:
            raise Superseded("Another one began.")

    def work():
        with ProgressFile("").during("ml", "x", check):
            seen.append("began")
            others.append("another")
            announce("y", "z")
            seen.append("waited")

    for _time in range(2):
        with pytest.raises(Superseded, match="Another one began"):
            work()
    assert seen == ["began"]


@pytest.mark.parametrize(("args", "async_val"), [({"progress": "/p"}, 0), ({}, 60)])
def test_nobody_looks_at_a_module_that_goes_on_by_itself(monkeypatch, args, async_val):
    monkeypatch.setattr(NormalAction, "run", lambda *_args: {"changed": False})
    task = SimpleNamespace(args=dict(args), async_val=async_val)
    action = ProgressAction(task, SimpleNamespace(_play_context=SimpleNamespace(no_log=False)), None, None, None, None)
    assert action.run() == {"changed": False}
    assert task.args == args
