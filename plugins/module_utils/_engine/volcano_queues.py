# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have exactly these queues of Volcano."""

from __future__ import annotations

from .._common.run import Result, Run
from .._common.variables import VOLCANO
from . import scheduler_queues

ARGUMENT_SPEC = {name: option for name, option in scheduler_queues.ARGUMENT_SPEC.items() if name != "scheduler"}


def reconcile(run: Run) -> Result:
    """Check the queues, and write what differs."""
    run.fill_in({"scheduler": VOLCANO})
    return scheduler_queues.reconcile(run)
