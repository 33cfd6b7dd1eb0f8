# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is let through never adds up to more than there is, regardless of who asks for GPUs first.

Tenants, layouts and pods are generated. Schedulers place pods by what each of them can see and by what bounds a tenant, and the ledger
reads the result.
"""

from __future__ import annotations

import collections
import dataclasses
import decimal

from ansible_collections.kubegpu.tenancy.plugins.module_utils._assignment.plan import assign
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.model import Tenant
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.module_utils._ledger.status import ledger
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from hypothesis import event, given, settings
from hypothesis import strategies as st

KAI = {"name": "kai", "version": "v0.16.8"}
ONE = decimal.Decimal(1)
# Parts of a GPU, or a whole number of them.
AMOUNTS = ["0.25", "0.5", "0.75", "1", "1", "2"]
SCHEDULERS = {"its own": KAI, "the cluster's": None, "shared": {"name": "kai", "shared": True}}
# How the tenants of a cluster have their nodes, and whose schedulers place their pods.
STYLES = {
    "apart": [*SCHEDULERS],
    "bounded by quotas": ["its own", "the cluster's"],
    "shared scheduler": ["shared"],
    "all together": [*SCHEDULERS],
}


@st.composite
def tenants(draw, names, style):
    scheduler = SCHEDULERS[draw(st.sampled_from(STYLES[style]))]
    if style == "apart":
        nodes = draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
        chosen = draw(st.sampled_from([{"count": len(nodes)}, {"names": nodes}]))
    else:
        chosen = {"names": names, "shared_gpus": draw(st.integers(1, 4))}
        if scheduler and scheduler.get("shared"):
            chosen["share_gpus_with"] = draw(st.sampled_from(["own", "any"]))
    made = {"trust": "high", "gpu_nodes": chosen}
    if scheduler:
        limit = draw(st.integers(1, 4))
        made |= {"scheduler": scheduler, "queues": [{"gpu": {"limit": limit}}]}
    return made


@st.composite
def clusters(draw):
    """Nodes with their GPUs, tenants, and of whom how large pods come, as long as one finds a place."""
    sizes = {f"n{number}": size for number, size in enumerate(draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))}
    given = draw(st.lists(tenants(sorted(sizes), draw(st.sampled_from(sorted(STYLES)))), min_size=1, max_size=3))
    for number, tenant in enumerate(given):
        tenant["name"] = f"t{number}"
        for queue in tenant.get("queues", ()):
            queue |= {"name": f"q{number}", "children": [{"name": f"leaf{number}"}]}
    coming = st.tuples(st.sampled_from([tenant["name"] for tenant in given]), st.sampled_from(AMOUNTS))
    return sizes, given, draw(st.lists(coming, min_size=2, max_size=8))


@dataclasses.dataclass
class Placed:
    tenant: str
    node: str
    amount: decimal.Decimal
    group: str = ""


class Schedulers:
    """All schedulers of a cluster, each of which books GPUs by what it sees."""

    def __init__(self, sizes: dict[str, int], tenants: dict[str, Tenant], assigned: dict[str, list[str]]) -> None:
        self.sizes, self.tenants, self.assigned = sizes, tenants, assigned
        self.placed: list[Placed] = []

    def place(self, name: str, amount: decimal.Decimal) -> bool:
        """Place a pod where its scheduler finds room and nothing bounds the tenant; return whether it has a place."""
        tenant = self.tenants[name]
        mine = [one for one in self.placed if one.tenant == name]
        whole = sum(one.amount for one in mine if not one.group)
        if amount < ONE and not (tenant.scheduler and tenant.gpu_nodes.divisible):
            return False  # The admission policy refuses it, or no scheduler knows parts of GPUs.
        bound = tenant.gpu_nodes.shared_gpus
        if bound is not None and amount >= ONE and whole + amount > bound:
            return False  # The quota of its namespace counts whole GPUs.
        if tenant.scheduler and sum(one.amount for one in mine) + amount > tenant.queues[0]["gpu"]["limit"]:
            return False  # The limit of its queue counts parts, too.
        seen = mine if tenant.own_scheduler else self.placed
        for node in self.assigned[name]:
            if amount < ONE and (group := self._group(node, amount, seen)):
                self.placed.append(Placed(name, node, amount, group))
                return True
            if self._free(node, seen) >= max(amount, ONE):
                group = f"g{len(self.placed)}" if amount < ONE else ""
                self.placed.append(Placed(name, node, amount, group))
                return True
        return False

    def _free(self, node: str, seen: list[Placed]) -> decimal.Decimal:
        there = [one for one in seen if one.node == node]
        groups = {one.group for one in there if one.group}
        return self.sizes[node] - len(groups) - sum((one.amount for one in there if not one.group), decimal.Decimal(0))

    @staticmethod
    def _group(node: str, amount: decimal.Decimal, seen: list[Placed]) -> str:
        """KAI Scheduler fills a GPU that is shared, even if another tenant has the rest of it."""
        parts: dict[str, decimal.Decimal] = collections.defaultdict(decimal.Decimal)
        for one in seen:
            if one.node == node and one.group:
                parts[one.group] += one.amount
        return next((group for group, used in sorted(parts.items()) if used + amount <= ONE), "")

    def pods(self) -> list[dict]:
        """What the API server would show of them, reservations of shared GPUs included."""
        made = []
        for number, one in enumerate(self.placed):
            labels, notes = ({"runai-gpu-group": one.group}, {"gpu-fraction": str(one.amount)}) if one.group else ({}, {})
            made.append(pod(f"p{number}", f"tenant-{one.tenant}", one.node, 0 if one.group else one.amount, labels, notes))
        for group, node in {one.group: one.node for one in self.placed if one.group}.items():
            labels = {"app": "kai-resource-reservation", "runai-gpu-group": group}
            made.append(pod(f"r-{group}", "kai-resource-reservation", node, 1, labels, {}))
        return made


def pod(name, namespace, node, gpus, labels, annotations):
    container = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


@settings(max_examples=2000)
@given(clusters())
def test_what_is_let_through_never_adds_up_to_more_than_there_is(cluster):
    sizes, given, coming = cluster
    nodes = [{"name": name, "gpus": size, "labels": {}, "taints": [], "obstacle": ""} for name, size in sizes.items()]
    shares = any((tenant.get("scheduler") or {}).get("shared") for tenant in given)
    variables = {
        "kubegpu_cluster_provider": "existing",
        "kubegpu_kubeconfig": "/etc/kubernetes/admin.conf",
        TENANTS: given,
        SHARED_SCHEDULER: KAI | {"gpu_sharing": True} if shares else {},
    }
    try:
        wanted = desired_state(variables, "dc1", TODAY).tenants
        assigned = assign(wanted, nodes)
    except TenancyError:
        event("refused")
        return
    schedulers = Schedulers(sizes, {tenant.name: tenant for tenant in wanted}, assigned)
    for name, amount in coming:
        while schedulers.place(name, decimal.Decimal(amount)):
            pass
    there = {(one.tenant, one.node) for one in schedulers.placed}
    event(
        f"let through, {'nodes with pods of several tenants' if len(there) > len({node for _tenant, node in there}) else 'others'}"
    )

    shown = [
        {
            "metadata": {
                "name": name,
                "labels": {f"tenant.kubegpu.tenancy/{tenant}": "true" for tenant, names in assigned.items() if name in names},
            },
            "status": {"allocatable": {"nvidia.com/gpu": str(size)}},
        }
        for name, size in sizes.items()
    ]
    namespaces = [
        {
            "metadata": {
                "name": f"tenant-{tenant.name}",
                "labels": {"kubegpu.tenancy/tenant": tenant.name, "kubegpu.tenancy/scheduler": "kai"},
            }
        }
        for tenant in wanted
    ]
    found = ledger(shown, schedulers.pods(), namespaces, [], {})
    willing = {tenant.name for tenant in wanted if tenant.gpu_nodes.share_gpus_with == "any"}
    for row in found["tenants"]:
        assert not row["shared_with"] or {row["tenant"], *row["shared_with"]} <= willing
        bound = schedulers.tenants[row["tenant"]].gpu_nodes.shared_gpus
        assert bound is None or row["shares"] <= bound
    assert [overlap for overlap in found["overlaps"] if "is shared by pods of tenants" not in overlap] == []
    for row in found["nodes"]:
        assert row["in_use"] <= row["allocatable"]
        assert all(sum(parts.values()) <= 1 for parts in row["gpus"])
