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

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import is_owned
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import quantity
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import AMOUNTS, RESOURCES, TEXTS, Object
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import fields, spec_of, used_to_users

# Keys of the overview, and the status' names for them.
_USES = {"allocated": "allocated", "allocated_non_preemptible": "allocatedNonPreemptible", "requested": "requested"}


def counted(objects: t.Iterable[Object], pod_groups: t.Iterable[Object]) -> list[Object]:
    """Return live queues with what the pod groups in them and below them use as their status.

    The status that KAI Scheduler writes leaves out pod groups without a label for the queue, such as those of Deployments with v0.12.0, though
    they count for quotas and limits (seen on 2026-11-25).
    """
    queues = list(objects)
    parents = {item["metadata"]["name"]: spec_of(item).get("parentQueue") for item in queues}
    use: dict[str, dict[str, dict[str, decimal.Decimal]]] = {
        name: {field: collections.defaultdict(decimal.Decimal) for field in _USES.values()} for name in parents
    }
    for group in pod_groups:
        of_group = (group.get("status") or {}).get("resourcesStatus") or {}
        for name in _with_those_above(spec_of(group).get("queue"), parents):
            for field, amounts in use[name].items():
                for resource, amount in (of_group.get(field) or {}).items():
                    amounts[resource] += quantity(amount)
    return [item | {"status": use[item["metadata"]["name"]]} for item in queues]


def _with_those_above(name: str | None, parents: t.Mapping[str, str | None]) -> t.Iterator[str]:
    seen: set[str] = set()
    while name is not None and name in parents and name not in seen:
        yield name
        seen.add(name)
        name = parents[name]


def overview(objects: t.Iterable[Object], gpu_resource: str) -> list[Object]:
    """Return the live queues as a tree like the one users write, with their use in the same units.

    :arg gpu_resource: the extended resource that counts as gpu.
    """
    live = {item["metadata"]["name"]: item for item in objects}
    rows = {name: _row(item, gpu_resource) for name, item in sorted(live.items())}
    roots: list[Object] = []
    for name, row in rows.items():
        parent = spec_of(live[name]).get("parentQueue")
        # The scheduler ignores a queue whose parent does not exist; it is shown all the same.
        (rows[parent]["children"] if parent in rows else roots).append(row)
    return roots


def _row(item: Object, gpu_resource: str) -> Object:
    shown, status = fields(spec_of(item)), item.get("status") or {}
    row: Object = {"name": item["metadata"]["name"], "owned": is_owned(item)}
    row |= {key: shown[key] for key in ("parent", "priority", *TEXTS)}
    for resource in RESOURCES:
        row[resource] = {key: shown[f"{resource}.{key}"] for key in AMOUNTS}
        counted = gpu_resource if resource == "gpu" else resource
        for use, field in _USES.items():
            row[resource][use] = used_to_users(resource, (status.get(field) or {}).get(counted, 0))
    return row | {"children": []}
