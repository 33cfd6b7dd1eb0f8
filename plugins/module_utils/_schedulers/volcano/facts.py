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

from ..._common.variables import VOLCANO

# Of the scheduler in pods, and by default of its chart, release and namespace.
NAME = VOLCANO
REPOSITORY = "https://volcano-sh.github.io/helm-charts"
QUEUE_API, QUEUE_KIND = "scheduling.volcano.sh/v1beta1", "Queue"
JOB_API, JOB_KIND = "batch.volcano.sh/v1alpha1", "Job"
POD_GROUP_KIND = "PodGroup"
# Label of each pod of a Job (staging or vendored apis, batch/v1alpha1/labels.go).
JOB_LABEL = "volcano.sh/job-name"
# Annotation of a pod: its pod group (apis, scheduling/v1beta1/labels.go), and the condition of a group that does not start, which another one
# replaces once it does (pkg/scheduler/plugins/gang).
GROUP_NOTE, WAITS = "scheduling.k8s.io/group-name", "Unschedulable"
# Queues that Volcano makes itself (pkg/scheduler/cache/cache.go).
OWN_QUEUES = ("default", "root")
# Phase of a pod group whose work is done (apis, scheduling/v1beta1/types.go); of all others, pods run or wait.
COMPLETED = "Completed"


@dataclasses.dataclass(frozen=True)
class Release:
    """What a line of releases is.

    :ivar mounts_host: the scheduler mounts a folder of its node (hostPath in templates/scheduler.yaml of the chart), which the pod security
        standards baseline and restricted refuse.
    :ivar queues: whether this collection makes queues for it. Plugin capacity, by which a queue gets what it deserves, gives back by other rules
        from 1.13 on (pkg/scheduler/plugins/capacity, pkg/webhooks/admission/queues), which were not tried.
    """

    line: tuple[int, int]
    mounts_host: bool
    queues: bool


# Before 1.10, the chart does not take a configuration of the scheduler as a value.
RELEASES = {
    release.line: release
    for release in (Release((1, minor), mounts_host=minor <= 11, queues=minor <= 12) for minor in range(10, 16))
}

# Resources of a Volcano queue, by the names that users write.
RESOURCES = {"gpu": "nvidia.com/gpu", "cpu": "cpu", "memory": "memory"}
# Where a queue's amounts stand in its spec: what is its own, although others may borrow it, and what it gets at most.
DESERVED, CAPABILITY = "deserved", "capability"
# What stands for an unlimited quota where there is no limit. A CPU or memory that deserved leaves out counts as 0 (api.NewResource), and a queue
# with more of one resource than it deserves gives pods back, even if it has less of the others. A GPU that it leaves out is never taken back for
# the queue itself (LessEqualWithDimension in the plugin's PreemptiveFn).
UNLIMITED_QUOTA = {"gpu": "1000000", "cpu": "1000000", "memory": "1Pi"}
# Keys of KAI Scheduler's queues that say nothing to Volcano, and why.
NOT_KNOWN = {
    "display_name": "Volcano's queues have no other name",
    "preempt_min_runtime": "Volcano has no time for which pods are kept",
    "reclaim_min_runtime": "Volcano has no time for which pods are kept",
}
# The configuration of the scheduler. Who gives pods back is decided by the first tier of plugins that names some (framework/session_plugins.go),
# so capacity stands there, without gang, which names all pods that a job has beyond its minimum.
ACTIONS = "enqueue, allocate, backfill, reclaim"
TIERS: tuple[tuple[dict[str, str | bool], ...], ...] = (
    (
        {"name": "priority"},
        {"name": "gang", "enablePreemptable": False, "enableReclaimable": False},
        {"name": "conformance"},
        {"name": "capacity"},
    ),
    (
        {"name": "overcommit"},
        {"name": "drf", "enablePreemptable": False},
        {"name": "predicates"},
        {"name": "nodeorder"},
        {"name": "binpack"},
    ),
)
