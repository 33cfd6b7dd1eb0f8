# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What has to hold while a trace is played, at every look at its pods. Pure."""

from __future__ import annotations

import collections
import typing as t

from .._common.names import RESERVED_GPU_NOTE
from .._common.ownership import annotations_of, labels_of
from .._common.pods import ENDED
from .._nodes.status import gpu_groups, untolerated
from .._queues.values import ancestors
from .facts import ONE_OWNER, PLACEMENT, RESERVED, WHOLE_GROUPS, WITHIN_LIMITS
from .look import Look, Setting
from .measures import gpu_setting

# An invariant that does not hold: one of facts.INVARIANTS, and a sentence with the pods, queues or nodes it is about.
Wrong = tuple[str, str]


def broken(look: Look, setting: Setting) -> set[Wrong]:
    """Return what does not hold at one look."""
    return {wrong for rule in RULES for wrong in rule(look, setting)}


def _owners(look: Look, setting: Setting) -> t.Iterator[Wrong]:
    """Yield GPUs with two owners: two groups on one device, more booked than a node has, more than a whole GPU in parts."""
    groups: dict[str, set[str]] = collections.defaultdict(set)
    for pod in look.reservations:
        if device := annotations_of(pod).get(RESERVED_GPU_NOTE):
            groups[f"{pod['spec'].get('nodeName')}/{device}"] |= gpu_groups(pod)
    for device, sharing in sorted(groups.items()):
        if len(sharing) > 1:
            yield ONE_OWNER, f"GPU {device} is reserved for {len(sharing)} groups of pods"
    for (node, _group), parts in setting.shares(look.placed).items():
        if sum(parts.values()) > 1 + 1e-6:
            yield (
                ONE_OWNER,
                f"a GPU of {node} is given to {', '.join(sorted(parts))}, which ask for more than one GPU together",
            )
    for node, count in sorted(setting.booked(look.placed).items()):
        if count > setting.gpus.get(node, 0):
            yield ONE_OWNER, f"{count} GPUs of {node} are given out, and it has {setting.gpus.get(node, 0)}"


def _unreserved(look: Look, setting: Setting) -> t.Iterator[Wrong]:
    """Yield pods that share a GPU which nothing keeps from others (#1103)."""
    reserved = {
        (pod["spec"].get("nodeName"), group)
        for pod in look.reservations
        if RESERVED_GPU_NOTE in annotations_of(pod) and "deletionTimestamp" not in pod["metadata"]
        for group in gpu_groups(pod)
    }
    for pod in look.placed:
        if setting.workload(pod).shares_a_gpu:
            name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
            if not any((node, group) in reserved for group in gpu_groups(pod)):
                yield RESERVED, f"{name} has part of a GPU of {node} that is not reserved: others can get it, too"


def _split(look: Look, setting: Setting) -> t.Iterator[Wrong]:
    """Yield groups of which fewer pods are placed than have to be together."""
    placed: collections.Counter[str] = collections.Counter()
    ended: set[str] = set()
    for pod in look.mine:
        name = setting.workload(pod).group_name
        placed[name] += bool(pod["spec"].get("nodeName"))
        if pod["status"].get("phase") in ENDED:
            ended.add(name)
    for name, count in placed.items():
        if 0 < count < setting.together[name] and name not in ended:
            yield WHOLE_GROUPS, f"{name} has {count} pods placed of {setting.together[name]} that start together"


def _above_limits(look: Look, setting: Setting) -> t.Iterator[Wrong]:
    """Yield queues that hold more than their limit."""
    used: dict[str, float] = collections.defaultdict(float)
    for leaf, gpus in setting.by_queue(look.placed).items():
        for queue in ancestors(setting.queues, leaf):
            used[queue.name] += gpus
    for name, gpus in sorted(used.items()):
        limit = gpu_setting(setting.queues[name], "limit", -1.0)
        if 0 <= limit < gpus - 1e-6:
            yield WITHIN_LIMITS, f"queue {name} holds {gpus:g} GPUs, and its limit is {limit:g}"


def _misplaced(look: Look, setting: Setting) -> t.Iterator[Wrong]:
    """Yield pods on nodes that they did not ask for, or that another scheduler placed."""
    for pod in look.placed:
        name, node = pod["metadata"]["name"], setting.nodes.get(pod["spec"]["nodeName"])
        if (scheduler := pod["spec"].get("schedulerName")) != setting.scheduler:
            yield PLACEMENT, f"{name} was left to the scheduler {scheduler}, and asked for {setting.scheduler}"
        if node is None:
            yield PLACEMENT, f"{name} is on {pod['spec']['nodeName']}, which is no node of the trace"
            continue
        workload = setting.workload(pod)
        if not workload.node_selector.items() <= labels_of(node).items():
            yield PLACEMENT, f"{name} is on {node['metadata']['name']}, which has not the labels that it asks for"
        for taint in untolerated(node, pod["spec"].get("tolerations") or []):
            yield PLACEMENT, f"{name} is on {node['metadata']['name']}, whose taint {taint} it does not tolerate"


def _spread_groups(look: Look, setting: Setting) -> t.Iterator[Wrong]:
    """Yield groups that have to be within one part of a topology, and are in several."""
    parts: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for pod in look.placed:
        workload = setting.workload(pod)
        if level := workload.topology_required:
            parts[workload.group_name, level].add(labels_of(setting.nodes.get(pod["spec"]["nodeName"])).get(level, "none"))
    for (name, level), values in sorted(parts.items()):
        if len(values) > 1:
            yield PLACEMENT, f"{name} has to be within one {level}, and is in {', '.join(sorted(values))}"


RULES: tuple[t.Callable[[Look, Setting], t.Iterator[Wrong]], ...] = (
    _owners,
    _unreserved,
    _split,
    _above_limits,
    _misplaced,
    _spread_groups,
)
