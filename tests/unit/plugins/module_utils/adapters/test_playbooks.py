# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.playbooks import Playbooks

VAULT = {"prod": b"vault's password"}


def playbook(tmp_path, *tasks, **variables):
    path = tmp_path / "play.yml"
    path.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": list(tasks)}]))
    return str(path)


def test_a_run_has_the_passwords_of_vault_and_its_log_is_private(tmp_path):
    secret = VaultSecret(VAULT["prod"])
    hidden = VaultLib([("prod", secret)]).encrypt(b"a treasure", vault_id="prod").decode()
    (tmp_path / "vars.yml").write_text("hidden: !vault |\n" + "\n".join(f"  {line}" for line in hidden.splitlines()) + "\n")
    task = {"ansible.builtin.debug": {"msg": "found {{ hidden }}"}}
    log = str(tmp_path / "run.log")
    options = [playbook(tmp_path, task), f"--extra-vars=@{tmp_path}/vars.yml"]
    assert Playbooks().run(options, VAULT, log) == 0
    with open(log) as file:
        assert "found a treasure" in file.read()
    assert os.stat(log).st_mode & 0o777 == 0o600


def test_the_status_of_a_run_that_fails(tmp_path):
    log = str(tmp_path / "run.log")
    assert Playbooks().run([playbook(tmp_path, {"ansible.builtin.fail": {"msg": "no"}})], {}, log) == 2
    assert Playbooks().run([str(tmp_path / "none.yml")], {}, log) == 1


def test_time_passes():
    start = time.monotonic()
    Playbooks().sleep(0.2)
    assert time.monotonic() - start >= 0.2


ORPHAN = """
import os, sys, time
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.playbooks import Playbooks
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Superseded
if os.fork() == 0:
    playbooks = Playbooks()
    print("begins", flush=True)
    try:
        {work}
    except Superseded:
        open(sys.argv[1], "w").close()
    os._exit(0)
time.sleep(60)
"""


@pytest.mark.parametrize("work", ["playbooks.sleep(60)", "playbooks.run(sys.argv[2:], {}, sys.argv[1] + '.log')"])
def test_a_run_ends_if_the_one_that_began_it_is_killed(tmp_path, work):
    wait = playbook(tmp_path, {"ansible.builtin.pause": {"seconds": 60}})
    told = tmp_path / "told"
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN.replace("{work}", work), str(told), wait], stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout.readline() == "begins\n"
        time.sleep(2)
        os.kill(caller.pid, signal.SIGKILL)
        end = time.monotonic() + 60
        while not told.exists():
            assert time.monotonic() < end
            time.sleep(0.2)
