# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.facts import NETWORK_POLICY, SERVICE, SERVICE_MONITOR
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_metrics import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi, written_by
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item, on_host

NAME, NAMESPACE = "kubegpu-metrics", "tenant-ml"
MONITORED = {"provider": "service_monitor", "labels": {"release": "stack"}}


def cluster(*more, unserved=()):
    return InMemoryApi([*on_host(), item("v1", "Namespace", "monitoring"), *more], unserved)


def call(kube, check_mode=False, **change):
    kube.writes.clear()
    options = {"name": "ml", "state": "present", "provider": "annotations", "namespace": "monitoring", "labels": {}}
    run = make_run(options | change, kube, check_mode=check_mode)
    result = reconcile(run)
    for part in (result, *result.get("steps", [])):
        part.pop("seconds", None)
    return result | {"warned": run.warnings}


def kinds(kube):
    return [kind for _api, kind, where, name in kube.objects if (where, name) == (NAMESPACE, NAME)]


@pytest.mark.parametrize(
    ("options", "made"),
    [({}, ["NetworkPolicy", "Service"]), (MONITORED, ["NetworkPolicy", "Service", "ServiceMonitor"])],
    ids=["annotations", "service_monitor"],
)
def test_there_and_back(options, made):
    kube = cluster()
    before = kube.objects.copy()
    predicted = call(kube, check_mode=True, **options)
    assert kube.writes == []
    assert call(kube, **options) == predicted
    assert kube.writes == [("create", kind, NAME) for kind in made]
    assert predicted["diff"]["after"].keys() == {f"{kind} {NAMESPACE}/{NAME}" for kind in made}
    assert predicted["warned"] == []

    again = call(kube, **options)
    assert (again["changed"], again["diff"], kube.writes) == (False, {"before": {}, "after": {}}, [])

    foreseen = call(kube, check_mode=True, state="absent")
    assert (foreseen["changed"], kube.writes) == (True, [])
    assert call(kube, state="absent") == foreseen
    # What announces goes before what fences.
    assert kube.writes == [("delete", kind, NAME) for kind in reversed(made)]
    assert kube.objects == before
    assert not call(kube, state="absent")["changed"]


def test_it_goes_from_one_provider_to_the_other_and_to_another_prometheus():
    kube = cluster(item("v1", "Namespace", "observability"))
    call(kube)
    assert call(kube, **MONITORED)["changed"]
    assert kube.writes == [("patch", "Service", NAME), ("create", "ServiceMonitor", NAME)]
    assert kube.get(*SERVICE, NAME, NAMESPACE)["metadata"].get("annotations", {}) == {}
    call(kube, **MONITORED, namespace="observability")
    assert kube.writes == [("patch", "NetworkPolicy", NAME)]
    readers = kube.get(*NETWORK_POLICY, NAME, NAMESPACE)["spec"]["ingress"][1]["from"]
    assert readers == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}}]
    call(kube, **MONITORED | {"labels": {"team": "x"}})
    assert kube.get(*SERVICE_MONITOR, NAME, NAMESPACE)["metadata"]["labels"].get("release") is None
    call(kube)
    assert kinds(kube) == ["NetworkPolicy", "Service"]


def test_who_changed_an_object_is_said():
    kube = cluster()
    call(kube)
    live = kube.get(*NETWORK_POLICY, NAME, NAMESPACE)
    kube.put(
        written_by(live | {"spec": live["spec"] | {"ingress": []}}, "kubectl-edit", "2026-11-24T10:02:00Z", ("spec", "ingress"))
    )
    written = {f"NetworkPolicy {NAMESPACE}/{NAME}": {"since": "2026-11-24T10:02:00Z", "by": "kubectl-edit"}}
    assert call(kube, check_mode=True)["diff"]["written"] == written
    assert call(kube, check_mode=True, state="absent")["diff"]["written"] == written


def test_only_what_this_collection_made_is_removed():
    foreign = item(*NETWORK_POLICY, NAME, NAMESPACE, spec={}, labels={"kubegpu.tenancy/metrics": "kai"})
    kube = cluster(foreign)
    assert not call(kube, state="absent")["changed"]
    with pytest.raises(TenancyError, match=r"Could not create NetworkPolicy tenant-ml/kubegpu-metrics.*already exists"):
        call(kube)
    # Nothing is announced that is not fenced.
    assert kinds(kube) == ["NetworkPolicy"]


def test_a_prometheus_in_a_tenants_namespace_would_read_others():
    kube = cluster(*on_host("web"))
    with pytest.raises(TenancyError, match="tenant-web is that of tenant web"):
        call(kube, namespace="tenant-web")
    assert kube.writes == []


def test_without_the_prometheus_operator_it_says_what_is_missing():
    kube = cluster(unserved=[SERVICE_MONITOR])
    with pytest.raises(TenancyError, match=r"has no ServiceMonitor in monitoring\.coreos\.com/v1.*or take annotations"):
        call(kube, **MONITORED)
    assert kube.writes == []
    assert call(kube)["changed"]


def test_a_scheduler_that_tenants_share_is_read_by_the_prometheus_alone_at_the_port_of_its_metrics():
    kube = cluster(item("v1", "Namespace", "kai-scheduler"))
    before = kube.objects.copy()
    predicted = call(kube, check_mode=True, name=None)
    assert call(kube, name=None) == predicted
    assert kube.writes == [("create", "NetworkPolicy", NAME)]
    spec = kube.get(*NETWORK_POLICY, NAME, "kai-scheduler")["spec"]
    assert spec["podSelector"] == {}
    others, own, reader = spec["ingress"]
    assert [(port["port"], port["endPort"]) for port in others["ports"]] == [(1, 8079), (8081, 65535)]
    assert (own, reader["ports"]) == ({"from": [{"podSelector": {}}]}, [{"port": 8080, "protocol": "TCP"}])
    assert reader["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert not call(kube, name=None)["changed"]
    # Tenants have theirs besides.
    call(kube)
    assert call(kube, name=None, state="absent")["changed"]
    assert kinds(kube) == ["NetworkPolicy", "Service"]
    call(kube, state="absent")
    assert kube.objects == before


def test_the_operator_of_the_prometheus_finds_the_services_of_a_scheduler_that_tenants_share():
    kube = cluster(item("v1", "Namespace", "kai-scheduler"))
    before = kube.objects.copy()
    call(kube, name=None, **MONITORED)
    assert kube.writes == [("create", "NetworkPolicy", NAME), ("create", "ServiceMonitor", NAME)]
    monitor = kube.get(*SERVICE_MONITOR, NAME, "kai-scheduler")
    assert monitor["metadata"]["labels"]["release"] == "stack"
    assert (monitor["spec"]["selector"], [one["port"] for one in monitor["spec"]["endpoints"]]) == (
        {},
        ["http-metrics", "metrics"],
    )
    assert not call(kube, name=None, **MONITORED)["changed"]
    call(kube, name=None)
    assert kube.writes == [("delete", "ServiceMonitor", NAME)]
    call(kube, name=None, state="absent")
    assert kube.objects == before


def test_without_a_scheduler_that_tenants_share_there_is_nothing_to_keep_them_from():
    with pytest.raises(TenancyError, match="There is no namespace kai-scheduler"):
        call(cluster(), name=None)
    assert call(cluster(), check_mode=True, name=None)["changed"]
    assert not call(cluster(), name=None, state="absent")["changed"]


def test_a_namespace_that_is_yet_to_come_is_warned_of():
    (warning,) = call(cluster(), namespace="observability")["warned"]
    assert warning.startswith("The host cluster has no namespace observability")


def test_policies_that_nobody_enforces_are_warned_of():
    kube = cluster()
    kube.patch("v1", "Namespace", NAMESPACE, {"metadata": {"annotations": {"kubegpu.tenancy/network-policies": "unenforced"}}})
    (warning,) = call(kube)["warned"]
    assert warning.startswith("The network of this cluster does not enforce network policies")


def test_a_tenant_that_is_not_there():
    kube = InMemoryApi([item("v1", "Namespace", "monitoring")])
    with pytest.raises(TenancyError, match="there is no tenant ml"):
        call(kube)
    assert kube.writes == []
    # Check mode of site.yml, which would have made it.
    assert call(kube, check_mode=True)["changed"]
    assert not call(kube, state="absent")["changed"]
