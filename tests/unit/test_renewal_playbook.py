# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What renew does with the note of a renewal that was cut off: its own tasks, on hosts whose clusters are files."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import ROOT, Site, tasks_in

# What changes things is a line in the host's log here.
LOG = "ansible.builtin.shell"
LINE = "echo '{}' >> '{{{{ folder }}}}/log'"
AT = "2026-11-27T01:00:00+00:00"
BACKUP = {"tenant": "ml", "at": AT, "volumes_left_out": []}
STUBS: dict[str, list[dict[str, Any]]] = {
    "back_up": [{LOG: LINE.format("keep {{ _names[0] }}")}],
    "back_up_all": [
        {LOG: LINE.format("back up all")},
        {"ansible.builtin.set_fact": {"_kubegpu_backups": {"backups": "{{ [backup] }}"}}},
    ],
    "read": [
        {"ansible.builtin.set_fact": {"_kubegpu_tenants": {"tenants": [{"name": name, "state": "paused"} for name in ("down",)]}}}
    ],
}
REPLACED = {
    "kubegpu.tenancy.tenant_restore": (LOG, LINE.format("restore {{ _backup.key }} of {{ _backup.value }}")),
    "ansible.builtin.include_role": ("ansible.builtin.set_fact", {"_nvkind_cluster": "{{ cluster }}"}),
}
WORKERS = [{"gpus": [0], "labels": {"a": "b"}}]
SITE = {
    "name": "Make the cluster",
    "hosts": "all",
    "gather_facts": False,
    "tasks": [
        {
            LOG: LINE.format("delete") + "; cp '{{ folder }}/next' '{{ folder }}/cluster.yml'",
            "when": "_nvkind_cluster.differences is defined",
        }
    ],
}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def layout(workers: list[dict[str, Any]]) -> str:
    return digest(json.dumps(["", [worker | {"labels": {}} for worker in workers]]))


class Hosts(Site):
    """Hosts, each in a folder with its kubeconfig, the note, and a log of what is done."""

    def have(
        self, name: str, *, noted: str | None, differs: bool, wanted: Any = None, backups: Any = None, **backup: list[Any]
    ) -> None:
        """Add a host whose present certificate authority is ``new``.

        :arg noted: authority in the note; None without a note.
        :arg backup: of volumes, in the record of the backup that is taken.
        :arg differs: whether the layout of its cluster differs; ``wanted``, the workers of the note, WORKERS by default.
        """
        folder = self.folder / name
        folder.mkdir()
        for file, authority in (("cluster.yml", "new"), ("next", "newer")):
            clusters = [{"name": "c", "cluster": {"certificate-authority-data": authority}}]
            (folder / file).write_text(yaml.safe_dump({"clusters": clusters}))
        if noted:
            note = {
                "authority": digest(noted),
                "layout": layout(wanted or WORKERS),
                "backups": {"ml": AT} if backups is None else backups,
            }
            (folder / name).mkdir()
            (folder / name / "renewal.json").write_text(json.dumps(note))
        self.hosts[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "folder": str(folder),
            "cluster": {"differences": "w2 is missing"} if differs else {"changed": False},
            "nvkind_workers": WORKERS,
            "backup": BACKUP | backup,
            "_kubegpu": {
                "kubeconfig": str(folder / "cluster.yml"),
                "backup": {"folder": str(folder)},
                "accept_lost_volumes": False,
            },
        }

    def renew(self) -> str:
        """Run the tasks of renew, with site in between; return what is said."""
        tasks = self.folder / "tasks"
        tasks.mkdir()
        for path in (ROOT / "playbooks/tasks").glob("*.yml"):
            shutil.copy(path, tasks)
        for name, stub in STUBS.items():
            (tasks / f"{name}.yml").write_text(yaml.safe_dump(stub))
        for name in ("renewal", "renewed"):
            (tasks / f"{name}.yml").write_text(yaml.safe_dump(replaced(yaml.safe_load((tasks / f"{name}.yml").read_text()))))
        first, _site, last, _verify = yaml.safe_load((ROOT / "playbooks/renew.yml").read_text())
        # The desired state stands in the inventory here.
        plays = [first | {"hosts": "all", "tasks": first["tasks"][2:]}, SITE, last | {"hosts": "all"}]
        playbook = self.folder / "renew.yml"
        playbook.write_text(yaml.safe_dump(plays))
        command = ["ansible-playbook", str(playbook), f"--inventory={self.write()}"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600, check=False)
        return " ".join((done.stdout + done.stderr).split())

    def done(self, name: str) -> list[str]:
        log = self.folder / name / "log"
        return log.read_text().splitlines() if log.exists() else []

    def note(self, name: str) -> Path:
        return self.folder / name / name / "renewal.json"


def replaced(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for task in tasks_in(content):
        for key, (module, argument) in REPLACED.items():
            if key in task:
                del task[key]
                task.pop("vars", None)
                task[module] = argument
    return content


@pytest.fixture(name="hosts", scope="module")
def _hosts(tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    return Hosts(tmp_path_factory.mktemp("hosts"))


@pytest.fixture(name="said", scope="module")
def _said(hosts: Hosts) -> str:
    hosts.have("fresh", noted=None, differs=True)
    hosts.have("asis", noted=None, differs=False)
    hosts.have("cutoff", noted="former", differs=False, backups={"ml": AT, "down": AT})
    hosts.have("alldone", noted="former", differs=True, wanted=[{}], backups={})
    hosts.have("weekslater", noted="former", differs=True)
    hosts.have("otherlayout", noted="former", differs=False, wanted=[{"gpus": [0]}, {}])
    hosts.have("notbegun", noted="new", differs=False)
    hosts.have("withoutdata", noted=None, differs=True, volumes_left_out=["scratch"])
    hosts.have("withsnapshots", noted=None, differs=True, volumes=[{"claim": {"name": "models"}}])
    hosts.have("notbegunagain", noted="new", differs=True, wanted=[{}])
    return hosts.renew()


@pytest.mark.usefixtures("said")
@pytest.mark.parametrize(
    ("name", "done"),
    [
        ("fresh", ["back up all", "delete", f"restore ml of {AT}"]),
        ("asis", []),
        # What runs since the cluster was made anew is kept before; who is down is restored before site.
        ("cutoff", ["keep down", f"restore down of {AT}", "keep ml", f"restore ml of {AT}"]),
        # It was cut off after the last restore.
        ("alldone", ["back up all", "delete", f"restore ml of {AT}"]),
        # The former cluster is still there: its tenants are living ones, and a note from before is no more than that.
        ("notbegun", []),
        ("notbegunagain", ["back up all", "delete", f"restore ml of {AT}"]),
    ],
)
def test_a_note_counts_only_for_the_renewal_that_it_was_written_for(hosts: Hosts, name: str, done: list[str]) -> None:
    assert hosts.done(name) == done
    assert not hosts.note(name).exists()


@pytest.mark.parametrize("name", ["weekslater", "otherlayout"])
def test_the_note_of_another_renewal_is_refused(hosts: Hosts, said: str, name: str) -> None:
    assert hosts.done(name) == []
    assert f"/{name}/renewal.json with backups of the cluster before this one: ml at {AT}." in said
    assert "delete the note, and run renew again. If not, restore each of them before that:" in said
    assert hosts.note(name).exists()


@pytest.mark.parametrize(("name", "volume"), [("withoutdata", "scratch"), ("withsnapshots", "models")])
def test_no_volume_is_lost_unless_that_is_accepted(hosts: Hosts, said: str, name: str, volume: str) -> None:
    """Snapshots of volumes go with the cluster, too."""
    assert hosts.done(name) == ["back up all"]
    assert f"also where it has snapshots of them: {volume}. To accept that" in said
