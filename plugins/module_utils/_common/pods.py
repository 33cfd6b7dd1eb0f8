# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge pods of any workload: whether they have ended, and why they do not start."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube

Object = dict[str, t.Any]

# Reasons of a waiting container that pass by themselves.
_STARTING = (None, "ContainerCreating", "PodInitializing")


def pods_gone(kube: Kube, namespace: str, selector: str | None = None) -> tuple[bool | None, str]:
    """Probe for ``wait_for``: True once a namespace has no pod that matches the label selector, else their names."""
    names = [pod["metadata"]["name"] for pod in kube.list("v1", "Pod", namespace, selector)]
    return (None, f"{', '.join(names)} still there") if names else (True, "")


def start_failures(pods: t.Iterable[Object]) -> list[str]:
    """Return why containers do not start, such as an image that cannot be pulled: "pod NAME: REASON MESSAGE" each."""
    failures = []
    for pod in pods:
        status = pod.get("status", {})
        for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") not in _STARTING:
                failures.append(f"pod {pod['metadata']['name']}: {waiting['reason']} {waiting.get('message', '')}".rstrip())
    return failures
