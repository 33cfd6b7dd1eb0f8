# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read a trace, and thresholds, as users write them, and refuse what cannot be played."""

from __future__ import annotations

import datetime
import math
import re
import typing as t

from .._common.quantity import quantity
from .._common.schema import Problems, plain
from .._common.values import JsonObject, deep_merge
from .._kai.facts import Asked
from .._kai.validation import check_hazard_names, refuse_hazards, release
from .._kai.values import chart_values, shares_gpus
from .._queues import validation as queues
from .._queues.values import leaves
from . import model
from .facts import FORMAT, NODES, SCHEDULER, THRESHOLD, THRESHOLDS, TRACE, WORKLOAD

_TOPOLOGY = ("topology", "topology_required", "topology_preferred")
# More than any cluster has of them (Kubernetes is tested with 5,000 nodes and 150,000 pods), and no more than can be played.
_MOST = {"count": 10_000, "pods": 150_000}
# Pods are called after it, with a number.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")


def parse(given: t.Any) -> model.Trace:
    """Return a trace.

    :arg given: as its file has it, of any type.
    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    trace = problems.mapping(plain(given), TRACE, "trace")
    if trace.get("format", FORMAT) != FORMAT:
        problems.add("other-format", "trace.format", f"is {trace['format']}; this release reads {FORMAT}.")
    tree = problems.ask("trace.", lambda: queues.parse(trace.get("queues", [])))
    known = None if tree is None else {queue.name for queue in leaves(tree)}
    shapes = [_nodes(item, f"trace.nodes[{n}]", problems) for n, item in enumerate(trace.get("nodes", []))]
    workloads = [_workload(item, f"trace.workloads[{n}]", known, problems) for n, item in enumerate(trace.get("workloads", []))]
    _check_total(shapes, "count", "trace.nodes", problems)
    if _check_total(workloads, "pods", "trace.workloads", problems):
        _check_names(workloads, problems)
    _check_groups(workloads, problems)
    _check_topologies(trace.get("topologies", {}), workloads, problems)
    classes = trace.get("priority_classes", {})
    for name, value in classes.items():
        problems.typed(value, int, f"trace.priority_classes.{name}")
    if trace.get("span", 1) <= 0:
        problems.add("out-of-range", "trace.span", "must be more than 0 seconds.")
    problems.raise_if_any("the trace")
    return model.Trace(
        trace["span"],
        tuple(shape for shape in shapes if shape),
        trace["queues"],
        classes,
        tuple(item for item in workloads if item),
        trace.get("topologies", {}),
    )


def parse_nodes(given: t.Sequence[t.Any]) -> tuple[model.Nodes, ...]:
    """Return the shapes of nodes.

    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    shapes = [_nodes(item, f"nodes[{n}]", problems) for n, item in enumerate(plain(given))]
    _check_total(shapes, "count", "nodes", problems)
    problems.raise_if_any("the nodes")
    return tuple(shape for shape in shapes if shape)


def check_playable(trace: model.Trace, given: JsonObject, path: str, today: datetime.date, installed: bool) -> None:
    """Refuse a KAI Scheduler under which a trace cannot be played, as far as that shows without a cluster.

    :arg given: as users write it, by the keys of facts.SCHEDULER.
    :arg installed: whether its release may be there already, of which the end of its support alone refuses nothing.
    :raises TenancyError: with all ``problems``.
    """
    known = release(given["version"])
    tree = given.get("queues") or trace.queues
    sharing = given.get("gpu_sharing", SCHEDULER["gpu_sharing"].default)
    asked = Asked(shares_gpus(deep_merge(chart_values(known, sharing), given.get("values", {})), known), False)
    accepted = given.get("accept_hazards", [])
    problems = Problems()
    found = problems.ask(f"{path}.", lambda: queues.parse(tree, known.queue_levels, known.version)) or {}
    for queue in found.values():
        if queue.pool and not queue.parent:
            why = "a rehearsal has one scheduler for all of its nodes. Leave it out, with the nodes of one pool in the trace."
            problems.add("not-applicable", f"{path}.queues.{queue.name}.node_pool", why)
    problems.ask(f"{path}.", lambda: parse(trace.data() | {"queues": tree}))
    problems.ask(f"{path}.", lambda: check_hazard_names(accepted))
    problems.ask(f"{path}.", lambda: refuse_hazards(known, asked, accepted, today, installed))
    problems.raise_if_any("the change")


def _nodes(item: t.Any, path: str, problems: Problems) -> model.Nodes | None:
    before = len(problems)
    given = problems.mapping(item, NODES, path)
    _check_amounts(given, path, problems)
    return model.nodes(**given) if len(problems) == before else None


def _workload(item: t.Any, path: str, known: set[str] | None, problems: Problems) -> model.Workload | None:
    before = len(problems)
    given = problems.mapping(item, WORKLOAD, path)
    if not _NAME.fullmatch(given.get("name", "x")):
        problems.add("not-a-name", f"{path}.name", f"{given['name']!r} is not a name for pods: at most 52 of a-z, 0-9 and '-'.")
    if known is not None and given.get("queue", "") not in known | {""}:
        problems.add(
            "unknown-queue",
            f"{path}.queue",
            f"{given['queue']} is none of the trace's leaf queues: {', '.join(sorted(known)) or 'none'}.",
        )
    _check_amounts(given, path, problems)
    gpus = given.get("gpus", 0)
    if gpus > 1 and gpus != math.floor(gpus):
        problems.add("not-an-amount", f"{path}.gpus", f"{gpus} is neither a number of whole GPUs nor part of one.")
    if gpus and given.get("gpu_memory"):
        problems.add("not-exactly-one", f"{path}.gpu_memory", "is given in place of gpus, not beside it.")
    if given.get("together", 1) > given.get("pods", 1):
        problems.add("out-of-range", f"{path}.together", f"is {given['together']}, and it has {given.get('pods', 1)} pods.")
    return model.workload(**given) if len(problems) == before else None


def _check_amounts(given: JsonObject, path: str, problems: Problems) -> None:
    """Refuse negative numbers, none of what there has to be one of, and what is no quantity of Kubernetes."""
    for key, value in given.items():
        least = 1 if key in ("count", "pods", "together") else 0
        if isinstance(value, (int, float)) and value < least:
            problems.add("out-of-range", f"{path}.{key}", f"is {value}; it is {least} at least.")
        if key in ("cpu", "memory"):
            try:
                quantity(value)
            except ValueError:
                problems.add("not-an-amount", f"{path}.{key}", f"{value!r} is not a quantity such as 500m or 64Gi.")


def _check_total(items: t.Iterable[model.Nodes | model.Workload | None], field: str, path: str, problems: Problems) -> bool:
    """Refuse more nodes or pods than can be played; tell whether there are no more."""
    total: int = sum(getattr(item, field) for item in items if item)
    if total > _MOST[field]:
        problems.add("out-of-range", path, f"have a {field} of {total} together; it is {_MOST[field]} at most.")
    return total <= _MOST[field]


def _check_groups(workloads: t.Iterable[model.Workload | None], problems: Problems) -> None:
    """Refuse a group whose workloads are not submitted together, or in several queues."""
    firsts: dict[str, model.Workload] = {}
    for workload in filter(None, workloads):
        first = firsts.setdefault(workload.group_name, workload)
        for key in ("arrives", "queue", "priority_class", *_TOPOLOGY):
            if getattr(workload, key) != getattr(first, key):
                problems.add(
                    "group-differs", "trace.workloads", f"{first.name} and {workload.name} are one group, and differ in {key}."
                )


def _check_topologies(topologies: JsonObject, workloads: t.Iterable[model.Workload | None], problems: Problems) -> None:
    """Refuse topologies without levels, and workloads that name one, or a level, that is not there."""
    for name, levels in topologies.items():
        if not isinstance(levels, list) or not levels or not all(isinstance(level, str) for level in levels):
            problems.add(
                "wrong-type",
                f"trace.topologies.{name}",
                "must be a list of the labels of nodes that are its levels, the widest first.",
            )
    for workload in filter(None, workloads):
        named = [level for level in (workload.topology_required, workload.topology_preferred) if level]
        if named and workload.topology not in topologies:
            problems.add(
                "unknown-topology",
                "trace.workloads",
                f"{workload.name} asks for topology {workload.topology!r}, which the trace does not have.",
            )
        for level in named:
            if level not in topologies.get(workload.topology, [level]):
                problems.add(
                    "unknown-topology",
                    "trace.workloads",
                    f"{workload.name}: {level} is no level of topology {workload.topology}.",
                )


def _check_names(workloads: t.Iterable[model.Workload | None], problems: Problems) -> None:
    """Refuse two pods of one name."""
    owners: dict[str, str] = {}
    for workload in filter(None, workloads):
        for name in workload.pod_names:
            if name in owners:
                problems.add("same-name", "trace.workloads", f"{owners[name]} and {workload.name} would both have a pod {name}.")
                break
            owners[name] = workload.name


def thresholds(given: t.Any) -> dict[str, dict[str, float]]:
    """Return thresholds: the given ones, and the defaults of facts.THRESHOLDS for all others.

    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    found: dict[str, dict[str, float]] = {}
    if problems.typed(given, dict, "thresholds"):
        for name, item in given.items():
            if name not in THRESHOLDS:
                problems.add("unknown-measure", f"thresholds.{name}", f"is no measure. Measures: {', '.join(THRESHOLDS)}.")
                continue
            found[name] = THRESHOLDS[name] | problems.mapping(item, THRESHOLD, f"thresholds.{name}")
    problems.raise_if_any("the thresholds")
    return THRESHOLDS | found
