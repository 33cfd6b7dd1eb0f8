# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of backups in S3, by rclone and the nightly script of the ops repository. Needs no lab."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import Program
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._backups import Store
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, free_ports
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import built

# A server of S3 that checks signatures, with the objects in files.
SERVER = Program("versitygw", "v1.8.0", "github.com/versity/versitygw")
ACCESS, SECRET = "access-of-the-test", "secret-of-the-test"
BUCKET = "elsewhere:kubegpu"
# Seconds for the server to listen, and for a run of a command.
START, RUN = 60, 120
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


@pytest.fixture(name="program", scope="module")
def _program() -> Path:
    """The server, built once for the user's cache, as the lab's programs are."""
    return built(Path(__file__).parent, SERVER).program_dir(SERVER) / SERVER.name


def answers_at(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Elsewhere:
    """A server of S3 with an empty bucket, and the environment of a pipeline that copies backups to it.

    :ivar server: its process; ``log``, where it writes the requests that it answered.
    """

    def __init__(self, program: Path, folder: Path) -> None:
        self.backups, self.log = folder / "backups", folder / "requests"
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        self.environment = self._environment(folder, address)
        (folder / "objects").mkdir()
        command = [program, f"--port={address}", "--quiet", f"--access-log={self.log}", "posix", folder / "objects"]
        keys = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
        self.server = subprocess.Popen(command, env=os.environ | keys, stdout=subprocess.DEVNULL)
        end = time.monotonic() + START
        while not answers_at(port):
            assert self.server.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server does not listen"
            time.sleep(0.2)

    def _environment(self, folder: Path, address: str) -> dict[str, str]:
        programs = folder / "programs"
        programs.mkdir()
        for name, script in (("ansible-playbook", "exit 0"), ("curl", "cat >&2")):
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        # Settings for Amazon's own programs, which rclone would read.
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return own | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "ALERT_WEBHOOK": "https://hook.example",
            "BACKUP_FOLDER": str(self.backups),
            "BACKUP_REMOTE": f"{BUCKET}/backups",
            "RCLONE_CONFIG": "/dev/null",
            "RCLONE_CONFIG_ELSEWHERE_TYPE": "s3",
            "RCLONE_CONFIG_ELSEWHERE_PROVIDER": "Other",
            "RCLONE_CONFIG_ELSEWHERE_ENDPOINT": f"http://{address}",
            "RCLONE_CONFIG_ELSEWHERE_REGION": "us-east-1",
            "RCLONE_CONFIG_ELSEWHERE_ACCESS_KEY_ID": ACCESS,
            "RCLONE_CONFIG_ELSEWHERE_SECRET_ACCESS_KEY": SECRET,
            "RCLONE_RETRIES": "1",
            "RCLONE_LOW_LEVEL_RETRIES": "1",
        }

    def rclone(self, *args: str | Path) -> None:
        subprocess.run(["rclone", *args], env=self.environment, check=True, timeout=RUN)

    def night(self, **settings: str) -> tuple[int, str]:
        """Run the nightly script, whose playbooks all pass; return its exit status and what it said.

        :arg settings: what is another one in its environment.
        """
        command = [ROOT / "examples/ops-repo/ci/nightly"]
        done = subprocess.run(command, env=self.environment | settings, capture_output=True, text=True, timeout=RUN, check=False)
        return done.returncode, done.stdout + done.stderr

    def lose(self) -> None:
        shutil.rmtree(self.backups)
        self.backups.mkdir()

    def bring_back(self) -> None:
        self.rclone("copy", f"{BUCKET}/backups", self.backups)

    def digests(self) -> dict[str, str]:
        """SHA-256 of each file in the folder of the backups, by its path there."""
        files = [path for path in self.backups.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.backups)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def written(self) -> int:
        """How many objects the server was sent."""
        return self.log.read_text().count(" s3_PutObject ")

    def store(self) -> Store:
        return Store(str(self.backups), "dc1", "web")


@pytest.fixture(name="elsewhere")
def _elsewhere(program: Path, tmp_path: Path) -> Iterator[Elsewhere]:
    elsewhere = Elsewhere(program, tmp_path)
    try:
        elsewhere.rclone("mkdir", BUCKET)
        yield elsewhere
    finally:
        elsewhere.server.kill()
        elsewhere.server.wait()


def test_backups_that_are_lost_here_come_back_whole(elsewhere: Elsewhere) -> None:
    kept = elsewhere.store().keep(RECORD, CONTENT, None)
    before = elsewhere.digests()
    assert elsewhere.night()[0] == 0
    elsewhere.lose()
    # The next night has nothing to copy, and deletes nothing.
    assert elsewhere.night()[0] == 0
    elsewhere.bring_back()
    assert elsewhere.digests() == before
    (found,) = elsewhere.store().all()
    assert found == kept
    assert elsewhere.store().load(found, bytes) == CONTENT


def test_what_is_there_already_is_not_sent_again(elsewhere: Elsewhere) -> None:
    elsewhere.store().keep(RECORD, CONTENT, None)
    assert elsewhere.night()[0] == 0
    # An archive and its record.
    assert elsewhere.written() == 2
    assert elsewhere.night()[0] == 0
    assert elsewhere.written() == 2
    elsewhere.store().keep(RECORD | {"at": "2026-11-28T02:00:00+00:00"}, CONTENT, None)
    assert elsewhere.night()[0] == 0
    assert elsewhere.written() == 4


def test_a_copy_that_is_damaged_is_refused_and_half_of_one_is_none(elsewhere: Elsewhere) -> None:
    kept = elsewhere.store().keep(RECORD, CONTENT, None)
    assert elsewhere.night()[0] == 0
    Path(kept.path).write_bytes(CONTENT.upper())
    elsewhere.rclone("copy", elsewhere.backups, f"{BUCKET}/backups")
    elsewhere.lose()
    elsewhere.bring_back()
    (found,) = elsewhere.store().all()
    with pytest.raises(TenancyError, match="another checksum"):
        elsewhere.store().load(found, bytes)
    Path(found.path).unlink()
    assert elsewhere.store().all() == []


def test_a_place_that_takes_nothing_fails_the_night_and_is_told(elsewhere: Elsewhere) -> None:
    elsewhere.store().keep(RECORD, CONTENT, None)
    wrong = {"RCLONE_CONFIG_ELSEWHERE_SECRET_ACCESS_KEY": "another-secret"}
    assert_failed(*elsewhere.night(**wrong), "SignatureDoesNotMatch")
    # It is not made anew, because it would be one without the rules of the former one.
    elsewhere.rclone("purge", BUCKET)
    assert_failed(*elsewhere.night(), "NoSuchBucket")
    elsewhere.server.kill()
    elsewhere.server.wait()
    assert_failed(*elsewhere.night(), "connection refused")


def assert_failed(code: int, said: str, reason: str) -> None:
    assert code == 1, said
    assert reason in said
    assert "GPU clusters: backup failed" in said
    assert SECRET not in said
