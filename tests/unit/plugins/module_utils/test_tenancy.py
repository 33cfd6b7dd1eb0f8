# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.plan import (
    NODE_LABEL,
    SHARED_VARIABLE,
    TAINT,
    VARIABLE,
    assign,
    plan,
    relabel,
    retaint,
    shared_queues,
)
from hypothesis import given
from hypothesis import strategies as st

KAI = {"name": "kai", "version": "v0.13.1"}
QUEUES = [{"name": "ml", "gpu": {"quota": 4, "limit": 4}, "children": [{"name": "training", "gpu": {"quota": 3}}]}]
WORKERS = [{"gpus": [0, 1, 2, 3]}, {"gpus": 4}, {}]
WEB = {"name": "web", "trust": "partial"}
ML = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}, "scheduler": KAI, "queues": QUEUES}


CLAIMED = f"claimed by ml already ({VARIABLE}[0]). To share nodes, both give shared_gpus."
SHARED = {"name": "kai", "shared": True}
NOT_SHARED = {"shared": False, "chart": "", "repository": ""}


def problems(tenants, workers=None, shared_scheduler=None):
    with pytest.raises(TenancyError) as caught:
        plan(tenants, workers, shared_scheduler=shared_scheduler)
    found = caught.value.details["problems"]
    assert all(problem in caught.value.message for problem in found)
    return found


# --- validation --------------------------------------------------------------------------------------------------


def test_every_key_is_there():
    assert plan([WEB]) == [
        WEB
        | {
            "gpu_nodes": {},
            "vcluster": {"version": "0.36.1", "kubernetes_version": "", "values": {}},
            "scheduler": {},
            "queues": [],
        }
    ]


def test_the_given_is_kept():
    values = {"sync": {"toHost": {"ingresses": {"enabled": True}}}}
    tenant = ML | {"vcluster": {"version": "0.34.0", "values": values}, "scheduler": KAI | {"gpu_sharing": True}}
    assert plan([tenant], WORKERS) == [
        tenant
        | {
            "vcluster": {"version": "0.34.0", "kubernetes_version": "", "values": values},
            "scheduler": KAI | {"gpu_sharing": True, "values": {}} | NOT_SHARED,
        }
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"trsut": "high"}, "[0].trsut: unknown key. Did you mean trust? Allowed here: name, "),
        ({"vcluster": {"vers": "0.36.1"}}, "[0].vcluster.vers: unknown key. Did you mean version?"),
        ({"gpu_nodes": {"cuont": 1}}, "[0].gpu_nodes.cuont: unknown key."),
        ({"scheduler": KAI | {"sharing": True}}, "[0].scheduler.sharing: unknown key."),
        ({"name": 7}, "[0].name: must be a string, not 7; quote it."),
        ({"trust": None}, "[0].trust: must be a string, not None."),
        ({"gpu_nodes": 1}, "[0].gpu_nodes: must be a dictionary, not 1."),
        ({"gpu_nodes": {"count": "1"}}, "[0].gpu_nodes.count: must be a whole number, not '1'."),
        ({"gpu_nodes": {"count": True}}, "[0].gpu_nodes.count: must be a whole number, not True."),
        ({"gpu_nodes": {"names": ["a", 1]}}, "[0].gpu_nodes.names[1]: must be a string, not 1; quote it."),
        ({"gpu_nodes": {"labels": {"pool": True}}}, "[0].gpu_nodes.labels.pool: must be a string, not True; quote it."),
        ({"vcluster": {"version": 0.36}}, "[0].vcluster.version: must be a string, not 0.36; quote it."),
        ({"scheduler": KAI | {"gpu_sharing": "yes"}}, "[0].scheduler.gpu_sharing: must be true or false, not 'yes'."),
        ({"queues": {}}, "[0].queues: must be a list, not a dictionary."),
        ({"name": "Team"}, "[0].name: 'Team' is not a name Kubernetes accepts here: "),
        ({"name": "1st"}, "[0].name: "),
        ({"name": "a-"}, "[0].name: "),
        ({"name": "a" * 41}, "at most 40 characters, because names of up to 63 are built from it."),
        ({"trust": "full"}, "[0].trust: 'full' is not one of high, partial, zero."),
        ({"gpu_nodes": {}}, "[0].gpu_nodes: needs exactly one of count, names, labels."),
        ({"gpu_nodes": {"count": 1, "names": ["a"]}}, "[0].gpu_nodes: needs exactly one of count, names, labels."),
        ({"gpu_nodes": {"count": 0}}, "[0].gpu_nodes.count: must be at least 1, not 0."),
        ({"gpu_nodes": {"names": []}}, "[0].gpu_nodes.names: is empty."),
        ({"gpu_nodes": {"names": ["a", "a"]}}, "[0].gpu_nodes.names[1]: a stands here twice."),
        ({"scheduler": {"name": "volcano", "version": "1.2.3"}}, "[0].scheduler.chart: is missing: volcano is not kai, so its "),
        ({"scheduler": {"name": "volcano", "chart": "volcano"}}, "[0].scheduler.version: is missing: volcano is not kai, "),
        (
            {"scheduler": {"name": "Volcano", "chart": "v", "version": "1"}},
            "[0].scheduler.name: 'Volcano' is no name for a Helm ",
        ),
        (
            {"scheduler": {"name": "volcano", "chart": "volcano", "version": "1.2.3"}, "queues": QUEUES},
            "[0].queues: are KAI Scheduler's; volcano does not know them.",
        ),
        ({"scheduler": KAI | {"chart": "kai"}}, "[0].scheduler.chart: KAI Scheduler's chart is known; leave it out."),
        ({"scheduler": SHARED | {"version": "v0.13.1"}}, "[0].scheduler.version: a shared scheduler is the host cluster's; its "),
        ({"scheduler": SHARED}, "[0].scheduler.shared: there is none to share: kubegpu_shared_scheduler names no scheduler."),
        ({"gpu_nodes": {"count": 1, "shared_gpus": 1}}, "[0].gpu_nodes.shared_gpus: say by names or labels which nodes are "),
        ({"gpu_nodes": {"names": ["a"], "shared_gpus": 0}}, "[0].gpu_nodes.shared_gpus: must be at least 1, not 0."),
        ({"trust": "zero"}, "[0].gpu_nodes: a tenant with zero trust has nodes of its own: give gpu_nodes, without shared_gpus."),
        (
            {"trust": "zero", "gpu_nodes": {"names": ["a"], "shared_gpus": 1}},
            "[0].gpu_nodes: a tenant with zero trust has nodes ",
        ),
        ({"scheduler": {"name": "kai"}}, "[0].scheduler.version: is missing."),
        ({"scheduler": {"version": "v0.13.1"}}, "[0].scheduler.name: is missing."),
        ({"scheduler": {}}, "[0].scheduler.name: is missing."),
        ({"scheduler": {"name": "kai", "version": "v0.11.0"}}, "[0].scheduler.version: there is no KAI Scheduler v0.11.0"),
        ({"scheduler": {"name": "kai", "version": "latest"}}, "[0].scheduler.version: 'latest' is not a version"),
        ({"scheduler": {"name": "kai", "version": "v0.20.1"}}, "[0].scheduler.version: v0.20.1 of KAI Scheduler was retracted"),
        ({"queues": QUEUES}, "[0].queues: need a scheduler: add scheduler with its name"),
        ({"scheduler": KAI, "queues": [{"name": "a", "gpus": {}}]}, "[0].queues.a.gpus: unknown key."),
        ({"scheduler": KAI | {"version": "v0.12.0"}, "queues": [{"name": "a"}]}, "[0].queues.a: has no child"),
        ({"vcluster": {"version": "latest"}}, "[0].vcluster.version: 'latest' is not a vCluster version"),
        ({"vcluster": {"version": "0.36.0"}}, "[0].vcluster.version: vCluster 0.36.0 is refused: "),
        ({"vcluster": {"values": {"sleep": {"auto": 1}}}}, "[0].vcluster.values.sleep: sleep mode needs a vCluster licence"),
        ({"vcluster": {"kubernetes_version": "1.35"}}, "[0].vcluster.kubernetes_version: '1.35' is not a Kubernetes version"),
    ],
)
def test_one_mistake(change, expected):
    found = problems([WEB | change])
    assert len([problem for problem in found if expected in problem]) == 1, found


def test_missing_keys_and_wrong_containers():
    assert problems([{}]) == [f"{VARIABLE}[0].name: is missing.", f"{VARIABLE}[0].trust: is missing."]
    assert problems(["web"]) == [f"{VARIABLE}[0]: must be a dictionary, not 'web'."]
    assert problems({}) == [f"{VARIABLE}: must be a list, not a dictionary."]


def test_everything_at_once():
    found = problems([{"name": "A", "trust": "x"}, {"name": "b"}, WEB | {"x": 1}], WORKERS)
    assert [problem.split(": ")[0] for problem in found] == [
        f"{VARIABLE}[0].name",
        f"{VARIABLE}[0].trust",
        f"{VARIABLE}[1].trust",
        f"{VARIABLE}[2].x",
    ]


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (WEB, WEB, f"{VARIABLE}[1].name: web is the name of {VARIABLE}[0] already."),
        (
            ML | {"gpu_nodes": {"names": ["x", "y"]}},
            WEB | {"gpu_nodes": {"names": ["y"]}},
            f"{VARIABLE}[1].gpu_nodes.names: y is {CLAIMED}",
        ),
        (
            ML | {"gpu_nodes": {"labels": {"pool": "a"}}},
            WEB | {"gpu_nodes": {"labels": {"pool": "a"}}},
            f"{VARIABLE}[1].gpu_nodes.labels: the same nodes are {CLAIMED}",
        ),
    ],
)
def test_rivals(mine, theirs, expected):
    assert problems([mine, theirs]) == [expected]


def test_more_nodes_than_there_are():
    tenants = [ML, WEB | {"gpu_nodes": {"names": ["a"]}}, {"name": "c", "trust": "zero", "gpu_nodes": {"labels": {"x": "y"}}}]
    assert problems(tenants, WORKERS) == [
        f"{VARIABLE}: the tenants ask for 3 nodes with GPUs (ml 1, web 1, c 1), the cluster has 2."
    ]
    assert len(plan(tenants)) == 3


def sharing(name, gpus, scheduler=None, queues=()):
    return {
        "name": name,
        "trust": "partial",
        "gpu_nodes": {"names": ["n1"], "shared_gpus": gpus},
        "scheduler": scheduler or KAI,
        "queues": list(queues),
    }


def test_nodes_are_shared_when_both_say_so():
    assert plan([sharing("a", 2), sharing("b", 2)], WORKERS)
    assert problems([sharing("a", 2), sharing("b", 2) | {"gpu_nodes": {"names": ["n1"]}}])
    assert problems([sharing("a", 2, queues=[{"name": "q", "gpu": {"quota": 3}}])], WORKERS) == [
        f"{VARIABLE}[0].queues: queue q is promised 3 GPUs, the tenant has 2 at most."
    ]


def test_the_shared_scheduler_has_all_tenants_queues():
    tenants = [
        sharing("a", 4, SHARED, [{"name": "a", "children": [{"name": "x"}]}]),
        sharing("b", 4, SHARED, [{"name": "b", "children": [{"name": "x"}]}]),
    ]
    assert problems(tenants, None, KAI) == [
        f"{VARIABLE}.queues.b.x: there are two queues x. Names are unique in a cluster, wherever in the tree."
    ]
    tenants[1]["queues"] = [{"name": "b"}]
    assert problems(tenants, None, KAI | {"version": "v0.12.0"})[0].startswith(f"{VARIABLE}.queues.b: has no child")
    assert shared_queues(plan(tenants, None, None, KAI)) == [tenants[0]["queues"][0], {"name": "b"}]
    assert problems([WEB], None, {"name": "volcano", "version": "v1"}) == [
        f"{SHARED_VARIABLE}.name: 'volcano' is not one of kai."
    ]
    assert problems([WEB], None, {"name": "kai"}) == [f"{SHARED_VARIABLE}.version: is missing."]


def test_another_scheduler_comes_by_its_chart():
    scheduler = {"name": "volcano", "version": "1.12.0", "chart": "volcano", "repository": "https://charts.example"}
    (planned,) = plan([WEB | {"scheduler": scheduler}])
    assert planned["scheduler"] == scheduler | {"gpu_sharing": False, "values": {}, "shared": False}


@pytest.mark.parametrize(("gpu_nodes", "have"), [({"count": 1}, 4), ({"names": ["a"]}, 4), (None, 0)])
def test_more_gpus_than_there_are(gpu_nodes, have):
    tenant = (
        WEB | {"scheduler": KAI, "queues": [{"name": "q", "gpu": {"quota": 5}}]} | ({"gpu_nodes": gpu_nodes} if gpu_nodes else {})
    )
    assert problems([tenant], WORKERS) == [f"{VARIABLE}[0].queues: queue q is promised 5 GPUs, the tenant has {have} at most."]


def test_the_layout_is_checked_too():
    assert problems([WEB], [4]) == ["workers[0]: must be a dictionary, not 4."]
    with pytest.raises(TenancyError, match="workers: they ask for 7 GPUs, the host has 6"):
        plan([WEB], [{"gpus": [0, 1, 2]}, {"count": 4}, {}], gpus=6)
    assert problems([WEB], [{"gpus": "all"}]) == ["workers[0].gpus: must be a number or a list of GPUs, not 'all'."]


# --- nodes -------------------------------------------------------------------------------------------------------


def node(name, gpus=0, *tenants, **labels):
    return {"name": name, "gpus": gpus, "labels": labels | {f"{NODE_LABEL}{tenant}": "true" for tenant in tenants}}


def tenant(name, queues=(), **gpu_nodes):
    return {"name": name, "gpu_nodes": gpu_nodes, "scheduler": {}, "queues": list(queues)}


def refused(tenants, nodes):
    with pytest.raises(TenancyError) as caught:
        assign(tenants, nodes)
    return caught.value.details["problems"]


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
    ("tenants", "nodes", "expected"),
    [
        pytest.param(
            [tenant("a", count=1), tenant("b", count=2)],
            [node("n1", 4, "a"), node("n2", 4)],
            f"{VARIABLE}[1].gpu_nodes.count: b needs 2 nodes with GPUs; 0 are its own, 1 of all 2 are free.",
            id="too few",
        ),
        pytest.param(
            [tenant("a", count=1)],
            [node("n1", 4, "gone")],
            "Tenants that are not listed still hold some: gone; remove those first.",
            id="held by a tenant that is not listed",
        ),
        pytest.param(
            [tenant("a", names=["n1"])],
            [node("n1", 4, "gone")],
            f"{VARIABLE}: node n1 would belong to gone and a: gone and a did not say that the node is shared, by gpu_nodes.",
            id="claimed from a tenant that is not listed",
        ),
        pytest.param(
            [tenant("a", count=1), tenant("b", names=["n1"])],
            [node("n1", 4, "a"), node("n2", 4)],
            f"{VARIABLE}: node n1 would belong to b and a: b and a did not say that the node is shared, by gpu_nodes.",
            id="never moved under a running tenant",
        ),
        pytest.param(
            [tenant("a", labels={"x": "1"}), tenant("b", labels={"y": "1"})],
            [node("n1", 4, x="1", y="1")],
            f"{VARIABLE}: node n1 would belong to a and b: a and b did not say",
            id="labels that overlap",
        ),
        pytest.param(
            [tenant("a", names=["n9"])],
            [node("n1", 4)],
            f"{VARIABLE}[0].gpu_nodes.names[0]: n9 is not a node of the cluster. The cluster's nodes with GPUs: n1.",
            id="no such node",
        ),
        pytest.param(
            [tenant("a", names=["n1"])], [node("n1")], "n1 has no GPUs. The cluster's nodes with GPUs: none.", id="no GPUs"
        ),
        pytest.param(
            [tenant("a", labels={"x": "y"})], [node("n1", 4)], "no node with GPUs has them all.", id="labels nobody has"
        ),
        pytest.param([tenant("a")], [node("n1", 4)], "the cluster has no node without GPUs.", id="GPUs everywhere"),
        pytest.param(
            [tenant("a", [{"name": "q", "gpu": {"quota": 5}}], count=1)],
            [node("n1", 4)],
            f"{VARIABLE}[0].queues: queue q is promised 5 GPUs, the tenant has 4 at most.",
            id="quota",
        ),
    ],
)
def test_refused_assignments(tenants, nodes, expected):
    assert [problem for problem in refused(tenants, nodes) if expected in problem]


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

    changes = relabel(nodes, assigned, assigned)
    for item in nodes:
        item["labels"] |= changes.get(item["name"], {})
    newcomers = [tenant(f"a{number}", count=count) for number, count in enumerate(more)]
    if sum(first) + sum(more) <= size:
        assert assign([*newcomers, *reversed(tenants)], nodes).items() >= assigned.items()
    assert relabel(nodes, assign(tenants, nodes), assigned) == {}


def test_labels():
    nodes = [node("n1", 4, "a", other="x"), node("n2", 4, "gone"), node("n3", 0, "b"), node("n4", 4, "b")]
    assert relabel(nodes, {"a": ["n1"], "b": ["n3", "n2"]}, ["a", "b"]) == {
        "n2": {f"{NODE_LABEL}b": "true"},
        "n4": {f"{NODE_LABEL}b": None},
    }
    assert relabel(nodes, {}, ["b"]) == {"n3": {f"{NODE_LABEL}b": None}, "n4": {f"{NODE_LABEL}b": None}}
    assert relabel(nodes, {}, None).keys() == {"n1", "n2", "n3", "n4"}


def test_shared_nodes_are_assigned_where_the_quotas_fit():
    nodes = [node("n1", 4)]
    assert assign(plan([sharing("a", 2), sharing("b", 2)]), nodes) == {"a": ["n1"], "b": ["n1"]}
    (problem,) = refused(plan([sharing("a", 2), sharing("b", 3)]), nodes)
    assert problem.endswith("node n1 would belong to a and b: a 2 and b 3 may hold 5 GPUs together, and the node has 4.")


def test_one_scheduler_may_promise_its_gpus_twice_but_no_other_may_come_beside_it():
    nodes = [node("n1", 4)]
    shared = [sharing("a", 4, SHARED), sharing("b", 4, SHARED)]
    assert assign(plan(shared, None, None, KAI), nodes) == {"a": ["n1"], "b": ["n1"]}
    (problem,) = refused(plan([shared[0], sharing("c", 1)], None, None, KAI), nodes)
    assert "the host cluster's KAI Scheduler places a's pods, c brings a scheduler of its own" in problem


def test_taints():
    def tainted(name, *taints):
        return node(name, 4) | {"taints": list(taints)}

    def ours(tenant):
        return {"key": TAINT, "value": tenant, "effect": "NoSchedule"}

    other = {"key": "other", "effect": "NoExecute"}
    nodes = [tainted("n1"), tainted("n2", other, ours("gone")), tainted("n3", ours("a")), tainted("n4", ours("b"))]
    assigned = {"a": ["n1", "n3"], "b": ["n4"]}
    assert retaint(nodes, assigned, ["a", "b"], ["a"]) == {"n1": [ours("a")], "n4": []}
    assert retaint(nodes, {}, None, []) == {"n2": [other], "n3": [], "n4": []}
    assert retaint(nodes, {}, ["gone"], []) == {"n2": [other]}
