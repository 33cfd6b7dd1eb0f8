# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tenants on clusters of other shapes than the lab's own: its cluster is changed to each, and taken as one that exists.

In this order, because the last shape stays.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.facts import NODE_API, PROVIDERS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.facts import CONFIGURE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import offered
from ansible_collections.kubegpu.tenancy.tests.faults.labs import CONTROL_PLANE, ROOT, Cluster, Lab, changed
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import kubeconfig_of_people

Object = dict[str, Any]
WORKER = "kubegpu-worker"
FOLDER = Path("~/.kube/kubegpu").expanduser()
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SHARING = MappingProxyType({"gpu_sharing": True, "accept_hazards": ["#1103", "#1673", "end-of-support"]})
WHOLE = {"accept_hazards": ["end-of-support"]}


def tenant(gpu_nodes: Object, scheduler: Mapping[str, Any] = SHARING) -> Object:
    return {
        "name": "team-ml",
        "trust": "high",
        "gpu_nodes": gpu_nodes,
        "vcluster": {"version": "0.36.1", "kubernetes_version": "v1.35.4"},
        "scheduler": {"name": "kai", "version": "v0.13.1"} | scheduler,
        "queues": [{"name": "ml", "gpu": {"quota": 1, "limit": 1}}],
    }


def lab_options(gpus: int, tenants: list[Object]) -> str:
    variables = {
        "lab_gpus": gpus,
        "lab_kai_versions": ["v0.13.1"],
        "nvkind_workers": [{"gpus": list(range(gpus))}],
        "kubegpu_tenants": tenants,
    }
    return f"--extra-vars={json.dumps(variables)}"


def passed(said: str) -> bool:
    """Whether a tenant's checks all passed, or were not tried for want of GPUs, or failed by a hazard that was accepted."""
    (row,) = [line for line in said.rpartition("TASK [Print the summary]")[2].splitlines() if line.split()[:1] == ["team-ml"]]
    return bool(re.search(r" running .* \d+ of \d+", row)) and "failed" not in row


class Existing(Cluster):
    """The lab's cluster, as an inventory that knows no lab has it, from this machine."""

    def __init__(self, lab: Lab, cache: Path, folder: Path) -> None:
        super().__init__(lab, cache)
        self.inventory = folder / "hosts.yml"
        self.environment = os.environ | {"PATH": f"{self.helm_binary.parent}:{os.environ['PATH']}"}
        self.code = 0

    def want(self, kubeconfig: Path | None = None, **variables: Any) -> None:
        host = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "kubegpu_cluster_provider": "existing",
            "kubegpu_kubeconfig": str(kubeconfig or self.kubeconfig),
            "kubegpu_charts": str(self.charts),
            "device_plugin_probe_image": "docker.io/library/busybox:1.37.0",
        }
        self.inventory.write_text(yaml.safe_dump({"kubegpu_clusters": {"hosts": {"shapes": host | variables}}}))

    def play(self, book: str) -> str:
        """Run a playbook, drift as it has to be run, and return what it says."""
        command = ["ansible-playbook", f"playbooks/{book}.yml", f"--inventory={self.inventory}"]
        command += {"drift": ["--check"], "cleanup": ["--extra-vars=kubegpu_confirm=shapes"]}.get(book, [])
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=1200, check=False)
        self.code = done.returncode
        return done.stdout + done.stderr

    def site(self) -> None:
        """Bring the tenant up, verified; a second run changes nothing."""
        said = self.play("site")
        assert self.code == 0, said[-6000:]
        assert passed(said), said[-4000:]
        assert changed(self.play("site")) == 0

    def remove(self) -> None:
        said = self.play("cleanup")
        assert self.code == 0, said[-6000:]
        assert self.kube.get("v1", "Namespace", "tenant-team-ml") is None

    def taint(self, taints: list[Object]) -> None:
        self.kube.patch("v1", "Node", WORKER, {"spec": {"taints": taints or None}})

    def pods(self) -> list[Object]:
        return self.kube.list("v1", "Pod", "tenant-team-ml")


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Existing]:
    with Lab("kubegpu-faults-clusters", lab_options(2, [])) as lab:
        lab.site()
        yield Existing(lab, Path(os.environ["KUBEGPU_CACHE"]), tmp_path_factory.mktemp("inventory"))


def test_tainted_nodes(existing: Existing) -> None:
    """Refused with the line that mends it, and nothing made; with that line, all of a tenant runs on the tainted node."""
    existing.taint([TAINT])
    try:
        existing.want(kubegpu_tenants=[tenant({"count": 1})])
        for book in ("preflight", "site"):
            said = existing.play(book)
            assert existing.code != 0
            found = re.search(r"Write kubegpu_tolerations: (\[\{.*?\}\])", said)
            assert found, said[-4000:]
        assert existing.kube.get("v1", "Namespace", "tenant-team-ml") is None
        existing.want(kubegpu_tenants=[tenant({"count": 1})], kubegpu_tolerations=json.loads(found[1]))
        assert re.search(r"Kubernetes +v[\d.]+, kind", existing.play("preflight"))
        existing.site()
        assert "Probe that a pod on each node gets one GPU" in existing.play("verify")
        assert existing.code == 0
        scheduler = [pod for pod in existing.pods() if pod["metadata"]["name"].startswith("kai-scheduler-default")]
        assert [pod["spec"]["nodeName"] for pod in scheduler] == [WORKER]
        existing.remove()
    finally:
        existing.taint([])


def test_the_gpu_operators_labels(existing: Existing) -> None:
    """Nodes are chosen by what feature discovery says of them, and preflight says who said so."""
    labels = {"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.product": "NVIDIA-H200"}
    existing.kube.patch("v1", "Node", WORKER, {"metadata": {"labels": labels}})
    existing.want(kubegpu_tenants=[tenant({"labels": {"nvidia.com/gpu.product": "NVIDIA-H200"}})])
    said = existing.play("preflight")
    assert existing.code == 0, said[-4000:]
    assert "GPU operator" in said
    assert "Nothing is missing." in said
    existing.site()
    existing.remove()
    existing.kube.patch("v1", "Node", WORKER, {"metadata": {"labels": dict.fromkeys(labels)}})


def test_an_image_that_no_registry_has(existing: Existing) -> None:
    """Found by preflight, by a pod that asks for it; the images that the cluster has are no problem."""
    none = "127.0.0.1:5000/none:1"
    existing.want(kubegpu_tenants=[tenant({"count": 1})], vcluster_tenant_probe_image=none)
    said = existing.play("preflight")
    assert existing.code == 2, said[-4000:]
    assert f"{none}: ErrImagePull" in said
    assert "problems: 1, shown above" in said
    assert existing.kube.get("v1", "Namespace", "tenant-team-ml") is None


def test_a_kubeconfig_as_people_have_it(existing: Existing, tmp_path: Path) -> None:
    """The life of a tenant on a cluster that its proxy alone reaches, by a program that gives the credentials."""
    config = yaml.safe_load(existing.kubeconfig.read_text())
    (cluster,), (user,) = ([item[kind] for item in config[f"{kind}s"]] for kind in ("cluster", "user"))
    credential = {
        f"client{key}Data": base64.b64decode(user[f"client-{key.lower()}-data"]).decode() for key in ("Certificate", "Key")
    }
    here = {"server": cluster["server"], "proxy-url": cluster.pop("proxy-url"), "certificate-authority": "ca.crt"}
    path = kubeconfig_of_people(tmp_path / "people", here, credential)
    (path.parent / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    (tmp_path / "without").write_text(yaml.safe_dump(config))
    with pytest.raises(TenancyError):
        Kube.connect(kubeconfig=str(tmp_path / "without")).list("v1", "Node")
    existing.want(path, kubegpu_tenants=[tenant({"count": 1})])
    assert "Nothing is missing." in existing.play("preflight")
    existing.site()
    for book in ("verify", "drift", "info"):
        said = existing.play(book)
        assert existing.code == 0, said[-6000:]
    assert "team-ml" in said
    copy = FOLDER / "shapes/cluster.yml"
    assert [item["name"] for item in yaml.safe_load(copy.read_text())["contexts"]] == ["dc1"]
    assert Kube.connect(kubeconfig=str(copy)).list("v1", "Node")
    existing.remove()


class Address(socketserver.ThreadingTCPServer):
    """An address of IPv6 at which the API server answers: by a tunnel through the proxy that leads to it."""

    address_family, daemon_threads = socket.AF_INET6, True

    def __init__(self, server: str, proxy: str) -> None:
        super().__init__(("::1", 0), Tunnel)
        self.api_server, self.proxy = urlsplit(server).netloc, urlsplit(proxy)
        self.url = f"https://[::1]:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Tunnel(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Address)
        with socket.create_connection((self.server.proxy.hostname, self.server.proxy.port or 80)) as there:
            there.sendall(f"CONNECT {self.server.api_server} HTTP/1.1\r\nHost: {self.server.api_server}\r\n\r\n".encode())
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += there.recv(1)
            back = threading.Thread(target=self.pump, args=(there, self.request), daemon=True)
            back.start()
            self.pump(self.request, there)
            back.join(5)

    @staticmethod
    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_an_address_of_ipv6(existing: Existing, tmp_path: Path) -> None:
    config = yaml.safe_load(existing.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    with Address(cluster["server"], cluster.pop("proxy-url")) as address:
        cluster |= {"server": address.url, "tls-server-name": "kubernetes"}
        (tmp_path / "ipv6").write_text(yaml.safe_dump(config))
        existing.want(tmp_path / "ipv6", kubegpu_tenants=[])
        assert "Nothing is missing." in existing.play("preflight")
        for book in ("site", "drift", "info"):
            said = existing.play(book)
            assert existing.code == 0, said[-6000:]
        copy = yaml.safe_load((FOLDER / "shapes/cluster.yml").read_text())["clusters"][0]["cluster"]
        assert (copy["server"], copy["tls-server-name"]) == (address.url, "kubernetes")
        existing.remove()
        address.shutdown()


class LoadBalancers(threading.Thread):
    """Give every Service of type LoadBalancer the address of a node, on which kube-proxy then answers for it."""

    def __init__(self, existing: Existing) -> None:
        super().__init__(daemon=True)
        self.existing = existing
        node = existing.kube.get("v1", "Node", CONTROL_PLANE)
        assert node
        self.address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
        self.ended = threading.Event()

    def run(self) -> None:
        status = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": self.address}]}}})
        while not self.ended.wait(1):
            for service in self.existing.kube.list("v1", "Service"):
                if service["spec"].get("type") == "LoadBalancer" and not service["status"].get("loadBalancer"):
                    metadata = service["metadata"]
                    where = ["--namespace", metadata["namespace"], "--subresource=status", "--type=merge", "--patch", status]
                    kubectl = ["kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "patch", "service", metadata["name"]]
                    self.existing.on_node(CONTROL_PLANE, *kubectl, *where)


def test_an_address_by_a_load_balancer(existing: Existing) -> None:
    """The kubeconfig names the address that the load balancer gave, and the certificate there verifies."""
    balancers = LoadBalancers(existing)
    balancers.start()
    try:
        existing.want(kubegpu_tenants=[tenant({"count": 1})], kubegpu_tenant_api={"type": "LoadBalancer"})
        assert "Whether a Service of type LoadBalancer gets an address" in existing.play("preflight")
        existing.site()
        kubeconfig = FOLDER / "shapes/tenants/team-ml.yml"
        assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == f"https://{balancers.address}"
        assert Kube.connect(kubeconfig=str(kubeconfig)).list("v1", "Node")
        existing.remove()
    finally:
        balancers.ended.set()
        balancers.join()


def test_no_runtime_class_and_nvidia_as_the_default_runtime(existing: Existing) -> None:
    """Neither the device plugin nor any pod names a RuntimeClass, and GPUs come by the nodes' default runtime."""
    existing.want(kubegpu_tenants=[tenant({"count": 1}, WHOLE)], kubegpu_runtime_class="")
    script = f"{CONFIGURE} --set-as-default && systemctl restart containerd"
    existing.on_node(WORKER, "bash", "-ec", script)
    plugin = PROVIDERS["device_plugin"]
    without = {"spec": {"template": {"spec": {"runtimeClassName": None}}}}
    # Its chart makes a second one, for GPUs shared by MPS.
    for daemons in existing.kube.list("apps/v1", "DaemonSet", "nvidia-device-plugin", plugin.selector):
        existing.kube.patch("apps/v1", "DaemonSet", daemons["metadata"]["name"], without, "nvidia-device-plugin")
    existing.kube.delete(NODE_API, "RuntimeClass", "nvidia")

    def offers() -> tuple[bool | None, str]:
        try:
            pods = existing.kube.list("v1", "Pod", "nvidia-device-plugin", plugin.selector)
            node = existing.kube.get("v1", "Node", WORKER) or {}
        except TenancyError as exc:
            return None, exc.message
        renewed = pods and not any(pod["spec"].get("runtimeClassName") for pod in pods)
        return (True, "") if renewed and offered(node) == 2 else (None, f"{WORKER} offers {offered(node)} GPUs")

    wait_for("a device plugin without a RuntimeClass", offers, Deadline(120), interval=2)
    existing.site()
    assert not [pod for pod in existing.pods() if pod["spec"].get("runtimeClassName")]
    # Parts of GPUs are reserved by pods that name the class in this release.
    existing.want(kubegpu_tenants=[tenant({"count": 1})], kubegpu_runtime_class="")
    assert "reservation pods name the RuntimeClass nvidia" in " ".join(existing.play("preflight").split())
    existing.want(kubegpu_tenants=[tenant({"count": 1}, WHOLE)], kubegpu_runtime_class="")
    existing.remove()


def test_a_host_with_a_single_gpu() -> None:
    with Lab("kubegpu-faults-single", lab_options(1, [tenant({"count": 1})])) as lab:
        assert passed(lab.site())
        assert changed(lab.site()) == 0
