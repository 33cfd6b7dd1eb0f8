# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A scheduler as an inventory describes it."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.values import JsonObject
from .._common.variables import KAI


@dataclasses.dataclass(frozen=True)
class Scheduler:
    """A scheduler as an inventory describes it: a tenant's own one, or the host cluster's that tenants share.

    :ivar shared: whether it is the host cluster's KAI Scheduler; its release is then the cluster's.
    """

    name: str
    version: str = ""
    gpu_sharing: bool = False
    gpu_memory_enforced: bool = False
    accept_hazards: list[str] = dataclasses.field(default_factory=list)
    values: JsonObject = dataclasses.field(default_factory=dict)
    shared: bool = False
    chart: str = ""
    repository: str = ""

    @property
    def own_kai(self) -> bool:
        """Whether it is a KAI Scheduler inside the tenant's virtual cluster."""
        return self.name == KAI and not self.shared


@dataclasses.dataclass(frozen=True)
class Entry:
    """The entry of a scheduler in an inventory, with what it has to suit.

    :ivar given: its keys that are set.
    :ivar queues: tree of queues as people write it.
    :ivar path: of the variable that has the queues; ``here``, of the entry itself, for refusals.
    :ivar runtime_class: RuntimeClass of pods with GPUs; empty for none.
    :ivar tolerations: of everything of tenants.
    :ivar on_host: it runs in the host cluster, where nothing takes the taints off nodes.
    """

    scheduler: Scheduler
    given: t.Mapping[str, t.Any]
    queues: t.Any
    path: str
    here: str
    runtime_class: str = ""
    tolerations: tuple[JsonObject, ...] = ()
    on_host: bool = False
