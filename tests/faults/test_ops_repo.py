# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ops repository of the built artifact, by its own scripts, on its lab: merged, changed by a pull request, and merged again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, Cluster, Lab, changed

# As inventories/lab of the ops repository names them.
TENANTS, REHEARSALS = Lab("kubegpu-ops"), Lab("kubegpu-ops-rehearsal")
OLD, NEW = "v0.12.0", "v0.13.1"
# A pod that stays, without a GPU, so that probes find all of them free.
WORK = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "work", "namespace": "default", "labels": {"kai.scheduler/queue": "training"}},
    "spec": {
        "schedulerName": "kai-scheduler",
        "containers": [
            {
                "name": "main",
                "image": "docker.io/library/busybox:1.37.0",
                "command": ["sleep", "infinity"],
                "resources": {"requests": {"cpu": "10m"}},
            }
        ],
    },
}


class OpsRepo:
    """A copy of the ops repository, and its scripts."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "ops-repo"
        self.vars = self.root / "inventories/lab/group_vars/kubegpu_labs"
        paths = f"{self.root}/collections:{os.environ['KUBEGPU_VENV']}/collections"
        self.environment = os.environ | {"ANSIBLE_COLLECTIONS_PATH": paths, "VAULT_PASSWORD": "example"}
        # The sources of the collection, for Python, are not what is tried here.
        self.environment.pop("PYTHONPATH", None)

    def run(self, *command: str) -> tuple[int, str]:
        done = subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=7200, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def passes(self, *command: str) -> str:
        code, said = self.run(*command)
        assert code == 0, said[-8000:]
        return said

    def verdicts(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in self.root.glob("verdicts/verdict-*.json")]


@pytest.fixture(scope="module", name="ops")
def _ops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpsRepo]:
    folder = tmp_path_factory.mktemp("artifact")
    subprocess.run([ROOT / "tests/artifact", folder], check=True, timeout=900)
    repo = OpsRepo(folder)
    try:
        yield repo
    finally:
        code, said = repo.run("ansible-playbook", "kubegpu.lab.cleanup")
        assert (code, TENANTS.everything(), REHEARSALS.everything()) == (0, [], []), said[-6000:]


def test_a_merge_makes_what_the_inventory_says_and_again_nothing(ops: OpsRepo) -> None:
    ops.passes("ansible-playbook", "kubegpu.lab.site", "--tags=lab")
    said = ops.passes("ci/merge")
    assert f"kai {OLD}" in said
    assert changed(ops.passes("ansible-playbook", "site.yml")) == 0
    ops.passes("ansible-playbook", "drift.yml", "--check")


def test_a_pull_request_is_rehearsed_shown_and_changes_nothing(ops: OpsRepo) -> None:
    tenant = Cluster(TENANTS, Path(os.environ["KUBEGPU_CACHE"]), f"~/.kube/kubegpu/{TENANTS.name}/tenants/team-ml.yml")
    # What the rehearsal plays.
    tenant.kube.create(WORK)
    file = ops.vars / "tenant_team_ml.yml"
    file.write_text(file.read_text().replace(OLD, NEW))
    code, said = ops.run("ansible-playbook", "site.yml", "--check")
    assert code != 0
    assert "has to be rehearsed before" in said, "a change without a verdict was let through"
    code, said = ops.run("ci/pull-request")
    (verdict,) = ops.verdicts()
    assert verdict["result"] in ("promote", "hold"), said[-8000:]
    if verdict["result"] == "hold":
        # A busy machine may hold it; it is then accepted by its name, as a person would.
        assert code != 0
        accepted = ops.vars / "accepted.yml"
        accepted.write_text(f"---\nkubegpu_accept_holds: [{verdict['change']['name']}]\n")
        code, said = ops.run("ci/pull-request")
    assert code == 0, said[-8000:]
    # In drift's list.
    assert f"lab/team-ml: KAI Scheduler, version: {OLD}, wanted {NEW}" in said, said[-8000:]


def test_its_merge_makes_the_change_by_the_verdict(ops: OpsRepo) -> None:
    said = ops.passes("ci/merge")
    assert f"kai {NEW}" in said
    assert changed(ops.passes("ansible-playbook", "site.yml")) == 0


def test_what_somebody_changed_by_hand_is_drift(ops: OpsRepo) -> None:
    host = Cluster(TENANTS, Path(os.environ["KUBEGPU_CACHE"]))
    host.kube.patch("v1", "Node", "kubegpu-worker", {"metadata": {"labels": {"tenant.kubegpu.tenancy/team-ml": None}}})
    code, said = ops.run("ansible-playbook", "drift.yml", "--check")
    assert code == 2, said[-6000:]
    ops.passes("ci/merge")
    ops.passes("ansible-playbook", "drift.yml", "--check")
