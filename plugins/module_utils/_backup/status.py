# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a request for a snapshot has come to, and what a backup holds and leaves out."""

from __future__ import annotations

import collections
import re
import typing as t

from .._common.documents import parse_json
from .._common.errors import TenancyError, refusal
from .._common.ownership import annotations_of
from .._common.text import shown
from .._common.values import JsonObject, value_at
from .facts import COMPLETED, DEFAULT_CLASS, REQUEST_KEY, UNSUCCESSFUL

# How names of keys in an archive begin: /registry/<resource>/… or /registry/<group>/<resource>/… (k8s.io/apiserver, storage keys).
_KEYS = "/registry/"
# In tags such as v1.35.4, 1.35.4 and mirror-v1.35.4.
_KUBERNETES = re.compile(r"(?<![\d.])1\.\d{1,3}(?:\.\d{1,3})?(?!\d)")


def request_name(printed: str) -> str:
    """Return the name of the request that vCluster's program created, from what the program printed.

    :raises TenancyError: where the program printed something else.
    """
    try:
        name = value_at(parse_json(printed), "metadata.name")
    except ValueError:
        name = None
    if not isinstance(name, str) or not name:
        raise TenancyError(f"vCluster's program did not name its request for a snapshot. It printed: {shown(printed)}")
    return name


def finished(request: JsonObject | None) -> tuple[bool | None, str]:
    """Tell whether a snapshot is made, for ``wait_for``.

    :arg request: the ConfigMap; None where it does not exist.
    :returns: True or None, and the phase.
    :raises TenancyError: where the control plane could not make the snapshot.
    """
    try:
        state = parse_json((request or {}).get("data", {}).get(REQUEST_KEY) or "{}")
    except ValueError:
        state = {}
    phase = shown(value_at(state, "status.phase") or "not begun")
    if phase in UNSUCCESSFUL:
        why = shown(value_at(state, "status.error.message") or "vCluster does not say why")
        raise TenancyError(f"vCluster could not make the snapshot ({phase}): {why}")
    return (True, "") if phase == COMPLETED else (None, f"its phase is: {phase}")


def counted(keys: t.Iterable[str]) -> dict[str, int]:
    """Return how many objects of each resource an archive holds, by ``secrets`` or ``queues.scheduling.run.ai``.

    :raises TenancyError: where it holds none.
    """
    found = (key.removeprefix(_KEYS).split("/") for key in keys if key.startswith(_KEYS))
    resources = (f"{parts[1]}.{parts[0]}" if "." in parts[0] and len(parts) > 1 else parts[0] for parts in found)
    counts = dict(sorted(collections.Counter(resources).items()))
    if not counts:
        raise refusal(
            "damaged-backup",
            f"The archive holds no object: no name in it begins with {_KEYS}. Use another backup, or take one anew.",
        )
    return counts


def unscheduled_again(pods: t.Iterable[JsonObject]) -> list[JsonObject]:
    """Return the pods that a restore left without a node and without a phase (pkg/snapshot/restoreclient.go, transformPod).

    Kubernetes gives a pod its phase when it is created, and KAI Scheduler places only pods with the phase Pending (seen with v0.13.1).
    """
    return [
        pod
        for pod in pods
        if not (pod.get("spec") or {}).get("nodeName")
        and not (pod.get("status") or {}).get("phase")
        and "deletionTimestamp" not in pod["metadata"]
    ]


def kubernetes_in(text: str | None) -> str | None:
    """Return the version of Kubernetes that a version or an image's tag names, such as v1.35.4; None where there is none."""
    found = _KUBERNETES.search(text or "")
    return f"v{found[0]}" if found else None


def classes_of(
    claims: t.Iterable[JsonObject], volumes: t.Iterable[JsonObject], classes: t.Iterable[JsonObject]
) -> dict[str, str]:
    """Return the VolumeSnapshotClass for each claim with a volume that its driver made, and has a class for, by the claim's name.

    A driver with several classes has its default one, else the first by name.
    """
    ordered = sorted(classes, key=lambda one: (annotations_of(one).get(DEFAULT_CLASS) != "true", one["metadata"]["name"]))
    by_driver: dict[t.Any, str] = {}
    for one in ordered:
        by_driver.setdefault(one.get("driver"), one["metadata"]["name"])
    of_volume = {
        volume["metadata"]["name"]: by_driver.get(driver) for volume in volumes if (driver := value_at(volume, "spec.csi.driver"))
    }
    found = {
        claim["metadata"]["name"]: of_volume.get(claim["spec"].get("volumeName"))
        for claim in claims
        if is_bound(claim) and claim["spec"].get("storageClassName")
    }
    return {name: snapshot_class for name, snapshot_class in sorted(found.items()) if snapshot_class}


def is_bound(claim: JsonObject) -> bool:
    """Tell whether a claim has its volume, and is to keep it."""
    return value_at(claim, "status.phase") == "Bound" and "deletionTimestamp" not in claim["metadata"]


def ready_snapshot(snapshot: JsonObject | None) -> tuple[JsonObject | None, str]:
    """Return a VolumeSnapshot once it can be restored from, for ``wait_for``; else None, and why not."""
    if value_at(snapshot, "status.readyToUse") is True and value_at(snapshot, "status.boundVolumeSnapshotContentName"):
        return snapshot, ""
    return None, shown(value_at(snapshot, "status.error.message") or ("it is not ready" if snapshot else "it does not exist"))


def bound_claim(claim: JsonObject | None) -> tuple[bool | None, str]:
    """Tell whether a claim has its volume, for ``wait_for``."""
    phase = shown(value_at(claim, "status.phase") or "not begun")
    return (True, "") if phase == "Bound" else (None, f"its phase is: {phase}")


def is_bound_later(storage_class: JsonObject | None) -> bool:
    """Tell whether volumes of a StorageClass are made once a pod with the claim has a node."""
    return (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"


def content_of(volume: JsonObject, contents: t.Iterable[JsonObject], namespace: str) -> JsonObject | None:
    """Return the VolumeSnapshotContent of a volume in a backup; None where it is gone.

    :arg volume: with ``driver`` and ``handle``, as the record has it; ``namespace``, of the tenant to whom the snapshot has to belong.
    """
    wanted = (volume["driver"], volume["handle"], namespace)
    paths = ("spec.driver", "status.snapshotHandle", "spec.volumeSnapshotRef.namespace")
    found = (one for one in contents if tuple(value_at(one, path) for path in paths) == wanted)
    return next((one for one in found if "deletionTimestamp" not in one["metadata"]), None)
