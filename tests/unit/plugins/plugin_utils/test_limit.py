# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._limit import left_out

LIMITS = {
    "gpu1.example": False,
    "gpu1.example,gpu2": False,
    "gpu*": True,
    "gpu1.example,*/*": True,
    "gpu1.example:gpu1.example/*": True,
    "gpu1.example,tenant_ml": True,
    "gpu1.example,tenant_web": False,
    "gpu1.example,*/*,!*/ml": False,
    "all": True,
    "*": True,
    "!gpu2": True,
    "!gpu2,&gpu1.example": False,
    "~gpu1.*": True,
    "~^gpu1.example$": False,
}


@pytest.mark.parametrize("limit", ["", *LIMITS])
def test_it_says_what_ansible_does(limit):
    inventory = InventoryManager(DataLoader(), sources=[])
    for name in ("gpu1.example", "gpu2"):
        inventory.add_host(name)
    inventory.add_group("tenant_ml")
    inventory.add_host("gpu1.example/ml", group="tenant_ml")
    inventory.reconcile_inventory()
    inventory.subset(limit or None)
    stays = "gpu1.example/ml" in {host.name for host in inventory.get_hosts()}
    assert stays == LIMITS.get(limit, True)
    assert (left_out(limit, "gpu1.example", "ml", ["tenant_ml"]) == "") == stays


@pytest.mark.parametrize("limit", ["~(", "gpu1,~[", "!~*", "&~("])
def test_a_regular_expression_that_is_none_is_told(limit):
    said = left_out(limit, "gpu1", "ml", ())
    assert said.startswith(f"--limit {limit} cannot be read: what stands behind ~ is a regular expression")


def test_parts_of_a_limit_may_be_empty():
    assert left_out(",,gpu1/ml,", "gpu1", "ml", ()) == ""
    assert left_out("gpu1/ml:", "gpu1", "ml", ()) == ""


def test_the_way_out_is_named():
    said = left_out("gpu1", "gpu1", "ml", ())
    assert said.startswith("--limit gpu1 leaves out gpu1/ml, the host that stands for tenant ml during the run")
    assert "Write --limit 'gpu1,*/*'" in said
    assert left_out("gpu1,*/*", "gpu1", "ml", ()) == ""
