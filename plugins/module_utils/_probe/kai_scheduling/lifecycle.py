# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of KAI Scheduler in one cluster."""

from __future__ import annotations

import functools
import json
import typing as t

from ..._common.errors import TenancyError
from ..._common.names import (
    KAI_NAMESPACE,
    KAI_SCHEDULERS,
    QUEUE_API_VERSION,
    QUEUE_KIND,
    RESERVATION_NAMESPACE,
)
from ..._common.ownership import OWNED_LABELS
from ..._common.text import pairs
from ..._common.values import JsonObject, stamp, utc_now
from ..._common.wait import Deadline, when_webhook_answers
from ..._kai.facts import OPERATOR
from ..._nodes.status import with_labels
from ..._queues.validation import parse
from ..._queues.values import from_live, leaves
from ..facts import FAILED, NOT_TRIED, PASSED
from ..lifecycle import INTERVAL, own_namespace
from ..plan import Settings
from ..status import Verdict, concluded, result
from . import status
from .facts import FINGERPRINT_KEY, RECORD, REPORT_KEY, SHARING
from .observation import Observer, Trial, kai_logs
from .plan import Capacity, Check, allocated, free_by_pool, free_gpus, gpu_memory, plan

if t.TYPE_CHECKING:
    from ..._common.run import Result, Run


# Options that decide what its verdicts say.
DECISIVE = (
    "queues",
    "checks",
    "accept_hazards",
    "image",
    "gpu_resource",
    "runtime_class",
    "tolerations",
    "node_selector",
    "namespace",
    "namespace_labels",
    "scheduler_name",
)


def probe(run: Run) -> Result:
    """Run the checks that are asked for, or return the results of an earlier probe that still hold.

    :raises TenancyError: when a check failed, with all results.
    """
    attempt, max_age = Probe(run), run.params["max_age"]
    record = run.kube.get("v1", "ConfigMap", RECORD, KAI_NAMESPACE) if max_age else None
    if last := status.still_valid(record, attempt.fingerprint, max_age, utc_now()):
        return {"changed": False, "recorded": True} | last
    if run.check_mode:
        untried = [result(check.name, check.queue, NOT_TRIED, "check mode") for check in attempt.waiting]
        return {"changed": False, "recorded": False, "results": attempt.results + untried, "seconds": 0.0}
    if attempt.waiting:
        attempt.run_checks()
    report: JsonObject = {"at": stamp(utc_now()), "results": attempt.results, "seconds": run.deadline.elapsed()}
    if max_age is not None:
        metadata = {"name": RECORD, "namespace": KAI_NAMESPACE, "labels": OWNED_LABELS}
        data = {FINGERPRINT_KEY: attempt.fingerprint, REPORT_KEY: json.dumps(report)}
        run.kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return concluded(**report, named_by=("name", "queue")) | {"recorded": False}


class Probe:
    """One run of the checks in one cluster.

    :ivar fingerprint: a digest of what the verdicts rest on.
    :ivar waiting: checks that have not begun; ``results`` has the decided ones.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.kube = run.kube
        params = run.params
        self.namespace = params["namespace"]
        self.resource = params["gpu_resource"]
        queues, nodes, pods = self.kube.list(QUEUE_API_VERSION, QUEUE_KIND), self._nodes(), self.kube.list("v1", "Pod")
        own = [pod for pod in pods if pod["metadata"].get("namespace") == KAI_NAMESPACE]
        self.fingerprint = status.fingerprint({key: params[key] for key in DECISIVE}, queues, nodes, own)
        live = from_live(queues)
        free, memory = free_gpus(nodes, pods, self.resource), gpu_memory(nodes, pods, self.resource)
        pools = free_by_pool(nodes, pods, self.resource)
        self.capacity = Capacity(live, allocated(queues, self.resource), free, memory, pools)
        names = [queue.name for queue in leaves(parse(params["queues"]) if params["queues"] else live)]
        self.waiting, self.results = plan(params["checks"], names, self.capacity, Settings.of(params))
        self.running: dict[Check, Trial] = {}
        self.observer = Observer(run, self.capacity, nodes, pods)

    def _nodes(self) -> list[JsonObject]:
        """Return the nodes that the probe may use.

        :raises TenancyError: when none has the labels that are asked for.
        """
        selector = self.run.params["node_selector"]
        nodes = with_labels(self.kube.list("v1", "Node"), selector)
        if selector and not nodes:
            wanted = pairs(selector)
            raise TenancyError(f"node_selector: no node of the cluster has {wanted}.")
        return nodes

    def run_checks(self) -> None:
        """Run all checks in a namespace of their own, and then look at KAI's own pods and their logs."""
        deadline = self.run.deadline
        start = deadline.clock()
        began = utc_now()
        with own_namespace(self.kube, self.namespace, deadline, labels=self.run.params["namespace_labels"]):
            while not self._advance():
                deadline.sleep(INTERVAL)
        logs, unreadable = kai_logs(self.kube, [OPERATOR, *KAI_SCHEDULERS], deadline.clock() - start)
        pods = [*self.kube.list("v1", "Pod", KAI_NAMESPACE), *self.kube.list("v1", "Pod", RESERVATION_NAMESPACE)]
        self.results.append(status.judge_logs(logs, unreadable, status.broken_pods(pods, stamp(began))))

    def _advance(self) -> bool:
        """Conclude what can be judged now, start what there is capacity for; return True once all is done.

        Checks that start together may use half of the time that is left while others wait, and all of it when none does: one
        that cannot end leaves time for the others.
        """
        self._judge_running()
        deadline = self.run.deadline
        if batch := self._startable():
            if deadline.left(0) < INTERVAL:
                reason = f"no time was left of {self.run.params['timeout']} s"
                self.results += [result(check.name, check.queue, NOT_TRIED, reason) for check in [*batch, *self.waiting]]
                self.waiting = []
                return not self.running
            share = deadline.share(0.5 if self.waiting else 1)
            for check in batch:
                self._start(check, share)
        return not self.running and not self.waiting

    def _startable(self) -> list[Check]:
        """Take the checks that can start now from the waiting ones, and conclude the checks for which there is no capacity."""
        batch: list[Check] = []
        for check in list(self.waiting):
            running = [*self.running, *batch]
            if check.name in SHARING and running:
                continue
            shortage = self.capacity.shortage(check, running)
            if not shortage:
                batch.append(check)
            elif not any(other.gpus for other in running):
                self.results.append(result(check.name, check.queue, NOT_TRIED, shortage))
            else:
                continue
            self.waiting.remove(check)
        return batch

    def _judge_running(self) -> None:
        """Conclude the checks with a verdict, and those whose time is over."""
        seen = self.observer.observe(self.running)
        for check, trial in list(self.running.items()):
            verdict, reason = self._judge(check, trial, seen)
            if verdict is None and trial.over and (taken := self._taken(check, seen)):
                verdict, reason = NOT_TRIED, taken
            elif verdict is None and trial.over:
                verdict, reason = FAILED, f"no verdict in time: {self._explained(check, reason, trial)}"
            if verdict is not None:
                self._conclude(check, verdict, reason)

    def _judge(self, check: Check, trial: Trial, seen: status.Observation) -> Verdict:
        """Return the verdict on a check, whose next pod is created when those before it run."""
        accepted = self.run.params["accept_hazards"]
        if not trial.coming:
            return status.judge(check, seen, accepted)
        verdict, reason = status.judge_begun(check, len(check.pods) - len(trial.coming), seen, accepted)
        if verdict != PASSED:
            return verdict, reason
        self.observer.note_sharing()
        try:
            self._create(trial.coming.pop(0), trial.deadline)
        except TenancyError as exc:
            return FAILED, exc.message
        return None, "the next of its pods was just created"

    def _taken(self, check: Check, seen: status.Observation) -> str:
        """Return what of the GPUs that a waiting check needs others took since the probe began; empty where its pods all have a node."""
        pods = [seen.pods[name] for name in check.pod_names if name in seen.pods]
        if all(pod["spec"].get("nodeName") for pod in pods):
            return ""
        others = status.of_others(self.kube.list("v1", "Pod"), self.namespace)
        nodes = self._nodes()
        free, pools = free_gpus(nodes, others, self.resource), free_by_pool(nodes, others, self.resource)
        # What queues have left is not asked again: their status counts the probe's own pods, and lags behind.
        now = Capacity(self.capacity.queues, self.capacity.allocated, free, pools=pools)
        shortage = now.shortage(check, [other for other in self.running if other is not check])
        return f"{shortage}: others took theirs meanwhile" if shortage else ""

    def _explained(self, check: Check, reason: str, trial: Trial) -> str:
        """Return why there is no verdict, with the newest warning of the check's pods, or else the scheduler's last error where no event says why."""
        if warning := status.newest_warning(self.kube.list("v1", "Event", self.namespace), check.pod_names):
            return f"{reason}; {warning}"
        if status.NO_REASON not in reason:
            return reason
        logs, _unreadable = kai_logs(self.kube, KAI_SCHEDULERS, self.run.deadline.clock() - trial.began)
        error = status.last_error(logs.values())
        return f"{reason}; the scheduler's last error: {error}" if error else reason

    def _start(self, check: Check, deadline: Deadline) -> None:
        first, coming = check.pods[: check.first], list(check.pods[check.first :])
        self.running[check] = Trial(self.run.deadline.clock(), deadline, coming)
        try:
            for item in [check.gang, *first] if check.gang else first:
                self._create(item, deadline)
        except TenancyError as exc:
            self._conclude(check, FAILED, exc.message)

    def _create(self, item: JsonObject, deadline: Deadline) -> None:
        create = functools.partial(self.kube.create, item)
        when_webhook_answers(f"{item['kind']} {item['metadata']['name']} to be admitted", create, deadline)

    def _conclude(self, check: Check, verdict: str, reason: str) -> None:
        seconds = self.run.deadline.clock() - self.running.pop(check).began
        self.results.append(result(check.name, check.queue, verdict, reason, seconds))
        for name in check.pod_names:
            self.kube.delete("v1", "Pod", name, self.namespace)
