# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.kubegpu.tenancy.plugins.action.tenants import MOST, lines
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.progress_file import GONE, LOOKED, ProgressFile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError


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
    with pytest.raises(TenancyError, match="the run that this is for has ended"):
        progress.check()
    ProgressFile("").check()


def test_what_is_read_while_it_is_written_is_whole(tmp_path):
    progress = ProgressFile(str(tmp_path / "p.json"))
    progress.doing("ml", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
    assert json.loads((tmp_path / "p.json").read_text())["ml"]["what"] == "x"
