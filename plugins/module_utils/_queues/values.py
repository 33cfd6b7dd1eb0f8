# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Queues as objects of the API, and amounts in the units of users and of the API.

Users write devices, cores and bytes (``gpu: 0.5``, ``cpu: 500m``, ``memory: 64Gi``); the API counts devices, milli-CPU
and megabytes.
"""

from __future__ import annotations

import dataclasses
import decimal
import re
import typing as t

from .._common.forms import is_object
from .._common.names import NODE_POOL_LABEL, QUEUE_API_VERSION, QUEUE_KIND
from .._common.ownership import OWNED_LABELS, labels_of
from .._common.parties import Unread, each
from .._common.quantity import MOST, number, plain, quantity
from .._common.values import JsonObject
from .facts import AMOUNTS, DEFAULT_PRIORITY, DEFAULTS, RESOURCES, TEXTS, UNLIMITED

_BYTES = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)")
# A number of JSON that is small has a power of ten: 0.00001 is 1e-05.
_CORES = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]\d{1,2})?)(m?)")
_UNITS = {unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)} | {
    unit: 1000**power for power, unit in enumerate("kMGTP", 1)
}
_MEGABYTE = 10**6
_LEAST = number("1e-9")


@dataclasses.dataclass(frozen=True)
class Queue:
    """One queue.

    :ivar spec: that of the API object; None stands for a key that must not be there.
    :ivar pool: the node pool whose scheduler it is for; empty for that of the nodes without a label.
    """

    name: str
    parent: str | None
    spec: JsonObject
    pool: str = ""


# --- the tree ------------------------------------------------------------------------------------------------------


def leaves(queues: t.Mapping[str, Queue]) -> list[Queue]:
    """Return the queues that work is submitted to."""
    parents = {queue.parent for queue in queues.values()}
    return [queue for queue in queues.values() if queue.name not in parents]


def ancestors(queues: t.Mapping[str, Queue], name: str) -> list[Queue]:
    """Return the queue itself, its parent, and so on to the root; their number is the queue's level."""
    path: dict[str, Queue] = {}
    current = queues.get(name)
    while current is not None and current.name not in path:
        path[current.name] = current
        current = queues.get(current.parent or "")
    return list(path.values())


def levels(queues: t.Mapping[str, Queue]) -> dict[str, int]:
    """Return the level of each queue: 1 for a root and for one whose parent does not exist; in a circle, 1 for where it is entered."""
    found: dict[str, int] = {}
    for name in queues:
        path: dict[str, None] = {}
        current: str | None = name
        while current is not None and current in queues and current not in found and current not in path:
            path[current] = None
            current = queues[current].parent
        level = found.get(current or "", 0)
        for one in reversed(path):
            level += 1
            found[one] = level
    return found


def children_of(queues: t.Mapping[str, Queue]) -> dict[str | None, list[Queue]]:
    """Return the children of each parent; those of None are the roots."""
    children: dict[str | None, list[Queue]] = {}
    for queue in queues.values():
        children.setdefault(queue.parent, []).append(queue)
    return children


# --- objects of the API --------------------------------------------------------------------------------------------


def readable(objects: t.Iterable[JsonObject]) -> tuple[list[JsonObject], list[Unread]]:
    """Return the objects that have the form of a Queue, and why the others have not.

    In a virtual cluster its administrator decides what the API serves as a Queue.
    """
    return each(objects, lambda item: f"queue {item['metadata']['name']}", _checked)


def _checked(item: JsonObject) -> JsonObject:
    """Return an object of the form of a Queue.

    :raises ValueError: where it has another one.
    """
    _require(is_object(item["metadata"]["name"]), "its name is not one that Kubernetes accepts")
    spec = item.get("spec") or {}
    _require(isinstance(spec, dict), "its spec is no mapping")
    for key in ("parentQueue", *TEXTS.values()):
        _require(isinstance(spec.get(key), (str, type(None))), f"its {key} is no text")
    priority = spec.get("priority", DEFAULT_PRIORITY)
    _require(isinstance(priority, int) and not isinstance(priority, bool), "its priority is no whole number")
    resources = spec.get("resources") or {}
    _require(isinstance(resources, dict), "its resources are no mapping")
    for resource in RESOURCES:
        amounts = resources.get(resource) or {}
        _require(isinstance(amounts, dict), f"its {resource} is no mapping")
        for field in AMOUNTS.values():
            amount = amounts.get(field)
            _require(isinstance(amount, (int, float, type(None))), f"its {field} of {resource} is no number")
            if amount not in (None, -1):
                number(amount)
    return item | {"spec": spec}


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise ValueError(otherwise)


def from_live(objects: t.Iterable[JsonObject]) -> dict[str, Queue]:
    """Return objects of the API as queues, by name."""
    queues = (
        Queue(item["metadata"]["name"], spec_of(item).get("parentQueue") or None, spec_of(item), pool_of(item))
        for item in objects
    )
    return {queue.name: queue for queue in queues}


def spec_of(item: JsonObject) -> JsonObject:
    """Return an object's spec; empty where it has none."""
    return item.get("spec") or {}


def pool_of(item: JsonObject | None) -> str:
    """Return the node pool of a queue, pod, PodGroup or node, by its label; empty without one."""
    return labels_of(item).get(NODE_POOL_LABEL, "")


def manifest(queue: Queue) -> JsonObject:
    """Return the object of the API for a queue that is wanted."""
    spec = {key: value for key, value in queue.spec.items() if value is not None}
    return {
        "apiVersion": QUEUE_API_VERSION,
        "kind": QUEUE_KIND,
        "metadata": {"name": queue.name, "labels": OWNED_LABELS | ({NODE_POOL_LABEL: queue.pool} if queue.pool else {})},
        "spec": spec,
    }


def fields(spec: JsonObject) -> JsonObject:
    """Return what a spec says by the keys and in the units that users write, as ``gpu.limit``; None for what is omitted."""
    said: JsonObject = {"parent": spec.get("parentQueue"), "priority": spec.get("priority", DEFAULT_PRIORITY)}
    said |= {key: spec.get(field) for key, field in TEXTS.items()}
    for resource in RESOURCES:
        amounts = (spec.get("resources") or {}).get(resource) or {}
        for key, field in AMOUNTS.items():
            unit = "" if key == "over_quota_weight" else resource
            said[f"{resource}.{key}"] = to_users(unit, amounts.get(field))
    # An empty text says as little as none.
    return {key: None if value == "" else value for key, value in said.items()}


def path_of(key: str) -> tuple[str, ...]:
    """Return where a spec says what ``fields`` returns by a key."""
    resource, _dot, amount = key.partition(".")
    if amount:
        return "resources", resource, AMOUNTS[amount]
    return (({"parent": "parentQueue"} | TEXTS).get(key, key),)


def written(queue: Queue) -> JsonObject:
    """Return a queue as the module kai_queues takes it, with its parent, without what is as by default."""
    shown = fields(queue.spec)
    row: JsonObject = {"name": queue.name} | {key: shown[key] for key in ("parent", *TEXTS) if shown[key] is not None}
    if queue.pool and not queue.parent:
        row["node_pool"] = queue.pool
    if shown["priority"] != DEFAULT_PRIORITY:
        row["priority"] = shown["priority"]
    for resource in RESOURCES:
        # To the API, an omitted amount is nothing.
        amounts = {key: shown[f"{resource}.{key}"] or 0 for key in AMOUNTS}
        usual = {key: UNLIMITED if default == -1 else default for key, default in DEFAULTS[resource].items()}
        if differing := {key: value for key, value in amounts.items() if value != usual[key]}:
            row[resource] = differing
    return row


# --- units ---------------------------------------------------------------------------------------------------------


def to_api(resource: str, value: t.Any) -> int | float:
    """Return an amount that a user wrote in the API's unit; -1 for unlimited.

    :arg resource: gpu, cpu or memory; empty for a plain number.
    :raises ValueError: where it is no such amount.
    """
    if value == UNLIMITED and resource:
        return -1
    text = "" if isinstance(value, bool) else str(value)
    if text.startswith("-"):
        raise ValueError(f"{value} is negative. Write {UNLIMITED} for no bound." if resource else f"{value} is negative.")
    if resource == "memory":
        return _megabytes(text, value)
    if found := _CORES.fullmatch(text):
        amount = number(found[1])
        if resource == "cpu":
            return _counted(amount if found[2] else amount * 1000, value)
        if not found[2]:
            return _counted(amount, value)
    raise ValueError(
        f"{value!r} is not an amount of CPU such as 8, 0.5 or 500m (or {UNLIMITED})."
        if resource == "cpu"
        else f"{value!r} is not a number such as 2 or 0.5{f' (or {UNLIMITED})' if resource else ''}."
    )


def _counted(amount: decimal.Decimal, value: t.Any) -> int | float:
    """Return an amount in the API's unit as a number of JSON.

    :raises ValueError: where it is less than a billionth, the least that Kubernetes counts.
    """
    if 0 < amount < _LEAST:
        raise ValueError(f"{value!r} is less than anything that is counted.")
    return plain(amount)


def _megabytes(text: str, value: t.Any) -> int | float:
    if found := _BYTES.fullmatch(text):
        return _counted(number(found[1]) * _UNITS[found[2]] / _MEGABYTE, value)
    if text == "0":
        return 0
    raise ValueError(f"{value!r} is not an amount of memory such as 64Gi, 512Mi or 10G (or {UNLIMITED}).")


def to_users(resource: str, value: int | float | None) -> t.Any:
    """Return an amount of the API in the unit that users write; None is zero to the API."""
    if value is None or value == 0:
        return 0
    if value < 0:
        return UNLIMITED
    amount = number(value)
    if resource == "cpu":
        return plain(amount / 1000) if amount % 1000 == 0 else f"{amount.normalize():f}m"
    if resource == "memory":
        size = round(amount * _MEGABYTE)
        unit = next((unit for unit in ("Pi", "Ti", "Gi", "Mi", "P", "T", "G", "M", "Ki") if size % _UNITS[unit] == 0), "k")
        return f"{plain(number(size) / _UNITS[unit])}{unit}"
    return plain(amount)


def used_to_users(resource: str, amount: str | int) -> t.Any:
    """Return a quantity of a queue's status in the unit that users write.

    The status counts in cores and bytes, where the spec counts in milli-CPU and megabytes.
    """
    per_unit = {"cpu": decimal.Decimal(1000), "memory": 1 / decimal.Decimal(_MEGABYTE)}.get(resource, decimal.Decimal(1))
    used = min(quantity(amount) * per_unit, decimal.Decimal(MOST))
    # Less than any queue counts is nothing.
    return to_users(resource, plain(used) if used >= _LEAST else 0)
