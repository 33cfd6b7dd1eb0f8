# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have a cluster for rehearsals, play rounds of a trace on it, and remove all of it again."""

from __future__ import annotations

import collections
import datetime
import functools
import math
import typing as t
import uuid

from .._common.errors import Superseded, TenancyError
from .._common.names import (
    HOST_SCHEDULER_LABEL,
    KAI_NAMESPACE,
    KAI_SCHEDULERS,
    POD_GROUP,
    POD_GROUP_NOTE,
    QUEUE_API_VERSION,
    QUEUE_KIND,
    RESERVATION_APP,
    TOPOLOGY,
)
from .._common.ownership import MANAGER, annotations_of, is_owned, labels_of
from .._common.parallel import concurrently
from .._common.pods import ENDED, is_ready, pod_problems
from .._common.text import shown
from .._common.values import JsonObject, utc_now
from .._common.wait import announce, wait_for
from .._kai.status import is_error, plain_lines, without_names
from .._probe.lifecycle import empty_namespace
from .._queues.facts import DEFAULT_QUEUES
from .._queues.validation import parse as parse_queues
from . import plan
from .facts import CLAIM_NOTE, EVICT_REASON, KWOK_NAMESPACE, NAMESPACE, NAMESPACES, RUNS_NOTE, SIMULATED
from .metrics import PORT, Meter
from .model import Trace, Workload
from .recording import Recorder
from .status import Round, Watch, by_submitted_name

if t.TYPE_CHECKING:
    from .._common.run import Run

KINDS = (POD_GROUP, ("v1", "Pod"))
SHARED_KINDS = (TOPOLOGY, plan.PRIORITY_CLASS)

# Seconds between two observations of a round, and that a round has after its last submission for what still waits.
INTERVAL, SETTLE = 1.0, 30.0
# Seconds that another one needs to see that it has to give way.
TAKEOVER = 3 * INTERVAL
# Of each of KAI Scheduler's pods, at most.
LOG_LINES = 10_000
# Objects that cannot be read of which each has a warning.
_MOST_WARNINGS = 20
# Length of the trace of a moment.
LEAST_SPAN = datetime.timedelta(seconds=60)


def record(
    run: Run,
    scheduler: str,
    seconds: float,
    interval: float,
    plain_names: bool = False,
    now: t.Callable[[], datetime.datetime] = utc_now,
) -> Trace:
    """Observe a cluster, and return what it had to schedule.

    :arg scheduler: the name by which pods ask for KAI Scheduler.
    :arg plain_names: keep namespaces and names of pods.
    :arg seconds: for how long; 0 for one observation. ``interval``, seconds between two.
    """
    recorder = Recorder(scheduler, plain_names)
    # A KAI Scheduler that tenants share looks at no other namespaces.
    served = {item["metadata"]["name"] for item in run.kube.list("v1", "Namespace", None, f"{HOST_SCHEDULER_LABEL}=kai")}
    start = now()
    while True:
        end = now()
        pods = [pod for pod in run.kube.list("v1", "Pod") if not served or pod["metadata"]["namespace"] in served]
        recorder.observe(end, pods, run.kube.list(*POD_GROUP))
        passed = (end - start).total_seconds()
        left = seconds - passed
        if left <= 0:
            break
        announce("the end of the record", f"{passed:.0f} s of {seconds:.0f} s, {recorder.count} pods")
        run.deadline.sleep(min(interval, left))
    nodes, queues = run.kube.list("v1", "Node"), run.kube.list(QUEUE_API_VERSION, QUEUE_KIND)
    classes = run.kube.list(*plan.PRIORITY_CLASS)
    topologies = run.kube.list(*TOPOLOGY)
    trace = recorder.trace(start, max(end, start + LEAST_SPAN), nodes, queues, classes, topologies)
    for one in recorder.unread[:_MOST_WARNINGS]:
        run.warn(f"{shown(one.sentence)}. It is not in the trace.")
    if len(recorder.unread) > _MOST_WARNINGS:
        run.warn(f"{len(recorder.unread) - _MOST_WARNINGS} more objects cannot be read, and are not in the trace.")
    return trace


class Claim:
    """The hold of one run on the cluster: of two, the one that took it later goes on. As a context, it is given back in the end.

    A run that was killed where Ansible ran may go on here, and would change what the next one plays under, or remove it.

    :arg run: whose deadline bounds the calls.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._mine = str(uuid.uuid4())
        self._taken = False

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.holds():
            self._note(None)

    def acquire(self) -> None:
        """Take the cluster, unless this run took it before and another one did since. The namespace has to be there."""
        former = self._holder()
        if former == self._mine or (self._taken and former):
            return
        self._note(self._mine)
        self._taken = True
        if former:
            # It may be about to create pods, or to remove something.
            self._run.deadline.sleep(TAKEOVER)

    def holds(self) -> bool:
        """Tell whether this run took the cluster, and no run after it."""
        return self._taken and self._holder() == self._mine

    def check(self) -> None:
        """Refuse to go on once another run took the cluster, or took it and gave it back. A removal goes on without the namespace.

        :raises Superseded: where that is so.
        """
        if self._taken and not self.holds() and self._run.kube.get("v1", "Namespace", NAMESPACE):
            raise Superseded("Another rehearsal began in this cluster, and this one gave way.", superseded=True)

    def _holder(self) -> str | None:
        namespace = self._run.kube.get("v1", "Namespace", NAMESPACE)
        return annotations_of(namespace).get(CLAIM_NOTE) if namespace else None

    def _note(self, holder: str | None) -> None:
        self._run.kube.patch("v1", "Namespace", NAMESPACE, {"metadata": {"annotations": {CLAIM_NOTE: holder}}})


def ensure_cluster(run: Run, trace: Trace, image: str, claim: Claim) -> None:
    """Have KWOK and the nodes of a trace, and no other simulated nodes.

    :arg claim: is taken as soon as the namespace is there.
    :raises TenancyError: where the namespace or the queues were made by others; or KWOK does not start in time.
    """
    _check_namespaces(run)
    _check_queues(run)
    namespace, *others = plan.simulator(image)
    while True:
        wait_for("the end of a removal", lambda: (None if _ends(run) else True, "it goes on"), run.deadline)
        _ensure(run, namespace)
        claim.acquire()
        # A removal that was killed and goes on may have had no time to give way.
        if run.kube.get("v1", "Namespace", NAMESPACE) and not _ends(run):
            break
    for item in others:
        _ensure(run, item)
    wanted = {node["metadata"]["name"]: node for node in plan.nodes(trace)}
    live = {node["metadata"]["name"]: node for node in run.kube.list("v1", "Node", None, f"{SIMULATED}=true")}
    other = [name for name, node in live.items() if name not in wanted or _shape(node) != _shape(wanted[name])]
    missing = [node for name, node in wanted.items() if name not in live or name in other]
    _remove_nodes(run, other)
    _for_each_node(run, "create", missing, run.kube.create)
    wait_for("KWOK", lambda: _simulates(run), run.deadline)
    wait_for("the simulated nodes", lambda: _are_ready(run, wanted), run.deadline)


def was_here(run: Run) -> bool:
    """Tell whether a rehearsal was here, by the namespace, which goes last. Where that is missing, a KAI Scheduler is not a rehearsal's.

    :raises TenancyError: where the namespace was made by others.
    """
    _check_namespaces(run)
    return run.kube.get("v1", "Namespace", NAMESPACE) is not None


def remove_cluster(run: Run, claim: Claim) -> None:
    """Remove what ensure_cluster made, and the pods of a round that was killed.

    :raises Superseded: where a rehearsal took the cluster meanwhile.
    """
    _check_namespaces(run)
    nodes = [node["metadata"]["name"] for node in run.kube.list("v1", "Node", None, f"{SIMULATED}=true")]
    if run.kube.get("v1", "Namespace", NAMESPACE):
        # Nodes that are gone end no pods.
        run.perform("end the pods of the rehearsal", "their nodes go", lambda: _clear(run))
    claim.check()
    _remove_nodes(run, nodes)
    if not run.check_mode:
        _remove_shared_objects(run, {})
    for item in reversed(plan.simulator()):
        ref = (item["apiVersion"], item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))
        claim.check()
        if run.kube.get(*ref):
            run.change(f"{ref[1]} {ref[2]}", "present", None)
            run.perform(f"remove {ref[1]} {ref[2]}", "nothing of a rehearsal stays", functools.partial(run.kube.delete, *ref))
    if not run.check_mode:
        wait_for("the end of the rehearsal's namespaces", lambda: _gone(run), run.deadline)


def play(run: Run, trace: Trace, scheduler: str, rounds: int, speed: float, claim: Claim) -> list[Round]:
    """Play a trace some times, each from a clean state, and return what came of it.

    :arg scheduler: the name by which pods ask for KAI Scheduler.
    :arg speed: how many seconds of the trace pass in one.
    :raises Superseded: where another run took the cluster meanwhile.
    """
    # As the trace has them: live ones carry taints of the moment, too.
    nodes = plan.nodes(trace)
    live = {node["metadata"]["name"] for node in run.kube.list("v1", "Node", None, f"{SIMULATED}=true")}
    if live != {node["metadata"]["name"] for node in nodes}:
        raise TenancyError("The cluster does not have the trace's simulated nodes: some were removed or added. Rehearse again.")
    claim.acquire()
    _ensure_shared_objects(run, trace)
    names = [f"the end of round {number} of {rounds}" for number in range(1, rounds + 1)]
    return [_Play(run, trace, scheduler, speed, nodes, claim).result(name) for name in names]


def _ensure_shared_objects(run: Run, trace: Trace) -> None:
    """Have what the trace's workloads refer to, and nothing of that kind from another trace.

    :raises TenancyError: where the release of KAI Scheduler has no Topologies, or an object of others is in the way.
    """
    wanted = {(item["kind"], item["metadata"]["name"]): item for item in plan.shared_objects(trace)}
    if trace.topologies and not run.kube.served(*TOPOLOGY):
        raise TenancyError(
            "The trace has topologies, and this release of KAI Scheduler has none of its own: they came with v0.12."
        )
    _remove_shared_objects(run, wanted)
    for (kind, name), item in wanted.items():
        live = run.kube.get(item["apiVersion"], kind, name)
        if live is None:
            run.kube.create(item)
        elif not _is_as(item, live):
            raise TenancyError(f"{kind} {name} exists and is not as in the trace. It is not a rehearsal's, and stays.")


def _remove_shared_objects(run: Run, wanted: t.Mapping[tuple[str, str], JsonObject]) -> None:
    """Remove what rehearsals made for workloads to refer to, unless it is as desired: it cannot be changed."""
    for api_version, kind in SHARED_KINDS:
        for live in run.kube.list(api_version, kind, None, f"{SIMULATED}=true"):
            item = wanted.get((kind, live["metadata"]["name"]))
            if item is None or not _is_as(item, live):
                run.kube.delete(api_version, kind, live["metadata"]["name"])


class _Play:
    """One round."""

    def __init__(self, run: Run, trace: Trace, scheduler: str, speed: float, nodes: list[JsonObject], claim: Claim) -> None:
        self._run = run
        self._claim = claim
        self._scheduler = scheduler
        self._speed = speed
        self._end = trace.span / speed
        self._together = trace.together
        self._pods = trace.pods
        self._due = collections.deque(sorted(trace.workloads, key=lambda item: item.arrives))
        # By the names under which they were submitted.
        self._submitted: dict[str, JsonObject] = {}
        self._again: collections.Counter[str] = collections.Counter()
        self._watch = Watch(trace, parse_queues(trace.queues), nodes, scheduler)
        self._meter = Meter()

    def result(self, name: str) -> Round:
        """Play it.

        :arg name: what is waited for meanwhile.
        """
        clock, sleep = self._run.deadline.clock, self._run.deadline.sleep
        _clear(self._run)
        former = {event["metadata"]["uid"] for event in self._evictions()}
        start = clock()
        try:
            while True:
                at = clock() - start
                self._claim.check()
                self._submit(at)
                pods = self._run.kube.list("v1", "Pod")
                announce(name, self._progress_text(at, pods))
                self._watch.observe(clock() - start, pods)
                self._measure(clock() - start, pods)
                if not self._due and (self._all_ended(pods) or at > self._end + SETTLE):
                    measures = {"log_errors": self._log_errors(pods, at)} | self._meter.measures()
                    said = [event for event in self._evictions() if event["metadata"]["uid"] not in former]
                    evicted = {event["involvedObject"]["name"] for event in said}
                    return self._watch.result(measures, evicted, self._run.kube.list(*POD_GROUP, NAMESPACE))
                if self._run.deadline.left(0) <= 0:
                    raise TenancyError(
                        f"The round is not over after {at:.0f} s, and the time is: allow more, or raise the speed."
                    )
                self._bring_back(pods)
                sleep(max(0.0, INTERVAL - (clock() - start - at)))
        finally:
            if self._claim.holds():
                _clear(self._run)

    def _progress_text(self, at: float, pods: t.Iterable[JsonObject]) -> str:
        """Return how far the round is."""
        mine = by_submitted_name(pods).values()
        ended = sum(pod["status"].get("phase") in ENDED for pod in mine)
        placed = sum(bool(pod["spec"].get("nodeName")) for pod in mine if pod["status"].get("phase") not in ENDED)
        counts = f"{len(mine) - placed - ended} wait, {placed} have a node, {ended} have ended"
        return f"{at:.0f} s of about {self._end:.0f} s, {len(self._submitted)} of {self._pods} pods submitted: {counts}"

    def _measure(self, at: float, pods: t.Iterable[JsonObject]) -> None:
        """Read what KAI's scheduler reports of itself, if there is one that does."""
        for pod in pods:
            if pod["metadata"]["namespace"] == KAI_NAMESPACE and labels_of(pod).get("app") in KAI_SCHEDULERS and is_ready(pod):
                try:
                    self._meter.observe(at, self._run.kube.pods.metrics(pod["metadata"]["name"], KAI_NAMESPACE, PORT))
                except TenancyError as exc:
                    # One reading of many, and a verdict says what was not measured.
                    self._run.warn(f"{exc.message}")

    def _evictions(self) -> list[JsonObject]:
        """Return the events by which KAI's scheduler says that it evicted a pod."""
        return [event for event in self._run.kube.list("v1", "Event", NAMESPACE) if event.get("reason") == EVICT_REASON]

    def _log_errors(self, pods: t.Iterable[JsonObject], seconds: float) -> float:
        """Return how many kinds of errors KAI Scheduler's own pods logged in the last seconds: retries repeat them."""
        names = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["namespace"] == KAI_NAMESPACE]
        logs = []
        for name in names:
            try:
                logs.append(self._run.kube.pods.logs(name, KAI_NAMESPACE, lines=LOG_LINES, seconds=math.ceil(seconds)))
            except TenancyError as exc:
                # One log of many, of a pod that may have been replaced meanwhile.
                self._run.warn(exc.message)
        return len({without_names(line) for log in logs for line in plain_lines(log) if is_error(line)})

    def _submit(self, at: float) -> None:
        """Create the pods of all workloads that have arrived."""
        arrived: list[Workload] = []
        while self._due and self._due[0].arrives / self._speed <= at:
            arrived.append(self._due.popleft())
        # Workloads of a group arrive together.
        first = {workload.group_name: workload for workload in reversed(arrived)}
        groups = [plan.group(workload, self._together[name]) for name, workload in first.items()]
        concurrently(self._run.kube.create, filter(None, groups))
        pods = [
            pod
            for workload in arrived
            for pod in plan.pods(workload, self._together[workload.group_name], self._scheduler, self._speed)
        ]
        concurrently(self._run.kube.create, pods)
        self._submitted |= {pod["metadata"]["name"]: pod for pod in pods}

    def _bring_back(self, pods: t.Iterable[JsonObject]) -> None:
        """Create again what KAI Scheduler evicted, as the controllers of such pods would."""
        live = by_submitted_name(pods)
        evicted = self._submitted.keys() - live.keys()
        # The rest of its group may have run on, and ended while it waits.
        waiting = {name for name, pod in live.items() if self._again[name] and not pod["spec"].get("nodeName")}
        # Pods that start together do so again all of them: KAI Scheduler counts none that has ended.
        groups = {annotations_of(self._submitted[name]).get(POD_GROUP_NOTE) for name in evicted | waiting} - {None}
        ended = [
            name
            for name, pod in live.items()
            if pod["status"].get("phase") in ENDED and annotations_of(pod).get(POD_GROUP_NOTE) in groups
        ]
        concurrently(self._delete, [live[name] for name in ended])
        due = sorted([*evicted, *ended])
        self._again.update(due)
        concurrently(self._run.kube.create, [plan.made_again(self._submitted[name], self._again[name]) for name in due])

    def _delete(self, pod: JsonObject) -> None:
        self._run.kube.delete("v1", "Pod", pod["metadata"]["name"], NAMESPACE, grace_seconds=0)

    def _all_ended(self, pods: t.Iterable[JsonObject]) -> bool:
        """Tell whether nothing can change any more: every pod has ended, or runs without an end."""
        phases = {name: pod["status"].get("phase") for name, pod in by_submitted_name(pods).items()}
        return all(
            phases.get(name) in ENDED or (phases.get(name) == "Running" and RUNS_NOTE not in pod["metadata"]["annotations"])
            for name, pod in self._submitted.items()
        )


def _clear(run: Run) -> None:
    """End all pods of a rehearsal, and wait until their reservations of GPUs are gone, too."""
    deadline = run.deadline.extended(60)
    empty_namespace(run.kube, NAMESPACE, deadline, KINDS)
    wait_for("the end of reservations of GPUs", lambda: _unreserved(run), deadline)


def _unreserved(run: Run) -> tuple[bool | None, str]:
    pods = run.kube.list("v1", "Pod", None, f"app={RESERVATION_APP}")
    names = [pod["metadata"]["name"] for pod in pods if str(pod["spec"].get("nodeName", "")).startswith(plan.NODES_NAME)]
    return (None, ", ".join(names)) if names else (True, "")


def _check_namespaces(run: Run) -> None:
    for name in NAMESPACES:
        live = run.kube.get("v1", "Namespace", name)
        if live is not None and not is_owned(live):
            raise TenancyError(f"namespace: {name} exists and is not owned by {MANAGER}; it stays untouched.")


def _check_queues(run: Run) -> None:
    """Refuse a cluster whose queues a first rehearsal would replace."""
    if run.kube.get("v1", "Namespace", NAMESPACE) is None:
        names = {item["metadata"]["name"] for item in run.kube.list(QUEUE_API_VERSION, QUEUE_KIND)} - DEFAULT_QUEUES
        if names:
            raise TenancyError(
                f"The cluster has queues that no rehearsal made: {', '.join(sorted(names))}. Rehearse on a cluster on which nothing depends."
            )


def _ensure(run: Run, item: JsonObject) -> None:
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace")
    live = run.kube.get(item["apiVersion"], item["kind"], name, namespace)
    if live is not None and _is_as(item, live):
        return
    run.change(f"{item['kind']} {name}", None if live is None else "something else", "present")
    run.perform(f"apply {item['kind']} {name}", "it simulates nodes", lambda: run.kube.apply(item))


def _is_as(wanted: JsonObject, live: JsonObject) -> bool:
    """Tell whether a live object is as desired, its metadata aside."""
    return all(_holds(live.get(key), value) for key, value in wanted.items() if key != "metadata")


def _holds(live: t.Any, wanted: t.Any) -> bool:
    """Tell whether an object has the desired values; a server adds defaults of its own."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(_holds(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_holds, live, wanted))
    return bool(live == wanted)


def _shape(node: JsonObject) -> JsonObject:
    """Return what makes a simulated node what it is; the taint of one that is not ready yet does not."""
    taints = [one for one in node["spec"].get("taints") or [] if not one["key"].startswith("node.kubernetes.io/")]
    labels = {key: value for key, value in node["metadata"]["labels"].items() if not key.startswith("beta.kubernetes.io/")}
    return {"taints": taints, "labels": labels, "allocatable": node["status"].get("allocatable")}


def _for_each_node(run: Run, verb: str, nodes: t.Sequence[t.Any], call: t.Callable[[t.Any], object]) -> None:
    if nodes:
        before, after = (len(nodes), None) if verb == "remove" else (None, len(nodes))
        run.change(f"simulated nodes to {verb}", before, after)
        run.perform(f"{verb} {len(nodes)} simulated nodes", "the trace says which there are", lambda: concurrently(call, nodes))


def _remove_nodes(run: Run, names: t.Sequence[str]) -> None:
    """Remove simulated nodes, and the pods of DaemonSets on them, which no kubelet ends."""
    _for_each_node(run, "remove", names, lambda name: run.kube.delete("v1", "Node", name))
    if run.check_mode:
        return
    there = {node["metadata"]["name"] for node in run.kube.list("v1", "Node", None, f"{SIMULATED}=true")}
    for pod in run.kube.list("v1", "Pod"):
        node = str(pod["spec"].get("nodeName", ""))
        if node.startswith(plan.NODES_NAME) and node not in there:
            run.kube.delete("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_seconds=0)


def _simulates(run: Run) -> tuple[bool | None, str]:
    pods = run.kube.list("v1", "Pod", KWOK_NAMESPACE, f"app={plan.NAME}")
    if any(map(is_ready, pods)):
        return True, ""
    return None, "; ".join(pod_problems(pods)) or f"{len(pods)} pods, none of them ready"


def _are_ready(run: Run, wanted: t.Collection[str]) -> tuple[bool | None, str]:
    ready = [node for node in run.kube.list("v1", "Node", None, f"{SIMULATED}=true") if is_ready(node)]
    return (True, "") if len(ready) == len(wanted) else (None, f"{len(ready)} of {len(wanted)} are ready")


def _ends(run: Run) -> bool:
    """Tell whether a namespace of rehearsals is being removed, so that nothing can be created in it."""
    return any(
        "deletionTimestamp" in (run.kube.get("v1", "Namespace", name) or {"metadata": ()})["metadata"] for name in NAMESPACES
    )


def _gone(run: Run) -> tuple[bool | None, str]:
    left = [name for name in NAMESPACES if run.kube.get("v1", "Namespace", name)]
    return (None, f"{', '.join(left)} still there") if left else (True, "")
