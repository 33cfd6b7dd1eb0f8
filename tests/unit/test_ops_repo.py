# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pipeline of the ops repository gives to whom: a pull request's data is a program, because Ansible evaluates its templates."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

REPO = Path(__file__).parents[2] / "examples/ops-repo"
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in (REPO / ".github/workflows").glob("*.yml")}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"].values()]
SECRET = "secrets."


@pytest.mark.parametrize("name", WORKFLOWS)
def test_secrets_are_given_to_steps_alone(name: str) -> None:
    workflow = WORKFLOWS[name]
    around = {key: value for key, value in workflow.items() if key != "jobs"}
    around["jobs"] = [{key: value for key, value in job.items() if key != "steps"} for job in workflow["jobs"].values()]
    assert SECRET not in json.dumps(around)
    assert workflow["permissions"] == {"contents": "read"}


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_a_job_with_a_secret_or_clusters_is_in_an_environment(name: str, job: dict[str, Any]) -> None:
    guarded = SECRET in json.dumps(job) or job["runs-on"] != "ubuntu-latest"
    assert guarded == ("environment" in job)
    # Whoever writes a branch writes its workflows, too.
    assert not (guarded and "pull_request" in WORKFLOWS[name]["on"])
    checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_of_a_pull_request_only_the_data_of_the_approved_commit_is_taken() -> None:
    job = WORKFLOWS["tenants.yml"]["jobs"]["pull-request"]
    assert job["environment"] == "pull-requests"
    own, proposed, take = job["steps"][:3]
    assert "ref" not in own["with"]
    assert proposed["with"]["ref"] == "${{ github.event.pull_request.head.sha }}"
    assert take["run"] == f"ci/take-data {proposed['with']['path']}"
    assert all(other["environment"] == "main" for other in WORKFLOWS["tenants.yml"]["jobs"].values() if other is not job)


@pytest.fixture(name="copies")
def _copies(tmp_path: Path) -> tuple[Path, Path]:
    """The repository as it is on main, and in it a pull request's."""
    base, proposed = tmp_path / "base", tmp_path / "base/proposed"
    for folder in (base, proposed):
        shutil.copytree(REPO, folder, ignore=shutil.ignore_patterns("collections", ".ansible"))
    return base, proposed


def take_data(base: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ci/take-data", "proposed"], cwd=base, capture_output=True, text=True, timeout=60, check=False)


def test_scripts_stay_and_data_is_taken(copies: tuple[Path, Path]) -> None:
    base, proposed = copies
    (proposed / "ci/check").write_text("#!/bin/sh\nexit 3\n")
    (proposed / "ansible.cfg").write_text("[defaults]\nvault_password_file = ci/check\n")
    tenants = "inventories/production/host_vars/gpu1.example"
    (proposed / tenants / "tenant_new.yml").write_text("tenant_new: {name: new, trust: high}\n")
    (proposed / tenants / "tenant_web.yml").unlink()
    (proposed / "verdicts/verdict-a.json").write_text("{}")
    done = take_data(base)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (base / "ci/check").read_text() == (REPO / "ci/check").read_text()
    assert (base / "ansible.cfg").read_text() == (REPO / "ansible.cfg").read_text()
    assert sorted(path.name for path in (base / tenants).iterdir()) == ["tenant_new.yml", "tenant_team_ml.yml"]
    assert (base / "verdicts/verdict-a.json").exists()
    assert not proposed.exists()


@pytest.mark.parametrize("kind", ["link", "folder", "program"])
def test_links_and_programs_are_refused(copies: tuple[Path, Path], kind: str) -> None:
    base, proposed = copies
    odd = proposed / "inventories/production/odd.yml"
    if kind == "program":
        odd.write_text("#!/bin/sh\nid\n")
        odd.chmod(0o755)
    elif kind == "link":
        odd.symlink_to("/etc/passwd")
    else:
        shutil.rmtree(proposed / "inventories")
        (proposed / "inventories").symlink_to(base / "inventories")
    before = sorted((base / "inventories").rglob("*"))
    done = take_data(base)
    assert done.returncode != 0
    assert "neither links nor programs" in done.stdout
    assert sorted((base / "inventories").rglob("*")) == before


def test_an_inventory_is_checked_without_the_vault(copies: tuple[Path, Path]) -> None:
    base, _proposed = copies
    for vault in base.rglob("vault.yml"):
        vault.unlink()
    settings = {"ANSIBLE_INVENTORY": "inventories/production", "VAULT_PASSWORD": "none"}
    command = ["ansible-playbook", "plan.yml"]
    done = subprocess.run(command, cwd=base, env=os.environ | settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "team-ml, web" in done.stdout
