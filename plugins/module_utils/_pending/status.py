# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge why a pod waits, and which pods run past KAI Scheduler.

Each rule is a small function; RULES at the end has the order in which they are asked.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import functools
import itertools
import math
import re
import typing as t

from .._common.names import (
    DEFAULT_QUEUE,
    FRACTION_NOTE,
    MEMORY_NOTE,
    POD_GROUP_NOTE,
    QUEUE_LABEL,
    RESERVATION_NAMESPACE,
    RESERVED_GPU_NOTE,
    SUB_GROUP_LABEL,
)
from .._common.ownership import annotations_of, labels_of
from .._common.parties import Unread, each
from .._common.pods import Answer, container_statuses, event_time, held_by, is_ready, pod_state
from .._common.quantity import number, quantity
from .._common.text import LONGEST_LINE, line, shown
from .._common.values import JsonObject, Key, key_name, key_of, moment
from .._kai.facts import OVER_LIMIT, dotted, facts_of
from .._kai.status import is_error, log_cause, plain_lines
from .._nodes.status import gpus_of, held, is_reservation
from . import asked, facts, node, workloads
from .cluster import Cluster, SchedulerReason, conditions_of, group_key, scheduler_of

# pkg/scheduler/api/unschedule_info.go, alike from v0.7.11 to v0.17.0.
_LIMIT = re.compile(
    r"(?P<queue>.+) quota has reached .*\. Limit is (?P<bound>\S+) (?P<unit>GPUs|cores|GB), currently (?P<held>\S+) .*"
    r" workload requested (?P<asked>\S+)"
)
_QUOTA = re.compile(
    r"Workload requested (?P<asked>\S+) .*, but (?P<queue>.+) quota is (?P<bound>\S+) (?P<unit>GPUs|cores|GB),"
    r" while (?P<held>\S+) "
)


# --- pods that wait for any scheduler ------------------------------------------------------------------------------


def _terminating(pod: JsonObject, _cluster: Cluster) -> Answer | None:
    since = pod["metadata"].get("deletionTimestamp")
    advice = "Wait; if it stays, see its finalizers and whether its node still answers."
    return Answer("terminating", f"It is being deleted since {since}.", advice) if since else None


def _gated(pod: JsonObject, _cluster: Cluster) -> Answer | None:
    gates = ", ".join(gate["name"] for gate in pod["spec"].get("schedulingGates") or [])
    advice = "Let the controller that set them take them off; until then no scheduler looks at it."
    return Answer("gated", f"It has the scheduling gates {gates}.", advice) if gates else None


def _too_large(pod: JsonObject, cluster: Cluster) -> Answer | None:
    asked, most = gpus_of(pod["spec"]), cluster.most_gpus
    if asked <= most:
        return _too_large_for_its_size(pod, cluster)
    if not most:
        advice = "Let the nodes offer their GPUs: the role device_plugin does."
        return Answer("no_gpus", f"It asks for {asked} GPUs, and no node offers any.", advice)
    advice = "Ask for no more than one node has, and spread larger work over several pods, as a gang."
    return Answer("too_large", f"It asks for {asked} GPUs, and no node has more than {most}.", advice)


def _too_large_for_its_size(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for a pod that asks for more CPU or memory than any node has: no work that ends makes room for it."""
    for resource, scale, unit in (("cpu", 1, "cores"), ("memory", 2**30, "GiB of memory")):
        # Kubernetes takes a limit for the request where that is not given.
        asked, most = held_by(pod["spec"], resource, ("requests", "limits")), cluster.most(resource)
        if 0 < most < asked:
            numbers = f"{_short(asked / scale)} {unit}, and no node has more than {_short(most / scale)}"
            return Answer("too_large", f"It asks for {numbers}.", "Ask for no more than one node has, or add a larger node.")
    return None


def _short(amount: decimal.Decimal) -> str:
    return f"{amount.quantize(decimal.Decimal('0.001')).normalize():f}"


def _explained(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for a pod by what another scheduler says of it."""
    return cluster.explained.get(key_of(pod))


def _of_another_scheduler(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for every pod that is not KAI's; the rules after this one are about KAI Scheduler."""
    if cluster.is_kais(pod):
        return None
    if text := cluster.unschedulable(pod):
        return _no_node(pod, cluster, text)
    if cluster.is_known(pod):
        return _last_known(pod, cluster)
    name = scheduler_of(pod)
    advice = (
        f"Correct spec.schedulerName of its workload (KAI Scheduler is {cluster.scheduler}), or install a scheduler of that name."
    )
    return Answer("no_scheduler", f"It asks for {name}, and no scheduler of that name has looked at it.", advice)


def _no_node(pod: JsonObject, cluster: Cluster, text: str) -> Answer:
    asked, free = gpus_of(pod["spec"]), cluster.most_free_gpus
    gpus = f"; it asks for {asked} GPUs, and the most that a node has free are {free}" if asked else ""
    cordoned = _cordoned(cluster) if re.search(facts.CORDONED, text) else ""
    advice = next(advice for pattern, advice in facts.NO_NODE_ADVICE if re.search(pattern, text))
    return Answer("no_node", f"{scheduler_of(pod)} finds no node for it: {text}{gpus}{cordoned}.", advice)


def _cordoned(cluster: Cluster) -> str:
    """Return which nodes take no new pods, as a part of a sentence; empty for none."""
    names = sorted(node["metadata"]["name"] for node in cluster.nodes if (node.get("spec") or {}).get("unschedulable"))
    return f"; cordoned are {', '.join(map(line, names[:9]))}" if names else ""


# --- pods that wait for KAI Scheduler ------------------------------------------------------------------------------


def _no_kai(pod: JsonObject, cluster: Cluster) -> Answer | None:
    # A pod to which a scheduler gave a condition is placed by the host cluster's KAI Scheduler.
    if cluster.schedulers or cluster.is_known(pod):
        return None
    advice = (
        "Install it (role kai_scheduler), or name another scheduler; where the host cluster's KAI Scheduler places the pods of "
        "this cluster, ask there."
    )
    return Answer("no_scheduler", f"It asks for {cluster.scheduler}, and no KAI Scheduler runs in this cluster.", advice)


def _kai_down(_pod: JsonObject, cluster: Cluster) -> Answer | None:
    if not cluster.schedulers or any(map(is_ready, cluster.schedulers)):
        return None
    advice = "Mend KAI Scheduler; kai_scheduler_info names what is missing."
    return Answer("scheduler_down", f"KAI Scheduler is not ready: {line(pod_state(cluster.schedulers[0]))}.", advice)


def _queue_missing(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for KAI, which up to v0.12 writes neither condition nor event (pkg/scheduler/cache/cluster_info/cluster_info.go)."""
    name = cluster.queue_of(pod)
    # Without a scheduler here, the host cluster's has its own queues.
    if name in cluster.queues or not (cluster.schedulers or cluster.scheduler_reason(pod, facts.QUEUE_MISSING)):
        return None
    known = ", ".join(cluster.leaf_queues[:9])
    existing = f"one of the leaf queues {known}" if known else "an existing leaf queue"
    advice = f"Name {existing} in the label {QUEUE_LABEL} of its workload, or create the queue (kai_queues)."
    if name == DEFAULT_QUEUE and QUEUE_LABEL not in labels_of(pod):
        return Answer("no_queue", f"It names no queue, so it is in {name}, which does not exist.", advice)
    return Answer("queue_missing", f"Its queue {name} does not exist.", advice)


def _queue_without_parent(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for KAI, which leaves out queues below one that does not exist (cluster_info, cleanQueueOrphans)."""
    path = cluster.ancestors(cluster.queue_of(pod) or "")
    if not path or not path[-1].parent or path[-1].parent in cluster.queues:
        return None
    top = path[-1]
    below = f"queue {path[0].name} is below queue {top.name}" if top != path[0] else f"queue {top.name}"
    return Answer(
        "queue_without_parent",
        f"Its {below}, whose parent {top.parent} does not exist, and KAI Scheduler leaves out all of it.",
        f"Create queue {top.parent}, or give {top.name} a parent that exists (kai_queues).",
    )


def _parent_queue(pod: JsonObject, cluster: Cluster) -> Answer | None:
    name = cluster.queue_of(pod)
    children = ", ".join(cluster.child_queues.get(name, [])[:9])
    if name is None or not children:
        return None
    message = f"Its queue {name} has the children {children}, and KAI Scheduler places pods of leaf queues only."
    return Answer("parent_queue", message, f"Name one of its leaf queues in the label {QUEUE_LABEL} of its workload.")


def _queue_level(pod: JsonObject, cluster: Cluster) -> Answer | None:
    path, version = cluster.ancestors(cluster.queue_of(pod) or ""), cluster.version
    if not path or version is None:
        return None
    levels = facts_of(version)["queue_levels"]
    if levels in (None, len(path)):
        return None
    return Answer(
        "queue_level",
        f"Its queue {path[0].name} is on level {len(path)}, and KAI Scheduler v{dotted(version)} serves level {levels} only.",
        "Give the queue a parent without a parent (kai_queues), or upgrade to v0.13 or later.",
    )


def _binding(pod: JsonObject, cluster: Cluster) -> Answer | None:
    request = cluster.requests.get(key_of(pod), {})
    spec, status = request.get("spec") or {}, request.get("status") or {}
    if not spec or status.get("phase") == facts.BIND_SUCCEEDED:
        return None
    chosen = spec.get("selectedNode")
    # The number of failed attempts stays at 1: the status is written only when the phase changes (bindrequest_controller.go).
    failure = line(status.get("reason")) if status.get("phase") == facts.BIND_FAILED else ""
    if groups := spec.get("selectedGPUGroups"):
        reservations = (one for group in dict.fromkeys(map(str, groups)) for one in cluster.reservations.get(group, ()))
        waiting = [one for one in reservations if RESERVED_GPU_NOTE not in annotations_of(one)]
        failure = line(pod_state(waiting[0])) if waiting else failure
    if not failure:
        advice = "See whether the pod of KAI Scheduler's binder runs, if this takes longer than a minute."
        return Answer("binding", f"KAI Scheduler is giving it to node {chosen}.", advice)
    if groups:
        return _unreserved(f"It shares a GPU of node {chosen}, whose reservation does not come: {failure}.")
    return Answer(
        "binding", f"KAI Scheduler chose node {chosen}, and binding fails: {failure}.", "See the log of KAI Scheduler's binder."
    )


def _unreserved(message: str) -> Answer:
    advice = (
        f"See why the pods in {RESERVATION_NAMESPACE} do not run or see no GPU: image, quota, driver, and the RuntimeClass, "
        "which some releases of KAI Scheduler do not set by themselves."
    )
    return Answer("reservation", message, advice)


def _gang(pod: JsonObject, cluster: Cluster) -> Answer | None:
    key = group_key(pod)
    if key not in cluster.gangs:
        cluster.gangs[key] = _short_gang(pod, cluster)
    return cluster.gangs[key]


def _short_gang(pod: JsonObject, cluster: Cluster) -> Answer | None:
    group = cluster.group_of(pod) or {}
    spec = group.get("spec") or {}
    needs = {"": spec.get("minMember") or 0}
    if not spec.get("minSubGroup"):
        needs |= {part["name"]: part.get("minMember") or 0 for part in spec.get("subGroups") or []}
    exist, gates = collections.Counter[str](), collections.Counter[str]()
    for one in cluster.members[group_key(pod)]:
        for part in dict.fromkeys(("", labels_of(one).get(SUB_GROUP_LABEL, ""))):
            exist[part] += 1
            gates[part] += bool(one["spec"].get("schedulingGates"))
    for part, wanted in needs.items():
        if exist[part] - gates[part] < wanted:
            of = f" (part {part})" if part else ""
            held_back = f", {gates[part]} of them with scheduling gates" if gates[part] else ""
            return Answer(
                "gang",
                f"Its gang {group['metadata']['name']}{of} starts with {wanted} pods, and {exist[part]} exist{held_back}.",
                "Create the pods that are missing, or lower the number that the workload starts with.",
            )
    return None


def _over_limit(pod: JsonObject, cluster: Cluster) -> Answer | None:
    stated = cluster.scheduler_reason(pod, OVER_LIMIT)
    if stated is None:
        return None
    found = _LIMIT.search(stated.message)
    if found is None:
        return Answer(
            "over_limit",
            f"{stated.message}.",
            "Wait until work in the queue ends, ask for less, or raise its limit (kai_queues).",
        )
    queue, above = _bounding_queue(found, stated, pod, cluster)
    wanted = _asked(found, stated)
    advice = f"Wait until work in queue {queue} ends, ask for less, or raise its limit (kai_queues)."
    if found["bound"] == "0":
        advice = f"Give queue {queue} a limit (kai_queues): to KAI Scheduler one that is omitted is 0."
    elif _is_more(wanted, found["bound"]):
        advice = f"Ask for {found['bound']} {found['unit']} at most, or raise the limit of queue {queue} (kai_queues): no work that ends makes room."
    numbers = f"{found['bound']} {found['unit']}, {found['held']} are allocated, and it asks for {wanted}"
    return Answer("over_limit", f"Queue {queue}{above} has a limit of {numbers}.", advice)


def _over_quota(pod: JsonObject, cluster: Cluster) -> Answer | None:
    stated = cluster.scheduler_reason(pod, facts.OVER_QUOTA)
    if stated is None:
        return None
    found = _QUOTA.search(stated.message)
    advice = "Make it preemptible (a PriorityClass below 100, such as train), or raise the quota (kai_queues)."
    if found is None:
        return Answer("over_quota", f"{stated.message}.", advice)
    queue, above = _bounding_queue(found, stated, pod, cluster)
    numbers = f"{found['bound']} {found['unit']}, {found['held']} are held by pods that cannot be preempted"
    return Answer(
        "over_quota",
        f"Queue {queue}{above} has a quota of {numbers}, and it is such a pod and asks for {_asked(found, stated)}.",
        advice,
    )


def _bounding_queue(found: re.Match[str], stated: SchedulerReason, pod: JsonObject, cluster: Cluster) -> tuple[str, str]:
    """Return the queue that bounds a pod, and how it is related to the pod's own queue where it is another one."""
    # The message has its display name in place of its name.
    name, own = stated.details.get("name") or found["queue"], cluster.queue_of(pod)
    return name, f", above its queue {own}," if name != own and stated.details else ""


def _asked(found: re.Match[str], stated: SchedulerReason) -> str:
    """Return what a workload asks for, in the unit of the other numbers.

    Up to v0.14 the message counts requests of non-preemptible work in milli-CPU and bytes (unschedule_info.go); the details
    cut GPUs to whole ones (resource_requirment.go, ToResourceList).
    """
    resource, scale = {"cores": ("cpu", 1), "GB": ("memory", 10**9)}.get(found["unit"], ("", 1))
    amount = (stated.details.get("podGroupRequestedResources") or {}).get(resource)
    if amount is None:
        return found["asked"]
    return _short(quantity(amount) / scale)


def _is_more(asked: str, bound: str) -> bool:
    """Tell whether one amount of a message is more than another one; not where one of them is no number."""
    try:
        return number(asked) > number(bound)
    except ValueError:
        return False


def _no_room(pod: JsonObject, cluster: Cluster) -> Answer | None:
    text = "; ".join(stated.message for stated in cluster.scheduler_reasons(pod) if stated.reason != facts.QUEUE_MISSING)
    return _no_node(pod, cluster, text + asked.of_other_pools(pod, cluster)) if text else None


def _no_group(pod: JsonObject, cluster: Cluster) -> Answer | None:
    if POD_GROUP_NOTE in annotations_of(pod) or not cluster.schedulers:
        return None
    warning = line((cluster.newest(pod, (facts.GROUPER_EVENT,)) or {}).get("message"))
    advice = "See whether KAI Scheduler's pod grouper runs, and its log."
    return Answer("no_pod_group", f"KAI Scheduler has put it into no PodGroup yet{': ' if warning else ''}{warning}.", advice)


def _scheduler_error(_pod: JsonObject, cluster: Cluster) -> Answer | None:
    return cluster.trouble


def _last_known(pod: JsonObject, cluster: Cluster) -> Answer:
    """Return what was last written of a pod."""
    known = [
        (event_time(event), line(event.get("reason")), line(event.get("message")))
        for event in cluster.events_of(pod)
        if event.get("reason") != facts.BOUND_EVENT
    ]
    known += [
        (condition.get("lastTransitionTime") or "", condition.get("reason") or condition["type"], line(condition.get("message")))
        for condition in conditions_of(pod)
        if condition["status"] == "False" and condition.get("message")
    ]
    if not known:
        advice = (
            f"See kubectl describe pod, and the log of {scheduler_of(pod)}; KAI Scheduler's pod grouper has a log of its own."
        )
        return Answer(facts.UNKNOWN, f"{scheduler_of(pod)} has not said why it waits.", advice)
    _time, reason, text = max(known)
    if "reserve GPUs" in text:
        return _unreserved(f"It shares a GPU whose reservation does not come: {text}.")
    advice = "See the events of the pod, and the log of its scheduler."
    return Answer(facts.UNKNOWN, f"{scheduler_of(pod)} has not said why it waits; known last is {reason} ({text}).", advice)


# --- pods that run past KAI Scheduler ------------------------------------------------------------------------------


def _past_queues(pod: JsonObject, cluster: Cluster) -> Answer | None:
    name, gpus = pod["spec"].get("nodeName"), held(pod)
    if not (cluster.schedulers and name and gpus) or is_reservation(pod) or cluster.is_kais(pod):
        return None
    message = f"{scheduler_of(pod)} placed it: it holds {gpus} GPUs of node {name} that count in no queue of KAI Scheduler."
    return Answer(
        "other_scheduler", message, f"Set schedulerName: {cluster.scheduler} and the label {QUEUE_LABEL} in its workload."
    )


def _no_runtime_class(pod: JsonObject, _cluster: Cluster) -> Answer | None:
    asks = gpus_of(pod["spec"]) or annotations_of(pod).keys() & {FRACTION_NOTE, MEMORY_NOTE}
    if not asks or pod["spec"].get("runtimeClassName"):
        return None
    for status in container_statuses(pod):
        for state in (status.get("state") or {}, status.get("lastState") or {}):
            ended = state.get("terminated") or {}
            text = line(ended.get("message"))
            if ended.get("exitCode") == facts.NOT_FOUND or re.search(facts.NO_GPU_MESSAGE, text):
                stated = f"exit status {ended.get('exitCode')}{': ' if text else ''}{text}"
                return Answer(
                    "no_runtime_class",
                    f"It asks for a GPU without a RuntimeClass, and its container {status['name']} missed a command ({stated}).",
                    "Set runtimeClassName: nvidia; where that is the nodes' default, see whether the image has the command.",
                )
    return None


# --- the report ----------------------------------------------------------------------------------------------------

Rule = t.Callable[[JsonObject, Cluster], "Answer | None"]

# Of pods that wait: the first that answers. First, in _rows, what the cluster itself knows of a pod. Then what keeps every scheduler
# from a pod, then what keeps KAI Scheduler from every pod, then what it says nothing about, then what it says, which may be older.
RULES: tuple[Rule, ...] = (
    _gated,
    node.not_started,
    _too_large,
    _explained,
    _of_another_scheduler,
    _no_kai,
    _kai_down,
    _queue_missing,
    _queue_without_parent,
    _parent_queue,
    _queue_level,
    asked.node_pool,
    asked.fraction,
    _binding,
    _gang,
    _over_limit,
    _over_quota,
    asked.config_map,
    asked.slices,
    _no_room,
    _no_group,
    _scheduler_error,
    _last_known,
)
# Of all pods: each that answers.
PAST_RULES: tuple[Rule, ...] = (_past_queues, _no_runtime_class, asked.unread_fraction, asked.own_group)


def report(
    chosen: t.Sequence[JsonObject], cluster: Cluster, now: datetime.datetime, creators: t.Iterable[JsonObject] = ()
) -> tuple[list[JsonObject], list[Unread]]:
    """Return a row for each pod that waits, was refused, or runs past KAI Scheduler, and for each workload without pods, oldest first.

    :arg chosen: the pods to judge, out of the cluster's; ``creators``, such workloads.
    :returns: the rows, and what could not be judged.
    """
    read = functools.partial(_rows, cluster=cluster, now=now)
    rows, unread = each(chosen, lambda pod: f"pod {key_name(pod)}", read)
    rejected, ended = node.refused_pods(chosen, cluster.done)
    named = {one.what for one in unread}
    unread += [one for one in ended if one.what not in named]
    refused, odd = each(
        rejected,
        lambda found: f"pod {key_name(found[0])}",
        lambda found: [_row(found[0], cluster.queue_of(found[0]), facts.REFUSED, node.refused(*found, cluster.placing), now)],
    )
    living = workloads.living(cluster.pods)
    made, odd_makers = each(
        creators, lambda one: f"{one['kind']} {key_name(one)}", lambda one: _creation_rows(one, living, cluster=cluster, now=now)
    )
    found = itertools.chain(*rows, *refused, *made)
    return sorted(found, key=lambda row: (row["since"], row["namespace"], row["name"])), [*unread, *odd, *odd_makers]


def _rows(pod: JsonObject, cluster: Cluster, now: datetime.datetime) -> list[JsonObject]:
    rows: list[tuple[str, Answer]] = []
    # Whose KAI Scheduler places a pod knows more of it, as the pod is there.
    placed, placing = (cluster.host.get(key_name(pod), pod), cluster.placing) if cluster.outer else (pod, cluster)
    if pod["status"].get("phase") == "Pending":
        own = (rule(pod, cluster) for rule in (_terminating, functools.partial(node.not_written_back, now=now), node.not_synced))
        answers = itertools.chain(own, (rule(placed, placing) for rule in RULES))
        rows.append((facts.PENDING, next(filter(None, answers))))
    rows += [(facts.PAST_KAI, answer) for rule in PAST_RULES if (answer := rule(placed, placing))]
    return [_row(pod, placing.queue_of(placed), state, answer, now) for state, answer in rows]


def _creation_rows(
    workload: JsonObject, living: t.Mapping[Key, int], cluster: Cluster, now: datetime.datetime
) -> list[JsonObject]:
    """Return the row of a workload that could not create a pod; none where it has all of its pods by now.

    :arg living: as of workloads.living.
    """
    pods = workloads.pods_of(workload, living)
    if pods.made >= pods.wanted or "deletionTimestamp" in workload["metadata"]:
        return []
    kind, name = workloads.named(workload)
    pod = workloads.as_pod(workload)
    row = _row(pod, cluster.queue_of(pod), facts.REFUSED, workloads.creation(workload, pods, cluster), now)
    return [row | {"kind": kind, "name": name}]


def _row(pod: JsonObject, queue: str | None, state: str, answer: Answer, now: datetime.datetime) -> JsonObject:
    created = pod["metadata"]["creationTimestamp"]
    since = pod["status"].get("startTime", created) if state == facts.PAST_KAI else created
    namespace, name = key_of(pod)
    return {
        "namespace": namespace,
        "name": name,
        "kind": "Pod",
        "queue": None if queue is None else shown(queue),
        "state": state,
        **{key: shown(text, LONGEST_LINE) for key, text in answer._asdict().items()},
        "since": since,
        "seconds": max(0, math.floor((now - moment(since)).total_seconds())),
    }


def last_error(logs: t.Mapping[str, str]) -> Answer | None:
    """Return the last error that KAI's scheduler logged, of a known cause where there is one.

    :arg logs: by the name of the pod.
    """
    lines = [(pod, text) for pod, log in sorted(logs.items()) for text in plain_lines(log)]
    for pod, text in reversed(lines):
        if cause := log_cause(text):
            meaning, advice = cause
            return Answer("scheduler_error", f"KAI Scheduler ({pod}) places nothing: {meaning}.", advice)
    for pod, text in reversed(lines):
        if is_error(text):
            stated = f"KAI Scheduler has not said why it waits; the last error of its scheduler ({pod}) is: {line(text)}."
            return Answer("scheduler_error", stated, "See the log of that pod; kai_scheduler_info tells whether all parts run.")
    return None
