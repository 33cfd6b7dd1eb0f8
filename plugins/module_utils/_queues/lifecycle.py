# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bring the queues of one cluster to what a plan says."""

from __future__ import annotations

import functools
import itertools
import typing as t

from .._common.errors import TenancyError, WaitTimeout, refuse
from .._common.names import QUEUE_API_VERSION, QUEUE_KIND, SHARD
from .._common.parallel import concurrently
from .._common.wait import when_webhook_answers
from .plan import POOL, Change, plan, pods_in_use
from .pools import ShardPlan, have_pools, plan_shards
from .validation import overcommitted_quotas, refuse_queues_in_use
from .values import Queue, readable

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


# Queues that cannot be read, as many as an error names.
MOST_UNREAD = 5


def reconcile_queues(run: Run, wanted: dict[str, Queue]) -> list[Change]:
    """Write what differs between the wanted queues and the cluster's, as the options of kai_queues say; return the writes.

    :raises TenancyError: before the first write, where a queue must not be removed or quotas cannot be kept.
    """
    params, kube = run.params, run.kube
    if params["state"] != "absent":
        overcommitted = overcommitted_quotas(wanted)
        if params["quota_sums"] == "error":
            refuse(overcommitted)
        for problem in overcommitted:
            run.warn(problem.text)
    live, unread = readable(kube.list(QUEUE_API_VERSION, QUEUE_KIND))
    if unread:
        raise TenancyError("; ".join(one.sentence for one in unread[:MOST_UNREAD]))
    changes = plan(wanted, live, params["state"], params["remove_foreign"])
    doomed = [change.name for change in changes if change.verb == "delete"]
    # The pods of a queue stay with the scheduler of the node pool that their own label names.
    moved = [change.name for change in changes if change.verb == "update" and POOL in change.after]
    shards = ShardPlan()
    if have_pools(wanted, live):
        shards = plan_shards(wanted, live, kube.list(*SHARD), params["state"], doomed)
    if (doomed or moved) and not params["force"]:
        refuse_queues_in_use(
            pods_in_use([*doomed, *moved], kube.list("v1", "Pod"), params["scheduler_name"]),
            "pods in it have not ended",
            f"End them first, or {'change' if moved else 'remove'} the queues all the same with force.",
            moved,
        )
    # Before the queues: as long as one is in a pool, a later run finds what a killed one left.
    _write_shards(run, shards)
    write_all(run, changes)
    return changes


def _write_shards(run: Run, shards: ShardPlan) -> None:
    for item in shards.create:
        name = f"SchedulingShard {item['metadata']['name']}"
        run.change(name, None, item["spec"])
        run.perform(f"create {name}", "no scheduler serves its node pool", functools.partial(run.kube.create, item))
    for shard in shards.delete:
        run.change(f"SchedulingShard {shard}", {"partitionLabelValue": shard}, None)
        delete = functools.partial(run.kube.delete, *SHARD, shard)
        run.perform(f"delete SchedulingShard {shard}", "no queue is for its node pool", delete)


def write_all(run: Run, changes: list[Change], kind: tuple[str, str] = (QUEUE_API_VERSION, QUEUE_KIND)) -> None:
    """Report changes, then write level after level, the queues of one side by side; after a failure no further level is begun.

    :arg kind: of the queues, with the version of its API.
    """
    for change in changes:
        before = None if change.verb == "create" else change.before
        run.change(change.name, before, None if change.verb == "delete" else change.after, change.write)

    def write(change: Change) -> None:
        if not run.deadline.left(0):
            raise WaitTimeout(f"The {run.deadline.seconds:.0f} s were over before queue {change.name} was written.", last_seen="")
        when_webhook_answers(
            f"queue {change.name} to be written", functools.partial(_write, run.kube, change, kind), run.deadline
        )

    for _level, grouped in itertools.groupby(changes, key=lambda change: (change.verb == "delete", change.level)):
        level = list(grouped)
        what = ", ".join(f"{change.verb} queue {change.name}" for change in level)
        reasons: dict[str, list[str]] = {}
        for change in level:
            reasons.setdefault(change.why, []).append(change.name)
        # Of one queue, or of one reason, the step says already which it is about.
        several = len(reasons) > 1
        why = "; ".join(f"{', '.join(names)}: {reason}" if several else reason for reason, names in reasons.items())
        run.perform(what, why, functools.partial(concurrently, write, level))


def _write(kube: Kube, change: Change, kind: tuple[str, str]) -> None:
    if change.verb == "create":
        kube.create(change.body)
    elif change.verb == "update":
        kube.patch(*kind, change.name, change.body)
    else:
        kube.delete(*kind, change.name)
