# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have exactly these queues of Volcano."""

from __future__ import annotations

from .._common.run import Result, Run
from .._volcano.lifecycle import reconcile_queues
from .._volcano.validation import read_queues

ARGUMENT_SPEC = {
    "queues": {"type": "list", "elements": "dict", "required": True},
    "version": {"type": "str", "default": ""},
    "timeout": {"type": "int", "default": 120},
}


def reconcile(run: Run) -> Result:
    """Check the queues, and write what differs."""
    wanted = read_queues(run.params["queues"], run.params["version"])
    reconcile_queues(run, wanted)
    return run.result(leaves=list(wanted))
