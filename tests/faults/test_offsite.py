# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of backups on another machine, by rclone and the nightly script of the ops repository. Needs no lab."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._backups import Store
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, free_ports

CONTENT = b"an archive" * 1000
RECORD = {
    "format": 1,
    "tenant": "web",
    "at": "2026-11-27T02:00:00+00:00",
    "version": "0.36.1",
    "kubernetes_version": "v1.35.4",
    "size": len(CONTENT),
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
}


class Elsewhere:
    """A server of WebDAV, and the environment of a pipeline that copies backups to it.

    :ivar server: its process; ``files``, where it has them.
    """

    def __init__(self, folder: Path) -> None:
        self.files = folder / "elsewhere"
        self.files.mkdir()
        self.backups = folder / "backups"
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        programs = folder / "programs"
        programs.mkdir()
        for name, script in (("ansible-playbook", "exit 0"), ("curl", "cat >&2")):
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "ALERT_WEBHOOK": "https://hook.example",
            "BACKUP_FOLDER": str(self.backups),
            "BACKUP_REMOTE": "elsewhere:kubegpu",
            "RCLONE_CONFIG": "/dev/null",
            "RCLONE_CONFIG_ELSEWHERE_TYPE": "webdav",
            "RCLONE_CONFIG_ELSEWHERE_URL": f"http://{address}",
            "RCLONE_CONFIG_ELSEWHERE_VENDOR": "other",
            "RCLONE_RETRIES": "1",
            "RCLONE_LOW_LEVEL_RETRIES": "1",
        }
        command = ["rclone", "serve", "webdav", str(self.files), f"--addr={address}"]
        self.server = subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)
        assert self.server.stderr
        line = self.server.stderr.readline()
        assert "erv" in line, line

    def night(self) -> tuple[int, str]:
        """Run the nightly script, whose playbooks all pass; return its exit status and what it said."""
        command = [ROOT / "examples/ops-repo/ci/nightly"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    def bring_back(self) -> None:
        subprocess.run(["rclone", "copy", "elsewhere:kubegpu", self.backups], env=self.environment, check=True, timeout=120)

    def store(self) -> Store:
        return Store(str(self.backups), "dc1", "web")


@pytest.fixture(name="elsewhere")
def _elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    elsewhere = Elsewhere(tmp_path)
    try:
        yield elsewhere
    finally:
        elsewhere.server.kill()
        elsewhere.server.wait()


def test_backups_that_are_lost_here_come_back_whole(elsewhere: Elsewhere) -> None:
    kept = elsewhere.store().keep(RECORD, CONTENT, None)
    assert elsewhere.night()[0] == 0
    # The next night has nothing to copy, and deletes nothing.
    shutil.rmtree(elsewhere.backups)
    elsewhere.backups.mkdir()
    assert elsewhere.night()[0] == 0
    elsewhere.bring_back()
    (found,) = elsewhere.store().all()
    assert found == kept
    assert elsewhere.store().load(found, bytes) == CONTENT


def test_a_copy_that_is_damaged_is_refused_and_half_of_one_is_none(elsewhere: Elsewhere) -> None:
    elsewhere.store().keep(RECORD, CONTENT, None)
    assert elsewhere.night()[0] == 0
    shutil.rmtree(elsewhere.backups)
    (archive,) = elsewhere.files.rglob("*.tar.gz")
    archive.write_bytes(CONTENT.upper())
    elsewhere.bring_back()
    (found,) = elsewhere.store().all()
    with pytest.raises(TenancyError, match="another checksum"):
        elsewhere.store().load(found, bytes)
    Path(found.path).unlink()
    assert elsewhere.store().all() == []


def test_a_place_that_does_not_answer_fails_the_night_and_is_told(elsewhere: Elsewhere) -> None:
    elsewhere.store().keep(RECORD, CONTENT, None)
    elsewhere.server.kill()
    elsewhere.server.wait()
    code, said = elsewhere.night()
    assert code == 1
    assert "GPU clusters: backup failed" in said
