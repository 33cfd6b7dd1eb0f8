# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What the probe of KAI Scheduler checks, and the names by which KAI shows what it did."""

from __future__ import annotations

# Checks whose pods share GPUs. They run last, and each alone: other pods' binding can cost a shared GPU its reservation in some
# releases (#1103). The burst does so on purpose.
BURST, GPU_MEMORY = "burst", "gpu_memory"
SHARING = ("fraction", "quarters", GPU_MEMORY, BURST)
CHECKS = ("cpu", "gpu", "gang", "gang_too_large", "over_limit", *SHARING)
# Name of the check that is always made: what KAI's own pods log meanwhile.
LOGS = "logs"
# The hazard that checks of shared GPUs find: the reservation of a GPU is removed while pods use it (fixed by #1363).
LOST_RESERVATION = "#1103"

# ConfigMap beside KAI that keeps the last results, and its keys.
RECORD = "kubegpu-probe"
FINGERPRINT_KEY, REPORT_KEY = "fingerprint", "report"

# What KAI rounds the memory of a GPU down to, in MiB (pkg/scheduler/api/node_info/node_info.go).
MEMORY_STEP = 100
# The lowest class of KAI's chart, and a preemptible one.
LOWEST_PRIORITY = "train"

OOM_KILLED = "OOMKilled"
