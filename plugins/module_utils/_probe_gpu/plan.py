# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the probe of GPUs: a pod for each node that lists the one GPU it asked for."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import GPU_RESOURCE
from .._common.pods import pod_spec
from .._common.values import JsonObject

NAME = "kubegpu-gpu-probe"
IMAGE = "docker.io/library/debian:12.12-slim"
# The node that a pod is for.
NODE_NOTE = "kubegpu.tenancy/node"


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the probe runs.

    :ivar expected_gpus: the UUIDs of a node's GPUs, by its name; a number instead of a list counts as unknown.
    :ivar runtime_class: RuntimeClass of the pods; empty for none.
    """

    namespace: str
    image: str
    expected_gpus: dict[str, t.Any]
    runtime_class: str
    tolerations: list[JsonObject]

    def uuids(self, node: str) -> list[str]:
        """Return the UUIDs of a node's GPUs; none where they are not known."""
        known = self.expected_gpus.get(node)
        return known if isinstance(known, list) else []


def manifest(settings: Settings, node: str) -> JsonObject:
    """Return the pod for a node."""
    # Its answer travels in the container's termination message: no log, so no kubelet, has to be reached.
    spec = pod_spec(
        settings.image,
        "nvidia-smi -L > /dev/termination-log 2>&1",
        env=[{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}],
        resources={
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi", GPU_RESOURCE: 1},
        },
    )
    # By affinity and not by nodeName, so that the scheduler counts the GPU.
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    runtime = {"runtimeClassName": settings.runtime_class} if settings.runtime_class else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "gpu-", "namespace": settings.namespace, "annotations": {NODE_NOTE: node}},
        "spec": spec
        | runtime
        | {
            "restartPolicy": "Never",
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
            "tolerations": settings.tolerations,
        },
    }
