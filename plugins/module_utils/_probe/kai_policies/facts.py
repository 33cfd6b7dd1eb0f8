# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What the probe of KAI Scheduler's policies is made of."""

from __future__ import annotations

CHECKS = ("reclaim", "preemption", "fair_share", "elastic", "roles", "job", "packing", "topology")

# The queues of the probe: a parent that bounds it, and two leaves. Two levels, the only number that every release schedules.
PARENT, FIRST, SECOND = "kubegpu-probe", "kubegpu-probe-a", "kubegpu-probe-b"
# Over-quota weights of the two in fair_share.
WEIGHTS = (1, 3)
# GPUs of a check at most; fair_share needs them all.
MOST = 4

# Classes of KAI's chart, both preemptible: 50 and 75 (docs/priority of KAI Scheduler).
LOW, HIGH = "train", "build-preemptible"

# Annotation of a Job with how many of its pods have to start together (pkg/podgrouper/podgrouper/plugins/constants).
LEAST_NOTE = "kai.scheduler/batch-min-member"

TOPOLOGY_NAME = "kubegpu-probe"
HOSTNAME = "kubernetes.io/hostname"

# Seconds for which what is expected has to stay so: evictions go on for some of the scheduler's cycles, of a second each.
HOLD = 5.0
