# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What nodes offer, what pods hold, and whose pods they are: the rows that the ledger is made of. Pure."""

from __future__ import annotations

import dataclasses
import decimal
import typing as t

from .._common.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, HOST_SCHEDULER_LABEL, NODE_POOL_LABEL, TENANT_LABEL
from .._common.ownership import is_synced, labels_of
from .._common.quantity import devices
from .._common.values import JsonObject
from .._nodes.status import VENDOR, gpu_groups, is_reservation, offered, owners

# Where a GPU group is known, and its name: groups of a tenant's own KAI Scheduler are known in its namespace alone.
Group = tuple[str, str]

# GPUs of one node that are told apart at most. A node has a few, or some hundred replicas of them; a pod may ask for any number.
MOST_TOLD = 2000
# Where the GPU groups of the host cluster's own KAI Scheduler are known; no namespace has an empty name.
_HOST = ""


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a node offers.

    :ivar owners: names of the tenants whose node it is.
    :ivar gpus: GPU devices; ``others``, what else of NVIDIA, such as MIG slices, by resource.
    :ivar memory: MiB of a GPU as its label says; ``product``, the GPU's name, alike; ``pool``, its node pool of KAI Scheduler. Each is
        empty without a label.
    """

    node: str
    owners: list[str]
    gpus: int
    others: t.Mapping[str, int]
    memory: str
    product: str = ""
    pool: str = ""


@dataclasses.dataclass(frozen=True)
class Holding:
    """GPUs that a pod keeps from others.

    :ivar pod: as "namespace/name"; ``node``, empty without one; ``tenant``, empty for pods of none.
    :ivar gpus: devices; ``others``, what else of NVIDIA, by resource.
    :ivar parts: whose they are: the part of each of these GPUs, by tenant.
    :ivar reserved: they are held for pods that share a GPU; ``groups``, those of these pods.
    """

    pod: str
    node: str
    tenant: str
    gpus: int
    others: t.Mapping[str, int]
    parts: t.Mapping[str, decimal.Decimal]
    reserved: bool = False
    groups: frozenset[Group] = frozenset()

    @property
    def tenants(self) -> list[str]:
        return sorted(filter(None, self.parts))


class Owners:
    """Whose the namespaces of a host cluster are, and where the GPU groups of the pods in them are known."""

    def __init__(self, namespaces: t.Iterable[JsonObject]) -> None:
        self._tenants: dict[str, str] = {}
        self._apart: set[str] = set()
        for item in namespaces:
            # A namespace that a tenant's syncer brought has the labels that its tenant gave it.
            name, labels = item["metadata"]["name"], {} if is_synced(item) else labels_of(item)
            self._tenants[name] = labels.get(TENANT_LABEL, "")
            # Its pods never meet the host cluster's KAI Scheduler, regardless of their labels.
            if TENANT_LABEL in labels and HOST_SCHEDULER_LABEL not in labels:
                self._apart.add(name)

    def names(self) -> set[str]:
        """Return the names of all tenants."""
        return set(filter(None, self._tenants.values()))

    def of(self, item: JsonObject) -> str:
        """Return the tenant of an object by its namespace; empty where it is no tenant's."""
        return self._tenants.get(item["metadata"]["namespace"], "")

    def groups(self, pod: JsonObject) -> set[Group]:
        """Return the GPU groups of a pod, with each place where they may be known."""
        namespace = pod["metadata"]["namespace"]
        known_in = {namespace} if namespace in self._apart else {namespace, _HOST}
        if is_reservation(pod):
            known_in = {namespace} if is_synced(pod) else {_HOST}
        return {(place, group) for place in known_in for group in gpu_groups(pod)}


def pod_name(pod: JsonObject) -> str:
    """Return how a pod of the host cluster is named in notes."""
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"


def offer_of(node: JsonObject, resource: str) -> Offer:
    metadata, allocatable = node["metadata"], (node.get("status") or {}).get("allocatable") or {}
    others = {key: devices(allocatable[key]) for key in sorted(allocatable) if key.startswith(VENDOR) and key != resource}
    labels = labels_of(node)
    known = (labels.get(label, "") for label in (GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, NODE_POOL_LABEL))
    return Offer(metadata["name"], owners(labels), offered(node, resource), others, *known)
