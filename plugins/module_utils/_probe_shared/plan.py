# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the probe of a tenant whose pods the host cluster's KAI Scheduler places, and the free capacity that it needs."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import quantity
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import FRACTION_NOTE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.plan import (
    STAY,
    Capacity,
    Settings,
    allocated,
    free_gpus,
    make_pod,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import from_live
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import GPU_QUOTA

Object = dict[str, t.Any]

QUEUE, GPU, FRACTION = "queue", "gpu", "fraction"
CHECKS = (QUEUE, GPU, FRACTION)
# No tenant has a queue of this name.
NOBODYS_QUEUE = "kubegpu-nobodys-queue"


@dataclasses.dataclass(frozen=True)
class Check:
    """Something to try in one queue.

    :ivar pods: of the tenant's own API, each created when those before it run.
    """

    name: str
    queue: str
    pods: tuple[Object, ...]

    @property
    def pod_names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods]


def make_check(name: str, queue: str, settings: Settings) -> Check:
    """Return one of CHECKS: a pod in a queue that is not the tenant's, one with a whole GPU, or two with half of one each."""
    script = f"nvidia-smi -L; {STAY}"
    if name == QUEUE:
        return Check(name, NOBODYS_QUEUE, (make_pod(settings, "queue-1", NOBODYS_QUEUE, STAY),))
    if name == GPU:
        return Check(name, queue, (make_pod(settings, "gpu-1", queue, script, gpus=1),))
    halves = (make_pod(settings, f"fraction-{number}", queue, script, notes={FRACTION_NOTE: "0.5"}) for number in (1, 2))
    return Check(name, queue, tuple(halves))


def shortage(
    check: Check,
    resource: str,
    nodes: t.Sequence[Object],
    pods: t.Sequence[Object],
    queues: t.Sequence[Object],
    quotas: t.Sequence[Object],
) -> str:
    """Return why a check cannot be tried; empty where it can.

    :arg nodes: the tenant's, as the host cluster has them; ``pods`` and ``queues``, all of the host cluster.
    :arg quotas: the ResourceQuotas of the tenant's namespace there.
    """
    if check.name == QUEUE:
        return ""
    free = free_gpus(nodes, pods, resource)
    if free < 1:
        return "no GPU of the tenant's nodes is free"
    live = from_live(queues)
    if check.queue not in live:
        return ""
    if Capacity(live, allocated(queues, resource), free).headroom(check.queue) < 1:
        return f"queue {check.queue}, or one above it, allows no other GPU now"
    for quota in quotas if check.name == GPU else ():
        hard, used = ((quota.get("status") or {}).get(key) or {} for key in ("hard", "used"))
        if GPU_QUOTA in hard and quantity(hard[GPU_QUOTA]) - quantity(used.get(GPU_QUOTA, 0)) < 1:
            return f"the quota of {hard[GPU_QUOTA]} GPUs on the host cluster is used up"
    return ""
