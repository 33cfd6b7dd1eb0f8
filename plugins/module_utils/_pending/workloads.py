# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge workloads whose pods the API server refuses, so that there is no pod to judge."""

from __future__ import annotations

import typing as t

from .._common.quantity import whole
from .._common.values import JsonObject
from .cluster import Answer, Cluster, line
from .node import refusal_of


class Pods(t.NamedTuple):
    """The pods of a workload: how many are to exist now, and how many exist."""

    wanted: int
    made: int


def pods_of(workload: JsonObject) -> Pods:
    """Return how many pods a ReplicaSet, StatefulSet, DaemonSet or Job is to have, and has.

    :raises ValueError: where a number of it cannot be read.
    """
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    if workload["kind"] == "DaemonSet":
        return Pods(whole(status.get("desiredNumberScheduled") or 0), whole(status.get("currentNumberScheduled") or 0))
    if workload["kind"] != "Job":
        return Pods(whole(_given(spec, "replicas")), whole(status.get("replicas") or 0))
    ended = any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in status.get("conditions") or [])
    if ended or spec.get("suspend"):
        return Pods(0, 0)
    wanted, succeeded = whole(_given(spec, "parallelism")), whole(status.get("succeeded") or 0)
    if spec.get("completions") is not None:
        wanted = min(wanted, max(0, whole(spec["completions"]) - succeeded))
    elif succeeded:
        wanted = 0
    return Pods(wanted, whole(status.get("active") or 0))


def _given(spec: JsonObject, field: str) -> t.Any:
    return 1 if spec.get(field) is None else spec[field]


def creation(workload: JsonObject, cluster: Cluster) -> Answer:
    """Return why a workload has no pods."""
    said = line(cluster.refused[workload["metadata"]["uid"]].get("message"))
    refusal, pods = refusal_of(said), pods_of(workload)
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
    """Return a workload in the form of a pod of its own: its namespace and age with what its template says."""
    template = workload["spec"].get("template") or {}
    metadata = {key: workload["metadata"][key] for key in ("namespace", "name", "uid", "creationTimestamp")}
    return {
        "metadata": metadata | {key: (template.get("metadata") or {}).get(key) for key in ("labels", "annotations")},
        "spec": template.get("spec") or {},
        "status": {},
    }
