# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what the playbooks install for a desired state."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._artifacts.plan import (
    installations,
    own_images,
    programs,
    unknown,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY

MADE = {"kubegpu_cluster_provider": "nvkind", "nvkind_workers": [{"gpus": [0, 1]}]}
EXISTING = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/etc/kubernetes/admin.conf"}
KAI = {"name": "kai", "version": "v0.16.8"}
BUSYBOX = "docker.io/library/busybox:1.37.0"


def cluster(*tenants, provider=None, **more):
    named = [{"name": f"t{index}", "trust": "high"} | tenant for index, tenant in enumerate(tenants)]
    return desired_state((provider or EXISTING) | {"kubegpu_tenants": named} | more, "dc1", TODAY).data()


def summary(found):
    return [(item.user, item.chart, item.version, item.source) for item in found]


def test_each_tenant_has_a_virtual_cluster_and_the_scheduler_of_its_own_unless_it_is_to_go():
    wanted = cluster({}, {"scheduler": KAI, "state": "paused"}, {"state": "absent", "scheduler": KAI}, kubegpu_charts="/charts")
    assert summary(installations(wanted, {})) == [
        ("t0", "vcluster", "0.36.1", "/charts"),
        ("t1", "vcluster", "0.36.1", "/charts"),
        ("t1", "kai-scheduler", "v0.16.8", "/charts"),
    ]
    assert own_images(wanted, {}) == [(BUSYBOX, "t0"), (BUSYBOX, "t1")]
    assert own_images(wanted, {"vcluster_tenant_probe_image": "own:1"}) == [("own:1", "t0"), ("own:1", "t1")]


def test_another_scheduler_comes_from_where_it_says():
    (_own, other) = installations(
        cluster(
            {
                "scheduler": {
                    "name": "yunikorn",
                    "chart": "yunikorn",
                    "repository": "https://volcano.example",
                    "version": "1.12.0",
                }
            },
            kubegpu_charts="/charts",
        ),
        {},
    )
    assert (other.chart, other.reference, other.repository, other.source) == (
        "yunikorn",
        "yunikorn",
        "https://volcano.example",
        "",
    )
    assert (other.release, other.namespace) == ("yunikorn", "yunikorn")


def test_a_scheduler_that_tenants_share_is_the_clusters():
    shared = {"scheduler": KAI | {"shared": True}, "gpu_nodes": {"count": 1}}
    del shared["scheduler"]["version"]
    wanted = cluster(shared, kubegpu_shared_scheduler=KAI)
    assert summary(installations(wanted, {})) == [("cluster", "kai-scheduler", "v0.16.8", ""), ("t0", "vcluster", "0.36.1", "")]
    assert own_images(wanted, {"kai_scheduler_probe_image": "own:1"}) == [("own:1", "cluster"), (BUSYBOX, "t0")]


def test_a_cluster_that_is_made_has_a_node_image_and_a_device_plugin():
    wanted, settings = cluster(provider=MADE), {"nvkind_image": "kindest/node:v1"}
    assert summary(installations(wanted, settings)) == [("cluster", "nvidia-device-plugin", "0.17.4", "")]
    assert own_images(wanted, settings) == [("kindest/node:v1", "cluster")]
    assert unknown(wanted, settings) == []
    assert [problem for problem in unknown(wanted, {}) if "nvkind_image" in problem]


def test_the_gpu_operator_in_its_place():
    values = {"gpuCluster": {"deployCR": True}}
    settings = {"device_plugin_provider": "gpu_operator", "device_plugin_version": "v26.7.1", "device_plugin_values": values}
    (item,) = installations(cluster(provider=MADE), settings)
    assert (item.chart, item.version, item.api_versions) == ("gpu-operator", "v26.7.1", ("resource.k8s.io/v1/DeviceClass",))
    assert item.values["driver"] == {"enabled": False}
    assert item.values["gpuCluster"] == {"deployCR": True}
    assert item.values["dcgmExporter"] == {"enabled": False}


def test_dcgm_exporter_is_needed_where_a_prometheus_reads_it():
    metrics = {"provider": "annotations", "namespace": "monitoring"}
    settings = {"device_plugin_provider": "gpu_operator", "device_plugin_metrics": metrics}
    (item,) = installations(cluster(provider=MADE), settings)
    assert item.values["dcgmExporter"]["enabled"]
    with pytest.raises(TenancyError, match=r"device_plugin_metrics\.provider: is missing"):
        installations(cluster(provider=MADE), settings | {"device_plugin_metrics": {"namespace": "monitoring"}})


@pytest.mark.parametrize(
    ("version", "values", "hooks"),
    [("v0.8.5", {}, True), ("v0.16.8", {}, False), ("v0.16.8", {"topologyMigration": {"enabled": True}}, True)],
)
def test_hooks_of_kai_run_where_there_is_no_operator_or_topologies_are_copied(version, values, hooks):
    own = {"name": "kai", "version": version, "values": values, "accept_hazards": ["end-of-support"]}
    assert installations(cluster({"scheduler": own}), {})[1].hooks is hooks


def test_a_rehearsal_needs_both_schedulers_and_what_simulates_nodes():
    settings = {
        "rehearsal_baseline": {"version": "v0.14.6"},
        "rehearsal_candidate": {"version": "v0.16.8", "gpu_sharing": False},
        "rehearsal_chart_source": "oci://registry.example/charts",
    }
    found = installations({}, settings)
    assert [(item.user, item.version, item.source) for item in found] == [
        ("rehearsal", "v0.14.6", "oci://registry.example/charts"),
        ("rehearsal", "v0.16.8", "oci://registry.example/charts"),
    ]
    assert [item.values["global"]["gpuSharing"] for item in found] == [True, False]
    assert own_images({}, settings) == [("registry.k8s.io/kwok/kwok:v0.8.0", "rehearsal")]
    assert own_images({}, settings | {"rehearsal_image": "own:1"}) == [("own:1", "rehearsal")]


def test_a_newer_vcluster_is_said_to_start_what_is_not_known():
    newer = {"vcluster": {"version": "0.99.0"}}
    assert [problem for problem in unknown(cluster(newer, {}), {}) if problem.startswith("t0: ")]
    newer["vcluster"]["values"] = {"controlPlane": {"coredns": {"deployment": {"image": "own:1"}}}}
    assert unknown(cluster(newer, {}), {}) == []


@pytest.mark.parametrize(
    ("provider", "settings", "names"),
    [
        (EXISTING, {"nvkind_engine": "nvkind"}, {"helm"}),
        (MADE, {}, {"helm", "docker", "nvidia-smi", "kind"}),
        (MADE, {"nvkind_engine": "nvkind"}, {"helm", "docker", "nvidia-smi", "kind", "nvkind", "kubectl"}),
    ],
)
def test_programs_follow_from_how_the_cluster_is_made(provider, settings, names):
    assert {program.name for program in programs(cluster(provider=provider), settings)} == names
