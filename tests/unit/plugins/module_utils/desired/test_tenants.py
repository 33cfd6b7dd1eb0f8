# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TEMPORARY, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
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
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"trsut": "high"}, "[0].trsut: unknown-key"),
        ({"vcluster": {"vers": "0.36.1"}}, "[0].vcluster.vers: unknown-key"),
        ({"gpu_nodes": {"cuont": 1}}, "[0].gpu_nodes.cuont: unknown-key"),
        ({"name": 7}, "[0].name: wrong-type"),
        ({"trust": None}, "[0].trust: wrong-type"),
        ({"gpu_nodes": 1}, "[0].gpu_nodes: wrong-type"),
        ({"gpu_nodes": {"count": "1"}}, "[0].gpu_nodes.count: wrong-type"),
        ({"gpu_nodes": {"count": True}}, "[0].gpu_nodes.count: wrong-type"),
        ({"gpu_nodes": {"names": ["a", 1]}}, "[0].gpu_nodes.names[1]: wrong-type"),
        ({"gpu_nodes": {"labels": {"pool": True}}}, "[0].gpu_nodes.labels.pool: wrong-type"),
        ({"vcluster": {"version": 0.36}}, "[0].vcluster.version: wrong-type"),
        ({"queues": {}}, "[0].queues: wrong-type"),
        ({"name": "Team"}, "[0].name: not-a-name"),
        ({"name": "1st"}, "[0].name: not-a-name"),
        ({"name": "a-"}, "[0].name: not-a-name"),
        ({"name": "a" * 41}, "[0].name: not-a-name"),
        ({"trust": "full"}, "[0].trust: not-a-choice"),
        ({"gpu_nodes": {}}, "[0].gpu_nodes: not-exactly-one"),
        ({"gpu_nodes": {"count": 1, "names": ["a"]}}, "[0].gpu_nodes: not-exactly-one"),
        ({"gpu_nodes": {"count": 0}}, "[0].gpu_nodes.count: out-of-range"),
        ({"gpu_nodes": {"names": []}}, "[0].gpu_nodes.names: empty"),
        ({"gpu_nodes": {"names": ["a", "a"]}}, "[0].gpu_nodes.names[1]: listed-twice"),
        ({"gpu_nodes": {"count": 1, "shared_gpus": 1}}, "[0].gpu_nodes.shared_gpus: not-applicable"),
        ({"gpu_nodes": {"names": ["a"], "shared_gpus": 0}}, "[0].gpu_nodes.shared_gpus: out-of-range"),
        (
            {"gpu_nodes": {"names": ["a"], "share_gpus_with": "any"}, "scheduler": {"name": "kai", "shared": True}, "queues": []},
            "[0].gpu_nodes.share_gpus_with: not-applicable",
        ),
        (
            {"gpu_nodes": {"names": ["a"], "shared_gpus": 4, "share_gpus_with": "any"}},
            "[0].gpu_nodes.share_gpus_with: needs-shared-scheduler",
        ),
        (
            {"gpu_nodes": {"names": ["a"], "shared_gpus": 4, "share_gpus_with": "all"}},
            "[0].gpu_nodes.share_gpus_with: not-a-choice",
        ),
        ({"trust": "zero"}, "[0].gpu_nodes: zero-trust-needs-own-nodes"),
        (
            {"trust": "zero", "gpu_nodes": {"names": ["a"], "shared_gpus": 1}},
            "[0].gpu_nodes: zero-trust-needs-own-nodes",
        ),
        ({"quota": ["pods"]}, "[0].quota: wrong-type"),
        ({"quota": {"count/pod": 9}}, "[0].quota.count/pod: unknown-bound"),
        ({"quota": {"limits.memory": "lots"}}, "[0].quota.limits.memory: not-an-amount"),
        ({"quota": {"count/pods": True}}, "[0].quota.count/pods: not-an-amount"),
        (
            {"quota": {"requests.nvidia.com/gpu": 1}},
            "[0].quota.requests.nvidia.com/gpu: not-applicable",
        ),
        ({"quota": {"limits.cpu": "4"}}, "[0].quota.limits.cpu: no-room-in-quota"),
        (
            {"vcluster": {"values": {"policies": {"resourceQuota": {"quota": {"count/pods": 1}}}}}},
            "[0].quota.count/pods: no-room-in-quota",
        ),
        ({"network": {"egres": []}}, "[0].network.egres: unknown-key"),
        ({"network": {"egress": [{"name": "a", "namespace": "b"}]}}, "[0].network.egress[0].ports: missing"),
        ({"network": {"ingress": ["a"]}}, "[0].network.ingress[0]: wrong-type"),
        ({"trust": "high", "network": {"egress": [REGISTRY]}}, "[0].network: not-applicable"),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY, REGISTRY]}},
            "[0].network.egress[1].name: listed-twice",
        ),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY | {"namespace": "A b"}]}},
            "[0].network.egress[0].namespace: not-a-name",
        ),
        ({"trust": "partial", "network": {"egress": [REGISTRY | {"ports": []}]}}, "[0].network.egress[0].ports: empty"),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY | {"ports": ["http"]}]}},
            "[0].network.egress[0].ports: not-a-port",
        ),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY | {"labels": {"a": 1}}]}},
            "[0].network.egress[0].labels.a: wrong-type",
        ),
        (
            {
                "trust": "partial",
                "network": {"egress": [REGISTRY]},
                "vcluster": {"values": {"policies": {"networkPolicy": {"workload": {"egress": []}}}}},
            },
            "[0].network.egress: listed-twice",
        ),
        ({"quota": {"count/pods": "NaN"}}, "[0].quota.count/pods: not-an-amount"),
        ({"quota": {"count/pods": "sNaN"}}, "[0].quota.count/pods: not-an-amount"),
        ({"quota": {"count/pods": "1e999990"}}, "[0].quota.count/pods: not-an-amount"),
        ({"quota": {"count/pods": "1" * 5000}}, "[0].quota.count/pods: not-an-amount"),
        ({"quota": {"count/pods": 10**30}}, "[0].quota.count/pods: out-of-range"),
        ({"quota": {"count/pods": -1}}, "[0].quota.count/pods: not-an-amount"),
        ({"quota": {None: 1}}, "[0].quota.None: wrong-type"),
        ({"quota": {1: 1}}, "[0].quota.1: wrong-type"),
        ({"vcluster": {"values": {"a": {8443: 1}}}}, "[0].vcluster.values.a.8443: wrong-type"),
        ({"vcluster": {"values": {"a": float("nan")}}}, "[0].vcluster.values.a: out-of-range"),
        (
            {"scheduler": KAI, "queues": [{"name": "q", "cpu": {"limit": 10**30}}]},
            "[0].queues[0].cpu.limit: out-of-range",
        ),
        ({"gpu_nodes": {"names": ["A"]}}, "[0].gpu_nodes.names[0]: not-a-name"),
        ({"gpu_nodes": {"names": ["a\nb"]}}, "[0].gpu_nodes.names[0]: not-a-name"),
        ({"gpu_nodes": {"labels": {"a b": "c"}}}, "[0].gpu_nodes.labels.a b: not-a-label"),
        ({"gpu_nodes": {"labels": {"a": "b c"}}}, "[0].gpu_nodes.labels.a: not-a-label-value"),
        ({"gpu_nodes": {"labels": {"a": ["b"]}}}, "[0].gpu_nodes.labels.a: wrong-type"),
        (
            {"trust": "partial", "network": {"egress": [REGISTRY | {"labels": {"a": "b c"}}]}},
            "[0].network.egress[0].labels.a: not-a-label-value",
        ),
        ({"vcluster": {"version": "latest"}}, "[0].vcluster.version: not-a-version"),
        ({"vcluster": {"version": "0.36.0"}}, "[0].vcluster.version: version-refused"),
        (
            {"trust": "partial", "vcluster": {"version": "0.33.1"}},
            "[0].trust: version-too-old",
        ),
        ({"vcluster": {"values": {"sleep": {"auto": 1}}}}, "[0].vcluster.values.sleep: needs-licence"),
        ({"vcluster": {"kubernetes_version": "1.35"}}, "[0].vcluster.kubernetes_version: not-a-version"),
    ],
)
def test_one_mistake(change, expected):
    assert placed(problems([WEB | change])).count(f"{TENANTS}{expected}") == 1


def test_a_quota_has_room_for_kai_scheduler():
    pods = facts_of_vcluster.LEAST_QUOTA["count/pods"] + facts_of_kai.LEAST_QUOTA["count/pods"]
    assert plan([WEB | {"scheduler": KAI, "quota": {"count/pods": pods}}])[0]["quota"] == {"count/pods": pods}
    (problem,) = problems([WEB | {"scheduler": KAI, "quota": {"count/pods": pods - 1}}])
    assert problem.text.endswith(f"because the control plane takes 2, KAI Scheduler takes {pods - 2}.")
    # Another's is known to need nothing.
    assert plan([WEB | {"scheduler": {"name": "yunikorn", "version": "1", "chart": "v"}, "quota": {"count/pods": 2}}])


def test_the_room_that_kai_needs_is_looked_for_where_shared_gpus_alone_make_a_quota():
    values = {"policies": {"resourceQuota": {"quota": {"count/pods": 5}}}}
    entry = {"gpu_nodes": {"names": ["n1"], "shared_gpus": 2}, "vcluster": {"values": values}}
    scheduler = {"name": "kai", "version": "v0.16.8"}
    (problem,) = problems([old(scheduler=scheduler, **entry)])
    assert problem.text.endswith("quota.count/pods: 5 leaves no room, because the control plane takes 2, KAI Scheduler takes 8.")


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
        ({"expires": None}, ".expires: wrong-type"),
        ({"expires": ""}, ".expires: missing"),
        ({"expires": "2 weeks"}, ".expires: not-an-age"),
        ({"name": "web"}, ".name: same-name"),
        ({"scheduler": SHARED}, ".scheduler.shared: temporary-shares-scheduler"),
        ({"scheduler": {"name": "kai", "version": "v0.13.1"}}, ".scheduler.version: hazard-not-accepted"),
        (
            {"scheduler": KAI, "queues": [{"name": "all", "gpu": {"quota": 9}}], "gpu_nodes": {"count": 1}},
            ".queues: quota-above-gpus",
        ),
    ],
)
def test_what_is_refused_of_a_temporary_tenant(change, expected):
    job = {"name": "ci-1", "trust": "high", "expires": "2h"} | change
    shared = {"name": "kai", "version": "v0.16.8"} if change.get("scheduler") == SHARED else None
    variables = {TENANTS: [WEB], "nvkind_workers": WORKERS, TEMPORARY: job} | ({SHARED_SCHEDULER: shared} if shared else {})
    with pytest.raises(TenancyError) as caught:
        desired_state(variables, "gpu1", TODAY, running={})
    assert f"{TEMPORARY}{expected}" in placed(caught.value.problems)


def test_what_is_listed_does_not_expire():
    assert placed(problems([WEB | {"expires": "2h"}])) == [f"{TENANTS}[0].expires: not-applicable"]


def test_an_absent_tenant_claims_nothing():
    gone = {"name": "gone", "trust": "high", "state": "absent", "gpu_nodes": {"labels": {"a": "b"}}}
    other = {"name": "b", "trust": "high", "gpu_nodes": {"labels": {"a": "b"}}}
    assert read([gone, other], WORKERS[:1]).data()["tenants"][0]["state"] == "absent"
    shared = {"name": "s", "trust": "high", "state": "absent", "scheduler": SHARED, "queues": [{"name": "q"}]}
    assert read([shared]).shared_queues == []


@pytest.mark.parametrize("version", ["v0.36.1", "0.36", "0.36.1+x"])
def test_a_version_that_is_none_is_told_once(version):
    found = placed(problems([WEB | {"vcluster": {"version": version}}]))
    assert found == [f"{TENANTS}[0].vcluster.version: not-a-version"]
