# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read queues of KAI Scheduler, and what uses them."""

from __future__ import annotations

from .._common.names import POD_GROUP, QUEUE_API_VERSION, QUEUE_KIND
from .._common.run import Result, Run
from .._queues.status import counted, overview

ARGUMENT_SPEC = {"gpu_resource": {"type": "str", "default": "nvidia.com/gpu"}}


def reconcile(run: Run) -> Result:
    """Read all queues, and what uses them."""
    queues, unread = counted(run.kube.list(QUEUE_API_VERSION, QUEUE_KIND), run.kube.list(*POD_GROUP), run.params["gpu_resource"])
    return {"changed": False, "queues": overview(queues, run.params["gpu_resource"]), "unread": [one.sentence for one in unread]}
