# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import MARKER_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.plan import kai_objects
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.facts import BOUNDS, CHANGE, RECORD, VERIFY
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.lifecycle import (
    compare_queues,
    holds_credentials,
    queues_of,
    read_all,
    read_one,
    record,
    shared_scheduler,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.status import Due, Live, fingerprint
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import KAI_VERSION, desired, host_kai, kubeconfig, on_host

NOW = datetime.datetime(2026, 11, 22, 12, 0, tzinfo=datetime.timezone.utc)
RESULTS = [{"name": "gpu", "queue": "q", "verdict": "passed", "reason": "", "seconds": 1.0}]


# --- reading -----------------------------------------------------------------------------------------------------


def test_all_tenants_are_read_by_few_lists_however_many_there_are():
    kube = InMemoryApi(on_host())
    assert read_all(kube)["ml"].state == "running"
    few = list(kube.reads)
    assert len(few) == 17
    assert {verb for verb, _kind, _where in few} == {"list"}
    many = InMemoryApi([one for number in range(50) for one in on_host(f"t{number}")])
    assert len(read_all(many)) == 50
    assert many.reads == few


@pytest.mark.parametrize("provider", ["annotations", "service_monitor"])
def test_what_a_prometheus_reads_it_by_is_part_of_a_tenant(provider):
    objects = kai_objects("ml", "tenant-ml", {"provider": provider, "namespace": "monitoring", "labels": {}})
    kube = InMemoryApi([*on_host(), *objects])
    as_made, without = fingerprint(read_one(kube, "ml")), fingerprint(read_one(InMemoryApi(on_host()), "ml"))
    assert as_made != without
    for item in objects:
        place = (item["apiVersion"], item["kind"], "kubegpu-metrics", "tenant-ml")
        kube.delete(*place)
        assert fingerprint(read_one(kube, "ml")) != as_made
        kube.put(item)
        assert fingerprint(read_one(kube, "ml")) == as_made


@pytest.mark.parametrize(("api_version", "kind"), BOUNDS)
def test_what_bounds_its_pods_is_part_of_a_tenant(api_version, kind):
    metadata = {"name": "vc-ml", "namespace": "tenant-ml"}
    made = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"a": 1}}
    kube = InMemoryApi([*on_host(), made])
    before = fingerprint(read_one(kube, "ml"))
    kube.put(made | {"spec": {"a": 2}})
    assert fingerprint(read_one(kube, "ml")) != before
    kube.put(made)
    # What the tenant brings is no bound, and another tenant's is none of this one.
    kube.put(made | {"metadata": {"name": "own", "namespace": "tenant-ml", "labels": {MARKER_LABEL: "ml"}}})
    kube.put(made | {"metadata": {"name": "vc-web", "namespace": "tenant-web"}})
    assert fingerprint(read_one(kube, "ml")) == before
    kube.delete(api_version, kind, "vc-ml", "tenant-ml")
    assert fingerprint(read_one(kube, "ml")) != before


def test_namespaces_of_others_are_no_tenants():
    objects = on_host()
    del objects[0]["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    # What is left is a node that was labelled by hand.
    assert read_one(InMemoryApi(objects), "ml").state == "absent"


def test_a_tenants_own_pods_are_not_read():
    live = read_one(InMemoryApi(on_host()), "ml")
    assert [pod["metadata"]["name"] for pod in live.pods] == ["ml-0", "scheduler-x-kai-scheduler-x-ml"]
    assert read_one(InMemoryApi(on_host()), "web") == Live()


def test_a_cluster_that_cannot_be_read_is_no_empty_one():
    kube = InMemoryApi(on_host())
    kube.fail("list", "Namespace", ApiError("Listing Namespace failed", status=500))
    with pytest.raises(TenancyError, match="Listing Namespace failed"):
        read_all(kube)


# --- kubeconfigs -------------------------------------------------------------------------------------------------

SECRET = next(one for one in on_host() if one["kind"] == "Secret")


def test_a_kubeconfig_with_the_credentials_of_the_secret_leads_there():
    assert holds_credentials(kubeconfig(), SECRET)


def test_the_context_that_counts_is_the_current_one():
    # kubectl sorts what people add by name.
    both = {key: [*kubeconfig("a")[key], *kubeconfig()[key]] for key in ("clusters", "users", "contexts")}
    assert holds_credentials(kubeconfig() | both, SECRET)
    assert not holds_credentials(kubeconfig() | both | {"current-context": "a"}, SECRET)


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"clusters": None, "users": []},
        {"clusters": [{"cluster": None}], "users": [{"user": None}]},
        {"clusters": "x", "users": "y"},
        kubeconfig("web"),
        kubeconfig() | {"users": kubeconfig("web")["users"]},
        kubeconfig() | {"users": [{"user": {"token": "x"}}]},
    ],
)
def test_any_other_does_not(config):
    assert not holds_credentials(config, SECRET)


@pytest.mark.parametrize("where", ["server", "certificate-authority-data", "client-certificate-data", "client-key-data"])
@pytest.mark.parametrize("value", [None, ""])
def test_one_in_which_something_is_missing_does_not(where, value):
    config = kubeconfig()
    parts = config["clusters"][0]["cluster"], config["users"][0]["user"]
    for part in parts:
        if where in part:
            part[where] = value
    assert not holds_credentials(config, SECRET)


@pytest.mark.parametrize("secret", [None, {}, {"data": None}, {"data": {"certificate-authority": "ca-ml"}}])
def test_without_a_secret_none_leads_anywhere(secret):
    assert not holds_credentials(kubeconfig(), secret)


# --- queues ------------------------------------------------------------------------------------------------------

QUEUES_PATH = "/apis/scheduling.run.ai/v2/queues"
POD_GROUPS_PATH = "/apis/scheduling.run.ai/v2alpha2/podgroups"
SHARDS_PATH = "/apis/kai.scheduler/v1/schedulingshards"
(TENANT,) = tenants_from([desired("ml", queues=[{"name": "a", "children": [{"name": "b"}]}])])
QUEUES = [manifest(queue) for queue in parse(list(TENANT.queues)).values()]


def compared(items):
    asked = []

    def ask(config, path):
        asked.append((config, path))
        return items if path == QUEUES_PATH else []

    found, live = compare_queues(TENANT, kubeconfig(), ask)
    assert asked == [(kubeconfig(), QUEUES_PATH), (kubeconfig(), POD_GROUPS_PATH)]
    assert [item["spec"] for item in live] == [item["spec"] for item in items]
    return found


def test_queues_as_wanted():
    assert compared(QUEUES) == Due()
    # Those of others, such as KAI Scheduler's own, are not this collection's to change.
    foreign = {"metadata": {"name": "default-queue"}, "spec": {}}
    assert compared([*QUEUES, foreign]) == Due()


def test_queues_that_differ_are_named():
    changed = copy.deepcopy(QUEUES)
    changed[1]["spec"]["priority"] = 1
    assert compared(changed) == Due((CHANGE, VERIFY), ("its queues differ: b",))
    assert compared([]).reasons == ("its queues differ: a, b",)
    more = {"metadata": {"name": "c", "labels": QUEUES[0]["metadata"]["labels"]}, "spec": {}}
    assert compared([*QUEUES, more]).reasons == ("its queues differ: c",)


def test_schedulers_of_node_pools_that_differ_are_named():
    (tenant,) = tenants_from([desired("ml", queues=[{"name": "a", "node_pool": "h100"}])])
    queues = [manifest(queue) for queue in parse(list(tenant.queues)).values()]

    def found(shards, live=queues, of=tenant):
        answers = {QUEUES_PATH: live, SHARDS_PATH: shards, POD_GROUPS_PATH: []}
        return compare_queues(of, kubeconfig(), lambda _config, path: answers[path])[0].reasons

    shard = {"metadata": {"name": "h100", "labels": queues[0]["metadata"]["labels"]}, "spec": {"partitionLabelValue": "h100"}}
    assert found([shard]) == ()
    assert found([]) == ("its SchedulingShards differ: h100",)
    assert found([shard | {"spec": "odd"}]) == (
        "its SchedulingShards differ: SchedulingShard h100 serves another node pool than h100. Remove it, or name the pool otherwise.",
    )
    unpooled = [queues[0] | {"metadata": {"name": "a", "labels": {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}}}]
    assert found([shard], unpooled) == ("its queues differ: a",)
    (other,) = tenants_from([desired("ml", queues=[{"name": "a"}])])
    assert found([shard], queues, other) == ("its queues differ: a", "its SchedulingShards differ: h100")


def test_queues_that_cannot_be_brought_in_order_differ():
    more = {"metadata": {"name": "c", "labels": QUEUES[0]["metadata"]["labels"]}, "spec": {}}
    child = {"metadata": {"name": "d"}, "spec": {"parentQueue": "c"}}
    (reason,) = compared([*QUEUES, more, child]).reasons
    assert reason.startswith("its queues differ: queues.c: its child d")


def test_queues_that_cannot_be_read_are_not_as_wanted():
    def ask(_config, path):
        raise ApiError(f"GET {path} failed: timed out", status=None)

    reason = f"its queues cannot be read: GET {QUEUES_PATH} failed: timed out"
    assert compare_queues(TENANT, kubeconfig(), ask) == (Due((CHANGE, VERIFY), (reason,)), None)


def test_of_a_shared_schedulers_queues_a_tenant_has_its_own():
    others = {"metadata": {"name": "c"}, "spec": {}}
    assert queues_of(TENANT, [others, *QUEUES]) == QUEUES


# --- the record --------------------------------------------------------------------------------------------------


def test_a_record_lies_beside_the_virtual_cluster_and_is_read_again():
    kube = InMemoryApi([*on_host(), *on_host("web")])
    before = read_one(kube, "ml")
    record(kube, "ml", "wanted", RESULTS, NOW, scheduler_version=KAI_VERSION)
    assert kube.writes == [("apply", "ConfigMap", RECORD)]
    written = kube.get("v1", "ConfigMap", RECORD, "tenant-ml")
    assert written["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "kubegpu.tenancy"
    live = read_one(kube, "ml")
    assert live.verified.wanted == "wanted"
    assert live.verified.at == NOW
    assert list(live.verified.results) == RESULTS
    # Writing it changes nothing of what it rests on.
    assert live.verified.fingerprint == fingerprint(live) == fingerprint(before)
    assert read_one(kube, "web").verified is None


def test_the_version_that_was_installed_is_noted_where_no_tenant_writes():
    kube = InMemoryApi(on_host())
    for version, told in (("v0.16.8", "v0.16.8"), ("", None)):
        record(kube, "ml", "wanted", RESULTS, NOW, scheduler_version=version)
        live = read_one(kube, "ml")
        assert live.scheduler_version == told
        assert live.verified.fingerprint == fingerprint(live)


def test_a_record_replaces_the_one_before():
    kube = InMemoryApi(on_host())
    for wanted in ("before", "after"):
        record(kube, "ml", wanted, RESULTS, NOW)
    assert read_one(kube, "ml").verified.wanted == "after"
    assert len(kube.list("v1", "ConfigMap")) == 1


def test_nothing_is_recorded_in_check_mode_or_of_a_tenant_that_is_not_there():
    kube = InMemoryApi(on_host())
    record(kube, "ml", "wanted", RESULTS, NOW, check_mode=True)
    for check_mode in (True, False):
        with pytest.raises(TenancyError, match="there is no tenant web on this cluster"):
            record(kube, "web", "wanted", RESULTS, NOW, check_mode)
    assert kube.writes == []


# --- the host cluster's scheduler --------------------------------------------------------------------------------


def test_the_shared_scheduler_is_known_by_its_namespace_and_its_image():
    assert shared_scheduler(InMemoryApi(on_host())) is None
    assert shared_scheduler(InMemoryApi(host_kai("v0.14.0"))) == "v0.14.0"
    namespace, *_deployments = host_kai()
    # Its parts are not there yet, or not any more.
    assert shared_scheduler(InMemoryApi([namespace])) == "unknown"
    del namespace["metadata"]["labels"]
    assert shared_scheduler(InMemoryApi([namespace, *_deployments])) is None
