# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods in gVisor, by gVisor's own shim for containerd, on a cluster of one node; and the check of a tenant's sandbox there.

The shim lowers its OOM score, for which root in many containers lacks the capability: the lab's nodes cannot run it. So the node is a machine of its
own. It has the kubelet and kube-proxy; the control plane's programs run beside it, because they would start too slowly where it is emulated.
Programs and images are those of the lab.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils._build import Builder
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import Program, recipe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import namespace_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.plan import hosts_toml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import node_selector
from ansible_collections.kubegpu.tenancy.tests.faults.api_server import ApiServer
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, free_ports
from ansible_collections.kubegpu.tenancy.tests.machine.machines import ADDRESS, AROUND, PROXY, Machine
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import LAB, ROLE, VERSIONS, built

Object = dict[str, Any]
GVISOR = Program("gvisor", "v0.0.0-20260905035102-160fafc42237", "gvisor.dev/gvisor")
CRI_TOOLS = Program("cri-tools", "v1.34.0", "sigs.k8s.io/cri-tools")
PACKAGES = (
    "containerd",
    "runc",
    "containernetworking-plugins",
    "conntrack",
    "ethtool",
    "iptables",
    "mount",
    "socat",
    "tinyproxy-bin",
)
BUSYBOX = "docker.io/library/busybox:1.37.0"
# Seconds for each step on a machine that is emulated, by a computer that does something else.
PATIENCE = 2400
CLASS, TENANT = "gvisor", "wall"
RUNTIMES = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
CONTAINERD = f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "registry.k8s.io/pause:3.10.1"
cni.bin_dir = "/usr/lib/cni"
registry.config_path = "/etc/containerd/certs.d"
{RUNTIMES}.runc]
runtime_type = "io.containerd.runc.v2"
options.SystemdCgroup = true
{RUNTIMES}.runsc]
runtime_type = "io.containerd.runsc.v1"
options.TypeUrl = "io.containerd.runsc.v1.options"
options.ConfigPath = "/etc/containerd/runsc.toml"
"""
RUNSC = """[runsc_config]
platform = "systrap"
systemd-cgroup = "true"
"""
NETWORK = {
    "cniVersion": "0.4.0",
    "name": "machine",
    "plugins": [
        {
            "type": "ptp",
            "ipMasq": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]},
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
SERVICE = """[Service]
ExecStart=/usr/local/bin/%s
Restart=always
RestartSec=5
"""
KUBELET = SERVICE % f"kubelet --kubeconfig=/root/kubeconfig --config=/root/kubelet.yaml --node-ip={ADDRESS}"
KUBE_PROXY = SERVICE % "kube-proxy --kubeconfig=/root/kubeconfig --cluster-cidr=10.244.0.0/16"
KUBELET_SETTINGS = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "cgroupDriver": "systemd",
    "runtimeRequestTimeout": "15m0s",
    # The API server beside the machine does not reach it.
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
}
TINYPROXY = f"""[Service]
ExecStart=/bin/sh -c 'echo Port {PROXY} > /run/tinyproxy.conf; exec tinyproxy -d -c /run/tinyproxy.conf'
"""


def both() -> tuple[Builder, Builder]:
    """Build what the lab has and what only this test needs once for the user's cache; the first has the lab's registry."""
    lab = Builder(recipe(VERSIONS | {"kai": [], "frameworks": []}, LAB), Path(os.environ["KUBEGPU_CACHE"]), ROLE / "files", print)
    lab.build()
    return lab, built(Path(__file__).parent, GVISOR, CRI_TOOLS)


def furnish(machine: Machine, lab: Builder, more: Builder) -> None:
    """Add containerd's two runtimes, the network, Kubernetes and the way to the lab's images."""
    kubernetes = next(lab.program_dir(program) for program in lab.recipe.programs if program.name == "kubernetes")
    programs = {name: kubernetes / name for name in ("kubelet", "kube-proxy")}
    programs |= {"runsc": more.program_dir(GVISOR) / "runsc", "containerd-shim-runsc-v1": more.program_dir(GVISOR) / "shim"}
    for name, path in (programs | {"crictl": more.program_dir(CRI_TOOLS) / "crictl"}).items():
        shutil.copy2(path, machine.root / "usr/local/bin" / name)
    for image in (*lab.recipe.node_images, *lab.recipe.images):
        registry = image.ref.partition("/")[0]
        mirror = f"http://{lab.server.address.replace('127.0.0.1', AROUND)}/v2/{registry}"
        machine.write(f"etc/containerd/certs.d/{registry}/hosts.toml", hosts_toml(mirror))
    files = {
        "etc/containerd/config.toml": CONTAINERD,
        "etc/containerd/runsc.toml": RUNSC,
        "etc/cni/net.d/10-machine.conflist": json.dumps(NETWORK),
        "etc/crictl.yaml": "runtime-endpoint: unix:///run/containerd/containerd.sock\ntimeout: 600\n",
        "etc/sysctl.d/forward.conf": "net.ipv4.ip_forward = 1\n",
        "etc/systemd/system/kubelet.service": KUBELET,
        "etc/systemd/system/kube-proxy.service": KUBE_PROXY,
        "etc/systemd/system/tinyproxy.service": TINYPROXY,
        "root/kubelet.yaml": json.dumps(KUBELET_SETTINGS),
    }
    for path, text in files.items():
        machine.write(path, text)


@pytest.fixture(name="machine", scope="module")
def _machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    lab, more = both()
    with lab.server.serving(), Machine(tmp_path_factory.mktemp("machine")) as machine:
        machine.unpack(PACKAGES)
        furnish(machine, lab, more)
        machine.start("20G", "8G")
        machine.run("systemctl start containerd tinyproxy")
        yield machine


class ControlPlane(ApiServer):
    """Kubernetes' control plane, which the machine's network leads to."""

    def __init__(self, folder: Path, programs: Path) -> None:
        options = (f"--advertise-address={AROUND}", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true")
        super().__init__(folder, programs, *options)
        self._programs = programs

    @property
    def kubeconfig(self) -> Path:
        """By which the machine, and through its proxy this one, reaches it."""
        path = super().kubeconfig
        config = yaml.safe_load(path.read_text())
        cluster = config["clusters"][0]["cluster"]
        certificate = base64.b64encode(Path(cluster.pop("certificate-authority")).read_bytes()).decode()
        cluster |= {"server": f"https://{AROUND}:{self.port}", "certificate-authority-data": certificate}
        path.write_text(yaml.safe_dump(config))
        return path

    def wait(self) -> None:
        """Wait until it answers, and start the controllers and the scheduler."""
        certificate = self.folder / "certificates/apiserver.crt"
        url = f"https://127.0.0.1:{self.port}/readyz"

        def ready() -> tuple[bool | None, str]:
            command = ["curl", "--silent", "--insecure", "--header", "Authorization: Bearer of-the-test", url]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return (True, "") if done.stdout == "ok" and certificate.exists() else (None, done.stdout)

        wait_for("the API server", ready, Deadline(PATIENCE), 1.0)
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster = {"server": f"https://127.0.0.1:{self.port}", "tls-server-name": "kubernetes.default.svc"}
        config["clusters"][0]["cluster"] |= cluster
        (self.folder / "here").write_text(yaml.safe_dump(config))
        keys = (f"--root-ca-file={certificate}", "--service-account-private-key-file=key")
        for name, options in (("kube-controller-manager", keys), ("kube-scheduler", ())):
            (port,) = free_ports(1)
            command = [next(self._programs.glob(f"kubernetes-*/{name}")), "--kubeconfig=here", "--leader-elect=false"]
            command += ["--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={name}", *options]
            self.processes.append(subprocess.Popen(command, cwd=self.folder, stdout=self._log, stderr=self._log))


class Cluster:
    """Kubernetes, as an existing cluster that is reached from here through the machine's proxy.

    :ivar kernel: release of the node's kernel.
    """

    def __init__(self, machine: Machine, control_plane: ControlPlane, folder: Path) -> None:
        self.kernel = machine.run("uname -r").strip()
        config = yaml.safe_load(control_plane.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["proxy-url"] = machine.proxy
        kubeconfig = folder / "administrator.yml"
        kubeconfig.write_text(yaml.safe_dump(config))
        self._kubeconfig, self.kube = kubeconfig, Kube.connect(kubeconfig=str(kubeconfig))

    def wait(self) -> None:
        """Wait until its node is ready."""

        def ready() -> tuple[bool | None, str]:
            conditions = [one for node in self.kube.list("v1", "Node") for one in node["status"].get("conditions", [])]
            return (
                (True, "")
                if {"Ready": "True"}.items() <= {one["type"]: one["status"] for one in conditions}.items()
                else (None, str(conditions))
            )

        wait_for("the node", ready, Deadline(PATIENCE), 2.0)

    def handler(self, name: str) -> None:
        """Have the RuntimeClass gvisor lead to a handler of containerd, which cannot be changed in one that is there."""
        if self.kube.get("node.k8s.io/v1", "RuntimeClass", CLASS):
            self.kube.delete("node.k8s.io/v1", "RuntimeClass", CLASS)
        self.kube.create({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": CLASS}, "handler": name})

    def checks(self) -> dict[str, tuple[str, str]]:
        """What the check of a tenant's sandbox says: verdict and reason by the check's name."""
        options = {
            "kind": "sandbox",
            "tenant": TENANT,
            "runtime_class": CLASS,
            "kubeconfig": str(self._kubeconfig),
            "image": BUSYBOX,
            "timeout": PATIENCE,
        }
        command = ["ansible", "localhost", "--module-name=kubegpu.tenancy.probe", f"--args={json.dumps(options)}"]
        command += ["--extra-vars=ansible_python_interpreter={{ansible_playbook_python}}"]
        environment = os.environ | {"ANSIBLE_LOAD_CALLBACK_PLUGINS": "true", "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
        )
        (task,) = (task for play in json.loads(done.stdout)["plays"] for task in play["tasks"])
        said = task["hosts"]["localhost"]
        return {one["name"]: (one["verdict"], one["reason"]) for one in said["results"]}


@pytest.fixture(name="cluster", scope="module")
def _cluster(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with ControlPlane(folder / "control-plane", Path(os.environ["KUBEGPU_CACHE"]) / "programs") as control_plane:
        control_plane.wait()
        machine.run("cat >/root/kubeconfig; systemctl start kubelet kube-proxy", given=control_plane.kubeconfig.read_text())
        cluster = Cluster(machine, control_plane, folder)
        cluster.wait()
        yield cluster


def test_a_pod_of_two_containers_runs_in_gvisor(machine: Machine) -> None:
    """By containerd alone. Both containers run, in a kernel that is not the machine's, and what is removed leaves no process."""
    parent = {"linux": {"cgroup_parent": "machine.slice"}}
    names = {"name": "two", "namespace": "default", "uid": "two", "attempt": 0}
    machine.run("cat >sandbox.json", given=json.dumps({"metadata": names, "log_directory": "/tmp"} | parent))
    for name in ("first", "second"):
        image = {"image": {"image": BUSYBOX}, "command": ["sleep", "infinity"], "log_path": f"{name}.log"}
        machine.run(f"cat >{name}.json", given=json.dumps({"metadata": {"name": name}} | image))
    machine.run(f"crictl pull {BUSYBOX}")
    pod = machine.run("crictl runp --runtime=runsc sandbox.json", PATIENCE).strip()
    for name in ("first", "second"):
        machine.run(f"crictl start $(crictl create {pod} {name}.json sandbox.json)", PATIENCE)
    containers = json.loads(machine.run(f"crictl ps --all --pod {pod} --output json"))["containers"]
    assert sorted((one["metadata"]["name"], one["state"]) for one in containers) == [
        ("first", "CONTAINER_RUNNING"),
        ("second", "CONTAINER_RUNNING"),
    ]
    kernel = machine.run("uname -r").strip()
    for one in containers:
        said = machine.run(f"crictl exec {one['id']} sh -c 'uname -r; dmesg'", PATIENCE)
        assert "Starting gVisor..." in said
        assert said.split()[0] != kernel
    everything = "ps -e -o args="
    assert "containerd-shim-runsc-v1" in machine.run(everything)
    machine.run(f"crictl stopp {pod}; crictl rmp {pod}", PATIENCE)
    assert "runsc" not in machine.run(everything)


def test_the_check_of_a_sandbox_tells_gvisor_from_runc(cluster: Cluster) -> None:
    """A class named gvisor passes where its handler leads there, and fails where it leads to plain runc."""
    cluster.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace_of(TENANT)}})
    cluster.kube.patch("v1", "Node", "machine", {"metadata": {"labels": node_selector(TENANT)}})
    cluster.handler("runsc")
    verdict, reason = cluster.checks()["sandbox kernel"]
    assert verdict == "passed"
    assert re.fullmatch(r"it sees kernel \S+-gvisor of another boot than that of node machine", reason)
    cluster.handler("runc")
    verdict, reason = cluster.checks()["sandbox kernel"]
    assert verdict == "failed"
    assert reason.startswith(f"it sees the kernel of node machine, {cluster.kernel}: RuntimeClass gvisor is no sandbox there.")
