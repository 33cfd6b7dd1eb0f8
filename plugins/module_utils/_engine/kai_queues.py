# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Create, change and remove queues of KAI Scheduler."""

from __future__ import annotations

from .._common.errors import refuse
from .._common.names import KAI_SCHEDULER_NAME
from .._common.run import Result, Run
from .._kai.validation import check_node_pools
from .._kai.validation import release as find_release
from .._nodes.dra import list_nodes
from .._nodes.status import offered
from .._queues.lifecycle import reconcile_queues
from .._queues.validation import check_pools, parse
from .._queues.values import Queue, leaves, pool_of

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["present", "exact", "absent"], "default": "present"},
    "queues": {"type": "list", "elements": "dict", "required": True},
    "remove_foreign": {"type": "bool", "default": False},
    "force": {"type": "bool", "default": False},
    "quota_sums": {"type": "str", "choices": ["warn", "error"], "default": "warn"},
    "scheduler_name": {"type": "str", "default": KAI_SCHEDULER_NAME},
    "kai_version": {"type": "str"},
    "timeout": {"type": "int", "default": 120},
}


def reconcile(run: Run) -> Result:
    """Check the queues, and write what differs."""
    version = run.params["kai_version"]
    release = find_release(version) if version and run.params["state"] != "absent" else None
    wanted = parse(run.params["queues"], *((release.queue_levels, release.version) if release else ()))
    if release:
        check_node_pools(release, wanted)
    if run.params["state"] != "absent" and any(queue.pool for queue in wanted.values()):
        _check_pools(run, wanted)
    changes = reconcile_queues(run, wanted)
    return run.result(
        changes=[{"action": change.verb, "name": change.name} for change in changes],
        leaves=[queue.name for queue in leaves(wanted)],
    )


def _check_pools(run: Run, wanted: dict[str, Queue]) -> None:
    """Compare the node pools of queues with the nodes that have their labels."""
    gpus: dict[str, int] = {}
    for node in list_nodes(run.kube):
        gpus[pool_of(node)] = gpus.get(pool_of(node), 0) + offered(node)
    problems = check_pools(wanted, gpus)
    if run.params["quota_sums"] == "error":
        refuse(problems)
    for problem in problems:
        run.warn(problem.text)
