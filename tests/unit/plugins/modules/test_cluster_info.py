# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

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


def test_without_tenants_nothing_is_missing():
    assert cluster_info.reconcile(Run(PARAMS, kube=Gke()))["problems"] == []
