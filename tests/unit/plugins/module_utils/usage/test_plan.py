# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queries, and what answers to them mean."""

from __future__ import annotations

import datetime
import re

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.facts import DCGM, HOST_SERIES, KUBE_STATE_METRICS, QUEUES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.model import Party, Readings
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.plan import (
    Series,
    host_queries,
    of_cluster,
    of_host,
    of_queues,
    queue_queries,
    series_of,
    sourced,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._usage.values import Span

HOUR = int(datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.timezone.utc).timestamp())
SPAN = Span(HOUR, HOUR + 7200)


def series(amount, **labels):
    return Series(labels, {HOUR: amount})


def host(**read):
    return of_host(dict.fromkeys(HOST_SERIES, ()) | read)


def test_an_hour_is_added_up_by_twelve_steps_and_a_missing_step_adds_nothing():
    assert host_queries()["capacity"] == (
        'sum_over_time((max by (node, exported_node) (kube_node_status_allocatable{resource="nvidia_com_gpu",service!="kubegpu-metrics"}))'
        "[59m59s:5m]) / 12"
    )


def test_no_series_of_the_host_cluster_is_taken_from_a_tenants_pods():
    for query in host_queries().values():
        selectors = re.findall(r"\{([^}]*)\}", query)
        assert selectors
        assert all('service!="kubegpu-metrics"' in selector for selector in selectors)


def test_a_server_for_several_clusters_is_asked_for_the_series_of_one():
    assert of_cluster("max(a{b='c'}) * d{}", {"cluster": 'g"1', "site": "a\\b"}) == (
        """max(a{cluster="g\\"1",site="a\\\\b",b='c'}) * d{cluster="g\\"1",site="a\\\\b",}"""
    )
    tenants = [Party("ml", roots=("ml",), paths={"ml": "ml"})]
    queries = [*host_queries().values(), *queue_queries(tenants, True).values(), *queue_queries(tenants, False).values()]
    # Names of series, not those of labels and the values of them.
    names = re.compile(r"\b(?:kube|kai|DCGM)_\w+(?={)")
    for query in queries:
        assert query == of_cluster(query, {})
        assert len(names.findall(query)) == of_cluster(query, {"cluster": "gpu1"}).count('{cluster="gpu1",')


def test_queues_are_read_by_the_names_of_the_inventory():
    tenants = [Party("ml", roots=("ml",), paths={"a.b": "ml/a.b"}), Party("x", roots=("x",), paths={"x": "x"})]
    own = queue_queries(tenants, False)
    where = r'service="kubegpu-metrics",namespace=~"tenant\\-ml|tenant\\-x",queue_name=~"a\\.b|ml|x"'
    assert own["queue_held"] == (
        f"sum_over_time((max by (namespace, queue_name) (kai_queue_allocated_gpus{{{where}}}))[59m59s:5m]) / 12"
    )
    # An unlimited quota is -1, and no promise.
    assert f"(kai_queue_deserved_gpus{{{where}}} >= 0)" in own["queue_promised"]
    assert 'namespace="kai-scheduler",service!="kubegpu-metrics",queue_name=~' in queue_queries(tenants, True)["queue_held"]
    assert queue_queries([Party("web")], False) == {}


def test_an_answer_names_hours_by_their_beginning():
    answer = {
        "status": "success",
        "data": {"result": [{"metric": {"node": "n"}, "values": [[HOUR + 3600, "8"], [HOUR + 7200, "7.5"]]}]},
    }
    assert series_of(answer, SPAN) == ([Series({"node": "n"}, {HOUR: 8.0, HOUR + 3600: 7.5})], [])


def test_what_is_no_amount_is_left_out_and_said():
    values = [[HOUR + 3600, "NaN"], [HOUR + 3600, "-1"], [HOUR + 7200, "+Inf"], [HOUR, "1"], [HOUR + 7200, "2"]]
    answer = {"data": {"result": [{"metric": {}, "values": values}]}, "warnings": ["a store\x1b[2J is missing"]}
    assert series_of(answer, SPAN) == (
        [Series({}, {HOUR + 3600: 2.0})],
        ["the server warns: a store is missing", "3 values are no amounts"],
    )


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"data": {}}, {"data": {"result": [{"values": []}]}}, {"data": {"result": [1]}}]
)
def test_another_answer_is_refused(answer):
    with pytest.raises(ValueError, match="no answer to a range query"):
        series_of(answer, SPAN)


def test_products_are_those_of_nodes_by_one_name():
    found = host(
        measured=[series(1)],
        capacity=[series(8, node="n1"), series(4, node="n2"), series(1, node="n3")],
        seen=[series(8, Hostname="n1", modelName="NVIDIA H100 80GB HBM3")],
        labels=[series(1, node="n2", label_nvidia_com_gpu_product="NVIDIA-L4")],
    )
    assert dict(found.capacity) == {"NVIDIA-H100-80GB-HBM3": {HOUR: 8}, "NVIDIA-L4": {HOUR: 4}, "unknown": {HOUR: 1}}


def test_labels_of_the_exporter_count_and_not_those_of_the_target():
    """With honor_labels: false they begin with exported_."""
    found = host(
        capacity=[series(8, node="n1")],
        taken=[
            series(1, namespace="tenant-a", node="n1"),
            series(2, namespace="monitoring", exported_namespace="tenant-a", node="k1", exported_node="n1"),
            series(4, namespace="default", node="n1"),
            # Without a node it waits.
            series(8, namespace="tenant-a"),
        ],
    )
    assert dict(found.taken) == {("a", "unknown"): {HOUR: 3}, ("", "unknown"): {HOUR: 4}}


def test_the_nodes_of_a_tenant_are_its_own_for_as_long_as_they_have_its_label():
    """Of an hour of which three quarters were measured, the node was the tenant's for two quarters."""
    found = host(
        measured=[series(0.75)],
        capacity=[series(6, node="n1")],
        exists=[series(0.75, namespace="tenant-my-team"), series(0.75, namespace="kube-system")],
        labels=[series(0.5, node="n1", label_tenant_kubegpu_tenancy_my_team="true", label_tenant_kubegpu_tenancy_x="true")],
    )
    assert dict(found.own) == {("my-team", "unknown"): {HOUR: 4.0}}
    assert dict(found.exists) == {"my-team": {HOUR: 0.75}}


def test_a_tenants_queues_are_told_apart_by_the_target_alone():
    found = Readings()
    held = [
        series(2, namespace="tenant-a", queue_name="q"),
        series(3, namespace="tenant-b", queue_name="q", exported_namespace="tenant-a"),
    ]
    of_queues(found, {"queue_held": held, "queues_measured": [series(1, namespace="tenant-a")]})
    assert dict(found.queue_held) == {("a", "q"): {HOUR: 2}, ("b", "q"): {HOUR: 3}}
    assert dict(found.queues_measured) == {"a": {HOUR: 1}}


def test_queues_of_the_shared_scheduler_are_whose_the_inventory_says():
    found = Readings()
    held = [
        series(2, namespace="kai-scheduler", queue_name="q"),
        series(3, namespace="kai-scheduler", queue_name="default-queue"),
    ]
    of_queues(found, {"queue_held": held, "queues_measured": [series(1, namespace="kai-scheduler")]}, {"q": "a", "r": "b"})
    assert dict(found.queue_held) == {("a", "q"): {HOUR: 2}}
    assert dict(found.queues_measured) == {"a": {HOUR: 1}, "b": {HOUR: 1}}


def test_without_kube_state_metrics_dcgm_exporter_tells_who_has_a_gpu():
    seen = [
        series(6, namespace="gpu-operator", modelName="L4", Hostname="n1"),
        series(2, exported_namespace="tenant-a", modelName="L4", Hostname="n1"),
    ]
    found = sourced(host(seen=seen, use_measured=[series(1)]))
    assert (found.source, dict(found.capacity), dict(found.taken)) == (DCGM, {"L4": {HOUR: 8}}, {("a", "L4"): {HOUR: 2}})
    assert found.measured == {HOUR: 1}
    assert found.notes == ["There is no series of kube-state-metrics. GPUs are counted by what DCGM exporter said."]
    assert sourced(host()).source == QUEUES
    assert sourced(host(measured=[series(1)])).source == KUBE_STATE_METRICS
