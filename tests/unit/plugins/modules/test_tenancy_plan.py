# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.kubegpu.tenancy.plugins.action.tenancy_plan import ActionModule
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import DEFAULT_VERSION

ROOT = Path(__file__).parents[4]
TENANT = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}
EXISTING = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/etc/kubernetes/admin.conf"}


def call(variables=None, running=None, installs=None, **host):
    given = {"variables": variables, "running": running, "installs": installs}
    args = {key: value for key, value in given.items() if value is not None}
    task = SimpleNamespace(args=args, async_val=0, check_mode=False)
    known = {"inventory_hostname": "dc1"} | host
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp"))
    action = ActionModule(task, connection, None, DataLoader(), Templar(DataLoader(), known), None)
    return action.run(task_vars=known)


def test_the_hosts_variables_are_read_with_what_roles_are_told():
    found = call(**EXISTING, kubegpu_tenants=[TENANT], kai_scheduler_timeout=900, other="x", vcluster_tenant_probe_image="i")
    assert not found["changed"]
    assert found["cluster"]["tenants"][0]["queues"] == []
    assert found["cluster"]["tenants_folder"] == "~/.kube/kubegpu/dc1/tenants"
    assert found["role_variables"] == {"kai_scheduler_timeout": 900, "vcluster_tenant_probe_image": "i"}


def test_variables_that_are_given_take_the_place_of_the_hosts():
    found = call({"kubegpu_tenants": []}, kubegpu_tenants=[TENANT])
    assert found["cluster"]["tenants"] == []
    assert "role_variables" not in found


def test_all_problems_are_reported():
    result = call(
        nvkind_workers=[{"gpus": 4}], kubegpu_tenants=[TENANT | {"trust": "x"}, {"name": "b", "trust": "high", "gpus": 1}]
    )
    assert result["failed"]
    assert result["msg"].startswith("2 problems in the desired state, nothing was changed:\nkubegpu_tenants[0].trust: ")
    assert len(result["problems"]) == 2


@pytest.mark.parametrize(("provider", "failed"), [({}, True), (EXISTING, False)])
def test_only_a_cluster_that_is_made_has_a_layout(provider, failed):
    assert call(**provider, kubegpu_tenants=[TENANT]).get("failed", False) is failed


def test_templates_are_filled_in_on_the_way():
    found = call(
        kubegpu_tenants=trust_as_template("{{ teams }}"),
        teams=[{"name": "web", "trust": trust_as_template("{{ level }}")}],
        level="partial",
        kai_scheduler_values={"a": trust_as_template("{{ level }}")},
    )
    assert found["cluster"]["tenants"][0]["trust"] == "partial"
    assert found["role_variables"] == {"kai_scheduler_values": {"a": "partial"}}


def test_what_stands_for_a_tenant_is_no_desired_state():
    found = call(kubegpu_cluster="dc1", kubegpu_tenant=TENANT, kubegpu_observed={"name": "ml"}, _kubegpu_due=["change"])
    assert found["cluster"]["tenants"] == []


def test_a_release_without_support_is_a_warning_and_a_refusal_where_it_does_not_run():
    inventory = EXISTING | {"kubegpu_tenants": [TENANT | {"scheduler": {"name": "kai", "version": "v0.13.1"}}]}
    ended = "end-of-support: upstream has corrected nothing in it since the end of 2026-03"
    found = call(**inventory)
    assert (found["warnings"], found["cluster"]["unsupported"]) == ([f"ml: {ended}."], {"ml": [ended]})
    # As tenants_info returns it.
    runs = {"changed": False, "tenants": [{"name": "ml", "state": "running", "scheduler_version": "v0.13.1"}]}
    assert call(running=runs, **inventory)["warnings"] == [f"ml: {ended}."]
    assert "warnings" not in call(installs=False, **inventory)
    refused = call(running={}, **inventory)
    assert refused["failed"]
    assert refused["problems"][0].startswith(f"kubegpu_tenants[0].scheduler.version: v0.13.1 is refused. {ended}.")


def test_what_is_returned_is_what_is_documented():
    documented = yaml.safe_load(
        (ROOT / "plugins/modules/tenancy_plan.py").read_text().partition('RETURN = r"""')[2].rpartition('"""')[0]
    )
    assert call().keys() - documented.keys() == {"changed"}
    assert call()["cluster"].keys() == documented["cluster"]["contains"].keys()
    (tenant,) = documented["cluster"]["contains"]["tenants"]["sample"]
    assert call(kubegpu_tenants=[{"name": "web", "trust": "partial"}])["cluster"]["tenants"] == [tenant]


def test_one_version_of_vcluster():
    module = yaml.safe_load((ROOT / "plugins/modules/vcluster.py").read_text().split('"""')[3])
    assert DEFAULT_VERSION in str(module["options"]["version"])
