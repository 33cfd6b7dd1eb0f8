# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the double of nvkind: that it does what its commit was seen to do, with fakes of the programs that it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.nvkind_output import nvkind_error
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.nvidia import Gpu
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind import plan

DOUBLE = Path(__file__).parents[1] / "doubles/nvkind.py"
GPUS = [Gpu(index, f"GPU-{index:04x}", index) for index in range(4)]
FAKE = """#!{python} -IS
import json, os, pathlib, sys
state, name, args = pathlib.Path("{state}"), os.path.basename(sys.argv[0]), sys.argv[1:]
known, nodes = state / "clusters", ["lab-control-plane", "lab-worker", "lab-worker2"]
with open(state / "log", "a") as log:
    print(name, *(arg for arg in args if "\\n" not in arg), file=log)
if name == "kind" and args[0] == "create":
    if known.exists():
        sys.exit('ERROR: failed to create cluster: node(s) already exist for a cluster with the name "lab"')
    (state / "config").write_text(sys.stdin.read())
    known.write_text("lab")
    if os.environ.get("NVKIND_DOUBLE") == "killed":
        import time; time.sleep(60)
elif name == "kind":
    if args[1] == "nodes" and "KIND_EXPERIMENTAL_PROVIDER" in os.environ:
        print("using docker due to KIND_EXPERIMENTAL_PROVIDER", file=sys.stderr)
    print("\\n".join(nodes[::-1]) if args[1] == "nodes" else known.read_text() if known.exists() else "")
elif name == "docker" and args[0] == "ps":
    print("\\n".join(nodes) if known.exists() else "")
elif name == "docker" and args[2] == "nvidia-smi":
    print("0, NVIDIA H200, GPU-0001")
elif name == "docker" and "exit " in args[-1]:
    sys.exit(int(args[-1].split("exit ")[1]))
elif name == "kubectl" and "configmap" in args:
    stored = state / "configmap"
    if "get" in args:
        if not stored.exists():
            sys.exit('Error from server (NotFound): configmaps "nvkind-cluster-config" not found')
        print(json.dumps({{"data": {{"config": stored.read_text()}}}}))
    elif stored.exists():
        sys.exit(1)
    else:
        stored.write_text(sys.stdin.read())
elif name == "nvidia-smi":
    print("GPU 0\\nGPU 1\\nGPU 2\\nGPU 3")
"""


class Nvkind:
    def __init__(self, state: Path) -> None:
        self.state = state
        (state / "bin").mkdir()
        for name in ("kind", "docker", "kubectl", "nvidia-smi"):
            path = state / "bin" / name
            path.write_text(FAKE.format(python=sys.executable, state=state))
            path.chmod(0o755)
        self.template = state / "template.yml"
        nodes = plan.plan_nodes("lab", [{"gpus": [1]}, {}], GPUS)
        self.config = plan.kind_config(nodes, "/certs", True, True, {}, by_index=True)
        self.template.write_text(plan.nvkind_template(self.config))

    def __call__(self, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("KIND", "NVKIND", "KUBE"))}
        path = f"{self.state}/bin:{os.environ['PATH']}"
        command = [sys.executable, str(DOUBLE), "cluster", *args]
        environment = clean | {"PATH": path} | environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def create(self, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self("create", "--name", "lab", "--config-template", str(self.template), *args, **environment)

    def log(self) -> list[str]:
        path = self.state / "log"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def nvkind(tmp_path: Path) -> Nvkind:
    return Nvkind(tmp_path)


def error(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 255, done
    assert "goroutine 1 [running]" in done.stderr
    return nvkind_error(done.stderr)


def test_create_makes_the_cluster_from_the_modules_own_configuration(nvkind: Nvkind) -> None:
    done = nvkind.create("--image", "node:v1")
    assert done.returncode == 0, done.stderr
    wanted = nvkind.config | {"name": "lab", "nodes": [node | {"image": "node:v1"} for node in nvkind.config["nodes"]]}
    assert yaml.safe_load((nvkind.state / "config").read_text()) == wanted
    assert yaml.safe_load((nvkind.state / "configmap").read_text()) == wanted
    log = nvkind.log()
    assert "kind create cluster --name lab --config -" in log
    assert log[-1] == "kubectl --context kind-lab apply -f -"
    # Only the worker with a GPU is set up, and loses the others by index.
    assert {line.split()[2] for line in log if line.startswith("docker exec")} == {"lab-worker"}
    assert [index for index in range(4) if any(f"rm -rf /dev/nvidia{index}" in line for line in log)] == [0, 2, 3]


def test_print_gpus_and_list(nvkind: Nvkind) -> None:
    assert nvkind("list").stdout == "No kind clusters found.\n"
    assert error(nvkind("print-gpus", "--name", "lab")) == "unknown cluster: lab"
    nvkind.create()
    assert nvkind("list").stdout == "lab\n"
    listed = json.loads(nvkind("print-gpus", "--name", "lab").stdout)
    assert listed == [{"node": "lab-worker", "gpus": [{"Index": "0", "Name": "NVIDIA H200", "UUID": "GPU-0001"}]}]
    # A cluster made by kind alone.
    (nvkind.state / "configmap").unlink()
    assert "getting config bytes: getting configmap: " in error(nvkind("print-gpus", "--name", "lab"))


def test_there_is_no_delete(nvkind: Nvkind) -> None:
    done = nvkind("delete", "--name", "lab")
    assert (done.returncode, done.stderr) == (3, "No help topic for 'delete'\n")


@pytest.mark.parametrize(("value", "words"), [("true", "duration value"), ("1m", "bool value")])
def test_no_value_of_the_shared_variable_is_accepted(nvkind: Nvkind, value: str, words: str) -> None:
    assert f"{words} from environment variable" in error(nvkind.create(KIND_CLUSTER_RETAIN=value))
    assert nvkind.log() == []


def test_flags_are_passed_on_but_for_the_kubeconfig(nvkind: Nvkind) -> None:
    assert nvkind.create("--retain", "--wait=5s", "--kubeconfig=/elsewhere", "--skip-gpu-setup").returncode == 0
    assert "kind create cluster --name lab --config - --retain --wait 5s" in nvkind.log()
    assert [line for line in nvkind.log() if "elsewhere" in line or line.startswith("docker")] == []
    assert error(nvkind("create", "--labels=x")) == "flag provided but not defined: -labels"


def test_a_second_create_fails(nvkind: Nvkind) -> None:
    nvkind.create()
    assert "already exist for a cluster" in error(nvkind.create())
    assert error(nvkind.create("--image", "other")).endswith("cannot pass new config to existing cluster")


def test_what_kind_prints_beside_the_nodes_is_taken_for_a_node(nvkind: Nvkind) -> None:
    done = nvkind.create(KIND_EXPERIMENTAL_PROVIDER="docker")
    assert error(done).startswith("getting cluster nodes: unable to determine node role from name: ")
    assert (nvkind.state / "configmap").exists()


@pytest.mark.parametrize(
    ("mode", "words", "set_up"),
    [
        ("umount", "patching /proc/driver/nvidia on node 'lab-worker': masking", True),
        ("offline", "installing container toolkit on node 'lab-worker': running script on lab-worker: executing", False),
        ("configmap", "creating cluster: adding config to cluster: writing configmap: %!w(<nil>)", False),
    ],
)
def test_it_fails_after_the_cluster_was_made(nvkind: Nvkind, mode: str, words: str, set_up: bool) -> None:
    assert error(nvkind.create(NVKIND_DOUBLE=mode)).startswith(words)
    log = nvkind.log()
    assert (nvkind.state / "clusters").exists()
    assert any("nvidia-ctk" in line for line in log) == set_up
    assert not any("apply" in line for line in log)


def test_it_is_killed_when_there_are_containers(nvkind: Nvkind) -> None:
    done = nvkind.create(NVKIND_DOUBLE="killed")
    assert done.returncode == -9
    assert not (nvkind.state / "configmap").exists()


def test_what_it_cannot_do_like_the_real_one_it_refuses(nvkind: Nvkind) -> None:
    nvkind.template.write_text("{{ range .workers }}{{ end }}")
    assert "cannot execute templates" in nvkind.create().stderr
