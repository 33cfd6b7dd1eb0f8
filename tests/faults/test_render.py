# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of render, applied by kubectl and Helm on a cluster without tenants: site finds what a file cannot say, and nothing else."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import release
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_nodes, vcluster_kubeconfig
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Cluster, Lab, changed, defaults
from ansible_collections.kubegpu.tenancy.tests.faults.test_drift import ACCEPTED, VCLUSTER, drift
from ansible_collections.kubegpu.tenancy.tests.faults.test_kai import OLD

QUEUES = [{"name": "all", "gpu": {"quota": 1, "limit": 2}, "children": [{"name": "work", "gpu": {"quota": 1, "limit": 2}}]}]
TENANTS: list[dict[str, Any]] = [
    {
        "name": "ml",
        "trust": "high",
        "vcluster": VCLUSTER,
        "gpu_nodes": {"names": ["kubegpu-worker"]},
        "scheduler": {"name": "kai", "version": OLD, "accept_hazards": ACCEPTED},
        "queues": QUEUES,
    },
    # Its network policies depend on the cluster's network.
    {"name": "web", "trust": "partial", "vcluster": VCLUSTER, "gpu_nodes": {"names": ["kubegpu-worker2"]}},
]
VARIABLES: dict[str, Any] = {
    "lab_gpus": 3,
    "lab_network_policies": True,
    "nvkind_workers": [{"gpus": [0, 1]}, {"gpus": [2]}],
    "kubegpu_tenants": TENANTS,
}
# What docs/how-to/gitops.md says that stays with site.
LEFT = {
    "lab: folder for kubeconfigs",
    "lab: nodes of tenants",
    "lab/ml: kubeconfig",
    "lab/web: kubeconfig",
    "lab/web: virtual cluster, NetworkPolicy vc-cp-web",
}
# Whether the copies on the controller count before there are any on the host, is not promised.
PERHAPS = {"lab: kubeconfigs on the controller"}


class Operator:
    """Who applies the files, by kubectl and Helm."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.cache = Path(os.environ["KUBEGPU_CACHE"])
        self.lab, self.folder = lab, folder
        self.host = Cluster(lab, self.cache)

    def files(self, name: str) -> Path:
        return self.folder / "files/lab" / name

    def inside(self, name: str) -> Cluster:
        """The virtual cluster of a tenant, by the credentials that vCluster keeps on the host cluster."""
        path = self.folder / f"{name}.yml"

        def written() -> tuple[bool | None, str]:
            secret = self.host.kube.get("v1", "Secret", f"vc-{name}", f"tenant-{name}")
            return (True, "") if secret else (None, "no Secret")

        # Its pod is ready before.
        wait_for(f"the credentials of {name}", written, Deadline(300), 2.0)
        options = defaults(vcluster_kubeconfig, name=name, path=str(path), timeout=120)
        vcluster_kubeconfig.reconcile(Run(options, kube=self.host.kube))
        return Cluster(self.lab, self.cache, str(path))

    def apply(self, cluster: Cluster, folder: Path) -> None:
        kubectl = next(self.cache.glob("programs/kubernetes-*/kubectl"))
        self.run(str(kubectl), f"--kubeconfig={cluster.kubeconfig}", "apply", "-k", str(folder))

    def helm(self, cluster: Cluster, folder: Path) -> None:
        """Have a release as its two files say; the chart comes from the lab's folder, for there is no other repository."""
        chart = yaml.safe_load((folder / "chart.yaml").read_text())
        archive = cluster.charts / f"{chart['chart']}-{chart['version']}.tgz"
        command = [str(cluster.helm_binary), f"--kubeconfig={cluster.kubeconfig}", "upgrade", "--install", chart["release"]]
        command += [str(archive), f"--namespace={chart['namespace']}", "--create-namespace"]
        self.run(*command, f"--values={folder / 'values.yaml'}", *([] if chart["hooks"] else ["--no-hooks"]))

    @staticmethod
    def run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"

    def runs(self, cluster: Cluster, kind: str, name: str, namespace: str) -> None:
        def ready() -> tuple[bool | None, str]:
            status = (cluster.kube.get("apps/v1", kind, name, namespace) or {}).get("status") or {}
            return (True, "") if status.get("readyReplicas") else (None, json.dumps(status))

        wait_for(f"{kind} {namespace}/{name}", ready, Deadline(600), 2.0)

    def revisions(self, clusters: dict[str, Cluster]) -> dict[str, int]:
        """The revision of each Helm release, by its name."""
        places = {
            "ml": (self.host, "tenant-ml"),
            "web": (self.host, "tenant-web"),
            "kai-scheduler": (clusters["ml"], "kai-scheduler"),
        }
        found = {name: cluster.release(name, namespace) for name, (cluster, namespace) in places.items()}
        return {name: one.revision for name, one in found.items() if one}


@pytest.fixture(scope="module", name="lab")
def _lab() -> Iterator[Lab]:
    with Lab("kubegpu-faults-render", f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        yield lab


@pytest.fixture(scope="module", name="operator")
def _operator(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    lab.site(f"--extra-vars={json.dumps({'kubegpu_tenants': []})}")
    return Operator(lab, tmp_path_factory.mktemp("render"))


def render(operator: Operator, *options: str) -> str:
    dest = (f"--extra-vars=render_dest={operator.folder / 'files'}", "--extra-vars=render_format=helm")
    said = operator.lab.play("render", *dest, *options)
    assert operator.lab.code == 0, said[-6000:]
    return said


def differing(said: str) -> set[str]:
    """What drift says that differs: the place and the subject of each difference, and an object of a chart by its name."""
    found = re.findall(
        r"^\s*(lab(?:/\w+)?: (?!wanted by )[^,:\n]+)((?:, NetworkPolicy [\w-]+)?)(?=[,:]|$)(?!: site would)", said, re.MULTILINE
    )
    return {f"{subject}{item}" for subject, item in found}


def test_the_files_are_the_same_each_time(operator: Operator) -> None:
    render(operator)
    files = {path: path.read_bytes() for path in operator.files("").rglob("*.yaml")}
    assert len(files) == 16
    assert changed(render(operator)) == 0
    assert {path: path.read_bytes() for path in operator.files("").rglob("*.yaml")} == files


def test_once_they_are_applied_site_finds_what_no_file_can_say_and_nothing_else(operator: Operator) -> None:
    lab, host = operator.lab, operator.host
    for tenant in TENANTS:
        folder = operator.files(tenant["name"])
        operator.apply(host, folder)
        operator.helm(host, folder / "virtual-cluster")
    for tenant in TENANTS:
        operator.runs(host, "StatefulSet", tenant["name"], f"tenant-{tenant['name']}")
    clusters = {tenant["name"]: operator.inside(tenant["name"]) for tenant in TENANTS}
    operator.helm(clusters["ml"], operator.files("ml") / "scheduler")
    operator.apply(clusters["ml"], operator.files("ml") / "inside")
    assert operator.revisions(clusters) == {"ml": 1, "web": 1, "kai-scheduler": 1}

    said = drift(lab)
    assert lab.code == 2, said
    assert differing(said) - PERHAPS == LEFT, said

    # The scheduler's pods start once the tenant has nodes; site would give them, and wait for less long.
    tenant_nodes.reconcile(Run(defaults(tenant_nodes, tenants=TENANTS), kube=host.kube))
    start = functools.partial(operator.runs, clusters["ml"], "Deployment", namespace="kai-scheduler")
    for name in release(OLD).deployments:
        start(name=name)

    # Nothing that the files made is made again.
    lab.site()
    assert operator.revisions(clusters) == {"ml": 1, "web": 1, "kai-scheduler": 1}
    said = drift(lab)
    assert (lab.code, "Everything is as the inventory says." in said) == (0, True), said


def test_what_site_noted_changes_no_file(operator: Operator) -> None:
    assert changed(render(operator)) == 0


def test_a_way_of_steps_is_refused_and_the_files_stay(operator: Operator) -> None:
    before = {path: path.read_bytes() for path in operator.files("").rglob("*.yaml")}
    paused = [tenant | {"state": "paused"} for tenant in TENANTS]
    dest = (f"--extra-vars=render_dest={operator.folder / 'files'}", "--extra-vars=render_format=helm")
    said = operator.lab.play("render", *dest, f"--extra-vars={json.dumps({'kubegpu_tenants': paused})}")
    assert (operator.lab.code, said.count("would start a paused tenant") >= 2) == (2, True), said[-6000:]
    assert {path: path.read_bytes() for path in operator.files("").rglob("*.yaml")} == before
