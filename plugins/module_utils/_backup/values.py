# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a backup of a tenant is told to vCluster by, and the pod that restores one."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import typing as t

from .._common.ownership import OWNED_LABELS, annotations_of, labels_of
from .._common.quantity import quantity
from .._common.values import JsonObject, moment
from .facts import (
    ARCHIVE,
    BACKUP_RUN,
    CONTAINER,
    CONTENT,
    DELETED_BY,
    OPTIONS,
    POD_SECONDS,
    PROGRAM,
    RESTORE_POD,
    SELECTED_NODE,
    SNAPSHOT,
    SNAPSHOTS,
    SYNCER_KEYS,
)

# Of a claim's spec, what its volume is made by.
_CLAIM_SPEC = ("accessModes", "resources", "storageClassName", "volumeMode")

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


def file_stamp(at: str) -> str:
    """Return how the files of a backup begin, such as 20261127T020000Z: its time, without characters that some file systems refuse."""
    return moment(at).strftime("%Y%m%dT%H%M%SZ")


def claim_record(claim: JsonObject) -> JsonObject:
    """Return what is needed to make a tenant's claim on the host cluster anew, for the record of a backup."""
    annotations = annotations_of(claim)
    node = {SELECTED_NODE: annotations[SELECTED_NODE]} if SELECTED_NODE in annotations else {}
    return {
        "name": claim["metadata"]["name"],
        "labels": _of_syncer(labels_of(claim)),
        "annotations": _of_syncer(annotations) | node,
        "spec": {key: claim["spec"][key] for key in _CLAIM_SPEC if key in claim["spec"]},
    }


def restored_claim(record: JsonObject, namespace: str, snapshot: str, least: int, without_node: bool) -> JsonObject:
    """Return the claim whose volume is made from a snapshot.

    :arg record: as ``claim_record`` returns it.
    :arg least: bytes of a volume from the snapshot, 0 where the storage does not say.
    :arg without_node: whether the node of its former volume is gone.
    """
    source = {"apiGroup": SNAPSHOTS.partition("/")[0], "kind": SNAPSHOT, "name": snapshot}
    annotations = {key: value for key, value in record["annotations"].items() if not (without_node and key == SELECTED_NODE)}
    spec = copy.deepcopy(record["spec"]) | {"dataSource": source}
    requests = spec.setdefault("resources", {}).setdefault("requests", {})
    # The storage may have made a larger volume than it was asked for, and makes no smaller one from its snapshot.
    if least > quantity(requests.get("storage", "0")):
        requests["storage"] = str(least)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": record["name"], "namespace": namespace, "labels": record["labels"], "annotations": annotations},
        "spec": spec,
    }


def volume_snapshot(claim: str, namespace: str, snapshot_class: str, labels: t.Mapping[str, str]) -> JsonObject:
    """Return a snapshot of the volume of a claim, for a backup.

    :arg labels: with the run.
    """
    name = f"kubegpu-{labels[BACKUP_RUN][:12]}-{hashlib.sha256(claim.encode()).hexdigest()[:8]}"
    metadata = {"name": name, "namespace": namespace, "labels": {**OWNED_LABELS, **labels}}
    spec = {"volumeSnapshotClassName": snapshot_class, "source": {"persistentVolumeClaimName": claim}}
    return {"apiVersion": SNAPSHOTS, "kind": SNAPSHOT, "metadata": metadata, "spec": spec}


def adopted(content: JsonObject, handle: str, namespace: str) -> tuple[JsonObject, JsonObject]:
    """Return a VolumeSnapshotContent and a VolumeSnapshot that lead to a snapshot of the storage whose own VolumeSnapshot is gone.

    :arg content: the former VolumeSnapshotContent; ``handle``, how the storage names the snapshot.
    """
    name = f"kubegpu-{content['metadata']['uid']}"
    secrets = {key: value for key, value in annotations_of(content).items() if key.startswith(DELETED_BY)}
    spec = {key: content["spec"][key] for key in ("driver", "sourceVolumeMode") if key in content["spec"]}
    spec |= {
        "deletionPolicy": "Retain",
        "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": {"name": name, "namespace": namespace},
    }
    metadata: JsonObject = {"name": name, "labels": labels_of(content)}
    return (
        {"apiVersion": SNAPSHOTS, "kind": CONTENT, "metadata": metadata | {"annotations": secrets}, "spec": spec},
        {
            "apiVersion": SNAPSHOTS,
            "kind": SNAPSHOT,
            "metadata": metadata | {"namespace": namespace},
            "spec": {"source": {"volumeSnapshotContentName": name}},
        },
    )


def _of_syncer(keys: t.Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in keys.items() if key.startswith(SYNCER_KEYS)}
