# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What the workers of a cluster that is made have, and whether that is enough for its tenants."""

from __future__ import annotations

import re
import typing as t

from .._common.errors import Problem, TenancyError
from .._common.forms import label_problems
from .._common.schema import Problems, quoted
from .._common.variables import TENANTS, WORKERS
from .._queues import validation as queues
from . import facts
from .model import Tenant

# A GPU's index, or its UUID.
_GPU = re.compile(r"[0-9]{1,9}|GPU-[-0-9A-Za-z]{1,60}")


def layout(workers: t.Any, problems: Problems) -> list[int]:
    """Return the number of GPU devices of each worker."""
    holders: dict[str, str] = {}
    listed = workers if problems.typed(workers, list, WORKERS) else []
    return [_worker(worker, f"{WORKERS}[{index}]", holders, problems) for index, worker in enumerate(listed)]


def _worker(given: t.Any, path: str, holders: dict[str, str], problems: Problems) -> int:
    """Return the GPUs of a worker, as role nvkind gives them to it.

    :arg holders: paths of the workers before it that name a GPU, by its index or UUID; this one's are added.
    """
    worker = problems.mapping(given, facts.WORKER, path)
    if isinstance(given, dict) and isinstance(given.get("gpus"), int):
        # The role would take it for the index of one GPU.
        problems.add("gpus-as-a-count", f"{path}.gpus", "names GPUs, such as [0, 1]. How many it gets says count.")
    if "gpus" in worker and "count" in worker:
        problems.add("not-exactly-one", path, "names its gpus, or gives their count, not both.")
    count = worker.get("count", 0)
    if count < 0:
        problems.add("out-of-range", f"{path}.count", f"must be at least 0, not {count}.")
    problems.extend(label_problems({key: str(value) for key, value in worker.get("labels", {}).items()}, f"{path}.labels"))
    for number, gpu in enumerate(worker.get("gpus", [])):
        here = f"{path}.gpus[{number}]"
        if isinstance(gpu, bool) or not isinstance(gpu, (int, str)) or not _GPU.fullmatch(str(gpu)):
            problems.add("not-a-gpu", here, f"must be the index or the UUID of a GPU, not {quoted(gpu)}.")
        elif (holder := holders.setdefault(_same(str(gpu)), here)) != here:
            problems.add("gpu-given-twice", here, f"GPU {gpu} stands in {holder} already.")
    return len(worker["gpus"]) if "gpus" in worker else max(0, count)


def _same(gpu: str) -> str:
    """Return an index without leading zeros, or a UUID in small letters, as NVIDIA's library takes both."""
    return gpu.lstrip("0") or "0" if gpu.isdecimal() else gpu.lower()


def check_layout(tenants: list[Tenant], layout: list[int], gpus: int | None, problems: Problems) -> None:
    """Refuse tenants that need more nodes or GPUs than the workers have.

    :arg gpus: GPU devices of the host, where known; the workers may not ask for more.
    """
    if gpus is not None and sum(layout) > gpus:
        problems.add("too-few-gpus", WORKERS, f"they ask for {sum(layout)} GPUs, the host has {gpus}.")
    # Sums over what was refused would only confuse.
    if problems:
        return
    have = sorted((count for count in layout if count), reverse=True)
    present = [tenant for tenant in tenants if tenant.state != "absent"]
    # What is shared belongs to no single tenant; tenant_nodes counts it when it knows the nodes.
    asked = {tenant.name: tenant.gpu_nodes.least for tenant in present if tenant.gpu_nodes and not tenant.gpu_nodes.shared_gpus}
    if sum(asked.values()) > len(have):
        who = ", ".join(f"{name} {count}" for name, count in asked.items())
        problems.add(
            "too-few-nodes",
            TENANTS,
            f"the tenants ask for {sum(asked.values())} nodes with GPUs ({who}), the cluster has {len(have)}.",
        )
    for tenant in present:
        if not tenant.gpu_nodes.labels:
            problems.extend(quota_problems(tenant, sum(have[: tenant.gpu_nodes.least])))


def quota_problems(tenant: Tenant, gpus: int) -> list[Problem]:
    """List the queues that are promised more GPU devices than the tenant has; a limit above that is harmless.

    :arg gpus: devices of its nodes.
    """
    gpus = min(gpus, tenant.gpu_nodes.shared_gpus or gpus)
    try:
        tree = queues.parse(list(tenant.queues))
    except TenancyError:
        return []
    quotas = {queue.name: queue.spec["resources"]["gpu"]["quota"] for queue in tree.values()}
    return [
        Problem(
            "quota-above-gpus", f"{tenant.path}.queues: queue {name} is promised {quota} GPUs, the tenant has {gpus} at most."
        )
        for name, quota in quotas.items()
        if quota > gpus
    ]


def unwritten_quotas(tenants: t.Iterable[Tenant]) -> list[str]:
    """List the queues in which pods may wait for ever, because a GPU quota that is not written is 0."""
    found = {
        tenant.name: queues.without_gpu_quota(tenant.queues)
        for tenant in tenants
        if tenant.gpu_nodes and tenant.state != "absent"
    }
    why = "so that pods that may not be preempted, such as those of Deployments, wait there for ever for GPUs."
    return [
        f"{name}: queues.{queue}.gpu.quota is not written and therefore 0, {why} Write it, also where 0 is meant."
        for name, names in found.items()
        for queue in names
    ]
