# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Snapshots of the volumes of a tenant's own claims, by the storage of the host cluster, and claims that are made anew from them."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError, refusal
from .._common.ownership import annotations_of, is_synced, labels_of
from .._common.text import shown
from .._common.values import JsonObject, value_at
from .._common.wait import wait_for
from .facts import BACKUP_AT, CLASS, CONTENT, SELECTED_NODE, SNAPSHOT, SNAPSHOTS
from .status import bound_claim, classes_of, content_of, is_bound_later, ready_snapshot, selector_of
from .values import adopted, claim_record, file_stamp, restored_claim, volume_snapshot

if t.TYPE_CHECKING:
    from .._common.run import Run

CLAIM = ("v1", "PersistentVolumeClaim")


class Volumes:
    """The volumes of the claims that a tenant's syncer brought to the host cluster.

    :arg namespace: the tenant's.
    """

    def __init__(self, run: Run, namespace: str) -> None:
        self.run = run
        self.kube = run.kube
        self.namespace = namespace

    def classes(self) -> dict[str, str]:
        """Return the VolumeSnapshotClass for each claim whose driver has one, by the claim's name."""
        classes = self.kube.list(SNAPSHOTS, CLASS)
        return classes_of(self._claims(), self.kube.list("v1", "PersistentVolume"), classes) if classes else {}

    def left_out(self, classes: t.Container[str]) -> list[str]:
        """Return the names of the claims without a class, whose data no backup holds, sorted."""
        return sorted(claim["metadata"]["name"] for claim in self._claims() if claim["metadata"]["name"] not in classes)

    def save(self, classes: t.Mapping[str, str], labels: t.Mapping[str, str], at: str) -> list[JsonObject]:
        """Make a snapshot for each claim, and return what a restore needs of each.

        The snapshots stay also when the tenant's namespace goes.

        :arg classes: as ``classes`` returns them; ``labels``, of the snapshots; ``at``, when the backup is made.
        :raises TenancyError: where a snapshot is not ready in time.
        """
        claims = {claim["metadata"]["name"]: claim for claim in self._claims()}
        made = {}
        for name, snapshot_class in classes.items():
            marks = {**labels, BACKUP_AT: file_stamp(at)}
            made[name] = self.kube.create(volume_snapshot(name, self.namespace, snapshot_class, marks))["metadata"]["name"]
        return [self._keep(claims[name], snapshot) for name, snapshot in made.items() if name in claims]

    def forget(self, labels: t.Mapping[str, str], kept: t.Collection[str]) -> None:
        """Delete the snapshots of backups that are gone, and half-made ones of runs that were cut off.

        :arg labels: of the snapshots; ``kept``, when the backups were made that stay, as their files are named.
        """
        try:
            self._delete(selector_of(labels), kept)
        except TenancyError as exc:
            self.run.warn(f"{exc.message} Snapshots of volumes of older backups are still there.")

    def chosen(self, volumes: t.Sequence[JsonObject], every: bool) -> list[JsonObject]:
        """Return the volumes of a backup that a restore makes anew: those whose claims are gone, or all.

        :raises Refused: where a volume was asked for, and its snapshot is not on this cluster. For a claim that is gone, it is a warning.
        """
        there = {claim["metadata"]["name"] for claim in self._claims() if "deletionTimestamp" not in claim["metadata"]}
        asked = [volume for volume in volumes if every or volume["claim"]["name"] not in there]
        found = [volume for volume in asked if self._content(volume)]
        if lost := [volume["claim"]["name"] for volume in asked if volume not in found]:
            text = f"The cluster has no snapshot any more of {shown(', '.join(lost))}, so their data cannot be restored."
            if every:
                raise refusal(
                    "no-volume-snapshot", f"{text} Restore without kubegpu_restore_volumes, and their claims stay as they are."
                )
            self.run.warn(f"{text} Their volumes will be empty.")
        return found

    def restore(self, volumes: t.Sequence[JsonObject]) -> None:
        """Make claims anew from the snapshots of a backup. A claim that exists is deleted before, with its data.

        :raises TenancyError: where a volume is not made in time.
        """
        # The storage makes them side by side.
        for claim in [self._restore(volume) for volume in volumes]:
            if not self._is_bound_later(claim):
                self._await_volume(claim["metadata"]["name"])

    def _claims(self) -> list[JsonObject]:
        return [claim for claim in self.kube.list(*CLAIM, self.namespace) if is_synced(claim)]

    def _claim(self, name: str) -> JsonObject | None:
        return self.kube.get(*CLAIM, name, self.namespace)

    def _ready(self, name: str) -> JsonObject:
        """Wait for a snapshot, and return its content."""
        snapshot = wait_for(
            f"snapshot {name}",
            lambda: ready_snapshot(self.kube.get(SNAPSHOTS, SNAPSHOT, name, self.namespace)),
            self.run.deadline,
        )
        content = self.kube.get(SNAPSHOTS, CONTENT, value_at(snapshot, "status.boundVolumeSnapshotContentName"))
        if content is None:
            raise TenancyError(f"The content of snapshot {name} was deleted meanwhile.")
        return content

    def _keep(self, claim: JsonObject, name: str) -> JsonObject:
        content = self._ready(name)
        marks = labels_of(self.kube.get(SNAPSHOTS, SNAPSHOT, name, self.namespace))
        patch = {"metadata": {"labels": marks}, "spec": {"deletionPolicy": "Retain"}}
        self.kube.patch(SNAPSHOTS, CONTENT, content["metadata"]["name"], patch)
        handle = value_at(content, "status.snapshotHandle")
        return {"driver": content["spec"]["driver"], "handle": handle, "claim": claim_record(claim)}

    def _content(self, volume: JsonObject) -> JsonObject | None:
        return content_of(volume, self.kube.list(SNAPSHOTS, CONTENT), self.namespace)

    def _delete(self, selector: str, kept: t.Collection[str]) -> None:
        snapshots = self.kube.list(SNAPSHOTS, SNAPSHOT, self.namespace, label_selector=selector)
        contents = self.kube.list(SNAPSHOTS, CONTENT, label_selector=selector)
        gone = [one for one in (*snapshots, *contents) if labels_of(one).get(BACKUP_AT) not in kept]
        bound = {value_at(one, "status.boundVolumeSnapshotContentName") for one in gone if one["kind"] == SNAPSHOT}
        names = bound | {one["metadata"]["name"] for one in gone if one["kind"] == CONTENT}
        for name in sorted(filter(None, names)):
            # The storage then deletes its snapshot, too.
            if self.kube.get(SNAPSHOTS, CONTENT, name):
                self.kube.patch(SNAPSHOTS, CONTENT, name, {"spec": {"deletionPolicy": "Delete"}})
        for one in gone:
            self.kube.delete(SNAPSHOTS, one["kind"], one["metadata"]["name"], one["metadata"].get("namespace"))

    def _snapshot(self, volume: JsonObject) -> str:
        """Return the name of the volume's snapshot in the namespace; one that went with a former namespace is made anew."""
        content = self._content(volume)
        if content is None:
            raise TenancyError(f"The snapshot of {volume['claim']['name']} was deleted meanwhile.")
        name = str(value_at(content, "spec.volumeSnapshotRef.name"))
        if self.kube.get(SNAPSHOTS, SNAPSHOT, name, self.namespace) is None:
            pair = adopted(content, volume["handle"], self.namespace)
            for definition in pair:
                self.kube.apply(definition)
            name = pair[1]["metadata"]["name"]
            self._ready(name)
            # The storage keeps its snapshot, which the new one leads to.
            self.kube.delete(SNAPSHOTS, CONTENT, content["metadata"]["name"])
        return name

    def _restore(self, volume: JsonObject) -> JsonObject:
        name, snapshot = volume["claim"]["name"], self._snapshot(volume)
        self.kube.delete(*CLAIM, name, self.namespace)
        wait_for(
            f"the end of claim {name}",
            lambda: (None, "a pod may still use it") if self._claim(name) else (True, ""),
            self.run.deadline,
        )
        node = volume["claim"]["annotations"].get(SELECTED_NODE)
        gone = node is not None and self.kube.get("v1", "Node", node) is None
        return self.kube.create(restored_claim(volume["claim"], self.namespace, snapshot, without_node=gone))

    def _await_volume(self, name: str) -> None:
        wait_for(f"the volume of claim {name}", lambda: bound_claim(self._claim(name)), self.run.deadline)

    def _is_bound_later(self, claim: JsonObject) -> bool:
        """Tell whether the volume is made only once a pod with the claim has a node."""
        name = claim["spec"].get("storageClassName")
        return SELECTED_NODE not in annotations_of(claim) and is_bound_later(
            self.kube.get("storage.k8s.io/v1", "StorageClass", name) if name else None
        )
