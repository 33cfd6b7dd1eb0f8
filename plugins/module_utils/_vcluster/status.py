# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judgement of a virtual cluster's live objects on the host cluster: its state, what is not ready, what a pause would lose. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._common.documents import parse_json
from .._common.names import KAI_NAMESPACE, KAI_SCHEDULERS, RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE, TENANT_LABEL
from .._common.ownership import annotations_of, is_owned, labels_of, own
from .._common.pods import crashing_container, image_tag, is_ended, pod_state
from .._common.synced import synced_from, virtual_name
from .._common.text import shown
from .._common.values import JsonObject, Values, value_at
from .facts import (
    CHART,
    LISTED_CLASS,
    NETWORK_ANNOTATION,
    PAUSED,
    SCHEDULER_ANNOTATION,
    SYNCED_OWNERS,
    TRUST_ANNOTATION,
    minor_version,
)
from .values import backing_store, has_own_scheduler, selected

if t.TYPE_CHECKING:
    from .._helm.values import Release

# Namespaces of pods that have no controller, and that KAI Scheduler makes again where it needs them.
_OF_KAI = (RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE)

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FAILURE = re.compile(r"error|fatal|panic|failed|\bfull\b|no space", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Existing:
    """What a host cluster has of one virtual cluster, read once, before a run writes.

    :ivar kubernetes: version of the host cluster's API server, such as v1.35.4.
    :ivar namespace: also one that is being removed.
    :ivar release: of a namespace that is not; ``expired``, when its certificate ended, None where it has not.
    """

    kubernetes: str
    namespace: JsonObject | None = None
    release: Release | None = None
    expired: str | None = None

    @property
    def usable(self) -> JsonObject | None:
        """The namespace, where objects can be created in it."""
        return None if is_terminating(self.namespace) else self.namespace

    @property
    def host(self) -> str:
        """The minor version of the host cluster's Kubernetes; empty where it is not known."""
        return minor_version(self.kubernetes)


def is_terminating(item: JsonObject | None) -> bool:
    """Tell whether an object is being removed."""
    return item is not None and "deletionTimestamp" in item["metadata"]


# --- the control plane -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a control plane is ready.

    :ivar seen: one line about what is not ready; empty when it is.
    :ivar crashed: (pod, container) that crashes again and again.
    """

    ready: bool
    seen: str
    crashed: tuple[str, str] | None = None


def judge(workload: JsonObject | None, pods: list[JsonObject]) -> Verdict:
    """Judge whether the control plane runs as last asked for.

    :arg workload: its StatefulSet, or its Deployment when it keeps no data.
    :arg pods: those of its release, of any revision.
    """
    if workload is None:
        return Verdict(False, "the control plane's StatefulSet does not exist yet")
    status, replicas = workload.get("status", {}), workload["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return Verdict(False, "the controller has not seen the latest change yet")
    revision = status.get("updateRevision")
    current = [pod for pod in pods if not revision or labels_of(pod).get("controller-revision-hash") == revision]
    for pod in current:
        container = crashing_container(pod)
        if container:
            return Verdict(False, pod_state(pod), (pod["metadata"]["name"], container))
    if status.get("readyReplicas", 0) >= replicas and status.get("updatedReplicas", 0) >= replicas:
        return Verdict(True, "")
    return Verdict(False, "; ".join(map(pod_state, current)) or "the control plane has no pod yet")


def control_plane_pods(name: str | None, pods: t.Iterable[JsonObject]) -> list[JsonObject]:
    """Return the pods of a control plane among those of its namespace; pods that its tenant made may carry any other label."""
    return [pod for pod in own(pods) if {"app": "vcluster", "release": name}.items() <= labels_of(pod).items()]


def is_paused(workload: JsonObject) -> bool:
    """Tell whether a control plane is scaled to nothing by a pause."""
    return annotations_of(workload).get(PAUSED) == "true" and workload["spec"].get("replicas") == 0


def failure_lines(log: str) -> str:
    """Return the last three lines of a log about failures, or else its last line: the first to fail takes others along."""
    lines = [_COLOUR.sub("", line).strip() for line in log.splitlines() if line.strip()]
    failures = [line for line in lines if _FAILURE.search(line)]
    return " | ".join(failures[-3:] or lines[-1:])


# --- pods --------------------------------------------------------------------------------------------------------


def lost_pods(pods: t.Iterable[JsonObject]) -> list[str]:
    """Return the pods that no controller brings back once they are deleted, as "namespace/name" in the virtual cluster, sorted.

    Pods that have ended, are being deleted, or are made by KAI Scheduler on demand are none of them.

    :arg pods: synced ones, as they are on the host cluster.
    """
    return sorted(
        virtual_name(pod)
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and not is_ended(pod)
        and synced_from(pod) not in _OF_KAI
        and not _has_controller(pod)
    )


def _has_controller(pod: JsonObject) -> bool:
    try:
        owners = parse_json(annotations_of(pod).get(SYNCED_OWNERS, "[]"))
    except ValueError:
        return False
    return isinstance(owners, list) and any(isinstance(owner, dict) and owner.get("controller") for owner in owners)


# --- classes of the host -----------------------------------------------------------------------------------------


def classes_to_list(classes: t.Iterable[JsonObject]) -> list[JsonObject]:
    """Return those of the host's runtime and storage classes that lack the label by which a tenant of trust zero gets them.

    They are NVIDIA's runtime class, without which no pod gets a GPU, and the default storage class, without which an own scheduler
    places no pod with a volume. Further ones are listed by labelling them.
    """
    return [item for item in classes if _is_basic(item) and LISTED_CLASS not in labels_of(item)]


def _is_basic(item: JsonObject) -> bool:
    if item["kind"] == "RuntimeClass":
        return bool(item["metadata"]["name"] == "nvidia")
    return annotations_of(item).get("storageclass.kubernetes.io/is-default-class") == "true"


def is_zero_trust(namespace: JsonObject | None) -> bool:
    """Tell whether a namespace is recorded as that of a tenant of trust zero."""
    return annotations_of(namespace).get(TRUST_ANNOTATION) == "zero"


# --- a virtual cluster as a record -------------------------------------------------------------------------------


def describe(
    workload: JsonObject, namespace: JsonObject | None, config: Values, pods: list[JsonObject], volumes: list[JsonObject]
) -> JsonObject:
    """Return the record of one virtual cluster, as module vcluster_info documents it.

    :arg workload: its StatefulSet or Deployment.
    :arg namespace: the one it is in.
    :arg config: its whole configuration, from the Secret vc-config-<name>.
    :arg pods: those in its namespace, synced ones as well.
    :arg volumes: PersistentVolumeClaims in its namespace.
    """
    metadata, name = workload["metadata"], workload["metadata"]["name"]
    images = images_of(workload)
    verdict = judge(workload, control_plane_pods(name, pods))
    state = _state(workload, verdict)
    return {
        "name": name,
        "namespace": metadata["namespace"],
        "tenant": labels_of(namespace).get(TENANT_LABEL) if is_owned(namespace) else None,
        "trust": annotations_of(namespace).get(TRUST_ANNOTATION),
        "network_policies": annotations_of(namespace).get(NETWORK_ANNOTATION),
        "version": labels_of(workload).get("chart", "").removeprefix(f"{CHART}-"),
        "state": state,
        "reason": "" if is_paused(workload) else verdict.seen,
        "kubernetes_version": kubernetes_version(workload),
        "scheduler": _scheduler(config, namespace, pods, state),
        "nodes": _seen_nodes(config),
        "backing_store": backing_store(config),
        "volumes": {
            claim["metadata"]["name"]: claim.get("status", {}).get("capacity", {}).get("storage")
            for claim in volumes
            if claim["metadata"]["name"].startswith(f"data-{name}-")
        },
        "images": images,
        "created": metadata.get("creationTimestamp"),
    }


def images_of(workload: JsonObject) -> dict[str, str]:
    """Return the images of a control plane, by the names of its containers."""
    spec = workload["spec"]["template"]["spec"]
    return {container["name"]: container["image"] for container in [*(spec.get("initContainers") or []), *spec["containers"]]}


def kubernetes_version(workload: JsonObject) -> str | None:
    """Return the version of the virtual cluster's Kubernetes, such as v1.35.4; None where no image says so."""
    return next((tag for image in images_of(workload).values() if (tag := image_tag(image)).startswith("v1.")), None)


def _state(workload: JsonObject, verdict: Verdict) -> str:
    if is_paused(workload):
        return "paused"
    return "running" if verdict.ready else "crashing" if verdict.crashed else "starting"


def _seen_nodes(config: Values) -> JsonObject | None:
    """Labels of the host's nodes that it sees; None where it sees none of the real ones."""
    if not value_at(config, "sync.fromHost.nodes.enabled"):
        return None
    return selected(config)


def _scheduler(config: Values, namespace: JsonObject | None, pods: list[JsonObject], state: str) -> JsonObject | None:
    """Return the scheduler in it: KAI Scheduler, else Kubernetes' own, or none but the host's.

    A tenant's KAI Scheduler is the one that this collection installed and verified. In a virtual cluster of others, its administrator's pods
    say which there is.

    :returns: None where it has one of its own and it is not known which, because it does not run, or was not verified yet.
    """
    installed = annotations_of(namespace).get(SCHEDULER_ANNOTATION)
    if installed and state != "paused":
        return {"name": "kai", "version": installed}
    if not has_own_scheduler(config):
        return {}
    for pod in pods:
        if synced_from(pod) == KAI_NAMESPACE and labels_of(pod).get("app") in KAI_SCHEDULERS:
            said = shown(image_tag(str(pod["spec"]["containers"][0].get("image", ""))), 63) or None
            return None if is_owned(namespace) else {"name": "kai", "version": said}
    return {"name": "kube-scheduler"} if state == "running" else None
