# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway of a GPU host, tried from another machine of its network: what is reached, what is not, and what is left of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab, changed

ML = {"name": "team-ml", "trust": "high", "gpu_nodes": {"count": 1}, "vcluster": {"kubernetes_version": "v1.35.4"}}
WEB = {"name": "web", "trust": "partial", "vcluster": {"kubernetes_version": "v1.35.4"}}
BASE = {"lab_gpus": 2, "nvkind_workers": [{"gpus": [0, 1]}], "lab_network_policies": True}
NODES = ("kubegpu-control-plane", "kubegpu-worker")
UNIT = "kubegpu-gateway-kubegpu.service"


class GatewayLab(Lab):
    """A lab, and a container beside its host.

    :ivar before: the host without a gateway.
    """

    def __init__(self) -> None:
        super().__init__("kubegpu-faults-gateway")
        self.before: list[str] = []
        self.networks: list[str] = []

    def inspect(self, *args: str) -> Any:
        done = subprocess.run(["docker", *args, "inspect", self.name], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[0]

    @property
    def address(self) -> str:
        return str(self.inspect("container")["NetworkSettings"]["Networks"][self.name]["IPAddress"])

    def learn_network(self) -> None:
        """Remember the networks of which the container beside the host is part."""
        configured = self.inspect("network")["IPAM"]["Config"]
        self.networks = [item["Subnet"] for item in configured if ":" not in item["Subnet"]]

    def beside(self, script: str, given: str = "") -> tuple[int, str]:
        """Run a script in a container on the host's network that is not on the host.

        :arg given: what it reads.
        """
        options = [
            "--rm",
            "--interactive",
            f"--network={self.name}",
            f"--label=kubegpu.tenancy.lab={self.name}",
            "--entrypoint=bash",
        ]
        command = ["docker", "run", *options, self.inspect("container")["Image"], "-c", script]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    def kubectl(self, name: str, *args: str) -> tuple[int, str]:
        """Run kubectl beside the host with a kubeconfig that was handed over."""
        kubectl = f"kubectl --kubeconfig /tmp/kubeconfig --request-timeout=10s {' '.join(args)}"
        return self.beside(f"cat > /tmp/kubeconfig; {kubectl}", self.kubeconfig(name).read_text())

    def kubeconfig(self, name: str) -> Path:
        return Path(f"~/.kube/kubegpu/{self.name}/{name}.yml").expanduser()

    def cluster(self, name: str) -> dict[str, Any]:
        """Return the cluster of a kubeconfig that was handed over."""
        found: dict[str, Any] = yaml.safe_load(self.kubeconfig(name).read_text())["clusters"][0]["cluster"]
        return found

    def port(self, name: str) -> int:
        return int(self.cluster(name)["server"].rpartition(":")[2])

    def connects(self, port: int) -> bool:
        """Tell whether a port of the host takes connections from beside it."""
        return self.beside(f"timeout 5 bash -c '< /dev/tcp/{self.address}/{port}'")[0] == 0

    def desired(self, *tenants: dict[str, Any], **gateway: Any) -> str:
        """Return the option for these tenants and a gateway; without one where nothing is said of it."""
        reached = {"kubegpu_gateway": {"address": self.address, "allow": self.networks} | gateway} if gateway else {}
        return f"--extra-vars={json.dumps(BASE | {'kubegpu_tenants': tenants} | reached)}"

    def open(self, *tenants: dict[str, Any], **gateway: Any) -> str:
        return self.site(self.desired(*tenants, **({"cluster_api": False} | gateway)))


def host_files(lab: Lab) -> list[str]:
    """Return the files, units and packages of the host that have to do with a gateway."""
    return [line for line in lab.listing() if "gateway" in line or "haproxy" in line]


@pytest.fixture(scope="module", name="lab")
def _lab() -> Iterator[GatewayLab]:
    lab, without = GatewayLab(), f"--extra-vars={json.dumps(BASE | {'kubegpu_tenants': [ML, WEB]})}"
    try:
        lab.site(without)
        lab.learn_network()
        lab.before = host_files(lab)
        lab.open(ML, WEB)
        yield lab
    finally:
        said = lab.play("cleanup", without)
        assert (lab.code, lab.everything()) == (0, []), said[-6000:]


def test_each_tenant_is_reached_from_another_machine_by_its_kubeconfig(lab: GatewayLab) -> None:
    """kubectl verifies the certificate, which has to name the gateway."""
    for name in ("team-ml", "web"):
        leads = lab.cluster(f"tenants/{name}")
        assert (leads["server"].rpartition(":")[0], leads.keys() & {"proxy-url", "insecure-skip-tls-verify"}) == (
            f"https://{lab.address}",
            set(),
        )
        code, said = lab.kubectl(f"tenants/{name}", "get", "namespaces", "--output=name")
        assert (code, "namespace/kube-system" in said) == (0, True), said
    assert lab.port("tenants/team-ml") != lab.port("tenants/web")
    assert changed(lab.open(ML, WEB)) == 0


def test_the_host_clusters_api_is_closed_until_it_is_asked_for(lab: GatewayLab) -> None:
    port = lab.port("cluster")
    assert not lab.connects(port)
    assert lab.cluster("cluster")["server"] == f"https://127.0.0.1:{port}"

    lab.open(ML, WEB, cluster_api=True)
    code, said = lab.kubectl("cluster", "get", "nodes", "--output=name")
    assert (code, "node/kubegpu-worker" in said) == (0, True), said
    lab.open(ML, WEB)
    assert not lab.connects(port)


def test_a_network_that_is_not_allowed_is_refused(lab: GatewayLab) -> None:
    lab.open(ML, WEB, allow=["192.0.2.0/24"])
    code, said = lab.kubectl("tenants/web", "get", "namespaces")
    assert code != 0, said
    lab.open(ML, WEB)
    code, said = lab.kubectl("tenants/web", "get", "namespaces")
    assert code == 0, said


def test_a_restart_of_docker_leaves_address_and_ports_as_they_were(lab: GatewayLab) -> None:
    kubeconfig = lab.kubeconfig("tenants/web").read_text()
    lab.run("systemctl", "restart", "docker")
    # Of those that Docker did not start again itself, as site does.
    lab.run("docker", "start", *NODES)

    def answers() -> tuple[bool | None, str]:
        code, said = lab.kubectl("tenants/web", "get", "namespaces", "--output=name")
        return (True if code == 0 else None), said

    wait_for("the tenant to answer", answers, 420, 5)
    lab.open(ML, WEB)
    assert lab.kubeconfig("tenants/web").read_text() == kubeconfig


def test_a_port_that_is_held_is_refused_with_the_name_of_what_holds_it(lab: GatewayLab) -> None:
    port = lab.port("tenants/web")
    lab.run("systemctl", "stop", UNIT)
    script = f"import socket, time; s = socket.create_server(('{lab.address}', {port})); time.sleep(600)"
    lab.run("systemd-run", "--unit=squatter", "python3", "-c", script)
    try:
        said = " ".join(lab.play("site", lab.desired(ML, WEB, cluster_api=False)).split())
    finally:
        lab.run("systemctl", "stop", "squatter")
    assert lab.code != 0
    assert f"port {port} of {lab.address}, for web, cannot be bound: python3 listens there (process " in said
    assert "of squatter.service)" in said
    lab.open(ML, WEB)


def test_a_removed_tenant_loses_its_port_at_once(lab: GatewayLab) -> None:
    port = lab.port("tenants/web")
    assert lab.connects(port)
    said = lab.play("playbooks/cleanup", "--extra-vars=kubegpu_only=web", lab.desired(ML, WEB, cluster_api=False))
    assert lab.code == 0, said[-6000:]
    assert not lab.connects(port)
    code, said = lab.kubectl("tenants/team-ml", "get", "namespaces")
    assert code == 0, said


def test_without_the_variable_nothing_of_it_is_left(lab: GatewayLab) -> None:
    ports = [lab.port("tenants/team-ml")]
    drift = lab.play("playbooks/drift", "--check", lab.desired(ML, WEB))
    assert (lab.code, "lab: gateway, address: " in drift) == (2, True), drift[-6000:]
    lab.site(lab.desired(ML, WEB))
    assert host_files(lab) == lab.before
    assert not any(lab.connects(port) for port in ports)
    assert "proxy-url" in lab.cluster("tenants/team-ml")
