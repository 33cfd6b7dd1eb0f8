# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Show the queues of a cluster as users write them, with what is allocated and requested."""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import is_owned
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import AMOUNTS, RESOURCES, TEXTS, Object
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import fields, spec_of, used_to_users

# Keys of the overview, and the status' names for them.
_USES = {"allocated": "allocated", "allocated_non_preemptible": "allocatedNonPreemptible", "requested": "requested"}


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
