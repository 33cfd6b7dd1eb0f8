# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of tenants that are lost in several ways and come back, and runs that are killed while they back up and restore."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.facts import RESTORE_POD
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import GPU_RESOURCE, QUEUE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.tests.faults.backups import BackupLab, wait_for_pods
from ansible_collections.kubegpu.tenancy.tests.faults.labs import KAI, changed

Data = dict[str, Any]
ML = {
    "name": "team-ml",
    "trust": "high",
    "gpu_nodes": {"count": 1},
    "vcluster": {"kubernetes_version": "v1.35.4"},
    "scheduler": KAI,
    "queues": [{"name": "ml", "gpu": {"quota": 2, "limit": 2}}],
}
WEB = {"name": "web", "trust": "partial", "vcluster": {"kubernetes_version": "v1.35.4"}}
OLD, BETWEEN, NEW = "0.34.0", "0.35.2", "0.36.1"
OLDER = {"name": "older", "trust": "high"}
VERSIONS = {"kubernetes_version": "v1.35.4"}
LAYOUT = {
    "lab_vcluster_versions": [OLD, BETWEEN, NEW],
    "lab_gpus": 2,
    "lab_network_policies": True,
    "lab_kai_versions": [KAI["version"]],
    "nvkind_workers": [{"gpus": [0, 1]}],
    "kubegpu_tenants": [ML, WEB],
}
PASSWORD = "correct horse"
# What a team has made: kinds, and what of each object has to come back.
KINDS = (("v1", "Secret"), ("v1", "ConfigMap"), ("v1", "Service"), ("apps/v1", "Deployment"))


def digests(kube: Kube, namespace: str) -> dict[str, str]:
    """Return a digest of what each object is, by kind and name.

    Without the certificate authority of the virtual cluster, which is another one once that was made anew.
    """
    found = {}
    for api_version, kind in KINDS:
        for item in kube.list(api_version, kind, namespace):
            if item["metadata"]["name"] == "kube-root-ca.crt":
                continue
            told = {key: item.get(key) for key in ("data", "spec", "type")} | {"uid": item["metadata"]["uid"]}
            if kind == "Service":
                # The host cluster gives it another address, with which vCluster makes it anew.
                told = {key: value for key, value in item["spec"].items() if not key.startswith("clusterIP")}
            text = json.dumps(told, sort_keys=True)
            found[f"{kind}/{item['metadata']['name']}"] = hashlib.sha256(text.encode()).hexdigest()
    return found


@pytest.fixture(scope="module", name="lab")
def _lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackupLab]:
    with BackupLab("kubegpu-faults-backup", tmp_path_factory.mktemp("backups"), LAYOUT) as lab:
        lab.site()
        make_objects(lab)
        make_work(lab)
        yield lab


def make_work(lab: BackupLab) -> None:
    """Have team-ml hold a GPU by a Deployment that its KAI Scheduler places."""
    labels = {"app": "train", QUEUE_LABEL: "ml"}
    limits = {"resources": {"limits": {GPU_RESOURCE: "1"}}}
    container = {"name": "train", "image": "docker.io/library/busybox:1.37.0", "command": ["sleep", "infinity"]} | limits
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "train"}}, "template": template}
    metadata = {"name": "train", "namespace": "default", "labels": labels}
    kube = lab.tenant("team-ml")
    kube.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    wait_for_pods(kube, "default", 1)


def make_objects(lab: BackupLab) -> None:
    """Make what team web has, with its own kubeconfig."""
    kube = lab.tenant("web")
    labels = {"app": "shop"}
    container = {"name": "shop", "image": "docker.io/library/busybox:1.37.0", "command": ["sleep", "infinity"]}
    metadata = {"namespace": "shop"}
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    kube.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata | {"name": "token"}, "stringData": {"a": "very-secret"}}
    )
    kube.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata | {"name": "settings"}, "data": {"colour": "blue"}}
    )
    spec = {"selector": labels, "ports": [{"port": 80}]}
    kube.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata | {"name": "shop"}, "spec": spec})
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    kube.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata | {"name": "shop"}, "spec": spec})
    wait_for_pods(kube, "shop", 2)


@pytest.fixture(scope="module", name="before")
def _before(lab: BackupLab) -> dict[str, str]:
    return digests(lab.tenant("web"), "shop")


def test_a_backup_of_each_tenant_is_kept_and_listed(lab: BackupLab, before: dict[str, str]) -> None:
    assert len(before) >= 4
    said = lab.back_up()
    for tenant in ("team-ml", "web"):
        (kept,) = lab.kept(tenant)
        assert kept.record["objects"]["secrets"] > 0
        assert kept.record["version"] == "0.36.1"
        assert f"{tenant}: 1 backup" in said
    assert lab.kept("team-ml")[0].record["objects"]["queues.scheduling.run.ai"] == 1
    # Nothing of it stays on the cluster or the host.
    assert "tar.gz" not in lab.run("bash", "-c", "ls /tmp /root/.ansible/tmp 2>/dev/null || true")
    said = lab.back_up("--check")
    assert len(lab.kept("web")) == 1
    assert "web: 1 backup" in said


def test_what_a_team_deleted_comes_back(lab: BackupLab, before: dict[str, str]) -> None:
    web = lab.tenant("web")
    web.delete("v1", "Namespace", "shop")
    wait_for("the end of namespace shop", lambda: (web.get("v1", "Namespace", "shop") is None or None, "there"), 120)
    said = lab.bring_back("web")
    web = lab.tenant("web")
    assert digests(web, "shop") == before
    wait_for_pods(web, "shop", 2)
    # It is verified as by site.
    assert "web" in said.rpartition("TASK [Print the summary]")[2]
    # What there was before the restore is kept as well.
    assert len(lab.kept("web")) == 2


def test_a_namespace_that_is_lost_comes_back(lab: BackupLab, before: dict[str, str]) -> None:
    oldest = lab.kept("web")[-1]
    host = lab.host()
    host.delete("v1", "Namespace", "tenant-web")
    wait_for("the end of namespace tenant-web", lambda: (host.get("v1", "Namespace", "tenant-web") is None or None, "there"), 180)
    said = lab.play("restore", "--extra-vars=kubegpu_only=web")
    assert lab.code != 0
    assert "Make it with site before" in said
    lab.site("--extra-vars=kubegpu_only=web")
    lab.bring_back("web", f"--extra-vars=kubegpu_restore={oldest.at}")
    web = lab.tenant("web")
    assert digests(web, "shop") == before
    wait_for_pods(web, "shop", 2)


def test_a_volume_that_is_lost_comes_back(lab: BackupLab, before: dict[str, str]) -> None:
    # The newest one so far is that of the empty tenant, which the restore before took first.
    lab.back_up("--extra-vars=kubegpu_only=web")
    newest = lab.kept("web")[0]
    host = lab.host()
    paused = f"--extra-vars={json.dumps({'kubegpu_tenants': [ML, WEB | {'state': 'paused'}], 'kubegpu_accept_lost_pods': True})}"
    lab.site("--extra-vars=kubegpu_only=web", paused)
    claim = ("v1", "PersistentVolumeClaim", "data-web-0", "tenant-web")
    host.delete(*claim)
    wait_for("the end of the volume", lambda: (host.get(*claim) is None or None, "there"), 120)
    # The control plane starts with an empty database.
    lab.site("--extra-vars=kubegpu_only=web")
    assert lab.tenant("web").get("v1", "Namespace", "shop") is None
    lab.bring_back("web", f"--extra-vars=kubegpu_restore={newest.at}")
    web = lab.tenant("web")
    assert digests(web, "shop") == before
    wait_for_pods(web, "shop", 2)


def test_a_team_with_kai_scheduler_comes_back_with_its_queues_and_schedules(lab: BackupLab) -> None:
    ml = lab.tenant("team-ml")
    queues = [item["metadata"]["uid"] for item in ml.list("scheduling.run.ai/v2", "Queue")]
    said = lab.bring_back("team-ml")
    ml = lab.tenant("team-ml")
    assert [item["metadata"]["uid"] for item in ml.list("scheduling.run.ai/v2", "Queue")] == queues
    # Its pod was placed again.
    wait_for_pods(ml, "default", 1)
    summary = said.rpartition("TASK [Print the summary]")[2]
    rows = [line for line in summary.splitlines() if line.split()[:1] == ["team-ml"]]
    assert [re.search(r" (\d+) of \1\b", row) for row in rows] != [None], summary
    assert len(rows) == 1, summary


def test_backups_are_encrypted_by_the_runs_password(lab: BackupLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = lab.play("backup", "--extra-vars=kubegpu_only=web", "--extra-vars=kubegpu_backup_encrypt=true")
    assert lab.code != 0
    assert "There is no vault password" in said
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    lab.back_up("--extra-vars=kubegpu_only=web", "--extra-vars=kubegpu_backup_encrypt=true")
    newest = lab.kept("web")[0]
    assert Path(newest.path).read_bytes().startswith(b"$ANSIBLE_VAULT")
    lab.bring_back("web", f"--extra-vars=kubegpu_restore={newest.at}")
    # Three are kept, and the one that the restore made first.
    assert len(lab.kept("web")) <= 4


def test_an_upgrade_takes_a_backup_first_and_the_backup_is_the_way_back(lab: BackupLab) -> None:
    required = "--extra-vars=kubegpu_backup=required"

    def wanted(version: str) -> str:
        return f"--extra-vars={json.dumps({'kubegpu_tenants': [ML, WEB, OLDER | {'vcluster': VERSIONS | {'version': version}}]})}"

    lab.site(wanted(OLD))
    older = lab.tenant("older")
    older.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}, "data": {"a": "b"}}
    )
    said = lab.site(wanted(NEW), required, "-v")
    assert f"upgrade the Helm release older with vCluster {BETWEEN}" in said
    (before,) = lab.kept("older")
    assert before.record["version"] == OLD
    assert said.index("Back up tenants older") < said.index("Work on tenants older")
    # A downgrade is refused, and the way back is a reset.
    said = lab.play("site", wanted(OLD), required)
    assert lab.code != 0
    assert "is not supported upstream" in said
    said = lab.play("reset", wanted(OLD), required, "--extra-vars=kubegpu_only=older")
    assert lab.code == 0, said[-6000:]
    # The reset took one more, and the run that was refused another one.
    assert [kept.record["version"] for kept in lab.kept("older")] == [NEW, NEW, OLD]
    assert lab.tenant("older").get("v1", "ConfigMap", "kept", "default") is None
    lab.bring_back("older", wanted(OLD), f"--extra-vars=kubegpu_restore={before.at}")
    kept = lab.tenant("older").get("v1", "ConfigMap", "kept", "default")
    assert kept is not None
    assert kept["data"] == {"a": "b"}
    # One that has no control plane that runs stays.
    paused = wanted(OLD).replace('"name": "older"', '"name": "older", "state": "paused"')
    lab.site(paused)
    said = " ".join(lab.play("cleanup", wanted(OLD), required, "--extra-vars=kubegpu_only=older").split())
    assert lab.code != 0
    assert "Virtual cluster older is paused" in said
    assert "Nothing was done to older, because kubegpu_backup is required." in said
    lab.site(wanted(OLD))
    said = lab.play("cleanup", wanted(OLD), required, "--extra-vars=kubegpu_only=older")
    assert lab.code == 0, said[-6000:]


@pytest.mark.parametrize("step", ["make a snapshot", "bring the archive"])
def test_a_backup_that_is_killed_leaves_the_former_ones_whole(lab: BackupLab, step: str) -> None:
    newest = lab.kept("web")[0]
    lab.kill_at("backup", "Back up tenants", {"make a snapshot": 1.5, "bring the archive": 3.0}[step])
    assert lab.kept("web")[0].at == newest.at
    lab.back_up("--extra-vars=kubegpu_only=web")
    assert lab.kept("web")[0].at != newest.at


@pytest.mark.parametrize("seconds", [3.0, 12.0, 25.0])
def test_a_restore_that_is_killed_is_repeated(lab: BackupLab, before: dict[str, str], seconds: float) -> None:
    lab.kill_at("restore", "Restore the tenant", seconds, args=["--extra-vars=kubegpu_only=web"])
    lab.bring_back("web")
    web = lab.tenant("web")
    assert digests(web, "shop") == before
    host = lab.host()
    assert host.get("v1", "Pod", RESTORE_POD, "tenant-web") is None


def test_a_cluster_is_made_anew_and_its_tenants_come_back(lab: BackupLab, before: dict[str, str]) -> None:
    """Also after a run that was killed while it restored."""
    layout = f"--extra-vars={json.dumps({'nvkind_workers': [{'gpus': [0, 1]}, {'gpus': []}]})}"
    note = lab.folder / "lab" / "renewal.json"
    said = " ".join(lab.play("renew", layout, "--check").split())
    assert lab.code != 0
    assert "renew deletes the cluster, because kubegpu-worker2 is missing" in said
    made = lab.cluster_uid()
    lab.kill_at("renew", "Restore tenant", 2.0, args=[layout])
    assert lab.cluster_uid() != made
    noted = json.loads(note.read_text())["backups"]
    assert set(noted) == {"team-ml", "web"}
    said = lab.play("renew", layout)
    assert lab.code == 0, said[-6000:]
    # It went on with the backups of the former cluster.
    assert {tenant for tenant, at in noted.items() if f"{tenant}: restored as of {at}" in said} == set(noted)
    assert not note.exists()
    print([line for line in said.splitlines() if "restored as of" in line])
    web = lab.tenant("web")
    assert digests(web, "shop") == before
    wait_for_pods(web, "shop", 2)
    wait_for_pods(lab.tenant("team-ml"), "default", 1)
    assert changed(lab.site(layout)) == 0
