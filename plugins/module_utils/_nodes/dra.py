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

import re
import typing as t

from .._common.names import GPU_RESOURCE
from .._common.values import JsonObject, value_at
from .facts import DEVICE_CLASS, RESOURCE_SLICE
from .status import offered

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube

# What a selector demands of a device, by CEL: its driver, or one of its attributes as text. Other terms are not read.
_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_ATTRIBUTE = re.compile(r"""device\.attributes\[["']([^"']+)["']\]\.(\w+)\s*==\s*["']([^"']*)["']""")


def list_nodes(kube: Kube, resource: str = GPU_RESOURCE) -> list[JsonObject]:
    """Read the nodes of a cluster; where a driver of DRA offers the resource, ``allocatable`` and ``capacity`` of its nodes have it, too."""
    nodes = kube.list("v1", "Node")
    classes = offering(kube.list(*DEVICE_CLASS), resource)
    return with_devices(nodes, devices_by_node(classes, kube.list(*RESOURCE_SLICE)), resource) if classes else nodes


def offering(classes: t.Iterable[JsonObject], resource: str = GPU_RESOURCE) -> list[JsonObject]:
    """Return the DeviceClasses whose devices pods get by asking for an extended resource."""
    return [item for item in classes if (item.get("spec") or {}).get("extendedResourceName") == resource]


def devices_by_node(classes: t.Sequence[JsonObject], slices: t.Iterable[JsonObject]) -> dict[str, int]:
    """Return how many devices nodes have of these DeviceClasses; nodes without one are left out.

    :arg slices: ResourceSlice objects. Those of a pool's former generations do not count, nor do devices that belong to no single node.
    """
    current = [item for item in slices if item["spec"].get("nodeName")]
    newest: dict[tuple[str, str], int] = {}
    for item in current:
        newest[_pool(item)] = max(_generation(item), newest.get(_pool(item), 0))
    found: dict[str, int] = {}
    for item in current:
        if _generation(item) == newest[_pool(item)]:
            driver = item["spec"].get("driver", "")
            count = sum(any(_selected(one, driver, device) for one in classes) for device in item["spec"].get("devices") or [])
            found[item["spec"]["nodeName"]] = found.get(item["spec"]["nodeName"], 0) + count
    return {node: count for node, count in found.items() if count}


def with_devices(nodes: t.Iterable[JsonObject], counts: t.Mapping[str, int], resource: str = GPU_RESOURCE) -> list[JsonObject]:
    """Return the nodes, with the devices of drivers among their resources.

    A node whose device plugin offers the resource is left as it is: there, no scheduler takes devices of a driver for it
    (kubernetes, pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go).
    """
    return [_with(node, resource, counts.get(node["metadata"]["name"], 0)) for node in nodes]


def _with(node: JsonObject, resource: str, count: int) -> JsonObject:
    if not count or offered(node, resource):
        return node
    status = node.get("status") or {}
    amounts = {key: (status.get(key) or {}) | {resource: str(count)} for key in ("allocatable", "capacity")}
    return node | {"status": status | amounts}


def _pool(item: JsonObject) -> tuple[str, str]:
    return str(item["spec"].get("driver")), str(value_at(item, "spec.pool.name"))


def _generation(item: JsonObject) -> int:
    generation = value_at(item, "spec.pool.generation")
    return generation if isinstance(generation, int) else 0


def _selected(device_class: JsonObject, driver: str, device: JsonObject) -> bool:
    """Tell whether a device is of a class, by the driver and the attributes that its selectors name."""
    terms = [value_at(one, "cel.expression") or "" for one in (device_class["spec"].get("selectors") or [])]
    return all(
        all(name == driver for name in _DRIVER.findall(term))
        and all(_attribute(device, driver, *named) == wanted for *named, wanted in _ATTRIBUTE.findall(term))
        for term in terms
    )


def _attribute(device: JsonObject, driver: str, domain: str, name: str) -> t.Any:
    """Return an attribute as text; a driver may leave its own domain out of the names of attributes."""
    attributes = device.get("attributes") or {}
    found = attributes.get(f"{domain}/{name}") or (attributes.get(name) if domain == driver else None) or {}
    return found.get("string")
