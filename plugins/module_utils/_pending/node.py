# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge pods that were given to a node: why they do not start there, are refused there, or are not brought to the host cluster or back."""

from __future__ import annotations

import collections
import datetime
import re
import typing as t

from .._common.parties import Unread, each
from .._common.pods import ENDED, Answer, container_statuses, event_time
from .._common.text import line
from .._common.values import JsonObject, Key, key_name, key_of, moment
from . import facts
from .cluster import Cluster

# --- between a virtual cluster and its host cluster ------------------------------------------------------------------


def not_written_back(pod: JsonObject, cluster: Cluster, now: datetime.datetime) -> Answer | None:
    """Answer for a pod that waits in a virtual cluster, and has started on the host cluster."""
    there = cluster.host.get(key_name(pod))
    status = (there or {}).get("status") or {}
    since = status.get("startTime")
    # One that is being deleted there may be that of an earlier pod of the same name.
    ending = any("deletionTimestamp" in one["metadata"] for one in (pod, there) if one)
    if status.get("phase", "Pending") == "Pending" or not since or ending:
        return None
    error = _sync_error(pod, cluster, since)
    if not error and (now - moment(since)).total_seconds() < facts.WRITTEN_BACK:
        return None
    node = (there or {})["spec"].get("nodeName")
    advice = next(advice for pattern, advice in facts.WRITE_BACK_ADVICE if re.search(pattern, error))
    why = error or "no event says why"
    runs = f"It runs on node {node} of the host cluster since {since}"
    if status["phase"] in ENDED:
        runs = f"It started on node {node} of the host cluster at {since} and has ended there ({line(status['phase'])})"
    return Answer("not_written_back", f"{runs}; its state is not written back: {why}.", advice)


def not_synced(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for a pod that vCluster's syncer cannot bring to the host cluster."""
    error = _sync_error(pod, cluster)
    if not error or container_statuses(pod) or key_name(pod) in cluster.host:
        return None
    refusal = refusal_of(error)
    if refusal is facts.OTHER_REFUSAL:
        advice = "Change what the message names in the pod; where it is none of yours, see the log of the tenant's control plane."
        return Answer("not_synced", f"vCluster cannot bring it to the host cluster: {error}.", advice)
    return Answer(
        refusal.reason, f"On the host cluster, {refusal.cause.format(release=cluster.release)}: {error}.", refusal.advice
    )


def _sync_error(pod: JsonObject, cluster: Cluster, since: str = "") -> str:
    """Return what the syncer last failed with, from a time on; empty where it did not, or gets over it by itself."""
    event = cluster.newest(pod, (facts.SYNC_ERROR,)) or {}
    # An older one is of what was overcome since, such as a quota. Times of events may have parts of seconds.
    error = line(event.get("message")) if event_time(event)[: len(since) - 1] >= since[:-1] else ""
    return "" if re.search(facts.SYNC_PASSES, error) else error


def refusal_of(text: str) -> facts.Refusal:
    """Return why an API server refused a pod, by its words."""
    return next((one for one in facts.REFUSALS if re.search(one.pattern, text)), facts.OTHER_REFUSAL)


# --- on the node -----------------------------------------------------------------------------------------------------


def not_started(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for every pod that has a node."""
    node = pod["spec"].get("nodeName")
    if not node:
        return None
    if down := _node_down(node, cluster):
        return down
    for status in container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in facts.WAITING:
            reason, advice = facts.WAITING[waiting["reason"]]
            if reason == facts.IMAGE_PULL:
                return _image(pod, status["name"], str(waiting["reason"]), waiting, cluster)
            detail = f" ({line(waiting['message'])})" if waiting.get("message") else ""
            return Answer(reason, f"Its container {status['name']} waits on node {node}: {waiting['reason']}{detail}.", advice)
    if added := _added_image(pod, cluster):
        return added
    if event := cluster.newest(pod, facts.NODE_EVENTS):
        reason, advice = facts.NODE_EVENTS[event["reason"]]
        return Answer(reason, f"It cannot start on node {node}: {event['reason']} ({line(event.get('message'))}).", advice)
    advice = "See its events, if this takes longer than a minute."
    return Answer("starting", f"It was given to node {node} and has not started yet.", advice)


def _node_down(name: str, cluster: Cluster) -> Answer | None:
    """Answer for a pod whose node is gone or not ready. The status of its containers is from before that."""
    found = cluster.nodes_by_name.get(name)
    if found is None:
        advice = "Wait a minute: Kubernetes deletes pods whose node is gone. If it stays, delete it."
        return Answer("node_down", f"It was given to node {line(name)}, which does not exist.", advice)
    conditions = (found.get("status") or {}).get("conditions") or []
    ready: JsonObject = next((one for one in conditions if one.get("type") == "Ready"), {})
    # A node without the condition has just joined.
    if ready.get("status", "True") == "True":
        return None
    said = ": ".join(filter(None, (line(ready.get("reason")), line(ready.get("message")))))
    return Answer(
        "node_down",
        f"It was given to node {line(name)}, which is not ready{f' ({said})' if said else ''}.",
        f"Mend the node; kubectl describe node {line(name)} shows its conditions. If it does not come back, delete the pod.",
    )


def _image(pod: JsonObject, name: str, reason: str, waiting: JsonObject, cluster: Cluster) -> Answer:
    """Return the image that a container waits for, and what its registry answered."""
    spec, kind = pod["spec"], "container"
    images = {one["name"]: line(one.get("image")) for one in spec["containers"]}
    if name not in images:
        kind = "init container"
        images |= {one["name"]: line(one.get("image")) for one in spec.get("initContainers") or []}
    image, said = images.get(name, ""), line(waiting.get("message"))
    failed = _pull_failure(pod, cluster, image)
    # While it waits for its next try, kubelet tells in the event only what the registry answered.
    detail = (failed or {}).get("answer") or said
    message = f"Its {kind} {name} waits on node {spec['nodeName']} for image {image}: {reason}{f' ({detail})' if detail else ''}."
    return Answer(facts.IMAGE_PULL, message, facts.WAITING[reason][1])


def _added_image(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for an image of a container that is none of the pod's own: its status is not told, its events are."""
    failed = _pull_failure(pod, cluster)
    if not failed or failed["container"] in {one["name"] for one in _containers(pod)}:
        return None
    whose = "that is none of its own"
    advice = facts.WAITING["ErrImagePull"][1]
    if failed["container"] == facts.ADDED_CONTAINER or (not failed["container"] and pod["spec"].get("subdomain")):
        whose, advice = "that vCluster adds to pods with a serviceName", facts.ADDED_ADVICE.format(image=failed["image"])
    node, answer = pod["spec"]["nodeName"], failed["answer"] or "it cannot be pulled"
    message = f"An init container {whose} waits on node {node} for image {failed['image']}: {answer}."
    return Answer(facts.IMAGE_PULL, message, advice)


def _pull_failure(pod: JsonObject, cluster: Cluster, image: str = "") -> dict[str, str] | None:
    """Return what kubelet last said of an image that it cannot pull: the image, the registry's answer and the container.

    :arg image: the one that is meant; empty for any that is no container's of the pod.
    """
    own = {line(one.get("image")) for one in _containers(pod)}
    answer: dict[str, str] | None = None
    for event in reversed(cluster.events_of(pod)):
        if event.get("reason") in facts.PULLED_EVENTS:
            break
        found = re.search(facts.PULL_FAILED, line(event.get("message"))) if event.get("reason") in facts.PULL_EVENTS else None
        if not found or (found["image"] != image if image else found["image"] in own):
            continue
        path = re.match(facts.CONTAINER_PATH, str((event.get("involvedObject") or {}).get("fieldPath") or ""))
        answer = answer or {"image": found["image"], "container": path["name"] if path else "", "answer": ""}
        if found["answer"]:
            return answer | {"answer": found["answer"]}
    return answer


def _containers(pod: JsonObject) -> list[JsonObject]:
    return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]


# --- pods that the node refused --------------------------------------------------------------------------------------


class Ended(t.NamedTuple):
    """What tells whether a kubelet refused a pod, and whether its workload has got another one to run.

    :ivar workload: the namespace of the pod and the UID of what controls it, or the pod's own.
    """

    pod: JsonObject
    workload: Key
    created: str
    phase: str
    refused: bool


def refused_pods(pods: t.Iterable[JsonObject], done: t.Container[str] = ()) -> tuple[list[tuple[JsonObject, int]], list[Unread]]:
    """Return the pods that a kubelet refused, of each workload the newest, with how many others there are; and pods that cannot be read.

    A workload that has got a pod to run since then is left out, and one that needs no pods any more.

    :arg done: UIDs of these.
    """
    read, unread = each(pods, lambda pod: f"pod {key_name(pod)}", _ended)
    newest: dict[Key, Ended] = {}
    counted: collections.Counter[Key] = collections.Counter()
    running: dict[Key, str] = {}
    for one in sorted(read, key=lambda one: one.created):
        if one.refused:
            newest[one.workload] = one
            counted[one.workload] += 1
        elif one.phase == "Running":
            running[one.workload] = one.created
    waiting = {key: one for key, one in newest.items() if running.get(key, "") < one.created and key[1] not in done}
    return [(one.pod, counted[key] - 1) for key, one in waiting.items()], unread


def _ended(pod: JsonObject) -> Ended:
    """Return what is to be known of one pod; a kubelet's refusal is final.

    :raises Exception: where it has not the form of one.
    """
    metadata, status = pod["metadata"], pod["status"]
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    refused = status.get("phase") == "Failed" and (bool(re.match(facts.REJECTIONS, reason)) or message.startswith(facts.REJECTED))
    owners = (owner["uid"] for owner in metadata.get("ownerReferences") or [] if owner.get("controller"))
    workload = (key_of(pod)[0], str(next(owners, metadata["uid"])))
    return Ended(pod, workload, metadata["creationTimestamp"], str(status.get("phase")), refused)


def refused(pod: JsonObject, others: int, cluster: Cluster) -> Answer:
    """Return why a kubelet refused a pod.

    :arg others: how many more of its workload were refused.
    """
    status, node = pod["status"], pod["spec"].get("nodeName")
    reason, said = line(status.get("reason")), line(status.get("message"))
    more = f" {others} more pods of its workload were refused, too." if others else ""
    message = f"Node {node} refused it: {reason} ({said}).{more}"
    sidecars = [one["name"] for one in pod["spec"].get("initContainers") or [] if one.get("restartPolicy") == "Always"]
    if sidecars and cluster.is_kais(pod) and re.match(facts.SHORT_OF, reason) and facts.SIDECARS.is_in(cluster.version):
        names = ", ".join(map(line, sidecars[:9]))
        return Answer(
            "refused",
            f"{message} {cluster.release} does not add native sidecars ({names}) to what a pod asks for ({facts.SIDECARS}).",
            "Ask in its first container for what that and the sidecars need together, or change to a release of KAI Scheduler that adds them.",
        )
    advice = next(advice for pattern, advice in facts.REJECTED_ADVICE if re.match(pattern, f"{reason} {said}"))
    return Answer("refused", message, advice)
