# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.lifecycle import Done
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._rollout_runs import Folder, Run, taken_over
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

GIVEN = {
    "inventory": ("/ops/hosts.yml", "/ops/more"),
    "extra_vars": ("@/ops/vars.yml", "kubegpu_backup=optional"),
    "forks": 20,
    "remote_user": "ops",
    "private_key_file": None,
    "become": True,
    "subset": "gpu1",
    "tags": ["all"],
    "check": True,
    "ask_vault_pass": True,
}


def test_a_run_has_all_options_but_what_limits_it():
    assert taken_over(GIVEN) == [
        "--user=ops",
        "--forks=20",
        "--inventory=/ops/hosts.yml",
        "--inventory=/ops/more",
        "--extra-vars=@/ops/vars.yml",
        "--extra-vars=kubegpu_backup=optional",
        "--become",
    ]


def test_a_password_that_would_be_asked_for_in_each_run_is_refused():
    with refuses("not-passed-on"):
        taken_over(GIVEN | {"become_ask_pass": True})


@pytest.fixture(name="folder")
def _folder(tmp_path):
    folder = Folder(str(tmp_path / "rollouts"), "kai")
    with folder.held():
        return folder


def test_one_run_at_a_time(folder):
    with folder.held() as file:
        assert file.fileno()
        with refuses("already-running"), folder.held():
            pytest.fail("both at once")
    with folder.held():
        pass


RECORD = {"format": 1, "name": "kai", "clusters": {"gpu1": {"state": "done"}}}


def test_a_record_is_kept_for_its_owner_alone(folder):
    assert folder.read() is None
    folder.write(RECORD)
    assert folder.read() == RECORD
    assert {os.stat(os.path.join(folder.path, name)).st_mode & 0o777 for name in ("rollout.json", "lock")} == {0o600}
    assert os.stat(folder.path).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "clusters": {"gpu1": {}}}'])
def test_what_is_no_record_is_refused(folder, text):
    with open(os.path.join(folder.path, "rollout.json"), "w") as file:
        file.write(text)
    with refuses("not-a-record"):
        folder.read()


class Start:
    """Plays ansible-playbook: keeps what it is given, and writes what it is to."""

    def __init__(self, status=0, **files):
        self.status, self.files = status, files

    def __call__(self, options, vault, log):
        self.options, self.vault, self.log = options, vault, log
        for name, text in self.files.items():
            with open(os.path.join(os.path.dirname(log), f"{name}.json"), "w") as file:
                file.write(text)
        return self.status


def test_a_run_is_for_its_clusters_and_leaves_its_evidence_in_its_place(folder):
    start = Start(2, tenancy='{"problems": []}')
    run = Run(start, folder, ["--forks=20"], {"x": b"p"}, {})
    path = os.path.join(folder.path, "wave-1/site-gpu1")
    assert run("site", ["gpu1", "gpu2"], "wave-1/site-gpu1", "gpu-host-2026-11-01") == Done(
        {"problems": []}, [], f"site ended with status 2, see {path}/run.log"
    )
    variables = {"kubegpu_evidence": path, "kubegpu_blueprint": "gpu-host-2026-11-01"}
    assert start.options == [
        "kubegpu.tenancy.site",
        "--forks=20",
        f"--extra-vars={json.dumps(variables)}",
        "--limit=gpu1,gpu2",
    ]
    assert start.vault == {"x": b"p"}


def test_the_plan_leaves_out_tenants_on_which_site_would_not_work(folder):
    start = Start()
    Run(start, folder, [], {}, {})("drift", ["gpu1"], "check", only_due=True)
    variables = {"kubegpu_evidence": os.path.join(folder.path, "check"), "_kubegpu_only_due": "true"}
    assert f"--extra-vars={json.dumps(variables)}" in start.options


def test_evidence_of_a_run_before_is_none_of_this_one(folder):
    Run(Start(tenancy="{}"), folder, [], {}, {})("verify", ["gpu1"], "look")
    assert Run(Start(250), folder, [], {}, {})("verify", ["gpu1"], "look").evidence is None
    assert Run(Start(tenancy="{"), folder, [], {}, {})("verify", ["gpu1"], "look").evidence is None


@pytest.mark.parametrize(
    ("playbook", "status", "fails"), [("drift", 2, False), ("drift", 4, False), ("drift", 250, True), ("info", 2, True)]
)
def test_a_status_with_which_drift_tells_is_no_failure(folder, playbook, status, fails):
    start = Start(status, tenancy="{}", info="[]")
    assert bool(Run(start, folder, [], {}, {"drift": "/d.yml"})(playbook, ["gpu1"], "look").failure) == fails
    assert start.options[-1] == {"drift": "--check", "info": "--tags=pending"}[playbook]
