# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.modules import cluster_info
from ansible_collections.kubegpu.tenancy.tests.unit.clusters import Gke
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses, sentences
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import desired

PARAMS = {"tenants": [], "runtime_class": "nvidia", "shared_scheduler": {}, "metrics": {}, "accept_combinations": []}


def look(params, kube=None, helm=None):
    kube = kube or Gke()
    return cluster_info.reconcile(Run(PARAMS | params, kube=kube, helm=helm or InMemoryHelm(kube)))


def test_it_only_reads_and_says_what_is_missing():
    kube = Gke()
    result = look({"tenants": [desired("ml")]}, kube)
    assert (result["changed"], result["distribution"], kube.writes) == (False, "gke", [])
    assert [problem["code"] for problem in result["problems"]] == ["no-runtime-class", "nodes-tainted"]
    assert result["notes"] == []


def test_versions_are_compared_with_the_clusters_own():
    web = {"name": "web", "trust": "high", "vcluster": {"version": "0.36.1", "kubernetes_version": "v1.35.4"}}
    params = PARAMS | {"tenants": [web], "shared_scheduler": {"version": "v0.14.7"}, "accept_combinations": ["vcluster-host"]}
    found = look(params, Gke(version="v1.37.0-gke.1"))
    assert found["problems"] == []
    first, second = found["notes"]
    assert first.startswith("cluster: kai-kubernetes: KAI Scheduler v0.14.7 is tested upstream with Kubernetes 1.31 to 1.35")
    assert second.startswith("Accepted: web: vcluster-host: vCluster 0.36.1 is listed upstream for")
    web["vcluster"] = {"version": "0.35.0", "kubernetes_version": "v1.33.1"}
    (problem,) = look(params)["problems"]
    assert problem["code"] == "versions-too-far-apart"
    assert problem["text"].startswith("web: vcluster.kubernetes_version: ")
    with refuses("unknown-combination"):
        look({"accept_combinations": ["weather"]})


def test_without_tenants_nothing_is_missing():
    kube = Gke()
    kube.denied = {("patch", "nodes")}
    # Nor is Helm, of which this run has none, or a right.
    assert cluster_info.reconcile(Run(PARAMS, kube=kube))["problems"] == []


class Old(InMemoryHelm):
    def major(self):
        raise TenancyError("helm_binary: helm is version 'v2.17.0', and this collection needs Helm 3 or Helm 4.")


def test_helm_and_rights_are_missed_before_they_are_needed():
    kube = Gke()
    kube.denied = {("patch", "nodes")}
    problems = look({"tenants": [desired("ml")]}, kube, Old(kube))["problems"]
    assert problems[0]["text"].startswith("helm_binary: helm is version")
    assert problems[1]["text"].startswith("kubegpu_kubeconfig: its user may not patch nodes. ")
    assert [problem["code"] for problem in problems] == ["failed", "lacks-rights", "no-runtime-class", "nodes-tainted"]
    # Nothing is made in check mode, as drift runs it: a user who may only read compares.
    checked = Run(PARAMS | {"tenants": [desired("ml")]}, check_mode=True, kube=kube)
    assert len(cluster_info.reconcile(checked)["problems"]) == 2


def test_the_bounds_of_a_tenant_ask_for_rights_of_their_own():
    kube = Gke()
    kube.denied = {("create", "networkpolicies")}
    for trust, lacks in (("high", False), ("partial", True)):
        problems = look({"tenants": [desired("ml") | {"trust": trust}]}, kube)["problems"]
        assert any("create networkpolicies.networking.k8s.io" in problem["text"] for problem in problems) is lacks


@pytest.mark.parametrize(("provider", "lacks"), [("annotations", False), ("service_monitor", True)])
def test_what_the_operator_of_a_prometheus_finds_asks_for_rights_of_its_own(provider, lacks):
    kube = Gke()
    kube.denied = {("create", "prometheusrules")}
    metrics = {"provider": provider, "namespace": "monitoring", "labels": {}}
    problems = look({"tenants": [desired("ml")], "metrics": metrics}, kube)["problems"]
    assert any("create prometheusrules.monitoring.coreos.com" in problem["text"] for problem in problems) is lacks


def test_one_who_may_not_even_read_learns_of_all_rights_that_are_missing():
    kube = Gke()
    kube.denied = {("patch", "nodes"), ("list", "nodes")}
    kube.fail("list", "Node", ApiError("Listing Node failed: forbidden", status=403))
    with pytest.raises(TenancyError) as failure:
        look({"tenants": [desired("ml")]}, kube)
    assert sentences(failure.value.problems) == [
        "kubegpu_kubeconfig: its user may not list, patch nodes. Bind a ClusterRole to it that allows that, such as cluster-admin.",
        "Listing Node failed: forbidden",
    ]
    assert [problem.code for problem in failure.value.problems] == ["lacks-rights", "api-error"]
