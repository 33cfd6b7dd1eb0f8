# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Compare the queues of Volcano that are wanted with those in a cluster, and list the writes that are needed. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import Refused, TenancyError
from .._common.ownership import OWNED_LABELS, is_owned, labels_of, last_write
from .._common.parties import each
from .._common.schema import Problems, named
from .._common.text import legible, shown
from .._common.values import JsonObject, Write, merge_patch
from .facts import CAPABILITY, COMPLETED, DESERVED, OWN_QUEUES
from .values import manifest

if t.TYPE_CHECKING:
    from .._queues.values import Queue


# Queues that cannot be read, as many as an error names.
_MOST_UNREAD = 5


@dataclasses.dataclass(frozen=True)
class Change:
    """One write that is needed.

    :ivar verb: create, update or delete; ``why``, the reason.
    :ivar before: what the queue says now; None for one that is not there. ``after`` alike.
    :ivar body: the object to create, or the merge patch.
    :ivar write: the last write of what changes; None where that is not known.
    """

    verb: str
    name: str
    why: str
    before: JsonObject | None
    after: JsonObject | None
    body: JsonObject
    write: Write | None = None


def plan(wanted: t.Mapping[str, Queue], live: t.Iterable[JsonObject]) -> list[Change]:
    """Return the writes after which a cluster has these queues, and no other one that this collection made.

    :arg live: queues of the cluster.
    :raises TenancyError: where some cannot be read. In a virtual cluster its administrator decides what the API serves as a queue.
    """
    readable, unread = each(live, lambda item: f"queue {item['metadata']['name']}", _checked)
    if unread:
        raise TenancyError("; ".join(one.sentence for one in unread[:_MOST_UNREAD]))
    found = {item["metadata"]["name"]: item for item in readable}
    doomed = [item for name, item in sorted(found.items()) if is_owned(item) and name not in (*wanted, *OWN_QUEUES)]
    changes = [_change(manifest(queue), found.get(queue.name)) for queue in wanted.values()]
    deletions = [
        Change(
            "delete",
            item["metadata"]["name"],
            "it is not wanted",
            legible(_said(item), lines=False),
            None,
            {},
            last_write(item, ("spec",)),
        )
        for item in doomed
    ]
    return [*filter(None, changes), *deletions]


def _change(item: JsonObject, live: JsonObject | None) -> Change | None:
    name, after = item["metadata"]["name"], _said(item)
    if live is None:
        return Change("create", name, "it does not exist", None, after, item)
    before = _said(live)
    if before == after and labels_of(live).items() >= OWNED_LABELS.items():
        return None
    # What is not among the new amounts has to go.
    spec = {key: merge_patch(before[key], value) if isinstance(value, dict) else value for key, value in after.items()}
    patch = {"metadata": {"labels": dict(OWNED_LABELS)}, "spec": spec}
    write = last_write(live, ("spec",), ("metadata", "labels", *OWNED_LABELS))
    return Change("update", name, "it differs", legible(before, lines=False), after, patch, write)


def _said(item: JsonObject) -> JsonObject:
    """Return what a queue says of the keys that this collection writes."""
    spec = item.get("spec") or {}
    amounts = {key: spec.get(key) or {} for key in (DESERVED, CAPABILITY)}
    return amounts | {key: spec.get(key) for key in ("weight", "reclaimable")}


def _checked(item: JsonObject) -> JsonObject:
    """Return an object of the form of a queue.

    :raises ValueError: where it has another form.
    """
    spec = item.get("spec") or {}
    if not isinstance(spec, dict) or not all(isinstance(spec.get(key) or {}, dict) for key in (DESERVED, CAPABILITY)):
        raise ValueError("its spec has not the form of a queue's")
    return item


def refuse_busy(names: t.Collection[str], groups: t.Iterable[JsonObject]) -> None:
    """Refuse the removal of queues with work.

    A queue's own status counts its pod groups up to 1.10 only (pkg/controllers/queue).

    :arg groups: pod groups of the cluster.
    :raises Refused: with the groups by their names.
    """
    busy: dict[str, list[str]] = {}
    named_groups, _unread = each(groups, lambda item: item["metadata"]["name"], _queue_and_name)
    for queue, name, done in named_groups:
        if queue in names and not done:
            busy.setdefault(queue, []).append(name)
    problems = Problems()
    for queue, found in sorted(busy.items()):
        more = f" and {len(found) - _MOST_UNREAD} more" if len(found) > _MOST_UNREAD else ""
        told = ", ".join(shown(name, 120) for name in sorted(found)[:_MOST_UNREAD])
        problems.add(
            "queue-in-use",
            f"queues.{named(queue)}",
            f"is not removed, because it has pod groups: {told}{more}. End their jobs first.",
        )
    if problems:
        raise Refused("\n".join(problem.text for problem in problems), problems)


def _queue_and_name(group: JsonObject) -> tuple[str, str, bool]:
    """Return a pod group's queue, its namespace and name, and whether its work is done."""
    metadata = group["metadata"]
    return (
        str((group.get("spec") or {}).get("queue") or OWN_QUEUES[0]),
        f"{metadata.get('namespace', '')}/{metadata['name']}",
        (group.get("status") or {}).get("phase") == COMPLETED,
    )
