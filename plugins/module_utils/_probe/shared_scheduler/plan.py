# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the probe of a tenant that shares the host cluster's KAI Scheduler, or nodes alone, and the free capacity that it needs."""

from __future__ import annotations

import dataclasses
import decimal
import typing as t

from ..._admission.facts import VISIBLE_DEVICES
from ..._common.names import FRACTION_NOTE, QUEUE_LABEL
from ..._common.pods import pod_spec
from ..._common.quantity import quantity
from ..._common.values import JsonObject
from ..._queues.values import from_live
from ..._vcluster.facts import GPU_QUOTA
from ..kai_scheduling.memory import SHOW
from ..kai_scheduling.plan import STAY, Capacity, allocated, free_gpus, make_pod
from ..plan import Settings, pod

QUEUE, DEVICES, GPU, FRACTION = "queue", "devices", "gpu", "fraction"
CHECKS = (QUEUE, DEVICES, GPU, FRACTION)
HALF = decimal.Decimal("0.5")
NO_QUEUE = "the tenant has no queue"
# No tenant has a queue of this name.
NOBODYS_QUEUE = "kubegpu-nobodys-queue"


@dataclasses.dataclass(frozen=True)
class Check:
    """Something to try.

    :ivar queue: empty for a pod that names none.
    :ivar pods: of the tenant's own API, each created when those before it run.
    :ivar refused_for: what the host cluster's reason names for refusing the one pod; empty where pods have to run.
    """

    name: str
    queue: str
    pods: tuple[JsonObject, ...]
    refused_for: str = ""

    @property
    def pod_names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods]


def make_check(name: str, queue: str, settings: Settings) -> Check:
    """Return one of CHECKS: a pod in a queue of no tenant, one that would see all GPUs of its node, one with a GPU, or two with half of one each."""
    script = f"nvidia-smi -L; {STAY}"
    if name == QUEUE:
        return Check(name, NOBODYS_QUEUE, (make_pod(settings, "queue-1", NOBODYS_QUEUE, STAY),), QUEUE_LABEL)
    if name == DEVICES:
        return Check(name, "", (_pod_that_names_all_devices(settings),), VISIBLE_DEVICES)
    if name == GPU:
        return Check(name, queue, (make_pod(settings, "gpu-1", queue, script, gpus=1),))
    notes = {FRACTION_NOTE: str(HALF)}
    halves = (make_pod(settings, f"fraction-{number}", queue, f"{SHOW}; {script}", notes=notes) for number in (1, 2))
    return Check(name, queue, tuple(halves))


def _pod_that_names_all_devices(settings: Settings) -> JsonObject:
    """Return a pod that any tenant's default scheduler places, so that what it says of devices is all that can be refused."""
    spec = pod_spec(settings.image, STAY, env=[{"name": VISIBLE_DEVICES, "value": "all"}])
    return pod(settings, spec, name="devices-1")


def shortage(
    check: Check,
    resource: str,
    nodes: t.Sequence[JsonObject],
    pods: t.Sequence[JsonObject],
    queues: t.Sequence[JsonObject],
    quotas: t.Sequence[JsonObject],
) -> str:
    """Return why a check cannot be tried; empty where it can.

    :arg nodes: the tenant's, as the host cluster has them; ``pods`` and ``queues``, all of the host cluster.
    :arg quotas: the ResourceQuotas of the tenant's namespace there.
    """
    if check.refused_for:
        return ""
    if not check.queue:
        return NO_QUEUE
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
