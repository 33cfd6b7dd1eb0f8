# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What the probe of KAI Scheduler checks, and the names by which KAI shows what it did."""

from __future__ import annotations

CHECKS = ("cpu", "gpu", "fraction", "gang", "gang_too_large", "over_limit")
# Name of the check that is always made: what KAI's own pods log meanwhile.
LOGS = "logs"
PASSED, FAILED, NOT_TRIED = "passed", "failed", "not_tried"

# ConfigMap beside KAI that keeps the last results, and its keys.
RECORD = "kubegpu-probe"
FINGERPRINT_KEY, REPORT_KEY = "fingerprint", "report"

POD_GROUP = ("scheduling.run.ai/v2alpha2", "PodGroup")
# Annotation of pods, written by the pod grouper (pkg/common/constants).
POD_GROUP_NOTE = "pod-group-name"
# Annotation of reservation pods, written by themselves: the UUID of the GPU that they hold.
RESERVED_GPU_NOTE = "run.ai/reserve_for_gpu_index"
# Annotation of pods that ask for a part of a GPU.
FRACTION_NOTE = "gpu-fraction"
# Reason of a pod group that has to wait (pkg/apis/scheduling/v2alpha2/podgroup_types.go).
OVER_LIMIT = "OverLimit"
# The lowest class of KAI's chart, and a preemptible one.
LOWEST_PRIORITY = "train"
