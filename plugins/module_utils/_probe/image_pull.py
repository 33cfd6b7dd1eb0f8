# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Probe whether a cluster can pull images: a pod for each of them, on a node that the default scheduler chooses."""

from __future__ import annotations

import re
import typing as t

from .._common.pods import IMAGE_REASONS, container_statuses, is_ended, pod_spec, pod_state, unscheduled
from .._common.text import shown
from .._common.values import JsonObject
from .facts import FAILED, NOT_TRIED, PASSED
from .lifecycle import await_verdicts, own_namespace
from .plan import Settings, pod
from .status import Verdict, concluded, untried

if t.TYPE_CHECKING:
    from .._common.run import Result, Run

NAME = "kubegpu-image-probe"
# The image that a pod is for.
IMAGE_NOTE = "kubegpu.tenancy/image"

# Why a container waits whose image cannot be had (k8s.io/kubernetes pkg/kubelet/images/types.go, and pkg/kubelet/kubelet_pods.go).
_NOT_PULLED = (*IMAGE_REASONS, "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed")
_BEFORE = ("ContainerCreating", "PodInitializing")
# What registries answer to a request without credentials. Docker Hub says the same of images that it lacks.
_UNAUTHORIZED = re.compile(r"\b40[13]\b|authoriz|authenticat|access denied", re.IGNORECASE)


def probe(run: Run) -> Result:
    """Pull all images at once, and return the record of each, in their order."""
    kube, deadline, settings = run.kube, run.deadline, Settings.of(run.params)
    images = list(dict.fromkeys(run.params["images"]))
    if run.check_mode or not images:
        return concluded(untried(images), deadline.elapsed())

    def look() -> t.Callable[[str], Verdict]:
        pods = {one["metadata"]["annotations"][IMAGE_NOTE]: one for one in kube.list("v1", "Pod", settings.namespace)}
        return lambda image: outcome(pods.get(image))

    late = f"it was not pulled within {deadline.seconds:g} seconds"
    with own_namespace(kube, settings.namespace, deadline):
        for image in images:
            kube.create(manifest(settings, image))
        records = await_verdicts("the images to be pulled", images, look, deadline, late)
    return concluded(records, deadline.elapsed())


def manifest(settings: Settings, image: str) -> JsonObject:
    """Return the pod for an image. It need not have a shell: what the container does tells nothing."""
    spec = pod_spec(image, "exit 0") | {"restartPolicy": "Never"}
    return pod(settings, spec, generateName="image-", annotations={IMAGE_NOTE: image})


def outcome(pod: JsonObject | None) -> Verdict:
    """Return the verdict on an image once it is known whether it was pulled.

    :arg pod: the one for the image; None where another client removed it.
    """
    if pod is None:
        return FAILED, "its pod was removed by someone else"
    for status in container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting")
        why = (waiting or {}).get("reason")
        if why in _NOT_PULLED:
            # While the kubelet waits to try again, it repeats the last answer.
            message = f"{why}: {shown((waiting or {}).get('message'))}"
            if _UNAUTHORIZED.search(message):
                return NOT_TRIED, f"nothing is known of the credentials that its installation pulls it with: {message}"
            return FAILED, message
        if waiting is None or (why and why not in _BEFORE):
            return PASSED, f"on {pod['spec'].get('nodeName')}"
    if is_ended(pod):
        return NOT_TRIED, pod_state(pod)
    if condition := unscheduled(pod):
        return NOT_TRIED, f"no node takes its pod: {shown(condition.get('message'))}"
    return None, pod_state(pod)
