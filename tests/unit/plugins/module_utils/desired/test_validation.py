# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TEMPORARY, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state, tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as facts_of_kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as facts_of_vcluster
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.growth import MOST, growth
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import by_index

KAI = {"name": "kai", "version": "v0.16.8"}
QUEUES = [{"name": "ml", "gpu": {"quota": 4, "limit": 4}, "children": [{"name": "training", "gpu": {"quota": 3}}]}]
WORKERS = [{"gpus": [0, 1, 2, 3]}, {"count": 4}, {}]
WEB = {"name": "web", "trust": "partial"}
ML = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}, "scheduler": KAI, "queues": QUEUES}


CLAIMED = f"claimed by {TENANTS}[0] already. To share nodes, both give shared_gpus."
SHARED = {"name": "kai", "shared": True}
NOT_SHARED = {"shared": False, "chart": "", "repository": ""}


def read(tenants, workers=None, shared_scheduler=None, gpus=None, **variables):
    """The desired state of a cluster that is made where its workers are given, else of one that exists."""
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/etc/kubernetes/admin.conf"}
    variables |= existing if workers is None else {"nvkind_workers": workers, "lab_gpus": gpus}
    shared = {SHARED_SCHEDULER: shared_scheduler} if shared_scheduler else {}
    return desired_state(variables | shared | {TENANTS: tenants}, "dc1", TODAY)


def plan(tenants, workers=None, shared_scheduler=None, gpus=None):
    return read(tenants, workers, shared_scheduler, gpus).data()["tenants"]


def problems(tenants, workers=None, shared_scheduler=None):
    with pytest.raises(TenancyError) as caught:
        plan(tenants, workers, shared_scheduler)
    found = caught.value.details["problems"]
    assert all(problem in caught.value.message for problem in found)
    return by_index(found)


REGISTRY = {"name": "registry", "namespace": "registry", "labels": {"app": "registry"}, "ports": [5000]}

# --- validation --------------------------------------------------------------------------------------------------


def test_every_key_is_there():
    assert plan([WEB]) == [
        WEB
        | {
            "state": "present",
            "gpu_nodes": {},
            "vcluster": {"version": "0.36.1", "kubernetes_version": "", "values": {}},
            "quota": {},
            "network": {},
            "scheduler": {},
            "queues": [],
            "expires": "",
        }
    ]


def test_the_given_is_kept():
    values = {"sync": {"toHost": {"ingresses": {"enabled": True}}}}
    tenant = ML | {"vcluster": {"version": "0.34.0", "values": values}, "scheduler": KAI | {"gpu_sharing": True}}
    assert plan([tenant], WORKERS) == [
        tenant
        | {
            "state": "present",
            "vcluster": {"version": "0.34.0", "kubernetes_version": "", "values": values},
            "quota": {},
            "network": {},
            "scheduler": KAI | {"gpu_sharing": True, "accept_hazards": [], "values": {}} | NOT_SHARED,
            "expires": "",
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
        ({"scheduler": KAI | {"accept_hazards": "#1103"}}, "[0].scheduler.accept_hazards: must be a list, not '#1103'."),
        (
            {"scheduler": KAI | {"accept_hazards": ["#1102"]}},
            "[0].scheduler.accept_hazards[0]: '#1102' is no hazard. Did you mean ",
        ),
        (
            {"scheduler": KAI | {"version": "v0.13.1", "accept_hazards": [{}]}},
            "[0].scheduler.accept_hazards[0]: {} is no hazard.",
        ),
        ({"state": "absent", "scheduler": KAI | {"accept_hazards": [3]}}, "[0].scheduler.accept_hazards[0]: 3 is no hazard."),
        ({"scheduler": SHARED | {"accept_hazards": ["#104"]}}, "[0].scheduler.accept_hazards: a shared scheduler is the host "),
        (
            {"scheduler": {"name": "volcano", "version": "1", "chart": "v", "accept_hazards": ["#104"]}},
            "[0].scheduler.accept_hazards: are KAI Scheduler's; none of volcano are known.",
        ),
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
        ({"scheduler": SHARED | {"version": "v0.16.8"}}, "[0].scheduler.version: a shared scheduler is the host cluster's; its "),
        ({"scheduler": SHARED}, "[0].scheduler.shared: there is none to share: kubegpu_shared_scheduler names no scheduler."),
        ({"gpu_nodes": {"count": 1, "shared_gpus": 1}}, "[0].gpu_nodes.shared_gpus: say by names or labels which nodes are "),
        ({"gpu_nodes": {"names": ["a"], "shared_gpus": 0}}, "[0].gpu_nodes.shared_gpus: must be at least 1, not 0."),
        (
            {"gpu_nodes": {"names": ["a"], "share_gpus_with": "any"}, "scheduler": {"name": "kai", "shared": True}, "queues": []},
            "[0].gpu_nodes.share_gpus_with: is about nodes that are shared: give shared_gpus, too.",
        ),
        (
            {"gpu_nodes": {"names": ["a"], "shared_gpus": 4, "share_gpus_with": "any"}},
            "[0].gpu_nodes.share_gpus_with: only the host cluster's KAI Scheduler gives parts of one GPU to several tenants",
        ),
        ({"gpu_nodes": {"names": ["a"], "shared_gpus": 4, "share_gpus_with": "all"}}, "'all' is not one of own, any."),
        ({"trust": "zero"}, "[0].gpu_nodes: a tenant with zero trust has nodes of its own: give gpu_nodes, without shared_gpus."),
        (
            {"trust": "zero", "gpu_nodes": {"names": ["a"], "shared_gpus": 1}},
            "[0].gpu_nodes: a tenant with zero trust has nodes ",
        ),
        ({"scheduler": {"name": "kai"}}, "[0].scheduler.version: is missing."),
        ({"scheduler": {"version": "v0.16.8"}}, "[0].scheduler.name: is missing."),
        ({"scheduler": {}}, "[0].scheduler.name: is missing."),
        ({"scheduler": {"name": "kai", "version": "v0.11.0"}}, "[0].scheduler.version: there is no KAI Scheduler v0.11.0"),
        ({"scheduler": {"name": "kai", "version": "latest"}}, "[0].scheduler.version: 'latest' is not a version"),
        ({"scheduler": {"name": "kai", "version": "v0.20.1"}}, "[0].scheduler.version: v0.20.1 of KAI Scheduler was retracted"),
        ({"queues": QUEUES}, "[0].queues: need a scheduler: add scheduler with its name"),
        ({"scheduler": KAI, "queues": [{"name": "a", "gpus": {}}]}, "[0].queues.a.gpus: unknown key."),
        ({"scheduler": KAI | {"version": "v0.12.0"}, "queues": [{"name": "a"}]}, "[0].queues.a: has no child"),
        ({"quota": ["pods"]}, "[0].quota: must be a dictionary, not a list."),
        ({"quota": {"count/pod": 9}}, "[0].quota.count/pod: a ResourceQuota knows no such bound. Did you mean count/pods?"),
        ({"quota": {"limits.memory": "lots"}}, "[0].quota.limits.memory: 'lots' is not an amount such as 16, 500m or 64Gi."),
        ({"quota": {"count/pods": True}}, "[0].quota.count/pods: True is not an amount"),
        (
            {"quota": {"requests.nvidia.com/gpu": 1}},
            "[0].quota.requests.nvidia.com/gpu: GPUs are bounded by gpu_nodes.shared_gpus",
        ),
        ({"quota": {"limits.cpu": "4"}}, "[0].quota.limits.cpu: 4 leaves no room, because the control plane takes 5."),
        (
            {"vcluster": {"values": {"policies": {"resourceQuota": {"quota": {"count/pods": 1}}}}}},
            "[0].quota.count/pods: 1 leaves no room, because the control plane takes 2.",
        ),
        ({"network": {"egres": []}}, "[0].network.egres: unknown key. Did you mean egress?"),
        ({"network": {"egress": [{"name": "a", "namespace": "b"}]}}, "[0].network.egress[0].ports: is missing."),
        ({"network": {"ingress": ["a"]}}, "[0].network.ingress[0]: must be a dictionary, not 'a'."),
        ({"trust": "high", "network": {"egress": [REGISTRY]}}, "[0].network: a tenant of trust high has no network policies"),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY, REGISTRY]}},
            "[0].network.egress[1].name: registry stands here twice.",
        ),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY | {"namespace": "A b"}]}},
            "[0].network.egress[0].namespace: 'A b' is no name",
        ),
        ({"trust": "partial", "network": {"egress": [REGISTRY | {"ports": []}]}}, "[0].network.egress[0].ports: is empty."),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY | {"ports": ["http"]}]}},
            "ports: 'http' is no port from 1 to 65535.",
        ),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY | {"labels": {"a": 1}}]}},
            "egress[0].labels.a: must be a string, not 1",
        ),
        (
            {
                "trust": "partial",
                "network": {"egress": [REGISTRY]},
                "vcluster": {"values": {"policies": {"networkPolicy": {"workload": {"egress": []}}}}},
            },
            "[0].network.egress: stands among the values, too, as policies.networkPolicy.workload.egress.",
        ),
        ({"quota": {"count/pods": "NaN"}}, "[0].quota.count/pods: 'NaN' is not an amount"),
        ({"quota": {"count/pods": "sNaN"}}, "[0].quota.count/pods: 'sNaN' is not an amount"),
        ({"quota": {"count/pods": "1e999990"}}, "[0].quota.count/pods: '1e999990' is not an amount"),
        ({"quota": {"count/pods": "1" * 5000}}, "[0].quota.count/pods: '111"),
        ({"quota": {"count/pods": 10**30}}, "[0].quota.count/pods: a number beyond 2^63 is no number"),
        ({"quota": {"count/pods": -1}}, "[0].quota.count/pods: -1 is not an amount"),
        ({"quota": {None: 1}}, "[0].quota.None: its key must be a string, not None; quote it."),
        ({"quota": {1: 1}}, "[0].quota.1: its key must be a string, not 1; quote it."),
        ({"vcluster": {"values": {"a": {8443: 1}}}}, "[0].vcluster.values.a.8443: its key must be a string"),
        ({"vcluster": {"values": {"a": float("nan")}}}, "[0].vcluster.values.a: nan is no number"),
        (
            {"scheduler": KAI, "queues": [{"name": "q", "cpu": {"limit": 10**30}}]},
            "[0].queues[0].cpu.limit: a number beyond 2^63",
        ),
        ({"gpu_nodes": {"names": ["A"]}}, "[0].gpu_nodes.names[0]: 'A' is no name of a node."),
        ({"gpu_nodes": {"names": ["a\nb"]}}, "[0].gpu_nodes.names[0]: 'a\\nb' is no name of a node."),
        ({"gpu_nodes": {"labels": {"a b": "c"}}}, "[0].gpu_nodes.labels.a b: is not the name of a label."),
        ({"gpu_nodes": {"labels": {"a": "b c"}}}, "[0].gpu_nodes.labels.a: 'b c' is not the value of a label."),
        ({"gpu_nodes": {"labels": {"a": ["b"]}}}, "[0].gpu_nodes.labels.a: must be a string, not a list."),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY | {"labels": {"a": "b c"}}]}},
            "egress[0].labels.a: 'b c' is not the value of a label.",
        ),
        ({"vcluster": {"version": "latest"}}, "[0].vcluster.version: 'latest' is not a vCluster version"),
        ({"vcluster": {"version": "0.36.0"}}, "[0].vcluster.version: vCluster 0.36.0 is refused: "),
        (
            {"trust": "partial", "vcluster": {"version": "0.33.1"}},
            "[0].trust: partial needs vCluster 0.33.2 or later; with 0.33.1",
        ),
        ({"vcluster": {"values": {"sleep": {"auto": 1}}}}, "[0].vcluster.values.sleep: sleep mode needs a vCluster licence"),
        ({"vcluster": {"kubernetes_version": "1.35"}}, "[0].vcluster.kubernetes_version: '1.35' is not a Kubernetes version"),
    ],
)
def test_one_mistake(change, expected):
    found = problems([WEB | change])
    assert len([problem for problem in found if expected in problem]) == 1, found


def test_a_quota_has_room_for_kai_scheduler():
    pods = facts_of_vcluster.LEAST_QUOTA["count/pods"] + facts_of_kai.LEAST_QUOTA["count/pods"]
    assert plan([WEB | {"scheduler": KAI, "quota": {"count/pods": pods}}])[0]["quota"] == {"count/pods": pods}
    (problem,) = problems([WEB | {"scheduler": KAI, "quota": {"count/pods": pods - 1}}])
    assert problem.endswith(f"because the control plane takes 2, KAI Scheduler takes {pods - 2}.")
    # Another's is known to need nothing.
    assert plan([WEB | {"scheduler": {"name": "volcano", "version": "1", "chart": "v"}, "quota": {"count/pods": 2}}])


def test_missing_keys_and_wrong_containers():
    assert problems([{}]) == [f"{TENANTS}[0].name: is missing.", f"{TENANTS}[0].trust: is missing."]
    assert problems(["web"]) == [f"{TENANTS}[0]: must be a dictionary, not 'web'."]
    assert problems({}) == [f"{TENANTS}: must be a list, not a dictionary."]


def test_everything_at_once():
    found = problems([{"name": "A", "trust": "x"}, {"name": "b"}, WEB | {"x": 1}], WORKERS)
    assert [problem.split(": ")[0] for problem in found] == [
        f"{TENANTS}[0].trust",
        f"{TENANTS}[0].name",
        f"{TENANTS}[1].trust",
        f"{TENANTS}[2].x",
    ]


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (WEB, WEB, f"{TENANTS}[1].name: web is the name of {TENANTS}[0] already."),
        (
            ML | {"gpu_nodes": {"names": ["x", "y"]}},
            WEB | {"gpu_nodes": {"names": ["y"]}},
            f"{TENANTS}[1].gpu_nodes.names: y is {CLAIMED}",
        ),
        (
            ML | {"gpu_nodes": {"labels": {"pool": "a"}}},
            WEB | {"gpu_nodes": {"labels": {"pool": "a"}}},
            f"{TENANTS}[1].gpu_nodes.labels: the same nodes are {CLAIMED}",
        ),
    ],
)
def test_rivals(mine, theirs, expected):
    assert problems([mine, theirs]) == [expected]


def test_more_nodes_than_there_are():
    tenants = [ML, WEB | {"gpu_nodes": {"names": ["a"]}}, {"name": "c", "trust": "zero", "gpu_nodes": {"labels": {"x": "y"}}}]
    assert problems(tenants, WORKERS) == [
        f"{TENANTS}: the tenants ask for 3 nodes with GPUs (ml 1, web 1, c 1), the cluster has 2."
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
        f"{TENANTS}[0].queues: queue q is promised 3 GPUs, the tenant has 2 at most."
    ]


def test_the_shared_scheduler_has_all_tenants_queues():
    tenants = [
        sharing("a", 4, SHARED, [{"name": "a", "children": [{"name": "x"}]}]),
        sharing("b", 4, SHARED, [{"name": "b", "children": [{"name": "x"}]}]),
    ]
    assert problems(tenants, None, KAI) == [
        f"{TENANTS}.queues.b.x: there are two queues x. Names are unique in a cluster, wherever in the tree."
    ]
    tenants[1]["queues"] = [{"name": "b"}]
    assert problems(tenants, None, KAI | {"version": "v0.12.0"})[0].startswith(f"{TENANTS}.queues.b: has no child")
    assert read(tenants, None, KAI).shared_queues == [tenants[0]["queues"][0], {"name": "b"}]
    assert read(tenants, None, KAI).shared_nodes == {"tenant.kubegpu.tenancy/a": "true"}
    without_gpus = {key: value for key, value in tenants[0].items() if key != "gpu_nodes"}
    assert read([without_gpus, tenants[1]], None, KAI).shared_nodes == {"tenant.kubegpu.tenancy/b": "true"}
    assert read([WEB], None, KAI).shared_nodes == {}
    assert problems([WEB], None, {"name": "volcano", "version": "v1"}) == [
        f"{SHARED_SCHEDULER}.name: 'volcano' is not one of kai."
    ]
    assert problems([WEB], None, {"name": "kai"}) == [f"{SHARED_SCHEDULER}.version: is missing."]


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ([{"name": "q", "gpu": {"limit": 4}}], ""),
        ([{"name": "q", "gpu": {"limit": 3}}, {"name": "r", "gpu": {"limit": 1}}], ""),
        # What is below a limit cannot be above it.
        ([{"name": "q", "gpu": {"limit": 4}, "children": [{"name": "x"}]}], ""),
        ([], ""),
        ([{"name": "q"}], "Theirs are: q none."),
        ([{"name": "q", "gpu": {"limit": 3}}, {"name": "r", "gpu": {"limit": 2}}], "Theirs are: q 3, r 2."),
    ],
)
def test_parts_of_shared_gpus_are_bounded_by_limits_of_queues(queues, expected):
    sharers = KAI | {"gpu_sharing": True}
    said = f"{TENANTS}[0].queues: parts of GPUs are bounded by the limits of queues alone. Give the tenant's top queues GPU limits of 4 "
    whole = sharing("a", 4, SHARED, queues)
    tenant = whole | {"gpu_nodes": whole["gpu_nodes"] | {"share_gpus_with": "any"}}
    if expected:
        assert problems([tenant], None, sharers) == [f"{said}together at most, as shared_gpus says. {expected}"]
    else:
        assert plan([tenant], None, sharers)
    # Whole ones are bounded by a quota, and a tenant's own nodes by themselves.
    assert plan([tenant], None, KAI)
    assert plan([whole], None, sharers)
    assert plan([tenant | {"gpu_nodes": {"names": ["n1"]}}], None, sharers)


def test_another_scheduler_comes_by_its_chart():
    scheduler = {"name": "volcano", "version": "1.12.0", "chart": "volcano", "repository": "https://charts.example"}
    (planned,) = plan([WEB | {"scheduler": scheduler}])
    assert planned["scheduler"] == scheduler | {"gpu_sharing": False, "accept_hazards": [], "values": {}, "shared": False}


@pytest.mark.parametrize(
    "name",
    [
        *("default", "kube-system", "kube-public", "kube-node-lease", "kube-own"),
        *("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust"),
    ],
)
def test_a_scheduler_is_not_called_as_a_namespace_of_others(name):
    (problem,) = problems([WEB | {"scheduler": {"name": name, "version": "1", "chart": "c"}}])
    assert problem.startswith(f"{TENANTS}[0].scheduler.name: {name} is a namespace of Kubernetes or KAI Scheduler")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        # Each would be an option of helm.
        ({"chart": "--post-renderer=/bin/sh"}, "chart"),
        ({"version": "--debug"}, "version"),
        ({"repository": "-x"}, "repository"),
        ({"repository": "file:///etc"}, "repository"),
        ({"chart": "a b"}, "chart"),
        ({"version": "1 2"}, "version"),
    ],
)
def test_what_is_no_chart(change, key):
    (problem,) = problems([WEB | {"scheduler": {"name": "volcano", "version": "1.12.0", "chart": "volcano"} | change}])
    assert problem.startswith(f"{TENANTS}[0].scheduler.{key}: ")


@pytest.mark.parametrize(("gpu_nodes", "have"), [({"count": 1}, 4), ({"names": ["a"]}, 4), (None, 0)])
def test_more_gpus_than_there_are(gpu_nodes, have):
    tenant = (
        WEB | {"scheduler": KAI, "queues": [{"name": "q", "gpu": {"quota": 5}}]} | ({"gpu_nodes": gpu_nodes} if gpu_nodes else {})
    )
    assert problems([tenant], WORKERS) == [f"{TENANTS}[0].queues: queue q is promised 5 GPUs, the tenant has {have} at most."]


def test_the_layout_is_checked_too():
    with pytest.raises(TenancyError, match="nvkind_workers: they ask for 7 GPUs, the host has 6"):
        plan([WEB], [{"gpus": [0, 1, 2]}, {"count": 4}, {}], gpus=6)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([4], ["[0]: must be a dictionary, not 4."]),
        ([{"gpus": "all"}], ["[0].gpus: must be a list, not 'all'."]),
        # By the role, it would be the one GPU of that index.
        (
            [{"gpus": 8}],
            ["[0].gpus: must be a list, not 8.", "[0].gpus: names GPUs, such as [0, 1]. How many it gets says count."],
        ),
        ([{"gpu": [0, 1]}], ["[0].gpu: unknown key. Did you mean gpus? Allowed here: gpus, count, labels."]),
        ([{"count": -4}, {"count": 12}], ["[0].count: must be at least 0, not -4."]),
        ([{"count": "4"}], ["[0].count: must be a whole number, not '4'."]),
        ([{"gpus": [0, 0]}], ["[0].gpus[1]: GPU 0 stands in nvkind_workers[0].gpus[0] already."]),
        ([{"gpus": [0]}, {"gpus": ["0"]}], ["[1].gpus[0]: GPU 0 stands in nvkind_workers[0].gpus[0] already."]),
        ([{"gpus": [True]}], ["[0].gpus[0]: must be the index or the UUID of a GPU, not True."]),
        ([{"gpus": [-1]}], ["[0].gpus[0]: must be the index or the UUID of a GPU, not -1."]),
        ([{"gpus": ["", None]}], ["[0].gpus[0]: must be the index", "[0].gpus[1]: must be the index"]),
        ([{"gpus": [0], "count": 1}], ["[0]: names its gpus, or gives their count, not both."]),
        ([{"labels": {"a b": 1}}], ["[0].labels.a b: is not the name of a label."]),
    ],
)
def test_what_is_no_layout(workers, expected):
    found = problems([WEB], workers)
    assert len(found) == len(expected), found
    assert all(problem.startswith(f"nvkind_workers{start}") for problem, start in zip(found, expected)), found


def test_the_layouts_that_the_role_takes():
    uuid = "GPU-1b7d3f2a-0c55-5d0e-9c1f-2f8f3c1f6a10"
    workers = [
        {"gpus": [0, "1"], "labels": {"pool": "a", "size": 2}},
        {"gpus": [uuid]},
        {"count": 3},
        {"count": 0},
        {"gpus": []},
        {},
    ]
    assert read([WEB], workers, gpus="6").workers == (2, 1, 3, 0, 0, 0)


# --- the cluster around the tenants ------------------------------------------------------------------------------


def refused(host="dc1", **variables):
    with pytest.raises(TenancyError) as caught:
        desired_state(variables, host, TODAY)
    return caught.value.problems


def test_a_tenant_is_named_beside_its_index_and_a_temporary_one_by_its_own_path():
    web = WEB | {"scheduler": SHARED}
    job = WEB | {"name": "ci-1", "gpu_nodes": {"count": 1}}
    tenants = [
        ML | {"gpu_nodes": {"names": ["a"]}},
        web,
        WEB | {"name": "b", "gpu_nodes": {"names": ["a"]}},
        WEB | {"name": "No"},
    ]
    found = refused(
        kubegpu_tenants=tenants, kubegpu_temporary_tenant=job, kubegpu_cluster_provider="existing", kubegpu_kubeconfig="/x"
    )
    assert [problem.partition(":")[0] for problem in found] == [
        "kubegpu_tenants[3].name",
        "kubegpu_temporary_tenant.expires",
        "kubegpu_tenants[2] (b).gpu_nodes.names",
        "kubegpu_tenants[1] (web).scheduler.shared",
    ]
    assert "a is claimed by kubegpu_tenants[0] (ml) already." in found[2]
    # On their way to modules, too.
    known = [tenant | {"expires": expires} for tenant, expires in ((WEB, ""), (job, "2h"))]
    assert [tenant.path for tenant in tenants_from(known)] == ["kubegpu_tenants[0] (web)", "kubegpu_temporary_tenant"]
    many = [tenant.path for tenant in tenants_from([known[1], known[1] | {"name": "ci-2"}])]
    assert many == ["kubegpu_tenants[0] (ci-1)", "kubegpu_tenants[1] (ci-2)"]


def test_a_variable_of_the_host_of_a_tenant_is_a_slip_on_that_of_a_cluster():
    (problem,) = refused(kubegpu_tenant=[WEB])
    assert problem.startswith("kubegpu_tenant: unknown variable. Did you mean kubegpu_tenants?")
    (problem,) = refused(kubegpu_cluster="existing", kubegpu_info={})
    assert problem.startswith("kubegpu_cluster: unknown variable. Did you mean ")
    # As add_host and the inventory plugin give them.
    assert desired_state({"kubegpu_observed": {}, "kubegpu_cluster": "gpu1"}, "gpu1/web", TODAY).tenants == ()


def test_a_provider_that_does_not_exist_is_refused():
    assert refused(kubegpu_cluster_provider="exsting") == ["kubegpu_cluster_provider: 'exsting' is not one of nvkind, existing."]


def test_an_unknown_variable_is_refused_with_a_guess():
    (problem,) = refused(kubegpu_tenant_list=[], kubegpu_kubeconfig="/x")
    assert problem.startswith("kubegpu_tenant_list: unknown variable.")
    (problem,) = refused(kubegpu_tenats=[])
    assert problem.startswith("kubegpu_tenats: unknown variable. Did you mean kubegpu_tenants?")
    assert desired_state({"kubegpu_info": {}, "other": 1}, "dc1", TODAY).tenants == ()


def test_an_existing_cluster_needs_its_kubeconfig():
    (problem,) = refused(kubegpu_cluster_provider="existing")
    assert problem.startswith("kubegpu_kubeconfig: is missing")


@pytest.mark.parametrize("path", ["/etc/kubernetes/admin.conf", "/tmp/x.conf", "~/.kube/config"])
def test_tenants_kubeconfigs_have_a_folder_of_ours_wherever_the_clusters_own_is(path):
    cluster = desired_state({"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": path}, "dc1", TODAY)
    assert (cluster.kubeconfig, cluster.tenants_folder) == (path, "~/.kube/kubegpu/dc1/tenants")


def test_a_cluster_without_workers_is_complete():
    cluster = desired_state({}, "gpu1", TODAY)
    assert cluster.workers == ()
    assert (cluster.kubeconfig, cluster.tenants_folder, cluster.kubeconfig_dir) == (
        "/etc/kubegpu/kubegpu/cluster.yml",
        "/etc/kubegpu/kubegpu/tenants",
        "~/.kube/kubegpu/gpu1",
    )


def test_a_tenant_is_not_called_as_the_administrators_kubeconfig():
    (problem,) = problems([{"name": "cluster", "trust": "high"}])
    assert problem.startswith(f"{TENANTS}[0].name: cluster is reserved")


def test_only_some_tenants():
    tenants = [WEB, {"name": "b", "trust": "high"}]
    assert [tenant.name for tenant in read(tenants, kubegpu_only="web").selected] == ["web"]
    assert [tenant.name for tenant in read(tenants, kubegpu_only="b, web").selected] == ["web", "b"]
    assert [tenant.name for tenant in read(tenants, kubegpu_only=["b"]).selected] == ["b"]
    assert len(read(tenants).selected) == 2
    assert read(tenants, kubegpu_only=["gone"]).only == ("gone",)
    assert refused(kubegpu_only=["Web"]) == ["kubegpu_only[0]: 'Web' is not the name of a tenant."]


def test_a_temporary_tenant_is_beside_those_that_are_listed_and_the_only_one_to_act_on():
    job = {"name": "ci-1", "trust": "high", "expires": "2h"}
    cluster = read([ML, WEB], WORKERS, **{TEMPORARY: job, "kubegpu_only": "web"})
    assert [tenant.name for tenant in cluster.tenants] == ["ml", "web", "ci-1"]
    assert [(tenant.name, tenant.expires) for tenant in cluster.selected] == [("ci-1", "2h")]
    # What travels on is read by the same rules.
    assert tenants_from(cluster.data()["tenants"]) == list(cluster.tenants)
    assert read([WEB], **{TEMPORARY: {}}).only == ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"expires": None}, f"{TEMPORARY}.expires: must be a string"),
        ({"expires": ""}, f"{TEMPORARY}.expires: is missing"),
        ({"expires": "2 weeks"}, f"{TEMPORARY}.expires: '2 weeks' is not an age such as 30m, 2h or 7d."),
        ({"name": "web"}, f"{TEMPORARY}.name: web is the name of {TENANTS}[0] already."),
        ({"scheduler": SHARED}, f"{TEMPORARY}.scheduler.shared: the next run would take its queues out"),
        ({"scheduler": {"name": "kai", "version": "v0.13.1"}}, f"{TEMPORARY}.scheduler.version: v0.13.1 is refused"),
        (
            {"scheduler": KAI, "queues": [{"name": "all", "gpu": {"quota": 9}}], "gpu_nodes": {"count": 1}},
            f"{TEMPORARY}.queues: queue all",
        ),
    ],
)
def test_what_is_refused_of_a_temporary_tenant(change, expected):
    job = {"name": "ci-1", "trust": "high", "expires": "2h"} | change
    shared = {"name": "kai", "version": "v0.16.8"} if change.get("scheduler") == SHARED else None
    variables = {TENANTS: [WEB], "nvkind_workers": WORKERS, TEMPORARY: job} | ({SHARED_SCHEDULER: shared} if shared else {})
    with pytest.raises(TenancyError) as caught:
        desired_state(variables, "gpu1", TODAY, running={})
    assert any(expected in problem for problem in by_index(caught.value.problems)), caught.value.problems


def test_what_is_listed_does_not_expire():
    assert problems([WEB | {"expires": "2h"}]) == [
        f"{TENANTS}[0].expires: what is listed stays until its entry goes; expires is for {TEMPORARY}."
    ]


def test_names_that_are_no_text_are_refused_and_nothing_more():
    assert refused(kubegpu_only=[{"name": "web"}, 1]) == [
        "kubegpu_only[0]: must be a string, not a dictionary.",
        "kubegpu_only[1]: must be a string, not 1; quote it.",
    ]
    twice = [{"name": name, "trust": "high", "gpu_nodes": {"names": [{"a": 1}, 7]}} for name in ("a", "b")]
    assert len(problems(twice)) == 4


@pytest.mark.parametrize("name", ["", ".", "..", "../etc", "a/b", "network", "A", None, 5])
def test_the_name_of_a_cluster_is_one_of_which_folders_can_be_made(name):
    (problem,) = refused(nvkind_cluster_name=name)
    assert problem.startswith("nvkind_cluster_name: ")
    # Where the cluster exists, nothing is named after it.
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x"}
    assert desired_state(existing | {"nvkind_cluster_name": name}, "dc1", TODAY).tenants_folder == "~/.kube/kubegpu/dc1/tenants"


def test_the_folders_of_a_cluster_have_its_name():
    cluster = desired_state({"nvkind_cluster_name": "dc1.gpu"}, "host", TODAY)
    assert (cluster.kubeconfig, cluster.tenants_folder) == ("/etc/kubegpu/dc1.gpu/cluster.yml", "/etc/kubegpu/dc1.gpu/tenants")


@pytest.mark.parametrize(
    ("gpus", "expected"), [(8, []), ("8", []), (4, ["8 GPUs, the host has 4"]), ("many", ["a whole number"])]
)
def test_the_gpus_of_a_lab(gpus, expected):
    variables = {"nvkind_workers": WORKERS, "lab_gpus": gpus}
    found = refused(**variables) if expected else [desired_state(variables, "lab", TODAY)][1:]
    assert len(found) == len(expected)
    assert all(text in problem for text, problem in zip(expected, found))


def test_fractions_of_gpus_are_kai_schedulers():
    volcano = {"name": "volcano", "version": "1.12.0", "chart": "volcano", "gpu_sharing": True}
    assert problems([WEB | {"scheduler": volcano}]) == [
        f"{TENANTS}[0].scheduler.gpu_sharing: is KAI Scheduler's; what volcano is to do, its values say."
    ]


def test_an_absent_tenant_claims_nothing():
    gone = {"name": "gone", "trust": "high", "state": "absent", "gpu_nodes": {"labels": {"a": "b"}}}
    other = {"name": "b", "trust": "high", "gpu_nodes": {"labels": {"a": "b"}}}
    assert read([gone, other], WORKERS[:1]).data()["tenants"][0]["state"] == "absent"
    shared = {"name": "s", "trust": "high", "state": "absent", "scheduler": SHARED, "queues": [{"name": "q"}]}
    assert read([shared]).shared_queues == []


def test_the_version_of_kai_is_written_as_upstream_does():
    scheduler = {"name": "kai", "version": "0.16.8"}
    (tenant,) = plan([WEB | {"scheduler": scheduler}])
    assert tenant["scheduler"]["version"] == "v0.16.8"


# --- hazards of KAI Scheduler's releases --------------------------------------------------------------------------

OLD = {"name": "kai", "version": "v0.12.0", "gpu_sharing": True}
ENDED = {"name": "kai", "version": "v0.13.1"}
RACE = "#1103: when pods that share GPUs start at once, a GPU's reservation can be taken away while it is used"
NO_SUPPORT = "end-of-support: upstream has corrected nothing in it since the end of 2026-03"


def old(name="a", scheduler=None, **more):
    return {"name": name, "trust": "high", "scheduler": scheduler or OLD} | more


def hazards(*tenants, running=None, today=TODAY, **variables):
    """The desired state of a cluster on which these tenants may run already."""
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x", TENANTS: list(tenants)}
    return desired_state(existing | variables, "dc1", today, running)


def refused_for(*tenants, **more):
    with pytest.raises(TenancyError) as caught:
        hazards(*tenants, **more)
    return by_index(caught.value.problems)


def test_a_hazard_that_touches_and_that_nobody_accepted_is_refused_by_its_path():
    (problem,) = problems([WEB, old()])
    assert problem.startswith(f"{TENANTS}[1].scheduler.version: v0.12.0 is refused. {RACE}")
    assert 'Use v0.12.22, the nearest release without, or accept it with accept_hazards: ["#1103", "#1673"].' in problem
    # By the chart's values, too.
    plain = OLD | {"gpu_sharing": False}
    assert plan([old(scheduler=plain)])
    assert problems([old(scheduler=plain | {"values": {"global": {"gpuSharing": True}}})]) == [
        problem.replace(f"{TENANTS}[1]", f"{TENANTS}[0]")
    ]


def test_what_is_not_to_be_installed_is_not_refused():
    assert plan([old(state="absent"), old("b", state="paused")])
    assert hazards(old(state="absent")).accepted_hazards == {}
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x", TENANTS: [old(), old("b", ENDED)]}
    removed = desired_state(existing, "dc1", TODAY, running={}, installs=False)
    assert (len(removed.tenants), removed.unsupported) == (2, {})


def test_the_shared_scheduler_is_for_pods_of_others():
    plain = {"name": "kai", "version": "v0.12.0"}
    assert plan([old(scheduler=plain)])
    (problem,) = problems([WEB], None, plain)
    assert problem.startswith(f"{SHARED_SCHEDULER}.version: v0.12.0 is refused. #104: its pod webhook stops every pod ")
    cluster = read([WEB], None, plain | {"accept_hazards": ["#104"]})
    assert cluster.data()["shared_scheduler"]["accept_hazards"] == ["#104"]
    assert cluster.accepted_hazards == {
        SHARED_SCHEDULER: ["#104: its pod webhook stops every pod of the cluster while it does not answer"]
    }


def test_the_room_that_kai_needs_is_looked_for_where_shared_gpus_alone_make_a_quota():
    values = {"policies": {"resourceQuota": {"quota": {"count/pods": 5}}}}
    entry = {"gpu_nodes": {"names": ["n1"], "shared_gpus": 2}, "vcluster": {"values": values}}
    scheduler = {"name": "kai", "version": "v0.16.8"}
    (problem,) = problems([old(scheduler=scheduler, **entry)])
    assert problem.endswith("quota.count/pods: 5 leaves no room, because the control plane takes 2, KAI Scheduler takes 8.")


def test_parts_of_gpus_among_others_pods_are_for_those_who_are_trusted_or_accepted():
    scheduler = {"name": "kai", "version": "v0.16.8", "gpu_sharing": True}
    entry = {"trust": "partial", "gpu_nodes": {"names": ["n1"], "shared_gpus": 2}}
    (problem,) = refused_for(old(scheduler=scheduler, **entry))
    assert problem.startswith(f"{TENANTS}[0].scheduler.version: v0.16.8 is refused. open-gpus: which GPU a pod shares is said by")
    assert problem.endswith('No later release that is known is without: accept it with accept_hazards: ["open-gpus"].')
    accepted = hazards(old(scheduler=scheduler | {"accept_hazards": ["open-gpus"]}, **entry)).accepted_hazards
    assert [hazard.partition(":")[0] for hazard in accepted["a"]] == ["open-gpus"]
    for other in ({"trust": "high"}, {"gpu_nodes": {"names": ["n1"]}}, {"scheduler": scheduler | {"gpu_sharing": False}}):
        assert hazards(old(**({"scheduler": scheduler} | entry | other))).accepted_hazards == {}


def test_what_is_accepted_goes_on_and_is_told():
    cluster = hazards(
        old(scheduler=ENDED | {"gpu_sharing": True, "accept_hazards": ["#1103", "#1673", "#104", "end-of-support"]})
    )
    assert [hazard.partition(",")[0] for hazard in cluster.data()["accepted_hazards"]["a"]] == [
        RACE.partition(",")[0],
        "#1673: two reservation pods can take two GPUs for pods that share one",
        NO_SUPPORT,
    ]
    assert cluster.unsupported == {}
    assert tuple(tenants_from(cluster.data()["tenants"])) == cluster.tenants


def seen(name, version, state="running"):
    return {"name": name, "scheduler_version": version, "state": state}


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        # Nothing is known of what runs.
        (None, True),
        ({"tenants": [seen("a", "v0.13.1")]}, True),
        # Paused, so that nothing shows which one it has.
        ({"tenants": [seen("a", None, "paused")]}, True),
        ({}, False),
        ({"tenants": [seen("a", "v0.12.0")]}, False),
        ({"tenants": [seen("a", None, "absent")]}, False),
        ({"tenants": [seen("b", "v0.13.1")]}, False),
    ],
)
def test_a_release_without_support_may_go_on_and_is_not_installed(running, expected):
    tenant = old(scheduler=ENDED)
    if expected:
        cluster = hazards(tenant, running=running)
        assert (cluster.unsupported, cluster.accepted_hazards) == ({"a": [NO_SUPPORT]}, {})
    else:
        (problem,) = refused_for(tenant, running=running)
        assert problem.startswith(f"{TENANTS}[0].scheduler.version: v0.13.1 is refused. {NO_SUPPORT}. Use v0.14.0, ")
    assert hazards(tenant, running=running, today=datetime.date(2026, 3, 31)).unsupported == {}


@pytest.mark.parametrize(
    ("running", "expected"), [({"shared_scheduler": "v0.13.1"}, True), ({"shared_scheduler": "unknown"}, True), ({}, False)]
)
def test_a_shared_release_without_support_may_go_on_too(running, expected):
    shared = {SHARED_SCHEDULER: ENDED}
    if expected:
        assert hazards(running=running, **shared).unsupported == {SHARED_SCHEDULER: [NO_SUPPORT]}
    else:
        assert refused_for(running=running, **shared)[0].startswith(f"{SHARED_SCHEDULER}.version: v0.13.1 is refused.")


def test_tenants_that_a_run_leaves_alone_are_not_installed_by_it():
    tenants = [old(scheduler=ENDED), old("b", ENDED)]
    assert len(refused_for(*tenants, running={})) == 2
    (problem,) = refused_for(*tenants, running={}, kubegpu_only="b", kubegpu_shared_scheduler=ENDED)
    assert problem.startswith(f"{TENANTS}[1].scheduler.version")


def test_booleans_of_the_command_line():
    assert desired_state({"kubegpu_accept_lost_pods": "true"}, "dc1", TODAY).accept_lost_pods is True
    assert refused(kubegpu_accept_lost_pods="yes") == ["kubegpu_accept_lost_pods: must be true or false, not 'yes'."]


def test_a_required_rehearsal_has_verdicts():
    assert desired_state({"kubegpu_accept_holds": ["a"]}, "dc1", TODAY).rehearsal == {}
    required = {"kubegpu_rehearsal": "required", "kubegpu_rehearsal_verdicts": "rehearsals"}
    assert desired_state(required, "dc1", TODAY).rehearsal == {"verdicts": "rehearsals", "max_age": 30, "accept_holds": []}
    assert refused(kubegpu_rehearsal="required", kubegpu_rehearsal_max_age=0) == [
        "kubegpu_rehearsal_verdicts: is missing: say in which folder the verdicts of rehearsals are.",
        "kubegpu_rehearsal_max_age: is 0; it is one day at least.",
    ]


def test_a_prometheus_that_reads_metrics():
    assert desired_state({}, "dc1", TODAY).metrics == {}
    reader = {"provider": "annotations", "namespace": "monitoring"}
    cluster = desired_state({"kubegpu_metrics": reader}, "dc1", TODAY)
    assert cluster.metrics == cluster.data()["metrics"] == reader | {"labels": {}}
    assert refused(kubegpu_metrics=reader | {"namespace": "Monitoring", "labels": {"a": 1}}) == [
        "kubegpu_metrics.namespace: 'Monitoring' is no name of a namespace, such as monitoring.",
        "kubegpu_metrics.labels: are those of ServiceMonitors, of which there are none with annotations.",
        "kubegpu_metrics.labels.a: must be a string, not 1; quote it.",
    ]


def test_a_proxy_is_one_that_clients_speak_to():
    (problem,) = refused(kubegpu_kubeconfig_proxy="socks5://127.0.0.1:1080")
    assert problem.startswith("kubegpu_kubeconfig_proxy: 'socks5://127.0.0.1:1080' is a SOCKS proxy")


def test_every_field_of_the_schema_is_documented():
    def fields(schema):
        for key, field in schema.items():
            yield key, field
            yield from fields(field.fields)

    documented = list(fields(facts.CLUSTER))
    assert len(documented) > 30
    assert all(field.doc.endswith(".") for _key, field in documented)


def test_a_tenant_stays_the_same_on_its_way_to_the_modules():
    zero = {"name": "z", "trust": "zero", "gpu_nodes": {"labels": {"a": "b"}}, "vcluster": {"kubernetes_version": "v1.35.4"}}
    shared = {"name": "s", "trust": "partial", "gpu_nodes": {"names": ["n1"], "shared_gpus": 2}, "scheduler": SHARED}
    cluster = read([ML, WEB, zero, shared], None, KAI)
    assert tuple(tenants_from(cluster.data()["tenants"])) == cluster.tenants


def test_the_shared_scheduler_looks_only_at_tenants_that_share_it():
    selector = {"namespaceLabelSelector": {"kubegpu.tenancy/scheduler": "kai"}}
    given = {"name": "kai", "version": "v0.16.8", "values": {"global": {"replicaCount": 2}}}
    assert read([], shared_scheduler=given).data()["shared_scheduler"]["values"] == {"global": {"replicaCount": 2} | selector}
    assert read([]).data()["shared_scheduler"] == {}


# --- what the cluster asks of all tenants ------------------------------------------------------------------------

GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def values_of(**variables):
    return read([ML], **variables).tenants[0].vcluster.values


def test_by_default_nothing_is_asked_of_tenants():
    cluster = read([ML], shared_scheduler=KAI)
    assert cluster.tenants[0].vcluster.values == {}
    assert cluster.tenants[0].scheduler.values == {}
    assert cluster.shared_scheduler.values == {}
    assert cluster.data()["platform"] == {"runtime_class": "nvidia", "tolerations": [], "tenant_host": ""}


def test_tolerations_reach_everything_of_a_tenant():
    assert values_of(kubegpu_tolerations=[GPU_TAINT]) == {
        "controlPlane": {"statefulSet": {"scheduling": {"tolerations": [GPU_TAINT]}}},
        "sync": {"toHost": {"pods": {"enforceTolerations": ["nvidia.com/gpu:NoSchedule"]}}},
    }


def test_tolerations_reach_a_scheduler_only_where_nodes_keep_their_taints():
    tenants = [ML, WEB | {"name": "vision", "trust": "high", "scheduler": SHARED}]
    cluster = read(tenants, shared_scheduler=KAI, kubegpu_tolerations=[GPU_TAINT])
    assert cluster.shared_scheduler.values == {"global": {"tolerations": [GPU_TAINT]}}
    assert cluster.tenants[0].scheduler.values == {}


def test_a_scheduler_is_told_that_there_is_no_runtime_class():
    own = {"binder": {"affinity": {}}, "admission": {"gpuFractionRuntimeClassName": "nvidia-cdi"}}
    cluster = read(
        [ML, ML | {"name": "b", "scheduler": KAI | {"values": own}, "gpu_nodes": {"count": 2}}], kubegpu_runtime_class=""
    )
    no_class = {"admission": {"gpuFractionRuntimeClassName": ""}, "binder": {"runtimeClassName": ""}}
    assert cluster.tenants[0].scheduler.values == no_class
    # What a tenant says itself counts.
    assert cluster.tenants[1].scheduler.values == {
        "admission": own["admission"],
        "binder": {"affinity": {}, "runtimeClassName": ""},
    }
    # As it travels to roles, it says the same.
    assert tenants_from(cluster.data()["tenants"])[0] == cluster.tenants[0]


def test_a_release_that_needs_a_runtime_class_is_refused_without_one():
    tenant = ML | {"scheduler": {"name": "kai", "version": "v0.13.1", "gpu_sharing": True, "accept_hazards": ["#1103"]}}
    with pytest.raises(TenancyError, match=r"kubegpu_tenants\[0\] \(ml\).scheduler.version: in v0.13.1, reservation pods name"):
        read([tenant], kubegpu_runtime_class="")


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ({"type": "NodePort"}, {}),
        ({"type": "LoadBalancer"}, {"service": {"spec": {"type": "LoadBalancer"}}}),
        (
            {"type": "LoadBalancer", "host": "{tenant}.gpu.example", "annotations": {"internal": "true"}},
            {
                "service": {"spec": {"type": "LoadBalancer"}, "annotations": {"internal": "true"}},
                "proxy": {"extraSANs": ["ml.gpu.example"]},
            },
        ),
        (
            {"type": "Ingress", "host": "{tenant}.gpu.example", "ingress_class": "nginx", "annotations": {"a": "b"}},
            {
                "service": {"spec": {"type": "ClusterIP"}},
                "ingress": {
                    "enabled": True,
                    "host": "ml.gpu.example",
                    "annotations": {"a": "b"},
                    "spec": {"ingressClassName": "nginx"},
                },
            },
        ),
    ],
)
def test_how_the_tenants_api_is_reached(api, expected):
    assert values_of(kubegpu_tenant_api=api) == ({"controlPlane": expected} if expected else {})


def test_the_storage_class_of_control_planes():
    persistence = {"volumeClaim": {"storageClass": "premium-rwo"}}
    assert values_of(kubegpu_storage_class="premium-rwo") == {"controlPlane": {"statefulSet": {"persistence": persistence}}}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"kubegpu_tolerations": [{"kye": "a"}]}, "kubegpu_tolerations[0].kye: unknown key. Did you mean key?"),
        ({"kubegpu_tolerations": [{"operator": "Exists"}]}, "kubegpu_tolerations[0].key: is missing."),
        ({"kubegpu_tolerations": [{"key": "", "operator": "Exists"}]}, "kubegpu_tolerations[0].key: would let everyone onto"),
        ({"kubegpu_tolerations": [{"key": "kubegpu.tenancy/dedicated"}]}, "kubegpu_tolerations[0].key: would let everyone onto"),
        ({"kubegpu_tolerations": [{"key": "a", "operator": "In"}]}, "kubegpu_tolerations[0].operator: 'In' is not one of Exists"),
        (
            {"kubegpu_tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "kubegpu_tolerations[0].value: is compared",
        ),
        ({"kubegpu_tenant_api": {"type": "Ingress"}}, "kubegpu_tenant_api.host: is missing"),
        ({"kubegpu_tenant_api": {"host": "{tenant}.example"}}, "kubegpu_tenant_api.host: has no meaning with a NodePort"),
        (
            {"kubegpu_tenant_api": {"type": "LoadBalancer", "host": "gpu.example"}},
            "kubegpu_tenant_api.host: needs {tenant} in it",
        ),
        ({"kubegpu_tenant_api": {"type": "LoadBalancer", "host": "https://{tenant}"}}, "is no host name such as"),
        ({"kubegpu_tenant_api": {"ingress_class": "nginx"}}, "kubegpu_tenant_api.ingress_class: has a meaning with"),
        (
            {"kubegpu_tenant_api": {"annotations": {"internal": True}}},
            "annotations.internal: must be a string, not True; quote it.",
        ),
        ({"kubegpu_tenant_api": {"annotations": {"a b": "c"}}}, "annotations.a b: is not the name of an annotation."),
        (
            {"kubegpu_tenant_api": {"type": "Ingress", "host": "{tenant}.x", "ingress_class": "a b"}},
            "kubegpu_tenant_api.ingress_class: 'a b' is no name of an IngressClass.",
        ),
        ({"kubegpu_tolerations": [{"key": "*"}]}, "kubegpu_tolerations[0].key: '*' is no key of a taint"),
        ({"kubegpu_tolerations": [{"key": "a b"}]}, "kubegpu_tolerations[0].key: 'a b' is no key of a taint"),
        ({"kubegpu_tolerations": [{"key": "a\n"}]}, "kubegpu_tolerations[0].key: 'a\\n' is no key of a taint"),
        ({"kubegpu_tolerations": [{"key": "a", "value": "b c"}]}, "kubegpu_tolerations[0].value: 'b c' is no value of a taint."),
        ({"kubegpu_runtime_class": "a b"}, "kubegpu_runtime_class: 'a b' is no name of a class."),
        ({"kubegpu_storage_class": "Fast"}, "kubegpu_storage_class: 'Fast' is no name of a class."),
        ({"kubegpu_charts": "--debug"}, "kubegpu_charts: '--debug' is no folder on the host"),
        (
            {"kubegpu_metrics": {"provider": "service_monitor", "namespace": "m", "labels": {"a": "b c"}}},
            "labels.a: 'b c' is not",
        ),
        ({1: "x"}, "1: its key must be a string, not 1; quote it."),
        ({"lab_gpus": -1}, "lab_gpus: must be a whole number from 0, not -1."),
        ({"lab_gpus": "9" * 5000}, "lab_gpus: must be a whole number from 0, not '999"),
        ({"kubegpu_rehearsal_max_age": 10**30}, "kubegpu_rehearsal_max_age: a number beyond 2^63"),
    ],
)
def test_what_no_cluster_can_ask_for(variables, expected):
    with pytest.raises(TenancyError) as caught:
        desired_state({TENANTS: [WEB]} | variables, "dc1", TODAY)
    assert any(expected in problem for problem in caught.value.details["problems"]), caught.value.details["problems"]


def nested(deep):
    value = {}
    for _level in range(deep):
        value = {"a": value}
    return value


@pytest.mark.parametrize("deep", [300, 100_000])
@pytest.mark.parametrize("place", ["values", "queues", "variables"])
def test_what_is_nested_without_end_is_refused(place, deep):
    tree = [{"name": "q"}]
    for level in range(deep if place == "queues" else 0):
        tree = [{"name": f"q{level}", "children": tree}]
    tenant = (
        WEB
        | {"values": {"vcluster": {"values": nested(deep)}}, "queues": {"scheduler": KAI, "queues": tree}, "variables": {}}[place]
    )
    variables = {SHARED_SCHEDULER: nested(deep)} if place == "variables" else {}
    with pytest.raises(TenancyError) as caught:
        desired_state({TENANTS: [tenant]} | variables, "dc1", TODAY)
    (problem,) = caught.value.problems
    assert problem.startswith(TENANTS if place != "variables" else SHARED_SCHEDULER)
    assert "is nested more than 100 deep" in problem
    if place != "variables":
        with pytest.raises(TenancyError, match="nested more than 100 deep"):
            tenants_from([tenant])


# --- names that are built of names -------------------------------------------------------------------------------

ROLE = "ClusterRole vc-abcde-v-tenant-abcde-v-te-v-tenant-abcde-v-tenant-abcde-v-te"


def test_names_of_which_the_same_is_built_are_refused():
    names = ["abcde-v-tenant-abcde-v-te", "web", "abcde-v-tenant-abcde-v-te-v-tenant-abcde"]
    tenants = [{"name": name, "trust": "high"} for name in names]
    (problem,) = problems(tenants)
    assert problem == (f"{TENANTS}[2].name: {names[2]} and {TENANTS}[0] would have the same {ROLE}. Choose another name.")
    with pytest.raises(TenancyError, match="would have the same ClusterRole"):
        tenants_from(tenants)
    # What is to go has its objects still.
    assert problems([tenants[0], tenants[2] | {"state": "absent"}])[0].endswith(
        f"would have the same {ROLE}. Choose another name."
    )
    assert plan(tenants[:2])


def test_a_name_that_stands_twice_is_refused_once_for_each():
    assert problems([WEB, WEB, WEB]) == [f"{TENANTS}[{index}].name: web is the name of {TENANTS}[0] already." for index in (1, 2)]


# --- how the cost grows ------------------------------------------------------------------------------------------


def many(count, gpu_nodes):
    return [{"name": f"t{number}", "trust": "high", "gpu_nodes": gpu_nodes(number)} for number in range(count)]


@pytest.mark.parametrize(
    "gpu_nodes",
    [
        lambda number: {"names": [f"n{2 * number}", f"n{2 * number + 1}"]},
        lambda number: {"labels": {"pool": f"p{number}"}},
        lambda _number: {"names": ["n1"], "shared_gpus": 1},
        # Each claims what is another's.
        lambda _number: {"names": ["n1", "n2"]},
    ],
    ids=["names", "labels", "shared", "rivals"],
)
def test_tenants_are_not_compared_with_each_other(gpu_nodes):
    def work(tenants):
        with contextlib.suppress(TenancyError):
            tenants_from(tenants)

    assert growth(lambda count: many(count, gpu_nodes), work, 500) < MOST


def test_what_runs_is_looked_up_once():
    def prepare(count):
        tenants = [ML | {"name": f"t{number}", "gpu_nodes": {"names": [f"n{number}"]}, "queues": []} for number in range(count)]
        running = [{"name": f"t{number}", "scheduler_version": "v0.16.8", "state": "running"} for number in range(count)]
        only = [f"t{number}" for number in range(count)]
        existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x", "kubegpu_only": only}
        return existing | {TENANTS: tenants}, {"tenants": running}

    def work(given):
        assert len(desired_state(given[0], "dc1", TODAY, given[1]).selected) == len(given[0][TENANTS])

    assert growth(prepare, work, 400) < MOST
