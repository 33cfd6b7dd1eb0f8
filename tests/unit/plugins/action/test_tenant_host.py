# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.kubegpu.tenancy.plugins.action.tenant_host import ActionModule
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_host

PLAYS = [
    {
        "hosts": "clusters",
        "gather_facts": False,
        "tasks": [
            {
                "kubegpu.tenancy.tenant_host": {
                    "name": "{{ item }}",
                    "groups": ["tenant_{{ item }}", "a b.c"],
                    "variables": {"x": {"y": "{{ inventory_hostname }}"}, "kubegpu_cluster": "another"},
                },
                "loop": ["team-ml", "web"],
            },
            {"kubegpu.tenancy.tenant_host": {"name": "bare"}},
        ],
    },
    {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.copy": {"dest": "{{ file }}", "content": "{{ [groups, hostvars] | to_json }}"}, "check_mode": False}
        ],
    },
]


@pytest.mark.parametrize("option", ["--diff", "--check"])
def test_tenants_are_hosts_for_each_host_of_a_play(tmp_path, option):
    """By a run, because how a host gets to the inventory is ansible-core's own affair."""
    (tmp_path / "play.yml").write_text(yaml.safe_dump(PLAYS))
    (tmp_path / "hosts").write_text(
        f"localhost ansible_connection=local ansible_python_interpreter={sys.executable}\n[clusters]\ngpu1.example\ngpu2\n"
    )
    subprocess.run(
        ["ansible-playbook", option, "-i", tmp_path / "hosts", "-e", f"file={tmp_path / 'seen'}", tmp_path / "play.yml"],
        check=True,
    )
    groups, variables = json.loads((tmp_path / "seen").read_text())
    assert sorted(groups["tenant_team_ml"]) == ["gpu1.example/team-ml", "gpu2/team-ml"]
    assert sorted(groups["a_b_c"]) == ["gpu1.example/team-ml", "gpu1.example/web", "gpu2/team-ml", "gpu2/web"]
    assert sorted(groups["ungrouped"]) == ["gpu1.example/bare", "gpu2/bare", "localhost"]
    tenant = variables["gpu2/web"]
    assert (tenant["x"], tenant["kubegpu_cluster"]) == ({"y": "gpu2"}, "gpu2")


@pytest.mark.parametrize("args", [{}, {"name": "a", "gruops": []}, {"name": "a", "variables": "x"}])
def test_wrong_arguments_are_refused(args):
    task = SimpleNamespace(args=args, async_val=0, check_mode=False)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp"))
    action = ActionModule(task, connection, None, DataLoader(), Templar(DataLoader()), None)
    with pytest.raises(AnsibleError):
        action.run(task_vars={"inventory_hostname": "gpu1.example"})


def test_the_options_are_those_that_are_documented():
    options = yaml.safe_load(tenant_host.DOCUMENTATION)["options"]
    documented = {name: {key: option[key] for key in ("type", "required") if key in option} for name, option in options.items()}
    assert documented == {"name": {"type": "str", "required": True}, "groups": {"type": "list"}, "variables": {"type": "dict"}}
