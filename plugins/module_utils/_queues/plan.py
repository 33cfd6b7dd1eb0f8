# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Compare the queues that are wanted with those in the cluster, and list the writes that are needed."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import refusal
from .._common.names import DEFAULT_QUEUE, NODE_POOL_LABEL, QUEUE_LABEL
from .._common.ownership import MANAGER, OWNED_LABELS, is_owned, labels_of, last_write
from .._common.pods import is_ended
from .._common.text import legible
from .._common.values import JsonObject, Write
from .values import Queue, fields, from_live, levels, manifest, path_of, pool_of, spec_of

# By which users write a queue's node pool, which is a label of it.
POOL = "node_pool"


@dataclasses.dataclass(frozen=True)
class Change:
    """One write that is needed.

    :ivar verb: create, update or delete.
    :ivar before: what changes, by the keys and in the units that users write; ``after`` alike.
    :ivar body: the object to create, or the merge patch.
    :ivar level: of the queue in the tree, 1 for a root; changes of one level do not need each other.
    :ivar write: the last write of what changes; None where that is not known.
    """

    verb: str
    name: str
    before: JsonObject
    after: JsonObject
    body: JsonObject
    level: int
    write: Write | None = None

    @property
    def why(self) -> str:
        """Why it is needed: what the cluster has, and what it is to have."""
        if self.verb == "create":
            return "it does not exist"
        if self.verb == "delete":
            return "it is not wanted"
        return ", ".join(f"{key} {_text(self.before[key])} -> {_text(value)}" for key, value in self.after.items())


def _text(value: t.Any) -> str:
    return "nothing" if value is None else str(value)


def plan(wanted: dict[str, Queue], live: t.Iterable[JsonObject], state: str, remove_foreign: bool = False) -> list[Change]:
    """Return the writes that are needed, in an order that is safe: parents first, then deletions, leaves first.

    :arg live: Queue objects of the cluster.
    :arg state: present, absent, or exact, which also deletes every other queue that this collection owns.
    :arg remove_foreign: with exact, delete the queues that it does not own as well.
    :raises TenancyError: when a queue to delete has children that would stay.
    """
    current = {item["metadata"]["name"]: item for item in live}
    wanted_levels = levels(wanted)
    writes = [_write(queue, current.get(queue.name), wanted_levels[queue.name]) for queue in wanted.values()]
    if state == "exact":
        doomed = {name for name, item in current.items() if name not in wanted and (remove_foreign or is_owned(item))}
    else:
        doomed = wanted.keys() & current.keys() if state == "absent" else set()
    before = from_live(current.values())
    live_levels = levels(before)
    for queue in before.values():
        parent = wanted[queue.name].parent if queue.name in wanted else queue.parent
        if parent in doomed and queue.name not in doomed:
            raise refusal("child-cut-off", f"queues.{parent}: its child {queue.name} is not to be removed, and would be cut off.")
    deletions = [
        Change("delete", name, _shown(current[name]), {}, {}, live_levels[name], last_write(current[name], ("spec",)))
        for name in doomed
    ]
    leaves_first = sorted(deletions, key=lambda change: (-change.level, change.name))
    return [write for write in writes if write and state != "absent"] + leaves_first


def _write(queue: Queue, live: JsonObject | None, level: int) -> Change | None:
    """Return the creation or the update that a queue needs; None where it is as desired."""
    body, after = manifest(queue), fields(queue.spec) | {POOL: queue.pool or None}
    if live is None:
        return Change("create", queue.name, {}, _without_none(after), body, level)
    before = _said(live)
    after["owner"], before["owner"] = MANAGER, labels_of(live).get("app.kubernetes.io/managed-by")
    differing = [key for key in after if before[key] != after[key]]
    if not differing:
        return None
    # A merge patch removes what is None.
    labels = OWNED_LABELS | ({NODE_POOL_LABEL: queue.pool or None} if POOL in differing else {})
    patch = {"metadata": {"labels": labels}, "spec": queue.spec}
    old, new = (legible({key: side[key] for key in differing}, lines=False) for side in (before, after))
    return Change("update", queue.name, old, new, patch, level, last_write(live, *map(_path, differing)))


def _path(key: str) -> tuple[str, ...]:
    """Return where an object has what a key stands for."""
    if key in ("owner", POOL):
        return ("metadata", "labels", *OWNED_LABELS) if key == "owner" else ("metadata", "labels", NODE_POOL_LABEL)
    return ("spec", *path_of(key))


def _said(live: JsonObject) -> JsonObject:
    return fields(spec_of(live)) | {POOL: pool_of(live) or None}


def _shown(live: JsonObject) -> JsonObject:
    found: JsonObject = legible(_without_none(_said(live)), lines=False)
    return found


def _without_none(values: JsonObject) -> JsonObject:
    return {key: value for key, value in values.items() if value is not None}


def pods_in_use(names: t.Collection[str], pods: t.Iterable[JsonObject], scheduler: str) -> dict[str, list[str]]:
    """Return the pods that have not ended, as namespace/name, by queue, for these queues.

    :arg scheduler: pods that name it but no queue are work of the default queue.
    """
    by_queue: dict[str, list[str]] = {}
    for pod in pods:
        default = DEFAULT_QUEUE if pod["spec"].get("schedulerName") == scheduler else ""
        queue = labels_of(pod).get(QUEUE_LABEL, default)
        if queue in names and not is_ended(pod):
            by_queue.setdefault(queue, []).append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    return by_queue
