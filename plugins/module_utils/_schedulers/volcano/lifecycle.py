# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have exactly the queues of Volcano in one cluster that a tenant is to have."""

from __future__ import annotations

import typing as t

from ..._queues.lifecycle import write_all
from ..._queues.validation import refuse_queues_in_use
from .facts import POD_GROUP_KIND, QUEUE_API, QUEUE_KIND
from .plan import groups_in_use, plan

if t.TYPE_CHECKING:
    from ..._common.run import Run
    from ..._queues.values import Queue


def reconcile_queues(run: Run, wanted: t.Mapping[str, Queue]) -> None:
    """Write what differs.

    :raises Refused: before the first write, where a queue that is to go has work.
    """
    changes = plan(wanted, run.kube.list(QUEUE_API, QUEUE_KIND))
    if doomed := [change.name for change in changes if change.verb == "delete"]:
        busy = groups_in_use(doomed, run.kube.list(QUEUE_API, POD_GROUP_KIND))
        refuse_queues_in_use(busy, "its pod groups have work to do", "End their jobs first.")
    write_all(run, changes, (QUEUE_API, QUEUE_KIND))
