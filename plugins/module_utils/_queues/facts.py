# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""KAI Scheduler's Queue: its API, and the keys and defaults that users write instead of the API's.

Source: deployments/kai-scheduler/crds/scheduling.run.ai_queues.yaml of kai-scheduler/KAI-Scheduler, the same from v0.7.11 to v0.17.0.
"""

from __future__ import annotations

from .._common.names import DEFAULT_QUEUE

# What its chart brings along.
DEFAULT_QUEUES = frozenset({DEFAULT_QUEUE, "default-parent-queue"})

UNLIMITED = "unlimited"
RESOURCES = ("gpu", "cpu", "memory")

# Keys that users write, and the API's names for them: of a queue, and of each of its resources.
TEXTS = {"display_name": "displayName", "preempt_min_runtime": "preemptMinRuntime", "reclaim_min_runtime": "reclaimMinRuntime"}
AMOUNTS = {"quota": "quota", "limit": "limit", "over_quota_weight": "overQuotaWeight"}
KEYS = ("name", "parent", "children", "node_pool", *RESOURCES, "priority", *TEXTS)

# What an omitted amount means, by resource. To the API, an omitted limit means "nothing allowed". A quota of CPU or memory that is 0 keeps
# every pod waiting that asks for some and may not be preempted (pkg/scheduler/plugins/proportion/capacity_policy/quota_check.go), and keeps
# a queue from getting the GPUs of its quota back: for that it has to be within its quotas of all three (reclaimable/strategies/strategies.go
# there, "in all resources"); the same from v0.7.11 to v0.17.0. An unlimited one counts in neither.
_GPU_DEFAULTS = {"quota": 0, "limit": -1, "over_quota_weight": 1}
DEFAULTS: dict[str, dict[str, int]] = {
    "gpu": _GPU_DEFAULTS,
    "cpu": _GPU_DEFAULTS | {"quota": -1},
    "memory": _GPU_DEFAULTS | {"quota": -1},
}
# As the CRD's description of spec.priority says.
DEFAULT_PRIORITY = 100
