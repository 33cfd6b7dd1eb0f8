# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.tests.unit.desired import KAI, ML, QUEUES, SHARED, WEB, plan, problems, read, sharing
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"scheduler": KAI | {"sharing": True}}, "[0].scheduler.sharing: unknown-key"),
        ({"scheduler": KAI | {"gpu_sharing": "yes"}}, "[0].scheduler.gpu_sharing: wrong-type"),
        ({"scheduler": KAI | {"accept_hazards": "#1103"}}, "[0].scheduler.accept_hazards: wrong-type"),
        (
            {"scheduler": KAI | {"accept_hazards": ["#1102"]}},
            "[0].scheduler.accept_hazards[0]: unknown-hazard",
        ),
        (
            {"scheduler": KAI | {"version": "v0.13.1", "accept_hazards": [{}]}},
            "[0].scheduler.accept_hazards[0]: unknown-hazard",
        ),
        ({"state": "absent", "scheduler": KAI | {"accept_hazards": [3]}}, "[0].scheduler.accept_hazards[0]: unknown-hazard"),
        ({"scheduler": SHARED | {"accept_hazards": ["#104"]}}, "[0].scheduler.accept_hazards: not-applicable"),
        (
            {"scheduler": {"name": "yunikorn", "version": "1", "chart": "v", "accept_hazards": ["#104"]}},
            "[0].scheduler.accept_hazards: not-applicable",
        ),
        ({"scheduler": {"name": "yunikorn", "version": "1.2.3"}}, "[0].scheduler.chart: missing"),
        ({"scheduler": {"name": "yunikorn", "chart": "yunikorn"}}, "[0].scheduler.version: missing"),
        (
            {"scheduler": {"name": "Yunikorn", "chart": "v", "version": "1"}},
            "[0].scheduler.name: not-a-name",
        ),
        (
            {"scheduler": {"name": "yunikorn", "chart": "yunikorn", "version": "1.2.3"}, "queues": QUEUES},
            "[0].queues: not-applicable",
        ),
        ({"scheduler": KAI | {"chart": "kai"}}, "[0].scheduler.chart: not-applicable"),
        ({"scheduler": SHARED | {"version": "v0.16.8"}}, "[0].scheduler.version: not-applicable"),
        ({"scheduler": SHARED}, "[0].scheduler.shared: no-shared-scheduler"),
        ({"scheduler": {"name": "kai"}}, "[0].scheduler.version: missing"),
        ({"scheduler": {"version": "v0.16.8"}}, "[0].scheduler.name: missing"),
        ({"scheduler": {}}, "[0].scheduler.name: missing"),
        ({"scheduler": {"name": "kai", "version": "v0.11.0"}}, "[0].scheduler.version: unknown-release"),
        ({"scheduler": {"name": "kai", "version": "latest"}}, "[0].scheduler.version: not-a-version"),
        ({"scheduler": {"name": "kai", "version": "v0.20.1"}}, "[0].scheduler.version: unknown-release"),
        ({"queues": QUEUES}, "[0].queues: queues-without-scheduler"),
        ({"scheduler": KAI, "queues": [{"name": "a", "gpus": {}}]}, "[0].queues.a.gpus: unknown-key"),
        ({"scheduler": KAI | {"version": "v0.12.0"}, "queues": [{"name": "a"}]}, "[0].queues.a: queue-without-child"),
    ],
)
def test_one_mistake(change, expected):
    assert placed(problems([WEB | change])).count(f"{TENANTS}{expected}") == 1


def test_the_shared_scheduler_has_all_tenants_queues():
    tenants = [
        sharing("a", 4, SHARED, [{"name": "a", "children": [{"name": "x"}]}]),
        sharing("b", 4, SHARED, [{"name": "b", "children": [{"name": "x"}]}]),
    ]
    assert placed(problems(tenants, None, KAI)) == [f"{TENANTS}.queues.b.x: same-name"]
    tenants[1]["queues"] = [{"name": "b"}]
    assert placed(problems(tenants, None, KAI | {"version": "v0.12.0"}))[0] == f"{TENANTS}.queues.b: queue-without-child"
    assert read(tenants, None, KAI).shared_queues == [tenants[0]["queues"][0], {"name": "b"}]
    assert read(tenants, None, KAI).shared_nodes == {"tenant.kubegpu.tenancy/a": "true"}
    without_gpus = {key: value for key, value in tenants[0].items() if key != "gpu_nodes"}
    assert read([without_gpus, tenants[1]], None, KAI).shared_nodes == {"tenant.kubegpu.tenancy/b": "true"}
    assert read([WEB], None, KAI).shared_nodes == {}
    other = {"name": "yunikorn", "version": "v1"}
    assert placed(problems([WEB], None, other)) == [f"{SHARED_SCHEDULER}.name: not-a-choice"]
    assert placed(problems([WEB], None, {"name": "kai"})) == [f"{SHARED_SCHEDULER}.version: missing"]


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
    whole = sharing("a", 4, SHARED, queues)
    tenant = whole | {"gpu_nodes": whole["gpu_nodes"] | {"share_gpus_with": "any"}}
    if expected:
        (problem,) = problems([tenant], None, sharers)
        assert problem.code == "gpu-parts-not-bounded"
        assert problem.text.endswith(f"GPU limits of 4 together at most, as shared_gpus says. {expected}")
    else:
        assert plan([tenant], None, sharers)
    # Whole ones are bounded by a quota, and a tenant's own nodes by themselves.
    assert plan([whole], None, KAI)
    assert plan([whole], None, sharers)
    assert plan([tenant | {"gpu_nodes": {"names": ["n1"]}}], None, sharers)


def test_parts_for_any_tenant_need_a_shared_scheduler_that_gives_out_parts():
    whole = sharing("a", 4, SHARED, [{"name": "q", "gpu": {"limit": 4}}])
    tenant = whole | {"gpu_nodes": whole["gpu_nodes"] | {"share_gpus_with": "any"}}
    (problem,) = problems([tenant], None, KAI)
    assert problem.code == "not-applicable"
    assert "set kubegpu_shared_scheduler.gpu_sharing to true" in problem.text


def test_another_scheduler_comes_by_its_chart():
    scheduler = {"name": "yunikorn", "version": "1.12.0", "chart": "yunikorn", "repository": "https://charts.example"}
    (planned,) = plan([WEB | {"scheduler": scheduler}])
    left_out = {"gpu_sharing": False, "gpu_memory_enforced": False, "accept_hazards": [], "values": {}, "shared": False}
    assert planned["scheduler"] == scheduler | left_out


@pytest.mark.parametrize("name", ["kueue", "jobset", "kuberay-operator"])
def test_what_places_no_pods_is_no_scheduler(name):
    found = problems([WEB | {"scheduler": {"name": name}}])
    assert placed(found) == [f"{TENANTS}[0].scheduler.name: not-a-scheduler"]
    assert "install it in its virtual cluster" in found[0].text


@pytest.mark.parametrize(
    "name",
    [
        *("default", "kube-system", "kube-public", "kube-node-lease", "kube-own"),
        *("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust"),
    ],
)
def test_a_scheduler_is_not_called_as_a_namespace_of_others(name):
    tenant = WEB | {"scheduler": {"name": name, "version": "1", "chart": "c"}}
    assert placed(problems([tenant])) == [f"{TENANTS}[0].scheduler.name: reserved-name"]


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
    tenant = WEB | {"scheduler": {"name": "yunikorn", "version": "1.12.0", "chart": "yunikorn"} | change}
    assert placed(problems([tenant])) == [f"{TENANTS}[0].scheduler.{key}: not-a-chart"]


@pytest.mark.parametrize("key", ["gpu_sharing", "gpu_memory_enforced"])
def test_fractions_of_gpus_are_kai_schedulers(key):
    yunikorn = {"name": "yunikorn", "version": "1.12.0", "chart": "yunikorn", key: True}
    assert placed(problems([WEB | {"scheduler": yunikorn}])) == [f"{TENANTS}[0].scheduler.{key}: not-applicable"]


# --- memory of fractions -----------------------------------------------------------------------------------------

ENFORCED = {"name": "kai", "version": "v0.17.0", "gpu_sharing": True, "gpu_memory_enforced": True}
HAMI = {"binder": {"plugins": {"hamicore": {"enabled": True}}}}


def test_a_release_that_limits_memory_is_told_to():
    own = {"binder": {"plugins": {"volumebinding": {"priority": 400}}}}
    cluster = read([ML | {"scheduler": ENFORCED | {"values": own}}])
    assert cluster.tenants[0].scheduler.values == {"binder": {"plugins": HAMI["binder"]["plugins"] | own["binder"]["plugins"]}}
    newer = read([ML | {"scheduler": ENFORCED | {"version": "v0.18.0"}}])
    assert newer.tenants[0].scheduler.values == {"global": {"gpuSharingMode": "HamiCore"}}
    assert read([ML | {"scheduler": ENFORCED | {"gpu_memory_enforced": False}}]).tenants[0].scheduler.values == {}
    shared = read([], shared_scheduler=ENFORCED).shared_scheduler
    assert shared.values["binder"] == HAMI["binder"]
    # As it travels to roles, it says the same.
    assert tenants_from(cluster.data()["tenants"])[0] == cluster.tenants[0]


@pytest.mark.parametrize(
    ("change", "expected", "text"),
    [
        (
            {"version": "v0.16.8"},
            "gpu_memory_enforced: not-in-release",
            "v0.16.8 schedules fractions of a GPU, and does not limit their memory. v0.17.0 and later can, with kai-resource-isolator",
        ),
        ({"gpu_sharing": False}, "gpu_memory_enforced: not-applicable", "Set gpu_sharing to true, too."),
        (
            {"values": {"binder": {"plugins": {"hamicore": {"enabled": False}}}}},
            "values.binder.plugins.hamicore.enabled: not-applicable",
            "False takes back what gpu_memory_enforced asks for",
        ),
        (
            {"version": "v0.18.0", "values": {"global": {"nvFractions": {"set": True}}}},
            "values.global.nvFractions.set: not-applicable",
            "is another way to limit memory than HamiCore",
        ),
    ],
)
def test_memory_that_nothing_would_limit_is_refused(change, expected, text):
    found = problems([ML | {"scheduler": ENFORCED | change}])
    assert placed(found) == [f"{TENANTS}[0].scheduler.{expected}"]
    assert text in found[0].text
    assert placed(problems([], None, ENFORCED | change)) == [f"{SHARED_SCHEDULER}.{expected}"]


def test_what_limits_memory_lets_pods_write_what_others_load():
    found = problems([ML | {"trust": "partial", "scheduler": ENFORCED}])
    assert placed(found) == [f"{TENANTS}[0].trust: add-on-opens-nodes"]
    assert "needs high: kai-resource-isolator lets each pod with a fraction write the library" in found[0].text
    queues = [{"name": "q", "gpu": {"limit": 4}}]
    whole = sharing("a", 4, SHARED, queues)
    divided = whole | {"gpu_nodes": whole["gpu_nodes"] | {"share_gpus_with": "any"}}
    assert placed(problems([divided], None, ENFORCED)) == [f"{TENANTS}[0].trust: add-on-opens-nodes"]
    assert read([divided | {"trust": "high"}], None, ENFORCED)
    # Its pods get whole GPUs only.
    assert read([whole], None, ENFORCED)


def test_the_version_of_kai_is_written_as_upstream_does():
    scheduler = {"name": "kai", "version": "0.16.8"}
    (tenant,) = plan([WEB | {"scheduler": scheduler}])
    assert tenant["scheduler"]["version"] == "v0.16.8"


def test_the_shared_scheduler_looks_only_at_tenants_that_share_it():
    selector = {"namespaceLabelSelector": {"kubegpu.tenancy/scheduler": "kai"}}
    given = {"name": "kai", "version": "v0.16.8", "values": {"global": {"replicaCount": 2}}}
    assert read([], shared_scheduler=given).data()["shared_scheduler"]["values"] == {"global": {"replicaCount": 2} | selector}
    assert read([]).data()["shared_scheduler"] == {}


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
    tenant = ML | {"scheduler": {"name": "kai", "version": "v0.13.1", "gpu_sharing": True, "accept_hazards": ["#1103", "#1673"]}}
    with refuses("no-runtime-class"):
        read([tenant], kubegpu_runtime_class="")


# --- node pools --------------------------------------------------------------------------------------------------

POOLED = [{"name": "a", "node_pool": "h100", "children": [{"name": "x"}]}]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"queues": [{"name": "a", "children": [{"name": "x", "node_pool": "h100"}]}]}, "queues.a.x.node_pool: not-applicable"),
        ({"queues": [{"name": "a", "node_pool": "default"}]}, "queues.a.node_pool: reserved-name"),
        ({"queues": [{"name": "a", "node_pool": "H100"}]}, "queues.a.node_pool: not-a-name"),
        ({"queues": [{"name": "a", "node_pool": "a" * 41}]}, "queues.a.node_pool: not-a-name"),
        ({"queues": [{"name": "a", "node_pool": 4}]}, "queues.a.node_pool: not-a-name"),
        (
            {"scheduler": {"name": "kai", "version": "v0.9.20", "accept_hazards": ["end-of-support"]}, "queues": POOLED},
            "queues.a.node_pool: not-in-release",
        ),
        (
            {"scheduler": {"name": "volcano", "version": "1.10.0"}, "queues": [{"name": "a", "node_pool": "h100"}]},
            "queues.a.node_pool: not-applicable",
        ),
    ],
)
def test_node_pools_that_cannot_be(change, expected):
    assert placed(problems([ML | change])) == [f"{TENANTS}[0].{expected}"]


def test_a_shared_scheduler_has_no_node_pools():
    found = problems([sharing("a", 4, SHARED, POOLED)], None, KAI)
    assert placed(found) == [f"{TENANTS}[0].queues.a.node_pool: not-applicable"]
    assert "pods of a shared one cannot name a node pool" in found[0].text


def test_each_node_pool_takes_room_for_its_scheduler():
    bounded = ML | {"queues": POOLED, "quota": {"count/pods": 10}}
    assert placed(problems([bounded])) == [f"{TENANTS}[0].quota.count/pods: no-room-in-quota"]
    assert "the scheduler of node pool h100 takes 1" in problems([bounded])[0].text
    assert plan([ML | {"queues": [{"name": "a"}], "quota": {"count/pods": 10}}])


# --- Volcano -----------------------------------------------------------------------------------------------------

VOLCANO = {"name": "volcano", "version": "1.10.0"}
HPC = {"name": "hpc", "trust": "high", "scheduler": VOLCANO, "queues": [{"name": "weather", "gpu": {"quota": 2}}]}


def test_volcano_needs_no_chart_and_gets_the_values_by_which_queues_are_kept():
    (tenant,) = read([HPC], kubegpu_tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]).tenants
    assert (tenant.scheduler.chart, tenant.scheduler.repository) == ("volcano", "https://volcano-sh.github.io/helm-charts")
    custom = tenant.scheduler.values["custom"]
    assert '"capacity"' in custom["scheduler_config_override"]
    assert custom["default_tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert tenants_from([tenant.data()]) == [tenant]


def test_a_chart_and_values_of_the_users_count():
    (tenant,) = read(
        [
            HPC
            | {
                "scheduler": VOLCANO
                | {"chart": "oci://registry.example/volcano", "values": {"custom": {"scheduler_replicas": 2}}}
            }
        ]
    ).tenants
    assert (tenant.scheduler.chart, tenant.scheduler.repository) == ("oci://registry.example/volcano", "")
    assert tenant.scheduler.values["custom"].keys() == {"scheduler_config_override", "scheduler_replicas"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"scheduler": VOLCANO | {"version": "1.9.1"}}, "scheduler.version: unknown-release"),
        ({"scheduler": {"name": "volcano"}}, "scheduler.version: missing"),
        ({"scheduler": VOLCANO | {"gpu_sharing": True}}, "scheduler.gpu_sharing: not-applicable"),
        ({"scheduler": VOLCANO | {"accept_hazards": ["#1103"]}}, "scheduler.accept_hazards: not-applicable"),
        ({"queues": [{"name": "a", "children": [{"name": "b"}]}]}, "queues.b: queues-too-deep"),
        ({"trust": "partial"}, "scheduler.version: refused-by-pod-security"),
        ({"scheduler": VOLCANO | {"version": "1.15.1"}}, "queues: not-applicable"),
    ],
)
def test_what_volcano_cannot_be_is_refused(change, expected):
    assert placed(problems([HPC | change])) == [f"{TENANTS}[0].{expected}"]


def test_a_later_volcano_goes_with_less_trust():
    assert plan([HPC | {"trust": "partial", "scheduler": VOLCANO | {"version": "1.12.0"}}])


def test_the_newest_volcano_goes_without_queues_and_by_its_own_configuration():
    (tenant,) = read([HPC | {"scheduler": VOLCANO | {"version": "v1.15.1"}, "queues": []}]).tenants
    assert (tenant.scheduler.version, tenant.scheduler.values) == ("1.15.1", {})


def test_a_team_with_two_schedulers_is_two_tenants_on_nodes_of_their_own():
    hpc, kai = HPC | {"gpu_nodes": {"names": ["n1"]}}, ML | {"name": "hpc-kai", "gpu_nodes": {"names": ["n2"]}}
    assert [tenant.scheduler.name for tenant in read([hpc, kai]).tenants] == ["volcano", "kai"]
    both = [hpc, kai | {"gpu_nodes": {"names": ["n1"]}}]
    assert placed(problems(both)) == [f"{TENANTS}[1].gpu_nodes.names: nodes-claimed-twice"]


def test_a_value_of_another_type_is_not_missing_as_well():
    found = placed(problems([ML | {"scheduler": {"name": "kai", "version": 0.16}}]))
    assert found == [f"{TENANTS}[0].scheduler.version: wrong-type"]


@pytest.mark.parametrize("name", ["KAI", "Volcano"])
def test_a_name_in_capitals_is_told_as_it_is_written(name):
    (problem,) = problems([ML | {"scheduler": {"name": name, "version": "v0.16.8"}}])
    assert problem.text.endswith(f"'{name}' is written {name.lower()}.")
