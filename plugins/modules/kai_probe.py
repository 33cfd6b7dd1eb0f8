#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_probe
short_description: Check what KAI Scheduler does
version_added: 0.1.0
description:
  - Runs small pods in the queues of KAI Scheduler and looks at what becomes of them, because an available scheduler is not yet
    one that schedules.
  - Pods start only where GPUs are free and queues are below their limits, with the lowest priority, so that no one is evicted for
    them. What there is no room for is reported as not tried, never as passed.
  - Everything is run in a namespace of its own, which is emptied and deleted at the end, also after a failure. What stays is a
    record of the results, in the ConfigMap C(kubegpu-probe) beside KAI Scheduler.
  - Fails when a check fails.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  queues:
    description:
      - The queues whose leaves are probed, as M(kubegpu.tenancy.kai_queues) takes them. Only their names matter, limits are the
        cluster's.
      - When empty, all leaves in the cluster are probed.
    type: list
    elements: dict
    default: []
  checks:
    description:
      - What to check.
      - V(cpu) runs a pod without a GPU in each leaf.
      - V(gpu) runs a pod with one GPU in each leaf, which must see exactly one.
      - V(fraction) runs three pods with half a GPU each in one leaf. Two of them must share a GPU, both GPUs must be reserved and
        the queue must count 1.5 as allocated. KAI Scheduler must be installed with GPU sharing.
      - V(gang) runs two pods in each leaf that may only start together.
      - V(gang_too_large) does so with a second pod that can never start, so that the first must not either.
      - V(over_limit) asks in each leaf for more GPUs than its limit, which must stay pending for that reason.
      - Whatever is checked, the logs that scheduler and operator wrote meanwhile are searched for lines that tell of authorisation
        or webhooks that do not work.
    type: list
    elements: str
    choices: [cpu, gpu, fraction, gang, gang_too_large, over_limit]
    default: [cpu, gpu, fraction, gang, gang_too_large, over_limit]
  image:
    description:
      - Image of the pods. It needs C(/bin/sh) and, on real GPUs, the GNU C library for the host's C(nvidia-smi).
    type: str
    default: docker.io/library/busybox:1.37.0
  gpu_resource:
    description:
      - Name of the extended resource.
    type: str
    default: nvidia.com/gpu
  runtime_class:
    description:
      - RuntimeClass of the pods with GPUs. Empty for none.
    type: str
    default: nvidia
  tolerations:
    description:
      - Tolerations of the pods.
    type: list
    elements: dict
    default: []
  namespace:
    description:
      - Namespace of the pods. It is created and deleted. One that exists without our label is refused.
    type: str
    default: kai-probe
  scheduler_name:
    description:
      - Name that pods ask for the scheduler by.
    type: str
    default: kai-scheduler
  timeout:
    description:
      - Seconds for all checks together. Until the namespace is empty, it may take as long again.
    type: int
    default: 120
  max_age:
    description:
      - Seconds. When the last probe is no older, passed, asked the same, and queues, nodes and KAI Scheduler's own pods are as they
        were then, its results are returned and nothing is run.
      - V(0) always runs the checks.
    type: int
    default: 0
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    details: Nothing is run in check mode. All checks are returned as not tried.
  diff_mode:
    support: none
  idempotent:
    details: Nothing but the record is left in the cluster, so nothing ever counts as changed.
seealso:
  - module: kubegpu.tenancy.kai_scheduler
  - module: kubegpu.tenancy.kai_queues
"""

EXAMPLES = r"""
- name: See whether the team's queues work
  kubegpu.tenancy.kai_probe:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    queues: "{{ kubegpu_tenant.queues }}"

- name: See whether every leaf gives a whole GPU, on real ones
  kubegpu.tenancy.kai_probe:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    checks: [gpu]
    image: docker.io/library/ubuntu:24.04
"""

RETURN = r"""
results:
  description: One record for each check.
  returned: success, and when a check failed
  type: list
  elements: dict
  contains:
    name:
      description: The check, as in O(checks), or V(logs).
      type: str
      returned: always
    queue:
      description: The queue. Empty for V(logs).
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed) or V(not_tried).
      type: str
      returned: always
    reason:
      description: What was seen.
      type: str
      returned: always
    seconds:
      description: Seconds from the creation of its pods to the verdict.
      type: float
      returned: always
  sample:
    - {name: gpu, queue: training, verdict: passed, reason: sees GPU-1b7d3f2a-0c55-5d0e-9c1f-2f8f3c1f6a10 only, seconds: 3.1}
seconds:
  description: How long everything took, until the namespace was empty.
  returned: success
  type: float
  sample: 17.2
at:
  description: When the checks were run, in UTC.
  returned: when they were
  type: str
  sample: "2026-11-21T12:30:00Z"
recorded:
  description: Whether the results are those of an earlier probe, as O(max_age) allows.
  returned: success
  type: bool
"""

import datetime
import functools
import json
import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, Object, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import (
    NAMESPACE,
    OPERATOR,
    RESERVATION_NAMESPACE,
    SCHEDULERS,
    when_webhook_answers,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.namespace import own_namespace
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai import plan as probe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import (
    API_VERSION,
    KIND,
    OWNED_LABELS,
    from_live,
    leaves,
    parse,
)

TIME = "%Y-%m-%dT%H:%M:%SZ"


class Probe:
    """One run of the checks in one cluster."""

    def __init__(self, params: t.Mapping[str, t.Any], kube: Kube) -> None:
        self.kube = kube
        self.timeout = params["timeout"]
        self.namespace = params["namespace"]
        self.resource = params["gpu_resource"]
        settings = probe.Settings(
            self.namespace,
            params["image"],
            params["scheduler_name"],
            self.resource,
            params["runtime_class"],
            tuple(params["tolerations"]),
        )
        queues, nodes = kube.list(API_VERSION, KIND), kube.list("v1", "Node")
        asked = {key: params[key] for key in ("queues", "checks", "image", "gpu_resource", "runtime_class", "scheduler_name")}
        self.fingerprint = probe.fingerprint(asked, queues, nodes, kube.list("v1", "Pod", NAMESPACE))
        live = from_live(queues)
        free = probe.free_gpus(nodes, kube.list("v1", "Pod"), self.resource)
        self.room = probe.Room(live, probe.allocated(queues, self.resource), free)
        names = [queue.name for queue in leaves(parse(params["queues"]) if params["queues"] else live)]
        self.waiting, self.results = probe.plan(params["checks"], names, self.room, settings)
        self.running: dict[probe.Check, float] = {}
        self.coming: dict[probe.Check, list[Object]] = {}
        self.logs: dict[str, str] = {}
        self.reserved: set[str] = set()
        self.deadline = 0.0

    def run(self) -> None:
        start = time.monotonic()
        with own_namespace(self.kube, self.namespace, self.timeout):
            self.deadline = time.monotonic() + self.timeout
            try:
                wait_for("the checks", self._step, self.timeout, interval=0.5)
            except TenancyError as exc:
                # Anything but the end of the wait is no verdict.
                if "waited" not in exc.details:
                    raise
                self._give_up()
        self.results.append(probe.judge_logs(self._logs_of_kai(time.monotonic() - start)))

    def _logs_of_kai(self, seconds: float) -> dict[str, str]:
        pods = self.kube.list("v1", "Pod", NAMESPACE, f"app in ({', '.join([OPERATOR, *SCHEDULERS])})")
        names = [pod["metadata"]["name"] for pod in pods]
        return {name: self.kube.logs(name, NAMESPACE, lines=10_000, seconds=int(seconds)) for name in names}

    def _step(self) -> tuple[bool | None, str]:
        """One look, verdicts, and the start of what there is room for now."""
        seen = self._look()
        told = []
        for check, since in list(self.running.items()):
            verdict, reason = self._judge(check, seen)
            if verdict is None:
                told.append(f"{check.name} in {check.queue}: {reason}")
                continue
            self._conclude(check, verdict, reason, time.monotonic() - since)
        for check in list(self.waiting):
            # Fractions run alone: other pods' binding can cost a shared GPU its reservation in some releases (#1103).
            if check.name == "fraction" and self.running:
                continue
            lack = self.room.lack(check, self.running)
            if not lack:
                self._start(check)
            elif not any(other.gpus for other in self.running):
                self.waiting.remove(check)
                self.results.append(probe.record(check.name, check.queue, probe.NOT_TRIED, lack))
        done = not self.running and not self.waiting
        return (True, "") if done else (None, "; ".join(told) or "the last checks were just started")

    def _judge(self, check: probe.Check, seen: probe.Seen, over: bool = False) -> tuple[str | None, str]:
        """The verdict on a check, whose next pod is created when those before it run, unless time is over."""
        coming = self.coming.get(check)
        if not coming:
            return probe.judge(check, seen, self.room)
        verdict, reason = probe.judge_begun(check, len(check.pods) - len(coming), seen)
        if verdict != probe.PASSED or over:
            return verdict, reason
        try:
            self._create(coming.pop(0))
        except TenancyError as exc:
            return probe.FAILED, exc.message
        return None, "the next of its pods was just created"

    def _look(self) -> probe.Seen:
        if not self.running:
            return probe.Seen({}, {})
        pods = {pod["metadata"]["name"]: pod for pod in self.kube.list("v1", "Pod", self.namespace)}
        seen = probe.Seen(pods, self.logs)
        for check in self.running:
            self._read_logs(check, pods)
            if check.name in ("over_limit", "gang_too_large") and not seen.groups:
                seen.groups = {group["metadata"]["name"]: group for group in self.kube.list(*probe.POD_GROUP, self.namespace)}
            if check.name == "fraction":
                notes = [pod["metadata"].get("annotations") or {} for pod in self.kube.list("v1", "Pod", RESERVATION_NAMESPACE)]
                seen.holding = {note[probe.RESERVED_GPU_NOTE] for note in notes if probe.RESERVED_GPU_NOTE in note}
                # What was annotated once counts: some releases lose a reservation while its pods run (#1103), which is told.
                self.reserved |= seen.holding
                seen.reserved = self.reserved
                queue = self.kube.get(API_VERSION, KIND, check.queue)
                seen.allocated = probe.allocated([queue] if queue else [], self.resource)
        return seen

    def _read_logs(self, check: probe.Check, pods: dict[str, Object]) -> None:
        for name in check.pod_names:
            phase = pods.get(name, {}).get("status", {}).get("phase")
            if phase == "Failed" or (phase in ("Running", "Succeeded") and check.gpus and not self.logs.get(name)):
                self.logs[name] = self.kube.logs(name, self.namespace)

    def _start(self, check: probe.Check) -> None:
        self.waiting.remove(check)
        self.running[check] = since = time.monotonic()
        try:
            # For the same reason, one of them after the other.
            first = check.pods[:1] if check.name == "fraction" else check.pods
            self.coming[check] = list(check.pods[len(first) :])
            for item in [check.gang, *first] if check.gang else first:
                self._create(item)
        except TenancyError as exc:
            self._conclude(check, probe.FAILED, exc.message, time.monotonic() - since)

    def _create(self, item: Object) -> None:
        create = functools.partial(self.kube.create, item)
        what = f"{item['kind']} {item['metadata']['name']} to be admitted"
        when_webhook_answers(what, create, self.deadline - time.monotonic())

    def _conclude(self, check: probe.Check, verdict: str, reason: str, seconds: float) -> None:
        del self.running[check]
        self.results.append(probe.record(check.name, check.queue, verdict, reason, seconds))
        for name in check.pod_names:
            self.kube.delete("v1", "Pod", name, self.namespace)

    def _give_up(self) -> None:
        seen = self._look()
        for check, since in list(self.running.items()):
            _verdict, reason = self._judge(check, seen, over=True)
            self._conclude(check, probe.FAILED, f"no verdict in time: {reason}", time.monotonic() - since)
        for check in self.waiting:
            self.results.append(probe.record(check.name, check.queue, probe.NOT_TRIED, f"no time was left of {self.timeout} s"))


def run(params: t.Mapping[str, t.Any], kube: Kube, check_mode: bool) -> dict[str, t.Any]:
    start = time.monotonic()
    attempt = Probe(params, kube)
    if last := _last(kube, attempt.fingerprint, params["max_age"]):
        return {"changed": False, "recorded": True} | last
    if check_mode:
        attempt.results += [probe.record(check.name, check.queue, probe.NOT_TRIED, "check mode") for check in attempt.waiting]
        return {"changed": False, "recorded": False, "results": attempt.results, "seconds": 0.0}
    if attempt.waiting:
        attempt.run()
    found = {"at": _now().strftime(TIME), "results": attempt.results, "seconds": round(time.monotonic() - start, 1)}
    metadata = {"name": probe.RECORD, "namespace": NAMESPACE, "labels": OWNED_LABELS}
    record = {"fingerprint": attempt.fingerprint, "found": json.dumps(found)}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": record})
    failed = [result for result in attempt.results if result["verdict"] == probe.FAILED]
    if failed:
        told = "; ".join(
            " in ".join(filter(None, (result["name"], result["queue"]))) + f": {result['reason']}" for result in failed
        )
        raise TenancyError(f"{len(failed)} of {len(attempt.results)} checks failed. {told}", **found)
    return {"changed": False, "recorded": False} | found


def _last(kube: Kube, fingerprint: str, max_age: int) -> dict[str, t.Any] | None:
    """What the last probe found, where that still holds."""
    record = kube.get("v1", "ConfigMap", probe.RECORD, NAMESPACE) if max_age > 0 else None
    if record is None or record["data"]["fingerprint"] != fingerprint:
        return None
    found: dict[str, t.Any] = json.loads(record["data"]["found"])
    age = _now() - datetime.datetime.strptime(found["at"], TIME).replace(tzinfo=datetime.UTC)
    passed = all(result["verdict"] == probe.PASSED for result in found["results"])
    return found if passed and age.total_seconds() <= max_age else None


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def main() -> None:
    module = kube_module(
        argument_spec={
            "queues": {"type": "list", "elements": "dict", "default": []},
            "checks": {"type": "list", "elements": "str", "choices": list(probe.CHECKS), "default": list(probe.CHECKS)},
            "image": {"type": "str", "default": "docker.io/library/busybox:1.37.0"},
            "gpu_resource": {"type": "str", "default": "nvidia.com/gpu"},
            "runtime_class": {"type": "str", "default": "nvidia"},
            "tolerations": {"type": "list", "elements": "dict", "default": []},
            "namespace": {"type": "str", "default": "kai-probe"},
            "scheduler_name": {"type": "str", "default": "kai-scheduler"},
            "timeout": {"type": "int", "default": 120},
            "max_age": {"type": "int", "default": 0},
        }
    )
    try:
        module.exit_json(**run(module.params, Kube.connect(module), module.check_mode))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
