# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a backup of a tenant is told to vCluster by, and the pod that restores one."""

from __future__ import annotations

import base64
import copy
import json

from .._common.ownership import OWNED_LABELS
from .._common.values import JsonObject
from .facts import ARCHIVE, CONTAINER, OPTIONS, POD_SECONDS, PROGRAM, RESTORE_POD

# Of the pod's spec, what the control plane's pod has as well.
_SHARED = (
    "affinity",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
    "volumes",
)
# Of its container.
_SHARED_BY_CONTAINERS = ("env", "envFrom", "image", "imagePullPolicy", "resources", "securityContext", "volumeMounts")


def snapshot_command(*subcommand: str) -> list[str]:
    """Return the command that has vCluster's program take or restore the archive in the container that it runs in."""
    options = {"type": "container", "container": {"path": ARCHIVE}}
    encoded = base64.b64encode(json.dumps(options).encode()).decode()
    return ["env", f"{OPTIONS}={encoded}", PROGRAM, *subcommand]


def shell(script: str) -> list[str]:
    """Return the command that runs a script which ends at its first error."""
    return ["sh", "-euc", script]


def restore_pod(workload: JsonObject, claim: str | None) -> JsonObject:
    """Return the pod that has the volume, the configuration and the programs of a control plane, and does nothing by itself.

    :arg workload: the control plane's StatefulSet.
    :arg claim: name of the PersistentVolumeClaim of its volume ``data``; None where the pod's own spec has that volume.
    """
    template = copy.deepcopy(workload["spec"]["template"]["spec"])
    container = next(each for each in template["containers"] if each["name"] == CONTAINER)
    shared = {key: container[key] for key in _SHARED_BY_CONTAINERS if key in container}
    # The program takes its pod for the one of this name (pkg/snapshot/pod/pod.go).
    environment = [each for each in shared.get("env", []) if each["name"] != "POD_NAME"]
    shared["env"] = [*environment, {"name": "POD_NAME", "value": f"{workload['metadata']['name']}-0"}]
    spec = {key: template[key] for key in _SHARED if key in template}
    if claim:
        spec["volumes"] = [*spec.get("volumes", []), {"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": RESTORE_POD, "namespace": workload["metadata"]["namespace"], "labels": dict(OWNED_LABELS)},
        "spec": spec
        | {
            "activeDeadlineSeconds": POD_SECONDS,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [shared | {"name": CONTAINER, "command": ["sleep", str(POD_SECONDS)]}],
        },
    }


def claim_of(workload: JsonObject) -> JsonObject | None:
    """Return the PersistentVolumeClaim for the volume ``data`` of a StatefulSet's first pod; None where it has no template for one."""
    templates = workload["spec"].get("volumeClaimTemplates") or []
    template = next((each for each in templates if each["metadata"]["name"] == "data"), None)
    if template is None:
        return None
    metadata = workload["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"data-{metadata['name']}-0",
            "namespace": metadata["namespace"],
            "labels": template["metadata"].get("labels") or workload["spec"]["selector"]["matchLabels"],
        },
        "spec": template["spec"],
    }
