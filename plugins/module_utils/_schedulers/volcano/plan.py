# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Compare the queues of Volcano that are wanted with those in a cluster, and list the writes that are needed. Pure."""

from __future__ import annotations

import typing as t

from ..._common.errors import TenancyError
from ..._common.ownership import MANAGER, OWNED_LABELS, is_owned, labels_of, last_write
from ..._common.parties import each
from ..._common.text import legible
from ..._common.values import JsonObject, merge_patch
from ..._queues.lifecycle import MOST_UNREAD
from ..._queues.plan import Change
from .facts import CAPABILITY, COMPLETED, DESERVED, OWN_QUEUES
from .values import manifest

if t.TYPE_CHECKING:
    from ..._queues.values import Queue

# Keys of a queue's spec that this collection writes.
_PLAIN, _AMOUNTS = ("weight", "reclaimable"), (DESERVED, CAPABILITY)


def plan(wanted: t.Mapping[str, Queue], live: t.Iterable[JsonObject]) -> list[Change]:
    """Return the writes after which a cluster has these queues, and no other one that this collection made.

    :arg live: queues of the cluster.
    :raises TenancyError: where some cannot be read. In a virtual cluster its administrator decides what the API serves as a queue.
    """
    readable, unread = each(live, lambda item: f"queue {item['metadata']['name']}", _checked)
    if unread:
        raise TenancyError("; ".join(one.sentence for one in unread[:MOST_UNREAD]))
    found = {item["metadata"]["name"]: item for item in readable}
    doomed = [item for name, item in sorted(found.items()) if is_owned(item) and name not in (*wanted, *OWN_QUEUES)]
    changes = [_change(manifest(queue), found.get(queue.name)) for queue in wanted.values()]
    deletions = [
        Change("delete", item["metadata"]["name"], legible(_said(item), lines=False), {}, {}, 1, last_write(item, ("spec",)))
        for item in doomed
    ]
    return [*filter(None, changes), *deletions]


def _change(item: JsonObject, live: JsonObject | None) -> Change | None:
    name, after = item["metadata"]["name"], _said(item)
    if live is None:
        return Change("create", name, {}, after, item, 1)
    before = _said(live)
    after["owner"], before["owner"] = MANAGER, labels_of(live).get("app.kubernetes.io/managed-by")
    differing = [key for key in {**after, **before} if before.get(key) != after.get(key)]
    if not differing:
        return None
    old, new = (legible({key: side.get(key) for key in differing}, lines=False) for side in (before, after))
    # What is not among the new amounts has to go.
    amounts = {key: merge_patch((live.get("spec") or {}).get(key) or {}, item["spec"][key]) for key in _AMOUNTS}
    patch = {"metadata": {"labels": dict(OWNED_LABELS)}, "spec": item["spec"] | amounts}
    write = last_write(live, ("spec",), ("metadata", "labels", *OWNED_LABELS))
    return Change("update", name, old, new, patch, 1, write)


def _said(item: JsonObject) -> JsonObject:
    """Return what a queue says of the keys that this collection writes, an amount as ``deserved nvidia.com/gpu``."""
    spec = item.get("spec") or {}
    amounts = {f"{key} {resource}": amount for key in _AMOUNTS for resource, amount in (spec.get(key) or {}).items()}
    return {key: spec.get(key) for key in _PLAIN} | amounts


def _checked(item: JsonObject) -> JsonObject:
    """Return an object of the form of a queue.

    :raises ValueError: where it has another form.
    """
    spec = item.get("spec") or {}
    if not isinstance(spec, dict) or not all(isinstance(spec.get(key) or {}, dict) for key in _AMOUNTS):
        raise ValueError("its spec has not the form of a queue's")
    return item


def groups_in_use(names: t.Collection[str], groups: t.Iterable[JsonObject]) -> dict[str, list[str]]:
    """Return the pod groups with work to do, as namespace/name, by queue, for these queues.

    A queue's own status counts its pod groups up to 1.10 only (pkg/controllers/queue).

    :arg groups: pod groups of the cluster.
    """
    busy: dict[str, list[str]] = {}
    named_groups, _unread = each(groups, lambda item: item["metadata"]["name"], _queue_and_name)
    for queue, name, done in named_groups:
        if queue in names and not done:
            busy.setdefault(queue, []).append(name)
    return busy


def _queue_and_name(group: JsonObject) -> tuple[str, str, bool]:
    """Return a pod group's queue, its namespace and name, and whether its work is done."""
    metadata = group["metadata"]
    return (
        str((group.get("spec") or {}).get("queue") or OWN_QUEUES[0]),
        f"{metadata.get('namespace', '')}/{metadata['name']}",
        (group.get("status") or {}).get("phase") == COMPLETED,
    )
