# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import tenants_from
from ansible_collections.kubegpu.tenancy.tests.unit.desired import KAI, ML, QUEUES, SHARED, WEB, plan, problems, read, sharing


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"scheduler": KAI | {"sharing": True}}, "[0].scheduler.sharing: unknown key."),
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
        ({"scheduler": {"name": "kai"}}, "[0].scheduler.version: is missing."),
        ({"scheduler": {"version": "v0.16.8"}}, "[0].scheduler.name: is missing."),
        ({"scheduler": {}}, "[0].scheduler.name: is missing."),
        ({"scheduler": {"name": "kai", "version": "v0.11.0"}}, "[0].scheduler.version: there is no KAI Scheduler v0.11.0"),
        ({"scheduler": {"name": "kai", "version": "latest"}}, "[0].scheduler.version: 'latest' is not a version"),
        ({"scheduler": {"name": "kai", "version": "v0.20.1"}}, "[0].scheduler.version: v0.20.1 of KAI Scheduler was retracted"),
        ({"queues": QUEUES}, "[0].queues: need a scheduler: add scheduler with its name"),
        ({"scheduler": KAI, "queues": [{"name": "a", "gpus": {}}]}, "[0].queues.a.gpus: unknown key."),
        ({"scheduler": KAI | {"version": "v0.12.0"}, "queues": [{"name": "a"}]}, "[0].queues.a: has no child"),
    ],
)
def test_one_mistake(change, expected):
    found = problems([WEB | change])
    assert len([problem for problem in found if expected in problem]) == 1, found


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


def test_fractions_of_gpus_are_kai_schedulers():
    volcano = {"name": "volcano", "version": "1.12.0", "chart": "volcano", "gpu_sharing": True}
    assert problems([WEB | {"scheduler": volcano}]) == [
        f"{TENANTS}[0].scheduler.gpu_sharing: is KAI Scheduler's; what volcano is to do, its values say."
    ]


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
    tenant = ML | {"scheduler": {"name": "kai", "version": "v0.13.1", "gpu_sharing": True, "accept_hazards": ["#1103"]}}
    with pytest.raises(TenancyError, match=r"kubegpu_tenants\[0\] \(ml\).scheduler.version: in v0.13.1, reservation pods name"):
        read([tenant], kubegpu_runtime_class="")
