# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of volumes over an API in memory, with a controller that does what external-snapshotter 8 was seen to do."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.facts import DELETED_BY, SELECTED_NODE, SNAPSHOTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.status import classes_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.volumes import Volumes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

NAMESPACE = "tenant-web"
RUN, LATER = "a" * 32, "b" * 32
MODELS = "models-x-default-x-web"


def labels(run=RUN):
    return {"kubegpu.tenancy/backup-of": "web", "kubegpu.tenancy/backup-run": run}


def make(api_version, kind, name, namespace=None, **more):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})} | more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | more


def claim(name=MODELS, volume="pv-1", driver_class="disks"):
    metadata = {
        "labels": {"vcluster.loft.sh/managed-by": "web", "team": "secret-project"},
        "annotations": {"vcluster.loft.sh/object-name": "models", "note": "mine", SELECTED_NODE: "n1"},
    }
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": driver_class,
        "volumeName": volume,
    }
    return make("v1", "PersistentVolumeClaim", name, NAMESPACE, metadata=metadata, spec=spec, status={"phase": "Bound"})


def volume(name="pv-1", driver="disk.example"):
    return make("v1", "PersistentVolume", name, spec={"csi": {"driver": driver}})


def snapshot_class(name, driver="disk.example", default=False):
    annotations = {"snapshot.storage.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = {"annotations": annotations}
    return make(SNAPSHOTS, "VolumeSnapshotClass", name, driver=driver, deletionPolicy="Delete", metadata=metadata)


class World:
    """A host cluster with the snapshot controller and a storage.

    :ivar stored: handles of the snapshots that the storage has.
    """

    def __init__(self, *objects):
        node, mode = make("v1", "Node", "n1"), "WaitForFirstConsumer"
        storage = make("storage.k8s.io/v1", "StorageClass", "disks", volumeBindingMode=mode, provisioner="disk.example")
        there = [claim(), volume(), snapshot_class("snaps"), node, storage, make("v1", "Namespace", NAMESPACE)]
        self.api = InMemoryApi([*there, *objects])
        self.stored = set()
        self.error, self.size = "", 2**30
        self.api.react("create", "VolumeSnapshot", self.snapped)
        self.api.react("apply", "VolumeSnapshot", self.snapped)
        self.api.react("apply", "VolumeSnapshotContent", self.adopted)
        self.api.react("create", "PersistentVolumeClaim", self.bound)
        self.api.react("delete", "VolumeSnapshot", self.unsnapped)
        self.api.react("delete", "VolumeSnapshotContent", self.discarded)
        self.run = self.new_run()
        self.volumes = Volumes(self.run, NAMESPACE)

    def new_run(self):
        clock = Clock()
        return Run({"timeout": 60}, False, self.api, None, Deadline(60, clock, clock.sleep))

    def snapped(self, snapshot):
        name = snapshot["metadata"]["name"]
        if self.error:
            return self.api.put(snapshot | {"status": {"readyToUse": False, "error": {"message": self.error}}})
        content = snapshot["spec"]["source"].get("volumeSnapshotContentName")
        if content is None:
            content, handle = f"content-{name}", f"handle-{name}"
            self.stored.add(handle)
            spec = {"driver": "disk.example", "deletionPolicy": "Delete", "source": {"volumeHandle": "v"}}
            spec |= {"volumeSnapshotRef": {"name": name, "namespace": NAMESPACE}, "volumeSnapshotClassName": "snaps"}
            metadata = {
                "uid": f"uid-{name}",
                "labels": {"snapshot.storage.kubernetes.io/managed-by": "n1"},
                "annotations": {f"{DELETED_BY}-name": "keys", "other": "x"},
            }
            status = {"snapshotHandle": handle, "readyToUse": True, "restoreSize": self.size}
            self.api.put(make(SNAPSHOTS, "VolumeSnapshotContent", content, metadata=metadata, spec=spec, status=status))
        return self.api.put(snapshot | {"status": {"readyToUse": True, "boundVolumeSnapshotContentName": content}})

    def adopted(self, content):
        handle = content["spec"]["source"]["snapshotHandle"]
        self.api.put(content | {"status": {"snapshotHandle": handle, "readyToUse": handle in self.stored}})

    def bound(self, made):
        self.api.put(made | {"status": {"phase": "Bound"}})

    def unsnapped(self, snapshot):
        content = self.api.get(SNAPSHOTS, "VolumeSnapshotContent", snapshot["status"]["boundVolumeSnapshotContentName"])
        if content and content["spec"]["deletionPolicy"] == "Delete":
            self.discarded(content)
            self.api.drop(SNAPSHOTS, "VolumeSnapshotContent", content["metadata"]["name"])

    def discarded(self, content):
        if content["spec"]["deletionPolicy"] == "Delete":
            self.stored.discard(content["status"]["snapshotHandle"])

    def save(self, run=RUN):
        classes, left_out = self.volumes.classes()
        return {"tenant": "web", "volumes": self.volumes.save(classes, labels(run)), "volumes_left_out": left_out}

    def names(self, kind):
        return sorted(one["metadata"]["name"] for one in self.api.list(SNAPSHOTS, kind))

    def lose_namespace(self):
        """Everything in the namespace goes, as without its tenant."""
        for snapshot in self.api.list(SNAPSHOTS, "VolumeSnapshot", NAMESPACE):
            self.unsnapped(snapshot)
            self.api.drop(SNAPSHOTS, "VolumeSnapshot", snapshot["metadata"]["name"], NAMESPACE)
        self.api.drop("v1", "PersistentVolumeClaim", MODELS, NAMESPACE)

    def restored(self):
        return self.api.get("v1", "PersistentVolumeClaim", MODELS, NAMESPACE)


@pytest.fixture(name="world")
def _world():
    return World()


def test_a_snapshot_is_made_and_stays_without_its_namespace(world):
    (saved,) = world.save()["volumes"]
    assert saved == {
        "driver": "disk.example",
        "handle": saved["handle"],
        "volume": "pv-1",
        "claim": {
            "name": MODELS,
            "labels": {"vcluster.loft.sh/managed-by": "web"},
            "annotations": {"vcluster.loft.sh/object-name": "models", SELECTED_NODE: "n1"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "disks",
            },
        },
    }
    world.lose_namespace()
    assert world.stored == {saved["handle"]}


@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        ([], {}),
        ([snapshot_class("other", driver="nfs.example")], {}),
        ([snapshot_class("b"), snapshot_class("a")], {MODELS: "a"}),
        ([snapshot_class("a"), snapshot_class("b", default=True)], {MODELS: "b"}),
    ],
)
def test_a_claim_has_the_class_of_its_driver(classes, chosen):
    assert classes_of([claim()], [volume()], classes) == chosen


LEAVING = claim() | {"metadata": claim()["metadata"] | {"deletionTimestamp": "2026-11-28T00:00:00Z"}}


@pytest.mark.parametrize(
    "given",
    [
        claim(volume="pv-2"),
        claim(volume="pv-3"),
        claim(volume=None),
        # No class makes its volume anew.
        claim(driver_class=""),
        # The tenant names a volume that it does not have.
        claim() | {"status": {"phase": "Pending"}},
        LEAVING,
    ],
)
def test_a_claim_without_a_volume_of_a_driver_is_left_out(given):
    hostpath = make("v1", "PersistentVolume", "pv-2", spec={"hostPath": {"path": "/x"}})
    assert classes_of([given], [hostpath, volume()], [snapshot_class("a"), make(SNAPSHOTS, "VolumeSnapshotClass", "odd")]) == {}


def test_what_has_no_class_is_named(world):
    other = claim(name="scratch-x-default-x-web", volume="pv-2")
    own = make("v1", "PersistentVolumeClaim", "data-web-0", NAMESPACE, spec={"volumeName": "pv-1"})
    for one in (other, own):
        world.api.put(one)
    assert world.save()["volumes_left_out"] == ["scratch-x-default-x-web"]


def test_a_snapshot_that_fails_is_waited_for_and_then_named(world):
    world.error = "rpc error: out of space"
    with pytest.raises(TenancyError, match="rpc error: out of space"):
        world.save()


def test_a_claim_that_is_gone_is_made_anew_on_its_node(world):
    record = world.save()
    world.api.drop("v1", "PersistentVolumeClaim", MODELS, NAMESPACE)
    world.volumes.restore(world.volumes.chosen(record, False))
    source = world.restored()["spec"]["dataSource"]
    assert source == {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": world.names("VolumeSnapshot")[0]}
    assert world.restored()["metadata"]["annotations"][SELECTED_NODE] == "n1"
    assert "volumeName" not in world.restored()["spec"]


def test_a_claim_whose_node_is_gone_waits_for_a_pod(world):
    record = world.save()
    world.api.drop("v1", "Node", "n1")
    world.api.react("create", "PersistentVolumeClaim", lambda made: world.api.put(made | {"status": {"phase": "Pending"}}))
    world.volumes.restore(record["volumes"])
    assert SELECTED_NODE not in world.restored()["metadata"]["annotations"]


@pytest.mark.parametrize(("size", "asked"), [(2**20, "1Gi"), (2**30, "1Gi"), (2**32, str(2**32)), ("odd", "1Gi"), (None, "1Gi")])
def test_a_claim_asks_for_as_much_as_the_snapshot_needs(world, size, asked):
    world.size = size
    world.volumes.restore(world.save()["volumes"])
    assert world.restored()["spec"]["resources"]["requests"] == {"storage": asked}


def test_a_quota_that_still_counts_the_former_claim_is_waited_for(world):
    record = world.save()
    world.api.fail("create", "PersistentVolumeClaim", ApiError("exceeded quota", status=403), times=3)
    world.volumes.restore(record["volumes"])
    assert "dataSource" in world.restored()["spec"]


def test_a_claim_that_is_there_is_made_anew_only_on_request(world):
    record = world.save()
    assert world.volumes.chosen(record, False) == []
    assert world.volumes.chosen(record, True) == record["volumes"]
    world.volumes.restore(record["volumes"])
    assert "dataSource" in world.restored()["spec"]


@pytest.mark.parametrize("now", [LEAVING, claim() | {"status": {"phase": "Pending"}}])
def test_a_claim_without_a_volume_counts_as_gone(world, now):
    """Such as one that a restore made, which was cut off."""
    record = world.save()
    world.api.put(now)
    assert world.volumes.chosen(record, False) == record["volumes"]


def test_what_a_restore_leaves_otherwise_is_a_warning(world):
    world.api.put(claim(name="scratch-x-default-x-web", volume="pv-2"))
    record = world.save()
    world.api.drop("v1", "PersistentVolumeClaim", "scratch-x-default-x-web", NAMESPACE)
    world.api.put(claim(volume="pv-9"))
    assert world.volumes.chosen(record, False) == []
    other, lost = world.run.warnings
    assert other.startswith(f"Claim {MODELS} has another volume than when the backup was made, and keeps it.")
    assert lost == ("Volumes that will be empty, because the backup has no data of them: scratch-x-default-x-web.")


def test_a_snapshot_without_its_namespace_is_adopted(world):
    record = world.save()
    (saved,) = record["volumes"]
    world.lose_namespace()
    for _again in range(2):
        world.volumes.restore(world.volumes.chosen(record, False))
        (content,) = world.api.list(SNAPSHOTS, "VolumeSnapshotContent")
        assert content["spec"]["source"] == {"snapshotHandle": saved["handle"]}
        assert content["spec"]["deletionPolicy"] == "Retain"
        # By the storage's own sidecar on that node, with its own credentials, and as the run's.
        assert content["metadata"]["labels"]["snapshot.storage.kubernetes.io/managed-by"] == "n1"
        assert content["metadata"]["labels"].items() >= labels().items()
        assert content["metadata"]["annotations"] == {f"{DELETED_BY}-name": "keys"}
        assert world.stored == {saved["handle"]}
        content["metadata"]["uid"] = f"uid-{content['metadata']['name']}"
        world.api.put(content)
        world.lose_namespace()


def test_a_snapshot_that_was_to_be_deleted_is_kept_when_it_is_restored(world):
    record = world.save()
    world.lose_namespace()
    (content,) = world.api.list(SNAPSHOTS, "VolumeSnapshotContent")
    content["spec"]["deletionPolicy"] = "Delete"
    world.api.put(content)
    world.volumes.restore(record["volumes"])
    assert world.stored == {record["volumes"][0]["handle"]}


def test_a_snapshot_of_another_tenant_is_none(world):
    record = world.save()
    (content,) = world.api.list(SNAPSHOTS, "VolumeSnapshotContent")
    content["spec"]["volumeSnapshotRef"]["namespace"] = "tenant-bank"
    world.api.put(content)
    with refuses("volume-not-restorable"):
        world.volumes.chosen(record, True)


def gone_snapshot(world):
    world.volumes.forget(labels())
    return "the cluster has no snapshot of it any more"


def gone_class(world):
    world.api.drop("storage.k8s.io/v1", "StorageClass", "disks")
    return "StorageClass disks of disk.example is gone"


@pytest.mark.parametrize("lose", [gone_snapshot, gone_class])
def test_a_volume_that_cannot_be_made_is_a_warning_or_refused(world, lose):
    record = world.save()
    why = lose(world)
    assert world.volumes.chosen(record, False) == []
    with refuses("volume-not-restorable"):
        world.volumes.chosen(record, True)
    world.api.drop("v1", "PersistentVolumeClaim", MODELS, NAMESPACE)
    assert world.volumes.chosen(record, False) == []
    assert world.run.warnings == [f"Volumes that will be empty, because their data cannot be restored: {MODELS}: {why}."]


def test_snapshots_of_one_run_go_and_no_others(world):
    first, later = (world.save(run)["volumes"][0] for run in (RUN, LATER))
    assert world.volumes.forget(labels())
    assert world.stored == {later["handle"]}
    assert first["handle"] not in world.stored
    assert len(world.names("VolumeSnapshot")) == len(world.names("VolumeSnapshotContent")) == 1
    # Also without the tenant's namespace.
    world.lose_namespace()
    assert world.volumes.forget(labels(LATER))
    assert world.stored == set()


def test_a_snapshot_of_a_run_that_was_cut_off_goes(world):
    """Its content has no labels yet."""
    world.api.fail("patch", "VolumeSnapshotContent", ApiError("gone"))
    with pytest.raises(TenancyError):
        world.save()
    assert len(world.stored) == 1
    assert world.volumes.forget(labels())
    assert (world.stored, world.names("VolumeSnapshotContent")) == (set(), [])


def test_snapshots_that_cannot_be_deleted_are_a_warning(world):
    world.save()
    world.api.fail("delete", "VolumeSnapshot", ApiError("Deleting VolumeSnapshot failed: 403."))
    assert not world.volumes.forget(labels())
    assert world.run.warnings == [
        "Deleting VolumeSnapshot failed: 403. Snapshots of volumes that no backup needs are still there. The next backup tries again."
    ]
