# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Compare the queues of Volcano that are wanted with those in a cluster, and list the writes that are needed. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import Refused
from .._common.ownership import OWNED_LABELS, is_owned, labels_of, last_write
from .._common.parties import each
from .._common.schema import Problems, named
from .._common.text import legible
from .._common.values import JsonObject, Write, merge_patch
from .facts import OWN_QUEUES, UNFINISHED
from .values import manifest

if t.TYPE_CHECKING:
    from .._queues.values import Queue


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

    :arg live: queues of the cluster. What has not the form of one is left out: in a virtual cluster its administrator decides what the API serves.
    :raises Refused: where a queue that is to go has work.
    """
    readable, _unread = each(live, lambda item: f"queue {item['metadata']['name']}", _checked)
    found = {item["metadata"]["name"]: item for item in readable}
    doomed = [item for name, item in sorted(found.items()) if is_owned(item) and name not in (*wanted, *OWN_QUEUES)]
    _refuse_busy(doomed)
    changes = [_change(manifest(queue), found.get(queue.name)) for queue in wanted.values()]
    deletions = [
        Change(
            "delete", item["metadata"]["name"], "it is not wanted", legible(_said(item)), None, {}, last_write(item, ("spec",))
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
    return Change("update", name, "it differs", legible(before), after, patch, write)


def _said(item: JsonObject) -> JsonObject:
    """Return what a queue says of the keys that this collection writes."""
    spec = item.get("spec") or {}
    amounts = {key: spec.get(key) or {} for key in ("deserved", "capability")}
    return amounts | {key: spec.get(key) for key in ("weight", "reclaimable")}


def _checked(item: JsonObject) -> JsonObject:
    """Return an object of the form of a queue.

    :raises ValueError: where it has another form.
    """
    for part in (item.get("spec") or {}, item.get("status") or {}, *_said(item).values()):
        if not isinstance(part, (dict, int, type(None))):
            raise ValueError("it has not the form of a queue")
    return item


def _refuse_busy(queues: t.Iterable[JsonObject]) -> None:
    problems = Problems()
    for item in queues:
        status = item.get("status") or {}
        busy = {key: status[key] for key in UNFINISHED if isinstance(status.get(key), int) and status[key] > 0}
        if busy:
            told = ", ".join(f"{count} {key}" for key, count in busy.items())
            why = f"is not removed, because it has pod groups: {told}. End their jobs first."
            problems.add("queue-in-use", f"queues.{named(item['metadata']['name'])}", why)
    if problems:
        raise Refused("\n".join(problem.text for problem in problems), problems)
