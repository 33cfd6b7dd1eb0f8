# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of KAI Scheduler in one cluster."""

from __future__ import annotations

import datetime
import functools
import json
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS, annotations_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for, when_webhook_answers
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import (
    NAMESPACE,
    OPERATOR,
    RESERVATION_NAMESPACE,
    SCHEDULERS,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.lifecycle import own_namespace
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai import status
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.facts import (
    FAILED,
    FINGERPRINT_KEY,
    NOT_TRIED,
    PASSED,
    POD_GROUP,
    RECORD,
    REPORT_KEY,
    RESERVED_GPU_NOTE,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.plan import (
    Capacity,
    Check,
    Settings,
    allocated,
    free_gpus,
    plan,
    result,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import API_VERSION, KIND
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import from_live, leaves

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run

Object = dict[str, t.Any]

# Options of kai_probe that decide what its verdicts say.
DECISIVE = (
    "queues",
    "checks",
    "image",
    "gpu_resource",
    "runtime_class",
    "tolerations",
    "namespace",
    "scheduler_name",
)


def probe(run: Run) -> Result:
    """Run the checks that the options of kai_probe ask for, or return the results of an earlier probe that still hold.

    :raises TenancyError: when a check failed, with all results.
    """
    attempt = Probe(run)
    record = run.kube.get("v1", "ConfigMap", RECORD, NAMESPACE)
    if last := status.still_valid(record, attempt.fingerprint, run.params["max_age"], _now()):
        return {"changed": False, "recorded": True} | last
    if run.check_mode:
        untried = [result(check.name, check.queue, NOT_TRIED, "check mode") for check in attempt.waiting]
        return {"changed": False, "recorded": False, "results": attempt.results + untried, "seconds": 0.0}
    if attempt.waiting:
        attempt.run_checks()
    report = {"at": _now().strftime(status.TIME), "results": attempt.results, "seconds": run.deadline.elapsed()}
    metadata = {"name": RECORD, "namespace": NAMESPACE, "labels": OWNED_LABELS}
    data = {FINGERPRINT_KEY: attempt.fingerprint, REPORT_KEY: json.dumps(report)}
    run.kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    failed = [found for found in attempt.results if found["verdict"] == FAILED]
    if failed:
        reasons = [f"{' in '.join(filter(None, (found['name'], found['queue'])))}: {found['reason']}" for found in failed]
        raise TenancyError(f"{len(failed)} of {len(attempt.results)} checks failed. {'; '.join(reasons)}", **report)
    return {"changed": False, "recorded": False} | report


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Probe:
    """One run of the checks in one cluster.

    :ivar fingerprint: a digest of what the verdicts rest on.
    :ivar waiting: checks that have not begun; ``results`` has those that are decided.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.kube = run.kube
        params = run.params
        self.namespace = params["namespace"]
        self.resource = params["gpu_resource"]
        queues, nodes, pods = self.kube.list(API_VERSION, KIND), self.kube.list("v1", "Node"), self.kube.list("v1", "Pod")
        own = [pod for pod in pods if pod["metadata"].get("namespace") == NAMESPACE]
        self.fingerprint = status.fingerprint({key: params[key] for key in DECISIVE}, queues, nodes, own)
        live = from_live(queues)
        self.capacity = Capacity(live, allocated(queues, self.resource), free_gpus(nodes, pods, self.resource))
        names = [queue.name for queue in leaves(parse(params["queues"]) if params["queues"] else live)]
        self.waiting, self.results = plan(params["checks"], names, self.capacity, self._settings())
        # When each running check began, and which of its pods are still to be created.
        self.running: dict[Check, float] = {}
        self.coming: dict[Check, list[Object]] = {}
        self.logs: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}
        self.reserved: set[str] = set()

    def _settings(self) -> Settings:
        params = self.run.params
        return Settings(
            self.namespace,
            params["image"],
            params["scheduler_name"],
            self.resource,
            params["runtime_class"],
            tuple(params["tolerations"]),
        )

    def run_checks(self) -> None:
        """Run all checks in a namespace of their own, and then search the logs of KAI's own pods."""
        deadline = self.run.deadline
        start = deadline.clock()
        with own_namespace(self.kube, self.namespace, deadline):
            try:
                wait_for("the checks", self._advance, deadline, interval=0.5)
            except TenancyError as exc:
                # Anything but the end of the wait is no verdict.
                if "waited" not in exc.details:
                    raise
                self._give_up()
        self.results.append(self._check_logs(deadline.clock() - start))

    def _check_logs(self, seconds: float) -> Object:
        """Return the result of the search in what KAI's scheduler and operator logged in the last ``seconds``."""
        logs: dict[str, str] = {}
        unreadable: dict[str, str] = {}
        for pod in self.kube.list("v1", "Pod", NAMESPACE, f"app in ({', '.join([OPERATOR, *SCHEDULERS])})"):
            name = pod["metadata"]["name"]
            try:
                logs[name] = self.kube.logs(name, NAMESPACE, lines=10_000, seconds=int(seconds))
            except TenancyError as exc:
                unreadable[name] = exc.message
        return status.judge_logs(logs, unreadable)

    def _advance(self) -> tuple[bool | None, str]:
        """Probe for ``wait_for``: conclude what can be judged now, start what there is capacity for; True once all is done."""
        pending = self._judge_running()
        for check in list(self.waiting):
            # Fractions run alone: other pods' binding can cost a shared GPU its reservation in some releases (#1103).
            if check.name == "fraction" and self.running:
                continue
            shortage = self.capacity.shortage(check, self.running)
            if not shortage:
                self._start(check)
            elif not any(other.gpus for other in self.running):
                self.waiting.remove(check)
                self.results.append(result(check.name, check.queue, NOT_TRIED, shortage))
        done = not self.running and not self.waiting
        return (True, "") if done else (None, "; ".join(pending) or "the last checks were just started")

    def _judge_running(self) -> list[str]:
        """Conclude the checks with a verdict; return what was observed of the others."""
        seen = self._observe()
        pending = []
        for check in list(self.running):
            verdict, reason = self._judge(check, seen)
            if verdict is None:
                pending.append(f"{check.name} in {check.queue}: {reason}")
            else:
                self._conclude(check, verdict, reason)
        return pending

    def _judge(self, check: Check, seen: status.Observation, over: bool = False) -> status.Verdict:
        """Return the verdict on a check, whose next pod is created when those before it run, unless time is over."""
        coming = self.coming.get(check)
        if not coming:
            return status.judge(check, seen, self.capacity)
        verdict, reason = status.judge_begun(check, len(check.pods) - len(coming), seen)
        if verdict != PASSED or over:
            return verdict, reason
        try:
            self._create(coming.pop(0))
        except TenancyError as exc:
            return FAILED, exc.message
        return None, "the next of its pods was just created"

    def _observe(self) -> status.Observation:
        """Read what the running checks are judged by."""
        if not self.running:
            return status.Observation({}, {})
        pods = {pod["metadata"]["name"]: pod for pod in self.kube.list("v1", "Pod", self.namespace)}
        seen = status.Observation(pods, self.logs, self.unreadable)
        for check in self.running:
            self._read_logs(check, pods)
            if check.name in ("over_limit", "gang_too_large") and not seen.groups:
                seen.groups = {group["metadata"]["name"]: group for group in self.kube.list(*POD_GROUP, self.namespace)}
            if check.name == "fraction":
                reservations = [annotations_of(pod) for pod in self.kube.list("v1", "Pod", RESERVATION_NAMESPACE)]
                seen.holding = {notes[RESERVED_GPU_NOTE] for notes in reservations if RESERVED_GPU_NOTE in notes}
                # What was annotated once counts: some releases lose a reservation while its pods run (#1103), which is reported.
                self.reserved |= seen.holding
                seen.reserved = self.reserved
                queue = self.kube.get(API_VERSION, KIND, check.queue)
                seen.allocated = allocated([queue] if queue else [], self.resource)
        return seen

    def _read_logs(self, check: Check, pods: dict[str, Object]) -> None:
        for name in check.pod_names:
            phase = pods.get(name, {}).get("status", {}).get("phase")
            if phase == "Failed" or (phase in ("Running", "Succeeded") and check.gpus and not self.logs.get(name)):
                try:
                    self.logs[name] = self.kube.logs(name, self.namespace)
                    self.unreadable.pop(name, None)
                except TenancyError as exc:
                    # Read again with the next observation; until then there is no verdict that rests on it.
                    self.unreadable[name] = exc.message

    def _start(self, check: Check) -> None:
        self.waiting.remove(check)
        self.running[check] = self.run.deadline.clock()
        try:
            # Halves one after the other, for the same reason for which they run alone.
            first = check.pods[:1] if check.name == "fraction" else check.pods
            self.coming[check] = list(check.pods[len(first) :])
            for item in [check.gang, *first] if check.gang else first:
                self._create(item)
        except TenancyError as exc:
            self._conclude(check, FAILED, exc.message)

    def _create(self, item: Object) -> None:
        create = functools.partial(self.kube.create, item)
        when_webhook_answers(f"{item['kind']} {item['metadata']['name']} to be admitted", create, self.run.deadline)

    def _conclude(self, check: Check, verdict: str, reason: str) -> None:
        seconds = self.run.deadline.clock() - self.running.pop(check)
        self.results.append(result(check.name, check.queue, verdict, reason, seconds))
        for name in check.pod_names:
            self.kube.delete("v1", "Pod", name, self.namespace)

    def _give_up(self) -> None:
        """Conclude all checks when time is up."""
        seen = self._observe()
        for check in list(self.running):
            _verdict, reason = self._judge(check, seen, over=True)
            self._conclude(check, FAILED, f"no verdict in time: {reason}")
        timeout = self.run.params["timeout"]
        self.results += [result(check.name, check.queue, NOT_TRIED, f"no time was left of {timeout} s") for check in self.waiting]
