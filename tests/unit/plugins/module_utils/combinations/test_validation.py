# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._combinations.facts import NAMES, PARTS, ROWS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._combinations.validation import Host, check_names, judge
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.model import Scheduler, Tenant, VCluster
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.status import is_kubernetes_tested
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import release
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses

PLUGIN = {"provider": "device_plugin", "plugin": "0.17.4"}


def tenant(vcluster="0.36.1", kubernetes="", kai="", **more):
    scheduler = Scheduler("kai", kai) if kai else None
    return Tenant(name="ml", trust="high", vcluster=VCluster(vcluster, kubernetes), scheduler=scheduler, **more)


def judged(*tenants, shared="", accepted=(), **host):
    return judge(tenants, shared, Host(**host), accepted)


def names(texts):
    return [text.split(": ")[1] for text in texts]


def test_rows_are_about_parts_and_have_a_source_and_a_range():
    assert all({row.part, row.other} <= PARTS.keys() and row.source and (row.first or row.last) for row in ROWS)
    assert NAMES == ("kai-kubernetes", "vcluster-host", "vcluster-kubernetes", "device-plugin-toolkit")


@pytest.mark.parametrize("kai", ["v0.12.0", "v0.14.7", "v0.15.3", "v0.16.8", "v0.18.6"])
@pytest.mark.parametrize("kubernetes", ["v1.27.1", "v1.30.0", "v1.31.0", "v1.35.4", "v1.36.0", "v1.37.0"])
def test_kai_schedulers_rows_say_what_its_own_table_says(kai, kubernetes):
    warned = "kai-kubernetes" in names(judged(tenant("0.37.0", kubernetes, kai)).untested)
    assert warned is (is_kubernetes_tested(release(kai), kubernetes) is False)


def test_a_tenants_kubernetes_is_the_charts_own_where_none_is_given():
    (text,) = judged(tenant(kai="v0.14.7")).untested
    assert text == (
        "ml: kai-kubernetes: KAI Scheduler v0.14.7 is tested upstream with Kubernetes 1.31 to 1.35, and here it is v1.36 (SUPPORT.md)"
    )
    assert judged(tenant("0.28.0", kai="v0.14.7")).untested == []


@pytest.mark.parametrize(
    ("vcluster", "kubernetes", "host", "found"),
    [
        ("0.36.1", "v1.35.4", "v1.35.4", []),
        ("0.36.1", "v1.35.4", "", []),
        ("0.36.1", "v1.35.4", "v1.37.0", ["vcluster-host"]),
        ("0.36.1", "v1.35.4", "v1.33.9-gke.1", ["vcluster-host"]),
        ("0.36.1", "v1.33.1", "v1.34.0", ["vcluster-kubernetes"]),
        ("0.34.0", "v1.37.0", "v1.33.0", []),
        ("0.37.0", "v1.36.1", "v1.36.1", []),
        ("0.37.0", "v1.37.0", "v1.37.0", ["vcluster-host", "vcluster-kubernetes"]),
        ("0.38.0", "v1.37.0", "v1.37.0", []),
    ],
)
def test_vcluster_and_kubernetes(vcluster, kubernetes, host, found):
    result = judged(tenant(vcluster, kubernetes), kubernetes=host)
    assert (names(result.untested), result.problems) == (found, [])


def test_what_needs_another_version_is_refused_until_it_is_accepted_by_name():
    (problem,) = judged(toolkit="1.6.0", **PLUGIN).problems
    assert problem.code == "combination-not-accepted"
    assert problem.text.startswith(
        "cluster: NVIDIA's device plugin 0.17.4 needs NVIDIA's container toolkit 1.7.0 or later, and here it is 1.6.0"
    )
    assert problem.text.endswith("or accept it with kubegpu_accept_combinations: [device-plugin-toolkit].")
    result = judged(toolkit="1.6.0", accepted=["device-plugin-toolkit"], **PLUGIN)
    assert (result.problems, names(result.accepted), result.untested) == ([], ["device-plugin-toolkit"], [])


def test_a_warning_is_accepted_by_name_too():
    result = judged(tenant(kai="v0.14.7"), accepted=["kai-kubernetes"])
    assert (names(result.accepted), result.untested) == (["kai-kubernetes"], [])


def test_what_cannot_run_is_refused_whatever_is_accepted():
    tenants = [tenant("0.35.0", "v1.33.1")]
    result = judged(*tenants, kubernetes="v1.35.4", driver="380.10", accepted=NAMES, **PLUGIN)
    assert placed(result.problems) == ["device_plugin_version: driver-too-old", "ml: versions-too-far-apart"]
    operator = judged(kubernetes="v1.32.0", provider="gpu_operator", plugin="v26.7.0")
    assert placed(operator.problems) == ["device_plugin_version: kubernetes-not-supported"]


def test_of_a_cluster_of_which_nothing_is_known_nothing_is_said():
    result = judged(tenant("0.35.0", "v1.34.1"), shared="v0.14.7", **PLUGIN)
    assert (result.problems, result.accepted, result.untested) == ([], [], [])


def test_the_shared_scheduler_runs_with_the_host_clusters_kubernetes():
    (text,) = judged(shared="v0.14.7", kubernetes="v1.36.1").untested
    assert text.startswith("cluster: kai-kubernetes: KAI Scheduler v0.14.7")
    shared = Scheduler("kai", shared=True)
    assert judged(Tenant("web", "high", vcluster=VCluster("0.36.1"), scheduler=shared), kubernetes="v1.36.1").untested == []


@pytest.mark.parametrize("state", ["paused", "absent"])
def test_only_tenants_that_are_to_run_are_judged(state):
    assert judged(tenant(kai="v0.14.7", state=state)).untested == []


def test_names_that_are_none_are_refused():
    check_names(NAMES)
    with refuses("unknown-combination"):
        check_names(["vcluster-host", "kai-kubernets"])
