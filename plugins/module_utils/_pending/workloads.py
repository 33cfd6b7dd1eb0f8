# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge workloads whose pods the API server refuses, so that there is no pod to judge."""

from __future__ import annotations

import collections
import typing as t

from .._common.names import QUEUE_LABEL
from .._common.ownership import labels_of
from .._common.parties import each
from .._common.pods import Answer, is_ended
from .._common.quantity import whole
from .._common.text import line
from .._common.values import JsonObject, Key, key_name, key_of
from .cluster import Cluster
from .node import refusal_of


class Pods(t.NamedTuple):
    """The pods of a workload: how many are to exist now, and how many exist."""

    wanted: int
    made: int


def living(pods: t.Iterable[JsonObject]) -> collections.Counter[Key]:
    """Return how many pods have not ended, by their namespace and the UID of what controls them."""
    found, _unread = each((pod for pod in pods if not is_ended(pod)), key_name, _controller)
    return collections.Counter(found)


def _controller(pod: JsonObject) -> Key:
    """Return the namespace of a pod and the UID of what controls it; an empty one where nothing does."""
    owners = (owner["uid"] for owner in pod["metadata"].get("ownerReferences") or [] if owner.get("controller"))
    return key_of(pod)[0], str(next(owners, ""))


def pods_of(workload: JsonObject, alive: t.Mapping[Key, int]) -> Pods:
    """Return how many pods a workload of one of facts.CREATORS is to have, and has.

    :arg alive: as of ``living``, for kinds that write no status while a pod is refused.
    :raises ValueError: where a number of it cannot be read.
    """
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    if workload["kind"] == "RayCluster":
        return Pods(_of_ray(spec), _alive(workload, alive))
    if parts := _parts(spec):
        return _of_training(parts, spec, status, _alive(workload, alive))
    if workload["kind"] == "DaemonSet":
        return Pods(whole(status.get("desiredNumberScheduled") or 0), whole(status.get("currentNumberScheduled") or 0))
    if workload["kind"] != "Job":
        return Pods(whole(_given(spec, "replicas")), whole(status.get("replicas") or 0))
    if _is_ended(status) or spec.get("suspend"):
        return Pods(0, 0)
    wanted, succeeded = whole(_given(spec, "parallelism")), whole(status.get("succeeded") or 0)
    if spec.get("completions") is not None:
        wanted = min(wanted, max(0, whole(spec["completions"]) - succeeded))
    elif succeeded:
        wanted = 0
    return Pods(wanted, whole(status.get("active") or 0))


def _is_ended(status: JsonObject) -> bool:
    ends = ("Complete", "Succeeded", "Failed")
    return any(one["type"] in ends and one["status"] == "True" for one in status.get("conditions") or [])


def _of_ray(spec: JsonObject) -> int:
    """Return how many pods a RayCluster is to have: its head, and those of its groups of workers."""
    if spec.get("suspend"):
        return 0
    groups = [group for group in spec.get("workerGroupSpecs") or [] if not group.get("suspend")]
    least = (max(whole(group.get("replicas") or 0), whole(group.get("minReplicas") or 0)) for group in groups)
    return 1 + sum(count * whole(group.get("numOfHosts") or 1) for count, group in zip(least, groups))


def _parts(spec: JsonObject) -> dict[str, JsonObject]:
    """Return the parts of a job of Kubeflow whose pods it creates itself, by their names; empty for another kind.

    An MPIJob has a Job for its launcher.
    """
    return {
        name: part
        for key, parts in spec.items()
        if key.endswith("ReplicaSpecs")
        for name, part in parts.items()
        if (key, name) != ("mpiReplicaSpecs", "Launcher")
    }


def _alive(workload: JsonObject, alive: t.Mapping[Key, int]) -> int:
    return alive.get((key_of(workload)[0], workload["metadata"]["uid"]), 0)


def _of_training(parts: t.Mapping[str, JsonObject], spec: JsonObject, status: JsonObject, alive: int) -> Pods:
    if _is_ended(status) or (spec.get("runPolicy") or {}).get("suspend"):
        return Pods(0, 0)
    counted = status.get("replicaStatuses") or {}
    succeeded = sum(whole((counted.get(name) or {}).get("succeeded") or 0) for name in parts)
    return Pods(sum(whole(_given(part, "replicas")) for part in parts.values()), alive + succeeded)


def _given(spec: JsonObject, field: str) -> t.Any:
    return 1 if spec.get(field) is None else spec[field]


def creation(workload: JsonObject, pods: Pods, cluster: Cluster) -> Answer:
    """Return why a workload lacks pods."""
    said = line(cluster.refused[workload["metadata"]["uid"]].get("message"))
    refusal = refusal_of(said)
    cause = refusal.cause.format(release=cluster.placing.release) + (f" ({refusal.fault})" if refusal.fault else "")
    count = f"{pods.made} of its {pods.wanted} pods exist"
    kind, name = workload["kind"], line(workload["metadata"]["name"])
    return Answer(refusal.reason, f"{count}, because {cause}. The last event of {kind} {name} is: {said}.", refusal.advice)


def named(workload: JsonObject) -> tuple[str, str]:
    """Return the kind and name under which people know a workload: of a Deployment's ReplicaSet, those of the Deployment."""
    metadata = workload["metadata"]
    for owner in metadata.get("ownerReferences") or []:
        if owner.get("controller") and owner.get("kind") == "Deployment":
            return "Deployment", line(owner["name"])
    return workload["kind"], line(metadata["name"])


def as_pod(workload: JsonObject) -> JsonObject:
    """Return a workload in the form of a pod of its own: its namespace and age with what its template, or the first of several, says."""
    spec = workload["spec"]
    having = (spec, spec.get("headGroupSpec") or {}, *_parts(spec).values())
    template: JsonObject = next(filter(None, (one.get("template") for one in having)), {})
    metadata = {key: workload["metadata"][key] for key in ("namespace", "name", "uid", "creationTimestamp")}
    said = {key: (template.get("metadata") or {}).get(key) for key in ("labels", "annotations")}
    # KAI Scheduler reads the queue of the workload before that of its pods.
    if queue := labels_of(workload).get(QUEUE_LABEL):
        said["labels"] = (said["labels"] or {}) | {QUEUE_LABEL: queue}
    return {
        "metadata": metadata | said,
        "spec": template.get("spec") or {},
        "status": {},
    }
