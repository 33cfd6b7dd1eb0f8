# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge which tenants may use the GPUs of one node together.

The scheduler of a virtual cluster sees the whole node, and never subtracts what other tenants hold of its extended
resources (pkg/controllers/resources/nodes of vCluster). Between such schedulers only quotas of the host cluster arbitrate.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import DEDICATED_TAINT


@dataclasses.dataclass(frozen=True)
class Claim:
    """A tenant's claim on a node.

    :ivar own_scheduler: its pods are placed by a scheduler within its virtual cluster.
    :ivar host_kai: its pods are placed by the KAI Scheduler of the host cluster.
    :ivar bound: GPU devices that its pods hold at most, by a quota of the host cluster; None without one.
    """

    tenant: str
    own_scheduler: bool = False
    host_kai: bool = False
    bound: int | None = None


def conflict(gpus: int, claims: t.Sequence[Claim]) -> str:
    """Return why a node cannot have all of these tenants; empty when it can.

    Every bound may be used up on one node, so on each node all of them together have to fit.

    :arg gpus: devices of the node.
    """
    own = [claim.tenant for claim in claims if claim.own_scheduler]
    if len(claims) < 2 or not own or not gpus:
        return ""
    kai = [claim.tenant for claim in claims if claim.host_kai]
    if kai:
        return (
            f"the host cluster's KAI Scheduler places {_and(kai)}'s pods, {_and(own)} brings a scheduler of its own, and neither "
            "leaves the other's pods alone"
        )
    unbounded = [claim.tenant for claim in claims if claim.bound is None]
    if unbounded:
        return f"{_and([claim.tenant for claim in claims])} do not see each other's pods, and no quota bounds {_and(unbounded)}"
    bounds = sum(claim.bound or 0 for claim in claims)
    if bounds > gpus:
        each = _and([f"{claim.tenant} {claim.bound}" for claim in claims])
        return f"{each} may hold {bounds} GPUs together, and the node has {gpus}"
    return ""


def _and(names: t.Sequence[str]) -> str:
    return " and ".join(names)


def tolerates_others(key: t.Any, operator: t.Any, value: t.Any, tenant: str = "") -> bool:
    """Tell whether a toleration lets pods onto nodes that are dedicated to a tenant of trust zero.

    :arg key: of a taint; empty for all taints. ``operator`` and ``value`` as Kubernetes has them.
    :arg tenant: whose own nodes do not count; empty where all nodes count.
    """
    own = bool(tenant) and operator != "Exists" and value == tenant
    return not key or (key == DEDICATED_TAINT and not own)
