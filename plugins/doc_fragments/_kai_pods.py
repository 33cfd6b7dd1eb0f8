# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this doc fragment is PRIVATE to the collection: it may change in any release.
"""Options of the probes whose pods KAI Scheduler places."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  gpu_resource:
    description:
      - Name of the extended resource.
    type: str
    default: nvidia.com/gpu
  runtime_class:
    description:
      - RuntimeClass of the pods with GPUs. Empty for none.
    type: str
    default: nvidia
  scheduler_name:
    description:
      - Name that pods ask for the scheduler by.
    type: str
    default: kai-scheduler
"""
