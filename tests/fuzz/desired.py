# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator writes: inventories, blueprints, trees of queues, traces and verdicts of rehearsals, and patterns of --limit."""

from __future__ import annotations

import copy
import datetime
import json
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._blueprint import validation as blueprint
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import quantity
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.schema import plain
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.status import counted, overview
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import overcommitted_quotas, parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest, written
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.change import Change, Gate, parse_verdict
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.validation import parse as parse_trace
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.plan import plan as volcano_plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.validation import read_queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.values import manifest as volcano_manifest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.values import wanted
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._blueprints import FOLDER
from ansible_collections.kubegpu.tenancy.tests.fuzz.cases import Part, check_line, check_lines, finite, frozen, outcome
from ansible_collections.kubegpu.tenancy.tests.fuzz.inputs import ANYTHING, CHANGES, changed
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import KAI, ML, WEB
from ansible_collections.kubegpu.tenancy.tests.unit.rehearsed import TRACE, played, report
from hypothesis import strategies as st

Data = dict[str, Any]

# --- inventories -------------------------------------------------------------------------------------------------

_SERVICE = {"name": "ingress", "namespace": "ingress", "labels": {"app": "nginx"}, "ports": [80, 443]}
_TREE = [
    {
        "name": "ml",
        "display_name": "ML",
        "priority": 50,
        "gpu": {"quota": 3, "limit": 4, "over_quota_weight": 2},
        "cpu": {"quota": "500m", "limit": "unlimited"},
        "memory": {"limit": "64Gi"},
        "children": [{"name": "training", "gpu": {"quota": 2}}, {"name": "notebooks", "gpu": {"limit": 0.5}}],
    }
]
_VALUES = {
    "sync": {
        "fromHost": {
            "nodes": {"enabled": True, "selector": {"labels": {"tenant.kubegpu.tenancy/ml": "true", "pool": "a"}}},
            "configMaps": {"enabled": True, "mappings": {"byName": {"/a": "default/a"}}},
            "runtimeClasses": {
                "enabled": True,
                "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            },
        },
        "toHost": {"pods": {"enforceTolerations": ["a=b:NoSchedule"]}},
    },
    "controlPlane": {
        "statefulSet": {
            "persistence": {"addVolumes": [{"name": "x", "emptyDir": {}}]},
            "scheduling": {"tolerations": [{"key": "a"}]},
        },
        "ingress": {"annotations": {"a": "b"}},
        "advanced": {"podDisruptionBudget": {"enabled": True, "minAvailable": 1}},
    },
    "exportKubeConfig": {"additionalSecrets": [{"name": "a", "namespace": "tenant-ml"}]},
    "networking": {"replicateServices": {"fromHost": [{"from": "default/web", "to": "web"}]}},
    "policies": {"podSecurityStandard": "baseline"},
}
INVENTORIES: list[Data] = [
    {
        "nvkind_workers": [{"gpus": [0, 1], "labels": {"pool": "a"}}, {"count": 6}, {"count": 8}],
        "nvkind_cluster_name": "dc1",
        "lab_gpus": 16,
        "device_plugin_version": "0.17.4",
        "kubegpu_tenants": [
            ML | {"queues": _TREE, "vcluster": {"version": "0.36.1", "kubernetes_version": "v1.35.4", "values": _VALUES}},
            WEB | {"quota": {"count/pods": 300, "requests.cpu": "40"}, "network": {"egress": [_SERVICE], "ingress": [_SERVICE]}},
            ML | {"name": "old", "state": "absent", "trust": "zero"},
        ],
        "kubegpu_temporary_tenant": {"name": "ci-1", "trust": "partial", "expires": "2h", "gpu_nodes": {"count": 1}},
        "kubegpu_only": "ml,web",
    },
    {
        "kubegpu_cluster_provider": "existing",
        "kubegpu_kubeconfig": "/etc/kubernetes/admin.conf",
        "kubegpu_kubeconfig_proxy": "http://user:word@proxy:3128",
        "kubegpu_charts": "oci://registry.example/charts",
        "kubegpu_tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "kubegpu_tenant_api": {
            "type": "Ingress",
            "host": "{tenant}.gpu.example",
            "annotations": {"a/b": "c"},
            "ingress_class": "nginx",
        },
        "kubegpu_shared_scheduler": KAI | {"gpu_sharing": True, "values": {"global": {"registry": "x"}}},
        "kubegpu_metrics": {"provider": "service_monitor", "namespace": "monitoring", "labels": {"release": "prometheus"}},
        "kubegpu_rehearsal": "required",
        "kubegpu_rehearsal_verdicts": "rehearsals",
        "kubegpu_accept_holds": ["v0.13.1-to-v0.16.8-0123456789"],
        "kubegpu_tenants": [
            {
                "name": "vision",
                "trust": "partial",
                "gpu_nodes": {"labels": {"pool": "shared"}, "shared_gpus": 4, "share_gpus_with": "any"},
                "scheduler": {"name": "kai", "shared": True},
                "queues": [{"name": "vision", "gpu": {"quota": 2, "limit": 4}}],
            },
            {
                "name": "batch",
                "trust": "high",
                "gpu_nodes": {"names": ["n1", "n2"]},
                "scheduler": {"name": "volcano", "version": "1.12.0", "chart": "volcano", "repository": "https://charts.example"},
            },
            ML | {"name": "secret", "trust": "zero", "gpu_nodes": {"names": ["n3"]}},
        ],
    },
]


def check_inventory(variables: Any) -> None:
    """Refuse, or make the same of the same, and leave it as it is."""
    before = frozen(variables)
    first = outcome(lambda: desired_state(variables, "dc1", TODAY, running={}))
    assert frozen(variables) == before
    second = outcome(lambda: desired_state(variables, "dc1", TODAY, running={}))
    assert first == second
    if first is None:
        return
    data = first.data()
    finite(data)
    again = tenants_from(data["tenants"])
    assert [tenant.data() for tenant in again] == data["tenants"]
    assert [wanted(tenant, {}) for tenant in again] == [wanted(tenant, {}) for tenant in tenants_from(data["tenants"])]


def check_tenants(given: Any) -> None:
    """Refuse, or return what makes the same tenants again."""
    before = frozen(given)
    found = outcome(lambda: tenants_from(given))
    assert frozen(given) == before
    if found is not None:
        data = [tenant.data() for tenant in found]
        finite(data)
        assert tenants_from(json.loads(json.dumps(data))) == found


# --- blueprints --------------------------------------------------------------------------------------------------

_BLUEPRINTS = [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))]
_BARE = {"nvkind_workers": [{"count": 8}], "kubegpu_tenants": [ML | {"scheduler": {"name": "kai"}}]}


def check_blueprint(content: Any) -> None:
    """Refuse, or make a desired state by it, or refuse that."""
    before = frozen(content)
    found = outcome(lambda: blueprint.parse("own-2026-11-23", plain(content, root="blueprint own-2026-11-23")))
    assert frozen(content) == before
    if found is not None:
        state = outcome(lambda: desired_state(copy.deepcopy(_BARE), "dc1", TODAY, running={}, blueprint=found))
        finite(state and state.data())


# --- queues ------------------------------------------------------------------------------------------------------

_AMOUNTS = st.sampled_from([0, 0.5, 1, 2, 8, 1000, 10**18, "2", "0.25", "unlimited"])
_BYTES = st.sampled_from(["0", "64Gi", "512Mi", "1.5G", "3k", "7Pi", "unlimited"])
_CORES = st.sampled_from([0, 1, 0.001, "500m", "2.5", "1m", "unlimited"])
_WEIGHTS = st.sampled_from([0, 1, 2.5])


def _bounds(amounts: st.SearchStrategy[Any]) -> st.SearchStrategy[Data]:
    return st.fixed_dictionaries({}, optional={"quota": amounts, "limit": amounts, "over_quota_weight": _WEIGHTS})


@st.composite
def _trees(draw: st.DrawFn) -> list[Data]:
    """Return a tree of queues, or a list with parents, in which most is right."""
    queues: list[Data] = []
    top: list[Data] = []
    for number in range(draw(st.integers(1, 6))):
        more = {
            "gpu": _bounds(_AMOUNTS),
            "cpu": _bounds(_CORES),
            "memory": _bounds(_BYTES),
            "priority": st.sampled_from([0, 100, 500]),
        }
        queue = {"name": f"q{number}"} | draw(st.fixed_dictionaries({}, optional=more))
        parent = draw(st.integers(-1, len(queues) - 1))
        if parent >= 0 and draw(st.booleans()) and "parent" not in queues[parent]:
            queues[parent].setdefault("children", []).append(queue)
        else:
            top.append(queue | ({"parent": f"q{parent}"} if parent >= 0 else {}))
            queue = top[-1]
        queues.append(queue)
    return top


_FLAT = [{"name": "a", "gpu": {"quota": 2, "limit": 4}, "cpu": {"limit": "8"}}, {"name": "b", "memory": {"quota": "1Gi"}}]


def check_queues(tree: Any) -> None:
    """Refuse, or plan what leads to nothing more to do, and show it as it was written."""
    before = frozen(tree)
    queues = outcome(lambda: parse(tree))
    assert frozen(tree) == before
    if queues is None:
        return
    live = [manifest(queue) for queue in queues.values()]
    finite(live)
    created = plan(queues, [], "exact")
    assert [change.body for change in created] == live
    assert plan(queues, live, "exact") == plan(queues, json.loads(json.dumps(live)), "present") == []
    assert plan(parse([written(queue) for queue in queues.values()]), live, "exact") == []
    assert [change.verb for change in plan({}, live, "exact")] == ["delete"] * len(live)
    told, unread = counted(live, [])
    assert not unread
    finite(overview(told, "nvidia.com/gpu"))
    check_lines([problem.text for problem in overcommitted_quotas(queues)])


def check_volcano(tree: Any) -> None:
    """Refuse, or plan queues of Volcano that its webhook takes, and that lead to nothing more to do."""
    queues = outcome(lambda: read_queues(tree, "1.10.0"))
    if queues is None:
        return
    live = [volcano_manifest(queue) for queue in queues.values()]
    finite(live)
    for item in live:
        deserved, capability = item["spec"]["deserved"], item["spec"]["capability"]
        assert all(quantity(amount) > 0 for name, amount in capability.items() if name != "nvidia.com/gpu")
        assert all(quantity(deserved[name]) <= quantity(amount) for name, amount in capability.items())
    assert [change.body for change in volcano_plan(queues, [])] == live
    assert volcano_plan(queues, json.loads(json.dumps(live))) == []
    assert [change.verb for change in volcano_plan({}, live)] == ["delete"] * len(live)


# --- traces and verdicts of rehearsals ---------------------------------------------------------------------------

TRACES = [json.loads(json.dumps(TRACE.data()))]
VERDICTS = [
    {
        key: value
        for key, value in report([played()], [played()]).items()
        if key in ("format", "result", "reasons", "at", "change")
    }
]


def check_trace(given: Any) -> None:
    """Refuse, or return what is read again as it is."""
    before = frozen(given)
    found = outcome(lambda: parse_trace(given))
    assert frozen(given) == before
    if found is not None:
        finite(found.data())
        assert parse_trace(json.loads(json.dumps(found.data()))).data() == found.data()


def check_verdict(given: Any) -> None:
    """Refuse, or say whether it lets a change through."""
    before = frozen(given)
    found = outcome(lambda: parse_verdict(given, "verdicts[0]"))
    assert frozen(given) == before
    if found is not None:
        change = Change.of(VERDICTS[0]["change"])
        now = datetime.datetime(2026, 11, 24, tzinfo=datetime.UTC)
        allowed, refused = Gate([found], datetime.timedelta(days=30), []).judge(change, now)
        assert bool(allowed) != bool(refused)
        for text in (allowed, refused):
            check_line(text)


# --- patterns of --limit -----------------------------------------------------------------------------------------


_HELD = (*CHANGES, "hold")

PARTS = {
    "inventories": Part(check_inventory, changed(INVENTORIES, ANYTHING, _HELD), 20_000),
    "tenants": Part(check_tenants, changed([one["kubegpu_tenants"] for one in INVENTORIES], ANYTHING, _HELD), 15_000),
    "blueprints": Part(check_blueprint, changed(_BLUEPRINTS, ANYTHING, _HELD), 5_000),
    "queues": Part(check_queues, _trees(), 10_000),
    "queues of Volcano": Part(check_volcano, _trees() | changed([_FLAT], ANYTHING, _HELD), 8_000),
    "odd queues": Part(check_queues, changed([_TREE], ANYTHING, _HELD), 8_000),
    "traces": Part(check_trace, changed(TRACES, ANYTHING, _HELD), 8_000),
    "verdicts": Part(check_verdict, changed(VERDICTS, ANYTHING, _HELD), 6_000),
}
