# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check what KAI Scheduler does, by pods."""

from __future__ import annotations

from .._common.run import Result, Run
from .._probe.plan import IMAGE
from .._probe_kai.facts import CHECKS
from .._probe_kai.lifecycle import probe
from .._probe_kai.plan import POD_ARGUMENTS

ARGUMENT_SPEC = POD_ARGUMENTS | {
    "queues": {"type": "list", "elements": "dict", "default": []},
    "checks": {"type": "list", "elements": "str", "choices": list(CHECKS), "default": list(CHECKS)},
    "accept_hazards": {"type": "list", "elements": "str", "default": []},
    "image": {"type": "str", "default": IMAGE},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "node_selector": {"type": "dict", "default": {}},
    "namespace": {"type": "str", "default": "kai-probe"},
    "namespace_labels": {"type": "dict", "default": {}},
    "timeout": {"type": "int", "default": 240},
    "max_age": {"type": "int", "default": 0},
}
LEAST = {"max_age": 0}


def reconcile(run: Run) -> Result:
    """Run the checks, or return the results of an earlier probe that still hold."""
    return probe(run)
