# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge pods of any workload: whether they are ready or have ended, what they hold, and why they do not run. Make pods that run anywhere."""

from __future__ import annotations

import decimal
import typing as t

from .quantity import bounded, quantity
from .text import shown
from .values import JsonObject

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube

# Reasons of a container whose image does not come (k8s.io/kubernetes, pkg/kubelet/images/types.go).
IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
# Restarts after which a crashing container is given up: the kubelet has waited 10 and 20 seconds by then.
CRASH_LOOP_RESTARTS = 3
# Reasons of a container that is on its way, or has done its work.
_HARMLESS = (None, "Completed", "PodInitializing", "ContainerCreating")


class Answer(t.NamedTuple):
    """Why a pod waits, or what is wrong with one that runs.

    :ivar reason: a short name; ``message`` and ``advice``, a sentence each.
    """

    reason: str
    message: str
    advice: str


def is_ready(item: JsonObject | None) -> bool:
    """Tell whether a Pod or a Node has the condition Ready."""
    conditions = ((item or {}).get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


# Phases of pods that hold nothing any more.
ENDED = ("Succeeded", "Failed")


def has_controller(pod: JsonObject) -> bool:
    """Tell whether a controller makes a pod anew once it is deleted."""
    return any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or [])


def is_ended(pod: JsonObject) -> bool:
    """Tell whether a pod has ended, and holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in ENDED


def held_by(spec: JsonObject, resource: str, kinds: t.Sequence[str] = ("limits",)) -> decimal.Decimal:
    """Return how much of a resource Kubernetes books for a pod, in whole units: devices, cores or bytes.

    Its containers' sum and that of native sidecars (init containers that restart always), or more while an init container runs
    (k8s.io/component-helpers, resource/helpers.go, PodRequests).

    :arg kinds: of amounts, the first that a container gives counts. Of an extended resource such as GPUs, limit and request are the same.
    :raises ValueError: where an amount cannot be read, or their sum is more than Kubernetes counts.
    """

    def asked(container: JsonObject) -> decimal.Decimal:
        given = container.get("resources") or {}
        return next(
            (quantity(given[kind][resource]) for kind in kinds if resource in (given.get(kind) or {})), decimal.Decimal(0)
        )

    sidecars = most = decimal.Decimal(0)
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars += asked(container)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + asked(container))
    most = max(most, sidecars + sum(map(asked, spec.get("containers") or []), decimal.Decimal(0)))
    return bounded(most, str(most))


def container_statuses(pod: JsonObject) -> list[JsonObject]:
    """Return the statuses of a pod's containers, init containers first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def crashing_container(pod: JsonObject) -> str | None:
    """Return the container that crashes again and again; a host's restart makes one crash once or twice, before it has a network."""
    # One that is being deleted crashes no more.
    for status in () if "deletionTimestamp" in pod["metadata"] else container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == "CrashLoopBackOff" and status.get("restartCount", 0) >= CRASH_LOOP_RESTARTS:
            return str(status["name"])
    return None


def image_tag(image: str) -> str:
    """Return the tag of an image reference; empty without one."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def unscheduled(pod: JsonObject) -> JsonObject | None:
    """Return the condition by which a scheduler says that it finds no node for a pod; None without one."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), None)


def pod_problem(pod: JsonObject) -> str | None:
    """Return why a pod does not run, such as ``pod web-0: app: ErrImagePull (no such host)``; None where nothing is known to be wrong.

    The first container that waits or ended for a reason comes before the scheduler's reason.
    """
    name = pod["metadata"]["name"]
    for status in container_statuses(pod):
        state = status.get("state") or {}
        for detail in (state.get("waiting") or {}, state.get("terminated") or {}):
            if detail.get("reason") not in _HARMLESS:
                message = f" ({shown(detail['message'])})" if detail.get("message") else ""
                return f"pod {name}: {status['name']}: {shown(detail['reason'])}{message}"
    if condition := unscheduled(pod):
        return f"pod {name}: {shown(condition.get('reason'))} ({shown(condition.get('message', ''))})"
    return None


def pod_state(pod: JsonObject) -> str:
    """Return one line about a pod that is not ready: its problem, or else its phase."""
    phase = (pod.get("status") or {}).get("phase", "Unknown")
    return pod_problem(pod) or f"pod {pod['metadata']['name']}: {phase}, not ready"


def pod_problems(pods: t.Iterable[JsonObject]) -> list[str]:
    """Return one line for each pod that is known not to run, in the order given."""
    return [problem for problem in map(pod_problem, pods) if problem]


def event_time(event: JsonObject) -> str:
    """Return when an event was last seen; older recorders write other fields than newer ones."""
    series = event.get("series")
    times = (
        series.get("lastObservedTime") if isinstance(series, dict) else None,
        *map(event.get, ("lastTimestamp", "eventTime", "firstTimestamp")),
    )
    return str(next(filter(None, times), ""))


def pods_gone(kube: Kube, namespace: str, selector: str | None = None) -> tuple[bool | None, str]:
    """Probe for ``wait_for``: True once a namespace has no pod that matches the label selector, else their names."""
    names = [pod["metadata"]["name"] for pod in kube.list("v1", "Pod", namespace, selector)]
    return (None, f"{', '.join(names)} still there") if names else (True, "")


def delete_pods(kube: Kube, pods: t.Iterable[JsonObject]) -> None:
    """Delete those of the pods that are not being deleted already."""
    for pod in pods:
        if "deletionTimestamp" not in pod["metadata"]:
            kube.delete("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])


def pod_spec(image: str, script: str, **container: t.Any) -> JsonObject:
    """Return the spec of a pod with one container that runs a shell script; ``container`` overrides the container's fields."""
    # Satisfies the pod security standard `restricted` and a quota, so that one probe serves every trust profile.
    return {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "runAsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "probe",
                "image": image,
                "command": ["/bin/sh", "-c", script],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}},
            }
            | container
        ],
    }
