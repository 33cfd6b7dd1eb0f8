# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both actions with backups, over a shell here as the host, and a module that reads and writes files there."""

from __future__ import annotations

import datetime
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.kubegpu.tenancy.plugins.action import tenant_backup, tenant_restore
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils import _backups, _transfer
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._backups import Store

HOST = {"inventory_hostname": "gpu1"}


def record(tenant, content=b"content", hour=2, **more):
    return {
        "format": 1,
        "tenant": tenant,
        "at": f"2026-11-27T{hour:02}:00:00+00:00",
        "version": "0.36.1",
        "kubernetes_version": "v1.35.4",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "volumes_left_out": ["models"],
    } | more


class Host:
    """A host with a folder for the task, and what the module does there."""

    def __init__(self, tmp_path, monkeypatch):
        self.folder = tmp_path / "the host's $(folder)"
        self.folder.mkdir()
        self.own = tmp_path / "tmp"
        self.own.mkdir()
        monkeypatch.setenv("TMPDIR", str(self.own))
        self.backups = str(tmp_path / "backups")
        self.made = {"web": b"content", "ml": b"more" * 100}
        self.broken = []
        self.reasons = {}
        self.restored = self.asked = None
        self.hour, self.forgotten, self.leaves = 2, [], True
        self.loader = DataLoader()
        monkeypatch.setattr(_backups, "utc_now", lambda: datetime.datetime(2026, 11, 28, tzinfo=datetime.timezone.utc))
        monkeypatch.setattr(NormalAction, "run", lambda action, *_rest: self.module(action._task))

    def module(self, task):
        args = self.asked = dict(task.args)
        if "record" in args:
            self.restored = None if task.check_mode else Path(args["path"]).read_bytes()
            return {"changed": True}
        made = {name: self.made[name] for name in args["tenants"] if name in self.made}
        if not task.check_mode:
            for name, content in made.items():
                Path(args["path"], f"{name}.tar.gz").write_bytes(b"half" if name in self.broken else content)
        result = {"changed": True, "backups": [record(name, content, self.hour) for name, content in made.items()]}
        result["tenants"] = [{"name": name, "forgotten": self.forgotten} for name in made]
        if missing := [name for name in args["tenants"] if name not in self.made]:
            problems = [{"code": self.reasons.get(name, "no-tenant"), "text": f"{name}: there is none."} for name in missing]
            result["tenants"] += [
                {"name": name, "problems": [problem], "leaves_snapshots": self.leaves} for name, problem in zip(missing, problems)
            ]
            return result | {"failed": True, "msg": "…", "problems": problems}
        return result

    def action(self, kind, check_mode=False, **args):
        shell = SimpleNamespace(tmpdir=str(self.folder), join_path=lambda *parts: "/".join(parts))
        connection = Mock(_play_context=SimpleNamespace(no_log=False), _shell=shell)
        task = Mock(check_mode=check_mode, async_val=0, args={"folder": self.backups} | args)
        action = kind.ActionModule(task, connection, Mock(), self.loader, None, None)
        action._low_level_execute_command = self.execute
        action._transfer_file = shutil.copy
        action._fixup_perms2 = lambda paths: None
        return action.run(None, HOST)

    @staticmethod
    def execute(command, **_options):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": f"Welcome!\n{done.stdout}", "stderr": done.stderr}

    def left(self):
        """What the task left on the host."""
        return [*self.folder.iterdir(), *self.own.iterdir()]

    def store(self, tenant):
        return Store(self.backups, "gpu1", tenant)


@pytest.fixture(name="host")
def _host(tmp_path, monkeypatch):
    return Host(tmp_path, monkeypatch)


def test_archives_come_to_the_controller_and_are_listed(host, monkeypatch):
    monkeypatch.setattr(_transfer, "PIECE", 60)
    result = host.action(tenant_backup, tenants=["web", "ml"])
    assert not result.get("failed")
    assert [Path(one["path"]).read_bytes() for one in result["backups"]] == [b"content", b"more" * 100]
    assert host.left() == []
    assert result["listing"] == [
        "web: 1 backup",
        "  2026-11-27T02:00:00+00:00, 0.0 MB, vCluster 0.36.1, Kubernetes v1.35.4, without the data of 1 volume",
        "ml: 1 backup",
        "  2026-11-27T02:00:00+00:00, 0.0 MB, vCluster 0.36.1, Kubernetes v1.35.4, without the data of 1 volume",
    ]


def test_check_mode_lists_what_there_is(host):
    host.store("web").keep(record("web", hour=1), b"content", None)
    result = host.action(tenant_backup, check_mode=True, tenants=["web", "ml"])
    assert (result["listing"][0], result["listing"][-1]) == ("web: 1 backup", "ml: no backup")
    assert len(host.store("web").all()) == 1


def leftovers(host):
    return host.store("web").leftovers_of()


def test_a_run_whose_backup_is_kept_leaves_nothing(host):
    for host.hour in (2, 3):
        host.action(tenant_backup, tenants=["web", "ml"])
        assert (host.asked["forget"], leftovers(host)) == ({"web": [], "ml": []}, [])
    host.action(tenant_backup, check_mode=True, tenants=["web"])
    assert leftovers(host) == []


def test_the_snapshots_of_a_run_that_was_killed_are_deleted_by_the_next_one(host):
    run = host.module

    def killed(task):
        run(task)
        raise KeyboardInterrupt

    host.module = killed
    with pytest.raises(KeyboardInterrupt):
        host.action(tenant_backup, tenants=["web"])
    (left,) = leftovers(host)
    assert left == host.asked["run"]
    host.module = run
    # It stays until the module has deleted them.
    for host.hour, host.forgotten, expected in ((2, [], [left]), (3, [left], [])):
        host.action(tenant_backup, tenants=["web"])
        assert (host.asked["forget"], leftovers(host)) == ({"web": [left]}, expected)


def test_a_run_that_goes_on_is_no_leftover(host):
    run = host.module

    def meanwhile(task):
        assert leftovers(host) == []
        return run(task)

    host.module = meanwhile
    host.action(tenant_backup, tenants=["web"])


def test_a_run_that_a_backup_names_is_no_leftover(host):
    """Also if the run was killed right after its record was written."""
    host.store("web").keep(record("web", hour=1, run="a" * 32), b"content", None)
    host.store("web").leftovers.add("web", "a" * 32)
    assert leftovers(host) == []


@pytest.mark.parametrize("left", [True, False])
def test_what_fails_is_deleted_later_unless_nothing_is_left(host, left):
    host.leaves = left
    host.action(tenant_backup, tenants=["gone"])
    assert len(host.store("gone").leftovers.of("gone")) == left


def test_the_snapshots_of_a_deleted_backup_are_deleted_by_the_next_one(host):
    volume = {"driver": "d", "handle": "h", "volume": "v", "claim": {"name": "m", "labels": {}, "annotations": {}, "spec": {}}}
    host.store("web").keep(record("web", hour=1, run="a" * 32, volumes=[volume]), b"content", None)
    host.action(tenant_backup, tenants=["web"], keep=1)
    assert (host.asked["forget"], leftovers(host)) == ({"web": []}, ["a" * 32])


def test_one_that_fails_does_not_keep_the_others_from_theirs(host):
    host.broken = ["ml"]
    host.reasons = {"rests": "paused-tenant"}
    result = host.action(tenant_backup, tenants=["web", "gone", "rests", "ml"])
    assert result["failed"]
    assert [problem["code"] for problem in result["problems"]] == ["no-tenant", "paused-tenant", "not-kept"]
    assert [one["tenant"] for one in result["backups"]] == ["web"]
    assert result["unsaved"] == ["rests", "ml"]
    assert result["msg"].startswith(
        "gone: there is none.\nrests: there is none.\nml: The archive of ml arrived with another checksum"
    )


def test_older_ones_go_once_the_new_one_is_kept(host):
    for hour in range(2):
        host.store("web").keep(record("web", hour=hour), b"content", None)
    host.action(tenant_backup, tenants=["web"], keep=2)
    assert [kept.at[11:13] for kept in host.store("web").all()] == ["02", "01"]


def test_a_clock_that_was_wrong_once_costs_no_tenant_its_backup(host):
    for year in (2040, 2041):
        host.store("web").keep(record("web", at=f"{year}-01-01T00:00:00+00:00"), b"content", None)
    result = host.action(tenant_backup, tenants=["web"], keep=2)
    assert result["unsaved"] == []
    assert Path(result["backups"][0]["path"]).read_bytes() == b"content"
    assert host.store("web").choose("latest").at == "2026-11-27T02:00:00+00:00"


def test_a_backup_is_saved_also_where_an_older_one_cannot_be_deleted(host, monkeypatch):
    host.store("web").keep(record("web", hour=1), b"content", None)

    def refused(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(_backups.files, "remove_file", refused)
    result = host.action(tenant_backup, tenants=["web"], keep=1)
    assert ([problem["code"] for problem in result["problems"]], result["unsaved"]) == (["not-deleted"], [])
    assert "web: an older backup cannot be deleted: [Errno 13] Permission denied" in result["msg"]
    assert len(host.store("web").all()) == 2


@pytest.mark.parametrize("suffix", [".json", ".tar.gz"])
def test_a_backup_that_another_run_deletes_meanwhile_is_none(host, monkeypatch, suffix):
    def deleting(_store, _keep, made):
        os.remove(made.path.replace(".tar.gz", suffix))

    monkeypatch.setattr(Store, "prune", deleting)
    result = host.action(tenant_backup, tenants=["web"])
    assert ([problem["code"] for problem in result["problems"]], result["unsaved"]) == (["not-kept"], ["web"])
    assert "was deleted since it was written. Repeat the backup." in result["msg"]


def test_without_a_vault_password_nothing_is_begun(host):
    result = host.action(tenant_backup, tenants=["web"], encrypt="true")
    assert (result["failed"], result["problems"][0]["code"]) == (True, "no-vault-password")
    assert host.left() == []


def test_the_chosen_backup_is_sent_to_the_module(host):
    host.store("web").keep(record("web", hour=1), b"content", None)
    result = host.action(tenant_restore, name="copy", tenant="web")
    assert (host.restored, result["backup"]["at"]) == (b"content", "2026-11-27T01:00:00+00:00")


def test_check_mode_sends_nothing(host):
    host.store("web").keep(record("web"), b"content", None)
    assert host.action(tenant_restore, check_mode=True, name="web")["backup"]["tenant"] == "web"
    assert host.left() == []


def test_what_is_not_there_is_not_restored(host):
    result = host.action(tenant_restore, name="web", backup="2026-01-01T00:00:00+00:00")
    assert (result["failed"], result["problems"][0]["code"]) == (True, "no-backup")
