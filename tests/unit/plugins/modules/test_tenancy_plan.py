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
    task = SimpleNamespace(args=args, async_val=0, check_mode=False, tags=[])
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
        nvkind_workers=[{"count": 4}], kubegpu_tenants=[TENANT | {"trust": "x"}, {"name": "b", "trust": "high", "gpus": 1}]
    )
    assert result["failed"]
    assert result["msg"].startswith("2 problems in the desired state, nothing was changed:\nkubegpu_tenants[0] (ml).trust: ")
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
    variables = {
        "kubegpu_cluster": "dc1",
        "kubegpu_observed": {"name": "ml"},
    }
    found = call(**variables, inventory_hostname="dc1/ml")
    assert found["cluster"]["tenants"] == []


def test_a_release_without_support_is_a_warning_and_a_refusal_where_it_does_not_run():
    inventory = EXISTING | {"kubegpu_tenants": [TENANT | {"scheduler": {"name": "kai", "version": "v0.13.1"}}]}
    ended = "end-of-support: upstream has corrected nothing in it since the end of 2026-03"
    found = call(**inventory)
    assert (found["warnings"], found["cluster"]["unsupported"]) == ([f"ml: {ended}."], {"ml": [ended]})
    # As tenancy_info returns it.
    runs = {"changed": False, "tenants": [{"name": "ml", "state": "running", "scheduler_version": "v0.13.1"}]}
    assert call(running=runs, **inventory)["warnings"] == [f"ml: {ended}."]
    assert "warnings" not in call(installs=False, **inventory)
    refused = call(running={}, **inventory)
    assert refused["failed"]
    assert refused["problems"][0]["text"].startswith(f"kubegpu_tenants[0] (ml).scheduler.version: v0.13.1 is refused. {ended}.")


def test_a_blueprint_says_what_the_inventory_does_not():
    name = "gpu-host-2026-11-23"
    scheduled = TENANT | {"scheduler": {"name": "kai"}, "queues": [{"name": "ml"}]}
    given = {"kubegpu_blueprint": name, "nvkind_workers": [{"count": 8}], "kubegpu_tenants": [scheduled]}
    found = call(**given, device_plugin_version="0.18.2")
    (tenant,) = found["cluster"]["tenants"]
    assert (tenant["scheduler"]["version"], tenant["vcluster"]["version"]) == ("v0.16.8", DEFAULT_VERSION)
    assert found["cluster"]["blueprint"]["name"] == name
    assert found["cluster"]["blueprint"]["overridden"] == ["device_plugin_version"]
    assert found["defaults"] == {
        "docker_nvidia_runtime_toolkit_version": "1.20.1",
        "nvkind_image": "docker.io/kindest/node:v1.36.1",
        "device_plugin_provider": "device_plugin",
    }
    # As the playbook notes them: a second look finds nothing more to note, and the same blueprint.
    again = call(**given, device_plugin_version="0.18.2", **found["defaults"])
    assert again["defaults"] == {}
    assert again["cluster"] == found["cluster"]
    assert call(**given | {"kubegpu_blueprint": ""})["problems"] == [
        {"code": "missing", "text": "kubegpu_tenants[0] (ml).scheduler.version: is missing."}
    ]
    variables = call({"kubegpu_blueprint": name, "kubegpu_tenants": []})
    assert variables["cluster"]["blueprint"]["name"] == name
    assert "defaults" not in variables


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("latest", "kubegpu_blueprint: 'latest' has no date at its end"),
        ("gpu-hots-2026-11-23", "Did you mean gpu-host-2026-11-23? There are existing-cluster-2026-11-23, gpu-host-2026-11-23"),
        (3, "kubegpu_blueprint: must be a string, not 3"),
    ],
)
def test_what_names_no_blueprint_is_refused(given, problem):
    found = call(**EXISTING, kubegpu_blueprint=given)
    assert found["failed"]
    assert problem in found["msg"]


def test_versions_that_do_not_go_together_are_refused_or_a_warning():
    kai = {"scheduler": {"name": "kai", "version": "v0.14.7"}, "queues": [{"name": "ml", "gpu": {"quota": 1}}]}
    made = {"nvkind_workers": [{"count": 8}], "kubegpu_tenants": [TENANT | kai]}
    found = call(**made, nvkind_image="127.0.0.1:5000/kindest/node:v1.37.0-network-policies@sha256:00")
    assert [line.split(": ")[1] for line in found["warnings"]] == ["kai-kubernetes", "vcluster-host"]
    assert found["cluster"]["combinations"]["untested"] == [line.removesuffix(".") for line in found["warnings"]]
    accepted = call(**made, kubegpu_accept_combinations=["kai-kubernetes"])
    assert "warnings" not in accepted
    assert accepted["cluster"]["accept_combinations"] == ["kai-kubernetes"]
    assert len(accepted["cluster"]["combinations"]["accepted"]) == 1
    (refused,) = call(**made, docker_nvidia_runtime_toolkit_version="1.6.0")["problems"]
    assert refused["code"] == "combination-not-accepted"
    assert "failed" not in call(installs=False, **made, docker_nvidia_runtime_toolkit_version="1.6.0")
    # What installs nothing of it on a cluster that exists knows nothing of it.
    there = call(**EXISTING, kubegpu_tenants=made["kubegpu_tenants"], docker_nvidia_runtime_toolkit_version="1.6.0")
    assert [line.split(": ")[1] for line in there["warnings"]] == ["kai-kubernetes"]
    unknown = call(**made, kubegpu_accept_combinations=["weather"])["problems"]
    assert [problem["code"] for problem in unknown] == ["unknown-combination"]


def test_a_gpu_quota_that_nobody_wrote_is_a_warning_where_a_pod_could_wait_for_it():
    tree = [
        {
            "name": "all",
            "gpu": {"limit": 1},
            "children": [{"name": "a", "gpu": {"quota": 1}}, {"name": "b", "gpu": {"limit": 0}}],
        },
        {"name": "c", "gpu": {"quota": 0}},
        {"name": "d", "cpu": {"quota": 4}},
    ]
    kai = {"scheduler": {"name": "kai", "version": "v0.16.8"}, "queues": tree}
    found = call(**EXISTING, kubegpu_tenants=[TENANT | kai])
    assert [line.partition(" is not")[0] for line in found["warnings"]] == ["ml: queues.all.gpu.quota", "ml: queues.d.gpu.quota"]
    assert "wait there for ever for GPUs. Write it, also where 0 is meant." in found["warnings"][0]
    # It has no GPUs, or is not to be there.
    for other in ({"name": "ml", "trust": "high"}, TENANT | {"state": "absent"}):
        assert "warnings" not in call(**EXISTING, kubegpu_tenants=[other | kai])


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
