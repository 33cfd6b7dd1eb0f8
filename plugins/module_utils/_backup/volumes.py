# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Snapshots of the volumes of a tenant's own claims, by the storage of the host cluster, and claims that are made anew from them."""

from __future__ import annotations

import typing as t

from .._common.errors import ApiError, TenancyError, refusal
from .._common.ownership import OWNED_LABELS, annotations_of, is_synced, selector_of
from .._common.quantity import devices_or_none
from .._common.text import shown
from .._common.values import JsonObject, value_at
from .._common.wait import wait_for
from .facts import CLASS, CONTENT, SELECTED_NODE, SNAPSHOT, SNAPSHOTS
from .status import bound_claim, classes_of, content_of, is_bound, is_bound_later, ready_snapshot
from .values import adopted, claim_record, restored_claim, volume_snapshot

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

    def classes(self) -> tuple[dict[str, str], list[str]]:
        """Return the VolumeSnapshotClass for each claim whose driver has one, by the claim's name, and sorted the names of the other claims.

        No backup holds the data of the others.
        """
        claims, classes = self._claims(), self.kube.list(SNAPSHOTS, CLASS)
        chosen = classes_of(claims, self.kube.list("v1", "PersistentVolume"), classes) if classes else {}
        return chosen, sorted(claim["metadata"]["name"] for claim in claims if claim["metadata"]["name"] not in chosen)

    def save(self, classes: t.Mapping[str, str], labels: t.Mapping[str, str]) -> list[JsonObject]:
        """Make a snapshot for each claim, and return what a restore needs of each.

        The snapshots stay also when the tenant's namespace goes.

        :arg classes: by the claim's name, as ``classes`` returns them; ``labels``, of the snapshots.
        :raises TenancyError: where a snapshot is not ready in time.
        """
        claims = {claim["metadata"]["name"]: claim for claim in self._claims()}
        made = {}
        for name, snapshot_class in classes.items():
            definition = volume_snapshot(name, self.namespace, snapshot_class, labels)
            made[name] = self.kube.create(definition)["metadata"]["name"]
        return [self._keep(claims[name], snapshot, labels) for name, snapshot in made.items() if name in claims]

    def forget(self, labels: t.Mapping[str, str]) -> bool:
        """Delete the snapshots of one run, also half-made ones, and return whether all of them are deleted.

        A VolumeSnapshotContent that was not kept yet has no labels, and is known by its VolumeSnapshot.
        """
        try:
            selector = selector_of(labels)
            snapshots = self.kube.list(SNAPSHOTS, SNAPSHOT, self.namespace, label_selector=selector)
            contents = self.kube.list(SNAPSHOTS, CONTENT, label_selector=selector)
            names = {value_at(one, "status.boundVolumeSnapshotContentName") for one in snapshots}
            for name in sorted(filter(None, names | {one["metadata"]["name"] for one in contents})):
                # The storage then deletes its snapshot, too.
                if self.kube.get(SNAPSHOTS, CONTENT, name):
                    self.kube.patch(SNAPSHOTS, CONTENT, name, {"spec": {"deletionPolicy": "Delete"}})
            for one in (*snapshots, *contents):
                self.kube.delete(SNAPSHOTS, one["kind"], one["metadata"]["name"], one["metadata"].get("namespace"))
        except TenancyError as exc:
            self.run.warn(
                f"{exc.message} Snapshots of volumes that no backup needs are still there. The next backup tries again."
            )
            return False
        return True

    def chosen(self, record: JsonObject, every: bool) -> list[JsonObject]:
        """Return the volumes of a backup that a restore makes anew: those whose claims have no volume, or all.

        :arg record: of the backup.
        :raises Refused: where all were asked for, and one cannot be made. For a claim without a volume, it is a warning.
        """
        claims = {claim["metadata"]["name"]: claim for claim in self._claims()}
        bound = {name for name, claim in claims.items() if is_bound(claim)}
        asked = [volume for volume in record.get("volumes", []) if every or volume["claim"]["name"] not in bound]
        contents = self.kube.list(SNAPSHOTS, CONTENT) if asked else []
        lacking = {volume["claim"]["name"]: why for volume in asked if (why := self._lack(volume, contents))}
        if lacking:
            text = "; ".join(f"{shown(name)}: {why}" for name, why in lacking.items())
            if every:
                raise refusal(
                    "volume-not-restorable",
                    f"Not all volumes can be restored: {text}. Without kubegpu_restore_volumes, claims that are there stay.",
                )
            self.run.warn(f"Volumes that will be empty, because their data cannot be restored: {text}.")
        if not every:
            self._warn_of_other_volumes(record, {name: claims[name] for name in bound})
        if gone := [name for name in record.get("volumes_left_out", []) if name not in claims]:
            self.run.warn(f"Volumes that will be empty, because the backup has no data of them: {shown(', '.join(gone))}.")
        return [volume for volume in asked if volume["claim"]["name"] not in lacking]

    def restore(self, volumes: t.Sequence[JsonObject]) -> None:
        """Make claims anew from the snapshots of a backup. A claim that exists is deleted before, with its data.

        :raises TenancyError: where a volume is not made in time.
        """
        # The storage makes them side by side.
        for claim in [self._restore(volume) for volume in volumes]:
            self._await_volume(claim)

    def _claims(self) -> list[JsonObject]:
        return [claim for claim in self.kube.list(*CLAIM, self.namespace) if is_synced(claim)]

    def _claim(self, name: str) -> JsonObject | None:
        return self.kube.get(*CLAIM, name, self.namespace)

    def _lack(self, volume: JsonObject, contents: t.Sequence[JsonObject]) -> str:
        """Return why a volume cannot be made anew; empty where it can."""
        spec, driver = volume["claim"]["spec"], volume["driver"]
        if content_of(volume, contents, self.namespace) is None:
            return "the cluster has no snapshot of it any more"
        if value_at(self._storage(spec), "provisioner") != driver:
            return f"StorageClass {shown(spec.get('storageClassName'))} of {shown(driver)} is gone"
        return ""

    def _warn_of_other_volumes(self, record: JsonObject, bound: t.Mapping[str, JsonObject]) -> None:
        """Warn of claims that look as at the time of the backup, and hold something else."""
        for volume in record.get("volumes", []):
            claim = bound.get(volume["claim"]["name"])
            if claim and claim["spec"].get("volumeName") != volume["volume"]:
                self.run.warn(
                    f"Claim {shown(claim['metadata']['name'])} has another volume than when the backup was made, and keeps it. To give it the "
                    "data of the backup, add -e kubegpu_restore_volumes=all."
                )

    def _ready(self, name: str) -> JsonObject:
        """Wait for a snapshot, and return its content."""
        snapshot = wait_for(
            f"snapshot {name}",
            lambda: ready_snapshot(self.kube.get(SNAPSHOTS, SNAPSHOT, name, self.namespace)),
            self.run.deadline,
        )
        content = self.kube.get(SNAPSHOTS, CONTENT, value_at(snapshot, "status.boundVolumeSnapshotContentName"))
        if not value_at(content, "status.snapshotHandle"):
            raise TenancyError(f"The content of snapshot {name} was deleted meanwhile, or its storage gave the snapshot no name.")
        return t.cast(JsonObject, content)

    def _keep(self, claim: JsonObject, name: str, labels: t.Mapping[str, str]) -> JsonObject:
        content = self._ready(name)
        patch = {"metadata": {"labels": {**OWNED_LABELS, **labels}}, "spec": {"deletionPolicy": "Retain"}}
        self.kube.patch(SNAPSHOTS, CONTENT, content["metadata"]["name"], patch)
        return {
            "driver": content["spec"]["driver"],
            "handle": content["status"]["snapshotHandle"],
            "volume": claim["spec"]["volumeName"],
            "claim": claim_record(claim),
        }

    def _snapshot(self, volume: JsonObject) -> tuple[str, int]:
        """Return the name of the volume's snapshot in the namespace, and the bytes of a volume from it.

        A snapshot that went with a former namespace is made anew.
        """
        content = content_of(volume, self.kube.list(SNAPSHOTS, CONTENT), self.namespace)
        if content is None:
            raise TenancyError(f"The snapshot of {volume['claim']['name']} was deleted meanwhile.")
        name = str(value_at(content, "spec.volumeSnapshotRef.name"))
        size = devices_or_none(value_at(content, "status.restoreSize"))
        if self.kube.get(SNAPSHOTS, SNAPSHOT, name, self.namespace) is None:
            former = content["metadata"]["name"]
            # The storage keeps its snapshot, to which the new pair leads.
            self.kube.patch(SNAPSHOTS, CONTENT, former, {"spec": {"deletionPolicy": "Retain"}})
            pair = adopted(content, volume["handle"], self.namespace)
            for definition in pair:
                self.kube.apply(definition)
            name = pair[1]["metadata"]["name"]
            self._ready(name)
            self.kube.delete(SNAPSHOTS, CONTENT, former)
        return name, size or 0

    def _restore(self, volume: JsonObject) -> JsonObject:
        name, (snapshot, size) = volume["claim"]["name"], self._snapshot(volume)
        self.kube.delete(*CLAIM, name, self.namespace)
        wait_for(
            f"the end of claim {name}",
            lambda: (None, "a pod, or a snapshot that is being made, may still use it") if self._claim(name) else (True, ""),
            self.run.deadline,
        )
        node = volume["claim"]["annotations"].get(SELECTED_NODE)
        gone = node is not None and self.kube.get("v1", "Node", node) is None
        claim = restored_claim(volume["claim"], self.namespace, snapshot, size, without_node=gone)

        def make() -> tuple[JsonObject | None, str]:
            try:
                return self.kube.create(claim), ""
            except ApiError as exc:
                # A quota counts the former claim for some moments after its end.
                if exc.status != 403:
                    raise
                return None, exc.message

        return wait_for(f"claim {name} to be accepted", make, self.run.deadline)

    def _await_volume(self, claim: JsonObject) -> None:
        """Wait for the volume of a claim, unless that is made only once a pod with the claim has a node."""
        name, storage = claim["metadata"]["name"], self._storage(claim["spec"])
        if SELECTED_NODE in annotations_of(claim) or not is_bound_later(storage):
            wait_for(f"the volume of claim {name}", lambda: bound_claim(self._claim(name)), self.run.deadline)

    def _storage(self, spec: JsonObject) -> JsonObject | None:
        name = spec.get("storageClassName")
        return self.kube.get("storage.k8s.io/v1", "StorageClass", name) if name else None
