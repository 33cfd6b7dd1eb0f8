# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import copy
import gzip
import hashlib
import io
import json
import tarfile

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.pods import Ended
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.snapshot_file import SnapshotFile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.facts import ARCHIVE, BIND_REQUEST, RESTORE_POD, SNAPSHOTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.lifecycle import Backup, Restoration
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, Superseded, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import LISTENER, Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.control_plane import ControlPlane
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import PAUSED, RESTORING
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.operation import Operation
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi, written_by
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

NAMESPACE = "tenant-web"
LABELS = {"kubegpu.tenancy/backup-of": "web", "kubegpu.tenancy/backup-run": "a" * 32}


def archive(**keys):
    """Return the bytes of an archive with these keys, as vCluster writes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as file:
        for key, content in keys.items():
            entry = tarfile.TarInfo(key)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


CONTENT = archive(**{"/registry/secrets/default/a": b"secret", "/registry/scheduling.run.ai/queues/ml": b"queue"})
RECORD = {
    "format": 1,
    "tenant": "web",
    "at": "2026-11-27T10:00:00+00:00",
    "version": "0.36.1",
    "kubernetes_version": "v1.35.4",
    "size": len(CONTENT),
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
}


def item(api_version, kind, name, labels=None, **more):
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels or {}} | more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | more


def ready(name, labels=None):
    conditions = [{"type": "Ready", "status": "True"}]
    containers = [{"name": "syncer", "state": {"running": {}}, "restartCount": 0, "ready": True}]
    status = {"phase": "Running", "hostIP": "10.0.0.3", "conditions": conditions, "containerStatuses": containers}
    return item("v1", "Pod", name, labels, status=status)


CONTROL_PLANE = ready("web-0", {"app": "vcluster", "release": "web"})
WORKLOAD = item(
    "apps/v1",
    "StatefulSet",
    "web",
    {"app": "vcluster", "chart": "vcluster-0.36.1"},
    metadata={"generation": 1},
    status={"observedGeneration": 1, "readyReplicas": 1, "updatedReplicas": 1},
    spec={
        "replicas": 1,
        "selector": {"matchLabels": {"app": "vcluster", "release": "web"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "5Gi"}}}}],
        "template": {
            "spec": {
                "serviceAccountName": "vc-web",
                "restartPolicy": "Always",
                "initContainers": [{"name": "kubernetes", "image": "ghcr.io/loft-sh/kubernetes:v1.35.4"}],
                "containers": [
                    {
                        "name": "syncer",
                        "image": "ghcr.io/loft-sh/vcluster-oss:0.36.1",
                        "livenessProbe": {},
                        "env": [{"name": "VCLUSTER_NAME", "value": "web"}, {"name": "POD_NAME", "valueFrom": {}}],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }
                ],
                "volumes": [{"name": "vcluster-config"}],
            }
        },
    },
)
CLAIM = item("v1", "PersistentVolumeClaim", "data-web-0")
OWN_CLAIM = item("v1", "PersistentVolumeClaim", "models-x-default-x-web", {"vcluster.loft.sh/managed-by": "web"})
REST = [
    item(
        "v1", "Secret", "vc-web", data={"certificate-authority": "Q0E=", "client-certificate": "Q0VSVA==", "client-key": "S0VZ"}
    ),
    item("v1", "Service", "web", spec={"type": "NodePort", "ports": [{"port": 443, "nodePort": 30002}]}),
]


class World:
    """A host cluster with one virtual cluster, and what its containers do.

    :ivar volume: content of the archive on the control plane's volume; None where there is none.
    :ivar restored: contents of the archives that were restored.
    :ivar tenant: the virtual cluster's own API.
    :ivar fails: by what a command does, how it ends. ``status``, of pods that are created.
    """

    def __init__(self, *objects):
        self.api = InMemoryApi([WORKLOAD, CONTROL_PLANE, CLAIM, OWN_CLAIM, *REST, *objects])
        self.api.commands = self.execute
        self.api.react("patch", "StatefulSet", self.scaled)
        self.api.react("create", "Pod", lambda pod: self.api.put(pod | {"status": self.status}))
        self.clock = Clock()
        self.volume, self.restored, self.fails = None, [], {}
        self.phase, self.message = "Completed", ""
        self.content = CONTENT
        self.tenant = InMemoryApi()
        self.status = ready("x")["status"]

    def scaled(self, workload):
        workload["status"]["observedGeneration"] = workload["metadata"]["generation"]
        self.api.put(workload)
        if workload["spec"]["replicas"] == 0:
            self.api.drop("v1", "Pod", "web-0", NAMESPACE)
        else:
            self.api.put(CONTROL_PLANE)

    def execute(self, pod, command, write, stdin):
        text = " ".join(command)
        sent = "".join(stdin)
        for part, ended in self.fails.items():
            if part in text:
                if isinstance(ended, Exception):
                    raise ended
                return ended
        if "snapshot create" in text:
            self.volume = self.content
            request = {"metadata": {"name": "web-snapshot-request-x"}}
            status = {"phase": self.phase, "error": {"message": self.message}}
            data = {"snapshotRequest": json.dumps(request | {"status": status})}
            self.api.put(item("v1", "ConfigMap", "web-snapshot-request-x", data=data))
            self.api.put(item("v1", "Secret", "web-snapshot-request-x"))
            write(json.dumps(request))
        elif command[0] == "base64":
            encoded = base64.encodebytes(self.volume).decode()
            for begin in range(0, len(encoded), 50):
                write(encoded[begin : begin + 50])
        elif "sha256sum" in text:
            write(f"{len(self.volume)}\n{hashlib.sha256(self.volume).hexdigest()}  -\n")
        elif "head -c" in text:
            assert f"head -c {len(sent)} " in text
            self.volume = base64.b64decode(sent)
        elif command[-1] == "restore":
            assert pod == RESTORE_POD
            self.restored.append(self.volume)
        elif "rm -f" in text:
            self.volume = None
        return Ended(0, "", "")

    def run(self, check_mode=False, timeout=60):
        return Run({"timeout": timeout}, check_mode, self.api, None, Deadline(timeout, self.clock, self.clock.sleep))

    def backup(self, path, **kwargs):
        run = self.run(**kwargs)
        return Backup(run, ControlPlane(run.kube, "web", NAMESPACE), LABELS).save(SnapshotFile(str(path))), run

    def restore(self, path, record=None, every_volume=False, **kwargs):
        run = self.run(**kwargs)
        plane = ControlPlane(run.kube, "web", NAMESPACE)
        answer = {"gitVersion": "v1.35.4"}
        restoration = Restoration(run, plane, lambda _config, _path: answer, lambda _config: self.tenant, every_volume)
        return restoration.restore(SnapshotFile(str(path)), RECORD | (record or {})), run

    @property
    def workload(self):
        return self.api.get("apps/v1", "StatefulSet", "web", NAMESPACE)


@pytest.fixture(name="world")
def _world():
    return World()


@pytest.fixture(name="file")
def _file(tmp_path):
    path = tmp_path / "web.tar.gz"
    path.write_bytes(CONTENT)
    return path


# --- backups -----------------------------------------------------------------------------------------------------------


def test_a_backup_is_the_archive_and_its_record(world, tmp_path):
    record, run = world.backup(tmp_path / "made")
    assert (tmp_path / "made").read_bytes() == CONTENT
    assert record == RECORD | {
        "at": record["at"],
        "objects": {"queues.scheduling.run.ai": 1, "secrets": 1},
        "volumes": [],
        "volumes_left_out": ["models-x-default-x-web"],
    }
    assert [step["step"] for step in run.steps] == ["make a snapshot", "bring the archive"]
    # Neither the archive nor the request stays.
    assert world.volume is None
    assert world.api.get("v1", "ConfigMap", "web-snapshot-request-x", NAMESPACE) is None
    assert world.api.get("v1", "Secret", "web-snapshot-request-x", NAMESPACE) is None


def test_check_mode_makes_no_snapshot(world, tmp_path):
    record, run = world.backup(tmp_path / "made", check_mode=True)
    assert record["volumes_left_out"] == ["models-x-default-x-web"]
    assert run.result()["changed"]
    assert (world.api.writes, world.volume) == ([], None)
    assert not (tmp_path / "made").exists()


def test_why_there_is_no_snapshot_is_what_vcluster_says(world, tmp_path):
    world.phase, world.message = "Failed", "write /data/x: no space left on device"
    with pytest.raises(TenancyError, match=r"make the snapshot \(Failed\): write /data/x: no space left on device"):
        world.backup(tmp_path / "made")
    assert world.volume is None


def test_a_snapshot_that_does_not_end_is_waited_for_so_long(world, tmp_path):
    world.phase = "CreatingEtcdBackup"
    with pytest.raises(TenancyError, match="its phase is: CreatingEtcdBackup"):
        world.backup(tmp_path / "made")
    # With its request, it ends.
    assert world.api.get("v1", "ConfigMap", "web-snapshot-request-x", NAMESPACE) is None


@pytest.mark.parametrize("content", [b"", archive(), archive(**{"notes/a": b"text"})])
def test_an_archive_without_objects_is_no_backup(world, tmp_path, content):
    world.content = content
    with refuses("damaged-backup"):
        world.backup(tmp_path / "made")


@pytest.mark.parametrize("content", [CONTENT[:-20], b"no archive", gzip.compress(b"no archive")])
def test_an_archive_that_is_not_whole_is_no_backup(world, tmp_path, content):
    world.content = content
    with pytest.raises(TenancyError, match="is damaged"):
        world.backup(tmp_path / "made")


def test_another_checksum_on_the_way_is_named(world, tmp_path):
    run_ = world.api.commands

    def changing(pod, command, write, stdin):
        if command[0] == "base64":
            world.volume = CONTENT[:-1] + b"x"
        return run_(pod, command, write, stdin)

    world.api.commands = changing
    with pytest.raises(TenancyError, match="arrived with another checksum"):
        world.backup(tmp_path / "made")


def test_only_what_runs_has_a_backup(world, tmp_path):
    world.api.patch(
        "apps/v1", "StatefulSet", "web", {"metadata": {"annotations": {PAUSED: "true"}}, "spec": {"replicas": 0}}, NAMESPACE
    )
    with refuses("paused-tenant"):
        world.backup(tmp_path / "made")
    world.api.drop("apps/v1", "StatefulSet", "web", NAMESPACE)
    with refuses("no-tenant"):
        world.backup(tmp_path / "made")


def test_a_control_plane_with_another_store_has_no_backup(world, tmp_path):
    """As the chart makes one with its own etcd; the restore would need the volume."""
    world.api.drop("apps/v1", "StatefulSet", "web", NAMESPACE)
    world.api.put(WORKLOAD | {"kind": "Deployment"})
    with refuses("another-store"):
        world.backup(tmp_path / "made")


def test_a_control_plane_that_is_not_ready_has_no_backup(world, tmp_path):
    world.api.put(WORKLOAD | {"status": {"observedGeneration": 1}})
    with refuses("tenant-not-ready"):
        world.backup(tmp_path / "made")


def with_image(world, image, values=""):
    """Have another image of Kubernetes, and values that are in the Secret of the configuration."""
    workload = copy.deepcopy(WORKLOAD)
    workload["spec"]["template"]["spec"]["initContainers"][0]["image"] = image
    world.api.put(workload)
    data = {"config.yaml": base64.b64encode(values.encode()).decode()}
    world.api.put(item("v1", "Secret", "vc-config-web", {"app": "vcluster"}, data=data))


DIGEST = f"mirror/kubernetes@sha256:{'a' * 64}"
TAG = "controlPlane: {distro: {k8s: {image: {tag: v1.35.4}}}}"
ASKED = "controlPlane: {distro: {k8s: {version: v1.35.4, image: {tag: v1.36.0}}}}"


@pytest.mark.parametrize(
    ("image", "values"),
    [
        ("mirror:5000/kubernetes:1.35.4", ""),
        ("mirror/kubernetes:mirror-v1.35.4", ""),
        (f"mirror/kubernetes:v1.35.4@sha256:{'a' * 64}", ""),
        (DIGEST, TAG),
        (DIGEST, ASKED),
    ],
)
def test_the_version_of_kubernetes_is_known_by_any_tag_else_by_the_values(world, tmp_path, file, image, values):
    with_image(world, image, values)
    record, _run = world.backup(tmp_path / "made")
    assert record["kubernetes_version"] == "v1.35.4"
    with refuses("backup-version"):
        world.restore(file, {"kubernetes_version": "v1.33.1"})


@pytest.mark.parametrize(("image", "values"), [(DIGEST, ""), (DIGEST, "controlPlane: {distro: {k8s: {image: {tag: mine}}}}")])
def test_without_a_version_of_kubernetes_nothing_is_backed_up(world, tmp_path, image, values):
    with_image(world, image, values)
    with refuses("unknown-version"):
        world.backup(tmp_path / "made")
    assert world.volume is None


def test_an_archive_that_cannot_be_deleted_is_a_warning(world, tmp_path):
    world.fails["rm -f"] = Ended(1, "command terminated", "read-only file system")
    _record, run = world.backup(tmp_path / "made")
    assert run.warnings == [
        "Deleting the archive failed in Pod web-0: command terminated. read-only file system The archive still takes room on the volume of web."
    ]


def with_storage(world):
    """Have a storage with snapshots, and return the record of a backup that has one of the tenant's volume."""
    content = item(SNAPSHOTS, "VolumeSnapshotContent", "snap", status={"snapshotHandle": "h"}, metadata={"namespace": None})
    content["spec"] = {"driver": "disk.example", "volumeSnapshotRef": {"name": "snap", "namespace": NAMESPACE}}
    content["metadata"].pop("namespace")
    world.api.put(content)
    world.api.put(item(SNAPSHOTS, "VolumeSnapshot", "snap"))
    world.api.react("create", "PersistentVolumeClaim", lambda claim: world.api.put(claim | {"status": {"phase": "Bound"}}))
    world.api.put(
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks"}, "provisioner": "disk.example"}
    )
    world.api.put(OWN_CLAIM | {"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}})
    spec = {"storageClassName": "disks"}
    claim = {"name": OWN_CLAIM["metadata"]["name"], "labels": OWN_CLAIM["metadata"]["labels"], "annotations": {}, "spec": spec}
    return {"volumes": [{"driver": "disk.example", "handle": "h", "volume": "pv-1", "claim": claim}]}


# --- restores ----------------------------------------------------------------------------------------------------------


def test_a_restore_replaces_the_database_and_starts_the_control_plane(world, file):
    result, run = world.restore(file)
    assert world.restored == [CONTENT]
    assert result == {"server": "https://10.0.0.3:30002", "kubernetes_version": "v1.35.4"}
    assert [step["step"] for step in run.steps] == [
        "end the control plane",
        "start the pod that restores",
        "send the archive",
        "restore the database",
        "remove the pod that restored",
        "start the control plane",
    ]
    assert world.workload["spec"]["replicas"] == 1
    assert RESTORING not in world.workload["metadata"].get("annotations", {})
    assert world.api.get("v1", "Pod", RESTORE_POD, NAMESPACE) is None
    # Neither the archive nor the former database takes room.
    assert world.volume is None


def test_restored_pods_are_placed_again(world, file):
    """As KAI Scheduler does it only with pods that are Pending, and that it has not bound before."""

    def pod(name, **more):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {},
            "status": {},
        } | more

    def bound(name):
        metadata = {"name": f"bind-{name}", "namespace": "team"}
        return {"apiVersion": BIND_REQUEST[0], "kind": BIND_REQUEST[1], "metadata": metadata, "spec": {"podName": name}}

    ended = pod("ended", spec={"nodeName": "n1"}, status={"phase": "Succeeded"})
    for item_ in (pod("train"), ended, bound("train"), bound("ended")):
        world.tenant.put(item_)
    _result, run = world.restore(file)
    assert [step["step"] for step in run.steps[-2:]] == ["have 1 pods placed again", "wait for its own services"]
    assert world.tenant.get("v1", "Pod", "train", "team")["status"] == {"phase": "Pending"}
    assert world.tenant.get("v1", "Pod", "ended", "team")["status"] == {"phase": "Succeeded"}
    assert [item_["metadata"]["name"] for item_ in world.tenant.list(*BIND_REQUEST)] == ["bind-ended"]


@pytest.mark.parametrize(("written", "left"), [("2099-01-01T00:00:00Z", ["alone"]), ("2020-01-01T00:00:00Z", ["alone", "shop"])])
def test_pods_of_another_authority_are_made_anew_by_their_controllers(world, file, written, left):
    """As in a virtual cluster that was made anew: its API server has just published its own authority."""
    published = {"metadata": {"name": "kube-root-ca.crt", "namespace": "team"}, "data": {"ca.crt": "CA\n"}}
    published |= {"apiVersion": "v1", "kind": "ConfigMap"}
    world.tenant.put(written_by(published, "kube-controller-manager", written, ("data",)))
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "shop", "uid": "u", "controller": True}]}
    for name, more in (("shop", owner), ("alone", {})):
        metadata = {"name": name, "namespace": "team"} | more
        world.tenant.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Running"}})
    world.restore(file)
    assert sorted(pod["metadata"]["name"] for pod in world.tenant.list("v1", "Pod", "team")) == left


def test_an_authority_that_is_not_published_is_waited_for(world, file):
    published = {"metadata": {"name": "kube-root-ca.crt", "namespace": "team"}, "data": {"ca.crt": "former"}}
    world.tenant.put(published | {"apiVersion": "v1", "kind": "ConfigMap"})
    with pytest.raises(
        TenancyError, match=r"waiting for the certificate authority of tenant web.*namespaces team have another one"
    ):
        world.restore(file)


def test_schedulers_that_do_not_come_back_are_named(world, file):
    metadata = {"name": "binder", "namespace": "kai-scheduler"}
    world.tenant.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {}})
    with pytest.raises(TenancyError, match=r"waiting for KAI Scheduler and DNS of tenant web.*pod binder: Pending, not ready"):
        world.restore(file)


def test_check_mode_ends_nothing(world, file):
    _result, run = world.restore(file, check_mode=True)
    assert run.result()["diff"]["after"] == {"content": f"as of {RECORD['at']}"}
    assert (world.api.writes, world.restored) == ([], [])


def test_a_volume_that_is_gone_is_made_again(world, file):
    world.api.drop("v1", "PersistentVolumeClaim", "data-web-0", NAMESPACE)
    world.restore(file)
    made = world.api.get("v1", "PersistentVolumeClaim", "data-web-0", NAMESPACE)
    assert made["metadata"]["labels"] == {"app": "vcluster", "release": "web"}
    assert made["spec"] == WORKLOAD["spec"]["volumeClaimTemplates"][0]["spec"]


def own_claim(world):
    return world.api.get("v1", "PersistentVolumeClaim", OWN_CLAIM["metadata"]["name"], NAMESPACE)


def test_a_claim_that_is_gone_gets_its_data_back_before_the_control_plane_starts(world, file):
    record = with_storage(world)
    world.api.drop("v1", "PersistentVolumeClaim", OWN_CLAIM["metadata"]["name"], NAMESPACE)
    _result, run = world.restore(file, record)
    assert [step["step"] for step in run.steps][-2:] == ["restore 1 volumes", "start the control plane"]
    assert own_claim(world)["spec"]["dataSource"]["name"] == "snap"


def test_a_claim_that_is_there_stays_unless_all_are_asked_for(world, file):
    record = with_storage(world)
    world.restore(file, record)
    assert own_claim(world)["spec"] == {"volumeName": "pv-1"}
    world.restore(file, record, every_volume=True)
    assert "dataSource" in own_claim(world)["spec"]


def test_another_tenants_volumes_are_not_restored(world, file):
    _result, run = world.restore(file, with_storage(world) | {"tenant": "other"}, every_volume=True)
    assert run.warnings == ["Volumes of other are restored into that tenant alone. In web, they will be empty."]
    assert own_claim(world)["spec"] == {"volumeName": "pv-1"}


def test_a_volume_that_is_not_restored_leaves_the_tenant_down(world, file):
    record = with_storage(world)
    world.api.drop("v1", "PersistentVolumeClaim", OWN_CLAIM["metadata"]["name"], NAMESPACE)
    world.api.react("create", "PersistentVolumeClaim", lambda claim: world.api.put(claim | {"status": {"phase": "Pending"}}))
    with pytest.raises(TenancyError, match=r"Could not restore 1 volumes.*Pending.*stays down until it is restored again"):
        world.restore(file, record)
    assert not runs_as_before(world)


@pytest.mark.parametrize(
    ("part", "ended"),
    [
        ("head -c", Ended(1, "command terminated with exit code 1", "base64: write error: No space left on device")),
        ("restore", Ended(1, "command terminated with exit code 1", "F1127 no snapshot")),
        ("sha256sum", ApiError("Reading the checksum failed: 503", status=503)),
    ],
)
def test_without_a_restored_database_the_tenant_runs_as_before(world, file, part, ended):
    world.fails[part] = ended
    with pytest.raises(TenancyError, match="Nothing was restored: tenant web runs as before"):
        world.restore(file)
    assert (world.restored, world.workload["spec"]["replicas"]) == ([], 1)
    assert RESTORING not in world.workload["metadata"].get("annotations", {})
    assert world.api.get("v1", "Pod", RESTORE_POD, NAMESPACE) is None


def runs_as_before(world):
    workload = world.workload
    return workload["spec"]["replicas"] == 1 and RESTORING not in workload["metadata"].get("annotations", {})


def test_a_pod_that_restores_and_never_starts_leaves_the_tenant_as_before(world, file):
    """Also if it takes a while to end, when the time of the restore is up already."""
    world.status = {"phase": "Pending"}
    sleep, ends = world.clock.sleep, []

    def ending(pod):
        world.api.put(pod)
        ends.append(world.clock() + 5)

    def later(seconds):
        sleep(seconds)
        if ends and world.clock() >= ends[0]:
            world.api.drop("v1", "Pod", RESTORE_POD, NAMESPACE)

    world.clock.sleep = later
    world.api.react("delete", "Pod", ending)
    with pytest.raises(
        TenancyError, match=r"Could not start the pod that restores.*Nothing was restored: tenant web runs as before"
    ):
        world.restore(file)
    assert runs_as_before(world)
    assert world.api.get("v1", "Pod", RESTORE_POD, NAMESPACE) is None


def test_a_pod_of_the_tenant_that_does_not_end_leaves_the_tenant_as_before(file):
    synced = {"annotations": {"vcluster.loft.sh/object-name": "job"}}
    world = World(item("v1", "Pod", "job-x-default-x-web", {"vcluster.loft.sh/managed-by": "web"}, metadata=synced))
    world.api.react("delete", "Pod", lambda pod: world.api.put(pod) if pod["metadata"]["name"].startswith("job") else None)
    with pytest.raises(TenancyError, match=r"Could not end the control plane.*Nothing was restored: tenant web runs as before"):
        world.restore(file)
    assert runs_as_before(world)


def test_what_cannot_be_started_again_is_told_after_the_first_error(world, file):
    world.status = {"phase": "Pending"}
    world.api.react("delete", "Pod", lambda pod: world.api.put(pod) if pod["metadata"]["name"] == RESTORE_POD else None)
    with pytest.raises(
        TenancyError, match=r"Could not start the pod that restores.*cannot be started as before: Timed out.*stays down"
    ):
        world.restore(file)
    assert not runs_as_before(world)


def test_a_database_that_a_restore_left_half_done_is_not_started(world, file):
    world.fails["restore"] = ApiError("Restoring the database failed: it did not end in time")
    with pytest.raises(TenancyError, match="Tenant web stays down until it is restored again"):
        world.restore(file)
    world.fails = {"head -c": Ended(1, "command terminated with exit code 1", "")}
    with pytest.raises(TenancyError, match="Tenant web stays down until it is restored again"):
        world.restore(file)
    assert not runs_as_before(world)


def test_a_restore_that_did_not_say_how_it_ended_is_repeated(world, file):
    world.fails["restore"] = ApiError("Restoring the database failed: it did not end in time")
    with pytest.raises(TenancyError, match="Tenant web stays down until it is restored again"):
        world.restore(file)
    assert world.workload["spec"]["replicas"] == 0
    # Nothing else starts it.
    run = world.run()
    with refuses("restore-unfinished"):
        Operation(run, ControlPlane(run.kube, "web", NAMESPACE), None).start(None)
    world.fails.clear()
    world.restore(file)
    assert (world.restored, world.workload["spec"]["replicas"]) == ([CONTENT], 1)


def test_a_controller_that_has_gone_leaves_the_restore_to_the_next_run(world, file):
    world.status = {"phase": "Pending"}

    def gone(what, _seen):
        if RESTORE_POD in what:
            raise Superseded("The controller has not looked.")

    token = LISTENER.set(gone)
    try:
        with pytest.raises(Superseded):
            world.restore(file)
    finally:
        LISTENER.reset(token)
    assert world.workload["metadata"]["annotations"][RESTORING] == RECORD["sha256"]


@pytest.mark.parametrize(
    "record",
    [{"version": "0.37.0"}, {"kubernetes_version": "v1.33.1"}, {"kubernetes_version": "v1.36.0"}],
)
def test_versions_that_do_not_fit_are_refused_before_anything_ends(world, file, record):
    with refuses("backup-version"):
        world.restore(file, record)
    assert world.api.writes == []


@pytest.mark.parametrize("record", [{"version": "0.34.0"}, {"kubernetes_version": "v1.34.9"}])
def test_older_backups_are_restored_into_the_next_versions(world, file, record):
    world.restore(file, record)
    assert world.restored == [CONTENT]


def test_a_tenant_without_a_virtual_cluster_is_not_restored(world, file):
    world.api.drop("apps/v1", "StatefulSet", "web", NAMESPACE)
    with refuses("no-tenant"):
        world.restore(file)


def test_the_pod_that_restores_has_what_the_control_plane_has(world, file):
    made = []
    world.api.react("create", "Pod", made.append)
    world.restore(file)
    spec = made[0]["spec"]
    (container,) = spec["containers"]
    assert container["env"] == [{"name": "VCLUSTER_NAME", "value": "web"}, {"name": "POD_NAME", "value": "web-0"}]
    assert container["image"] == "ghcr.io/loft-sh/vcluster-oss:0.36.1"
    assert "livenessProbe" not in container
    assert spec["volumes"] == [
        {"name": "vcluster-config"},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
    ]
    assert (spec["serviceAccountName"], spec["restartPolicy"]) == ("vc-web", "Never")
    assert spec["activeDeadlineSeconds"] == 3600
    # No Service of the control plane leads to it.
    assert "app" not in made[0]["metadata"]["labels"]
    assert ARCHIVE.startswith(container["volumeMounts"][0]["mountPath"])
