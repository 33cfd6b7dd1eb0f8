# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._limit import group_name, left_out

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


@pytest.mark.parametrize(
    ("lines", "stays"),
    [
        ("gpu1.example\n", False),
        ("gpu1.example\ngpu1.example/ml\n", True),
        ("gpu1.example\n\n  */*  \n", True),
        ("gpu1.example\ntenant_ml", True),
        ("*\n!tenant_ml", False),
        ("", True),
    ],
)
def test_a_file_with_a_limit_is_read_as_ansible_does(tmp_path, lines, stays):
    file = tmp_path / "site.retry"
    file.write_text(lines)
    inventory = InventoryManager(DataLoader(), sources=[])
    inventory.add_group("tenant_ml")
    inventory.add_host("gpu1.example")
    inventory.add_host("gpu1.example/ml", group="tenant_ml")
    inventory.reconcile_inventory()
    inventory.subset(f"@{file}")
    assert ("gpu1.example/ml" in {host.name for host in inventory.get_hosts()}) == stays
    said = left_out(f"@{file}", "gpu1.example", "ml", ["tenant_ml"])
    assert (said == "") == stays
    assert stays or f"which says {','.join(filter(None, lines.split()))}, leaves out gpu1.example/ml" in said
    assert left_out(f"@{file},*/*", "gpu1.example", "ml", ()) == "" or "!" in lines


def test_a_file_with_a_limit_that_cannot_be_read_is_told(tmp_path):
    assert "cannot be read: what stands behind @ is a file on the controller ([Errno 2] No such file" in left_out(
        f"@{tmp_path}/none", "gpu1", "ml", ()
    )


def test_the_group_of_a_tenant_is_called_as_ansible_does():
    assert group_name("tenant_team-ml") == "tenant_team_ml"


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
