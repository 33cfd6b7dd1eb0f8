# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a cluster's life against a Docker in memory."""

from __future__ import annotations

import datetime
import hashlib
import json
import pathlib
import re
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import Files
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.nvidia import PROGRAMS, Gpu
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.lifecycle import Cluster
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.status import INSPECT
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses

# The second has another device than its index says, and nvkind does not know.
GPUS = [Gpu(0, "GPU-0000", 0), Gpu(1, "GPU-0001", 2)]


class FakeHost:
    def gpus(self) -> list[Gpu]:
        return GPUS

    def programs(self) -> dict[str, tuple[str, str]]:
        return {name: (f"/opt/{name}", "a" * 64) for name in PROGRAMS}

    def toolkit_config(self) -> None:
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
        self.error = ""
        self.made = 99
        self.status = "running"
        self.lost: frozenset[str] = frozenset()
        self.programs = {"docker", "kind", "nvkind"}
        self.booting = False
        self.ready = "True"
        self.network = False
        self.other_cluster = False
        self.containers_started = "2026-01-31T12:00:00Z"

    def has_network(self, name: str) -> bool:
        return self.network

    def remove_network(self, name: str) -> None:
        self.network = False

    def others(self, _cluster: str) -> bool:
        return self.other_cluster

    def program(self, name: str) -> str:
        if name not in self.programs:
            raise TenancyError(f"This host has no {name}")
        return f"/usr/bin/{name}"

    def nodes(self, cluster: str) -> list[dict[str, t.Any]]:
        return list(self.containers.values())

    def create_cluster(self, name: str, image: str | None, config: dict[str, t.Any], kubeconfig: str, timeout: int) -> None:
        self.calls.append("create")
        self.network = True
        assert pathlib.Path(kubeconfig).parent.is_dir()
        for place, node in list(enumerate(config["nodes"]))[: self.made]:
            node_name = f"{name}-control-plane" if not place else f"{name}-worker{place if place > 1 else ''}"
            self.containers[node_name] = {
                "Name": f"/{node_name}",
                "Config": {"Image": image or "default", "Labels": {facts.ROLE_LABEL: node["role"]}},
                "State": {"Status": self.status},
                "Mounts": [{"Source": m["hostPath"], "Destination": m["containerPath"]} for m in node["extraMounts"]],
            }
            self.inside[node_name] = {}
        if self.error:
            raise TenancyError(self.error)

    def create_by_nvkind(self, name: str, image: str | None, template: str, kubeconfig: str, timeout: int) -> None:
        self.create_cluster(name, image, json.loads(pathlib.Path(template).read_text()), kubeconfig, timeout)

    def delete_cluster(self, name: str, kubeconfig: str) -> None:
        assert pathlib.Path(kubeconfig).parent.is_dir()
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
        if script != INSPECT:
            self.calls.append("script")
            for place, text in re.findall(r"/dev/stdin (\S+) << 'END'\n(.*?)END\n", script, re.DOTALL):
                files[place] = hashlib.sha256(text.encode()).hexdigest()
            files |= {"runtime": ""} if "runtime configure" in script else {}
            return ""
        confined = facts.CONFINE_SCRIPT in files
        mounts = [m["Destination"].removeprefix(facts.GPU_MOUNTS) for m in self.containers[container]["Mounts"]]
        mine = [gpu for gpu in GPUS if not confined or gpu.uuid in mounts or str(gpu.index) in mounts]
        lines = [f"{checksum}  {place}" for place, checksum in files.items() if checksum]
        lines += [f"minor {gpu.minor}" for gpu in mine]
        lines += ["state cdi"] + ([] if "left" in files else ["state joined"]) + ([] if self.booting else ["state up"])
        lines += (["state confined"] if confined else []) + (["state runtime"] if "runtime" in files else [])
        lines += [f"GPU {place}: NVIDIA H200 (UUID: {gpu.uuid})" for place, gpu in enumerate(mine) if gpu.uuid not in self.lost]
        return "\n".join(lines) + "\n"

    def kubectl(self, control_plane: str, *args: str) -> str:
        if args[:2] == ("get", "pods"):
            state = {"running": {"startedAt": self.containers_started}}
            return json.dumps(
                {"items": [{"spec": {"nodeName": "lab-worker"}, "status": {"containerStatuses": [{"state": state}]}}]}
            )
        if args[0] == "get":
            items = [
                {
                    "metadata": {"name": name, "labels": self.labels.get(name, {})},
                    "spec": {"taints": [facts.TAINT] if self.tainted and name == control_plane else []},
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
            "engine": "kind",
            "image": None,
            "workers": [{"gpus": ["1"], "count": None, "labels": {}}, {"gpus": None, "count": None, "labels": {}}],
            "control_plane_schedulable": True,
            "registry_mirrors": {"docker.io": "http://10.0.0.1:5000"},
            "component_tags": {},
            "kubeconfig": str(tmp_path / "etc" / "lab" / "cluster.yml"),
            "recreate": False,
            "timeout": 0,
        }
        run = Run(defaults | params, check_mode, deadline=Deadline(0))
        adapters = (t.cast(t.Any, docker), t.cast(t.Any, FakeHost()), Files())
        return Cluster(run, *adapters, state=str(tmp_path / "state"), kubeconfigs=str(tmp_path / "etc"))

    return make


def steps(result: Result) -> list[str]:
    return [step["step"] for step in result.get("steps", [])]


def test_from_nothing_and_back(tmp_path: pathlib.Path, docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    predicted = make(check_mode=True).present()
    assert (predicted["changed"], predicted["readable"]) == (True, False)
    assert docker.calls == []
    assert list(tmp_path.iterdir()) == []

    done = make().present()
    assert (done["changed"], done["readable"]) == (True, True)
    assert [node["gpus"] for node in done["nodes"]] == [[], [{"index": 1, "uuid": "GPU-0001"}], []]
    # The GPUs are hidden in all three nodes, and the one that has its own gets the toolkit too.
    assert docker.calls == ["create", "script", *["copy"] * 4, "script", "script", "script", "taint", "label"]
    assert not (tmp_path / "state" / "kind" / "lab" / "making").exists()
    kubeconfig = tmp_path / "etc" / "lab" / "cluster.yml"
    assert kubeconfig.read_text() == "kind: Config\n"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    hosts = tmp_path / "state" / "kind" / "lab" / "certs.d" / "docker.io" / "hosts.toml"
    assert "http://10.0.0.1:5000" in hosts.read_text()

    docker.calls.clear()
    for check_mode in (True, False):
        again = make(check_mode=check_mode).present()
        assert (again["changed"], again["readable"], steps(again)) == (False, True, [])
    assert docker.calls == []
    assert make(check_mode=True, kubeconfig=str(tmp_path / "elsewhere.yml")).present()["readable"] is False

    assert make(check_mode=True).absent()["changed"]
    assert docker.calls == []
    assert make().absent()["changed"]
    assert not docker.containers
    assert not kubeconfig.exists()
    assert not (tmp_path / "state").exists()
    assert not make().absent()["changed"]


@pytest.mark.parametrize(("before", "other"), [(False, False), (True, False), (False, True)])
def test_the_network_goes_with_the_last_cluster_where_it_came_with_ours(
    docker: FakeDocker, make: t.Callable[..., Cluster], before: bool, other: bool
) -> None:
    docker.network = before
    make().present()
    docker.other_cluster = other
    make().absent()
    assert docker.network is (before or other)
    docker.other_cluster = False
    assert make().absent()["changed"] is other
    assert docker.network is before


def test_stopped_nodes_are_started(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    make().present()
    docker.containers["lab-worker"]["State"]["Status"] = "exited"
    docker.calls.clear()
    stopped = make(check_mode=True).present()
    assert (steps(stopped), stopped["readable"]) == (["start lab-worker"], False)
    assert docker.calls == []
    assert steps(make().present()) == ["start lab-worker"]
    assert docker.calls == ["start"]


def test_a_node_that_was_started_is_waited_for_until_it_has_reported(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    make().present()
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    docker.containers["lab-worker"]["State"]["StartedAt"] = now
    with pytest.raises(TenancyError, match="lab-worker has not reported its pods since it was started"):
        make().present()
    docker.containers_started = now
    assert not make().present()["changed"]


def test_a_node_is_waited_for_before_it_is_judged(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    make().present()
    docker.booting = True
    with pytest.raises(TenancyError, match=r"lab-control-plane to start.*services"):
        make().present()


def test_gpus_that_show_up_in_a_node_are_hidden_again(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    make().present()
    docker.inside["lab-worker2"].clear()
    assert steps(make(check_mode=True).present()) == ["hide the GPUs of other nodes in lab-worker2"]
    assert steps(make().present()) == ["hide the GPUs of other nodes in lab-worker2"]
    assert not make().present()["changed"]


def killed(docker: FakeDocker, make: t.Callable[..., Cluster], nodes: int, engine: str = "kind") -> None:
    docker.error, docker.made = "kind create cluster was killed", nodes
    with pytest.raises(TenancyError, match="was killed"):
        make(engine=engine).present()
    docker.error, docker.made = "", 99
    docker.calls.clear()


@pytest.mark.parametrize("engine", ["kind", "nvkind"])
def test_a_cluster_whose_creation_was_killed_is_made_again(
    docker: FakeDocker, make: t.Callable[..., Cluster], engine: str
) -> None:
    killed(docker, make, 2, engine)
    assert make(engine=engine).present()["changed"]
    assert docker.calls[:2] == ["delete", "create"]
    assert not make(engine=engine).present()["changed"]


def test_a_cluster_that_somebody_made_since_is_not_taken_for_a_half_made_one(
    docker: FakeDocker, make: t.Callable[..., Cluster]
) -> None:
    killed(docker, make, 3)
    for container in docker.containers.values():
        container["Mounts"] = []
    with pytest.raises(TenancyError, match="another layout"):
        make().present()
    assert docker.calls == []


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_missing_node_is_reported_and_only_made_with_all_others(
    docker: FakeDocker, make: t.Callable[..., Cluster], check_mode: bool
) -> None:
    make().present()
    del docker.containers["lab-worker"]
    docker.inside["lab-worker2"]["left"] = ""
    docker.calls.clear()
    words = (
        "lab-worker is missing, wanted is worker, GPUs 1; lab-worker2 is not in the cluster, wanted is joined. "
        r"Nodes and their GPUs come only with another cluster. Pass recreate \(in an inventory nvkind_recreate\)"
    )
    with pytest.raises(TenancyError, match=words):
        make(check_mode=check_mode).present()
    assert docker.calls == []
    assert make(recreate=True).present()["changed"]
    assert docker.calls[:2] == ["delete", "create"]


def test_nothing_is_deleted_for_an_engine_that_is_not_there(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    make().present()
    docker.programs.remove("nvkind")
    docker.calls.clear()
    workers: list[dict[str, t.Any]] = [{"gpus": ["0"], "count": None, "labels": {}}]
    for check_mode in (True, False):
        with pytest.raises(TenancyError, match="no nvkind"):
            make(check_mode=check_mode, engine="nvkind", workers=workers, recreate=True).present()
    assert docker.calls == []


def test_nvkind_gets_gpus_by_index_and_its_harmless_end_is_a_warning(
    tmp_path: pathlib.Path, docker: FakeDocker, make: t.Callable[..., Cluster]
) -> None:
    docker.error = "nvkind cluster create ended with status 255: umount"
    cluster = make(engine="nvkind")
    assert cluster.present()["nodes"][1]["gpus"] == [{"index": 1, "uuid": "GPU-0001"}]
    assert cluster._run.warnings == [f"{docker.error}. All the same its nodes are ready, with the GPUs that were asked for."]
    assert facts.GPU_MOUNTS + "1" in [mount["Destination"] for mount in docker.containers["lab-worker"]["Mounts"]]
    # Another engine is no reason to make it again.
    for engine in ("nvkind", "kind"):
        cluster = make(engine=engine)
        assert (cluster.present()["changed"], cluster._run.warnings) == (False, [])
    make().absent()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("made", "lost", "words"),
    [
        (0, frozenset(), r"umount\. The cluster is not whole: it left no node\. Run again"),
        (2, frozenset(), r"umount\. The cluster is not whole: lab-worker2 is missing"),
        (99, frozenset({"GPU-0001"}), r"has to see the GPUs GPU-0001, but sees none.* nvkind .* umount\.$"),
    ],
)
def test_an_end_of_nvkind_that_is_not_harmless_is_an_error_with_its_words(
    docker: FakeDocker, make: t.Callable[..., Cluster], made: int, lost: frozenset[str], words: str
) -> None:
    docker.error, docker.made, docker.lost = "nvkind cluster create ended with status 255: umount", made, lost
    cluster = make(engine="nvkind")
    with pytest.raises(TenancyError, match=words):
        cluster.present()
    assert cluster._run.warnings == []


def test_nodes_that_nvkind_left_stopped_are_half_made(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    docker.error, docker.status = "nvkind cluster create ended with status 255: umount", "exited"
    with pytest.raises(TenancyError, match=r"not whole: lab-control-plane is stopped; lab-worker is stopped"):
        make(engine="nvkind").present()
    docker.error, docker.status = "", "running"
    docker.calls.clear()
    make(engine="nvkind").present()
    assert docker.calls[:2] == ["delete", "create"]


def test_nodes_that_are_not_ready_after_nvkind_are_told_with_its_words(
    docker: FakeDocker, make: t.Callable[..., Cluster]
) -> None:
    docker.error, docker.ready = "nvkind cluster create ended with status 255: umount", "False"
    with pytest.raises(TenancyError, match=r"lab-control-plane is not ready: no network.* ended with status 255"):
        make(engine="nvkind").present()


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
    result = make(registry_mirrors={"ghcr.io": "http://10.0.0.1:5000"}).present()
    assert steps(result) == ["remove the mirror of docker.io", "write the mirror of ghcr.io"]
    assert [path.name for path in (tmp_path / "state" / "kind" / "lab" / "certs.d").iterdir()] == ["ghcr.io"]
    assert docker.calls == []


def test_nodes_that_never_get_ready_are_named(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    docker.ready = "False"
    with pytest.raises(TenancyError, match="Last seen: lab-control-plane is not ready: no network"):
        make().present()


@pytest.mark.parametrize("name", ["", ".", "..", "../kind", "lab/certs.d"])
@pytest.mark.parametrize("state", ["present", "absent"])
def test_no_name_reaches_the_state_of_other_clusters(
    tmp_path: pathlib.Path, docker: FakeDocker, make: t.Callable[..., Cluster], name: str, state: str
) -> None:
    make().present()
    before = sorted(tmp_path.rglob("*"))
    docker.calls.clear()
    with refuses("not-a-name"):
        getattr(make(name=name), state)()
    assert sorted(tmp_path.rglob("*")) == before
    assert docker.calls == []


def test_only_folders_of_this_collection_are_made_for_root_alone_and_removed(
    tmp_path: pathlib.Path, make: t.Callable[..., Cluster]
) -> None:
    theirs = tmp_path / "srv"
    theirs.mkdir(mode=0o755)
    for folder, mode, left in ((tmp_path / "etc" / "lab", 0o700, False), (theirs / "new", 0o755, True), (theirs, 0o755, True)):
        kubeconfig = folder / "cluster.yml"
        make(kubeconfig=str(kubeconfig)).present()
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == mode
        make(kubeconfig=str(kubeconfig)).absent()
        assert (kubeconfig.exists(), folder.exists()) == (False, left)


def test_folders_that_exist_keep_their_mode(tmp_path: pathlib.Path, make: t.Callable[..., Cluster]) -> None:
    folder = tmp_path / "etc" / "lab"
    folder.mkdir(parents=True)
    folder.chmod(0o750)
    make().present()
    assert folder.stat().st_mode & 0o777 == 0o750


def test_a_cluster_that_somebody_else_made_leaves_no_state(
    tmp_path: pathlib.Path, docker: FakeDocker, make: t.Callable[..., Cluster]
) -> None:
    docker.create_cluster("lab", None, {"nodes": [{"role": "control-plane", "extraMounts": []}]}, str(tmp_path / "scratch"), 1)
    assert steps(make().absent()) == ["delete the cluster lab"]
    assert not (tmp_path / "state").exists()


def test_a_failed_step_is_named(docker: FakeDocker, make: t.Callable[..., Cluster]) -> None:
    docker.error, docker.made = "kind create cluster failed: exit status 1", 0
    with pytest.raises(TenancyError, match=r"^Could not make the cluster lab: kind create cluster failed: exit status 1$"):
        make().present()


def test_all_that_is_wrong_with_workers_is_named_at_once(make: t.Callable[..., Cluster]) -> None:
    workers = [{"gpus": ["7"], "count": None, "labels": {}}, {"gpus": None, "count": 3, "labels": {}}]
    with pytest.raises(TenancyError) as caught:
        make(workers=workers).present()
    assert placed(caught.value.problems) == ["workers[0].gpus: unknown-gpu", "workers[1].count: too-few-gpus"]
    with refuses("out-of-range"):
        make(workers=[{"gpus": None, "count": -2, "labels": {}}]).present()
