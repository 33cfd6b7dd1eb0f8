# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge the probe of images: whether a pod's image was pulled."""

from __future__ import annotations

import re

from .._common.pods import IMAGE_REASONS, container_statuses, is_ended, pod_state, unscheduled
from .._common.text import shown
from .._common.values import JsonObject

# Why a container waits whose image cannot be had (k8s.io/kubernetes pkg/kubelet/images/types.go, and pkg/kubelet/kubelet_pods.go).
_NOT_PULLED = (*IMAGE_REASONS, "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed")
_BEFORE = ("ContainerCreating", "PodInitializing")
# What registries answer to a request without credentials. Docker Hub says the same of images that it lacks.
_UNAUTHORIZED = re.compile(r"\b40[13]\b|authoriz|authenticat|access denied", re.IGNORECASE)


def outcome(pod: JsonObject) -> tuple[str | None, str]:
    """Return ("passed", "failed" or "not_tried", reason) once it is known whether the image was pulled; before that (None, the pod's state)."""
    for status in container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting")
        why = (waiting or {}).get("reason")
        if why in _NOT_PULLED:
            # While the kubelet waits to try again, it repeats the last answer.
            message = f"{why}: {shown((waiting or {}).get('message'))}"
            if _UNAUTHORIZED.search(message):
                return "not_tried", f"nothing is known of the credentials that its installation pulls it with: {message}"
            return "failed", message
        if waiting is None or (why and why not in _BEFORE):
            return "passed", f"on {pod['spec'].get('nodeName')}"
    if is_ended(pod):
        return "not_tried", pod_state(pod)
    if condition := unscheduled(pod):
        return "not_tried", f"no node takes its pod: {shown(condition.get('message'))}"
    return None, pod_state(pod)
