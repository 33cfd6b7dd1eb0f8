# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read what a tenant's virtual cluster tells of its scheduler, its queues and its pods. Each is a module of its own, too."""

from __future__ import annotations

from .._common.names import namespace_of
from . import kai_pending_info, kai_queues_info, kai_scheduler_info
from .work import Work


def read(work: Work) -> None:
    """Read the parts that option ``read`` names; what fails stops nothing else."""
    work.work_through("read", *((READERS[what],) for what in work.params["read"]))


def _scheduler(work: Work) -> None:
    if not _shares_scheduler(work):
        work.do("scheduler", "Read its KAI Scheduler", kai_scheduler_info, inside=True)


def _queues(work: Work) -> None:
    if not _shares_scheduler(work):
        work.do("queues", "Read its queues", kai_queues_info, inside=True)


def _pods(work: Work) -> None:
    """Ask both clusters: the host cluster knows why a pod waits for its scheduler, the virtual one of pods that were never synced."""
    host = {"host_kubeconfig": work.params["kubeconfig"], "host_namespace": namespace_of(work.tenant.name)}
    work.do("pods", "Read why its pods wait", kai_pending_info, inside=True, **host)


def _shares_scheduler(work: Work) -> bool:
    return work.tenant.name in work.params["sharing"]


READERS = {"scheduler": _scheduler, "queues": _queues, "pods": _pods}
