# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is refused of the module's options, every problem at once: pure functions over Node objects."""

from __future__ import annotations

import re
import typing as t

from .._common.errors import Problem, refuse
from .._common.names import GPU_UUID
from .._common.ownership import labels_of
from .._common.quantity import whole
from .._common.schema import Problems
from .._common.values import JsonObject, Values, value_at
from .._common.versions import number, within
from .._metrics.validation import reader
from .facts import (
    DEFAULT,
    LIMITS,
    MANY_REPLICAS,
    MANY_REPLICAS_WARNING,
    MPS_SINCE,
    PRESENT_LABEL,
    PROVIDERS,
    STRATEGIES,
    TIME_SLICING_WARNING,
    Provider,
)
from .status import is_gpu_node
from .values import Group, uses_dra

Labels = dict[str, str]

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_UUID = re.compile(GPU_UUID)


def validated(
    params: t.Mapping[str, t.Any], version: str, nodes: list[JsonObject], kubernetes: str
) -> tuple[tuple[Group, ...], dict[str, int], JsonObject]:
    """Return the groups of nodes that share GPUs, the GPU devices of each node for which a number was given, and who reads metrics.

    :arg version: of the chart.
    :arg kubernetes: the API server's version.
    :raises TenancyError: with all ``problems``.
    """
    provider = PROVIDERS[params["provider"]]
    known = {node["metadata"]["name"]: labels_of(node) for node in nodes}
    dra = uses_dra(params["values"])
    problems = Problems()
    if not re.fullmatch(provider.pattern, version):
        problems.add(
            "not-a-version", "version", f"{version} is not a version of the chart {provider.chart}, such as {provider.version}."
        )
    with_gpus = _nodes_with_gpus(provider, params, known, problems)
    expected = _expected(params["expected_gpus"], known, with_gpus, problems)
    groups = _groups(params["sharing"], known, with_gpus, problems)
    if any(group.strategy == "mps" for group in groups):
        problems += _mps_problems(provider, version, params["mig_strategy"])
    if dra:
        problems += _dra_problems(params)
    metrics = reader(params["metrics"], "metrics", problems)
    if metrics and provider.name != "gpu_operator":
        problems.add("not-applicable", "metrics", "are those of DCGM exporter, which comes with the GPU operator.")
    problems += limit_problems(provider, version, dra, kubernetes, _driver(known.values()) or params["driver_version"])
    refuse(problems)
    return tuple(groups), expected, metrics


# --- nodes -------------------------------------------------------------------------------------------------------


def _nodes_with_gpus(provider: Provider, params: t.Mapping[str, t.Any], known: dict[str, Labels], problems: Problems) -> set[str]:
    problems += _unknown("nodes", params["nodes"], known)
    if provider.name == "gpu_operator" and params["nodes"]:
        problems.add("not-applicable", "nodes", "the GPU operator finds and labels the nodes with GPUs itself.")
    # A provider that finds nodes with GPUs only after its installation is not asked beforehand.
    finds = provider.name == "gpu_operator" or params["gpu_feature_discovery"]
    with_gpus = {name for name, labels in known.items() if finds or is_gpu_node(labels) or name in params["nodes"]}
    if not with_gpus:
        problems.add(
            "too-few-nodes", "nodes", f"no node of the cluster is labelled {PRESENT_LABEL}=true. Name the nodes that have GPUs."
        )
    return with_gpus


def _unknown(path: str, names: t.Iterable[str], known: t.Iterable[str]) -> list[Problem]:
    have = f"The cluster's nodes: {', '.join(sorted(known)) or 'none'}."
    return [
        Problem("unknown-node", f"{path}: {name} is not a node of the cluster. {have}") for name in names if name not in known
    ]


def _whole(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _expected(given: Values, known: dict[str, Labels], with_gpus: set[str], problems: Problems) -> dict[str, int]:
    found = {}
    for name, gpus in given.items():
        path = f"expected_gpus.{name}"
        if isinstance(gpus, list) and all(isinstance(uuid, str) and _UUID.fullmatch(uuid) for uuid in gpus):
            found[name] = len(set(gpus))
        elif _whole(gpus) and gpus >= 0:
            found[name] = gpus
        else:
            problems.add("wrong-type", path, "must be a number of GPUs or the list of their UUIDs, as nvidia-smi -L shows them.")
        if name not in known:
            problems += _unknown(path, [name], known)
        elif name not in with_gpus:
            problems.add("no-gpu-node", path, f"the node is not labelled {PRESENT_LABEL}=true. Name it in nodes.")
    return found


# --- groups ------------------------------------------------------------------------------------------------------


def _groups(given: list[t.Any], known: dict[str, Labels], with_gpus: set[str], problems: Problems) -> list[Group]:
    groups: list[Group] = []
    taken: dict[str, str] = {}
    for index, item in enumerate(given):
        path = f"sharing[{index}]"
        allowed = ("name", "nodes", "labels", *STRATEGIES)
        if not isinstance(item, dict):
            problems.add("wrong-type", path, f"must be a dictionary of {', '.join(allowed)}.")
            continue
        problems += [
            Problem("unknown-key", f"{path}.{key}: unknown key. Allowed here: {', '.join(allowed)}.")
            for key in item
            if key not in allowed
        ]
        name = _group_name(item.get("name"), [group.name for group in groups], path, problems)
        asked = [strategy for strategy in STRATEGIES if strategy in item]
        if len(asked) != 1:
            problems.add("not-exactly-one", path, "give either time_slicing or mps: a GPU can be shared in one way only.")
        replicas = [_replicas(item[strategy], f"{path}.{strategy}", problems) for strategy in asked]
        members = _members(item, path, known, with_gpus, problems)
        for node in members:
            if node in taken:
                problems.add("listed-twice", path, f"node {node} is in {taken[node]} already.")
            taken.setdefault(node, path)
        groups.append(Group(name, asked[0] if asked else "", replicas[0] if replicas else 0, tuple(members)))
    return groups


def _group_name(name: t.Any, others: list[str], path: str, problems: Problems) -> str:
    if not isinstance(name, str) or not _LABEL_VALUE.fullmatch(name):
        problems.add(
            "not-a-label-value",
            f"{path}.name",
            f"{name!r} cannot be a label's value: at most 63 letters, digits, '-', '_' and '.', the first and the "
            "last a letter or digit.",
        )
    elif name == DEFAULT:
        problems.add(
            "reserved-name",
            f"{path}.name",
            f"{name} is the configuration of the nodes that are in no group. Choose another name.",
        )
    elif name in others:
        problems.add("same-name", f"{path}.name", f"{name} is the name of sharing[{others.index(name)}] already.")
    return str(name)


def _replicas(given: t.Any, path: str, problems: Problems) -> int:
    if not isinstance(given, dict) or given.keys() != {"replicas"}:
        problems.add("wrong-type", path, "must be a dictionary with the key replicas only.")
        return 0
    if not _whole(given["replicas"]) or given["replicas"] < 2:
        problems.add("not-a-whole-number", f"{path}.replicas", f"{given['replicas']!r} is not a whole number of 2 or more.")
        return 0
    return whole(given["replicas"])


def sharing_warnings(sharing: t.Iterable[JsonObject]) -> list[str]:
    """Return what is to be known of groups that share GPUs by time-slicing, whose entries are known to be right."""
    replicas = {group["name"]: group["time_slicing"]["replicas"] for group in sharing if "time_slicing" in group}
    many = (
        MANY_REPLICAS_WARNING.format(group=name, replicas=count) for name, count in replicas.items() if count >= MANY_REPLICAS
    )
    return [TIME_SLICING_WARNING, *many] if replicas else []


def _members(item: JsonObject, path: str, known: dict[str, Labels], with_gpus: set[str], problems: Problems) -> list[str]:
    """Return the names of a group's nodes, in order."""
    if len(item.keys() & {"nodes", "labels"}) != 1:
        problems.add("not-exactly-one", path, "name the nodes, either by nodes (a list of names) or by labels (a dictionary).")
        return []
    if "labels" in item:
        wanted = item["labels"]
        if not isinstance(wanted, dict) or not wanted or not all(isinstance(value, str) for value in wanted.values()):
            problems.add("wrong-type", f"{path}.labels", "must be a dictionary of labels whose values are strings.")
            return []
        found = sorted(name for name in with_gpus if wanted.items() <= known[name].items())
        if not found:
            problems.add("too-few-nodes", f"{path}.labels", "no node with GPUs has them all.")
        return found
    names = item["nodes"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        problems.add("wrong-type", f"{path}.nodes", "must be a list of names.")
        return []
    problems += _unknown(f"{path}.nodes", names, known)
    problems += [
        Problem("no-gpu-node", f"{path}.nodes: {name} is not labelled {PRESENT_LABEL}=true. If it has GPUs, name it in nodes.")
        for name in names
        if name in known and name not in with_gpus
    ]
    return sorted({name for name in names if name in with_gpus})


# --- versions ----------------------------------------------------------------------------------------------------


def _mps_problems(provider: Provider, version: str, mig_strategy: str) -> list[Problem]:
    problems = Problems()
    if provider.name == "device_plugin" and number(version) < number(MPS_SINCE):
        problems.add(
            "not-in-release", "version", f"the chart {provider.chart} {version} knows no MPS. It does from {MPS_SINCE} on."
        )
    if mig_strategy != "none":
        problems.add(
            "mps-with-mig",
            "mig_strategy",
            f"with {mig_strategy} there is no sharing by MPS, which does not work on GPUs in MIG mode.",
        )
    return problems


def _dra_problems(params: t.Mapping[str, t.Any]) -> list[Problem]:
    problems = Problems()
    if params["provider"] != "gpu_operator":
        problems.add("not-applicable", "values.gpuCluster", "only the chart gpu-operator knows it. Set provider to gpu_operator.")
    if value_at(params["values"], "clusterPolicy.deployCR") is not False:
        problems.add(
            "dra-with-device-plugin",
            "values.clusterPolicy.deployCR",
            "has to be false, because DRA takes the place of the device plugin.",
        )
    if params["sharing"]:
        problems.add(
            "dra-with-sharing",
            "sharing",
            "with DRA, claims name how a GPU is shared, and there is no device plugin that would share it.",
        )
    return problems


def _driver(nodes: t.Iterable[Labels]) -> str:
    """Return the oldest driver of these nodes, by the labels of feature discovery; empty where there are none."""
    parts = ("major", "minor", "rev")
    found = [
        labels.get("nvidia.com/cuda.driver-version.full")
        or ".".join(filter(None, (labels.get(f"nvidia.com/cuda.driver.{part}") for part in parts)))
        for labels in nodes
    ]
    return min(filter(None, found), key=number, default="")


def limit_problems(provider: Provider, version: str, dra: bool, kubernetes: str, driver: str) -> list[Problem]:
    """Return why a chart cannot work on a cluster.

    :arg dra: whether it is to use Dynamic Resource Allocation.
    :arg kubernetes: version of the API server; ``driver``, the oldest one of the nodes, empty where it is not known.
    """
    problems = Problems()
    for limit in LIMITS:
        if limit.provider != provider.name or not version.startswith(limit.series) or (limit.dra and not dra):
            continue
        what = f"{provider.title} {version}" + (" with DRA" if limit.dra else "")
        first, last = limit.kubernetes
        if not within(kubernetes, first, last):
            span = f"from {first}" + (f" to {last}" if last else " on")
            problems.add(
                "kubernetes-not-supported",
                "version",
                f"{what} works with Kubernetes {span}, and the cluster has {kubernetes} ({limit.source}).",
            )
        if limit.driver and driver and number(driver) < number(limit.driver):
            problems.add(
                "driver-too-old",
                "version",
                f"{what} needs a driver from {limit.driver} on, and a node has {driver} ({limit.source}).",
            )
        elif limit.dra and not driver:
            problems.add(
                "driver-not-known",
                "driver_version",
                f"{what} needs a driver from {limit.driver} on, and no node's labels tell its own.",
            )
    return problems
