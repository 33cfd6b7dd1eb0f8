# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Values of Volcano's chart, and its queues as objects of its API. Pure."""

from __future__ import annotations

import json
import typing as t

from .._common.ownership import OWNED_LABELS
from .._common.values import JsonObject, Values
from .facts import ACTIONS, AMOUNTS, NO_PREEMPTION, QUEUE_API, QUEUE_KIND, RESOURCES, TIERS, UNLIMITED_QUOTA

if t.TYPE_CHECKING:
    from .._queues.values import Queue

_MEGABYTE = 10**6


def chart_values(tolerations: t.Sequence[JsonObject]) -> Values:
    """Return the values of the chart by which queues get what they deserve.

    :arg tolerations: of the scheduler's own pods.
    """
    plugins = [
        [{"name": name} | ({"enablePreemptable": False} if name in NO_PREEMPTION else {}) for name in tier] for tier in TIERS
    ]
    # YAML has JSON in it. The chart takes the configuration as a text.
    config = json.dumps({"actions": ACTIONS, "tiers": [{"plugins": tier} for tier in plugins]})
    custom: Values = {"scheduler_config_override": config}
    if tolerations:
        custom["default_tolerations"] = list(tolerations)
    return {"custom": custom}


def manifest(queue: Queue) -> JsonObject:
    """Return the object of Volcano's API for a queue.

    :arg queue: as module kai_queues reads it, in KAI Scheduler's units; without children.
    """
    resources = queue.spec["resources"]
    amounts = {
        field: {
            name: _quantity(resource, resources[resource][key])
            for resource, name in RESOURCES.items()
            if resources[resource][key] != -1
        }
        for key, field in AMOUNTS.items()
    }
    amounts["deserved"] = UNLIMITED_QUOTA | amounts["deserved"]
    return {
        "apiVersion": QUEUE_API,
        "kind": QUEUE_KIND,
        "metadata": {"name": queue.name, "labels": dict(OWNED_LABELS)},
        "spec": {"weight": 1, "reclaimable": True, **amounts},
    }


def _quantity(resource: str, amount: float) -> str:
    """Return an amount in KAI Scheduler's unit as Kubernetes writes it: devices, milli-CPU or bytes."""
    if resource == "cpu":
        return f"{round(amount)}m" if amount % 1000 else str(round(amount / 1000))
    return str(round(amount * _MEGABYTE) if resource == "memory" else round(amount))
