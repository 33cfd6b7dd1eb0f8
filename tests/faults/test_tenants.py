# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to virtual clusters on the lab's cluster: errors say what is wrong, nothing is lost, the next run goes on."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.inventory import configs
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.overlaps import collisions
from ansible_collections.kubegpu.tenancy.plugins.modules import vcluster, vcluster_info, vcluster_kubeconfig
from ansible_collections.kubegpu.tenancy.tests.faults.labs import CONTROL_PLANE, Cluster, Lab, defaults
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

OLD, BETWEEN, NEW = "0.34.0", "0.35.2", "0.36.1"
VARIABLES = {
    "lab_gpus": 4,
    "lab_vcluster_versions": [OLD, BETWEEN, NEW],
    "nvkind_workers": [{"gpus": [0, 1, 2, 3]}],
    "kubegpu_tenants": [],
}
WORKER = "kubegpu-worker"
KEPT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}, "data": {"a": "b"}}


class Tenants(Cluster):
    """Virtual clusters, made as the modules make them."""

    def __init__(self, lab: Lab, cache: Path, folder: Path) -> None:
        super().__init__(lab, cache)
        self.folder = folder

    def vcluster(self, name: str, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        given = {"name": name, "version": NEW, "kubernetes_version": "v1.35.4", "chart_source": str(self.charts), "timeout": 150}
        return vcluster.reconcile(Run(defaults(vcluster, **(given | changes)), check_mode, self.kube, self.helm))

    def kubeconfig_of(self, name: str, path: Path | None = None) -> Path:
        path = path or self.folder / f"{name}.yml"
        # The way into the lab leads through its proxy, which the kubeconfig of the cluster names.
        vcluster_kubeconfig.reconcile(Run(defaults(vcluster_kubeconfig, name=name, path=str(path), timeout=60), kube=self.kube))
        return path

    def inside(self, name: str) -> Kube:
        return Kube.connect(kubeconfig=str(self.kubeconfig_of(name)))

    def killed_after(self, seconds: float, action: Callable[[], Any]) -> None:
        """Run it in a process of its own, which ends without a warning, its children with it, as on a power cut."""

        def alone() -> None:
            os.setsid()
            self.kube = Kube.connect(kubeconfig=str(self.kubeconfig))
            action()

        process = multiprocessing.get_context("fork").Process(target=alone)
        process.start()
        process.join(seconds)
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
        process.join()

    def left_of(self, name: str) -> list[str]:
        """What the host cluster still has of it."""
        kinds = [
            ("v1", "Namespace"),
            ("v1", "PersistentVolume"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ]
        return [
            f"{kind} {item['metadata']['name']}" for api, kind in kinds for item in self.kube.list(api, kind) if name in str(item)
        ]


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with Lab("kubegpu-faults-tenants", f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        lab.site()
        yield Tenants(lab, Path(os.environ["KUBEGPU_CACHE"]), tmp_path_factory.mktemp("kubeconfigs"))


def test_killed_again_and_again_while_it_is_created(tenants: Tenants) -> None:
    for seconds in (0.5, 1, 1.5, 2, 4, 8):
        tenants.killed_after(seconds, lambda: tenants.vcluster("ml", version=OLD))
    tenants.vcluster("ml", version=OLD)
    assert tenants.vcluster("ml", version=OLD)["changed"] is False
    tenants.inside("ml").create(KEPT)


def test_killed_again_and_again_while_it_is_upgraded(tenants: Tenants) -> None:
    """By the version between."""
    steps = [record["step"] for record in tenants.vcluster("ml", check_mode=True)["steps"]]
    assert steps[:2] == [f"upgrade the Helm release ml with vCluster {BETWEEN}", f"wait for vCluster {BETWEEN}"]
    for seconds in (0.5, 1, 1.5, 2, 4, 8, 16, 24):
        tenants.killed_after(seconds, lambda: tenants.vcluster("ml"))
    tenants.vcluster("ml")
    assert tenants.vcluster("ml")["changed"] is False
    kept = tenants.inside("ml").get("v1", "ConfigMap", "kept", "default")
    assert kept is not None
    with pytest.raises(TenancyError, match=r"a downgrade to 0\.34\.0 is not supported upstream"):
        tenants.vcluster("ml", version=OLD)


def test_what_happens_to_its_pod_and_its_node_ends_by_itself(tenants: Tenants) -> None:
    def answers() -> tuple[bool | None, str]:
        try:
            found = tenants.inside("ml").get("v1", "ConfigMap", "kept", "default")
        except TenancyError as exc:
            return None, exc.message
        return (True if found else None), "the ConfigMap is not there"

    seconds = {}
    began = time.monotonic()
    tenants.kube.delete("v1", "Pod", "ml-0", "tenant-ml", grace_seconds=0)
    wait_for("the API server after its pod", answers, 180)
    seconds["pod"] = round(time.monotonic() - began)
    tenants.lab.run("docker", "stop", "--time=5", WORKER)
    began = time.monotonic()
    tenants.lab.run("docker", "start", WORKER)
    wait_for("the API server after its node", answers, 240)
    seconds["node"] = round(time.monotonic() - began)
    print(f"seconds until a tenant's API server answers again: {seconds}")
    assert tenants.vcluster("ml")["changed"] is False


def test_a_certificate_that_has_expired_is_told_and_renewed(tenants: Tenants) -> None:
    before = tenants.kubeconfig_of("ml").read_text()
    secret = tenants.kube.get("v1", "Secret", "vc-ml", "tenant-ml")
    authority = tenants.kube.get("v1", "Secret", "ml-certs", "tenant-ml")
    assert secret is not None
    assert authority is not None
    names = {"client-certificate": "client-ca.crt", "client-key": "client-ca.key"}
    issuer = x509.load_pem_x509_certificate(base64.b64decode(authority["data"][names["client-certificate"]]))
    signer = serialization.load_pem_private_key(base64.b64decode(authority["data"][names["client-key"]]), None)
    now = datetime.datetime.now(datetime.UTC)
    old = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["client-certificate"]))
    key = ec.generate_private_key(ec.SECP256R1())
    expired = (
        x509.CertificateBuilder(issuer.subject, old.subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=366))
        .not_valid_after(now - datetime.timedelta(days=1))
        .sign(signer, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    data = {
        "client-certificate": base64.b64encode(expired.public_bytes(pem)).decode(),
        "client-key": base64.b64encode(
            key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        ).decode(),
    }
    tenants.kube.patch("v1", "Secret", "vc-ml", {"data": data}, "tenant-ml")

    with pytest.raises(TenancyError, match=r"client certificate in its Secret vc-ml expired .*state=present has it renewed"):
        tenants.kubeconfig_of("ml")
    assert (tenants.folder / "ml.yml").read_text() == before
    assert "certificate" in tenants.vcluster("ml")["diff"]["after"]
    assert tenants.vcluster("ml")["changed"] is False
    assert tenants.inside("ml").get("v1", "ConfigMap", "kept", "default") is not None


def test_a_folder_for_kubeconfigs_that_is_read_only(tenants: Tenants, tmp_path: Path) -> None:
    subprocess.run(["mount", "--bind", tmp_path, tmp_path], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", tmp_path], check=True)
        with pytest.raises(TenancyError, match=r"path: .*ml\.yml.* cannot be written: .*[Rr]ead-only"):
            tenants.kubeconfig_of("ml", tmp_path / "ml.yml")
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert tenants.kubeconfig_of("ml", tmp_path / "ml.yml").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_under_its_volume_is_told_and_nothing_is_lost(tenants: Tenants) -> None:
    tenants.vcluster("ml", state="paused")
    claim = tenants.kube.get("v1", "PersistentVolumeClaim", "data-ml-0", "tenant-ml")
    assert claim is not None
    volume = tenants.kube.get("v1", "PersistentVolume", claim["spec"]["volumeName"])
    assert volume is not None
    path = (volume["spec"].get("hostPath") or volume["spec"]["local"])["path"]
    (terms,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    node = terms["matchExpressions"][0]["values"][0]
    small = f"cp -a {path} /run/kept && mount -t tmpfs -o size=$(($(du -sm /run/kept | cut -f1) + 8))m none {path}"
    tenants.on_node(node, "sh", "-c", f"{small} && cp -a /run/kept/. {path}")
    tenants.on_node(node, "sh", "-c", f"dd if=/dev/zero of={path}/filler bs=64k 2>/dev/null; sync; df {path}")
    with pytest.raises(TenancyError, match=r"full|no space left"):
        tenants.vcluster("ml", timeout=90)
    tenants.on_node(node, "rm", f"{path}/filler")
    tenants.vcluster("ml")
    assert tenants.vcluster("ml")["changed"] is False
    assert tenants.inside("ml").get("v1", "ConfigMap", "kept", "default") is not None
    # The folder of a volume could not be removed while something is mounted on it.
    tenants.vcluster("ml", state="paused")
    tenants.on_node(node, "umount", path)


def test_the_host_clusters_api_server_restarts_while_it_is_created(tenants: Tenants) -> None:
    tenants.restart_api_server(4)
    # The run may get past it, or fail; it must not hang.
    with contextlib.suppress(TenancyError):
        tenants.vcluster("web")
    tenants.wait_for_api_server()
    tenants.vcluster("web")
    assert tenants.vcluster("web")["changed"] is False


def test_killed_again_and_again_while_it_is_removed(tenants: Tenants) -> None:
    for name in ("web", "ml"):
        for seconds in (0.5, 1, 1.5, 2, 4):
            tenants.killed_after(seconds, lambda name=name: tenants.vcluster(name, state="absent"))
        tenants.vcluster(name, state="absent")
        assert tenants.vcluster(name, state="absent")["changed"] is False
        assert tenants.left_of(f"tenant-{name}") == []


# --- GPUs that two virtual clusters book ---------------------------------------------------------------------------


def run_pod(inside: Kube, name: str, gpus: int) -> None:
    container = {
        "name": "work",
        "image": "docker.io/library/busybox:1.37.0",
        "command": ["sleep", "infinity"],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "100m", "memory": "32Mi"}},
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    inside.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec})


def settled(look: Callable[[], Any], seconds: float = 60) -> Any:
    """What a look shows once it shows something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return found


def phases(kube: Kube, *names: str) -> list[tuple[str, str]]:
    """(phase, reason) of the pods with GPUs on the host, by their names in the virtual clusters."""
    pods = [pod for pod in kube.list("v1", "Pod") if pod["metadata"]["name"].partition("-x-")[0] in names]
    return sorted((pod["status"].get("phase", ""), pod["status"].get("reason", "")) for pod in pods)


@pytest.fixture
def two(tenants: Tenants) -> Iterator[Tenants]:
    """Two virtual clusters with schedulers of their own and nodes of their own: one has all GPUs, the other none yet."""
    for name, node in (("a", WORKER), ("b", CONTROL_PLANE)):
        tenants.kube.patch("v1", "Node", node, {"metadata": {"labels": {f"pool-{name}": "yes"}}})
        tenants.vcluster(name, own_scheduler=True, node_selector={f"pool-{name}": "yes"})
    yield tenants
    for name in ("a", "b"):
        tenants.vcluster(name, state="absent")
    for node in (WORKER, CONTROL_PLANE):
        tenants.kube.patch("v1", "Node", node, {"metadata": {"labels": {"pool-a": None, "pool-b": None}}})


def test_two_tenants_book_the_same_gpus_where_nobody_guards_them(two: Tenants) -> None:
    """A node labelled by hand for both; each binds a pod with three of its four GPUs, and the kubelet refuses one."""
    two.kube.patch("v1", "Node", WORKER, {"metadata": {"labels": {"pool-b": "yes"}}})
    inside = {name: two.inside(name) for name in ("a", "b")}
    for name, kube in inside.items():
        settled(lambda kube=kube: kube.get("v1", "Node", WORKER))
        run_pod(kube, f"greedy-{name}", 3)

    def bound() -> bool:
        pods = [kube.get("v1", "Pod", f"greedy-{name}", "default") for name, kube in inside.items()]
        return all(pod and pod["spec"].get("nodeName") == WORKER for pod in pods)

    settled(bound)
    found = settled(lambda: [seen for seen in phases(two.kube, "greedy-a", "greedy-b") if seen[0] == "Failed"])
    assert found == [("Failed", "UnexpectedAdmissionError")]
    (told,) = collisions(two.kube.list("v1", "Node"), configs(two.kube).read)
    assert "tenant-a/a and tenant-b/b do not see each other's pods, and no quota bounds" in told


def test_the_guard_refuses_it_and_quotas_that_fit_make_it_impossible(two: Tenants) -> None:
    with pytest.raises(TenancyError, match=r"node_selector: node kubegpu-worker with 4 GPUs: .* do not see each other's pods"):
        two.vcluster("b", own_scheduler=True, node_selector={"pool-a": "yes"})
    two.vcluster("a", own_scheduler=True, node_selector={"pool-a": "yes"}, gpu_quota=2)
    with pytest.raises(TenancyError, match="a 2 and tenant-b/b 3 may hold 5 GPUs together, and the node has 4"):
        two.vcluster("b", own_scheduler=True, node_selector={"pool-a": "yes"}, gpu_quota=3)
    two.vcluster("b", own_scheduler=True, node_selector={"pool-a": "yes"}, gpu_quota=2)
    assert collisions(two.kube.list("v1", "Node"), configs(two.kube).read) == []

    inside = {name: two.inside(name) for name in ("a", "b")}
    for name, kube in inside.items():
        settled(lambda kube=kube: kube.get("v1", "Node", WORKER))
        run_pod(kube, f"first-{name}", 2)
    settled(lambda: phases(two.kube, "first-a", "first-b") == [("Running", ""), ("Running", "")])
    # Each still sees two GPUs that no pod of its own holds.
    for name, kube in inside.items():
        run_pod(kube, f"second-{name}", 2)

    def refused(name: str) -> list[str]:
        events = inside[name].list("v1", "Event", "default")
        mine = [event["message"] for event in events if event["involvedObject"]["name"] == f"second-{name}"]
        return [message for message in mine if "exceeded quota" in message]

    for name in inside:
        settled(lambda name=name: refused(name))
    assert phases(two.kube, "second-a", "second-b") == []


# --- network policies ----------------------------------------------------------------------------------------------


def test_a_profile_that_rests_on_policies_which_nobody_enforces(tenants: Tenants) -> None:
    """The lab's own network enforces none: refused before anything is made, or taken, and then never as protected."""
    wanted = {"kubegpu_tenants": [{"name": "shop", "trust": "partial", "vcluster": {"kubernetes_version": "v1.35.4"}}]}
    said = tenants.lab.play("site", f"--extra-vars={json.dumps(wanted)}")
    assert tenants.lab.code != 0
    assert "trust: partial rests on network policies, and the cluster's network does not enforce them" in said
    assert tenants.left_of("tenant-shop") == []
    said = tenants.lab.site(f"--extra-vars={json.dumps(wanted | {'kubegpu_accept_unenforced_network_policies': True})}")
    assert "partial, network open" in said
    (shop,) = vcluster_info.reconcile(Run({"name": "shop"}, kube=tenants.kube))["vclusters"]
    assert shop["network_policies"] == "unenforced"
