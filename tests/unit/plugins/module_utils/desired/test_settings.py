# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.desired import WEB, WORKERS, problems, read, refused
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed


def test_a_variable_of_the_host_of_a_tenant_is_a_slip_on_that_of_a_cluster():
    assert placed(refused(kubegpu_tenant=[WEB])) == ["kubegpu_tenant: unknown-variable"]
    assert placed(refused(kubegpu_cluster="existing", kubegpu_info={})) == ["kubegpu_cluster: unknown-variable"]
    # As add_host and the inventory plugin give them.
    assert desired_state({"kubegpu_observed": {}, "kubegpu_cluster": "gpu1"}, "gpu1/web", TODAY).tenants == ()


def test_a_provider_that_does_not_exist_is_refused():
    assert placed(refused(kubegpu_cluster_provider="exsting")) == ["kubegpu_cluster_provider: not-a-choice"]


def test_an_unknown_variable_is_refused_with_a_guess():
    assert placed(refused(kubegpu_tenant_list=[], kubegpu_kubeconfig="/x")) == ["kubegpu_tenant_list: unknown-variable"]
    (problem,) = refused(kubegpu_tenats=[])
    assert problem.text.startswith("kubegpu_tenats: unknown variable. Did you mean kubegpu_tenants?")
    for name in ("Kubegpu_tenants", "KUBEGPU_TENANTS", "kubegputenants"):
        (problem,) = refused(**{name: []})
        assert problem.text.startswith(f"{name}: unknown variable. Did you mean kubegpu_tenants?")
    assert desired_state({"kubegpu_info": {}, "other": 1}, "dc1", TODAY).tenants == ()


def test_an_existing_cluster_needs_its_kubeconfig():
    assert placed(refused(kubegpu_cluster_provider="existing")) == ["kubegpu_kubeconfig: missing"]


@pytest.mark.parametrize("path", ["$HOME/k", "/etc/$NAME/k", "admin.conf", "./k", "/a:/b", " /k", "/k ", "/k/", "~", "/a\nb"])
def test_a_kubeconfig_is_one_file_that_every_task_finds(path):
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": path}
    assert placed(refused(**existing)) == ["kubegpu_kubeconfig: not-a-path"]
    assert placed(refused(kubegpu_kubeconfig=path)) == ["kubegpu_kubeconfig: not-a-path"]


@pytest.mark.parametrize("path", ["~ops/k.yml", "/home/my user/k", "/etc/kubernetes/admin.conf", "/tmp/x.conf", "~/.kube/config"])
def test_tenants_kubeconfigs_have_a_folder_of_ours_wherever_the_clusters_own_is(path):
    cluster = desired_state({"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": path}, "dc1", TODAY)
    assert (cluster.kubeconfig, cluster.tenants_folder) == (path, "~/.kube/kubegpu/dc1/tenants")


def test_only_some_tenants():
    tenants = [WEB, {"name": "b", "trust": "high"}]
    assert [tenant.name for tenant in read(tenants, kubegpu_only="web").selected] == ["web"]
    assert [tenant.name for tenant in read(tenants, kubegpu_only="b, web").selected] == ["web", "b"]
    assert [tenant.name for tenant in read(tenants, kubegpu_only=["b"]).selected] == ["b"]
    assert len(read(tenants).selected) == 2
    assert read(tenants, kubegpu_only=["gone"]).only == ("gone",)
    assert placed(refused(kubegpu_only=["Web"])) == ["kubegpu_only[0]: not-a-name"]


def test_names_that_are_no_text_are_refused_and_nothing_more():
    assert placed(refused(kubegpu_only=[{"name": "web"}, 1])) == ["kubegpu_only[0]: wrong-type", "kubegpu_only[1]: wrong-type"]
    twice = [{"name": name, "trust": "high", "gpu_nodes": {"names": [{"a": 1}, 7]}} for name in ("a", "b")]
    assert len(problems(twice)) == 4


@pytest.mark.parametrize("name", ["", ".", "..", "../etc", "a/b", "network", "A", None, 5])
def test_the_name_of_a_cluster_is_one_of_which_folders_can_be_made(name):
    (problem,) = placed(refused(nvkind_cluster_name=name))
    assert problem.startswith("nvkind_cluster_name: ")
    # Where the cluster exists, nothing is named after it.
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x"}
    assert desired_state(existing | {"nvkind_cluster_name": name}, "dc1", TODAY).tenants_folder == "~/.kube/kubegpu/dc1/tenants"


def test_the_folders_of_a_cluster_have_its_name():
    cluster = desired_state({"nvkind_cluster_name": "dc1.gpu"}, "host", TODAY)
    assert (cluster.kubeconfig, cluster.tenants_folder) == ("/etc/kubegpu/dc1.gpu/cluster.yml", "/etc/kubegpu/dc1.gpu/tenants")


@pytest.mark.parametrize(
    ("gpus", "expected"), [(8, ""), ("8", ""), (4, "nvkind_workers: too-few-gpus"), ("many", "lab_gpus: not-a-whole-number")]
)
def test_the_gpus_of_a_lab(gpus, expected):
    variables = {"nvkind_workers": WORKERS, "lab_gpus": gpus}
    if expected:
        assert placed(refused(**variables)) == [expected]
    else:
        assert desired_state(variables, "lab", TODAY).workers == (4, 4, 0)


def test_booleans_of_the_command_line():
    assert desired_state({"kubegpu_accept_lost_pods": "true"}, "dc1", TODAY).accept_lost_pods is True
    assert placed(refused(kubegpu_accept_lost_pods="yes")) == ["kubegpu_accept_lost_pods: wrong-type"]


def test_a_required_rehearsal_has_verdicts():
    assert desired_state({"kubegpu_accept_holds": ["a"]}, "dc1", TODAY).rehearsal == {}
    required = {"kubegpu_rehearsal": "required", "kubegpu_rehearsal_verdicts": "rehearsals"}
    assert desired_state(required, "dc1", TODAY).rehearsal == {"verdicts": "rehearsals", "max_age": 30, "accept_holds": []}
    assert placed(refused(kubegpu_rehearsal="required", kubegpu_rehearsal_max_age=0)) == [
        "kubegpu_rehearsal_verdicts: missing",
        "kubegpu_rehearsal_max_age: out-of-range",
    ]


def test_a_prometheus_that_reads_metrics():
    assert desired_state({}, "dc1", TODAY).metrics == {}
    reader = {"provider": "annotations", "namespace": "monitoring"}
    cluster = desired_state({"kubegpu_metrics": reader}, "dc1", TODAY)
    assert cluster.metrics == cluster.data()["metrics"] == reader | {"labels": {}}
    assert placed(refused(kubegpu_metrics=reader | {"namespace": "Monitoring", "labels": {"a": 1}})) == [
        "kubegpu_metrics.namespace: not-a-name",
        "kubegpu_metrics.labels: not-applicable",
        "kubegpu_metrics.labels.a: wrong-type",
    ]


GATEWAY = {"address": "10.0.0.5", "allow": ["10.20.0.0/16"]}


def test_a_gateway_is_an_address_of_a_gpu_host():
    assert desired_state({}, "dc1", TODAY).gateway == {}
    cluster = desired_state({"kubegpu_gateway": GATEWAY}, "dc1", TODAY)
    assert cluster.gateway == cluster.data()["gateway"] == GATEWAY | {"host": "10.0.0.5", "cluster_api": False}
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/f", "kubegpu_gateway": GATEWAY}
    assert placed(refused(**existing)) == ["kubegpu_gateway: not-applicable"]
    balanced = {"kubegpu_tenant_api": {"type": "LoadBalancer"}, "kubegpu_gateway": GATEWAY | {"address": "::"}}
    assert placed(refused(**balanced)) == ["kubegpu_gateway.address: all-interfaces", "kubegpu_gateway: not-applicable"]


def test_a_proxy_is_one_that_clients_speak_to():
    assert placed(refused(kubegpu_kubeconfig_proxy="socks5://127.0.0.1:1080")) == ["kubegpu_kubeconfig_proxy: socks-proxy"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"kubegpu_charts": "--debug"}, "kubegpu_charts: not-a-place"),
        (
            {"kubegpu_metrics": {"provider": "service_monitor", "namespace": "m", "labels": {"a": "b c"}}},
            "kubegpu_metrics.labels.a: not-a-label-value",
        ),
        ({1: "x"}, "1: wrong-type"),
        ({"lab_gpus": -1}, "lab_gpus: not-a-whole-number"),
        ({"lab_gpus": "9" * 5000}, "lab_gpus: not-a-whole-number"),
        ({"kubegpu_rehearsal_max_age": 10**30}, "kubegpu_rehearsal_max_age: out-of-range"),
    ],
)
def test_what_no_cluster_can_ask_for(variables, expected):
    with pytest.raises(TenancyError) as caught:
        desired_state({TENANTS: [WEB]} | variables, "dc1", TODAY)
    assert expected in placed(caught.value.problems)
