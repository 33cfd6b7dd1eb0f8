# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.modules import cluster_info
from ansible_collections.kubegpu.tenancy.tests.unit.clusters import Gke
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import desired

PARAMS = {"tenants": [], "runtime_class": "nvidia", "shared_scheduler": {}, "accept_combinations": []}


def test_it_only_reads_and_says_what_is_missing():
    kube = Gke()
    result = cluster_info.reconcile(Run(PARAMS | {"tenants": [desired("ml")]}, kube=kube))
    assert (result["changed"], result["distribution"], kube.writes) == (False, "gke", [])
    assert [line.partition(":")[0] for line in result["problems"]] == ["kubegpu_runtime_class", "kubegpu_tolerations"]
    assert result["notes"] == []


def test_versions_are_compared_with_the_clusters_own():
    web = {"name": "web", "trust": "high", "vcluster": {"version": "0.36.1", "kubernetes_version": "v1.35.4"}}
    params = PARAMS | {"tenants": [web], "shared_scheduler": {"version": "v0.14.7"}, "accept_combinations": ["vcluster-host"]}
    found = cluster_info.reconcile(Run(params, kube=Gke(version="v1.37.0-gke.1")))
    assert found["problems"] == []
    first, second = found["notes"]
    assert first.startswith("cluster: kai-kubernetes: KAI Scheduler v0.14.7 is tested upstream with Kubernetes 1.31 to 1.35")
    assert second.startswith("Accepted: web: vcluster-host: vCluster 0.36.1 is listed upstream for")
    web["vcluster"] = {"version": "0.35.0", "kubernetes_version": "v1.33.1"}
    (problem,) = cluster_info.reconcile(Run(params, kube=Gke()))["problems"]
    assert problem.startswith(
        "web: vcluster.kubernetes_version: with vCluster 0.35.0, pods of a tenant with Kubernetes 1.33 never"
    )
    with pytest.raises(TenancyError, match="'weather' is no combination"):
        cluster_info.reconcile(Run(PARAMS | {"accept_combinations": ["weather"]}, kube=Gke()))


def test_without_tenants_nothing_is_missing():
    assert cluster_info.reconcile(Run(PARAMS, kube=Gke()))["problems"] == []
