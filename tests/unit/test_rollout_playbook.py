# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook rollout itself, on twelve clusters that are files: the playbooks that it runs are played by a program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, ROOT, RUNTIME_CLASS, Site
from ansible_collections.kubegpu.tenancy.tests.unit.served import served
from ansible_collections.kubegpu.tenancy.tests.unit.test_drift_playbook import DIFFERENCE, LABELLED

OLD, NEW = "gpu-host-2026-11-01", "gpu-host-2026-11-23"
NAMES = [f"gpu{number:02}" for number in range(1, 13)]
WAVES = [{"hosts": "canary"}, {"hosts": "north", "at_once": 2}, {"percent": 100}]
ROLLOUT = {"name": "kai", "waves": WAVES, "soak": ""}

# Of each cluster a file says which blueprint it has, and what is wrong with it: broken, under the new one; mute; slow. A run adds a line to
# the log.
PLAYER = """
import json, pathlib, sys, time

playbook, folder, hosts, evidence, wanted = sys.argv[1:6]
folder, evidence = pathlib.Path(folder), pathlib.Path(evidence)
names, problems, pending = hosts.split(","), [], []
wanted = wanted or "gpu-host-2026-11-23"
with (folder / "log").open("a") as log:
    log.write(f"{playbook} {' '.join(names)} {wanted[9:]}\\n")
for name in names:
    path = folder / f"{name}.json"
    cluster = json.loads(path.read_text())
    if cluster["is"] == "mute":
        problems.append(f"{name}: it was not reached, see the output above")
    elif playbook == "site":
        # As long as a test wants it.
        while cluster["is"] == "slow" and not (folder / "go").exists():
            time.sleep(0.1)
        path.write_text(json.dumps(cluster | {"has": wanted}))
        if cluster["is"] == "broken" and wanted == "gpu-host-2026-11-23":
            problems.append(f"{name}/ml: check gpu failed: pod gpu-1 sees no GPU")
    elif playbook == "drift" and cluster["has"] != wanted:
        pending.append(f"{name}/ml: KAI Scheduler, version: {cluster['has']}, wanted {wanted}")
    elif playbook == "verify" and cluster["is"] == "decays":
        problems.append(f"{name}/ml: check gang failed: 1 of 2 started")
if playbook == "info":
    pods = [{"namespace": "default", "name": "w", "reason": "over_limit"}]
    reports = [{"cluster": n, "failures": [], "shared_scheduler": None, "tenants": [{"name": "ml", "pods": pods}]} for n in names]
    (evidence / "info.json").write_text(json.dumps(reports))
else:
    text = json.dumps({"clusters": [{"name": n} for n in names], "problems": problems, "pending": pending})
    (evidence / "tenancy.json").write_text(text)
sys.exit(2 if problems or pending else 0)
"""


class Fleet(Site):
    """Twelve clusters in files, three of them in groups, and playbooks that are played."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "player.py").write_text(PLAYER)
        self.rollout: dict[str, Any] = ROLLOUT | {"folder": str(folder / "rollouts")}
        for name in NAMES:
            self.have(name, "fine")
        for name in ("site", "verify", "drift", "info"):
            words = [sys.executable, str(folder / "player.py"), name, str(folder), "{{ ansible_play_hosts_all | join(',') }}"]
            task = {
                "ansible.builtin.command": {
                    "argv": [*words, "{{ kubegpu_evidence }}", "{{ kubegpu_blueprint if kubegpu_blueprint is defined else '' }}"]
                },
                "run_once": True,
                "check_mode": False,
            }
            play = {"hosts": "kubegpu_clusters", "gather_facts": False, "tags": ["pending"], "tasks": [task]}
            (folder / f"{name}.yml").write_text(yaml.safe_dump([play]))
        (play,) = yaml.safe_load((ROOT / "playbooks/rollout.yml").read_text())
        played = {name: str(folder / f"{name}.yml") for name in ("site", "verify", "drift", "info")}
        play["tasks"][0]["kubegpu.tenancy.rollout"]["playbooks"] = played
        (folder / "rollout.yml").write_text(yaml.safe_dump([play]))

    def have(self, name: str, what: str, blueprint: str = OLD) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps({"has": blueprint, "is": what}))

    def has(self, *names: str) -> set[str]:
        return {json.loads((self.folder / f"{name}.json").read_text())["has"] for name in names}

    def command(self, *options: str) -> list[str]:
        inventory = self.folder / "hosts.json"
        variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "kubegpu_rollout": self.rollout}
        groups = {"canary": NAMES[:1], "north": NAMES[1:6]}
        content = {name: {"hosts": dict.fromkeys(hosts)} for name, hosts in groups.items()}
        clusters = {"hosts": dict.fromkeys(NAMES), "vars": variables}
        inventory.write_text(json.dumps({"kubegpu_clusters": clusters} | content))
        return ["ansible-playbook", str(self.folder / "rollout.yml"), f"--inventory={inventory}", *options]

    def roll(self, *options: str) -> str:
        done = subprocess.run(
            self.command(*options), env=self.environment, capture_output=True, text=True, timeout=600, check=False
        )
        self.code = done.returncode
        return done.stdout + done.stderr

    @property
    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def changes(self) -> list[str]:
        """Return the clusters of each run of site, in order."""
        return [line.removeprefix("site ") for line in self.log if line.startswith("site ")]


@pytest.fixture(name="fleet")
def _fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    (tmp_path / "go").touch()


def awaited(what: Any, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_rollout_that_is_killed_goes_on_where_it_was(fleet: Fleet) -> None:
    fleet.have("gpu04", "slow")
    # Somebody was there before.
    fleet.have("gpu09", "fine", NEW)
    with subprocess.Popen(
        fleet.command(), env=fleet.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as first:
        awaited(lambda: "site gpu04 gpu05 2026-11-23" in fleet.log)
        said = fleet.roll()
        assert (fleet.code, "Another run of the rollout kai is under way." in said) == (2, True), said
        os.kill(first.pid, signal.SIGKILL)
    assert fleet.has("gpu01", "gpu02", "gpu03") == {NEW}
    assert fleet.has("gpu04", "gpu06", "gpu12") == {OLD}
    # What it began ends before another run begins.
    awaited(lambda: "is under way" not in fleet.roll("--check"))
    (fleet.folder / "go").touch()
    said = fleet.roll()
    assert fleet.code == 0, said
    assert [line.rpartition(" ")[0] for line in fleet.changes()] == [
        "gpu01",
        "gpu02 gpu03",
        "gpu04 gpu05",
        # These were under way.
        "gpu04 gpu05",
        "gpu06",
        "gpu07 gpu08 gpu10 gpu11 gpu12",
    ]
    assert fleet.has(*NAMES) == {NEW}
    record = json.loads((fleet.folder / "rollouts/kai/rollout.json").read_text())
    assert record["ended"]
    assert {one["state"] for one in record["clusters"].values()} == {"done"}
    assert "wave 3: as the inventory says: gpu07, gpu08, gpu09, gpu10, gpu11, gpu12" in fleet.roll()


def test_what_fails_goes_back_and_nothing_behind_it_is_changed(fleet: Fleet) -> None:
    fleet.have("gpu03", "broken")
    fleet.rollout["back_to"] = OLD
    said = fleet.roll()
    assert fleet.code == 2, said
    for line in (
        "wave 1: as the inventory says: gpu01",
        "wave 2: changed and verified, not observed to the end: gpu02",
        "wave 2: failed, and went back: gpu03",
        "wave 2: not changed: gpu04, gpu05, gpu06",
        "FAILED gpu03/ml: check gpu failed: pod gpu-1 sees no GPU",
    ):
        assert line in said
    assert fleet.changes() == ["gpu01 2026-11-23", "gpu02 gpu03 2026-11-23", "gpu03 2026-11-01"]
    assert fleet.has("gpu01", "gpu02") == {NEW}
    assert fleet.has(*NAMES[2:]) == {OLD}
    # It was mended, and the same command goes on.
    fleet.have("gpu03", "fine")
    said = fleet.roll()
    assert fleet.code == 0, said
    assert fleet.changes()[3:] == ["gpu03 gpu04 2026-11-23", "gpu05 gpu06 2026-11-23", f"{' '.join(NAMES[6:])} 2026-11-23"]


def test_what_fails_while_a_wave_is_observed_stops_the_rollout(fleet: Fleet) -> None:
    fleet.have("gpu01", "decays")
    said = fleet.roll()
    assert (fleet.code, "FAILED gpu01/ml: check gang failed: 1 of 2 started" in said) == (2, True), said
    assert [line.split()[0] for line in fleet.log] == ["drift", "info", "site", "verify", "drift", "info"]
    assert fleet.has("gpu01") == {NEW}
    assert fleet.has(*NAMES[1:]) == {OLD}


def test_nothing_begins_while_one_cluster_does_not_answer(fleet: Fleet) -> None:
    fleet.have("gpu11", "mute")
    said = fleet.roll()
    assert (fleet.code, "gpu11: it was not reached" in said) == (2, True), said
    assert fleet.changes() == []
    # Left out, the others may begin; in check mode, it is said what differs, and nothing is changed.
    said = fleet.roll("--check", "--limit=all:!gpu11")
    assert fleet.code == 0, said
    assert f"gpu12/ml: KAI Scheduler, version: {OLD}, wanted {NEW}" in said
    assert "wave 3: not changed: gpu07, gpu08, gpu09, gpu10, gpu12" in said
    assert fleet.changes() == []


def test_a_way_back_that_leads_elsewhere_is_refused(fleet: Fleet) -> None:
    fleet.rollout["back_to"] = "gpu-host-2026-10-01"
    said = fleet.roll()
    assert fleet.code == 2
    assert f"it would not get back what it has: gpu01/ml: KAI Scheduler, version: {OLD}, wanted gpu-host-2026-10-01" in said
    assert fleet.changes() == []


def test_the_check_is_that_of_the_playbook_drift(tmp_path: Path) -> None:
    site = Site(tmp_path)
    rollout = {"name": "labels", "waves": [{"percent": 100}], "folder": str(tmp_path / "rollouts")}
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as agrees, served(InMemoryApi([LABELLED, RUNTIME_CLASS])) as drifts:
        for name, server in (("gpu1", agrees), ("gpu2", drifts), ("gpu3", None)):
            site.add(name, server, kubegpu_rollout=rollout)
        said = site.run(playbook="rollout")
        assert site.code == 2, said
        for line in ("gpu1: has what the inventory says", DIFFERENCE, "gpu3: it was not reached"):
            assert line in said
        assert agrees.changed == drifts.changed == []
