# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Values of Volcano's chart, and its queues as objects of its API. Pure."""

from __future__ import annotations

import json
import math
import typing as t

from ..._common.ownership import OWNED_LABELS
from ..._common.values import JsonObject, Values
from .facts import ACTIONS, CAPABILITY, DESERVED, QUEUE_API, QUEUE_KIND, RESOURCES, TIERS, UNLIMITED_QUOTA

if t.TYPE_CHECKING:
    from ..._queues.values import Queue
    from .facts import Release

_MEGABYTE = 10**6


def chart_values(release: Release | None, tolerations: t.Sequence[JsonObject]) -> Values:
    """Return the values of the chart by which queues get what they deserve; of a release for which none are made, what it brings counts.

    :arg release: None for one that is not known.
    :arg tolerations: of the scheduler's own pods.
    """
    custom: Values = {"default_tolerations": list(tolerations)} if tolerations else {}
    if release and release.queues:
        # YAML has JSON in it. The chart takes the configuration as a text.
        custom["scheduler_config_override"] = json.dumps({"actions": ACTIONS, "tiers": [{"plugins": tier} for tier in TIERS]})
    return {"custom": custom} if custom else {}


def manifest(queue: Queue) -> JsonObject:
    """Return the object of Volcano's API for a queue.

    :arg queue: as module kai_queues reads it, in KAI Scheduler's units; without children.
    """
    deserved: dict[str, str] = {}
    capability: dict[str, str] = {}
    for resource, name in RESOURCES.items():
        amounts = queue.spec["resources"][resource]
        if amounts["limit"] != -1:
            capability[name] = _quantity(resource, amounts["limit"])
        unlimited = capability.get(name, UNLIMITED_QUOTA[resource])
        deserved[name] = unlimited if amounts["quota"] == -1 else _quantity(resource, amounts["quota"])
    return {
        "apiVersion": QUEUE_API,
        "kind": QUEUE_KIND,
        "metadata": {"name": queue.name, "labels": dict(OWNED_LABELS)},
        "spec": {"weight": 1, "reclaimable": True, DESERVED: deserved, CAPABILITY: capability},
    }


def _quantity(resource: str, amount: float) -> str:
    """Return an amount in KAI Scheduler's unit as Kubernetes writes it: devices, milli-CPU or bytes; what is less than one of these, as one."""
    if resource == "cpu":
        return f"{math.ceil(amount)}m" if amount % 1000 else str(math.ceil(amount / 1000))
    return str(math.ceil(amount * _MEGABYTE) if resource == "memory" else math.ceil(amount))
