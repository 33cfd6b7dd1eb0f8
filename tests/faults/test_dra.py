# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tenants on nodes whose GPUs a driver of Dynamic Resource Allocation offers as ``nvidia.com/gpu`` (KEP-5004), and no device plugin.

The driver is Kubernetes' own test driver, under the name of NVIDIA's. Its devices are names: a pod that gets one sees no file of it.
In this order, because the API server keeps the resource of a DeviceClass only with a feature gate that is on from Kubernetes 1.36 on.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import Program
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.facts import PROVIDERS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import gpu_ledger_info
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import DEVICE_CLASS, RESOURCE_SLICE
from ansible_collections.kubegpu.tenancy.tests.faults.labs import CONTROL_PLANE, Lab, changed
from ansible_collections.kubegpu.tenancy.tests.faults.test_clusters import FOLDER, Existing, lab_options
from ansible_collections.kubegpu.tenancy.tests.faults.test_drift import VCLUSTER
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import built

TEST_DRIVER = Program("dra-test-driver", "v1.35.4", "k8s.io/kubernetes")
DRIVER, GPU, EACH = "gpu.nvidia.com", "nvidia.com/gpu", 2
WORKERS = ("kubegpu-worker", "kubegpu-worker2")
IMAGE = "docker.io/library/busybox:1.37.0"
GATE = "DRAExtendedResource"
Object = dict[str, Any]
# Both nodes are theirs together, and each holds one GPU at most.
BOUNDED = {"names": list(WORKERS), "shared_gpus": 1}
TEAM, OTHER = ({"name": name, "trust": "high", "gpu_nodes": BOUNDED, "vcluster": VCLUSTER} for name in ("team", "other"))


class Claimable(Existing):
    """The lab's cluster without its device plugin; the test driver runs on its workers."""

    def ask(self, name: str, resource: str, tenant: str = "team", count: int = 1) -> None:
        """Create a pod in a tenant that asks for devices by the name of a resource."""
        container = {"name": "c", "image": IMAGE, "command": ["sleep", "infinity"], "resources": {"limits": {resource: count}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        metadata = {"name": name, "namespace": "default"}
        self.tenant(tenant).create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def tenant(self, name: str = "team") -> Kube:
        return Kube.connect(kubeconfig=str(FOLDER / f"shapes/tenants/{name}.yml"))

    def running(self, name: str, tenant: str = "team") -> bool:
        pod = self.tenant(tenant).get("v1", "Pod", name, "default")
        return bool(pod) and pod["status"].get("phase") == "Running"

    def events(self, name: str) -> str:
        """What the syncer says of a pod that the host cluster refuses."""
        found = self.tenant().list("v1", "Event", "default", field_selector=f"involvedObject.name={name}")
        return " ".join(one.get("message", "") for one in found)

    def ledger(self) -> Object:
        return gpu_ledger_info.reconcile(Run({"devices": False}, kube=self.kube))

    def offer(self, name: str, resource: str | None) -> bool:
        """Create a DeviceClass of all of the driver's devices; tell whether the API server keeps its resource."""
        spec: Object = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
        spec |= {"extendedResourceName": resource} if resource else {}
        self.kube.delete(*DEVICE_CLASS, name)
        self.kube.create({"apiVersion": DEVICE_CLASS[0], "kind": DEVICE_CLASS[1], "metadata": {"name": name}, "spec": spec})
        made = self.kube.get(*DEVICE_CLASS, name)
        return bool(made) and made["spec"].get("extendedResourceName") == resource

    def start_driver(self, program: Path) -> None:
        """Run the driver on each worker, with the rights of an administrator."""
        place, config = f"/usr/local/bin/{program.name}", "/etc/kubernetes/admin.conf"
        subprocess.run(["docker", "cp", str(program), f"{self.lab.name}:/root/driver"], check=True)
        self.lab.run("docker", "cp", f"{CONTROL_PLANE}:{config}", "/root/admin.conf")
        for node in WORKERS:
            for source, target in (("/root/driver", place), ("/root/admin.conf", "/root/admin.conf")):
                self.lab.run("docker", "cp", source, f"{node}:{target}")
            self.on_node(node, "mkdir", "-p", f"/var/lib/kubelet/plugins/{DRIVER}", "/var/run/cdi")
            command = [place, f"--drivername={DRIVER}", "--kubeconfig=/root/admin.conf", "kubelet-plugin"]
            command += [f"--node-name={node}", f"--num-devices={EACH}"]
            self.on_node(node, "systemd-run", "--unit=dra-test-driver", *command)

    def slices(self) -> frozenset[str]:
        """Names of the ResourceSlices."""
        return frozenset(one["metadata"]["name"] for one in self.kube.list(*RESOURCE_SLICE))

    def wait_for_devices(self, former: frozenset[str] = frozenset()) -> None:
        """Wait until the driver offers its devices; a kubelet that starts anew takes the former slices back."""
        until("the driver's devices", lambda: len(self.slices() - former) == len(WORKERS))

    def open_gate(self) -> None:
        """Switch the feature gate on in the control plane and in the kubelets, as an administrator does."""
        for part in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            edit = rf"s/^    - {part}$/&\n    - --feature-gates={GATE}=true/"
            self.on_node(CONTROL_PLANE, "sed", "--in-place", edit, f"/etc/kubernetes/manifests/{part}.yaml")
        for node in WORKERS:
            edit = rf"s/^featureGates:$/&\n  {GATE}: true/"
            self.on_node(node, "sed", "--in-place", edit, "/var/lib/kubelet/config.yaml")
            self.on_node(node, "systemctl", "restart", "kubelet")


def until(what: str, holds: Callable[[], bool], seconds: float = 120) -> None:
    def look() -> tuple[bool | None, str]:
        try:
            return (True, "") if holds() else (None, "not yet")
        except TenancyError as exc:
            return None, exc.message

    wait_for(what, look, Deadline(seconds), 2.0)


@pytest.fixture(name="driver", scope="module")
def _driver() -> Path:
    """The driver's program, built once for the user's cache, as the lab's programs are."""
    return built(Path(__file__).parent, TEST_DRIVER).program_dir(TEST_DRIVER) / "test-driver"


@pytest.fixture(name="cluster", scope="module")
def _cluster(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Claimable]:
    # The second worker has no GPU of the host.
    options = lab_options(1, []).replace('[{"gpus": [0]}]', '[{"gpus": [0]}, {"gpus": []}]')
    with Lab("kubegpu-dra", options) as lab:
        lab.site()
        cluster = Claimable(lab, Path(os.environ["KUBEGPU_CACHE"]), tmp_path_factory.mktemp("inventory"))
        plugin = PROVIDERS["device_plugin"].release
        cluster.run_helm(
            [str(cluster.helm_binary), "uninstall", plugin, f"--namespace={plugin}", f"--kubeconfig={cluster.kubeconfig}"]
        )
        cluster.start_driver(driver)
        cluster.wait_for_devices()
        yield cluster


def test_without_the_gate_no_pod_gets_a_gpu_of_the_driver(cluster: Claimable) -> None:
    assert not cluster.offer(DRIVER, GPU)
    cluster.want(kubegpu_tenants=[TEAM])
    said = " ".join(cluster.play("preflight").split())
    assert cluster.code != 0
    assert f"{DRIVER} offers the GPUs of {', '.join(WORKERS)} to ResourceClaims" in said
    assert "From Kubernetes 1.36 on, a DeviceClass with extendedResourceName nvidia.com/gpu offers them to pods" in said


def test_tenants_without_a_scheduler_of_their_own_have_gpus_of_the_driver(cluster: Claimable) -> None:
    former = cluster.slices()
    cluster.open_gate()
    until("the API server with the gate", lambda: cluster.offer(DRIVER, GPU))
    assert cluster.offer("unbounded", None)
    cluster.wait_for_devices(former)
    cluster.want(kubegpu_tenants=[TEAM, OTHER])
    said = cluster.play("site")
    assert cluster.code == 0, said[-6000:]
    assert changed(cluster.play("site")) == 0
    cluster.ask("first", GPU)
    until("a pod with a GPU", lambda: cluster.running("first"))
    (claim,) = cluster.kube.list("resource.k8s.io/v1", "ResourceClaim", "tenant-team")
    (device,) = claim["status"]["allocation"]["devices"]["results"]
    assert (device["driver"], device["pool"] in WORKERS) == (DRIVER, True)


def test_a_bound_holds_by_each_name_of_the_devices(cluster: Claimable) -> None:
    """One GPU is the team's; three are free."""
    cluster.ask("second", GPU)
    cluster.ask("by-class", "deviceclass.resource.kubernetes.io/unbounded")
    until("the refusal by the quota", lambda: "exceeded quota" in cluster.events("second"))
    until("the refusal by the policy", lambda: "No queue and no quota of this tenant counts" in cluster.events("by-class"))
    cluster.ask("first", GPU, "other")
    until("another tenant's pod with a GPU", lambda: cluster.running("first", "other"))
    time.sleep(10)
    assert not cluster.running("second")
    assert not cluster.running("by-class")


def test_without_the_policy_the_name_of_a_class_passes_the_quota(cluster: Claimable) -> None:
    """So it is the policy that holds."""
    quota = {"requests.nvidia.com/gpu": "0"}
    cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bare"}})
    metadata = {"name": "q", "namespace": "bare"}
    cluster.kube.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": quota}})
    limits = {"limits": {"deviceclass.resource.kubernetes.io/unbounded": 1}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "none", "resources": limits}]}
    cluster.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "bare"}, "spec": spec})
    until("a claim", lambda: bool(cluster.kube.list("resource.k8s.io/v1", "ResourceClaim", "bare")))
    cluster.kube.delete("v1", "Namespace", "bare")
    until("the end of the namespace", lambda: cluster.kube.get("v1", "Namespace", "bare") is None)


def test_the_ledger_counts_the_devices_once(cluster: Claimable) -> None:
    found = cluster.ledger()
    assert {row["node"]: row["allocatable"] for row in found["nodes"] if row["node"] in WORKERS} == dict.fromkeys(WORKERS, EACH)
    rows = {row["tenant"]: row for row in found["tenants"]}
    counted = {name: (row["quota"], row["in_use"], row["claimed"]) for name, row in rows.items()}
    assert counted == dict.fromkeys(("team", "other"), (1, 1, 0))
    assert (found["overlaps"], found["unread"]) == ([], [])
    # A claim of the operator's, for the tenant.
    requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "given", "namespace": "tenant-team"},
    }
    with pytest.raises(TenancyError, match="exceeded quota"):
        cluster.kube.create(claim | {"spec": {"devices": {"requests": requests}}})


def test_a_scheduler_in_a_virtual_cluster_is_refused(cluster: Claimable) -> None:
    own: Object = {"name": "own", "trust": "high", "gpu_nodes": {"names": [WORKERS[0]]}, "queues": [{"name": "ml"}]}
    own |= {"scheduler": {"name": "kai", "version": "v0.13.1", "accept_hazards": ["end-of-support"]}}
    cluster.want(kubegpu_tenants=[own])
    said = " ".join(cluster.play("preflight").split())
    assert cluster.code != 0
    assert (
        f"the GPUs of {WORKERS[0]} are offered by DeviceClass {DRIVER} alone, of which no scheduler in a virtual cluster learns"
        in said
    )


def test_they_leave_nothing(cluster: Claimable) -> None:
    cluster.want(kubegpu_tenants=[TEAM, OTHER])
    said = cluster.play("cleanup")
    assert cluster.code == 0, said[-6000:]
    until("the end of the claims", lambda: cluster.kube.list("resource.k8s.io/v1", "ResourceClaim") == [])
    assert [one for one in cluster.kube.list("v1", "Namespace") if one["metadata"]["name"].startswith("tenant-")] == []
