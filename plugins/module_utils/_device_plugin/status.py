# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judgement of live objects: who offers GPUs, how many, and what is missing. Pure functions over objects of the API."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import GPU_RESOURCE
from .._common.ownership import labels_of
from .._common.pods import is_ready, pod_problems
from .._common.quantity import devices
from .._common.text import shown
from .._common.values import JsonObject, Values, value_at
from .._nodes.facts import DRA_DRIVER
from .._nodes.status import held, offered
from .facts import FAILED, GPU_NODE, OPERAND_LABELS, PLUGIN_APP, PROVIDERS, Provider


def is_gpu_node(labels: t.Mapping[str, str]) -> bool:
    """Tell whether the device plugin's chart brings its pods to a node with these labels."""
    return any(labels.get(key) == value for key, value in GPU_NODE.items())


def is_kept_off(provider: Provider, labels: t.Mapping[str, str]) -> bool:
    """Tell whether a provider brings no pods to a node with these labels, though it has GPUs."""
    return provider.name == "gpu_operator" and any(labels.get(key) == "false" for key in OPERAND_LABELS)


def rivals(provider: Provider, namespace: str, daemon_sets: list[JsonObject], deployments: list[JsonObject]) -> list[str]:
    """List other device plugins than the provider's in its namespace, each as a phrase: two would offer the same GPUs twice."""
    found = []
    for item in [*daemon_sets, *deployments]:
        name = _origin(item)
        owned = name == provider.title and item["metadata"]["namespace"] == namespace
        if provider.name == "device_plugin":
            owned = owned and labels_of(item).get("app.kubernetes.io/instance") == provider.release
        if name and not owned:
            found.append(f"{name} ({item['kind']} {item['metadata']['name']} in namespace {item['metadata']['namespace']})")
    return found


def _origin(item: JsonObject) -> str:
    """Return what installed a DaemonSet or Deployment that is a device plugin or brings one; empty for all others."""
    labels = labels_of(item)
    inner = labels_of(item["spec"]["template"])
    if labels.get("app") == PLUGIN_APP or labels.get("app.kubernetes.io/component") == "gpu-operator":
        return PROVIDERS["gpu_operator"].title
    if labels.get("app.kubernetes.io/name") == PROVIDERS["device_plugin"].chart:
        return PROVIDERS["device_plugin"].title
    return "NVIDIA's device plugin from its static manifest" if inner.get("name") == "nvidia-device-plugin-ds" else ""


def holders(pods: list[JsonObject], node: str) -> list[str]:
    """Return the pods that hold GPUs of a node, as namespace/name."""
    return sorted(
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if pod["spec"].get("nodeName") == node and held(pod)
    )


def mig_devices(node: JsonObject) -> int:
    """Return the parts of GPUs that a node offers under names of their own, as with the MIG strategy mixed."""
    allocatable = node.get("status", {}).get("allocatable", {})
    return sum(devices(count) for name, count in allocatable.items() if name.startswith("nvidia.com/mig-"))


def in_slices(slices: list[JsonObject], node: str) -> int:
    """Return the GPUs of a node in the ResourceSlices of NVIDIA's DRA driver."""
    return sum(
        len(item["spec"].get("devices") or [])
        for item in slices
        if item["spec"].get("driver") == DRA_DRIVER and item["spec"].get("nodeName") == node
    )


@dataclasses.dataclass(frozen=True)
class Offer:
    """What nodes offer.

    :ivar gpus: by node that is labelled as having GPUs, how many it offers.
    :ivar missing: what is not as it should be, a phrase each; empty when nothing.
    """

    gpus: dict[str, int]
    missing: list[str]


def judge_offer(
    provider: Provider,
    wanted: dict[str, int],
    nodes: list[JsonObject],
    daemon_sets: list[JsonObject],
    pods: list[JsonObject],
    slices: list[JsonObject] | None,
) -> Offer:
    """Judge whether the nodes offer what they should, by the plugin as it was last configured.

    :arg wanted: by node, how many GPUs it has to offer; every other node that the provider serves has to offer at least one.
    :arg daemon_sets: the provider's, and ``pods`` theirs.
    :arg slices: ResourceSlices where GPUs are offered by Dynamic Resource Allocation, else None.
    """
    gpus: dict[str, int] = {}
    missing = []
    kept_off = set()
    for node in nodes:
        name, labels = node["metadata"]["name"], labels_of(node)
        if not is_gpu_node(labels):
            continue
        if is_kept_off(provider, labels):
            kept_off.add(name)
            continue
        gpus[name] = offered(node) if slices is None else in_slices(slices, name)
        enough = gpus[name] == wanted[name] if name in wanted else gpus[name] or mig_devices(node)
        if not enough:
            missing.append(f"{name} offers {gpus[name]} of {wanted.get(name, 'some')} GPUs")
    missing += [f"{name} is not labelled as having GPUs" for name in sorted(wanted.keys() - gpus.keys() - kept_off)]
    if not gpus and not kept_off:
        missing.append("no node is labelled as having GPUs")
    missing += [problem for problem in map(_unready, daemon_sets) if problem]
    return Offer(gpus, missing + pod_problems(pods) if missing else [])


def _unready(daemon_set: JsonObject) -> str:
    status = daemon_set.get("status", {})
    desired = status.get("desiredNumberScheduled", 0)
    current = status.get("observedGeneration") == daemon_set["metadata"].get("generation")
    ready = min(status.get("numberReady", 0), status.get("updatedNumberScheduled", 0))
    return "" if current and ready >= desired else f"{ready} of {desired} pods of {daemon_set['metadata']['name']} are ready"


def unread(daemon_sets: list[JsonObject], values: Values) -> list[str]:
    """List the DaemonSets of the operator that do not read the configurations of its values yet, a phrase each.

    The operator changes them some seconds after its release, and until then nodes offer what they did before.
    """
    wanted = str(value_at(values, "devicePlugin.config.name") or "")
    found = []
    for item in daemon_sets:
        pod = item["spec"]["template"].get("spec") or {}
        read = {(volume.get("configMap") or {}).get("name") for volume in pod.get("volumes") or []}
        chooses = any(container["name"] == "config-manager" for container in pod.get("containers") or [])
        if labels_of(item).get("app") == PLUGIN_APP and (chooses != bool(wanted) or (wanted and wanted not in read)):
            found.append(f"{item['metadata']['name']} is not yet as the release asks for")
    return found


def complaints(policies: list[JsonObject]) -> list[str]:
    """List what the operator says that it cannot do, a phrase each."""
    return [
        f"ClusterPolicy {item['metadata']['name']}: {shown(str(condition.get('message')))}"
        for item in policies
        for condition in (item.get("status") or {}).get("conditions") or []
        if condition.get("reason") == FAILED and condition.get("status") == "True"
    ]


def still_offered(nodes: list[JsonObject]) -> list[str]:
    """List the nodes that still offer GPUs, a phrase each.

    Nodes that are down are left out: it is not known what they will offer, and no pod is placed there.
    """
    left = {node["metadata"]["name"]: offered(node) for node in nodes if is_ready(node)}
    return [f"{name} still offers {gpus} {GPU_RESOURCE}" for name, gpus in left.items() if gpus]
