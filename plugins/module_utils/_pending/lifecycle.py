# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read what tells why pods wait: lists of the whole cluster, and the scheduler's log where these say nothing."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
import typing as t

from .._common.errors import TenancyError
from .._common.names import KAI_NAMESPACE, POD_GROUP, QUEUE_API_VERSION, QUEUE_KIND, SHARD
from .._common.ownership import is_synced
from .._common.parties import Unread, attempt, each, reason
from .._common.pods import Answer, event_time
from .._common.quantity import whole
from .._common.synced import virtual_name
from .._common.values import JsonObject, Key, key_name, key_of, utc_now
from .._nodes.dra import list_nodes
from .._queues.values import from_live, readable
from .._schedulers.families import FAMILIES
from . import facts
from .cluster import Cluster
from .status import last_error, report
from .workloads import pods_of

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Result, Run

# Pods that have succeeded are many, and none of them waits or holds anything.
_PODS = "status.phase!=Succeeded"


def pending(run: Run, connect_host: t.Callable[[], Kube]) -> Result:
    """Return why the chosen pods of a cluster wait, and which run past KAI Scheduler, as the options of kai_pending_info say.

    :arg connect_host: to the host cluster of a virtual one; called where an option names it.
    """
    kube, params = run.kube, run.params
    cluster, unread, placing = _both(kube, params, connect_host)
    chosen, creators = cluster.pods, list(cluster.creators.values())
    if selector := params["label_selector"]:
        labelled = {key_of(pod) for pod in kube.list("v1", "Pod", None, selector, _PODS)}
        chosen = [pod for pod in chosen if key_of(pod) in labelled]
        creators = [one for kind in _kinds(creators) for one in kube.list(facts.CREATORS[kind], kind, None, selector)]
        creators = [one for one in creators if one["metadata"]["uid"] in cluster.creators]
    if params["namespaces"]:
        chosen = [pod for pod in chosen if key_of(pod)[0] in params["namespaces"]]
        creators = [one for one in creators if key_of(one)[0] in params["namespaces"]]
    now = utc_now()
    rows, unjudged = report(chosen, cluster, now, creators)
    if any(row["reason"] == facts.UNKNOWN for row in rows):
        told = dataclasses.replace(cluster.placing, trouble=_trouble(run, placing, cluster.placing))
        told = dataclasses.replace(cluster, outer=told) if cluster.outer else told
        rows, unjudged = report(chosen, told, now, creators)
    return {"changed": False, "pods": rows, "unread": [one.sentence for one in [*unread, *unjudged]]}


def read(kube: Kube, scheduler: str) -> tuple[Cluster, list[Unread]]:
    """Read a cluster, with one list of each kind; kinds that it does not have count as empty.

    :arg scheduler: the name by which pods ask for KAI Scheduler.
    :returns: the cluster, and the objects of KAI Scheduler that have not the form of their kind.
    """
    requests, odd_requests = each(kube.list(*facts.BIND_REQUEST), lambda item: f"BindRequest {key_name(item)}", _request)
    queues, odd_queues = readable(kube.list(QUEUE_API_VERSION, QUEUE_KIND))
    groups, odd_groups = each(kube.list(*POD_GROUP), lambda item: f"PodGroup {key_name(item)}", _group)
    creators, refused = _creators(kube, _by_object(_refusals(kube)))
    shards = kube.list(*SHARD)
    pools, odd_shards = each(shards, lambda item: f"SchedulingShard {key_name(item)}", _served)
    pods, odd_pods = each(kube.list("v1", "Pod", field_selector=_PODS), lambda item: f"pod {key_name(item)}", _pod)
    explained, unexplained = _explained(kube, pods)
    cluster = Cluster(
        scheduler=scheduler,
        pods=pods,
        nodes=list_nodes(kube),
        groups=dict(groups),
        queues=from_live(queues),
        requests=dict(requests),
        events=_by_object(kube.list("v1", "Event", field_selector="involvedObject.kind=Pod")),
        pools=None if odd_shards else frozenset(pools if shards else ("",)),
        creators=creators,
        refused=refused,
        done=_done(kube, pods),
        explained=explained,
    )
    return cluster, [
        *odd_requests,
        *odd_queues,
        *odd_groups,
        *odd_shards,
        *odd_pods,
        *unexplained,
    ]


def _explained(kube: Kube, pods: list[JsonObject]) -> tuple[dict[Key, Answer], list[Unread]]:
    """Return why pods wait in the words of schedulers other than KAI, and what of these cannot be read."""
    explained: dict[Key, Answer] = {}
    unread: list[Unread] = []
    for family in FAMILIES.values():
        found, failure = attempt(f"what {family.title} says", functools.partial(family.waiting, kube, pods))
        answers, odd = found or ({}, [])
        explained |= answers
        unread += [*odd, *([failure] if failure else [])]
    return explained, unread


def _pod(item: JsonObject) -> JsonObject:
    """Return a pod, once what all others are counted with has its form.

    :raises ValueError: where it has not.
    """
    for field in ("spec", "status"):
        if not isinstance(item.get(field), dict):
            raise ValueError(f"its {field} has not the form of a pod's")
    if not isinstance(item["spec"].get("nodeName", ""), str):
        raise ValueError("its spec.nodeName is no text")
    return item


def _served(item: JsonObject) -> str:
    """Return the node pool that a SchedulingShard serves; empty for the nodes without a label.

    :raises Exception: where it has not the form of one.
    """
    return str((item.get("spec") or {}).get("partitionLabelValue") or "")


def _request(item: JsonObject) -> tuple[Key, JsonObject]:
    """Return a BindRequest by its pod.

    :raises Exception: where it has not the form of one.
    """
    groups = item["spec"].get("selectedGPUGroups") or []
    return (key_of(item)[0], str(item["spec"].get("podName", ""))), item | {
        "spec": item["spec"] | {"selectedGPUGroups": [str(group) for group in groups]},
        "status": dict(item.get("status") or {}),
    }


def _group(item: JsonObject) -> tuple[Key, JsonObject]:
    """Return a PodGroup by its name.

    :raises Exception: where it has not the form of one.
    """
    spec = dict(item.get("spec") or {})
    parts = [{"name": str(part["name"]), "minMember": whole(part.get("minMember") or 0)} for part in spec.get("subGroups") or []]
    spec |= {"minMember": whole(spec.get("minMember") or 0), "subGroups": parts}
    spec |= {"queue": str(spec["queue"])} if spec.get("queue") else {}
    return key_of(item), item | {"spec": spec}


def _refusals(kube: Kube) -> list[JsonObject]:
    """Return the events of workloads that could not create a pod."""
    return [event for event in kube.list("v1", "Event", field_selector=facts.CREATION_EVENTS) if _is_refusal(event)]


def _is_refusal(event: JsonObject) -> bool:
    """Tell whether a workload says by an event that it could not create a pod."""
    pattern = facts.FAILED_CREATE.get(str(_about(event).get("kind")))
    return pattern is not None and bool(re.match(pattern, f"{event.get('reason')} {event.get('message')}"))


def _creators(kube: Kube, events: t.Mapping[str, list[JsonObject]]) -> tuple[dict[str, JsonObject], dict[str, JsonObject]]:
    """Return the workloads that such events are of, and the newest event of each, by UID.

    Kinds of which there is no such event are not read. An event of another namespace counts for nothing: a user who writes it there may
    name any UID.
    """
    kinds = _kinds(_about(event) for some in events.values() for event in some)
    found = [one for kind in kinds for one in kube.list(facts.CREATORS[kind], kind)]
    creators = {one["metadata"]["uid"]: one for one in found if one["metadata"].get("uid") in events}
    refused = {uid: event for uid, one in creators.items() for event in events[uid] if key_of(event)[0] == key_of(one)[0]}
    return {uid: creators[uid] for uid in refused}, refused


def _done(kube: Kube, pods: t.Iterable[JsonObject]) -> frozenset[str]:
    """Return the UIDs of Jobs that need no pods any more; they are read only where a pod of one was refused, or failed with a reason."""
    failed = (pod["metadata"] for pod in pods if pod["status"].get("phase") == "Failed" and pod["status"].get("reason"))
    if not any(owner.get("kind") == "Job" for metadata in failed for owner in metadata.get("ownerReferences") or []):
        return frozenset()
    jobs = [job for job in kube.list(facts.CREATORS["Job"], "Job") if job["metadata"].get("uid")]
    found, _unread = each(jobs, key_name, lambda job: (job["metadata"]["uid"], pods_of(job, {}).wanted))
    return frozenset(uid for uid, wanted in found if not wanted)


def _kinds(items: t.Iterable[JsonObject]) -> list[str]:
    return sorted({str(item["kind"]) for item in items})


def _both(kube: Kube, params: t.Mapping[str, t.Any], connect_host: t.Callable[[], Kube]) -> tuple[Cluster, list[Unread], Kube]:
    """Read a cluster, and where an option names it, the host cluster that it has its pods on.

    :returns: the cluster, what of the two could not be read, and the API of that whose KAI Scheduler places the pods.
    """
    name, namespace = params["scheduler_name"], params.get("host_namespace")
    if not params.get("host_kubeconfig"):
        return (*read(kube, name), kube)
    # The host's pods first, so that what runs there is what the virtual cluster should show by now.
    found, failure = attempt(f"namespace {namespace} of the host cluster", lambda: _on_host(connect_host(), str(namespace)))
    cluster, unread = read(kube, name)
    if found is None:
        return cluster, [*([failure] if failure else []), *unread], kube
    host_kube, pods = found
    named, odd = each(pods, lambda pod: f"pod {key_name(pod)} of the host cluster", lambda pod: (virtual_name(pod), pod))
    cluster, unread = dataclasses.replace(cluster, host=dict(named)), [*unread, *odd]
    if cluster.schedulers or not any(map(cluster.is_kais, cluster.pods)):
        return cluster, unread, kube
    outer, more = read(host_kube, name)
    # Without one there, too, this cluster tells better that there is none.
    return dataclasses.replace(cluster, outer=outer if outer.schedulers else None), [*unread, *more], host_kube


def _on_host(kube: Kube, namespace: str) -> tuple[Kube, list[JsonObject]]:
    """Return the API of a host cluster, and the pods that a syncer brought to a namespace: not those of a control plane."""
    return kube, list(filter(is_synced, kube.list("v1", "Pod", namespace)))


def _by_object(events: list[JsonObject]) -> dict[str, list[JsonObject]]:
    grouped: dict[str, list[JsonObject]] = collections.defaultdict(list)
    for event in sorted(events, key=event_time):
        grouped[str(_about(event).get("uid", ""))].append(event)
    return grouped


def _about(event: JsonObject) -> JsonObject:
    """Return what an event says of the object that it is about; empty where that has another form."""
    about = event.get("involvedObject")
    return about if isinstance(about, dict) else {}


def _trouble(run: Run, kube: Kube, cluster: Cluster) -> Answer | None:
    """Return the last error that KAI's scheduler logged; a log that cannot be read is a warning."""
    logs = {}
    for pod in cluster.schedulers:
        name = pod["metadata"]["name"]
        try:
            logs[name] = kube.pods.logs(name, KAI_NAMESPACE, lines=facts.LOG_LINES, seconds=facts.LOG_SECONDS)
        except TenancyError as exc:
            run.warn(f"Why pods wait may be in the log of pod {name} in {KAI_NAMESPACE}, which cannot be read: {reason(exc)}")
    return last_error(logs)
