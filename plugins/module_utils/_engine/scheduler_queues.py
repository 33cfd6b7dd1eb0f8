# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have exactly these queues of a scheduler in a virtual cluster."""

from __future__ import annotations

from .._common.run import Result, Run
from .._common.variables import KAI
from .._schedulers.families import FAMILIES

# Those of KAI Scheduler are module kai_queues', which takes more options.
ARGUMENT_SPEC = {
    "scheduler": {"type": "str", "choices": sorted(FAMILIES.keys() - {KAI}), "required": True},
    "queues": {"type": "list", "elements": "dict", "required": True},
    "version": {"type": "str", "default": ""},
    "timeout": {"type": "int", "default": 120},
}


def reconcile(run: Run) -> Result:
    """Check the queues, and write what differs."""
    params = run.params
    return run.result(leaves=FAMILIES[params["scheduler"]].reconcile_queues(run, params["queues"], params["version"]))
