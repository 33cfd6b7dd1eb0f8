# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Whether all parts of a release of KAI Scheduler are available, and the restart of its scheduler."""

from __future__ import annotations

import typing as t

from .._common.errors import WaitTimeout
from .._common.names import KAI_NAMESPACE, KAI_SCHEDULER_NAME, SHARD
from .._common.pods import crashing_container, pod_problems
from .._common.values import JsonObject
from .._common.wait import wait_for
from . import facts, status

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


def read_parts(kube: Kube, release: facts.Release) -> status.Parts:
    """Read the objects that show whether a release is available."""
    return status.Parts(
        config=kube.get(*facts.CONFIG) if release.operator else None,
        shards=kube.list(*SHARD) if release.shard else [],
        # An operator reports on its webhooks in the Config's conditions.
        webhooks=[] if release.operator else [item for kind in facts.WEBHOOK_KINDS for item in kube.list(facts.ADMISSION, kind)],
        deployments=kube.list("apps/v1", "Deployment", KAI_NAMESPACE),
    )


class Availability:
    """The parts of one release in one cluster."""

    def __init__(self, run: Run, release: facts.Release) -> None:
        self.run = run
        self.kube = run.kube
        self.release = release

    def wait(self) -> None:
        """Wait until all parts are available."""
        wait_for(f"KAI Scheduler {self.release.version}", self._ready, self.run.deadline)

    def crashed(self) -> list[str]:
        """Return the pods that crash again and again, by name."""
        pods = self.kube.list("v1", "Pod", KAI_NAMESPACE)
        return [pod["metadata"]["name"] for pod in pods if crashing_container(pod)]

    def missing_for_long(self) -> str:
        """Return which parts of a release that is as asked are missing, and do not come back by themselves.

        After a reboot, for example, they only need time: up to a third of what is left. Check mode does not wait.
        """
        missing = "; ".join(self._missing())
        if not missing or self.run.check_mode:
            return missing
        try:
            wait_for(f"KAI Scheduler {self.release.version}", self._ready, self.run.deadline.share(1 / 3))
        except WaitTimeout as exc:
            return exc.last_seen
        return ""

    def _missing(self) -> list[str]:
        return status.missing(self.release, read_parts(self.kube, self.release))

    def _ready(self, ended: t.Collection[str] = ()) -> tuple[bool | None, str]:
        """Probe for ``wait_for``: True once all parts are available and the pods named by ``ended`` are gone."""
        phrases = self._missing()
        if phrases or ended:
            pods = self.kube.list("v1", "Pod", KAI_NAMESPACE)
            phrases += [f"pod {pod['metadata']['name']} still runs" for pod in pods if pod["metadata"]["name"] in ended]
            phrases += pod_problems(pods)
        return (None, "; ".join(phrases)) if phrases else (True, "")

    def _scheduler_pods(self) -> list[JsonObject]:
        """Return the pods of its schedulers: one for each SchedulingShard."""
        shards = self.kube.list(*SHARD) if self.release.shard else []
        names = {self.release.scheduler, *(f"{KAI_SCHEDULER_NAME}-{shard['metadata']['name']}" for shard in shards)}
        return self.kube.list("v1", "Pod", KAI_NAMESPACE, f"app in ({', '.join(sorted(names))})")

    def restart_scheduler(self) -> None:
        """Delete the scheduler's pods, and wait until others have taken their place."""
        names = [pod["metadata"]["name"] for pod in self._scheduler_pods()]
        for name in names:
            self.kube.delete("v1", "Pod", name, KAI_NAMESPACE)
        wait_for("the restart of the scheduler", lambda: self._ready(names), self.run.deadline)

    def has_unauthorised_scheduler(self) -> bool:
        """Tell whether a run that was killed after an upgrade left the scheduler older than its service account."""
        if not self.release.restart_after_upgrade:
            return False
        for pod in self._scheduler_pods():
            account = self.kube.get("v1", "ServiceAccount", pod["spec"].get("serviceAccountName", "default"), KAI_NAMESPACE)
            if status.is_unauthorised(pod, account):
                return True
        return False
