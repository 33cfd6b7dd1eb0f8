# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant import values
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.values import wanted
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import desired

NODES = {"names": ["n1"], "shared_gpus": 2}
OTHER = {"name": "volcano", "version": "1.12.0", "chart": "volcano", "repository": "https://charts.example"}


def of(settings=None, **more):
    (tenant,) = tenants_from([desired(**({"name": "ml"} | more))])
    return wanted(tenant, settings or {})


@pytest.mark.parametrize(
    "more",
    [
        {"name": "web"},
        {"trust": "partial"},
        {"trust": "zero"},
        {"state": "paused"},
        {"gpu_nodes": NODES},
        {"quota": {"count/pods": 60}},
        {"vcluster": {"version": "0.35.3"}},
        {"vcluster": {"kubernetes_version": "v1.34.1"}},
        {"vcluster": {"values": {"controlPlane": {"coredns": {"enabled": False}}}}},
        {"scheduler": {"name": "kai", "version": "v0.14.0"}},
        {"scheduler": {"name": "kai", "version": "v0.13.1", "gpu_sharing": True}},
        {"scheduler": {"name": "kai", "version": "v0.13.1", "values": {"scheduler": {"placementStrategy": "spread"}}}},
        {"scheduler": {"name": "kai", "shared": True}},
        {"scheduler": OTHER, "queues": []},
        {"scheduler": OTHER | {"chart": "another"}, "queues": []},
        {"queues": [{"name": "q", "gpu": {"quota": 1}}]},
        {"settings": {"vcluster_tenant_probe_image": "registry.example/probe:1"}},
        {"settings": {"kai_scheduler_values": {"a": 1}}},
    ],
)
def test_whatever_is_wanted_otherwise_changes_the_digest(more):
    assert of(**more) != of()


def test_every_description_has_a_digest_of_its_own():
    described = [{"gpu_nodes": NODES | {"shared_gpus": gpus}} for gpus in (1, 2)]
    described += [{"scheduler": OTHER | {"chart": chart}, "queues": []} for chart in ("volcano", "another")]
    assert len({of(**more) for more in described}) == len(described)


def test_what_a_later_collection_would_give_the_charts_changes_it(monkeypatch):
    before = of()
    monkeypatch.setattr(values, "vcluster_values", lambda _tenant: {"new": "default"})
    assert of() != before


def test_other_policies_of_a_later_collection_change_it_for_those_who_share_a_scheduler(monkeypatch):
    shared = {"scheduler": {"name": "kai", "shared": True}}
    before = of(), of(**shared)
    monkeypatch.setattr(values, "policies", lambda _name, _trust, queues, *_more: [] if queues is None else [{"kind": "Another"}])
    assert of() == before[0]
    assert of(**shared) != before[1]


@pytest.mark.parametrize(
    "more",
    [
        # Which nodes it has is seen on the host cluster, regardless of how they are chosen.
        {"gpu_nodes": {"names": ["n1"]}},
        {"gpu_nodes": {"labels": {"gpu": "h200"}}},
        # As its default, or as upstream writes it.
        {"scheduler": {"name": "kai", "version": "0.13.1", "values": {}}, "vcluster": {}, "state": "present"},
        # How long something may take changes nothing of what is there in the end.
        {"settings": {"vcluster_tenant_timeout": 900, "kai_scheduler_probe_timeout": 9, "kai_scheduler_probe_max_age": 0}},
    ],
)
def test_the_same_in_other_words_does_not(more):
    assert of(**more) == of()


def test_what_the_shared_scheduler_gives_concerns_those_who_share_it():
    given = {"settings": {"vcluster_tenant_shared_scheduler": {"gpu_sharing": True}}}
    assert of(**given) == of()
    shared = {"scheduler": {"name": "kai", "shared": True}}
    assert of(**shared, **given) != of(**shared)


def test_who_reads_metrics_concerns_those_with_a_kai_scheduler_of_their_own():
    given = {"vcluster_tenant_metrics": {"provider": "annotations", "namespace": "monitoring", "labels": {}}}
    assert of({"vcluster_tenant_metrics": {}}) == of()
    assert of(given) != of()
    elsewhere = given["vcluster_tenant_metrics"] | {"namespace": "observability"}
    assert of({"vcluster_tenant_metrics": elsewhere}) != of(given)
    for scheduler in ({"name": "kai", "shared": True}, OTHER):
        other = {"scheduler": scheduler, "queues": []}
        assert of(given, **other) == of(**other)


def test_the_order_of_keys_does_not():
    one, other = {"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1}
    assert of({"kai_scheduler_values": one}, vcluster={"values": {"sync": one}}) == of(
        {"kai_scheduler_values": other}, vcluster={"values": {"sync": other}}
    )
    turned = dict(reversed(desired("ml").items()))
    assert wanted(tenants_from([turned])[0], {}) == of()


def test_it_survives_the_way_through_a_module():
    (tenant,) = tenants_from([desired("ml")])
    assert wanted(tenants_from([tenant.data()])[0], {}) == wanted(tenant, {})


@pytest.mark.parametrize(("nodes", "part"), [(NODES, True), ({"names": ["n1"]}, False)])
def test_policies_for_nodes_that_are_shared_are_part_of_it(monkeypatch, nodes, part):
    with_policies = of(trust="high", gpu_nodes=nodes)
    monkeypatch.setattr(values, "policies", lambda *_args: [])
    assert (of(trust="high", gpu_nodes=nodes) != with_policies) is part
