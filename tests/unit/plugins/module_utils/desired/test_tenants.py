# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TEMPORARY, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state, tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as facts_of_kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as facts_of_vcluster
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.desired import (
    KAI,
    ML,
    REGISTRY,
    SHARED,
    WEB,
    WORKERS,
    old,
    plan,
    problems,
    read,
)
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import by_index


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"trsut": "high"}, "[0].trsut: unknown key. Did you mean trust? Allowed here: name, "),
        ({"vcluster": {"vers": "0.36.1"}}, "[0].vcluster.vers: unknown key. Did you mean version?"),
        ({"gpu_nodes": {"cuont": 1}}, "[0].gpu_nodes.cuont: unknown key."),
        ({"name": 7}, "[0].name: must be a string, not 7; quote it."),
        ({"trust": None}, "[0].trust: must be a string, not None."),
        ({"gpu_nodes": 1}, "[0].gpu_nodes: must be a dictionary, not 1."),
        ({"gpu_nodes": {"count": "1"}}, "[0].gpu_nodes.count: must be a whole number, not '1'."),
        ({"gpu_nodes": {"count": True}}, "[0].gpu_nodes.count: must be a whole number, not True."),
        ({"gpu_nodes": {"names": ["a", 1]}}, "[0].gpu_nodes.names[1]: must be a string, not 1; quote it."),
        ({"gpu_nodes": {"labels": {"pool": True}}}, "[0].gpu_nodes.labels.pool: must be a string, not True; quote it."),
        ({"vcluster": {"version": 0.36}}, "[0].vcluster.version: must be a string, not 0.36; quote it."),
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


def test_the_room_that_kai_needs_is_looked_for_where_shared_gpus_alone_make_a_quota():
    values = {"policies": {"resourceQuota": {"quota": {"count/pods": 5}}}}
    entry = {"gpu_nodes": {"names": ["n1"], "shared_gpus": 2}, "vcluster": {"values": values}}
    scheduler = {"name": "kai", "version": "v0.16.8"}
    (problem,) = problems([old(scheduler=scheduler, **entry)])
    assert problem.endswith("quota.count/pods: 5 leaves no room, because the control plane takes 2, KAI Scheduler takes 8.")


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


def test_an_absent_tenant_claims_nothing():
    gone = {"name": "gone", "trust": "high", "state": "absent", "gpu_nodes": {"labels": {"a": "b"}}}
    other = {"name": "b", "trust": "high", "gpu_nodes": {"labels": {"a": "b"}}}
    assert read([gone, other], WORKERS[:1]).data()["tenants"][0]["state"] == "absent"
    shared = {"name": "s", "trust": "high", "state": "absent", "scheduler": SHARED, "queues": [{"name": "q"}]}
    assert read([shared]).shared_queues == []
