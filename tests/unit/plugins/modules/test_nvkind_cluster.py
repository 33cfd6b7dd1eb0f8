# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module nvkind_cluster against a Docker that remembers."""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils import _kind
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.modules.nvkind_cluster import Cluster

GPUS = [_kind.Gpu(index, f"GPU-{index:04x}", index) for index in range(2)]


class FakeHost:
    def gpus(self) -> list[_kind.Gpu]:
        return GPUS

    def programs(self) -> dict[str, tuple[str, str]]:
        return {name: (f"/opt/{name}", "a" * 64) for name in _kind.PROGRAMS}

    def config(self) -> None:
        return None

    def cgroup_v1(self) -> bool:
        return True

    def user_namespace(self) -> bool:
        return False


class FakeDocker:
    """Nodes as data: what was copied or done in them stays until they are deleted."""

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, t.Any]] = {}
        self.inside: dict[str, dict[str, str]] = {}
        self.tainted = True
        self.labels: dict[str, dict[str, str]] = {}
        self.calls: list[str] = []
        self.fail_create = False
        self.ready = "True"

    def nodes(self, cluster: str) -> list[dict[str, t.Any]]:
        return list(self.containers.values())

    def create_cluster(self, name: str, image: str | None, config: dict[str, t.Any], kubeconfig: str, timeout: int) -> None:
        self.calls.append("create")
        for place, node in enumerate(config["nodes"]):
            node_name = f"{name}-control-plane" if not place else f"{name}-worker{place if place > 1 else ''}"
            self.containers[node_name] = {
                "Name": f"/{node_name}",
                "Config": {"Image": image or "default", "Labels": {_kind.ROLE_LABEL: node["role"]}},
                "State": {"Status": "running"},
                "Mounts": [{"Source": m["hostPath"], "Destination": m["containerPath"]} for m in node["extraMounts"]],
            }
            self.inside[node_name] = {}
        if self.fail_create:
            raise TenancyError("kind create cluster failed: killed")

    def delete_cluster(self, name: str, kubeconfig: str) -> None:
        self.calls.append("delete")
        self.containers.clear()
        self.inside.clear()
        self.labels.clear()
        self.tainted = True

    def start(self, containers: list[str]) -> None:
        self.calls.append("start")
        for name in containers:
            self.containers[name]["State"]["Status"] = "running"

    def copy(self, container: str, source: str, place: str) -> None:
        self.calls.append("copy")
        self.inside[container][place] = "a" * 64

    def script(self, container: str, script: str, *args: str) -> str:
        files = self.inside[container]
        if script != _kind.INSPECT:
            self.calls.append("script")
            for place, text in re.findall(r"/dev/stdin (\S+) << 'END'\n(.*?)END\n", script, re.DOTALL):
                files[place] = hashlib.sha256(text.encode()).hexdigest()
            files |= {"runtime": ""} if "runtime configure" in script else {}
            return ""
        confined = _kind.CONFINE_SCRIPT in files
        asked = [m["Destination"] for m in self.containers[container]["Mounts"] if _kind.GPU_MOUNTS in m["Destination"]]
        mine = [gpu for gpu in GPUS if not confined or _kind.GPU_MOUNTS + gpu.uuid in asked]
        lines = [f"{checksum}  {place}" for place, checksum in files.items() if checksum]
        lines += [f"minor {gpu.minor}" for gpu in mine]
        lines += ["state joined", "state cdi"]
        lines += (["state confined"] if confined else []) + (["state runtime"] if "runtime" in files else [])
        lines += [f"GPU {place}: NVIDIA H200 (UUID: {gpu.uuid})" for place, gpu in enumerate(mine)]
        return "\n".join(lines) + "\n"

    def kubectl(self, control_plane: str, *args: str) -> str:
        if args[0] == "get":
            items = [
                {
                    "metadata": {"name": name, "labels": self.labels.get(name, {})},
                    "spec": {"taints": [_kind.TAINT] if self.tainted and name == control_plane else []},
                    "status": {"conditions": [{"type": "Ready", "status": self.ready, "message": "no network"}]},
                }
                for name in self.containers
            ]
            return json.dumps({"items": items})
        self.calls.append(args[0])
        if args[0] == "taint":
            self.tainted = not args[-1].endswith("-")
        else:
            self.labels[args[2]] = dict(label.split("=", 1) for label in args[4:])
        return ""

    def kubeconfig(self, name: str) -> str:
        return "kind: Config\n"


@pytest.fixture
def docker() -> FakeDocker:
    return FakeDocker()


@pytest.fixture
def make(tmp_path: pathlib.Path, docker: FakeDocker) -> t.Callable[..., Cluster]:
    def make(check_mode: bool = False, **params: t.Any) -> Cluster:
        defaults: dict[str, t.Any] = {
            "name": "lab",
            "image": None,
            "workers": [{"gpus": ["1"], "count": None, "labels": {}}, {"gpus": None, "count": None, "labels": {}}],
            "control_plane_schedulable": True,
            "registry_mirrors": {"docker.io": "http://10.0.0.1:5000"},
            "component_tags": {},
            "kubeconfig": str(tmp_path / "etc" / "lab" / "cluster.yml"),
            "recreate": False,
            "timeout": 0,
        }
        host = t.cast(t.Any, FakeHost())
        return Cluster(defaults | params, t.cast(t.Any, docker), host, check_mode, state=str(tmp_path / "state"))

    return make


def test_from_nothing_and_back(tmp_path: pathlib.Path, docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    predicted = make(check_mode=True).present()
    assert predicted["changed"]
    assert docker.calls == []
    assert list(tmp_path.iterdir()) == []

    done = make().present()
    assert done["changed"]
    assert [node["gpus"] for node in done["nodes"]] == [[], [{"index": 1, "uuid": "GPU-0001"}], []]
    assert docker.calls == ["create", *["copy"] * 4, "script", "script", "taint", "label"]
    kubeconfig = tmp_path / "etc" / "lab" / "cluster.yml"
    assert kubeconfig.read_text() == "kind: Config\n"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    hosts = tmp_path / "state" / "kind" / "lab" / "certs.d" / "docker.io" / "hosts.toml"
    assert "http://10.0.0.1:5000" in hosts.read_text()

    docker.calls.clear()
    for check_mode in (True, False):
        again = make(check_mode=check_mode).present()
        assert (again["changed"], again["steps"]) == (False, [])
    assert docker.calls == []

    assert make(check_mode=True).absent()["changed"]
    assert docker.calls == []
    assert make().absent()["changed"]
    assert not docker.containers
    assert not kubeconfig.exists()
    assert not (tmp_path / "state").exists()
    assert not make().absent()["changed"]


def test_stopped_nodes_are_started(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    make().present()
    docker.containers["lab-worker"]["State"]["Status"] = "exited"
    docker.calls.clear()
    assert make(check_mode=True).present()["steps"] == ["lab-worker: start"]
    assert docker.calls == []
    assert make().present()["steps"] == ["lab-worker: start"]
    assert docker.calls == ["start"]


def test_a_cluster_whose_creation_was_killed_is_made_again(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    docker.fail_create = True
    with pytest.raises(TenancyError, match="killed"):
        make().present()
    docker.fail_create = False
    docker.calls.clear()
    assert make().present()["changed"]
    assert docker.calls[:2] == ["delete", "create"]
    assert not make().present()["changed"]


def test_another_layout_is_only_rebuilt_when_told(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    make().present()
    docker.calls.clear()
    workers: list[dict[str, t.Any]] = [{"gpus": ["0", "1"], "count": None, "labels": {}}]
    with pytest.raises(TenancyError, match=r"lab-worker2 is there, wanted is not wanted; lab-worker GPUs is GPU-0001.*recreate"):
        make(workers=workers).present()
    assert docker.calls == []
    assert make(workers=workers, recreate=True).present()["changed"]
    assert docker.calls[:2] == ["delete", "create"]
    assert not make(workers=workers, recreate=True).present()["changed"]


def test_changed_mirrors_reach_the_nodes_without_touching_them(
    tmp_path: pathlib.Path, docker: FakeDocker, make: t.Callable[..., Cluster]
) -> None:
    make().present()
    docker.calls.clear()
    steps = make(registry_mirrors={"ghcr.io": "http://10.0.0.1:5000"}).present()["steps"]
    assert steps == ["mirror of docker.io", "mirror of ghcr.io"]
    assert [path.name for path in (tmp_path / "state" / "kind" / "lab" / "certs.d").iterdir()] == ["ghcr.io"]
    assert docker.calls == []


def test_nodes_that_never_get_ready_are_named(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    docker.ready = "False"
    with pytest.raises(TenancyError, match="Last seen: lab-control-plane is not ready: no network"):
        make().present()
