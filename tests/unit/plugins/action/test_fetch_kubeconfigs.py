# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from ansible.template import trust_as_template
from ansible_collections.kubegpu.tenancy.plugins.action.fetch_kubeconfigs import ActionModule, via

TEXT = "apiVersion: v1\nclusters:\n- cluster: {server: 'https://10.0.0.3:30002'}\n  name: web\n"
PROXY = "http://127.0.0.1:28080"


def test_every_cluster_gets_the_proxy():
    # A tagged string, as Ansible passes it.
    config = yaml.safe_load(via(TEXT, trust_as_template(PROXY)))
    assert config["clusters"] == [{"name": "web", "cluster": {"server": "https://10.0.0.3:30002", "proxy-url": PROXY}}]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in ("cluster.yml", "team's.yml"):
        (tmp_path / "host" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "host" / name).write_text(TEXT + f"# {name}\n")
    return tmp_path / "host"


def fetch(src: Path, names: list[str], dest: Path, check_mode: bool = False) -> dict[str, object]:
    """Run it with a shell here as the host."""
    task = Mock(check_mode=check_mode, async_val=0, args={"src": str(src), "names": names, "dest": str(dest)})
    action = ActionModule(task, Mock(), Mock(), None, None, None)

    def run(command: str) -> dict[str, object]:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    action._low_level_execute_command = run
    return action.run()


def test_all_come_as_they_are_and_only_once(host, tmp_path):
    names, dest = ["cluster", "team's"], tmp_path / "here/dc1"
    assert fetch(host, names, dest, check_mode=True) == {"changed": True, "dest": str(dest)}
    assert not dest.parent.exists()

    assert fetch(host, names, dest)["changed"] is True
    here = sorted(dest.iterdir())
    assert [path.name for path in here] == ["cluster.yml", "team's.yml"]
    assert [path.read_text() for path in here] == [path.read_text() for path in sorted(host.iterdir())]
    assert [path.stat().st_mode & 0o777 for path in (dest, *here)] == [0o700, 0o600, 0o600]
    assert fetch(host, names, dest)["changed"] is False

    here[0].chmod(0o644)
    assert fetch(host, names, dest)["changed"] is True
    assert here[0].stat().st_mode & 0o777 == 0o600


def test_one_that_is_missing_is_named_and_nothing_is_written(host, tmp_path):
    answer = fetch(host, ["cluster", "gone"], tmp_path / "here")
    assert answer["failed"]
    assert "gone.yml" in answer["msg"]
    assert not (tmp_path / "here").exists()


def test_an_empty_one_is_no_kubeconfig(host, tmp_path):
    (host / "empty.yml").touch()
    assert "1 of 2 kubeconfigs came" in fetch(host, ["cluster", "empty"], tmp_path / "here")["msg"]


def test_a_folder_that_cannot_be_made_is_an_error(host, tmp_path):
    (tmp_path / "file").touch()
    answer = fetch(host, ["cluster"], tmp_path / "file/here")
    assert answer["failed"]
    assert os.fspath(tmp_path / "file") in answer["msg"]
