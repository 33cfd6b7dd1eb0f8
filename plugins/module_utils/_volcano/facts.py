# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Volcano: its releases, its API, and what its queues can say.

Sources are files of volcano-sh/volcano at the tags v1.9.0 to v1.15.1.
"""

from __future__ import annotations

import dataclasses

from .._common.variables import VOLCANO

# Of the scheduler in pods, and by default of its chart, release and namespace.
NAME = VOLCANO
REPOSITORY = "https://volcano-sh.github.io/helm-charts"
QUEUE_API, QUEUE_KIND = "scheduling.volcano.sh/v1beta1", "Queue"
JOB_API, JOB_KIND = "batch.volcano.sh/v1alpha1", "Job"
POD_GROUP_KIND = "PodGroup"
# Label of each pod of a Job (staging or vendored apis, batch/v1alpha1/labels.go).
JOB_LABEL = "volcano.sh/job-name"
# Queues that Volcano makes itself (pkg/scheduler/cache/cache.go).
OWN_QUEUES = ("default", "root")
# Phases of pod groups that hold or wait for something, as a queue's status counts them.
UNFINISHED = ("pending", "inqueue", "running", "unknown")


@dataclasses.dataclass(frozen=True)
class Release:
    """What a line of releases is.

    :ivar mounts_host: the scheduler mounts a folder of its node (hostPath in templates/scheduler.yaml of the chart), which the pod security
        standards baseline and restricted refuse.
    """

    line: tuple[int, int]
    mounts_host: bool


# Lines with plugin capacity, by which a queue has what it deserves (pkg/scheduler/plugins/capacity). Its hierarchy, from 1.11 on, was not tried.
RELEASES = {release.line: release for release in (Release((1, minor), mounts_host=minor <= 11) for minor in range(9, 16))}

# Resources of a Volcano queue, by the names that users write.
RESOURCES = {"gpu": "nvidia.com/gpu", "cpu": "cpu", "memory": "memory"}
# Where a queue's amounts stand in its spec: what is its own, although others may borrow it, and what it gets at most.
AMOUNTS = {"quota": "deserved", "limit": "capability"}
# What stands for an unlimited quota. A CPU or memory that a queue's deserved leaves out counts as 0 (api.NewResource), and a queue with more of one
# resource than it deserves gives pods back, even if it has less of the others; a GPU that is left out counts as unlimited.
UNLIMITED_QUOTA = {"cpu": "1000000", "memory": "1Pi"}
# Keys of KAI Scheduler's queues that say nothing to Volcano, and why.
NOT_KNOWN = {
    "display_name": "Volcano's queues have no other name",
    "preempt_min_runtime": "Volcano has no time for which pods are kept",
    "reclaim_min_runtime": "Volcano has no time for which pods are kept",
}
# What decides, in its order: gangs first, then what a queue deserves; others give back what is above that.
ACTIONS = "enqueue, allocate, backfill, reclaim"
TIERS = (("priority", "gang", "conformance"), ("overcommit", "drf", "predicates", "capacity", "nodeorder", "binpack"))
# Plugins that would keep a whole gang, or a fair share, from giving anything back.
NO_PREEMPTION = ("gang", "drf")
