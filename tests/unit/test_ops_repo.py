# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pipeline of the ops repository gives to whom: a pull request's data is a program, because Ansible evaluates its templates."""

from __future__ import annotations

import datetime
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
GITLAB = yaml.safe_load((REPO / ".gitlab-ci.yml").read_text())
OF_GITLAB = {name: job for name, job in GITLAB.items() if "script" in job}


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
    # A user who writes a branch writes its workflows, too.
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


def test_a_checkout_takes_no_data_of_itself(copies: tuple[Path, Path]) -> None:
    base, _proposed = copies
    for given in ("", "."):
        done = subprocess.run(["ci/take-data", given], cwd=base, capture_output=True, timeout=60, check=False)
        assert done.returncode != 0
        assert (base / "inventories/production/hosts.yml").exists()


def test_an_inventory_is_checked_without_the_vault(copies: tuple[Path, Path]) -> None:
    base, _proposed = copies
    for vault in base.rglob("vault.yml"):
        vault.unlink()
    settings = {"ANSIBLE_INVENTORY": "inventories/production", "VAULT_PASSWORD": "none"}
    command = ["ansible-playbook", "plan.yml"]
    done = subprocess.run(command, cwd=base, env=os.environ | settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "team-ml, web" in done.stdout


def test_on_gitlab_what_reaches_clusters_runs_for_the_default_branch_alone() -> None:
    sources = {name: [rule["if"] for rule in job["rules"]] for name, job in OF_GITLAB.items()}
    assert sources == {
        "check": ['$CI_PIPELINE_SOURCE == "merge_request_event"'],
        "pull-request": ['$CI_PIPELINE_SOURCE == "web" && $MERGE_REQUEST && $COMMIT'],
        "merge": ['$CI_PIPELINE_SOURCE == "push"'],
        "nightly": ['$CI_PIPELINE_SOURCE == "schedule"'],
    }
    # A pipeline without a merge request is of that branch.
    assert [rule["if"] for rule in GITLAB["workflow"]["rules"]] == [
        *sources["check"],
        "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH",
    ]
    assert [name for name, job in OF_GITLAB.items() if job.get("extends") != ".clusters"] == ["check"]
    named = {word for job in OF_GITLAB.values() for line in job["script"] for word in line.split() if word.startswith("ci/")}
    assert named == {"ci/check", "ci/take-data", "ci/pull-request", "ci/merge", "ci/nightly"}
    assert [script for script in named if not os.access(REPO / script, os.X_OK)] == []


@pytest.mark.parametrize("pushed_since", [False, True])
def test_on_gitlab_the_data_of_the_commit_that_was_read_is_taken(tmp_path: Path, pushed_since: bool) -> None:
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false")

    def run(*command: str, folder: Path) -> str:
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    forge, proposed, base = tmp_path / "forge", tmp_path / "proposed", tmp_path / "base"
    shutil.copytree(REPO, forge, ignore=shutil.ignore_patterns("collections", ".ansible"))
    for command in (("init", "-b", "main"), ("add", "."), ("commit", "-m", "main")):
        run(*git, *command, folder=forge)
    for clone in (proposed, base):
        run("git", "clone", "--quiet", str(forge), str(clone), folder=tmp_path)
    commits = []
    for name in ("new", "newer"):
        (proposed / f"inventories/production/{name}.yml").write_text("a: 1")
        (proposed / "ci/check").write_text("exit 3")
        run(*git, "add", ".", folder=proposed)
        run(*git, "commit", "-m", name, folder=proposed)
        commits.append(run("git", "rev-parse", "HEAD", folder=proposed))
    of_request = commits[1] if pushed_since else commits[0]
    run("git", "push", "--quiet", str(forge), f"{of_request}:refs/merge-requests/7/head", folder=proposed)
    script = "\n".join(OF_GITLAB["pull-request"]["script"]).partition("\nci/pull-request")[0]
    given = os.environ | {"MERGE_REQUEST": "7", "COMMIT": commits[0]}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=base, env=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode == 0) is not pushed_since, done.stdout + done.stderr
    assert (base / "inventories/production/new.yml").exists() is not pushed_since
    assert (base / "ci/check").read_text() == (REPO / "ci/check").read_text()


def stub(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


LINES = ["gpu1: a &lt;!channel&gt; b", "and 1 more", "https://job"]


@pytest.mark.parametrize(
    ("run", "status", "at", "of", "expected"),
    [
        ("drift", "2", "now", "drift", ["something differs from the inventory", *LINES]),
        ("drift", "1", "now", "drift", ["it could not be told what differs", *LINES]),
        ("expire", "2", "now", "expire", ["expire failed", *LINES]),
        # A backup leaves no evidence.
        ("backup", "2", "now", "drift", ["backup failed", "https://job"]),
        # What an earlier run, or another one, left is not what this one found.
        ("drift", "1", "2026-01-01T00:00:00Z", "drift", ["it could not be told what differs", "https://job"]),
        ("drift", "1", "now", "site", ["it could not be told what differs", "https://job"]),
        ("drift", "1", None, "", ["it could not be told what differs", "https://job"]),
    ],
)
def test_an_alert_says_what_its_run_found(
    copies: tuple[Path, Path], tmp_path: Path, run: str, status: str, at: str | None, of: str, expected: list[str]
) -> None:
    base, _proposed = copies
    stub(tmp_path, "curl", "cat")
    if at:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        lines = [f"gpu1: a <!channel> b{'x' * 200_000}", *(f"gpu1: {number}" for number in range(20))]
        found = {"run": of, "at": at.replace("now", now), "problems": [], "pending": lines}
        folder = base / "evidence" / ("" if of == "drift" else of)
        folder.mkdir(parents=True)
        (folder / "tenancy.json").write_text(json.dumps(found))
        (base / "evidence/a").mkdir()
        (base / "evidence/a/tenancy.json").write_text("{")
    for webhook, ended, sent in (
        ("https://hook.example", status, True),
        ("https://hook.example", "0", False),
        ("", status, False),
    ):
        given = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ALERT_WEBHOOK": webhook}
        command = ["ci/alert", run, ended, "https://job"]
        done = subprocess.run(command, cwd=base, env=given, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert bool(done.stdout) is sent
        if sent:
            text = json.loads(done.stdout)["text"]
            assert [line for line in expected if line not in text] == []
            assert ("gpu1" in text) == ("gpu1" in "".join(expected))


def play(base: Path, bin_folder: Path, script: str, ends: str) -> tuple[int, list[str], list[str]]:
    """Run a script, with playbooks that end as a case of the shell says; return its status, the playbooks, and the alerts."""
    stub(bin_folder, "ansible-playbook", f'echo "$1" >> {bin_folder}/plays; case $1 in {ends} *) exit 0 ;; esac')
    stub(bin_folder, "curl", f"cat >> {bin_folder}/alerts; exit 7")
    given = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "ALERT_WEBHOOK": "https://hook.example"}
    done = subprocess.run([script, "https://job"], cwd=base, env=given, capture_output=True, text=True, timeout=60, check=False)
    alerts = bin_folder / "alerts"
    texts = [line for line in (alerts.read_text() if alerts.exists() else "").splitlines() if "GPU clusters" in line]
    said = [json.loads("{" + text.strip() + "}")["text"].splitlines()[0].removeprefix("GPU clusters: ") for text in texts]
    assert done.stdout.count("the alert was not sent") == len(said)
    return done.returncode, (bin_folder / "plays").read_text().split(), said


@pytest.mark.parametrize(
    ("expire", "backup", "drift", "ended", "alerts"),
    [
        (0, 0, 0, 0, []),
        (0, 0, 2, 2, ["something differs from the inventory"]),
        (0, 0, 4, 1, ["it could not be told what differs"]),
        (2, 0, 0, 1, ["expire failed"]),
        (2, 0, 2, 1, ["expire failed", "something differs from the inventory"]),
        (0, 2, 0, 1, ["backup failed"]),
    ],
)
def test_a_night_ends_as_drift_does_and_goes_on_after_a_failure(
    copies: tuple[Path, Path], tmp_path: Path, expire: int, backup: int, drift: int, ended: int, alerts: list[str]
) -> None:
    ends = f"*expire) exit {expire} ;; *backup) exit {backup} ;; drift.yml) exit {drift} ;;"
    plays = ["kubegpu.tenancy.expire", "kubegpu.tenancy.backup", "drift.yml"]
    assert play(copies[0], tmp_path, "ci/nightly", ends) == (ended, plays, alerts)


@pytest.mark.parametrize(
    ("site", "verify", "ended", "plays", "alerts"),
    [
        (0, 0, 0, ["site.yml", "kubegpu.tenancy.verify"], []),
        (2, 0, 2, ["site.yml"], ["site failed"]),
        (0, 2, 2, ["site.yml", "kubegpu.tenancy.verify"], ["verify failed"]),
    ],
)
def test_a_merge_that_fails_is_told(
    copies: tuple[Path, Path], tmp_path: Path, site: int, verify: int, ended: int, plays: list[str], alerts: list[str]
) -> None:
    assert play(copies[0], tmp_path, "ci/merge", f"site.yml) exit {site} ;; *verify) exit {verify} ;;") == (ended, plays, alerts)


def test_units_run_scripts_that_there_are() -> None:
    units = {path.name: path.read_text() for path in (REPO / "schedule").glob("kubegpu@*")}
    scripts = {name.partition("@")[2].removesuffix(".timer") for name in units if name.endswith(".timer")}
    assert scripts == {"merge", "nightly"}
    assert [name for name in scripts if not os.access(REPO / "ci" / name, os.X_OK)] == []
    assert "ExecStart=/srv/ops-repo/schedule/run %i\n" in units["kubegpu@.service"]


def test_a_cronjob_has_no_secret_and_runs_one_at_a_time() -> None:
    objects = {item["kind"]: item for item in yaml.safe_load_all((REPO / "schedule/cronjob.yml").read_text())}
    assert "Secret" not in objects
    jobs = {item["metadata"]["name"]: item["spec"] for item in objects["List"]["items"]}
    assert set(jobs) == {"merge", "nightly"}
    for name, job in jobs.items():
        assert (job["concurrencyPolicy"], job["jobTemplate"]["spec"]["backoffLimit"]) == ("Forbid", 0)
        assert job["jobTemplate"]["spec"]["template"]["metadata"]["labels"] == {"script": name}
    pod = jobs["merge"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["ci/$(SCRIPT)"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    volumes = {claim["persistentVolumeClaim"]["claimName"] for claim in pod["volumes"] if "persistentVolumeClaim" in claim}
    assert volumes == {objects["PersistentVolumeClaim"]["metadata"]["name"]}
    config = yaml.safe_load(objects["ConfigMap"]["data"]["cluster.yml"])
    assert config["users"][0]["user"].keys() == {"tokenFile"}


def scheduled(folder: Path, script: str, drifts: int, pulls: int, installs: int) -> tuple[int, list[str]]:
    """Run the schedule's script in a clone, with a drift, a forge and a source of collections that end so."""
    stub(folder, "git", f"echo pull; exit {pulls}")
    stub(folder, "ansible-galaxy", f"echo install; exit {installs}")
    for name, ends in (("drift", drifts), ("merge", 0), ("nightly", 0)):
        stub(folder / "base/ci", name, f"echo {name}; exit {ends}")
    stub(folder / "base/ci", "alert", '[ "$2" = 0 ] || echo "alert $1 $2"')
    given = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["schedule/run", script]
    done = subprocess.run(command, cwd=folder / "base", env=given, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("script", "ends", "expected"),
    [
        ("merge", (0, 0, 0), (0, ["drift", "pull", "install", "merge"])),
        ("nightly", (0, 0, 0), (0, ["pull", "install", "nightly"])),
        # By the last commit, so that what a merge takes back is told, and what was merged since is none of it.
        ("merge", (2, 0, 0), (0, ["drift", "alert drift 2", "pull", "install", "merge"])),
        (
            "nightly",
            (0, 1, 0),
            (0, ["pull", "alert git pull 1", "nothing was pulled, and the last commit counts", "install", "nightly"]),
        ),
        ("nightly", (0, 0, 3), (3, ["pull", "install", "alert installation of collections 3"])),
    ],
)
def test_a_schedule_goes_on_without_the_forge_and_not_without_its_collections(
    copies: tuple[Path, Path], script: str, ends: tuple[int, int, int], expected: tuple[int, list[str]]
) -> None:
    assert scheduled(copies[0].parent, script, *ends) == expected
