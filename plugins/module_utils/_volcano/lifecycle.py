# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have exactly the queues of Volcano in one cluster that a tenant is to have."""

from __future__ import annotations

import functools
import typing as t

from .._common.wait import when_webhook_answers
from .facts import POD_GROUP_KIND, QUEUE_API, QUEUE_KIND
from .plan import Change, plan, refuse_busy

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run
    from .._queues.values import Queue


def reconcile_queues(run: Run, wanted: t.Mapping[str, Queue]) -> None:
    """Write what differs.

    :raises Refused: before the first write, where a queue that is to go has work.
    """
    changes = plan(wanted, run.kube.list(QUEUE_API, QUEUE_KIND))
    if doomed := [change.name for change in changes if change.verb == "delete"]:
        refuse_busy(doomed, run.kube.list(QUEUE_API, POD_GROUP_KIND))
    for change in changes:
        what = f"{change.verb} queue {change.name}"
        run.change(f"queue {change.name}", change.before, change.after, change.write)
        write = functools.partial(_write, run.kube, change)
        run.perform(what, change.why, functools.partial(when_webhook_answers, what, write, run.deadline))


def _write(kube: Kube, change: Change) -> None:
    if change.verb == "create":
        kube.create(change.body)
    elif change.verb == "update":
        kube.patch(QUEUE_API, QUEUE_KIND, change.name, change.body)
    else:
        kube.delete(QUEUE_API, QUEUE_KIND, change.name)
