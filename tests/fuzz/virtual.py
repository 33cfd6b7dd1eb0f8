# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tenant has in its own cluster, where its administrator decides what the API server answers."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.asking import ASKED_LIST
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.objects import Pages, checked, parsed
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.retry import message_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.lifecycle import Edits, HelmRelease
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nccl.status import judge as judge_nccl
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import readable
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.lifecycle import record
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.validation import parse as parse_trace
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.facts import MOST, is_reserved
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.status import judge, listed
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.plan import groups_in_use
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.plan import plan as volcano_plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.validation import read_queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.values import manifest as volcano_manifest
from ansible_collections.kubegpu.tenancy.plugins.modules import kai_pending_info, kai_queues_info
from ansible_collections.kubegpu.tenancy.tests.fuzz import host
from ansible_collections.kubegpu.tenancy.tests.fuzz.cases import Part, check_line, check_lines, finite, outcome
from ansible_collections.kubegpu.tenancy.tests.fuzz.inputs import ANY_TEXT, JSON, changed, cut, encoded, rewritten
from ansible_collections.kubegpu.tenancy.tests.unit import pending
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item
from hypothesis import strategies as st

Object = dict[str, Any]
LABELLED = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}

# --- what is right -----------------------------------------------------------------------------------------------

_AMOUNTS = {
    "gpu": {"quota": 2, "limit": -1, "overQuotaWeight": 1},
    "cpu": {"quota": 500, "limit": 1000},
    "memory": {"limit": 64000},
}
QUEUES = [
    item(
        "scheduling.run.ai/v2", "Queue", "q", spec={"resources": _AMOUNTS, "priority": 100, "displayName": "Q"}, labels=LABELLED
    ),
    item("scheduling.run.ai/v2", "Queue", "ml", spec={"parentQueue": "q", "resources": _AMOUNTS, "preemptMinRuntime": "5m"}),
    pending.queue("default-queue"),
]
_USE = {
    "allocated": {"nvidia.com/gpu": "500m", "cpu": "2"},
    "allocatedNonPreemptible": {"memory": "1Gi"},
    "requested": {"nvidia.com/gpu": 1},
}
_LIMIT = (
    "ml quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 4 GPUs allocated and workload requested 1 GPUs"
)
_QUOTA = "Non-preemptible workload is over quota. Workload requested 2 GPUs, but ml quota is 1 GPUs, while 1 GPUs are already allocated"
_REQUESTED = {"podGroupRequestedResources": {"cpu": "500m", "memory": "1Gi"}, "name": "ml"}
GROUPS = [
    pending.group("train-0", pending.told("OverLimit", _LIMIT, **_REQUESTED)) | {"spec": {"queue": "q", "minMember": 2}},
    pending.group(
        "train-1", pending.told("NonPreemptibleOverQuota", _QUOTA, **_REQUESTED), subGroups=[{"name": "a", "minMember": 1}]
    ),
    item("scheduling.run.ai/v2alpha2", "PodGroup", "used", "team", spec={"queue": "q"}, status={"resourcesStatus": _USE}),
    item(
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        "pg-train-2",
        "team",
        spec={"queue": "ml", "topologyConstraint": {"topology": "racks", "requiredTopologyLevel": "rack"}},
    ),
]
REQUESTS = [
    pending.bind_request(("g",), phase="Failed", reason="no GPU"),
    pending.bind_request(phase="Pending", failedAttempts=1),
]
_LEVELS = {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]}
TOPOLOGIES = [item("kai.scheduler/v1alpha1", "Topology", "racks", spec=_LEVELS)]
CUSTOM = [*QUEUES, *GROUPS, *REQUESTS, *TOPOLOGIES]

_ENDED = {
    "name": "main",
    "state": {"terminated": {"exitCode": 127, "finishedAt": None, "message": "nvidia-smi: not found", "reason": "Error"}},
}
_ASKS = {"resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "2"}}}
_SPEC = {
    "containers": [{"name": "main", "image": "x:1"} | _ASKS],
    "initContainers": [{"name": "first", "image": "x:1", "restartPolicy": "Always"} | _ASKS],
    "nodeSelector": {"rack": "a"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "priorityClassName": "urgent",
}
_RUNNING = {"phase": "Running", "startTime": "2026-11-22T12:01:00Z", "containerStatuses": [_ENDED]}
CORE = [
    pending.scheduler(),
    pending.scheduler("v0.16.8"),
    pending.node(),
    pending.node("n2", 0) | {"metadata": {"name": "n2", "labels": {"nvidia.com/gpu.memory": "81920", "rack": "a"}}},
    pending.pod("train-0", gpus=1),
    pending.pod("train-1", gpus=8, status=pending.unschedulable(pending.NO_ROOM)),
    pending.pod("train-2", queue="ml", **_SPEC),
    pending.pod("train-3", status=_RUNNING, nodeName="n1", **_SPEC),
    pending.pod(
        "train-4", annotations={"gpu-fraction": "0.5", "gpu-memory": "2000"}, labels={"runai-gpu-group": "g"}, nodeName="n1"
    ),
    pending.pod("train-5", status={"phase": "Succeeded", "containerStatuses": [_ENDED]}, labels={"priorityClassName": "train"}),
    pending.pod("train-6", schedulerName="else", schedulingGates=[{"name": "a/b"}]),
    pending.reservation("g", {"phase": "Pending"}),
    pending.event("Unschedulable", pending.NO_ROOM),
    pending.event("FailedMount", "no volume", "train-4"),
    pending.event("PodGrouperWarning", "no group", "train-6"),
    item("scheduling.k8s.io/v1", "PriorityClass", "urgent", value=200),
]


# --- what an API server answers ----------------------------------------------------------------------------------


def answered(items: Sequence[Any], api_version: str = "", kind: str = "") -> list[Object]:
    """Return the items of a list as the adapter reads them.

    :raises TenancyError: where the answer is none of the API.
    """
    text = json.dumps({"metadata": {}, "items": items}).encode()
    return [checked("Listing", one, api_version, kind) for one in _pages(lambda: text).read()]


def _pages(text: Callable[[], bytes]) -> Pages:
    return Pages("Listing", lambda _limit, _more: text(), lambda: 10.0, 500, ASKED_LIST)


def check_answer(text: bytes) -> None:
    """Read what a server answers, or say in one line why not."""
    found = outcome(lambda: parsed("Reading", text))
    if found is not None:
        finite(found)
        outcome(lambda: checked("Reading", found, "v1", "Pod"))
    outcome(lambda: [checked("Listing", one) for one in _pages(lambda: text).read()])
    check_line(message_of(500, "Internal Server Error", text))


_ANSWERS = [
    json.dumps({"metadata": {"continue": ""}, "items": [CORE[4], QUEUES[0]]}),
    json.dumps({"metadata": {"continue": "more"}, "items": []}),
    json.dumps({"kind": "Status", "status": "Failure", "message": 'pods "x" is forbidden', "code": 403}),
    json.dumps(CORE[5]),
]
_MARKS = [
    "{",
    "}",
    "[",
    "]",
    '"',
    "null",
    "1e999999",
    "NaN",
    "-",
    ":",
    ",",
    "\\ud800",
    '{"message": "',
    "[" * 3000,
    '{"metadata":',
]


# --- queues of one tenant, read with those of others ---------------------------------------------------------------


def check_served(given: Object) -> None:
    """What one virtual cluster serves is its tenant's reason, and no other tenant's."""

    def ask(config: Object, path: str, timeout: float) -> list[Object]:
        items = host.ask(config, path, timeout)
        if config["users"][0]["name"] != "evil":
            return items
        more = given["queues"] if path.endswith("/queues") else given["groups"]
        return answered([*items, *more] if given["beside"] else more)

    found = host.check_only_about_evil("own", ask=ask)
    (evil,) = [one for one in found["tenants"]["tenants"] if one["name"] == "evil"]
    check_lines(evil["reasons"])
    check_lines(evil["queues"])
    assert len(evil["reasons"]) <= 20
    assert bool(evil["due"]) == bool(evil["reasons"])


@st.composite
def _families(draw: st.DrawFn) -> list[Object]:
    """Return queues that are above each other in some form, circles among them."""
    count = draw(st.sampled_from([1, 2, 3, 5, 20, 400]))
    form = draw(st.sampled_from(["chain", "circle", "star", "itself", "pairs", "lost"]))
    parents = {
        "chain": lambda number: f"c{number - 1}" if number else "q",
        "circle": lambda number: f"c{(number - 1) % count}",
        "star": lambda number: "c0" if number else "",
        "itself": lambda number: f"c{number}",
        "pairs": lambda number: f"c{number ^ 1}",
        "lost": lambda _number: "nowhere",
    }[form]
    labels = draw(st.sampled_from([LABELLED, {}]))
    resources = draw(st.sampled_from([_AMOUNTS, {}]))
    return [
        item(
            "scheduling.run.ai/v2",
            "Queue",
            f"c{number}",
            labels=labels,
            spec={"parentQueue": parents(number), "resources": resources},
        )
        for number in range(count)
    ]


_ODD_QUEUES = st.lists(changed(QUEUES, JSON), max_size=3) | _families()
_ODD_GROUPS = st.lists(changed(GROUPS, JSON), max_size=3)
_SERVED = st.fixed_dictionaries({"queues": _ODD_QUEUES, "groups": _ODD_GROUPS, "beside": st.booleans()})


# --- its own cluster, read by itself -----------------------------------------------------------------------------


def _kube(objects: Sequence[Any]) -> InMemoryApi:
    """Return the API of a virtual cluster with those of the objects that the adapter takes for some."""
    taken = []
    for one in json.loads(json.dumps(objects)):
        version, kind = (str(one.get(key) or "x") if isinstance(one, dict) else "x" for key in ("apiVersion", "kind"))
        if found := outcome(lambda one=one, version=version, kind=kind: checked("Listing", one, version, kind)):
            taken.append(found)
    return InMemoryApi(taken)


def check_cluster(objects: list[Any]) -> None:
    """Say of each pod why it waits, or that it cannot be read; of each queue where it is; and record what can be played again."""
    kube = _kube(objects)
    _check_pending(kube)
    _check_queues(kube)
    _check_recording(kube)
    assert kube.writes == []


def _check_pending(kube: InMemoryApi) -> None:
    kube.pod_logs = {"kai-scheduler-default-1": 'ERROR failed to list *v1.Pod\x1b[31m: pods "x" is forbidden'}
    params = {"scheduler_name": "kai-scheduler", "label_selector": "", "namespaces": []}
    run = Run(params, kube=kube)
    found = kai_pending_info.reconcile(run)
    finite(found)
    check_lines(found["unread"])
    check_lines(run.warnings)
    for row in found["pods"]:
        for key in ("queue", "reason", "message", "advice"):
            check_line(row[key] or "")
    told_of = {f"{row['namespace']}/{row['name']}" for row in found["pods"]}
    for pod in kube.list("v1", "Pod"):
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        waits = pod["status"].get("phase") == "Pending"
        assert not waits or name in told_of or any(name in line for line in found["unread"]), name


def _check_queues(kube: InMemoryApi) -> None:
    found = kai_queues_info.reconcile(Run({"gpu_resource": "nvidia.com/gpu"}, kube=kube))
    finite(found)
    check_lines(found)
    known, unread = readable(kube.list("scheduling.run.ai/v2", "Queue"))
    assert len(found["unread"]) >= len(unread)
    rows = list(found["queues"])
    for row in rows:
        rows += row["children"]
    assert len(rows) == len(known)


def _check_recording(kube: InMemoryApi) -> None:
    run = Run({}, kube=kube)
    moments = iter([datetime.datetime(2026, 11, 22, 12, 30, tzinfo=datetime.UTC)] * 9)
    trace = record(run, "kai-scheduler", 0, 15, now=lambda: next(moments))
    data = json.loads(finite(trace.data()))
    assert parse_trace(data).data() == data
    check_lines(run.warnings)


_CLUSTERS = st.lists(st.one_of(changed(CUSTOM, JSON, most=2), rewritten([*CORE, *CUSTOM]), rewritten(CORE)), max_size=12).map(
    lambda more: [*pending.HEALTHY, *more]
)


# --- what a chart made, by Helm's record -------------------------------------------------------------------------

_WORKLOAD = {
    "replicas": 1,
    "template": {
        "spec": {
            "containers": [{"name": "main", "image": "x:1", "env": [{"name": "A", "value": "1"}], "args": ["a"]}],
            "volumes": [{"name": "a", "emptyDir": {}}],
        }
    },
}
_CHART = [
    item("apps/v1", "Deployment", "web", "apps", spec=_WORKLOAD, labels={"app": "web"}),
    item(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "web",
        "apps",
        spec={"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]},
    ),
    item("v1", "Service", "web", "apps", spec={"ports": [{"port": 80, "name": "http"}], "selector": {"app": "web"}}),
    item("v1", "ConfigMap", "web", "apps", data={"a": "b"}),
    item(
        "rbac.authorization.k8s.io/v1", "ClusterRole", "web", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    ),
]


def check_chart(given: Object) -> None:
    """Say what differs from what a chart made, take it back, and find nothing then."""
    kube = _kube(given["live"])
    helm = InMemoryHelm(kube)
    helm.manifests["web"] = yaml.safe_dump_all(json.loads(json.dumps(given["chart"])), allow_unicode=True)
    helm.record(Release("web", "apps", "deployed", 1, "web", "1.0.0", {}))
    release = HelmRelease(kube, helm, "web", "apps")
    release.inspect()
    kube.writes.clear()
    predicted, done, again = (Run({}, check_mode, kube, helm) for check_mode in (True, False, False))
    outcome(lambda: Edits(predicted, release).take_back())
    assert kube.writes == []
    whole = outcome(lambda: Edits(done, release).take_back() or True)
    for run in (predicted, done):
        finite(run.changes)
        check_lines([what for what, _before, _after in run.changes])
        check_lines([[step["step"], step["why"]] for step in run.steps])
    if whole:
        assert done.changes == predicted.changes
        outcome(lambda: Edits(again, release).take_back())
        assert again.changes == []


_ODD_CHART = st.lists(changed(_CHART, JSON, most=2) | st.sampled_from(_CHART), max_size=4)
_CHARTS = st.fixed_dictionaries({"chart": _ODD_CHART | st.just(_CHART), "live": _ODD_CHART})


# --- namespaces of schedulers ------------------------------------------------------------------------------------


def check_schedulers(labels: Object) -> None:
    """Take no namespace for a former scheduler's that this collection cannot have made, and no more than a few."""
    namespaces = [item("v1", "Namespace", name, labels={"kubegpu.tenancy/scheduler": value}) for name, value in labels.items()]
    found = outcome(lambda: judge(namespaces, ["volcano"]))
    if found is not None:
        assert len(found.former) <= MOST
        assert all(labels[name] == name and not is_reserved(name) and name != "volcano" for name in found.former)
        assert sorted(
            [*found.former, *found.foreign, *found.ending, *(["volcano"] if labels.get("volcano") == "volcano" else [])]
        ) == sorted(labels)
        check_line(listed(found.foreign))


_NAMESPACES = st.from_regex(re.compile(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?"), fullmatch=True) | st.sampled_from(
    ["volcano", "kube-system", "default", "kai-scheduler", "kai-resource-reservation", "a" * 63, "yunikorn"]
)


@st.composite
def _labelled(draw: st.DrawFn) -> Object:
    names = draw(st.lists(_NAMESPACES, max_size=15, unique=True))
    return {name: draw(st.sampled_from([name, name, "volcano", "", "x"])) for name in names}


# --- Volcano, and logs of NCCL -----------------------------------------------------------------------------------

_QUEUE = ("scheduling.volcano.sh/v1beta1", "Queue")
_VOLCANO = read_queues([{"name": "a", "gpu": {"quota": 2, "limit": 4}}, {"name": "old"}])
_OWN_QUEUES = [json.loads(json.dumps(volcano_manifest(queue))) for queue in _VOLCANO.values()]
_OWN_GROUPS = [
    item(_QUEUE[0], "PodGroup", "g", "ml", spec={"queue": "old"}, status={"phase": "Running"}),
    item(_QUEUE[0], "PodGroup", "h", "ml", spec={}),
]


def check_volcano_served(given: Object) -> None:
    """Refuse what cannot be read, or plan writes that say what they change."""
    wanted = {"a": _VOLCANO["a"]}
    queues, groups = (_kube(given[kind]).list(_QUEUE[0], name) for kind, name in (("queues", _QUEUE[1]), ("groups", "PodGroup")))
    changes = outcome(lambda: volcano_plan(wanted, queues))
    for change in changes or []:
        finite([change.before, change.after, change.body])
        check_lines(change.before)
    finite(groups_in_use(["old"], groups))


_NCCL_LINES = [
    "a:1:2 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA\n",
    "a:1:2 [0] NCCL INFO via NET/AWS Libfabric/0\n",
    "a:1:2 [0] NCCL INFO Using network Socket\n",
    "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
    "a:1:2 [0] NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)\n",
    "epoch 1\n",
]


def check_nccl(log: str) -> None:
    """Tell by which way, in lines that are printed as they are."""
    found = judge_nccl(log)
    finite(found)
    assert found["transport"] in ("gdr", "rdma", "tcp", "within_node", "unknown")
    assert found["gdr_links"] <= found["links"] <= log.count("NCCL INFO")
    check_lines([*found["networks"], *(text for reason in found["reasons"] for text in reason.values())])


PARTS = {
    "charts": Part(check_chart, _CHARTS, 4_000),
    "answers": Part(check_answer, cut(_ANSWERS, _MARKS).map(encoded) | st.binary(max_size=60), 10_000),
    "served queues": Part(check_served, _SERVED, 4_000),
    "served queues of Volcano": Part(
        check_volcano_served,
        st.fixed_dictionaries(
            {
                "queues": st.lists(changed(_OWN_QUEUES, JSON), max_size=3),
                "groups": st.lists(changed(_OWN_GROUPS, JSON), max_size=3),
            }
        ),
        6_000,
    ),
    "logs of NCCL": Part(check_nccl, st.lists(st.sampled_from(_NCCL_LINES) | ANY_TEXT, max_size=6).map("".join), 5_000),
    "virtual clusters": Part(check_cluster, _CLUSTERS, 8_000),
    "schedulers": Part(check_schedulers, _labelled(), 3_000),
}
