# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Show the queues of a cluster as users write them, with what is allocated and requested."""

from __future__ import annotations

import collections
import decimal
import typing as t

from .._common.names import GPU_RESOURCE
from .._common.ownership import is_owned
from .._common.parties import Unread, each
from .._common.quantity import MOST, quantity
from .._common.text import shown
from .._common.values import JsonObject
from .facts import AMOUNTS, RESOURCES, TEXTS
from .values import fields, from_live, levels, readable, spec_of, used_to_users

# Keys of the overview, and the status' names for them.
_USES = {"allocated": "allocated", "allocated_non_preemptible": "allocatedNonPreemptible", "requested": "requested"}


# Levels below a root that are shown below it; KAI Scheduler has two, or any number. What is deeper stands beside the roots, with its parent.
_DEEPEST = 20


def counted(
    objects: t.Iterable[JsonObject], pod_groups: t.Iterable[JsonObject], gpu_resource: str = GPU_RESOURCE
) -> tuple[list[JsonObject], list[Unread]]:
    """Return live queues with what the pod groups in them and below them use as their status, and what could not be read.

    Only GPUs, CPU and memory are counted: a tenant decides how many other names its pod groups have, for each of its queues.

    The status that KAI Scheduler writes leaves out pod groups without a label for the queue, such as those of Deployments with v0.12.0, though
    they count for quotas and limits (seen on 2026-11-25).

    :arg gpu_resource: the extended resource that counts as gpu.
    """
    names = {gpu_resource, *RESOURCES}
    queues, unread = readable(objects)
    groups, more = each(pod_groups, _group_name, lambda group: _use(group, names))
    tree = from_live(queues)
    use: dict[str, dict[str, dict[str, decimal.Decimal]]] = {
        name: {field: collections.defaultdict(decimal.Decimal) for field in _USES.values()} for name in tree
    }
    for queue, amounts in groups:
        if queue in use:
            _add(use[queue], amounts)
    # From the leaves up: each queue hands all of its own to its parent, once.
    order = levels(tree)
    for name in sorted(tree, key=lambda name: -order[name]):
        parent = tree[name].parent
        if parent is not None and parent in tree and order[parent] < order[name]:
            _add(use[parent], use[name])
    return [item | {"status": use[item["metadata"]["name"]]} for item in queues], [*unread, *more]


def _group_name(group: JsonObject) -> str:
    return f"pod group {group['metadata'].get('namespace', '')}/{group['metadata']['name']}"


def _use(group: JsonObject, names: t.Collection[str]) -> tuple[str, dict[str, dict[str, decimal.Decimal]]]:
    """Return a pod group's queue, and what it uses of some resources of it.

    :raises ValueError: and others, where it has not the form of a PodGroup.
    """
    amounts = (group.get("status") or {}).get("resourcesStatus") or {}
    return str((group.get("spec") or {}).get("queue") or ""), {
        field: {resource: quantity(amount) for resource, amount in (amounts.get(field) or {}).items() if resource in names}
        for field in _USES.values()
    }


def _add(to: t.Mapping[str, dict[str, decimal.Decimal]], amounts: t.Mapping[str, t.Mapping[str, decimal.Decimal]]) -> None:
    for field, of_resource in amounts.items():
        for resource, amount in of_resource.items():
            to[field][resource] = min(to[field][resource] + amount, decimal.Decimal(MOST))


def overview(objects: t.Iterable[JsonObject], gpu_resource: str) -> list[JsonObject]:
    """Return live queues as a tree like the one users write, with their use in the same units.

    :arg objects: as ``counted`` or ``readable`` returned them.
    :arg gpu_resource: the extended resource that counts as gpu.
    """
    live = {item["metadata"]["name"]: item for item in objects}
    order = levels(from_live(live.values()))
    rows = {name: _row(item, gpu_resource) for name, item in sorted(live.items())}
    roots: list[JsonObject] = []
    for name, row in rows.items():
        parent = str(spec_of(live[name]).get("parentQueue") or "")
        # The scheduler ignores a queue whose parent does not exist, or that is above itself; it is shown all the same.
        below = parent in rows and order[parent] < order[name] and (order[name] - 1) % _DEEPEST
        (rows[parent]["children"] if below else roots).append(row)
    return roots


def _row(item: JsonObject, gpu_resource: str) -> JsonObject:
    said, status = fields(spec_of(item)), item.get("status") or {}
    row: JsonObject = {"name": shown(item["metadata"]["name"]), "owned": is_owned(item), "priority": said["priority"]}
    row |= {key: None if said[key] is None else shown(said[key]) for key in ("parent", *TEXTS)}
    for resource in RESOURCES:
        row[resource] = {key: said[f"{resource}.{key}"] for key in AMOUNTS}
        counted = gpu_resource if resource == "gpu" else resource
        for use, field in _USES.items():
            row[resource][use] = used_to_users(resource, (status.get(field) or {}).get(counted, 0))
    return row | {"children": []}
