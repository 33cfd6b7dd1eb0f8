# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What we know about KAI's queues: the tree people write, the objects the API wants, and what differs between them.

People write devices, cores and bytes (``gpu: 0.5``, ``cpu: 500m``, ``memory: 64Gi``); the API counts devices, milli-CPU
and megabytes. An omitted resource is never accidentally "nothing allowed", as zero would be in the API.
"""

from __future__ import annotations

import dataclasses
import decimal
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import quantity

Object = dict[str, t.Any]

API_VERSION = "scheduling.run.ai/v2"
KIND = "Queue"
OWNED_LABELS = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}
QUEUE_LABEL = "kai.scheduler/queue"
# Where KAI puts the work of pods without that label.
DEFAULT_QUEUE = "default-queue"

UNLIMITED = "unlimited"
RESOURCES = ("gpu", "cpu", "memory")

# Keys people write, and the API's names for them (deployments/kai-scheduler/crds/scheduling.run.ai_queues.yaml).
_TEXTS = {"display_name": "displayName", "preempt_min_runtime": "preemptMinRuntime", "reclaim_min_runtime": "reclaimMinRuntime"}
_AMOUNTS = {"quota": "quota", "limit": "limit", "over_quota_weight": "overQuotaWeight"}
_KEYS = ("name", "parent", "children", *RESOURCES, "priority", *_TEXTS)
_DEFAULTS: dict[str, int] = {"quota": 0, "limit": -1, "over_quota_weight": 1}
_DEFAULT_PRIORITY = 100  # As the CRD's description of spec.priority says.

# A queue's name is also the value of the label kai.scheduler/queue on pods, so it is as short as one.
_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DURATION = re.compile(r"0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)")
_CORES = re.compile(r"(\d+(?:\.\d+)?)(m?)")
_UNITS = {unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)} | {
    unit: 1000**power for power, unit in enumerate("kMGTP", 1)
}
_MEGABYTE = 10**6


@dataclasses.dataclass(frozen=True)
class Queue:
    """One wanted queue.

    :ivar spec: the complete spec of the API object; None stands for a key that must not be there.
    """

    name: str
    parent: str | None
    spec: Object


@dataclasses.dataclass(frozen=True)
class Change:
    """One write that is needed.

    :ivar verb: create, update or delete.
    :ivar before: what changes, by field and in people's units; ``after`` alike.
    :ivar body: the object to create, or the merge patch.
    :ivar level: of the queue in the tree, 1 for a root; changes of one level do not need each other.
    """

    verb: str
    name: str
    before: Object
    after: Object
    body: Object
    level: int


# --- from what people write --------------------------------------------------------------------------------------


def parse(data: t.Any, levels: int | None = None, version: str = "this release") -> dict[str, Queue]:
    """A tree, or a flat list with ``parent``, as queues by name, parents first.

    :arg levels: how many levels the release schedules, exactly; None for any number.
    :raises TenancyError: with everything that is wrong, one line each, also as the list ``problems`` in its details.
    """
    problems: list[str] = []
    found: dict[str, Queue] = {}
    _collect(data, None, "queues", found, problems)
    for queue in found.values():
        if queue.parent is not None and queue.parent not in found:
            problems.append(f"queues.{queue.name}.parent: there is no queue {queue.parent} here. Parents have to be listed too.")
    if not problems:
        found = _parents_first(found, problems)
    if levels is not None and not problems:
        _check_levels(found, levels, version, problems)
    if problems:
        raise TenancyError("\n".join(problems), problems=problems)
    return found


def _collect(data: t.Any, parent: str | None, path: str, found: dict[str, Queue], problems: list[str]) -> None:
    if not isinstance(data, list):
        problems.append(f"{path}: must be a list of queues, not {data!r}.")
        return
    for index, item in enumerate(data):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            problems.append(f"{path}[{index}]: must be a dictionary with a name, not {item!r}.")
            continue
        here = f"{path.removesuffix('.children')}.{name}"
        if not _NAME.fullmatch(name):
            problems.append(f"{here}: {name!r} is not a name Kubernetes accepts here: at most 63 of a-z, 0-9, '-' and '.'.")
        if name in found:
            problems.append(f"{here}: there are two queues {name}. Names are unique in a cluster, wherever in the tree.")
        for key in item.keys() - set(_KEYS):
            problems.append(f"{here}.{key}: unknown key. Allowed: {', '.join(_KEYS)}.")
        own = item.get("parent")
        if own is not None and (parent is not None or not isinstance(own, str)):
            problems.append(f"{here}.parent: must be the name of a queue, and only outside of another queue's children.")
            own = None
        found[name] = Queue(name, parent or own, _spec(item, parent or own, here, problems))
        if "children" in item:
            _collect(item["children"], name, f"{here}.children", found, problems)


def _spec(item: Object, parent: str | None, path: str, problems: list[str]) -> Object:
    spec: Object = {"parentQueue": parent, "priority": item.get("priority", _DEFAULT_PRIORITY)}
    if isinstance(spec["priority"], bool) or not isinstance(spec["priority"], int) or spec["priority"] < 0:
        problems.append(f"{path}.priority: must be a whole number from 0, not {spec['priority']!r}.")
    for key, field in _TEXTS.items():
        spec[field] = value = item.get(key)
        if value is not None and not isinstance(value, str):
            problems.append(f"{path}.{key}: must be a string, not {value!r}; quote it.")
        elif value is not None and key.endswith("_runtime") and not _DURATION.fullmatch(value):
            problems.append(f"{path}.{key}: {value!r} is not a duration such as 30s, 5m or 1h30m.")
    spec["resources"] = {name: _resource(name, item.get(name, {}), f"{path}.{name}", problems) for name in RESOURCES}
    return spec


def _resource(resource: str, given: t.Any, path: str, problems: list[str]) -> Object:
    if not isinstance(given, dict):
        problems.append(f"{path}: must be a dictionary of {', '.join(_AMOUNTS)}, not {given!r}.")
        given = {}
    for key in given.keys() - _AMOUNTS.keys():
        problems.append(f"{path}.{key}: unknown key. Allowed: {', '.join(_AMOUNTS)}.")
    amounts: Object = {}
    for key, field in _AMOUNTS.items():
        amounts[field] = _DEFAULTS[key]
        try:
            if key in given:
                amounts[field] = _to_api("" if key == "over_quota_weight" else resource, given[key])
        except ValueError as exc:
            problems.append(f"{path}.{key}: {exc}")
    if amounts["limit"] != -1 and not 0 <= amounts["quota"] <= amounts["limit"]:
        quota, limit = (to_people(resource, amounts[key]) for key in ("quota", "limit"))
        problems.append(f"{path}.limit: {limit} is below the quota, {quota}, which could never be used up.")
    return amounts


def _to_api(resource: str, value: t.Any) -> int | float:
    """An amount in the API's unit; ``resource`` is empty for plain numbers."""
    if value == UNLIMITED and resource:
        return -1
    text = "" if isinstance(value, bool) else str(value)
    if text.startswith("-"):
        raise ValueError(f"{value} is negative. Write {UNLIMITED} for no bound." if resource else f"{value} is negative.")
    if resource == "memory":
        if found := _BYTES.fullmatch(text):
            return _number(decimal.Decimal(found[1]) * _UNITS[found[2]] / _MEGABYTE)
        if text == "0":
            return 0
        raise ValueError(f"{value!r} is not an amount of memory such as 64Gi, 512Mi or 10G (or {UNLIMITED}).")
    if found := _CORES.fullmatch(text):
        amount = decimal.Decimal(found[1])
        if resource == "cpu":
            return _number(amount if found[2] else amount * 1000)
        if not found[2]:
            return _number(amount)
    raise ValueError(
        f"{value!r} is not an amount of CPU such as 8, 0.5 or 500m (or {UNLIMITED})."
        if resource == "cpu"
        else f"{value!r} is not a number such as 2 or 0.5{f' (or {UNLIMITED})' if resource else ''}."
    )


def _number(value: decimal.Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _parents_first(found: dict[str, Queue], problems: list[str]) -> dict[str, Queue]:
    children: dict[str | None, list[str]] = {}
    for queue in found.values():
        children.setdefault(queue.parent, []).append(queue.name)
    ordered: list[str] = []
    reached = list(children.get(None, []))
    while reached:
        name = reached.pop(0)
        ordered.append(name)
        reached += children.get(name, [])
    for name in found.keys() - set(ordered):
        problems.append(f"queues.{name}.parent: its parents lead in a circle, never to a root.")
    return {name: found[name] for name in ordered}


def _check_levels(queues: dict[str, Queue], levels: int, version: str, problems: list[str]) -> None:
    for queue in leaves(queues):
        depth = len(ancestors(queues, queue.name))
        if depth > levels:
            problems.append(f"queues.{queue.name}: is on level {depth}, but KAI Scheduler {version} knows {levels} levels only.")
        elif depth < levels:
            problems.append(
                f"queues.{queue.name}: has no child, but KAI Scheduler {version} schedules only in queues on level {levels}. "
                "Add a child, and submit work there."
            )


# --- the tree ----------------------------------------------------------------------------------------------------


def leaves(queues: t.Mapping[str, Queue]) -> list[Queue]:
    """The queues work is submitted to."""
    parents = {queue.parent for queue in queues.values()}
    return [queue for queue in queues.values() if queue.name not in parents]


def ancestors(queues: t.Mapping[str, Queue], name: str) -> list[Queue]:
    """The queue itself, its parent, and so on to the root."""
    path: list[Queue] = []
    current = queues.get(name)
    while current is not None and current not in path:
        path.append(current)
        current = queues.get(current.parent or "")
    return path


def from_live(objects: t.Iterable[Object]) -> dict[str, Queue]:
    """API objects as queues."""
    found = (Queue(item["metadata"]["name"], _live_spec(item).get("parentQueue") or None, _live_spec(item)) for item in objects)
    return {queue.name: queue for queue in found}


def _live_spec(item: Object) -> Object:
    return t.cast(Object, item.get("spec", {}))


# --- to the API, and back to people ------------------------------------------------------------------------------


def manifest(queue: Queue) -> Object:
    spec = {key: value for key, value in queue.spec.items() if value is not None}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": queue.name, "labels": dict(OWNED_LABELS)}, "spec": spec}


def to_people(resource: str, value: int | float | None) -> t.Any:
    """An amount of the API in the unit people write; None is zero to the API."""
    if value is None or value == 0:
        return 0
    if value < 0:
        return UNLIMITED
    amount = decimal.Decimal(str(value))
    if resource == "cpu":
        return _number(amount / 1000) if amount % 1000 == 0 else f"{amount.normalize():f}m"
    if resource == "memory":
        size = round(amount * _MEGABYTE)
        unit = next((unit for unit in ("Pi", "Ti", "Gi", "Mi", "P", "T", "G", "M", "Ki") if size % _UNITS[unit] == 0), "k")
        return f"{_number(decimal.Decimal(size) / _UNITS[unit])}{unit}"
    return _number(amount)


def _fields(spec: Object) -> Object:
    """What a spec says, by the names and in the units people write."""
    fields: Object = {"parent": spec.get("parentQueue"), "priority": spec.get("priority", _DEFAULT_PRIORITY)}
    fields |= {key: spec.get(field) for key, field in _TEXTS.items()}
    for resource in RESOURCES:
        amounts = spec.get("resources", {}).get(resource, {})
        for key, field in _AMOUNTS.items():
            unit = "" if key == "over_quota_weight" else resource
            fields[f"{resource}.{key}"] = to_people(unit, amounts.get(field))
    # An empty text says as little as none.
    return {key: None if value == "" else value for key, value in fields.items()}


def plan(wanted: dict[str, Queue], live: t.Iterable[Object], state: str, remove_foreign: bool = False) -> list[Change]:
    """The writes that are needed, in an order that is safe: parents first, then deletions, leaves first.

    :arg state: present, absent, or exact, which also deletes every other queue that is ours.
    :arg remove_foreign: with exact, delete those that are not ours as well.
    :raises TenancyError: when a queue to delete has children that would stay.
    """
    found = {item["metadata"]["name"]: item for item in live}
    changes = (
        [] if state == "absent" else [_change(queue, found.get(queue.name), _level(wanted, queue)) for queue in wanted.values()]
    )
    before = from_live(found.values())
    if state == "exact":
        doomed = {name for name, item in found.items() if name not in wanted and (remove_foreign or _is_ours(item))}
    else:
        doomed = wanted.keys() & found.keys() if state == "absent" else set()
    for queue in before.values():
        parent = wanted[queue.name].parent if queue.name in wanted else queue.parent
        if parent in doomed and queue.name not in doomed:
            raise TenancyError(f"queues.{parent}: its child {queue.name} is not to be removed, and would be cut off.")
    deletions = [
        Change("delete", name, _said(_fields(_live_spec(found[name]))), {}, {}, _level(before, before[name])) for name in doomed
    ]
    leaves_first = sorted(deletions, key=lambda change: (-change.level, change.name))
    return [change for change in changes if change] + leaves_first


def _level(queues: t.Mapping[str, Queue], queue: Queue) -> int:
    return len(ancestors(queues, queue.name))


def _is_ours(item: Object) -> bool:
    return OWNED_LABELS.items() <= (item["metadata"].get("labels") or {}).items()


def at_work(names: t.Collection[str], pods: t.Iterable[Object], scheduler: str) -> dict[str, list[str]]:
    """Pods that have not ended, as namespace/name, by queue, for these queues.

    :arg scheduler: pods that name it but no queue are work of the default queue.
    """
    found: dict[str, list[str]] = {}
    for pod in pods:
        ends = pod["spec"].get("schedulerName") == scheduler
        queue = (pod["metadata"].get("labels") or {}).get(QUEUE_LABEL, DEFAULT_QUEUE if ends else "")
        if queue in names and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            found.setdefault(queue, []).append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    return found


def promised_twice(queues: t.Mapping[str, Queue]) -> list[str]:
    """Where children are promised more than their parent, which KAI Scheduler accepts and cannot keep."""
    children: dict[str | None, list[Queue]] = {}
    for queue in queues.values():
        children.setdefault(queue.parent, []).append(queue)
    found = []
    for parent, resource in ((queues[name], resource) for name in children if name for resource in RESOURCES):
        own = parent.spec["resources"][resource]["quota"]
        quotas = [child.spec["resources"][resource]["quota"] for child in children[parent.name]]
        total = -1 if -1 in quotas else sum(quotas)
        if own != -1 and (total == -1 or total > own):
            said = f"the quotas of its children sum up to {to_people(resource, total)}, its own is {to_people(resource, own)}"
            found.append(f"queues.{parent.name}.{resource}.quota: {said}.")
    return found


# --- what is in the cluster, for people ---------------------------------------------------------------------------

_USES = {"allocated": "allocated", "allocated_non_preemptible": "allocatedNonPreemptible", "requested": "requested"}


def overview(objects: t.Iterable[Object], gpu_resource: str) -> list[Object]:
    """The live queues as a tree like the one people write, with what is allocated and requested, in the same units."""
    live = {item["metadata"]["name"]: item for item in objects}
    rows = {name: _row(item, gpu_resource) for name, item in sorted(live.items())}
    roots: list[Object] = []
    for name, row in rows.items():
        parent = _live_spec(live[name]).get("parentQueue")
        # A queue whose parent does not exist is ignored by the scheduler, but not by us.
        (rows[parent]["children"] if parent in rows else roots).append(row)
    return roots


def _row(item: Object, gpu_resource: str) -> Object:
    fields, status = _fields(_live_spec(item)), item.get("status") or {}
    row: Object = {"name": item["metadata"]["name"], "ours": _is_ours(item)}
    row |= {key: fields[key] for key in ("parent", "priority", *_TEXTS)}
    for resource in RESOURCES:
        row[resource] = {key: fields[f"{resource}.{key}"] for key in _AMOUNTS}
        counted = gpu_resource if resource == "gpu" else resource
        for use, field in _USES.items():
            row[resource][use] = _used(resource, (status.get(field) or {}).get(counted, 0))
    return row | {"children": []}


def _used(resource: str, amount: str | int) -> t.Any:
    """A quantity of the status, which counts in cores and bytes where the spec counts in milli-CPU and megabytes."""
    per_unit = {"cpu": decimal.Decimal(1000), "memory": 1 / decimal.Decimal(_MEGABYTE)}.get(resource, decimal.Decimal(1))
    return to_people(resource, _number(quantity(amount) * per_unit))


def _said(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value is not None}


def _change(queue: Queue, live: Object | None, level: int) -> Change | None:
    body = manifest(queue)
    after = _fields(queue.spec)
    if live is None:
        return Change("create", queue.name, {}, _said(after), body, level)
    after["owner"] = OWNED_LABELS["app.kubernetes.io/managed-by"]
    before = _fields(_live_spec(live))
    before["owner"] = (live["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by")
    differing = [key for key in after if before[key] != after[key]]
    if not differing:
        return None
    # A merge patch removes what is None.
    patch = {"metadata": {"labels": dict(OWNED_LABELS)}, "spec": queue.spec}
    return Change(
        "update", queue.name, {key: before[key] for key in differing}, {key: after[key] for key in differing}, patch, level
    )
