# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._assignment.lifecycle import nodes_to_give
from ansible_collections.kubegpu.tenancy.plugins.module_utils._assignment.plan import (
    assign,
    by_node,
    obstacles,
    ownership,
    plain,
    relabel,
    retaint,
    without,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import DEDICATED_TAINT, NODE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.validation import Claim, tolerates_others
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.growth import MOST, growth
from hypothesis import given
from hypothesis import strategies as st

KAI = {"name": "kai", "version": "v0.13.1"}
SHARED = {"name": "kai", "shared": True}


def sharing(name, gpus, scheduler=None, queues=()):
    return {
        "name": name,
        "trust": "partial",
        "gpu_nodes": {"names": ["n1"], "shared_gpus": gpus},
        "scheduler": scheduler or KAI,
        "queues": list(queues),
    }


def node(name, gpus=0, *tenants, **labels):
    owned = {f"{NODE_LABEL}{tenant}": "true" for tenant in tenants}
    return {"name": name, "gpus": gpus, "labels": labels | owned, "taints": [], "obstacle": ""}


def tenant(name, queues=(), **gpu_nodes):
    (made,) = tenants_from(
        [
            {"name": name, "trust": "high"}
            | ({"gpu_nodes": gpu_nodes} if gpu_nodes else {})
            | ({"scheduler": KAI, "queues": list(queues)} if queues else {})
        ]
    )
    return made


def relabelled(nodes, assigned, tenants):
    whose = by_node(assigned)
    return {item["name"]: labels for item in nodes if (labels := relabel(item, whose.get(item["name"], []), tenants))}


def retainted(nodes, assigned, tenants, dedicated):
    whose = by_node(assigned)
    changes = {item["name"]: retaint(item, whose.get(item["name"], []), tenants, dedicated) for item in nodes}
    return {name: taints for name, taints in changes.items() if taints is not None}


def refused(tenants, nodes):
    with pytest.raises(TenancyError) as caught:
        assign(tenants, nodes)
    return caught.value.problems


@pytest.mark.parametrize(
    ("tenants", "nodes", "expected"),
    [
        pytest.param(
            [tenant("a", count=1), tenant("b", count=2)],
            [node("n3", 4), node("n1", 4), node("n2", 4)],
            {"a": ["n1"], "b": ["n2", "n3"]},
            id="count in the order of names",
        ),
        pytest.param(
            [tenant("a", count=2), tenant("b", count=1)],
            [node("n1", 4, "b"), node("n2", 4), node("n3", 4, "a")],
            {"a": ["n2", "n3"], "b": ["n1"]},
            id="sticky",
        ),
        pytest.param(
            [tenant("a", count=1)],
            [node("n1", 4), node("n2", 0, "a", **{"nvidia.com/gpu.present": "true"})],
            {"a": ["n2"]},
            id="sticky while the device plugin is down",
        ),
        pytest.param(
            [tenant("a", count=1), tenant("b", names=["n1"])],
            [node("n1", 4, "a"), node("n2", 4, "a")],
            {"a": ["n2"], "b": ["n1"]},
            id="shrinks away from a claimed node",
        ),
        pytest.param(
            [tenant("a", labels={"pool": "x"}), tenant("b", count=1)],
            [node("n1", 4, pool="x"), node("n2", 4, pool="x"), node("n3", 0, pool="x"), node("n4", 4)],
            {"a": ["n1", "n2"], "b": ["n4"]},
            id="labels",
        ),
        pytest.param(
            [tenant("a"), tenant("b"), tenant("c", count=1)],
            [node("cp", 0, **{"node-role.kubernetes.io/control-plane": ""}), node("n1", 0), node("n2", 4)],
            {"a": ["n1"], "b": ["n1"], "c": ["n2"]},
            id="nodes without GPUs are shared",
        ),
        pytest.param(
            [tenant("a")],
            [node("cp", 0, **{"node-role.kubernetes.io/control-plane": ""}), node("n2", 4)],
            {"a": ["cp"]},
            id="no other node without GPUs",
        ),
    ],
)
def test_assignments(tenants, nodes, expected):
    assert assign(tenants, nodes) == expected


@pytest.mark.parametrize(
    ("tenants", "nodes", "code", "expected"),
    [
        pytest.param(
            [tenant("a", count=1), tenant("b", count=2)],
            [node("n1", 4, "a"), node("n2", 4)],
            "too-few-nodes",
            f"{TENANTS}[0] (b).gpu_nodes.count: b needs 2 nodes with GPUs; 0 are its own, 1 of all 2 are free.",
            id="too few",
        ),
        pytest.param(
            [tenant("a", count=1)],
            [node("n1", 4, "gone")],
            "too-few-nodes",
            "0 of all 1 are free. Nodes are held by gone. gone is not listed: `ansible-playbook kubegpu.tenancy.cleanup -e kubegpu_only=gone` ",
            id="held by a tenant that is not listed",
        ),
        pytest.param(
            [tenant("a", names=["n1"])],
            [node("n1", 4, "gone")],
            "nodes-claimed-twice",
            f"{TENANTS}: node n1 would belong to gone and a: gone and a did not say that the node is shared, by gpu_nodes.",
            id="claimed from a tenant that is not listed",
        ),
        pytest.param(
            [tenant("a", count=1), tenant("b", names=["n1"])],
            [node("n1", 4, "a"), node("n2", 4)],
            "nodes-claimed-twice",
            f"{TENANTS}: node n1 would belong to b and a: b and a did not say that the node is shared, by gpu_nodes.",
            id="never moved under a running tenant",
        ),
        pytest.param(
            [tenant("a", labels={"x": "1"}), tenant("b", labels={"y": "1"})],
            [node("n1", 4, x="1", y="1")],
            "nodes-claimed-twice",
            f"{TENANTS}: node n1 would belong to a and b: a and b did not say",
            id="labels that overlap",
        ),
        pytest.param(
            [tenant("a", names=["n9"])],
            [node("n1", 4)],
            "no-gpu-node",
            f"{TENANTS}[0] (a).gpu_nodes.names[0]: n9 is not a node of the cluster. The cluster's nodes with GPUs: n1.",
            id="no such node",
        ),
        pytest.param(
            [tenant("a", names=["n1"])],
            [node("n1")],
            "no-gpu-node",
            "n1 has no GPUs. The cluster's nodes with GPUs: none.",
            id="no GPUs",
        ),
        pytest.param(
            [tenant("a", labels={"x": "y"})],
            [node("n1", 4)],
            "too-few-nodes",
            "no node with GPUs has them all.",
            id="labels of no node",
        ),
        pytest.param(
            [tenant("a")], [node("n1", 4)], "too-few-nodes", "the cluster has no node without GPUs.", id="GPUs everywhere"
        ),
        pytest.param(
            [tenant("a", [{"name": "q", "gpu": {"quota": 5}}], count=1)],
            [node("n1", 4)],
            "quota-above-gpus",
            f"{TENANTS}[0] (a).queues: queue q is promised 5 GPUs, the tenant has 4 at most.",
            id="quota",
        ),
    ],
)
def test_refused_assignments(tenants, nodes, code, expected):
    assert [problem for problem in refused(tenants, nodes) if problem.code == code and expected in problem.text]


counts = st.lists(st.integers(1, 3), max_size=5)


@given(counts, st.integers(0, 10), counts)
def test_no_node_has_two_tenants_and_nobody_moves(first, size, more):
    nodes = [node(f"n{number}", 4) for number in range(size)]
    tenants = [tenant(f"t{number}", count=count) for number, count in enumerate(first)]
    if sum(first) > size:
        assert refused(tenants, nodes)
        return
    assigned = assign(tenants, nodes)
    taken = [name for names in assigned.values() for name in names]
    assert len(taken) == len(set(taken)) == sum(first)

    changes = relabelled(nodes, assigned, assigned)
    for item in nodes:
        item["labels"] |= changes.get(item["name"], {})
    newcomers = [tenant(f"a{number}", count=count) for number, count in enumerate(more)]
    if sum(first) + sum(more) <= size:
        assert assign([*newcomers, *reversed(tenants)], nodes).items() >= assigned.items()
    assert relabelled(nodes, assign(tenants, nodes), assigned) == {}


def test_labels():
    nodes = [node("n1", 4, "a", other="x"), node("n2", 4, "gone"), node("n3", 0, "b"), node("n4", 4, "b")]
    assert relabelled(nodes, {"a": ["n1"], "b": ["n3", "n2"]}, ["a", "b"]) == {
        "n2": {f"{NODE_LABEL}b": "true"},
        "n4": {f"{NODE_LABEL}b": None},
    }
    assert relabelled(nodes, {}, ["b"]) == {"n3": {f"{NODE_LABEL}b": None}, "n4": {f"{NODE_LABEL}b": None}}
    assert relabelled(nodes, {}, None).keys() == {"n1", "n2", "n3", "n4"}


def test_shared_nodes_are_assigned_where_the_quotas_fit():
    nodes = [node("n1", 4)]
    assert assign(tenants_from([sharing("a", 2), sharing("b", 2)]), nodes) == {"a": ["n1"], "b": ["n1"]}
    (problem,) = refused(tenants_from([sharing("a", 2), sharing("b", 3)]), nodes)
    assert problem.text.endswith("node n1 would belong to a and b: a 2 and b 3 may hold 5 GPUs together, and the node has 4.")


def test_one_scheduler_may_promise_its_gpus_twice_but_no_other_may_come_beside_it():
    nodes = [node("n1", 4)]
    shared = [sharing("a", 4, SHARED), sharing("b", 4, SHARED)]
    assert assign(tenants_from(shared), nodes) == {"a": ["n1"], "b": ["n1"]}
    (problem,) = refused(tenants_from([shared[0], sharing("c", 1)]), nodes)
    assert "the host cluster's KAI Scheduler places a's pods, c brings a scheduler of its own" in problem.text


def test_taints():
    def tainted(name, *taints):
        return node(name, 4) | {"taints": list(taints)}

    def ours(tenant):
        return {"key": DEDICATED_TAINT, "value": tenant, "effect": "NoSchedule"}

    other = {"key": "other", "effect": "NoExecute"}
    nodes = [tainted("n1"), tainted("n2", other, ours("gone")), tainted("n3", ours("a")), tainted("n4", ours("b"))]
    assigned = {"a": ["n1", "n3"], "b": ["n4"]}
    assert retainted(nodes, assigned, ["a", "b"], ["a"]) == {"n1": [ours("a")], "n4": []}
    assert retainted(nodes, {}, None, []) == {"n2": [other], "n3": [], "n4": []}
    assert retainted(nodes, {}, ["gone"], []) == {"n2": [other]}


def test_a_tenant_of_another_inventory_shares_its_node_by_its_own_claim():
    nodes = [node("n1", 4, "theirs")]
    (mine,) = tenants_from([sharing("mine", 2)])
    assert assign([mine], nodes, {"theirs": Claim("theirs", own_scheduler=True, bound=2)}) == {"mine": ["n1"]}
    (problem,) = refused_with([mine], nodes, {"theirs": Claim("theirs", own_scheduler=True, bound=3)})
    assert "theirs 3 and mine 2 may hold 5 GPUs together, and the node has 4" in problem.text
    (problem,) = refused_with([mine], nodes, {"theirs": Claim("theirs", own_scheduler=True)})
    assert "theirs did not say that the node is shared" in problem.text


def refused_with(tenants, nodes, unlisted):
    with pytest.raises(TenancyError) as caught:
        assign(tenants, nodes, unlisted)
    return caught.value.problems


def test_what_an_assignment_needs_to_know_of_a_node():
    live = {
        "metadata": {"name": "n1", "labels": None},
        "spec": {},
        "status": {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {}},
    }
    # While a GPU is unhealthy, allocatable drops.
    assert plain(live) == {
        "name": "n1",
        "gpus": 4,
        "labels": {},
        "taints": [],
        "obstacle": "",
        "version": None,
        "metadata": {"managedFields": None},
    }


@pytest.mark.parametrize(
    ("metadata", "spec", "ready", "obstacle"),
    [
        ({}, {}, "True", ""),
        ({}, {}, "False", "not ready"),
        ({}, {}, "Unknown", "not ready"),
        ({}, {"unschedulable": True}, "True", "cordoned"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, "True", "being deleted"),
    ],
)
def test_why_no_new_pod_starts_on_a_node(metadata, spec, ready, obstacle):
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    live = {"metadata": {"name": "n1"} | metadata, "spec": spec, "status": {"conditions": conditions}}
    assert plain(live)["obstacle"] == obstacle


def test_who_asks_for_any_node_gets_one_that_takes_pods():
    down = node("n1", 8) | {"obstacle": "not ready"}
    reserved = node("n2", 8) | {"taints": [{"key": "reserved", "effect": "NoSchedule"}]}
    left = node("n3", 8) | {"taints": [{"key": DEDICATED_TAINT, "value": "gone", "effect": "NoSchedule"}]}
    nodes = [down, reserved, left, node("n4", 8)]
    counts = {count: assign([tenant("a", count=count)], nodes)["a"] for count in (1, 2, 3, 4)}
    assert counts == {1: ["n3"], 2: ["n3", "n4"], 3: ["n2", "n3", "n4"], 4: ["n1", "n2", "n3", "n4"]}
    # A tenant that has one keeps it.
    assert assign([tenant("a", count=1)], [node("n1", 8, "a") | {"obstacle": "not ready"}, *nodes[1:]]) == {"a": ["n1"]}


def test_a_node_that_takes_no_pods_is_given_with_a_warning():
    nodes = [node("n1", 8) | {"obstacle": "cordoned"}, node("n2", 8, "b") | {"obstacle": "not ready"}]
    warned = ["a is given nodes that take no new pods: n1 (cordoned)."]
    assert obstacles(nodes, {"a": ["n1"], "b": ["n2"]}) == warned
    assert obstacles([node("n1") | {"obstacle": "cordoned"}], {"web": ["n1"]}) == []


def test_whose_a_node_is():
    taints = [{"key": DEDICATED_TAINT, "value": "a", "effect": "NoSchedule"}, {"key": DEDICATED_TAINT, "effect": "NoExecute"}]
    mine = node("n1", 4, "a", "b", other="x") | {"taints": [*taints, {"key": "other", "effect": "NoSchedule"}]}
    mine["labels"][f"{NODE_LABEL}c"] = None
    assert ownership(mine) == ["a", "b", f"taint {DEDICATED_TAINT}=a", f"taint {DEDICATED_TAINT}="]
    assert ownership(without(mine, {"a", "z"}))[0] == "b"
    assert without(mine, ()) == mine


def test_tenants_that_are_to_be_absent_get_nothing_and_hold_what_is_theirs():
    tenants = tenants_from([{"name": "a", "trust": "high", "state": "absent"}, sharing("b", 2), {"name": "c", "trust": "high"}])
    assert assign(tenants, [node("n1", 4), node("n2")]) == {"b": ["n1"], "c": ["n2"]}
    (problem,) = refused(tenants, [node("n1", 4, "a"), node("n2")])
    assert "a is to be absent and still there" in problem.text
    # As one that is not listed: what it may take is known by its virtual cluster.
    assert assign(tenants, [node("n1", 4, "a"), node("n2")], {"a": Claim("a", True, bound=2)})["b"] == ["n1"]


# --- amounts that others wrote, and what all of it costs ---------------------------------------------------------


def live_node(name, capacity):
    return {"metadata": {"name": name}, "spec": {}, "status": {"capacity": {"nvidia.com/gpu": capacity}}}


@pytest.mark.parametrize(("capacity", "gpus"), [("8", 8), (8, 8), ("1k", 1000), ("0", 0)])
def test_gpus_of_a_node_are_read_as_kubernetes_writes_them(capacity, gpus):
    assert plain(live_node("n1", capacity))["gpus"] == gpus
    assert plain({"metadata": {"name": "n1"}})["gpus"] == 0


@pytest.mark.parametrize("capacity", ["many", "NaN", "-1", "1e999999", 10**30, None, []])
def test_a_node_whose_gpus_cannot_be_read_is_named(capacity):
    with pytest.raises(TenancyError, match=r"node n1: its capacity of nvidia\.com/gpu cannot be read"):
        plain(live_node("n1", capacity))


@pytest.mark.parametrize(
    ("key", "operator", "value", "tenant", "expected"),
    [
        ("", "Exists", None, "a", True),
        (None, None, None, "a", True),
        (DEDICATED_TAINT, "Exists", None, "a", True),
        (DEDICATED_TAINT, "Equal", "b", "a", True),
        (DEDICATED_TAINT, "Equal", "a", "a", False),
        (DEDICATED_TAINT, None, "a", "a", False),
        (DEDICATED_TAINT, "Equal", "", "", True),
        ("nvidia.com/gpu", "Exists", None, "a", False),
    ],
)
def test_who_gets_onto_nodes_that_are_dedicated_to_others(key, operator, value, tenant, expected):
    assert tolerates_others(key, operator, value, tenant) is expected


def many(count, kind):
    gpu_nodes = {
        "names": lambda number: {"names": [f"n{2 * number}", f"n{2 * number + 1}"]},
        "count": lambda _number: {"count": 2},
        "too many": lambda _number: {"count": 4},
        "labels": lambda number: {"labels": {"pool": f"p{number}"}},
    }[kind]
    tenants = tenants_from([{"name": f"t{number}", "trust": "high", "gpu_nodes": gpu_nodes(number)} for number in range(count)])
    return tenants, [node(f"n{number}", 8, f"t{number // 4}", pool=f"p{number // 2}") for number in range(2 * count)]


@pytest.mark.parametrize("kind", ["names", "count", "too many", "labels"])
def test_the_guard_compares_no_tenant_with_all_nodes(kind):
    def work(given):
        with contextlib.suppress(TenancyError):
            assign(*given)

    assert growth(lambda count: many(count, kind), work, 400) < MOST


def test_nor_does_the_look_at_what_would_change():
    def prepare(count):
        tenants, nodes = many(count, "count")
        bare = [live_node(item["name"], "8") | {"apiVersion": "v1", "kind": "Node"} for item in nodes]
        return InMemoryApi(bare), tenants

    assert growth(prepare, lambda given: nodes_to_give(*given, ()), 200) < MOST


def test_a_refusal_lists_no_thousand_nodes():
    _tenants, nodes = many(500, "names")
    (problem,) = refused([tenant("x", names=["gone"])], nodes)
    assert problem.text.endswith("and 950 more.")
    (problem,) = refused([tenant("x", count=9)], nodes)
    assert "Nodes are held by t0, " in problem.text
    assert len(problem.text) < 10_000
