# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell whether pods that share a GPU are kept to the memory of their parts, by what nvidia-smi says in them.

In a pod with HAMi-core, it says the pod's limit, as upstream's test of it expects (test/e2e/suites/integrations/third_party/hamicore of
KAI Scheduler v0.17.0). No pod of a probe tries to take more.
"""

from __future__ import annotations

import dataclasses
import decimal
import re
import typing as t

from ..._common.names import GPU_MEMORY_LABEL
from ..._common.ownership import labels_of
from ..._common.quantity import whole
from ..._common.values import JsonObject
from ..._kai.facts import CONFIG, MEMORY_ADD_ON
from ..._kai.values import limits_memory
from ..facts import FAILED, PASSED
from ..status import Verdict

if t.TYPE_CHECKING:
    from ..._adapters.kubernetes import Kube

# Prints a line such as "81559 MiB" for each GPU.
SHOW = "nvidia-smi --query-gpu=memory.total --format=csv,noheader"
_SHOWN = re.compile(r"^(\d{1,12}) MiB *\r?$", re.MULTILINE)
# What a limit may be above its part, of the whole: KAI Scheduler rounds, and upstream's test allows as much.
_TOLERANCE = decimal.Decimal("0.01")


@dataclasses.dataclass(frozen=True)
class Memory:
    """What a cluster says of its GPUs' memory.

    :ivar sizes: MiB of a GPU, by node; ``asked``, whether KAI Scheduler is to limit what pods with parts have.
    """

    sizes: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    asked: bool = False


@dataclasses.dataclass(frozen=True)
class Part:
    """A pod with part of a GPU: its node, the part, and its log."""

    pod: str
    node: str
    portion: decimal.Decimal
    log: str


def gpu_size(node: JsonObject) -> int:
    """Return the MiB of a node's GPU; 0 where no label says it. A label of 0, which a driver that does not tell leaves, says nothing."""
    size = labels_of(node).get(GPU_MEMORY_LABEL, "")
    return whole(size) if re.fullmatch(r"0*[1-9][0-9]{0,14}", size) else 0


def read_memory(kube: Kube, nodes: t.Iterable[JsonObject]) -> Memory:
    """Return what the cluster says of its GPUs' memory.

    :arg kube: of the cluster with KAI Scheduler.
    """
    config = kube.get(*CONFIG) or {}
    return Memory({node["metadata"]["name"]: gpu_size(node) for node in nodes}, limits_memory(config.get("spec") or {}))


def judge_memory(parts: t.Sequence[Part], memory: Memory) -> Verdict:
    """Return whether pods see no more memory than that of their parts; failed only where KAI Scheduler is to limit it."""
    shown = [(part, next(map(whole, _SHOWN.findall(part.log)), 0), memory.sizes.get(part.node, 0)) for part in parts]
    for part, seen, size in shown:
        if seen and size and seen <= size * (part.portion + _TOLERANCE):
            continue
        known = f"pod {part.pod} with {part.portion} of a GPU sees {seen} of {size} MiB"
        why = known if seen and size else f"how much pod {part.pod} sees of its GPU's memory is not known"
        if memory.asked:
            look = f"Look at {MEMORY_ADD_ON}, and at the nodes' label {GPU_MEMORY_LABEL}"
            return FAILED, f"memory is not enforced, though KAI Scheduler is to limit it: {why}. {look}"
        return PASSED, f"scheduled, but memory is not enforced: {why}"
    return PASSED, f"memory is enforced: the pods see {', '.join(str(seen) for _part, seen, _size in shown)} MiB"
