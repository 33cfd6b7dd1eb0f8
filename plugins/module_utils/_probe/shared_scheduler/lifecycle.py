# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of a tenant that shares the host cluster's KAI Scheduler, or nodes alone."""

from __future__ import annotations

import typing as t

from ..._common.errors import TenancyError, WaitTimeout
from ..._common.names import POD_GROUP, QUEUE_API_VERSION, QUEUE_KIND, namespace_of
from ..._common.pods import pod_state
from ..._common.values import JsonObject
from ..._common.wait import Deadline, wait_for
from ..._nodes.dra import list_nodes
from ..._nodes.status import node_selector, with_labels
from ..._queues.validation import parse
from ..._queues.values import leaves
from ..facts import ACCEPTED, FAILED, NOT_TRIED
from ..kai_scheduling.facts import LOST_RESERVATION
from ..kai_scheduling.memory import Memory, read_memory
from ..lifecycle import CLEAN_UP, INTERVAL, Connect, await_verdict, empty_namespace, own_namespace
from ..plan import Settings
from ..status import Verdict, concluded, result
from .plan import CHECKS, FRACTION, NO_QUEUE, Check, make_check, shortage
from .status import Seen, judge, judge_refusal

if t.TYPE_CHECKING:
    from ..._adapters.kubernetes import Kube
    from ..._common.run import Result, Run


def probe(run: Run, connect: Connect) -> Result:
    """Run the checks that are asked for, one after the other.

    :arg connect: returns the adapter to the tenant's API server.
    :raises TenancyError: when a check failed, with all results.
    """
    return concluded(SharedProbe(run, connect).run_checks(), run.deadline.elapsed())


class SharedProbe:
    """One run of the checks in one tenant."""

    def __init__(self, run: Run, connect: Connect) -> None:
        params = run.params
        self.run = run
        self.connect = connect
        self.tenant: str = params["tenant"]
        self.home = namespace_of(self.tenant)
        self.settings = Settings.of(params)

    def run_checks(self) -> list[JsonObject]:
        """Return the results of the checks, in the order of CHECKS."""
        names = sorted(self.run.params["checks"], key=CHECKS.index)
        queue = next((queue.name for queue in leaves(parse(self.run.params["queues"]))), "")
        checks = [make_check(name, queue, self.settings) for name in names]
        # Where no pod would be created, nor is a namespace.
        impossible = "" if queue or any(check.refused_for for check in checks) else NO_QUEUE
        if reason := "check mode" if self.run.check_mode else impossible:
            return [result(check.name, check.queue, NOT_TRIED, reason) for check in checks]
        inside = self.connect()
        results = []
        with own_namespace(inside, self.settings.namespace, self.run.deadline):
            for done, check in enumerate(checks):
                results.append(self._check(inside, check, self.run.deadline.share(1 / (len(checks) - done))))
                empty_namespace(inside, self.settings.namespace, self.run.deadline.extended(CLEAN_UP))
        return results

    def _check(self, inside: Kube, check: Check, deadline: Deadline) -> JsonObject:
        if reason := self._shortage(check):
            return result(check.name, check.queue, NOT_TRIED, reason)
        began, verdict = deadline.clock(), FAILED
        try:
            if check.refused_for:
                verdict, reason = self._refusal(inside, check, deadline)
            else:
                for pod in check.pods:
                    self._start(inside, pod, deadline)
                verdict, reason = self._outcome(inside, check, deadline)
        except TenancyError as exc:
            reason = exc.message
        return result(check.name, check.queue, verdict, reason, deadline.clock() - began)

    def _shortage(self, check: Check) -> str:
        host = self.run.kube
        nodes = with_labels(list_nodes(host), node_selector(self.tenant))
        quotas = host.list("v1", "ResourceQuota", self.home)
        return shortage(
            check, self.settings.gpu_resource, nodes, host.list("v1", "Pod"), host.list(QUEUE_API_VERSION, QUEUE_KIND), quotas
        )

    def _start(self, inside: Kube, pod: JsonObject, deadline: Deadline) -> None:
        """Create a pod and wait until it runs: binding another one at once can cost a shared GPU its reservation (#1103)."""
        name = pod["metadata"]["name"]
        inside.create(pod)

        def runs() -> tuple[bool | None, str]:
            live = inside.get("v1", "Pod", name, self.settings.namespace)
            if live is None:
                raise TenancyError(f"pod {name} was removed by someone else")
            return (True, "") if live.get("status", {}).get("phase") == "Running" else (None, pod_state(live))

        wait_for(f"pod {name} to run", runs, deadline, INTERVAL)

    def _refusal(self, inside: Kube, check: Check, deadline: Deadline) -> tuple[str, str]:
        """Return the verdict on a pod that the host cluster has to refuse."""
        for pod in check.pods:
            inside.create(pod)
        namespace = self.settings.namespace

        def judged() -> Verdict:
            pods, events = self.run.kube.list("v1", "Pod", self.home), inside.list("v1", "Event", namespace)
            return judge_refusal(check, pods, events, namespace, self.home)

        return await_verdict("the host cluster to refuse a pod", judged, deadline)

    def _outcome(self, inside: Kube, check: Check, deadline: Deadline) -> tuple[str, str]:
        """Return the verdict on a check whose pods run."""

        def judged() -> Verdict:
            seen = self._see(inside, check)
            return judge(check, seen, self.settings.namespace, self.home, self.settings.scheduler_name)

        try:
            return await_verdict("what both clusters show of the pods", judged, deadline)
        except TenancyError as exc:
            lost = isinstance(exc, WaitTimeout) and "is reserved by no pod" in exc.last_seen
            accepted = lost and LOST_RESERVATION in self.run.params["accept_hazards"]
            return (ACCEPTED if accepted else FAILED), f"{exc.message}{f' ({LOST_RESERVATION})' if lost else ''}"

    def _see(self, inside: Kube, check: Check) -> Seen:
        namespace, host = self.settings.namespace, self.run.kube
        pods = {pod["metadata"]["name"]: pod for pod in inside.list("v1", "Pod", namespace)}
        logs = {name: inside.pods.logs(name, namespace) for name in check.pod_names if name in pods}
        groups = {group["metadata"]["name"]: group["spec"].get("queue", "") for group in host.list(*POD_GROUP, self.home)}
        memory = read_memory(host, host.list("v1", "Node")) if check.name == FRACTION else Memory()
        return Seen(pods, logs, host.list("v1", "Pod"), groups, memory)
