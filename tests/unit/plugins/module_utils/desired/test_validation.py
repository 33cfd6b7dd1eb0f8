# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.desired import KAI, ML, SHARED, WEB, WORKERS, plan, problems, read, refused
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses

NOT_SHARED = {"gpu_memory_enforced": False, "shared": False, "chart": "", "repository": ""}


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
            "oidc": {},
            "sandbox": {},
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
            "oidc": {},
            "sandbox": {},
        }
    ]


def test_missing_keys_and_wrong_containers():
    assert placed(problems([{}])) == [f"{TENANTS}[0].name: missing", f"{TENANTS}[0].trust: missing"]
    assert placed(problems(["web"])) == [f"{TENANTS}[0]: wrong-type"]
    assert placed(problems({})) == [f"{TENANTS}: wrong-type"]


def test_everything_at_once():
    assert placed(problems([{"name": "A", "trust": "x"}, {"name": "b"}, WEB | {"x": 1}], WORKERS)) == [
        f"{TENANTS}[0].trust: not-a-choice",
        f"{TENANTS}[0].name: not-a-name",
        f"{TENANTS}[1].trust: missing",
        f"{TENANTS}[2].x: unknown-key",
    ]


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
    assert [problem.text.partition(":")[0] for problem in found] == [
        "kubegpu_tenants[3].name",
        "kubegpu_temporary_tenant.expires",
        "kubegpu_tenants[2] (b).gpu_nodes.names",
        "kubegpu_tenants[1] (web).scheduler.shared",
    ]
    assert "a is claimed by kubegpu_tenants[0] (ml) already." in found[2].text
    # On their way to modules, too.
    known = [tenant | {"expires": expires} for tenant, expires in ((WEB, ""), (job, "2h"))]
    assert [tenant.path for tenant in tenants_from(known)] == ["kubegpu_tenants[0] (web)", "kubegpu_temporary_tenant"]
    many = [tenant.path for tenant in tenants_from([known[1], known[1] | {"name": "ci-2"}])]
    assert many == ["kubegpu_tenants[0] (ci-1)", "kubegpu_tenants[1] (ci-2)"]


def test_a_cluster_without_workers_is_complete():
    cluster = desired_state({}, "gpu1", TODAY)
    assert cluster.workers == ()
    assert (cluster.kubeconfig, cluster.tenants_folder, cluster.kubeconfig_dir) == (
        "/etc/kubegpu/kubegpu/cluster.yml",
        "/etc/kubegpu/kubegpu/tenants",
        "~/.kube/kubegpu/gpu1",
    )


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
    assert problem.text.startswith(TENANTS if place != "variables" else SHARED_SCHEDULER)
    assert problem.code == "nested-too-deep"
    if place != "variables":
        with refuses("nested-too-deep"):
            tenants_from([tenant])
