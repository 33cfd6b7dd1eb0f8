# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Start one virtual cluster's control plane, restart it, and end it with the pods that it made."""

from __future__ import annotations

import typing as t

from .._common.errors import refusal
from .._common.ownership import annotations_of, last_write
from .._common.pods import delete_pods
from .._common.values import JsonObject, utc_now
from .._common.wait import wait_for
from .control_plane import SETTLING, Ask, ControlPlane, Readiness
from .facts import RESTORING
from .status import is_paused, is_terminating, judge
from .values import Wanted, has_dns, pause_patch, resume_patch

if t.TYPE_CHECKING:
    from .._common.run import Run


class Operation:
    """The running of one virtual cluster's control plane."""

    def __init__(self, run: Run, plane: ControlPlane, ask: Ask) -> None:
        self.run = run
        self.kube = run.kube
        self.plane = plane
        self.ask = ask

    # --- start ---

    def start(self, expired: str | None) -> bool:
        """Start an installed control plane that is paused, and restart one that no client can use.

        :arg expired: when its certificate ended; None where it has not.
        :returns: whether it starts.
        """
        started = [self._resume(), self._renew_certificate(expired), self._restart_crashed()]
        return any(started)

    def _resume(self) -> bool:
        """Start what is paused.

        :raises TenancyError: where a restore was cut off.
        """
        workload = self.plane.workload()
        if workload is not None and RESTORING in annotations_of(workload):
            raise refusal(
                "restore-unfinished",
                f"A restore of tenant {self.plane.name} was cut off, and its database may be half of two. Restore it again: "
                f"ansible-playbook kubegpu.tenancy.restore -e kubegpu_only={self.plane.name}.",
            )
        if workload is None or not is_paused(workload):
            return False
        self.run.change("state", "paused", "running", last_write(workload, ("spec", "replicas")))
        self.run.perform("start the control plane", "it is paused", lambda: self.scale(workload, resume_patch(workload)))
        return True

    def _renew_certificate(self, expired: str | None) -> bool:
        if expired is None:
            return False
        self.run.change("certificate", f"expired {expired}", "renewed")
        why = f"its certificate expired {expired}"
        # Certificates are renewed, and the Secret written, when the control plane starts (pkg/certs/ensure.go).
        self.run.perform("restart the control plane", why, lambda: delete_pods(self.kube, self.plane.pods()))
        return True

    def _restart_crashed(self) -> bool:
        """Restart what crashed before this run: its cause may be mended, and the kubelet would wait minutes to try again."""
        pods = self.plane.pods()
        verdict = judge(self.plane.workload(), pods) if pods else None
        if verdict is None or verdict.crashed is None:
            return False
        pod = verdict.crashed[0]
        crashed = [item for item in pods if item["metadata"]["name"] == pod]
        self.run.perform(f"restart pod {pod}", verdict.seen, lambda: delete_pods(self.kube, crashed))
        return True

    def wait_until_ready(self, asked: Wanted, starts: bool) -> JsonObject:
        """Wait until clients can use it; return ``server`` and ``kubernetes_version``.

        :arg starts: whether this run starts it.
        """
        settling = SETTLING if starts else 0.0
        readiness = Readiness(self.plane, self.ask, self.run.deadline, has_dns(asked.values), self.kube.proxy_url, settling)
        return wait_for(f"virtual cluster {self.plane.name}", readiness.probe, self.run.deadline)

    # --- end ---

    def pause(self, workload: JsonObject, pods: list[JsonObject], lost: list[str]) -> None:
        """End the control plane and then its pods, and wait until they have ended.

        :arg pods: the pods that the virtual cluster made; ``lost``, the ones among them that no controller brings back.
        """
        if is_paused(workload):
            for pod in pods:
                if not is_terminating(pod):
                    self.run.change(f"Pod {pod['metadata']['name']}", "present", None)
        else:
            self.run.change("state", "running", "paused", last_write(workload, ("spec", "replicas")))
            patch = pause_patch(workload, utc_now())
            self.run.perform("end the control plane", "the tenant is to pause", lambda: self.scale(workload, patch))
        if self.run.changes:
            for_good = f", {', '.join(lost)} for good: no controller makes them anew" if lost else ""
            self.run.perform("end the tenant's pods", f"the tenant is to pause{for_good}", self.wait_for_rest)
        elif not self.run.check_mode:
            self.wait_for_rest()

    def end_syncer(self) -> None:
        """End the control plane, with what writes to the host cluster for its tenant, and wait until it has ended."""
        workload = self.plane.workload()
        if workload is not None:
            self.scale(workload, {"spec": {"replicas": 0}})

        def ended() -> tuple[bool | None, str]:
            return (None, "it still runs") if self.plane.pods() else (True, "")

        wait_for(f"the end of virtual cluster {self.plane.name}", ended, self.run.deadline.share(1 / 4))

    def scale(self, workload: JsonObject, patch: JsonObject) -> None:
        """Patch the workload, which starts or ends the control plane.

        :arg patch: with ``spec.replicas``, and annotations that go with it.
        """
        self.kube.patch("apps/v1", workload["kind"], self.plane.name, patch, self.plane.namespace)

    def wait_for_rest(self) -> None:
        """Wait until the control plane has ended, and the pods that it made."""
        wait_for(f"the end of virtual cluster {self.plane.name}", self._at_rest, self.run.deadline)

    def _at_rest(self) -> tuple[bool | None, str]:
        """Observe whether the control plane has ended; only then delete its pods, which it would make again."""
        pods = self.plane.pods()
        if not pods:
            pods = self.plane.synced("v1", "Pod")
            delete_pods(self.kube, pods)
        return (None, ", ".join(pod["metadata"]["name"] for pod in pods)) if pods else (True, "")
