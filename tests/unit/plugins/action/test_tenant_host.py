# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.kubegpu.tenancy.plugins.action.tenant_host import ActionModule
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_host


def call(check_mode=False, **args):
    task = SimpleNamespace(args=args, async_val=0, check_mode=check_mode)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp"))
    action = ActionModule(task, connection, None, DataLoader(), Templar(DataLoader()), None)
    return action.run(task_vars={"inventory_hostname": "gpu1.example"})


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_host_of_a_tenant(check_mode):
    result = call(check_mode, name="team-ml", groups=["kubegpu_tenants", "tenant_team-ml", "a b.c"], variables={"x": {"y": 1}})
    assert result == {
        "changed": False,
        "add_host": {
            "host_name": "gpu1.example/team-ml",
            "groups": ["kubegpu_tenants", "tenant_team_ml", "a_b_c"],
            "host_vars": {"x": {"y": 1}, "kubegpu_cluster": "gpu1.example"},
        },
    }


def test_its_cluster_is_the_one_that_the_task_runs_for():
    assert call(name="a", variables={"kubegpu_cluster": "other"})["add_host"]["host_vars"] == {"kubegpu_cluster": "gpu1.example"}
    assert call(name="a")["add_host"]["groups"] == []


def test_ansible_adds_it_to_the_inventory():
    manager = InventoryManager(DataLoader(), sources=[])
    assert isinstance(manager._inventory, InventoryData)
    result = call(name="team-ml", groups=["tenant_team-ml"], variables={"x": 1})
    manager.add_dynamic_host(result["add_host"], result)
    host = manager.get_host("gpu1.example/team-ml")
    assert host.vars["kubegpu_cluster"] == "gpu1.example"
    assert {group.name for group in host.get_groups()} == {"all", "tenant_team_ml"}


@pytest.mark.parametrize("args", [{}, {"name": "a", "gruops": []}, {"name": "a", "variables": "x"}])
def test_wrong_arguments_are_refused(args):
    with pytest.raises(AnsibleError):
        call(**args)


def test_the_options_are_those_that_are_documented():
    options = yaml.safe_load(tenant_host.DOCUMENTATION)["options"]
    documented = {name: {key: option[key] for key in ("type", "required") if key in option} for name, option in options.items()}
    assert documented == {"name": {"type": "str", "required": True}, "groups": {"type": "list"}, "variables": {"type": "dict"}}
