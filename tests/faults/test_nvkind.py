# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to a cluster in Docker and to the programs that make it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from ansible_collections.kubegpu.tenancy.tests.faults.labs import CONTROL_PLANE, ROOT, Lab, changed

WORKER = "kubegpu-worker"
VARIABLES = {"lab_gpus": 3, "nvkind_workers": [{"gpus": [0, 2]}], "kubegpu_tenants": []}
DOUBLE = "/usr/local/lib/nvkind-double.py"
BY_NVKIND = "--extra-vars=nvkind_engine=nvkind"


class Host(Lab):
    """A lab with a cluster and nothing in it."""

    def nodes(self) -> list[str]:
        """The nodes' containers."""
        return self.run("docker", "ps", "--all", "--quiet", "--no-trunc").split()

    def delete_cluster(self) -> None:
        self.run("kind", "delete", "cluster", "--name=kubegpu")

    def gpus(self, *node: str) -> list[str]:
        """UUIDs that the host, or a node, sees."""
        return re.findall(r"GPU-[0-9a-f-]{36}", self.run(*node, "nvidia-smi", "-L"))

    def devices(self, node: str) -> list[str]:
        listing = "ls /dev | grep -x 'nvidia[0-9]*' || true"
        return self.run("docker", "exec", node, "sh", "-c", listing).split()

    def settle(self, *args: str) -> str:
        """The next run, after which every node sees its GPUs and no others, and there is nothing more to do."""
        output = self.site(*args)
        host = self.gpus()
        assert self.gpus("docker", "exec", WORKER) == [host[0], host[2]]
        assert (self.devices(WORKER), self.devices(CONTROL_PLANE)) == (["nvidia0", "nvidia2"], [])
        assert changed(self.site(*args)) == 0
        return output

    def install_nvkind(self, mode: str) -> None:
        """Install the double, which fails in this mode."""
        subprocess.run(["docker", "cp", str(ROOT / "tests/doubles/nvkind.py"), f"{self.name}:{DOUBLE}"], check=True)
        wrapper = f'#!/bin/sh\nNVKIND_DOUBLE={mode} exec python3 {DOUBLE} "$@"\n'
        self.run("sh", "-c", 'printf %s "$1" > /usr/local/bin/nvkind && chmod 755 /usr/local/bin/nvkind', "sh", wrapper)


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host("kubegpu-faults-nvkind", f"--extra-vars={json.dumps(VARIABLES)}", "--tags=lab,cluster") as made:
        made.settle()
        yield made
        made.options = made.options[:-1]


def test_gpus_that_came_or_went_in_a_node_are_put_right(host: Host) -> None:
    nodes = host.nodes()
    host.run("docker", "exec", WORKER, "sh", "-c", "rm /dev/nvidia2; mknod -m 666 /dev/nvidia1 c 195 1")
    host.run("docker", "exec", CONTROL_PLANE, "mknod", "-m", "666", "/dev/nvidia0", "c", "195", "0")
    host.settle()
    assert host.nodes() == nodes


def test_what_a_node_has_of_the_toolkit_is_put_right(host: Host) -> None:
    host.run("docker", "exec", WORKER, "rm", "-f", "/usr/bin/nvidia-ctk", "/etc/containerd/conf.d/99-nvidia.toml")
    host.settle()


def test_a_node_that_is_gone_is_reported_and_only_made_with_all_others_when_allowed(host: Host) -> None:
    host.run("docker", "rm", "--force", "--volumes", WORKER)
    nodes = host.nodes()
    output = " ".join(host.play("site").split())
    assert host.code != 0
    assert f"{WORKER} is missing, wanted is worker, GPUs 0, 2" in output
    assert "Pass recreate" in output
    assert host.nodes() == nodes
    host.site("--extra-vars=nvkind_recreate=true")
    host.settle()
    assert not set(nodes) & set(host.nodes())


def test_a_host_that_stops_while_the_cluster_is_made(host: Host) -> None:
    host.delete_cluster()
    host.kill_site_at("nvkind : Make the cluster", 12)
    subprocess.run(["docker", "stop", host.name], check=True, capture_output=True, timeout=120)
    host.settle()


def test_nvkind_makes_the_cluster(host: Host) -> None:
    host.install_nvkind("")
    host.delete_cluster()
    assert "nvkind cluster create ended" not in host.settle(BY_NVKIND)


@pytest.mark.parametrize(
    ("mode", "meaning"),
    [
        ("offline", "installs NVIDIA's toolkit from the internet"),
        ("configmap", "nvkind loses the cause here"),
    ],
)
def test_nvkind_fails_and_its_cluster_is_whole_all_the_same(host: Host, mode: str, meaning: str) -> None:
    host.install_nvkind(mode)
    host.delete_cluster()
    output = " ".join(host.settle(BY_NVKIND).split())
    assert meaning in output
    assert "All the same its nodes are ready, with the GPUs that were asked for." in output


def test_nvkind_is_killed_and_the_next_run_makes_the_cluster_anew(host: Host) -> None:
    host.install_nvkind("killed")
    host.delete_cluster()
    output = " ".join(host.play("site", BY_NVKIND).split())
    assert host.code != 0
    assert "nvkind cluster create was killed" in output
    assert "The cluster is not whole" in output
    # By the other engine, because one is as good as the other.
    host.settle()
