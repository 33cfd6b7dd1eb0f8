# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check the queues that a user writes, before the API is asked: KAI's own webhook refuses next to nothing."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, refuse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import (
    AMOUNTS,
    DEFAULT_PRIORITY,
    DEFAULTS,
    KEYS,
    RESOURCES,
    TEXTS,
    Object,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import (
    Queue,
    ancestors,
    children_of,
    leaves,
    to_api,
    to_users,
)

# A queue's name is also the value of the label kai.scheduler/queue on pods, so it is as short as one.
_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DURATION = re.compile(r"0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+")


def parse(data: t.Any, levels: int | None = None, version: str = "this release") -> dict[str, Queue]:
    """Return a tree, or a flat list with ``parent``, as queues by name, parents first.

    :arg data: as users write it, of any type.
    :arg levels: how many levels the release schedules, exactly; None for any number.
    :arg version: of that release, for messages.
    :raises TenancyError: with everything that is wrong, one line each, also as the list ``problems`` in its details.
    """
    problems: list[str] = []
    queues: dict[str, Queue] = {}
    _collect(data, None, "queues", queues, problems)
    for queue in queues.values():
        if queue.parent is not None and queue.parent not in queues:
            problems.append(f"queues.{queue.name}.parent: there is no queue {queue.parent} here. Parents have to be listed too.")
    refuse(problems)
    ordered = _parents_first(queues)
    if levels is not None:
        refuse(_wrong_levels(ordered, levels, version))
    return ordered


def _collect(data: t.Any, parent: str | None, path: str, queues: dict[str, Queue], problems: list[str]) -> None:
    """Add the queues of a list, and those below them, to ``queues``, and what is wrong to ``problems``."""
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
        if name in queues:
            problems.append(f"{here}: there are two queues {name}. Names are unique in a cluster, wherever in the tree.")
        problems += [f"{here}.{key}: unknown key. Allowed: {', '.join(KEYS)}." for key in item.keys() - set(KEYS)]
        own = item.get("parent")
        if own is not None and (parent is not None or not isinstance(own, str)):
            problems.append(f"{here}.parent: must be the name of a queue, and only outside of another queue's children.")
            own = None
        queues[name] = Queue(name, parent or own, _spec(item, parent or own, here, problems))
        if "children" in item:
            _collect(item["children"], name, f"{here}.children", queues, problems)


def _spec(item: Object, parent: str | None, path: str, problems: list[str]) -> Object:
    spec: Object = {"parentQueue": parent, "priority": item.get("priority", DEFAULT_PRIORITY)}
    if isinstance(spec["priority"], bool) or not isinstance(spec["priority"], int) or spec["priority"] < 0:
        problems.append(f"{path}.priority: must be a whole number from 0, not {spec['priority']!r}.")
    for key, field in TEXTS.items():
        spec[field] = value = item.get(key)
        if value is not None and not isinstance(value, str):
            problems.append(f"{path}.{key}: must be a string, not {value!r}; quote it.")
        elif value is not None and key.endswith("_runtime") and not _DURATION.fullmatch(value):
            problems.append(f"{path}.{key}: {value!r} is not a duration such as 30s, 5m or 1h30m.")
    spec["resources"] = {name: _resource(name, item.get(name, {}), f"{path}.{name}", problems) for name in RESOURCES}
    return spec


def _resource(resource: str, given: t.Any, path: str, problems: list[str]) -> Object:
    if not isinstance(given, dict):
        problems.append(f"{path}: must be a dictionary of {', '.join(AMOUNTS)}, not {given!r}.")
        given = {}
    problems += [f"{path}.{key}: unknown key. Allowed: {', '.join(AMOUNTS)}." for key in given.keys() - AMOUNTS.keys()]
    amounts: Object = {}
    for key, field in AMOUNTS.items():
        amounts[field] = DEFAULTS[key]
        try:
            if key in given:
                amounts[field] = to_api("" if key == "over_quota_weight" else resource, given[key])
        except ValueError as exc:
            problems.append(f"{path}.{key}: {exc}")
    if amounts["limit"] != -1 and not 0 <= amounts["quota"] <= amounts["limit"]:
        quota, limit = (to_users(resource, amounts[key]) for key in ("quota", "limit"))
        problems.append(f"{path}.limit: {limit} is below the quota, {quota}, which could never be used up.")
    return amounts


def _parents_first(queues: dict[str, Queue]) -> dict[str, Queue]:
    """Order queues level by level; refuse those that no root leads to."""
    children = children_of(queues)
    ordered: list[str] = []
    reached = list(children.get(None, []))
    while reached:
        name = reached.pop(0).name
        ordered.append(name)
        reached += children.get(name, [])
    circles = queues.keys() - set(ordered)
    refuse(f"queues.{name}.parent: its parents lead in a circle, never to a root." for name in sorted(circles))
    return {name: queues[name] for name in ordered}


def _wrong_levels(queues: dict[str, Queue], levels: int, version: str) -> list[str]:
    problems = []
    for queue in leaves(queues):
        depth = len(ancestors(queues, queue.name))
        if depth > levels:
            problems.append(f"queues.{queue.name}: is on level {depth}, but KAI Scheduler {version} knows {levels} levels only.")
        elif depth < levels:
            problems.append(
                f"queues.{queue.name}: has no child, but KAI Scheduler {version} schedules only in queues on level {levels}. "
                "Add a child, and submit work there."
            )
    return problems


def overcommitted_quotas(queues: t.Mapping[str, Queue]) -> list[str]:
    """Return where the quotas of children sum up to more than their parent's, which KAI accepts and cannot keep."""
    children = children_of(queues)
    problems = []
    for parent, resource in ((queues[name], resource) for name in children if name for resource in RESOURCES):
        own = parent.spec["resources"][resource]["quota"]
        quotas = [child.spec["resources"][resource]["quota"] for child in children[parent.name]]
        total = -1 if -1 in quotas else sum(quotas)
        if own != -1 and (total == -1 or total > own):
            sums = f"the quotas of its children sum up to {to_users(resource, total)}, its own is {to_users(resource, own)}"
            problems.append(f"queues.{parent.name}.{resource}.quota: {sums}.")
    return problems


def refuse_queues_in_use(pods: t.Mapping[str, list[str]]) -> None:
    """Refuse the removal of queues with pods that have not ended.

    :arg pods: as namespace/name, by queue.
    """
    problems = [
        f"queues.{name}: is not removed, because pods in it have not ended: {', '.join(sorted(found)[:10])}"
        + (f" and {len(found) - 10} more." if len(found) > 10 else ".")
        for name, found in pods.items()
    ]
    if problems:
        advice = "End them first, or remove the queues all the same with force."
        raise TenancyError("\n".join([*problems, advice]), problems=problems)
