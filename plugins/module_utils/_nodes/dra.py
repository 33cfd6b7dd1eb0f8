# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Count the GPUs that drivers of Dynamic Resource Allocation (DRA) offer as an extended resource (KEP-5004).

A DeviceClass names the extended resource by which pods ask for its devices without a claim, such as ``nvidia.com/gpu``. The API server
keeps that name only where its feature gate DRAExtendedResource is on. Nodes do not count these devices: ResourceSlices do.
"""

from __future__ import annotations

import collections
import re
import typing as t

from .._common.errors import FORBIDDEN, ApiError
from .._common.names import GPU_RESOURCE
from .._common.values import JsonObject, value_at
from .facts import DEVICE_CLASS, DRA_DRIVER, GPU_PRESENT_LABEL, RESOURCE_SLICE
from .status import offered

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube

# What a selector demands of a device, by CEL: its driver, or one of its attributes as text.
_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_ATTRIBUTE = re.compile(r"""device\.attributes\[["']([^"']+)["']\]\.(\w+)\s*==\s*["']([^"']*)["']""")
# An expression with one of these can be true though a part of it is false.
_NO_DEMANDS = re.compile(r"\|\||!(?!=)|\?|//")


class Demands(t.NamedTuple):
    """What a DeviceClass demands of a device, as far as it is read.

    :ivar drivers: which all have to be the device's.
    :ivar attributes: domain, name and text of each.
    """

    drivers: frozenset[str]
    attributes: frozenset[tuple[str, str, str]]


def list_nodes(kube: Kube, resource: str = GPU_RESOURCE) -> list[JsonObject]:
    """Read the nodes of a cluster, with what drivers of DRA offer of the resource, see ``with_devices``.

    Without the right to list DeviceClasses and ResourceSlices, there are none; preflight names the right.
    """
    nodes, slices = kube.list("v1", "Node"), _allowed(kube, RESOURCE_SLICE)
    return with_devices(nodes, offering(_allowed(kube, DEVICE_CLASS), resource), slices, resource) if slices else nodes


def _allowed(kube: Kube, kind: tuple[str, str]) -> list[JsonObject]:
    try:
        return kube.list(*kind)
    except ApiError as exc:
        if exc.status != FORBIDDEN:
            raise
        return []


def offering(classes: t.Iterable[JsonObject], resource: str = GPU_RESOURCE) -> JsonObject | None:
    """Return the DeviceClass whose devices pods get by asking for an extended resource; None where there is none.

    Of several, it is the newest, and of equally old ones that with the first name
    (k8s.io/dynamic-resource-allocation, deviceclass/extendedresourcecache).
    """
    found = sorted((item for item in classes if _resource_of(item) == resource), key=lambda item: str(item["metadata"]["name"]))
    return max(found, key=lambda item: str(item["metadata"].get("creationTimestamp") or ""), default=None)


def other_names(classes: t.Iterable[JsonObject], slices: t.Iterable[JsonObject], resource: str = GPU_RESOURCE) -> dict[str, str]:
    """Return further extended resources by which pods get devices of NVIDIA's driver: the DeviceClass of each.

    :arg slices: of the driver and of others.
    """
    driver = [item for item in slices if item["spec"].get("driver") == DRA_DRIVER]
    named = {name: item for item in classes if (name := _resource_of(item)) and name != resource}
    return {name: str(item["metadata"]["name"]) for name, item in sorted(named.items()) if devices_by_node(item, driver)}


def _resource_of(device_class: JsonObject) -> str:
    return str((device_class.get("spec") or {}).get("extendedResourceName") or "")


def with_devices(
    nodes: t.Iterable[JsonObject], device_class: JsonObject | None, slices: t.Sequence[JsonObject], resource: str = GPU_RESOURCE
) -> list[JsonObject]:
    """Return the nodes, with the devices of a DeviceClass among their ``allocatable`` and ``capacity``.

    A node whose device plugin offers the resource is left as it is: there, no scheduler takes devices of a driver for it
    (kubernetes, pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go). A node of NVIDIA's driver has the label of
    nodes with GPUs, also if no class offers them: pods can ask for devices by the name of any DeviceClass.
    """
    counts = devices_by_node(device_class, slices) if device_class else {}
    gpu_nodes = {node for item in slices if item["spec"].get("driver") == DRA_DRIVER for node in _nodes_of(item)}
    return [_with(node, resource, counts.get(node["metadata"]["name"], 0), gpu_nodes) for node in nodes]


def _with(node: JsonObject, resource: str, count: int, gpu_nodes: t.Container[str]) -> JsonObject:
    metadata = node["metadata"]
    if metadata["name"] in gpu_nodes:
        node = node | {"metadata": metadata | {"labels": {GPU_PRESENT_LABEL: "true"} | (metadata.get("labels") or {})}}
    try:
        there = offered(node, resource)
    except ValueError:
        # Who reads it says so.
        return node
    if there or not count:
        return node
    status = node.get("status") or {}
    amounts = {key: (status.get(key) or {}) | {resource: str(count)} for key in ("allocatable", "capacity")}
    return node | {"status": status | amounts}


def devices_by_node(device_class: JsonObject, slices: t.Iterable[JsonObject]) -> dict[str, int]:
    """Return how many devices of a DeviceClass nodes have; nodes without one, and devices of no single node, are left out."""
    terms = demands(device_class)
    found: collections.Counter[str] = collections.Counter()
    for item in current(slices):
        spec = item["spec"]
        for device in spec.get("devices") or []:
            node = device.get("nodeName") if spec.get("perDeviceNodeSelection") else spec.get("nodeName")
            if node and selects(terms, str(spec.get("driver")), device):
                found[node] += 1
    return dict(found)


def _nodes_of(item: JsonObject) -> set[str]:
    spec = item["spec"]
    names = [spec.get("nodeName"), *(device.get("nodeName") for device in spec.get("devices") or [])]
    return {str(name) for name in names if name}


def current(slices: t.Iterable[JsonObject]) -> list[JsonObject]:
    """Return the slices of the newest generation of each pool that is complete; where none is, those of the newest."""
    pools: dict[tuple[str, str], dict[int, list[JsonObject]]] = {}
    for item in slices:
        pool = (str(item["spec"].get("driver")), str(value_at(item, "spec.pool.name")))
        pools.setdefault(pool, {}).setdefault(_whole(item, "generation"), []).append(item)
    found = []
    for generations in pools.values():
        complete = [number for number, items in generations.items() if len(items) >= _whole(items[0], "resourceSliceCount")]
        found += generations[max(complete or generations)]
    return found


def _whole(item: JsonObject, key: str) -> int:
    number = value_at(item, f"spec.pool.{key}")
    return number if isinstance(number, int) else 0


def demands(device_class: JsonObject) -> Demands:
    """Read the selectors of a DeviceClass. What it does not read demands nothing, so rather more devices count than fewer."""
    selectors = (device_class.get("spec") or {}).get("selectors") or []
    terms = [term for one in selectors if not _NO_DEMANDS.search(term := str(value_at(one, "cel.expression") or ""))]
    drivers = {name for term in terms for name in _DRIVER.findall(term)}
    return Demands(frozenset(drivers), frozenset(one for term in terms for one in _ATTRIBUTE.findall(term)))


def selects(terms: Demands, driver: str, device: JsonObject) -> bool:
    """Tell whether a device is of a class, as far as its demands are read."""
    return terms.drivers <= {driver} and all(_attribute(device, driver, *named) == text for *named, text in terms.attributes)


def _attribute(device: JsonObject, driver: str, domain: str, name: str) -> t.Any:
    """Return an attribute as text; a driver may leave its own domain out of the names of attributes."""
    attributes = device.get("attributes") or {}
    found = attributes.get(f"{domain}/{name}") or (attributes.get(name) if domain == driver else None) or {}
    return found.get("string")
