# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check that KAI Scheduler divides GPUs as its policies say, by pods."""

from __future__ import annotations

from .._common.run import Result, Run
from .._probe.plan import IMAGE
from .._probe_policy.facts import CHECKS
from .._probe_policy.lifecycle import probe

ARGUMENT_SPEC = {
    "gpu_resource": {"type": "str", "default": "nvidia.com/gpu"},
    "runtime_class": {"type": "str", "default": "nvidia"},
    "scheduler_name": {"type": "str", "default": "kai-scheduler"},
    "checks": {"type": "list", "elements": "str", "choices": list(CHECKS), "default": list(CHECKS)},
    "image": {"type": "str", "default": IMAGE},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "node_selector": {"type": "dict", "default": {}},
    "namespace": {"type": "str", "default": "kai-policy-probe"},
    "namespace_labels": {"type": "dict", "default": {}},
    "timeout": {"type": "int", "default": 300},
}


def reconcile(run: Run) -> Result:
    return probe(run)
