# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the syncer of one tenant brings to the host cluster, and what others broke of it there: nothing of it is about anybody else."""

from __future__ import annotations

import copy
import datetime
import functools
import json
import re
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from ansible_collections.kubegpu.tenancy.plugins.filter.info import info
from ansible_collections.kubegpu.tenancy.plugins.filter.summary import summary
from ansible_collections.kubegpu.tenancy.plugins.inventory.vclusters import groups, host_variables
from ansible_collections.kubegpu.tenancy.plugins.module_utils._assignment.lifecycle import nodes_to_give
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import GPU_GROUP_LABEL, RESERVED_GPU_NOTE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import ENDED
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import tenancy_info
from ansible_collections.kubegpu.tenancy.plugins.module_utils._metrics.lifecycle import find_all
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes import facts as nodes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.lifecycle import record
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.status import verified
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.values import wanted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.inventory import configs
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.overlaps import collisions
from ansible_collections.kubegpu.tenancy.plugins.modules import gpu_ledger_info, kai_pending_info, vcluster_info
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils import _info
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_junit import junit
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence_page import page
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._reports import reports
from ansible_collections.kubegpu.tenancy.tests.fuzz.cases import Part, check_line, check_lines, finite
from ansible_collections.kubegpu.tenancy.tests.fuzz.inputs import (
    ANY_TEXT,
    JSON,
    QUANTITIES,
    TEXTS,
    changed,
    cut,
    encoded,
    in_secret,
)
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import AT
from ansible_collections.kubegpu.tenancy.tests.unit.pages import Page
from ansible_collections.kubegpu.tenancy.tests.unit.synced import synced
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import KAI_VERSION, desired, item, kubeconfig
from ansible_collections.kubegpu.tenancy.tests.unit.test_hostile import FORGED, HOME, LABELS, NAMES, NOTES, host
from hypothesis import strategies as st

Object = dict[str, Any]
Ask = Callable[[Object, str, float], list[Object]]

MADE = "2026-11-20T12:00:00Z"
RESULTS = [{"name": "gpu", "queue": "q", "verdict": "passed", "reason": "", "seconds": 1.0}]
GROUP = "4f3e9c1a"

# --- a host cluster with three tenants, of which evil is one -------------------------------------------------------

SHARED: Object = {"scheduler": {"name": "kai", "shared": True}}
# By what places the pods of evil.
PROFILES: dict[str, Object] = {
    "own": {},
    "shared": SHARED | {"queues": [{"name": "of-evil"}]},
    "none": {"scheduler": {}, "queues": []},
}


def tenants(profile: str) -> list[Object]:
    """Return the tenants that are wanted."""
    listed = [
        desired("evil", gpu_nodes={"names": ["gpu-evil"]}, **PROFILES[profile]),
        desired("ml", gpu_nodes={"names": ["gpu-ml"]}),
        desired("web", gpu_nodes={"names": ["gpu-web"]}, **SHARED),
    ]
    return [{key: value for key, value in tenant.items() if value} for tenant in listed]


def _objects(profile: str) -> list[Object]:
    """Return the objects of the host cluster, with pods of web that wait."""
    objects = copy.deepcopy(host())
    if profile == "shared":
        for one in objects:
            if one["kind"] == "Namespace" and one["metadata"]["name"] == HOME:
                one["metadata"]["labels"]["kubegpu.tenancy/scheduler"] = "kai"
    wait = {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}],
        "phase": "Pending",
    }
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "x:1"}]}
    for name in ("waits", "binds"):
        waiting = item(
            "v1", "Pod", name, "tenant-web", uid=f"u-{name}", spec=spec, status=wait, labels={"kai.scheduler/queue": "q"}
        )
        objects.append(synced(waiting, "web"))
    name = next(one["metadata"]["name"] for one in objects if one["metadata"]["name"].startswith("binds-"))
    bind = {"podName": name, "selectedNode": "gpu-web", "selectedGPUGroups": [GROUP]}
    objects.append(
        item(
            "scheduling.run.ai/v1alpha2", "BindRequest", name, "tenant-web", spec=bind, status={"phase": "Failed", "reason": "x"}
        )
    )
    reserves, gpu = (
        {"app": "kai-resource-reservation", GPU_GROUP_LABEL: GROUP},
        {RESERVED_GPU_NOTE: "GPU-9f3e4c1a-0000-4000-8000-000000000003"},
    )
    spec = {
        "nodeName": "gpu-web",
        "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    running = {"phase": "Running"}
    objects.append(
        item("v1", "Pod", "r", "kai-resource-reservation", labels=reserves, annotations=gpu, spec=spec, status=running)
    )
    objects += [manifest(queue) for queue in parse([{"name": "q"}, {"name": "of-evil"}]).values()]
    for one in objects:
        if one["metadata"]["name"] == "host-scheduler":
            one["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    objects += [_plugin(node) for node in ("free", "gpu-evil", "gpu-ml", "gpu-web")]
    for one in objects:
        one["metadata"]["creationTimestamp"] = MADE
    return objects


def _plugin(node: str) -> Object:
    """Return the pod of a device plugin, through which kubelet's file about its node's devices is read."""
    mounts = [{"name": "d", "mountPath": nodes.DEVICE_PLUGINS_FOLDER}]
    volumes = [{"name": "d", "hostPath": {"path": nodes.DEVICE_PLUGINS_FOLDER}}]
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "x", "volumeMounts": mounts}], "volumes": volumes}
    return item("v1", "Pod", f"plugin-{node}", "kube-system", spec=spec, status={"phase": "Running"})


def _checkpoint(node: str) -> str:
    ids = [f"GPU-9f3e4c1a-0000-4000-8000-0000000000{number:02}" for number in range(4)]
    entries = (
        [{"PodUID": f"u-{node[4:]}", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": ids[:2]}}]
        if node in ("gpu-ml", "gpu-web")
        else []
    )
    return json.dumps({"Data": {"RegisteredDevices": {"nvidia.com/gpu": ids}, "PodDeviceEntries": entries}})


@functools.cache
def _verified(profile: str) -> tuple[list[Object], tempfile.TemporaryDirectory[str]]:
    """Return the objects of the host cluster, all tenants verified, and the folder of their kubeconfigs."""
    kube, folder = InMemoryApi(_objects(profile)), tempfile.TemporaryDirectory()
    for tenant in tenants_from(tenants(profile)):
        Path(folder.name, f"{tenant.name}.yml").write_text(yaml.safe_dump(kubeconfig(tenant.name)))
        installed = KAI_VERSION if tenant.own_scheduler else ""
        record(kube, tenant.name, wanted(tenant, {}), RESULTS, datetime.datetime.now(datetime.UTC), False, installed)
    return list(kube.objects.values()), folder


def ask(_config: Object, path: str, timeout: float) -> list[Object]:
    """Return the queues that are wanted, which nothing uses."""
    return [manifest(queue) for queue in parse([{"name": "q"}]).values()] if path.endswith("/queues") and timeout else []


# --- what every report says --------------------------------------------------------------------------------------


def tell(profile: str, more: Sequence[Object] = (), ask: Ask = ask) -> Object:
    """Return what modules and reports say of a host cluster with some objects more, and check the form of all of it.

    :arg ask: what the virtual clusters answer.
    """
    objects, folder = _verified(profile)
    kube = InMemoryApi([*objects, *more])
    kube.pod_files = {f"plugin-{node}": _checkpoint(node) for node in ("free", "gpu-evil", "gpu-ml", "gpu-web")}
    listed = tenants(profile)
    params = {"tenants": listed, "only": [], "kubeconfigs": folder.name, "settings": {}, "max_age": 10**9, "also": []}
    with mock.patch.object(tenancy_info, "ask_list", ask):
        found = tenancy_info.reconcile(Run(params, kube=kube))
    ledger = gpu_ledger_info.reconcile(Run({"devices": True}, kube=kube))
    seen = vcluster_info.reconcile(Run({"name": None}, kube=kube))
    waits = {"scheduler_name": "kai-scheduler", "label_selector": "", "namespaces": ["tenant-web"]}
    pending = kai_pending_info.reconcile(Run(waits, kube=kube))
    new = {"tenant-new/new": FORGED | {"sync": {"fromHost": {"nodes": {"enabled": True, "selector": {"labels": {"new": "x"}}}}}}}
    told = {
        "tenants": found,
        "ledger": ledger,
        "vclusters": seen,
        "pending": pending,
        "collisions": collisions(kube.list("v1", "Node"), configs(kube).read | new),
        "guard": nodes_to_give(kube, tenants_from(listed), []),
        "metrics": find_all(kube),
        "inventory": [[*groups(one), host_variables(one, "gpu1", folder.name)] for one in seen["vclusters"] if one["tenant"]],
    } | shown(listed, found, ledger, seen)
    assert kube.writes == []
    finite(told)
    return told


def shown(listed: list[Object], found: Object, ledger: Object, seen: Object) -> Object:
    """Return what people and pipelines get of these results at the end of site and of info."""
    variables = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x", "kubegpu_tenants": listed}
    variables |= {"kubegpu_shared_scheduler": {"name": "kai", "version": "v0.16.8"}, "kubegpu_accept_combinations": []}
    hostvars = {
        "gpu1": {
            "_kubegpu": _state(json.dumps(variables)),
            "_kubegpu_plan": {"changed": False},
            "_kubegpu_tenants": found,
            "_kubegpu_ledger": ledger,
            "_kubegpu_devices": ledger,
            "_kubegpu_vclusters": seen,
        }
    }
    run = reports(hostvars, ["gpu1"])
    lines, asked = summary(run), _info.reports(hostvars, ["gpu1"])
    for part in ("gpus", "tenants"):
        lines += info(asked, part)
    for text in lines:
        check_line(text)
    whole = evidence(run, AT)
    check_page(page(whole))
    suites = ET.fromstring(junit(whole)).iter("testsuite")  # noqa: S314 - made here
    return {
        # With all columns: how many of them others leave room for is no matter of content.
        "summary": summary(run, wide=True),
        "evidence": whole,
        "junit": {suite.get("name"): ET.tostring(suite, encoding="unicode") for suite in suites},
    }


@functools.cache
def _state(variables: str) -> Object:
    return desired_state(json.loads(variables), "gpu1", TODAY).data()


def check_page(text: str) -> None:
    """Fail where a page has other elements than this collection's, or attributes that do something."""
    seen = Page(text)
    assert seen.open == []
    assert {tag for tag, _attributes in seen.found}.isdisjoint({"script", "link", "img", "iframe", "object", "form", "a"})
    assert not [
        name for _tag, attributes in seen.found for name in attributes if name.startswith("on") or name in ("src", "href")
    ]


# --- what of it is about others than evil ------------------------------------------------------------------------


def about_others(told: Object) -> Object:
    """Return what is not about evil, and does not change by the time of day."""
    found, ledger, seen = (told[key] for key in ("tenants", "ledger", "vclusters"))
    evidence_of = told["evidence"]["clusters"][0]

    def rows(key: str, listed: Sequence[Object]) -> list[Object]:
        return [one for one in listed if one[key] != "evil"]

    def others(lines: Sequence[str]) -> list[str]:
        # Some name several tenants, or nodes, of which the same is to be said.
        named = [re.sub(r"(gpu-)?evil, |, (gpu-)?evil\b", "", line) for line in lines]
        return [line for line in named if line.strip() and "evil" not in line]

    def timeless(row: Object) -> Object:
        return {key: value for key, value in row.items() if key not in ("seconds", "since")}

    return {
        "tenants": rows("name", found["tenants"]),
        **{key: found[key] for key in ("unlisted", "temporary", "shared_scheduler", "sharing", "nodes_due", "node_problems")},
        "unread": others([*found["unread"], *ledger["unread"], *seen["unread"], *told["pending"]["unread"]]),
        "ledger": rows("tenant", ledger["tenants"]),
        "nodes": [row for row in ledger["nodes"] if row["node"] != "gpu-evil"],
        "devices": [row for row in ledger["devices"] if row["node"] != "gpu-evil"],
        "overlaps": others(ledger["overlaps"]),
        "picture": others(ledger["picture"]),
        "vclusters": rows("name", seen["vclusters"]),
        "pending": [timeless(row) for row in told["pending"]["pods"]],
        "collisions": others(told["collisions"]),
        **{key: told[key] for key in ("guard", "metrics")},
        "inventory": [one for one in told["inventory"] if one[-1]["kubegpu_observed"]["name"] != "evil"],
        # A wider cell of evil's moves those of others.
        "summary": others([re.sub("[ -]+", " ", line) for line in told["summary"]]),
        "evidence": rows("name", evidence_of["tenants"]),
        "problems": others(told["evidence"]["problems"]),
        "junit": {name: text for name, text in told["junit"].items() if name not in ("gpu1", "gpu1/evil")},
    }


@functools.cache
def _before(profile: str) -> Object:
    return about_others(tell(profile))


def check_only_about_evil(profile: str, more: Sequence[Object] = (), but: Sequence[str] = (), ask: Ask = ask) -> Object:
    """Fail where objects, or answers, change what is said of others than evil; return all that is said.

    :arg but: parts of what is said that may change.
    """
    told = tell(profile, more, ask)
    after = about_others(told)
    for part, said in _before(profile).items():
        assert part in but or after[part] == said, f"{part}: {after[part]} and not {said}"
    return told


# --- what a tenant writes ----------------------------------------------------------------------------------------

# Values of labels as the API server lets them through.
_VALUES = st.sampled_from(
    [*{*LABELS.values()}, "", "true", "q", "evil", "web", GROUP, "kai-resource-reservation", "x" * 63, "default-queue"]
)
_KEYS = st.sampled_from([*LABELS, GPU_GROUP_LABEL + "/x", "app.kubernetes.io/name", "x", "kubegpu.tenancy/scheduler-version"])
_NOTE_KEYS = st.sampled_from([*NOTES, "x", "kubectl.kubernetes.io/last-applied-configuration", "run.ai/x", "priorityClassName"])
_NOTES = (
    st.sampled_from(
        [*NOTES.values(), *TEXTS, "0.5", "1", "2", '[{"controller": true}]', "GPU-9f3e4c1a-0000-4000-8000-000000000003"]
    )
    | ANY_TEXT
)
_OBJECT_NAMES = st.sampled_from([*NAMES, "r", "waits", "binds", "train", "scheduler", "x" * 63, "a.b.c", "binds-x-default-x-web"])
_NAMESPACES = st.sampled_from(
    ["default", "kai-scheduler", "kai-resource-reservation", "kai-scale-adjust", "kube-system", "tenant-web", "x" * 63]
)
# Labels and a namespace that go together, by which an object passes for another one; an empty namespace for any.
_PASSING = st.sampled_from(
    [
        *[({}, "")] * 8,
        ({"app": "kai-resource-reservation", GPU_GROUP_LABEL: GROUP}, "kai-resource-reservation"),
        ({GPU_GROUP_LABEL: GROUP}, "default"),
        ({"app": "kai-scheduler-default"}, "kai-scheduler"),
        ({"app": "vcluster", "release": "ml", "chart": "vcluster-0.1.0"}, "default"),
        ({"app": "vcluster", "vcluster-name": "ml"}, ""),
        (OWNED_LABELS | {"kubegpu.tenancy/record": "verified"}, ""),
        (OWNED_LABELS | {"kubegpu.tenancy/tenant": "ml"}, ""),
    ]
)
# What the API server takes for an amount of an extended resource: whole, and written as it writes it.
_GPUS = st.sampled_from(["0", "1", "2", "8", "1k", "1M", "1E", "2k", str(2**63 - 1)])
_QUANTITIES = st.sampled_from([one for one in QUANTITIES if not one.endswith(".")])


@st.composite
def _containers(draw: st.DrawFn, restarts: bool = False) -> Object:
    limits = draw(
        st.fixed_dictionaries({}, optional={"nvidia.com/gpu": _GPUS, "cpu": _QUANTITIES, "nvidia.com/mig-1g.10gb": _GPUS})
    )
    made = {"name": "main", "image": draw(ANY_TEXT), "resources": {"limits": limits, "requests": limits}}
    return made | ({"restartPolicy": "Always"} if restarts and draw(st.booleans()) else {})


_STATES = st.fixed_dictionaries(
    {},
    optional={
        "waiting": st.fixed_dictionaries({"reason": ANY_TEXT}, optional={"message": ANY_TEXT}),
        "terminated": st.fixed_dictionaries({"exitCode": st.integers(0, 255), "finishedAt": st.sampled_from([None, MADE])}),
    },
)
_STATUSES = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])},
    optional={
        "conditions": st.lists(
            st.fixed_dictionaries(
                {"type": ANY_TEXT, "status": st.sampled_from(["True", "False"])}, optional={"message": ANY_TEXT}
            ),
            max_size=2,
        ),
        "containerStatuses": st.lists(
            st.fixed_dictionaries(
                {"name": st.just("main"), "restartCount": st.integers(0, 2**31), "image": ANY_TEXT, "imageID": ANY_TEXT},
                optional={"state": _STATES, "lastState": _STATES},
            ),
            max_size=2,
        ),
        "startTime": st.just(MADE),
        "hostIP": st.just("10.0.0.9"),
    },
)
_SPECS = st.fixed_dictionaries(
    {"containers": st.lists(_containers(), min_size=1, max_size=3)},
    optional={
        "initContainers": st.lists(_containers(restarts=True), max_size=2),
        # The scheduler in it, or the user who writes its pods, chooses among the nodes that it sees.
        "nodeName": st.sampled_from(["gpu-evil", "gone", ""]),
        "schedulerName": ANY_TEXT,
        "runtimeClassName": ANY_TEXT,
        "schedulingGates": st.just([{"name": "x/y"}]),
        "nodeSelector": st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2),
        "volumes": st.just([{"name": "v", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]),
    },
)
_PODS = st.fixed_dictionaries({"spec": _SPECS, "status": _STATUSES})
_DATA = st.one_of(
    st.dictionaries(
        st.sampled_from(["config.yaml", "at", "results", "wanted", "fingerprint", "token", "x"]), ANY_TEXT, max_size=4
    ),
    st.just({"config.yaml": in_secret(yaml.safe_dump(FORGED))}),
)
_PORTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["NodePort", "ClusterIP"]), "ports": st.just([{"port": 443, "nodePort": 30000}])}
)
_CLAIMS = st.fixed_dictionaries({"capacity": st.fixed_dictionaries({"storage": _QUANTITIES})})
# Other kinds that a syncer brings: of which version they are, and what is in them.
_OTHERS = {
    "Secret": ("v1", st.fixed_dictionaries({"data": _DATA})),
    "ConfigMap": ("v1", st.fixed_dictionaries({"data": _DATA})),
    "Service": ("v1", st.fixed_dictionaries({"spec": _PORTS})),
    "PersistentVolumeClaim": ("v1", st.fixed_dictionaries({"status": _CLAIMS})),
    "Endpoints": ("v1", st.just({})),
    "ServiceAccount": ("v1", st.just({})),
    "NetworkPolicy": ("networking.k8s.io/v1", st.just({"spec": {}})),
    "Ingress": (
        "networking.k8s.io/v1",
        st.fixed_dictionaries(
            {"spec": st.fixed_dictionaries({"rules": st.lists(st.fixed_dictionaries({"host": ANY_TEXT}), max_size=1)})}
        ),
    ),
    "PodDisruptionBudget": ("policy/v1", st.just({"spec": {}})),
    # Of a definition that its administrator has synced, so that anything stands in it.
    "ServiceMonitor": ("monitoring.coreos.com/v1", st.fixed_dictionaries({}, optional={"spec": JSON, "status": JSON})),
}


@st.composite
def written(draw: st.DrawFn) -> Object:
    """Return an object of evil as it is on the host cluster."""
    kind = draw(st.sampled_from(["Pod"] * 8 + list(_OTHERS)))
    version, contents = _OTHERS.get(kind, ("v1", _PODS))
    labels, notes = draw(st.dictionaries(_KEYS, _VALUES, max_size=5)), draw(st.dictionaries(_NOTE_KEYS, _NOTES, max_size=5))
    passing, namespace = draw(_PASSING)
    labels |= passing
    name = draw(_OBJECT_NAMES)
    made = item(version, kind, name, HOME, labels=labels, annotations=notes, uid=f"u-{name}", **draw(contents))
    made["metadata"]["creationTimestamp"] = MADE
    if draw(st.integers(0, 9)) == 0:
        made["metadata"]["deletionTimestamp"] = MADE
    return synced(made, "evil", namespace or draw(_NAMESPACES))


def check_written(given: Object) -> None:
    """Nothing of what a tenant writes is about anybody else, and nothing makes it hold less than its pods do."""
    told = check_only_about_evil(given["profile"], given["objects"])
    row = _row_of_evil(told)
    # Of two with one name, the second is there.
    pods = {one["metadata"]["name"]: one for one in given["objects"] if one["kind"] == "Pod"}
    holding = [one for one in pods.values() if one["spec"].get("nodeName") == "gpu-evil" and one["status"]["phase"] not in ENDED]
    # What is more than Kubernetes counts is said beside the table.
    unread = any(f"pod {HOME}/" in line for line in told["ledger"]["unread"])
    assert unread or row["in_use"] >= sum(map(_least, holding)), row
    assert 0 <= row["shares"] <= float(row["in_use"]) * 1.001, row
    check_lines([(one["reasons"], one["images"]) for one in told["tenants"]["tenants"]])


def _row_of_evil(told: Object) -> Object:
    return next(row for row in told["ledger"]["tenants"] if row["tenant"] == "evil")


def _least(pod: Object) -> int:
    """Return the GPUs that the containers of a pod have while it runs, the least that Kubernetes books for it."""
    amounts = [one["resources"]["limits"].get("nvidia.com/gpu", "0") for one in pod["spec"]["containers"]]
    units = {"k": 10**3, "M": 10**6, "E": 10**18}
    return sum(int(amount.rstrip("kME")) * units.get(amount[-1], 1) for amount in amounts)


# --- what others broke of it -------------------------------------------------------------------------------------

_CONFIGS = [
    yaml.safe_dump(one)
    for one in (FORGED, FORGED | {"policies": {"resourceQuota": {"enabled": True, "quota": {"requests.nvidia.com/gpu": 4}}}})
]
_YAML = [
    "&a ",
    "*a",
    "<<: ",
    "!!python/object:x ",
    "!!binary x",
    "? ",
    "- ",
    "[",
    "{",
    "}",
    "|\n",
    "...\n---\n",
    "2026-99-99",
    "%YAML 9\n",
    "\t",
]


def check_broken(given: Object) -> None:
    """A broken configuration of evil's is its own: what is said of others stays."""
    broken = item("v1", "Secret", f"vc-config-{given['name']}", HOME, labels={"app": "vcluster"})
    broken["data"] = {"config.yaml": given["content"] if isinstance(given["content"], str) else in_secret(given["content"])}
    broken["metadata"]["creationTimestamp"] = MADE
    # It may claim the nodes of others, or pass for a virtual cluster that is told about.
    but = ("overlaps", "collisions", "guard", "nodes_due", "node_problems", "summary", "problems")
    check_only_about_evil("own", [broken], but)


def check_record(data: Object) -> None:
    """A broken record is none, or can be shown."""
    broken = item(
        "v1", "ConfigMap", "kubegpu-verified", HOME, labels=OWNED_LABELS | {"kubegpu.tenancy/record": "verified"}, data=data
    )
    broken["metadata"]["creationTimestamp"] = MADE
    found = verified(broken)
    assert found is None or verified(broken | {"data": found.data()}) == found
    told = check_only_about_evil("own", [broken])
    assert found is not None or "change" in next(one["due"] for one in told["tenants"]["tenants"] if one["name"] == "evil")


_RECORDS = [
    {"at": MADE, "wanted": "0123456789abcdef", "fingerprint": "0123456789abcdef", "results": json.dumps(RESULTS)},
    {"at": MADE, "wanted": "x", "fingerprint": "y", "results": "[]"},
]


@st.composite
def _records(draw: st.DrawFn) -> Object:
    """Return the data of a ConfigMap, all of it texts."""
    data = draw(changed(_RECORDS, ANY_TEXT, ("replace", "remove", "copy"), 2))
    if draw(st.booleans()):
        data["results"] = json.dumps(draw(changed([RESULTS, RESULTS * 3], JSON)), allow_nan=False)
    return {str(key): str(value) for key, value in data.items()}


_BYTES = st.one_of(st.binary(max_size=40), cut(_CONFIGS, _YAML).map(encoded))
_TREES = changed([FORGED, yaml.safe_load(_CONFIGS[1])], JSON).map(lambda tree: encoded(yaml.safe_dump(tree)))

PARTS = {
    "synced objects": Part(
        check_written,
        st.fixed_dictionaries(
            {"profile": st.sampled_from(list(PROFILES)), "objects": st.lists(written(), min_size=1, max_size=6)}
        ),
        8_000,
    ),
    "configurations": Part(
        check_broken,
        st.fixed_dictionaries(
            {"name": st.sampled_from(["evil", "evil", "x", ""]), "content": st.one_of(_BYTES, _TREES, ANY_TEXT)}
        ),
        3_000,
    ),
    "records": Part(check_record, _records(), 3_000),
}
