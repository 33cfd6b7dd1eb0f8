# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.facts import CONFIG_MAP, PROMETHEUS_RULE, SERVICE_MONITOR
from ansible_collections.kubegpu.tenancy.plugins.modules.monitoring import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi, written_by
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item, on_host

RULE, BOARD = ("PrometheusRule", "kubegpu"), ("ConfigMap", "kubegpu-dashboard")
GROUPS = [
    {"name": "gpus", "rules": [{"alert": "Twice", "expr": "a > b", "for": "10m", "annotations": {"summary": "{{ $value }}"}}]}
]
DASHBOARD = {"uid": "gpus", "panels": []}


def cluster(*more, unserved=()):
    return InMemoryApi([item("v1", "Namespace", "monitoring"), *more], unserved)


def call(kube, check_mode=False, **change):
    kube.writes.clear()
    options = {"state": "present", "namespace": "monitoring", "labels": {"release": "stack"}}
    run = make_run(options | {"groups": GROUPS, "dashboard": DASHBOARD} | change, kube, check_mode=check_mode)
    result = reconcile(run)
    for part in (result, *result.get("steps", [])):
        part.pop("seconds", None)
    return result | {"warned": run.warnings}


def absent(kube, check_mode=False):
    return call(kube, check_mode, state="absent", namespace=None, groups=[], dashboard={})


def test_there_and_back():
    kube = cluster()
    before = kube.objects.copy()
    predicted = call(kube, check_mode=True)
    assert kube.writes == []
    assert call(kube) == predicted
    assert kube.writes == [("create", *BOARD), ("create", *RULE)]
    assert predicted["diff"]["after"].keys() == {f"{kind} monitoring/{name}" for kind, name in (RULE, BOARD)}

    again = call(kube)
    assert (again["changed"], again["diff"], kube.writes) == (False, {"before": {}, "after": {}}, [])

    foreseen = absent(kube, check_mode=True)
    assert (foreseen["changed"], kube.writes) == (True, [])
    assert absent(kube) == foreseen
    assert kube.writes == [("delete", *RULE), ("delete", *BOARD)]
    assert kube.objects == before
    assert not absent(kube)["changed"]


def test_the_operator_and_grafana_find_what_they_are_given():
    kube = cluster()
    call(kube)
    rule = kube.get(*PROMETHEUS_RULE, "kubegpu", "monitoring")
    assert rule["spec"] == {"groups": GROUPS}
    ours = {"app.kubernetes.io/managed-by": "kubegpu.tenancy", "kubegpu.tenancy/metrics": "rules"}
    assert rule["metadata"]["labels"] == ours | {"release": "stack"}
    board = kube.get(*CONFIG_MAP, "kubegpu-dashboard", "monitoring")
    assert {name: json.loads(text) for name, text in board["data"].items()} == {"kubegpu.json": DASHBOARD}
    assert board["metadata"]["labels"] == ours | {"grafana_dashboard": "1"}


def test_it_goes_to_another_prometheus():
    kube = cluster(item("v1", "Namespace", "observability"))
    call(kube)
    assert call(kube, namespace="observability")["changed"]
    assert kube.writes == [("create", *BOARD), ("create", *RULE), ("delete", *RULE), ("delete", *BOARD)]
    assert {key[2] for key in kube.objects if key[2]} == {"observability"}
    call(kube, namespace="observability", labels={"team": "x"})
    assert kube.writes == [("patch", *RULE)]
    assert "release" not in kube.get(*PROMETHEUS_RULE, "kubegpu", "observability")["metadata"]["labels"]


@pytest.mark.parametrize(
    ("kind", "name", "key", "edited"),
    [
        (PROMETHEUS_RULE, "kubegpu", "spec", {"groups": []}),
        (CONFIG_MAP, "kubegpu-dashboard", "data", {"kubegpu.json": "{}", "more.json": "{}"}),
    ],
)
def test_what_a_person_changed_is_told_and_taken_back(kind, name, key, edited):
    kube = cluster()
    call(kube)
    live = kube.get(*kind, name, "monitoring")
    kube.put(written_by(live | {key: edited}, "kubectl-edit", "2026-11-24T10:02:00Z", (key,)))
    found = call(kube, check_mode=True)["diff"]
    title = f"{kind[1]} monitoring/{name}"
    assert found["written"] == {title: {"since": "2026-11-24T10:02:00Z", "by": "kubectl-edit"}}
    call(kube)
    assert kube.get(*kind, name, "monitoring")[key] == live[key]
    assert not call(kube)["changed"]


def test_only_what_this_collection_made_is_touched():
    foreign = item(*PROMETHEUS_RULE, "kubegpu", "monitoring", spec={"groups": []})
    kube = cluster(foreign)
    assert not absent(kube)["changed"]
    with pytest.raises(TenancyError, match=r"Could not create PrometheusRule monitoring/kubegpu.*already exists"):
        call(kube)


def test_the_right_that_is_missing_is_named():
    kube = cluster()
    forbidden = (
        'User "ops" cannot create resource "prometheusrules" in API group "monitoring.coreos.com" in the namespace "monitoring"'
    )
    kube.fail("create", "PrometheusRule", ApiError(f"Creating PrometheusRule kubegpu failed: {forbidden}.", status=403))
    with pytest.raises(
        TenancyError, match=r"cannot create resource \"prometheusrules\".*by a Role in the namespace of the Prometheus"
    ):
        call(kube)


def test_a_prometheus_that_may_not_read_gets_no_rules():
    kube = cluster(*on_host("web"), unserved=[SERVICE_MONITOR])
    with pytest.raises(TenancyError, match="tenant-web is that of tenant web"):
        call(kube, namespace="tenant-web")
    with pytest.raises(TenancyError, match="has no ServiceMonitor"):
        call(kube)
    assert kube.writes == []


def test_a_namespace_that_is_yet_to_come_is_warned_of():
    kube = cluster()
    result = call(kube, namespace="observability")
    assert (result["changed"], kube.writes) == (False, [])
    assert result["warned"] == [
        "The host cluster has no namespace observability: no client reads metrics until a Prometheus runs in it."
    ]


def test_a_cluster_without_the_operator_is_asked_once():
    kube = cluster(unserved=[PROMETHEUS_RULE])
    assert not absent(kube)["changed"]
    assert kube.reads == [("list", "ConfigMap", None)]
