# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import fragment_loader
from ansible.utils.plugin_docs import get_docstring
from ansible_collections.kubegpu.tenancy.plugins.inventory import vclusters
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.facts import CLUSTER, INTERNAL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import PAUSED
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.virtual_cluster import OBJECTS, WORKLOAD

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module", autouse=True)
def _options():
    """As Ansible's loader does it: a plugin's options are what its documentation says."""
    documented = get_docstring(vclusters.__file__, fragment_loader)[0]
    constants.config.initialize_plugin_configuration_definitions(
        "inventory", vclusters.InventoryModule.NAME, documented["options"]
    )


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "dc1.vclusters.yml"
    content = {"plugin": "kubegpu.tenancy.vclusters", "cluster": "gpu1", "kubeconfig": "/kube/cluster.yml"}
    content |= {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(tmp_path / "cache")}
    content |= {"keyed_groups": [{"prefix": "state", "key": "kubegpu_observed.state"}], "compose": {"cores": "1 + 1"}}
    path.write_text(yaml.safe_dump(content))
    return str(path)


def read(source):
    inventory = InventoryData()
    plugin = vclusters.InventoryModule()
    plugin._load_name = vclusters.InventoryModule.NAME
    plugin._redirected_names = [vclusters.InventoryModule.NAME]
    plugin.parse(inventory, DataLoader(), source)
    plugin.update_cache_if_changed()
    return inventory


def test_tenants_are_hosts_and_the_cluster_is_asked_once(source, monkeypatch):
    asked = []
    monkeypatch.setattr(vclusters.Kube, "connect", lambda **auth: asked.append(auth) or InMemoryApi(OBJECTS))
    for _time in range(2):
        inventory = read(source)
        host = inventory.hosts["gpu1/team-ml"]
        assert {group.name for group in host.get_groups()} - {"all", "ungrouped"} == {
            "kubegpu_tenants",
            "tenant_team_ml",
            "trust_partial",
            "vcluster_0_36_1",
            "scheduler_kai_v0_13_1",
            "state_running",
        }
        assert host.vars["kubegpu_cluster"] == "gpu1"
        assert host.vars["kubegpu_observed"] == {
            "name": "team-ml",
            "namespace": "tenant-team-ml",
            "trust": "partial",
            "state": "running",
            "vcluster_version": "0.36.1",
            "kubernetes_version": "v1.35.4",
            "scheduler": {"name": "kai", "version": "v0.13.1"},
            "nodes": {"tenant.kubegpu.tenancy/team-ml": "true"},
            "network_policies": None,
        }
        assert host.vars["cores"] == 2
    assert asked == [{"kubeconfig": "/kube/cluster.yml", "context": None}]


def configured(source, **options):
    """Have other options in the file of the plugin; None leaves one out."""
    content = yaml.safe_load(Path(source).read_text()) | {"cache": False} | options
    Path(source).write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/kube/tenants/team-ml.yml"),
        ({"kubeconfigs": "/elsewhere"}, "/elsewhere/team-ml.yml"),
        ({"kubeconfig": None, "kubeconfigs": "/elsewhere"}, "/elsewhere/team-ml.yml"),
        # The environment, or ~/.kube/config, may name the cluster; nothing says where the tenants' are.
        ({"kubeconfig": None}, None),
    ],
)
def test_commands_run_on_the_controller_with_the_tenants_kubeconfig(source, monkeypatch, options, path):
    monkeypatch.delenv("K8S_AUTH_KUBECONFIG", raising=False)
    monkeypatch.setattr(vclusters.Kube, "connect", lambda **_auth: InMemoryApi(OBJECTS))
    configured(source, **options)
    found = read(source).hosts["gpu1/team-ml"].vars
    assert (found["ansible_connection"], found["ansible_python_interpreter"]) == ("local", sys.executable)
    assert found.get("kubegpu_tenant_kubeconfig") == path


def test_a_paused_tenant_is_in_no_group_of_a_scheduler(source, monkeypatch):
    paused = {"metadata": WORKLOAD["metadata"] | {"annotations": {PAUSED: "true"}}, "spec": WORKLOAD["spec"] | {"replicas": 0}}
    rest = [item for item in OBJECTS[1:] if item["kind"] != "Pod"]
    monkeypatch.setattr(vclusters.Kube, "connect", lambda **_auth: InMemoryApi([WORKLOAD | paused, *rest]))
    host = read(source).hosts["gpu1/team-ml"]
    names = {group.name for group in host.get_groups()}
    assert names - {"all"} == {"kubegpu_tenants", "tenant_team_ml", "trust_partial", "vcluster_0_36_1", "state_paused"}
    assert host.vars["kubegpu_observed"]["scheduler"] is None


def test_nothing_that_was_seen_has_the_name_of_something_that_is_wanted(source, monkeypatch):
    monkeypatch.setattr(vclusters.Kube, "connect", lambda **_auth: InMemoryApi(OBJECTS))
    files = [path for folder in (ROOT, ROOT / "lab") for path in folder.glob("roles/*/meta/argument_specs.yml")]
    specs = [yaml.safe_load(path.read_text())["argument_specs"] for path in files]
    inputs = {name for spec in specs for entry in spec.values() for name in entry.get("options", {})} | CLUSTER.keys()
    assert {"kubegpu_tenants", "vcluster_tenant_desired"} <= inputs
    published = read(source).hosts["gpu1/team-ml"].vars.keys() - {"inventory_file", "inventory_dir", "cores"}
    reached = {"ansible_connection", "ansible_python_interpreter"}
    assert published == {"kubegpu_cluster", "kubegpu_observed", "kubegpu_tenant_kubeconfig"} | reached
    assert published.isdisjoint(inputs)
    # The desired state does not refuse them either, where a host has both.
    assert published - reached <= set(INTERNAL)


def test_the_examples_are_right(source, monkeypatch):
    monkeypatch.setattr(vclusters.Kube, "connect", lambda **_auth: InMemoryApi(OBJECTS))
    example = yaml.safe_load(vclusters.EXAMPLES) | {"kubeconfig": "/none", "cache": False, "strict": True}
    Path(source).write_text(yaml.safe_dump(example))
    host = read(source).hosts["gpu1.example/team-ml"]
    assert host.vars["host_namespace"] == "tenant-team-ml"
    names = {group.name for group in host.get_groups()}
    assert "state_running" in names
    assert "open_networks" not in names


def test_a_cluster_that_does_not_answer_is_an_error(source, monkeypatch):
    def refuse(**_auth):
        raise TenancyError("The Kubernetes API cannot be reached: refused")

    monkeypatch.setattr(vclusters.Kube, "connect", refuse)
    with pytest.raises(AnsibleParserError, match="cannot be reached: refused"):
        read(source)


def test_a_file_of_another_name_that_asks_for_it_is_refused_with_the_names_it_takes(source):
    plugin = vclusters.InventoryModule()
    assert plugin.verify_file(source)
    assert not plugin.verify_file(f"{source}/none.vclusters.yml")
    other = Path(source).rename(source.replace("vclusters", "tenants"))
    with pytest.raises(
        AnsibleParserError, match=r"tenants\.yml: the name .* ends in vclusters\.yml or vclusters\.yaml, such as dc1"
    ):
        plugin.verify_file(str(other))
