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


def test_a_variable_of_the_host_of_a_tenant_is_a_slip_on_that_of_a_cluster():
    (problem,) = refused(kubegpu_tenant=[WEB])
    assert problem.startswith("kubegpu_tenant: unknown variable. Did you mean kubegpu_tenants?")
    (problem,) = refused(kubegpu_cluster="existing", kubegpu_info={})
    assert problem.startswith("kubegpu_cluster: unknown variable. Did you mean ")
    # As add_host and the inventory plugin give them.
    assert desired_state({"kubegpu_observed": {}, "kubegpu_cluster": "gpu1"}, "gpu1/web", TODAY).tenants == ()


def test_a_provider_that_does_not_exist_is_refused():
    assert refused(kubegpu_cluster_provider="exsting") == ["kubegpu_cluster_provider: 'exsting' is not one of nvkind, existing."]


def test_an_unknown_variable_is_refused_with_a_guess():
    (problem,) = refused(kubegpu_tenant_list=[], kubegpu_kubeconfig="/x")
    assert problem.startswith("kubegpu_tenant_list: unknown variable.")
    (problem,) = refused(kubegpu_tenats=[])
    assert problem.startswith("kubegpu_tenats: unknown variable. Did you mean kubegpu_tenants?")
    assert desired_state({"kubegpu_info": {}, "other": 1}, "dc1", TODAY).tenants == ()


def test_an_existing_cluster_needs_its_kubeconfig():
    (problem,) = refused(kubegpu_cluster_provider="existing")
    assert problem.startswith("kubegpu_kubeconfig: is missing")


@pytest.mark.parametrize("path", ["/etc/kubernetes/admin.conf", "/tmp/x.conf", "~/.kube/config"])
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
    assert refused(kubegpu_only=["Web"]) == ["kubegpu_only[0]: 'Web' is not the name of a tenant."]


def test_names_that_are_no_text_are_refused_and_nothing_more():
    assert refused(kubegpu_only=[{"name": "web"}, 1]) == [
        "kubegpu_only[0]: must be a string, not a dictionary.",
        "kubegpu_only[1]: must be a string, not 1; quote it.",
    ]
    twice = [{"name": name, "trust": "high", "gpu_nodes": {"names": [{"a": 1}, 7]}} for name in ("a", "b")]
    assert len(problems(twice)) == 4


@pytest.mark.parametrize("name", ["", ".", "..", "../etc", "a/b", "network", "A", None, 5])
def test_the_name_of_a_cluster_is_one_of_which_folders_can_be_made(name):
    (problem,) = refused(nvkind_cluster_name=name)
    assert problem.startswith("nvkind_cluster_name: ")
    # Where the cluster exists, nothing is named after it.
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x"}
    assert desired_state(existing | {"nvkind_cluster_name": name}, "dc1", TODAY).tenants_folder == "~/.kube/kubegpu/dc1/tenants"


def test_the_folders_of_a_cluster_have_its_name():
    cluster = desired_state({"nvkind_cluster_name": "dc1.gpu"}, "host", TODAY)
    assert (cluster.kubeconfig, cluster.tenants_folder) == ("/etc/kubegpu/dc1.gpu/cluster.yml", "/etc/kubegpu/dc1.gpu/tenants")


@pytest.mark.parametrize(
    ("gpus", "expected"), [(8, []), ("8", []), (4, ["8 GPUs, the host has 4"]), ("many", ["a whole number"])]
)
def test_the_gpus_of_a_lab(gpus, expected):
    variables = {"nvkind_workers": WORKERS, "lab_gpus": gpus}
    found = refused(**variables) if expected else [desired_state(variables, "lab", TODAY)][1:]
    assert len(found) == len(expected)
    assert all(text in problem for text, problem in zip(expected, found))


def test_booleans_of_the_command_line():
    assert desired_state({"kubegpu_accept_lost_pods": "true"}, "dc1", TODAY).accept_lost_pods is True
    assert refused(kubegpu_accept_lost_pods="yes") == ["kubegpu_accept_lost_pods: must be true or false, not 'yes'."]


def test_a_required_rehearsal_has_verdicts():
    assert desired_state({"kubegpu_accept_holds": ["a"]}, "dc1", TODAY).rehearsal == {}
    required = {"kubegpu_rehearsal": "required", "kubegpu_rehearsal_verdicts": "rehearsals"}
    assert desired_state(required, "dc1", TODAY).rehearsal == {"verdicts": "rehearsals", "max_age": 30, "accept_holds": []}
    assert refused(kubegpu_rehearsal="required", kubegpu_rehearsal_max_age=0) == [
        "kubegpu_rehearsal_verdicts: is missing: say in which folder the verdicts of rehearsals are.",
        "kubegpu_rehearsal_max_age: is 0; it is one day at least.",
    ]


def test_a_prometheus_that_reads_metrics():
    assert desired_state({}, "dc1", TODAY).metrics == {}
    reader = {"provider": "annotations", "namespace": "monitoring"}
    cluster = desired_state({"kubegpu_metrics": reader}, "dc1", TODAY)
    assert cluster.metrics == cluster.data()["metrics"] == reader | {"labels": {}}
    assert refused(kubegpu_metrics=reader | {"namespace": "Monitoring", "labels": {"a": 1}}) == [
        "kubegpu_metrics.namespace: 'Monitoring' is no name of a namespace, such as monitoring.",
        "kubegpu_metrics.labels: are those of ServiceMonitors, of which there are none with annotations.",
        "kubegpu_metrics.labels.a: must be a string, not 1; quote it.",
    ]


def test_a_proxy_is_one_that_clients_speak_to():
    (problem,) = refused(kubegpu_kubeconfig_proxy="socks5://127.0.0.1:1080")
    assert problem.startswith("kubegpu_kubeconfig_proxy: 'socks5://127.0.0.1:1080' is a SOCKS proxy")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"kubegpu_charts": "--debug"}, "kubegpu_charts: '--debug' is no folder on the host"),
        (
            {"kubegpu_metrics": {"provider": "service_monitor", "namespace": "m", "labels": {"a": "b c"}}},
            "labels.a: 'b c' is not",
        ),
        ({1: "x"}, "1: its key must be a string, not 1; quote it."),
        ({"lab_gpus": -1}, "lab_gpus: must be a whole number from 0, not -1."),
        ({"lab_gpus": "9" * 5000}, "lab_gpus: must be a whole number from 0, not '999"),
        ({"kubegpu_rehearsal_max_age": 10**30}, "kubegpu_rehearsal_max_age: a number beyond 2^63"),
    ],
)
def test_what_no_cluster_can_ask_for(variables, expected):
    with pytest.raises(TenancyError) as caught:
        desired_state({TENANTS: [WEB]} | variables, "dc1", TODAY)
    assert any(expected in problem for problem in caught.value.details["problems"]), caught.value.details["problems"]
