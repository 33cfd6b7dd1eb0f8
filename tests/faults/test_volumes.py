# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of tenants in backups, with Kubernetes' own snapshot controller and sidecars, and a double of a storage system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.facts import (
    BACKUP_OF,
    BACKUP_RUN,
    CONTENT,
    SNAPSHOT,
    SNAPSHOTS,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import QUEUE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import labels_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import is_ready
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.tests.faults import storage
from ansible_collections.kubegpu.tenancy.tests.faults.backups import BackupLab, wait_for_pods
from ansible_collections.kubegpu.tenancy.tests.faults.labs import KAI

Data = dict[str, Any]
QUEUE = {"name": "ml", "gpu": {"quota": 2, "limit": 2}}
ML = {"name": "team-ml", "trust": "high", "gpu_nodes": {"count": 1}, "scheduler": KAI, "queues": [QUEUE]}
WEB = {"name": "web", "trust": "high"}
LAYOUT = {
    "lab_gpus": 2,
    "lab_kai_versions": [KAI["version"]],
    "nvkind_workers": [{"gpus": [0, 1]}],
    "kubegpu_tenants": [ML, WEB],
}
CLAIM = ("v1", "PersistentVolumeClaim")


def make_work(kube: Kube, scheduler: str | None = None) -> None:
    """Have a Deployment with a volume, in namespace default."""
    metadata = {"name": "models", "namespace": "default"}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage.STORAGE_CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    kube.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim})
    labels = {"app": "models"} | ({QUEUE_LABEL: "ml"} if scheduler else {})
    pod = {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "models",
                "image": "docker.io/library/busybox:1.37.0",
                "command": ["sleep", "infinity"],
                "volumeMounts": [{"name": "models", "mountPath": "/models"}],
            }
        ],
        "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
    } | ({"schedulerName": scheduler} if scheduler else {})
    spec = {"selector": {"matchLabels": {"app": "models"}}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    spec |= {"replicas": 1, "strategy": {"type": "Recreate"}}
    kube.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    wait_for_pods(kube, "default", 1)


def shell(kube: Kube, script: str) -> str:
    """Run a script in the Deployment's pod, and return what it prints."""

    def alone() -> tuple[str | None, str]:
        pods = kube.list("v1", "Pod", "default")
        names = [pod["metadata"]["name"] for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
        return (names[0] if len(names) == len(pods) == 1 else None), f"{len(names)} of {len(pods)} pods are ready"

    name, pieces = wait_for("the Deployment's one pod", alone, 180), list[str]()
    ended = kube.pods.execute("Running a script", name, "default", "models", ["sh", "-euc", script], 30, write=pieces.append)
    assert ended.rc == 0, ended
    return "".join(pieces).strip()


def write(kube: Kube, word: str) -> None:
    shell(kube, f"echo {word} > /models/word; sync")


def read(kube: Kube) -> str:
    return shell(kube, "cat /models/word 2>/dev/null || echo none")


def delete_work(kube: Kube) -> None:
    """Delete the Deployment and its volume, and wait for their end."""
    kube.delete("apps/v1", "Deployment", "models", "default")
    kube.delete(*CLAIM, "models", "default")
    wait_for("the end of the claim", lambda: (kube.get(*CLAIM, "models", "default") is None or None, "there"), 120)


def snapshots(lab: BackupLab, tenant: str) -> list[str]:
    """Return the runs of which the cluster has snapshots of a tenant's volume."""
    contents = lab.host().list(SNAPSHOTS, CONTENT, label_selector=f"{BACKUP_OF}={tenant}")
    return sorted(labels_of(content)[BACKUP_RUN] for content in contents)


@pytest.fixture(scope="module", name="lab")
def _lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackupLab]:
    with BackupLab("kubegpu-faults-volumes", tmp_path_factory.mktemp("backups"), LAYOUT) as lab:
        lab.site()
        storage.install(lab)
        make_work(lab.tenant("web"))
        make_work(lab.tenant("team-ml"), "kai-scheduler")
        yield lab


def test_a_backup_has_a_snapshot_of_each_volume(lab: BackupLab) -> None:
    for tenant in ("web", "team-ml"):
        write(lab.tenant(tenant), "first")
    said = lab.back_up()
    for tenant in ("web", "team-ml"):
        (kept,) = lab.kept(tenant)
        assert [volume["driver"] for volume in kept.record["volumes"]] == [storage.DRIVER]
        assert kept.record["volumes_left_out"] == []
        assert len(snapshots(lab, tenant)) == 1
    assert said.count("with the data of 1 volume") == 2


def test_a_volume_that_is_deleted_comes_back_with_its_data(lab: BackupLab) -> None:
    (first,) = lab.kept("web")
    delete_work(lab.tenant("web"))
    lab.bring_back("web", f"--extra-vars=kubegpu_restore={first.at}")
    assert read(lab.tenant("web")) == "first"


def test_all_volumes_get_the_data_of_the_backup_if_asked_for(lab: BackupLab) -> None:
    first = lab.kept("web")[-1]
    write(lab.tenant("web"), "second")
    lab.bring_back("web", f"--extra-vars=kubegpu_restore={first.at}")
    assert read(lab.tenant("web")) == "second"
    lab.bring_back("web", f"--extra-vars=kubegpu_restore={first.at}", "--extra-vars=kubegpu_restore_volumes=all")
    assert read(lab.tenant("web")) == "first"


def test_a_team_with_its_own_kai_scheduler_gets_its_volume_back(lab: BackupLab) -> None:
    (first,) = lab.kept("team-ml")
    delete_work(lab.tenant("team-ml"))
    lab.bring_back("team-ml", f"--extra-vars=kubegpu_restore={first.at}")
    assert read(lab.tenant("team-ml")) == "first"
    # The team's next pod is placed, too.
    kube = lab.tenant("team-ml")
    (pod,) = kube.list("v1", "Pod", "default")
    kube.delete("v1", "Pod", pod["metadata"]["name"], "default")
    assert read(kube) == "first"


def test_a_namespace_that_is_lost_comes_back_with_its_data(lab: BackupLab) -> None:
    lab.back_up("--extra-vars=kubegpu_only=web")
    newest = lab.kept("web")[0]
    host = lab.host()
    host.delete("v1", "Namespace", "tenant-web")
    wait_for("the end of namespace tenant-web", lambda: (host.get("v1", "Namespace", "tenant-web") is None or None, "there"), 180)
    assert len(snapshots(lab, "web")) > 0
    lab.site("--extra-vars=kubegpu_only=web")
    lab.bring_back("web", f"--extra-vars=kubegpu_restore={newest.at}")
    assert read(lab.tenant("web")) == "first"


@pytest.mark.parametrize("seconds", [1.5, 3.5])
def test_a_killed_backup_leaves_no_snapshot(lab: BackupLab, seconds: float) -> None:
    kept = lab.kept("web")
    lab.kill_at("backup", "Back up tenants", seconds, args=["--extra-vars=kubegpu_only=web"])
    assert lab.kept("web") == kept
    lab.back_up("--extra-vars=kubegpu_only=web")
    # What the killed run left is gone. What the last run deleted goes with the next one.
    of_backups = {one.record.get("run") for one in (*kept, *lab.kept("web"))}
    assert set(snapshots(lab, "web")) <= of_backups
    assert lab.kept("web")[0].record["run"] in snapshots(lab, "web")


def test_snapshots_go_with_their_backup(lab: BackupLab) -> None:
    for _count in range(5):
        lab.back_up("--extra-vars=kubegpu_only=web")
    kept = {one.record["run"] for one in lab.kept("web")}
    assert len(kept) == 3
    # Those of the backup that the last run deleted go with the next one.
    assert kept < set(snapshots(lab, "web"))
    assert len(snapshots(lab, "web")) == 4
    bound = [labels_of(one).get(BACKUP_RUN) for one in lab.host().list(SNAPSHOTS, SNAPSHOT, "tenant-web")]
    assert sorted(map(str, bound)) == snapshots(lab, "web")
    contents = lab.host().list(SNAPSHOTS, CONTENT)

    def stored() -> tuple[bool | None, str]:
        there = storage.snapshots(lab)
        return (True if len(there) == len(contents) else None), f"the storage has {there}"

    wait_for("the end of deleted snapshots in the storage", stored, 60)
