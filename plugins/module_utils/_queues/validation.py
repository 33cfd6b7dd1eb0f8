# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check the queues that a user writes, before the API is asked: KAI's own webhook refuses next to nothing."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._common.documents import DEEPEST, depth
from .._common.errors import Problem, Refused, refuse
from .._common.names import NODE_POOL_LABEL
from .._common.quantity import MOST
from .._common.schema import Problems, named, quoted
from .._common.text import shown
from .._common.values import JsonObject
from .facts import AMOUNTS, DEFAULT_PRIORITY, DEFAULTS, KEYS, RESOURCES, TEXTS
from .values import Queue, children_of, leaves, to_api, to_users
from .values import levels as levels_of

# A queue's name is also the value of the label kai.scheduler/queue on pods, so it is as short as one.
_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Also part of the name of the pool's scheduler, kai-scheduler-POOL, which is a label of its pods.
_POOL = re.compile(r"(?=.{1,40}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# Upstream's name of the scheduler of nodes without a pool.
_NO_POOL = "default"
_DURATION = re.compile(r"0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+", re.ASCII)


def parse(data: t.Any, levels: int | None = None, version: str = "this release") -> dict[str, Queue]:
    """Return a tree, or a flat list with ``parent``, as queues by name, parents first.

    :arg data: as users write it, of any type.
    :arg levels: how many levels the release schedules, exactly; None for any number.
    :arg version: of that release, for messages.
    :raises Refused: with everything that is wrong, one line each.
    """
    if depth(data) > DEEPEST:
        refuse([Problem("nested-too-deep", f"queues: are nested more than {DEEPEST} deep, or hold themselves.")])
    problems = Problems()
    queues: dict[str, Queue] = {}
    _collect(data, None, "queues", queues, problems)
    for queue in queues.values():
        if queue.parent is not None and queue.parent not in queues:
            here = f"queues.{named(queue.name)}.parent"
            problems.add("unknown-parent", here, f"there is no queue {named(queue.parent)} here. Parents have to be listed too.")
    refuse(problems)
    ordered = _in_pools(_parents_first(queues))
    if levels is not None:
        refuse(_wrong_levels(ordered, levels, version))
    return ordered


def _collect(data: t.Any, parent: str | None, path: str, queues: dict[str, Queue], problems: Problems) -> None:
    """Add the queues of a list, and those below them, to ``queues``, and what is wrong to ``problems``."""
    if not isinstance(data, list):
        problems.add("wrong-type", path, f"must be a list of queues, not {quoted(data)}.")
        return
    for index, item in enumerate(data):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            problems.add("wrong-type", f"{path}[{index}]", f"must be a dictionary with a name, not {quoted(item)}.")
            continue
        here = f"{path.removesuffix('.children')}.{named(name)}"
        if not _NAME.fullmatch(name):
            problems.add(
                "not-a-name", here, f"{quoted(name)} is not a name Kubernetes accepts here: at most 63 of a-z, 0-9, '-' and '.'."
            )
        if name in queues:
            problems.add(
                "same-name", here, f"there are two queues {named(name)}. Names are unique in a cluster, wherever in the tree."
            )
        unknown = sorted(named(key) for key in item.keys() - set(KEYS))
        problems += [Problem("unknown-key", f"{here}.{key}: unknown key. Allowed: {', '.join(KEYS)}.") for key in unknown]
        own = item.get("parent")
        if own is not None and (parent is not None or not isinstance(own, str)):
            problems.add(
                "not-a-parent", f"{here}.parent", "must be the name of a queue, and only outside of another queue's children."
            )
            own = None
        pool = _node_pool(item.get("node_pool", ""), parent or own, here, problems)
        queues[name] = Queue(name, parent or own, _spec(item, parent or own, here, problems), pool)
        if "children" in item:
            _collect(item["children"], name, f"{here}.children", queues, problems)


def _node_pool(given: t.Any, parent: str | None, path: str, problems: Problems) -> str:
    """Return the node pool that a queue names; empty for none."""
    here = f"{path}.node_pool"
    if parent is not None and given != "":
        problems.add("not-applicable", here, "is that of its top queue: a scheduler of a node pool sees whole trees only.")
    elif given == _NO_POOL:
        problems.add("reserved-name", here, f"{_NO_POOL} is what KAI Scheduler calls the nodes without a pool. Leave it out.")
    elif given != "" and not (isinstance(given, str) and _POOL.fullmatch(given)):
        problems.add("not-a-name", here, f"{quoted(given)} is no name of a node pool: at most 40 of a-z, 0-9 and '-'.")
    return given if isinstance(given, str) else ""


def _in_pools(ordered: t.Mapping[str, Queue]) -> dict[str, Queue]:
    """Return queues, parents first, each in the node pool of its top queue."""
    found: dict[str, Queue] = {}
    for queue in ordered.values():
        found[queue.name] = dataclasses.replace(queue, pool=found[queue.parent].pool) if queue.parent else queue
    return found


def _spec(item: JsonObject, parent: str | None, path: str, problems: Problems) -> JsonObject:
    spec: JsonObject = {"parentQueue": parent, "priority": item.get("priority", DEFAULT_PRIORITY)}
    if isinstance(spec["priority"], bool) or not isinstance(spec["priority"], int) or not 0 <= spec["priority"] < MOST:
        problems.add(
            "not-a-whole-number",
            f"{path}.priority",
            f"must be a whole number from 0, below 2^63, not {quoted(spec['priority'])}.",
        )
    for key, field in TEXTS.items():
        spec[field] = value = item.get(key)
        if value is not None and not isinstance(value, str):
            problems.add("wrong-type", f"{path}.{key}", f"must be a string, not {quoted(value)}; quote it.")
        elif value is not None and key.endswith("_runtime") and not _DURATION.fullmatch(value):
            problems.add("not-a-duration", f"{path}.{key}", f"{quoted(value)} is not a duration such as 30s, 5m or 1h30m.")
    spec["resources"] = {name: _resource(name, item.get(name, {}), f"{path}.{name}", problems) for name in RESOURCES}
    return spec


def _resource(resource: str, given: t.Any, path: str, problems: Problems) -> JsonObject:
    if not isinstance(given, dict):
        problems.add("wrong-type", path, f"must be a dictionary of {', '.join(AMOUNTS)}, not {quoted(given)}.")
        given = {}
    unknown = sorted(named(key) for key in given.keys() - AMOUNTS.keys())
    problems += [Problem("unknown-key", f"{path}.{key}: unknown key. Allowed: {', '.join(AMOUNTS)}.") for key in unknown]
    amounts: JsonObject = {}
    for key, field in AMOUNTS.items():
        amounts[field] = DEFAULTS[resource][key]
        try:
            if key in given:
                amounts[field] = _amount("" if key == "over_quota_weight" else resource, given[key])
        except ValueError as exc:
            problems.add("not-an-amount", f"{path}.{key}", shown(exc))
    # A default that is written is no other one.
    promised = amounts["quota"] != DEFAULTS[resource]["quota"]
    if promised and amounts["limit"] != -1 and not 0 <= amounts["quota"] <= amounts["limit"]:
        quota, limit = (to_users(resource, amounts[key]) for key in ("quota", "limit"))
        problems.add("limit-below-quota", f"{path}.limit", f"{limit} is below the quota, {quota}, which could never be used up.")
    return amounts


def _amount(resource: str, given: t.Any) -> int | float:
    """Return an amount that a user wrote in the API's unit.

    :raises ValueError: where it is none, or more of that unit than Kubernetes counts.
    """
    amount = to_api(resource, given)
    if amount > MOST:
        raise ValueError(f"{quoted(given)} is more than Kubernetes counts, 2^63.")
    return amount


def _parents_first(queues: dict[str, Queue]) -> dict[str, Queue]:
    """Order queues level by level; refuse the queues that no root leads to."""
    children = children_of(queues)
    reached = list(children.get(None, []))
    for queue in reached:
        # They are looked at in turn as well.
        reached += children.get(queue.name, [])
    circles = queues.keys() - {queue.name for queue in reached}
    refuse(
        Problem("parents-in-a-circle", f"queues.{named(name)}.parent: its parents lead in a circle, never to a root.")
        for name in sorted(circles)
    )
    return {queue.name: queue for queue in reached}


def _wrong_levels(queues: dict[str, Queue], levels: int, version: str) -> list[Problem]:
    problems, found = Problems(), levels_of(queues)
    for queue in leaves(queues):
        level = found[queue.name]
        if level > levels:
            problems.add(
                "queues-too-deep",
                f"queues.{queue.name}",
                f"is on level {level}, but KAI Scheduler {version} knows {levels} levels only.",
            )
        elif level < levels:
            problems.add(
                "queue-without-child",
                f"queues.{queue.name}",
                f"has no child, but KAI Scheduler {version} schedules only in queues on level {levels}. "
                "Add a child, and submit work there.",
            )
    return problems


def overcommitted_quotas(queues: t.Mapping[str, Queue]) -> list[Problem]:
    """Return where the quotas of children sum up to more than their parent's, which KAI accepts and cannot keep.

    An unlimited quota of CPU or memory, as where none is written, promises nothing.
    """
    children = children_of(queues)
    problems = Problems()
    for parent, resource in ((queues[name], resource) for name in children if name for resource in RESOURCES):
        own = parent.spec["resources"][resource]["quota"]
        said = [child.spec["resources"][resource]["quota"] for child in children[parent.name]]
        quotas = [quota for quota in said if quota != -1 or resource == "gpu"]
        total = -1 if -1 in quotas else sum(quotas)
        if own != -1 and (total == -1 or total > own):
            sums = f"the quotas of its children sum up to {to_users(resource, total)}, its own is {to_users(resource, own)}"
            limit = parent.spec["resources"][resource]["limit"]
            above = limit != -1 and (total == -1 or total > limit)
            unused = f", and its limit, {to_users(resource, limit)}, keeps them from ever being used up" if above else ""
            problems.add("quotas-overcommitted", f"queues.{parent.name}.{resource}.quota", f"{sums}{unused}.")
        elif own == -1 and -1 != parent.spec["resources"][resource]["limit"] < total:
            least = to_users(resource, parent.spec["resources"][resource]["limit"])
            sums = f"the quotas of its children sum up to {to_users(resource, total)}"
            problems.add(
                "quotas-overcommitted",
                f"queues.{parent.name}.{resource}.limit",
                f"{sums}, and {least} keeps them from ever being used up.",
            )
    return problems


def without_gpu_quota(data: t.Sequence[JsonObject]) -> list[str]:
    """Return the names of the queues whose GPU quota is 0 because none is written, and whose pods may have GPUs.

    Pods that may not be preempted wait there for ever.

    :arg data: as ``parse`` takes it.
    """
    names: list[str] = []
    for item in data:
        gpu = item.get("gpu", {})
        if "quota" not in gpu and gpu.get("limit") != 0:
            names.append(item["name"])
        names += without_gpu_quota(item.get("children", []))
    return names


def check_pools(queues: t.Mapping[str, Queue], gpus: t.Mapping[str, int]) -> list[Problem]:
    """Return where queues are promised more GPUs than their node pool has.

    :arg gpus: devices of the nodes of each pool.
    :raises Refused: where a pool has no node.
    """
    tops = [queue for queue in queues.values() if queue.pool and not queue.parent]
    there = ", ".join(sorted(filter(None, gpus))) or "none"
    refuse(
        Problem(
            "unknown-node-pool",
            f"queues.{queue.name}.node_pool: no node has the label {NODE_POOL_LABEL}: {queue.pool}. Pools of the nodes are: {there}.",
        )
        for queue in tops
        if queue.pool not in gpus
    )
    promised: dict[str, float] = {}
    for queue in tops:
        promised[queue.pool] = promised.get(queue.pool, 0) + queue.spec["resources"]["gpu"]["quota"]
    return [
        Problem(
            "quota-above-gpus", f"queues: those of node pool {pool} are promised {quota:g} GPUs, its nodes have {gpus[pool]}."
        )
        for pool, quota in promised.items()
        if quota > gpus[pool]
    ]


def refuse_queues_in_use(work: t.Mapping[str, list[str]], why: str, advice: str, moved: t.Collection[str] = ()) -> None:
    """Refuse the removal of queues with work.

    :arg work: pods or groups of them, as namespace/name, by queue.
    :arg why: what holds a queue; ``advice``, what to do.
    :arg moved: those of the queues that are not removed, but moved to another node pool.
    :raises Refused: with all of these queues.
    """
    problems = Problems()
    for name, found in work.items():
        more = f" and {len(found) - 10} more" if len(found) > 10 else ""
        done = "moved to another node pool" if name in moved else "removed"
        told = ", ".join(shown(one, 120) for one in sorted(found)[:10])
        problems.add("queue-in-use", f"queues.{named(name)}", f"is not {done}, because {why}: {told}{more}.")
    if problems:
        raise Refused("\n".join([*(problem.text for problem in problems), advice]), problems)
