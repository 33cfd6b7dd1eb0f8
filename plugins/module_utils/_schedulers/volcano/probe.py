# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Probe whether Volcano starts a gang whole, starts nothing of a gang that does not fit, and keeps queues to their limits.

A gang that fits asks for next to nothing. Of the others, nothing starts, so that nothing that runs is disturbed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing as t

from ..._common.names import GPU_RESOURCE
from ..._common.pods import pod_spec, pod_state
from ..._common.quantity import quantity
from ..._common.values import JsonObject
from ..._common.wait import when_webhook_answers
from ..._probe.facts import FAILED, NOT_TRIED, PASSED
from ..._probe.kai_scheduling.plan import free_gpus
from ..._probe.lifecycle import PODS, await_verdicts, own_namespace
from ..._probe.plan import Settings
from ..._probe.status import Verdict, concluded, record, untried
from .facts import JOB_API, JOB_KIND, JOB_LABEL, NAME, OWN_QUEUES, POD_GROUP_KIND, QUEUE_API
from .validation import read_queues

if t.TYPE_CHECKING:
    from ..._common.run import Result, Run
    from ..._queues.values import Queue

NAMESPACE = "volcano-probe"
GANG, TOO_LARGE, OVER_LIMIT = "gang", "gang too large", "over limit"
GANG_SIZE = 3
# Seconds for which nothing of a gang may start. Volcano looks at all gangs each second.
HOLD = 10.0
# What a probe's namespace is emptied of.
KINDS = ((JOB_API, JOB_KIND), *PODS)


@dataclasses.dataclass(frozen=True, eq=False)
class Check:
    """A gang, and whether it has to start.

    :ivar job: name of its Job. Names of pods begin with it, and a queue's name may be too long for that.
    :ivar pods: what each of its pods asks for, beside next to nothing.
    """

    name: str
    queue: str
    job: str
    pods: tuple[JsonObject, ...]

    def __str__(self) -> str:
        return f"{self.name} in {self.queue}"


def probe(run: Run) -> Result:
    """Run all gangs at once, and return the record of each."""
    settings, queues = Settings.of(run.params), read_queues(run.params["queues"])
    names = [f"{GANG} in {name}" for name in queues or OWN_QUEUES[:1]]
    if run.check_mode:
        return concluded(untried(names), 0.0)
    kube, deadline = run.kube, run.deadline
    nodes = kube.list("v1", "Node")
    offered = free_gpus(nodes, [], GPU_RESOURCE)
    checks, left_out = plan(queues, nodes, offered, free_gpus(nodes, kube.list("v1", "Pod"), GPU_RESOURCE))
    with own_namespace(kube, settings.namespace, deadline, KINDS):
        for check in checks:
            create = functools.partial(kube.create, job(settings, check))
            when_webhook_answers(f"Job {check.job} to be written", create, deadline)
        began = deadline.elapsed()

        def look() -> t.Callable[[Check], Verdict]:
            pods = kube.list("v1", "Pod", settings.namespace)
            groups = kube.list(QUEUE_API, POD_GROUP_KIND, settings.namespace)
            return lambda check: outcome(check, pods, groups, deadline.elapsed() - began)

        found = await_verdicts("the gangs", checks, look, deadline)
    return concluded([*found, *left_out], deadline.elapsed())


def plan(
    queues: t.Mapping[str, Queue], nodes: t.Iterable[JsonObject], offered: int, free: int
) -> tuple[list[Check], list[JsonObject]]:
    """Return the gangs to run, and the records of gangs that would show nothing now. What could never show anything is left out.

    :arg queues: of Volcano; empty for its default queue.
    :arg offered: GPU devices of the nodes; ``free``, those of them that no pod holds.
    """
    names = list(queues) or list(OWN_QUEUES[:1])
    checks = [Check(GANG, name, f"gang-{number}", ({},) * GANG_SIZE) for number, name in enumerate(names)]
    # The first pod of it fits anywhere, and the second one nowhere.
    amounts = [(node.get("status") or {}).get("allocatable") or {} for node in nodes]
    most = max((quantity(one.get("cpu", 0)) for one in amounts), default=quantity(0))
    checks.append(Check(TOO_LARGE, names[0], "too-large", ({}, {"cpu": str(math.floor(most) + 1)})))
    left_out = []
    for number, queue in enumerate(queues.values()):
        limit = queue.spec["resources"]["gpu"]["limit"]
        if 0 <= limit < free:
            checks.append(Check(OVER_LIMIT, queue.name, f"over-limit-{number}", ({GPU_RESOURCE: "1"},) * (limit + 1)))
        elif 0 <= limit < offered:
            name = str(Check(OVER_LIMIT, queue.name, "", ()))
            left_out.append(record(name, NOT_TRIED, f"it needs {limit + 1} free GPUs, and {free} are"))
    return checks, left_out


def job(settings: Settings, check: Check) -> JsonObject:
    """Return the Job of a gang."""
    tasks = []
    for number, asked in enumerate(check.pods):
        spec = pod_spec(settings.image, "trap 'exit 0' TERM; sleep 3600 & wait")
        for amounts in spec["containers"][0]["resources"].values():
            amounts.update(asked)
        tasks.append(
            {"name": f"p{number}", "replicas": 1, "template": {"spec": spec | {"tolerations": list(settings.tolerations)}}}
        )
    return {
        "apiVersion": JOB_API,
        "kind": JOB_KIND,
        "metadata": {"name": check.job, "namespace": settings.namespace},
        "spec": {"minAvailable": len(tasks), "schedulerName": NAME, "queue": check.queue, "tasks": tasks},
    }


def outcome(check: Check, pods: t.Iterable[JsonObject], groups: t.Iterable[JsonObject], seconds: float) -> Verdict:
    """Return the verdict on a gang.

    :arg pods: of the probe's namespace; ``groups``, its pod groups.
    :arg seconds: since the gangs were made.
    """
    own = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(JOB_LABEL) == check.job]
    placed = [pod for pod in own if pod["spec"].get("nodeName")]
    size = len(check.pods)
    if check.name == GANG:
        running = [pod for pod in placed if pod["status"].get("phase") == "Running"]
        if len(running) == size:
            return PASSED, f"all {size} pods started"
        waiting = "; ".join(pod_state(pod) for pod in own if pod not in running)
        return None, f"{len(running)} of {size} pods run{f': {waiting}' if waiting else ''}"
    if placed:
        return FAILED, f"{len(placed)} of {size} pods got a node, and the gang cannot be whole"
    if not any(group["metadata"]["name"].startswith(check.job) for group in groups):
        return None, "Volcano has made no pod group for it"
    return (PASSED, f"none of {size} pods started within {HOLD:g} s") if seconds >= HOLD else (None, "nothing has started")
