# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""NVIDIA's device plugin and GPU operator: what their charts are told, what nodes are labelled with, and what is refused.

Pure functions over plain data; nodes and workloads are objects as the API returns them.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import refuse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Change, Values, deep_merge
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import GPU_RESOURCE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import held
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import DEDICATED_TAINT

Object = dict[str, t.Any]
Labels = dict[str, str]

PRESENT_LABEL = "nvidia.com/gpu.present"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
MPS_LABEL = "nvidia.com/mps.capable"
# Any of these brings the chart's pods to a node (affinity in deployments/helm/nvidia-device-plugin/values.yaml).
GPU_NODE = {
    PRESENT_LABEL: "true",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA",
}
# Annotation of a node: the labels that this collection put on it for the device plugin, with their values, as JSON.
NOTE = "kubegpu.tenancy/device-plugin-labels"
# The configuration of nodes in no group.
DEFAULT = "default"
# How a GPU is shared, by the key that asks for it: the configuration file's key.
STRATEGIES = {"time_slicing": "timeSlicing", "mps": "mps"}
DRA_DRIVER = "gpu.nvidia.com"

TIME_SLICING_WARNING = (
    "Time-slicing isolates nothing: pods that share a GPU use all of its memory, see no bound on their part of its time, and a "
    "fault of one can end the others. It is for pods that trust each other."
)

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# They go to every node with GPUs, also to those that the charts' own tolerations do not cover: dedicated to one tenant.
_TOLERATIONS = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
    {"key": DEDICATED_TAINT, "operator": "Exists", "effect": "NoSchedule"},
]


@dataclasses.dataclass(frozen=True)
class Provider:
    """What makes nodes offer their GPUs.

    :ivar name: of this provider, in the module's option.
    :ivar pattern: what its chart's versions look like.
    :ivar selector: label of its DaemonSets and their pods.
    """

    name: str
    title: str
    chart: str
    repository: str
    release: str
    version: str
    pattern: str
    selector: str


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider(
            "device_plugin",
            "NVIDIA's device plugin",
            "nvidia-device-plugin",
            "https://nvidia.github.io/k8s-device-plugin",
            "nvidia-device-plugin",
            "0.17.4",
            r"\d+\.\d+\.\d+(-[-.0-9A-Za-z]+)?",
            "app.kubernetes.io/instance=nvidia-device-plugin",
        ),
        Provider(
            "gpu_operator",
            "NVIDIA's GPU operator",
            "gpu-operator",
            "https://helm.ngc.nvidia.com/nvidia",
            "gpu-operator",
            "v26.7.0",
            r"v\d+\.\d+\.\d+(-[-.0-9A-Za-z]+)?",
            "app.kubernetes.io/managed-by=gpu-operator",
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Limit:
    """Outside of it, something cannot work.

    :ivar series: with what the versions begin that it holds for.
    :ivar dra: whether it holds only where the operator is told to use Dynamic Resource Allocation.
    :ivar kubernetes: first and last version that work; empty for no bound.
    :ivar driver: first driver that works; empty where any does.
    """

    provider: str
    series: str
    source: str
    dra: bool = False
    kubernetes: tuple[str, str] = ("", "")
    driver: str = ""


_PREREQUISITES = "https://github.com/NVIDIA/k8s-device-plugin#prerequisites"
_PLATFORMS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/26.7/platform-support.html"
LIMITS = (
    Limit("device_plugin", "", _PREREQUISITES, kubernetes=("1.10", ""), driver="384.81"),
    Limit("gpu_operator", "v26.7.", _PLATFORMS, kubernetes=("1.33", "1.36")),
    Limit("gpu_operator", "v26.7.", _PLATFORMS, dra=True, kubernetes=("1.34.2", ""), driver="580"),
)
# Of the device plugin's chart (README, "With CUDA MPS").
MPS_SINCE = "0.15.0"


@dataclasses.dataclass(frozen=True)
class Group:
    """Nodes whose GPUs are shared alike.

    :ivar strategy: a key of STRATEGIES.
    """

    name: str
    strategy: str
    replicas: int
    nodes: tuple[str, ...]

    @property
    def config(self) -> str:
        """As a file of the device plugin."""
        lines = ["version: v1", "sharing:", f"  {STRATEGIES[self.strategy]}:"]
        if self.strategy == "time_slicing":
            # A pod that asks for two would get two turns on perhaps one GPU, so it is refused; MPS always does.
            lines.append("    failRequestsGreaterThanOne: true")
        return "\n".join([*lines, "    resources:", f"      - name: {GPU_RESOURCE}", f"        replicas: {self.replicas}"])


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is wanted of a cluster.

    :ivar labels: by node, the labels it needs.
    :ivar replicas: by node, how many pods share a GPU.
    :ivar dra: whether GPUs are offered by ResourceSlices instead of as an extended resource.
    """

    values: Values
    groups: tuple[Group, ...]
    labels: dict[str, Labels]
    expected: dict[str, int]
    dra: bool

    @property
    def replicas(self) -> dict[str, int]:
        return {node: group.replicas for group in self.groups for node in group.nodes}


def labels_of(item: Object) -> Labels:
    return item["metadata"].get("labels") or {}


def is_gpu_node(labels: Labels) -> bool:
    return any(labels.get(key) == value for key, value in GPU_NODE.items())


def plan(params: t.Mapping[str, t.Any], version: str, nodes: list[Object], kubernetes: str) -> Plan:
    """What the module's options ask of these nodes.

    :arg version: of the chart.
    :arg kubernetes: the API server's version.
    :raises TenancyError: with all ``problems``.
    """
    provider = PROVIDERS[params["provider"]]
    known = {node["metadata"]["name"]: labels_of(node) for node in nodes}
    dra = _at(params["values"], "gpuCluster", "deployCR") is True
    problems: list[str] = []
    if not re.fullmatch(provider.pattern, version):
        problems.append(f"version: {version} is not a version of the chart {provider.chart}, such as {provider.version}.")
    problems += _unknown("nodes", params["nodes"], known)
    if provider.name == "gpu_operator" and params["nodes"]:
        problems.append("nodes: the GPU operator finds and labels the nodes with GPUs itself.")
    # Who finds nodes with GPUs only after its installation is not asked beforehand.
    finds = provider.name == "gpu_operator" or params["gpu_feature_discovery"]
    with_gpus = {name for name, labels in known.items() if finds or is_gpu_node(labels) or name in params["nodes"]}
    if not with_gpus:
        problems.append(f"nodes: no node of the cluster is labelled {PRESENT_LABEL}=true. Name those that have GPUs.")
    expected = _expected(params["expected_gpus"], known, with_gpus, problems)
    groups = _groups(params["sharing"], known, with_gpus, problems)
    if any(group.strategy == "mps" for group in groups):
        problems += _mps_problems(provider, version, params["mig_strategy"])
    if dra:
        problems += _dra_problems(params)
    problems += _limits(provider, version, dra, kubernetes, _driver(known.values()) or params["driver_version"])
    refuse(problems)
    wanted: dict[str, Labels] = {name: {PRESENT_LABEL: "true"} for name in params["nodes"]}
    for group in groups:
        more = {CONFIG_LABEL: group.name}
        if group.strategy == "mps" and not params["gpu_feature_discovery"]:
            # Feature discovery sets it by the configuration, to false elsewhere.
            more[MPS_LABEL] = "true"
        for node in group.nodes:
            wanted[node] = wanted.get(node, {}) | more
    values = _values(provider, groups, params["mig_strategy"], params["gpu_feature_discovery"])
    return Plan(deep_merge(values, params["values"]), tuple(groups), wanted, expected, dra)


# --- options -----------------------------------------------------------------------------------------------------


def _unknown(path: str, names: t.Iterable[str], known: t.Iterable[str]) -> list[str]:
    have = f"The cluster's nodes: {', '.join(sorted(known)) or 'none'}."
    return [f"{path}: {name} is not a node of the cluster. {have}" for name in names if name not in known]


def _whole(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _expected(given: Values, known: dict[str, Labels], with_gpus: set[str], problems: list[str]) -> dict[str, int]:
    found = {}
    for name, gpus in given.items():
        path = f"expected_gpus.{name}"
        if isinstance(gpus, list) and all(isinstance(uuid, str) and _UUID.fullmatch(uuid) for uuid in gpus):
            found[name] = len(set(gpus))
        elif _whole(gpus) and gpus >= 0:
            found[name] = gpus
        else:
            problems.append(f"{path}: must be a number of GPUs or the list of their UUIDs, as nvidia-smi -L shows them.")
        if name not in known:
            problems += _unknown(path, [name], known)
        elif name not in with_gpus:
            problems.append(f"{path}: the node is not labelled {PRESENT_LABEL}=true. Name it in nodes.")
    return found


def _groups(given: list[t.Any], known: dict[str, Labels], with_gpus: set[str], problems: list[str]) -> list[Group]:
    groups: list[Group] = []
    taken: dict[str, str] = {}
    for index, item in enumerate(given):
        path = f"sharing[{index}]"
        allowed = ("name", "nodes", "labels", *STRATEGIES)
        if not isinstance(item, dict):
            problems.append(f"{path}: must be a dictionary of {', '.join(allowed)}.")
            continue
        problems += [f"{path}.{key}: unknown key. Allowed here: {', '.join(allowed)}." for key in item if key not in allowed]
        name = _group_name(item.get("name"), [group.name for group in groups], path, problems)
        asked = [strategy for strategy in STRATEGIES if strategy in item]
        if len(asked) != 1:
            problems.append(f"{path}: give either time_slicing or mps: a GPU can be shared in one way only.")
        replicas = [_replicas(item[strategy], f"{path}.{strategy}", problems) for strategy in asked]
        members = _members(item, path, known, with_gpus, problems)
        for node in members:
            if node in taken:
                problems.append(f"{path}: node {node} is in {taken[node]} already.")
            taken.setdefault(node, path)
        groups.append(Group(name, asked[0] if asked else "", replicas[0] if replicas else 0, tuple(members)))
    return groups


def _group_name(name: t.Any, others: list[str], path: str, problems: list[str]) -> str:
    if not isinstance(name, str) or not _LABEL_VALUE.fullmatch(name):
        problems.append(
            f"{path}.name: {name!r} cannot be a label's value: at most 63 letters, digits, '-', '_' and '.', the first and the "
            "last a letter or digit."
        )
    elif name == DEFAULT:
        problems.append(f"{path}.name: {name} is the configuration of the nodes that are in no group. Choose another name.")
    elif name in others:
        problems.append(f"{path}.name: {name} is the name of sharing[{others.index(name)}] already.")
    return str(name)


def _replicas(given: t.Any, path: str, problems: list[str]) -> int:
    if not isinstance(given, dict) or given.keys() != {"replicas"}:
        problems.append(f"{path}: must be a dictionary with the key replicas only.")
        return 0
    if not _whole(given["replicas"]) or given["replicas"] < 2:
        problems.append(f"{path}.replicas: {given['replicas']!r} is not a whole number of 2 or more.")
        return 0
    return int(given["replicas"])


def _members(item: Object, path: str, known: dict[str, Labels], with_gpus: set[str], problems: list[str]) -> list[str]:
    """The nodes of a group, in order."""
    if len(item.keys() & {"nodes", "labels"}) != 1:
        problems.append(f"{path}: say which nodes, either by nodes (a list of names) or by labels (a dictionary).")
        return []
    if "labels" in item:
        wanted = item["labels"]
        if not isinstance(wanted, dict) or not wanted or not all(isinstance(value, str) for value in wanted.values()):
            problems.append(f"{path}.labels: must be a dictionary of labels whose values are strings.")
            return []
        found = sorted(name for name in with_gpus if wanted.items() <= known[name].items())
        if not found:
            problems.append(f"{path}.labels: no node with GPUs has them all.")
        return found
    names = item["nodes"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        problems.append(f"{path}.nodes: must be a list of names.")
        return []
    problems += _unknown(f"{path}.nodes", names, known)
    problems += [
        f"{path}.nodes: {name} is not labelled {PRESENT_LABEL}=true. If it has GPUs, name it in nodes."
        for name in names
        if name in known and name not in with_gpus
    ]
    return sorted({name for name in names if name in with_gpus})


def _mps_problems(provider: Provider, version: str, mig_strategy: str) -> list[str]:
    problems = []
    if provider.name == "device_plugin" and _number(version) < _number(MPS_SINCE):
        problems.append(f"version: the chart {provider.chart} {version} knows no MPS. It does from {MPS_SINCE} on.")
    if mig_strategy != "none":
        problems.append(f"mig_strategy: with {mig_strategy} there is no sharing by MPS, which does not work on GPUs in MIG mode.")
    return problems


def _dra_problems(params: t.Mapping[str, t.Any]) -> list[str]:
    problems = []
    if params["provider"] != "gpu_operator":
        problems.append("values.gpuCluster: only the chart gpu-operator knows it. Set provider to gpu_operator.")
    if _at(params["values"], "clusterPolicy", "deployCR") is not False:
        problems.append("values.clusterPolicy.deployCR: has to be false, because DRA takes the place of the device plugin.")
    if params["sharing"]:
        problems.append("sharing: with DRA, claims say how a GPU is shared, and there is no device plugin to tell.")
    return problems


# --- versions ----------------------------------------------------------------------------------------------------


def _number(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _driver(nodes: t.Iterable[Labels]) -> str:
    """The oldest driver of these nodes, as feature discovery labelled them; empty where it did not."""
    parts = ("major", "minor", "rev")
    found = [
        labels.get("nvidia.com/cuda.driver-version.full")
        or ".".join(filter(None, (labels.get(f"nvidia.com/cuda.driver.{part}") for part in parts)))
        for labels in nodes
    ]
    return min(filter(None, found), key=_number, default="")


def _limits(provider: Provider, version: str, dra: bool, kubernetes: str, driver: str) -> list[str]:
    problems = []
    for limit in LIMITS:
        if limit.provider != provider.name or not version.startswith(limit.series) or (limit.dra and not dra):
            continue
        what = f"{provider.title} {version}" + (" with DRA" if limit.dra else "")
        first, last = limit.kubernetes
        running = _number(kubernetes)
        # 1.36 as the last one includes 1.36.4.
        if running < _number(first) or (last and running[: len(_number(last))] > _number(last)):
            span = f"from {first}" + (f" to {last}" if last else " on")
            problems.append(f"version: {what} works with Kubernetes {span}, and the cluster has {kubernetes} ({limit.source}).")
        if limit.driver and driver and _number(driver) < _number(limit.driver):
            problems.append(f"version: {what} needs a driver from {limit.driver} on, and a node has {driver} ({limit.source}).")
        elif limit.dra and not driver:
            problems.append(f"driver_version: {what} needs a driver from {limit.driver} on, and no node's labels tell its own.")
    return problems


# --- values ------------------------------------------------------------------------------------------------------


def _values(provider: Provider, groups: list[Group], mig_strategy: str, gpu_feature_discovery: bool) -> Values:
    configs = {DEFAULT: "version: v1"} | {group.name: group.config for group in groups} if groups else {}
    if provider.name == "gpu_operator":
        # What the host has by docker_nvidia_runtime and its own packages, the operator must not install again.
        values: Values = {part: {"enabled": False} for part in ("driver", "toolkit", "dcgmExporter")}
        values |= {
            "nfd": {"enabled": True},
            "gfd": {"enabled": gpu_feature_discovery},
            "mig": {"strategy": mig_strategy},
            "daemonsets": {"tolerations": _TOLERATIONS},
            "node-feature-discovery": {"worker": {"tolerations": _TOLERATIONS}},
        }
        if configs:
            config = {"create": True, "name": "kubegpu-device-plugin", "default": DEFAULT, "data": configs}
            values["devicePlugin"] = {"config": config}
        return values
    values = {"runtimeClassName": "nvidia", "migStrategy": mig_strategy, "tolerations": _TOLERATIONS}
    if gpu_feature_discovery:
        values |= {"gfd": {"enabled": True}, "nfd": {"worker": {"tolerations": _TOLERATIONS}}}
    if configs:
        # Named, because a chart with configurations it does not read otherwise gives its pods CAP_SYS_ADMIN.
        values |= {"config": {"default": DEFAULT, "map": configs}, "deviceListStrategy": "envvar"}
    return values


def has_configs(values: Values) -> bool:
    """Whether the device plugin's chart makes pods that choose among configurations, as sharing needs."""
    return bool(_at(values, "config", "map") or _at(values, "config", "name"))


def replicas_of(values: Values, labels: Labels) -> int:
    """How many pods share a GPU of a node, by the values of an installed release."""
    config = _at(values, "config") or _at(values, "devicePlugin", "config")
    texts = _at(config, "map") or _at(config, "data")
    text = _at(texts, labels.get(CONFIG_LABEL) or str(_at(config, "default")))
    found = re.search(r"^ *replicas: *(\d+)", text, re.MULTILINE) if isinstance(text, str) else None
    return int(found[1]) if found else 1


def uses_dra(values: Values) -> bool:
    return _at(values, "gpuCluster", "deployCR") is True


def _at(values: t.Any, *keys: str) -> t.Any:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


# --- labels ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Relabel:
    """Labels of a node that change.

    :ivar before: what they are, None for what is not there; ``after`` what they become.
    :ivar noted: what the node's annotation says is ours, as text; ``owned`` what will be.
    """

    node: str
    before: dict[str, str | None]
    after: dict[str, str | None]
    noted: str | None
    owned: Labels

    @property
    def changes(self) -> list[Change]:
        if not self.before:
            return [(f"{self.node} annotation {NOTE}", self.noted, _note(self.owned))]
        return [(f"{self.node} label {key}", self.before[key], self.after[key]) for key in sorted(self.before)]

    @property
    def retirement(self) -> Object:
        """The patch that takes off what changes, so that no node names a configuration that is about to go."""
        gone = {key: None for key, value in self.before.items() if value is not None}
        return _patch(gone, {key: value for key, value in self.owned.items() if key not in self.before}) if gone else {}

    @property
    def patch(self) -> Object:
        return _patch(self.after, self.owned)


def _note(owned: Labels) -> str | None:
    return json.dumps(owned, sort_keys=True) if owned else None


def _patch(labels: t.Mapping[str, str | None], owned: Labels) -> Object:
    return {"metadata": {"labels": dict(labels), "annotations": {NOTE: _note(owned)}}}


def relabels(nodes: list[Object], wanted: dict[str, Labels]) -> list[Relabel]:
    """What changes for the nodes to have these labels of ours and no others of ours.

    A label is ours when we put it there and nobody changed it since. What others put there stays, and satisfies what is wanted
    where it says the same.

    :raises TenancyError: where somebody else's label says something else than wanted, with all ``problems``.
    """
    found, problems = [], []
    for node in nodes:
        name, labels = node["metadata"]["name"], labels_of(node)
        noted = (node["metadata"].get("annotations") or {}).get(NOTE)
        owned = {key: value for key, value in _read_note(noted).items() if labels.get(key) == value}
        due = wanted.get(name, {})
        after: dict[str, str | None] = {key: None for key in owned if key not in due}
        for key, value in due.items():
            if key in labels and labels[key] != value and key not in owned:
                problems.append(
                    f"node {name} has the label {key}={labels[key]}, which is not ours, and {value} is wanted. Remove the label, "
                    "or leave the node out."
                )
            elif labels.get(key) != value:
                after[key] = value
        owned = {key: value for key, value in (owned | after).items() if value is not None}
        if after or _note(owned) != noted:
            found.append(Relabel(name, {key: labels.get(key) for key in after}, after, noted, owned))
    refuse(problems)
    return found


def _read_note(text: str | None) -> Labels:
    try:
        noted = json.loads(text or "{}")
    except ValueError:
        # Somebody's hand was in it: then nothing is known to be ours.
        return {}
    return noted if isinstance(noted, dict) else {}


# --- what is in the cluster --------------------------------------------------------------------------------------


def rivals(provider: Provider, namespace: str, daemon_sets: list[Object], deployments: list[Object]) -> list[str]:
    """Other device plugins, each as a phrase: two would offer the same GPUs twice."""
    found = []
    for item in [*daemon_sets, *deployments]:
        name = _offers(item)
        mine = name == provider.title and item["metadata"]["namespace"] == namespace
        if provider.name == "device_plugin":
            mine = mine and labels_of(item).get("app.kubernetes.io/instance") == provider.release
        if name and not mine:
            found.append(f"{name} ({item['kind']} {item['metadata']['name']} in namespace {item['metadata']['namespace']})")
    return found


def _offers(item: Object) -> str:
    """By what a DaemonSet or Deployment comes, where it is a device plugin or what brings one."""
    labels = labels_of(item)
    inner = labels_of(item["spec"]["template"])
    if labels.get("app") == "nvidia-device-plugin-daemonset" or labels.get("app.kubernetes.io/component") == "gpu-operator":
        return PROVIDERS["gpu_operator"].title
    if labels.get("app.kubernetes.io/name") == PROVIDERS["device_plugin"].chart:
        return PROVIDERS["device_plugin"].title
    return "NVIDIA's device plugin from its static manifest" if inner.get("name") == "nvidia-device-plugin-ds" else ""


def holders(pods: list[Object], node: str) -> list[str]:
    """The pods that hold GPUs of a node."""
    return sorted(
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if pod["spec"].get("nodeName") == node and held(pod)
    )


def offered(node: Object) -> int:
    """GPUs a node offers to pods."""
    return int(node.get("status", {}).get("allocatable", {}).get(GPU_RESOURCE, 0))


def mig_devices(node: Object) -> int:
    """Parts of GPUs a node offers under names of their own, as with the MIG strategy mixed."""
    allocatable = node.get("status", {}).get("allocatable", {})
    return sum(int(count) for name, count in allocatable.items() if name.startswith("nvidia.com/mig-"))


def in_slices(slices: list[Object], node: str) -> int:
    """GPUs of a node in the ResourceSlices of NVIDIA's DRA driver."""
    return sum(
        len(item["spec"].get("devices") or [])
        for item in slices
        if item["spec"].get("driver") == DRA_DRIVER and item["spec"].get("nodeName") == node
    )
