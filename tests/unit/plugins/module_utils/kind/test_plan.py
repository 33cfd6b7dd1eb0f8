# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the plan of a kind cluster with GPUs."""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import subprocess
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.nvidia import TOOLKIT_CONFIG, Gpu
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind import facts, plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.plan import Node
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.status import INSPECT, Inside, parse_nodes
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib

GPUS = [Gpu(index, f"GPU-{index:04x}", index) for index in range(4)]


@pytest.mark.parametrize(
    ("workers", "gpus"),
    [
        ([], []),
        ([{}], [[]]),
        ([{"gpus": [0, 1]}, {"gpus": ["3", "GPU-0002"]}], [[0, 1], [2, 3]]),
        ([{"count": 2}, {"gpus": [0]}, {"count": 1}], [[1, 2], [0], [3]]),
        ([{"gpus": []}, {"count": 4}], [[], [0, 1, 2, 3]]),
    ],
)
def test_workers_get_their_gpus(workers: list[dict[str, t.Any]], gpus: list[list[int]]) -> None:
    nodes = plan.plan_nodes("lab", workers, GPUS)
    assert [node.name for node in nodes] == ["lab-control-plane", "lab-worker", "lab-worker2", "lab-worker3"][: len(nodes)]
    assert [[gpu.index for gpu in node.gpus] for node in nodes[1:]] == gpus
    for node in nodes:
        assert (node.labels.get("nvidia.com/gpu.present") == "true") == bool(node.gpus)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([{"count": 5}], "workers[0].count: too-few-gpus"),
        ([{"count": 3}, {"gpus": [0, 1]}], "workers[0].count: too-few-gpus"),
        ([{"gpus": [4]}], "workers[0].gpus: unknown-gpu"),
        ([{"gpus": [0]}, {"gpus": ["GPU-0000"]}], "workers[1].gpus: gpu-given-twice"),
        ([{"gpus": [0, "GPU-0000"]}], "workers[0].gpus: gpu-given-twice"),
    ],
)
def test_impossible_gpus_are_refused(workers: list[dict[str, t.Any]], expected: str) -> None:
    with pytest.raises(TenancyError) as caught:
        plan.plan_nodes("lab", workers, GPUS)
    assert placed(caught.value.problems) == [expected]


def test_kind_config_says_what_the_host_needs() -> None:
    nodes = plan.plan_nodes("lab", [{"gpus": [1]}], GPUS)
    plain = plan.kind_config(nodes, "/certs", cgroup_v1=False, user_namespace=False, component_tags={})
    assert plain["kubeadmConfigPatches"] == []
    certs = {"hostPath": "/certs", "containerPath": "/etc/containerd/certs.d", "readOnly": True}
    gpu = {"hostPath": "/dev/null", "containerPath": "/var/run/nvidia-container-devices/GPU-0001"}
    assert [(node["role"], node["extraMounts"]) for node in plain["nodes"]] == [
        ("control-plane", [certs]),
        ("worker", [certs, gpu]),
    ]
    indexed = plan.kind_config(nodes, "/certs", False, False, {}, by_index=True)["nodes"][1]["extraMounts"]
    assert indexed == [certs, gpu | {"containerPath": "/var/run/nvidia-container-devices/1"}]
    full = plan.kind_config(nodes, "/certs", True, True, {"coredns": "v1.14.1", "etcd": None})
    kubelet = {"failCgroupV1": False, "cgroupDriver": "cgroupfs", "featureGates": {"KubeletInUserNamespace": True}}
    assert [json.loads(patch) for patch in full["kubeadmConfigPatches"]] == [
        {"kind": "KubeletConfiguration"} | kubelet,
        {"kind": "ClusterConfiguration", "dns": {"imageTag": "v1.14.1"}},
    ]
    # containerd has to have the same cgroup driver as kubelet.
    for config in (plain, full):
        patches = [tomllib.loads(patch)["plugins"] for patch in config["containerdConfigPatches"]]
        runtimes = [patches[0]["io.containerd.grpc.v1.cri"], patches[1].get("io.containerd.cri.v1.runtime", {})]
        drivers = [runtime.get("containerd", {}).get("runtimes") for runtime in runtimes]
        assert drivers == ([{"runc": {"options": {"SystemdCgroup": False}}}] * 2 if config is full else [None, None])


@pytest.mark.parametrize(
    ("mirror", "override"),
    [("http://10.0.0.1:5000", False), ("https://mirror/docker", False), ("http://10.0.0.1:5000/v2/docker.io", True)],
)
def test_hosts_toml(mirror: str, override: bool) -> None:
    text = plan.hosts_toml(mirror)
    assert text.startswith(f'[host."{mirror}"]\ncapabilities = ["pull", "resolve"]\n')
    assert ("override_path = true" in text) == override


def container(name: str, status: str = "running", gpus: t.Sequence[str] = ()) -> dict[str, t.Any]:
    mounts = [{"Source": "/certs", "Destination": "/etc/containerd/certs.d"}, {"Source": "/v", "Destination": "/var"}]
    mounts += [{"Source": "/dev/null", "Destination": f"/var/run/nvidia-container-devices/{gpu}"} for gpu in gpus]
    role = "worker" if "worker" in name else "control-plane"
    return {
        "Name": f"/{name}",
        "Config": {"Image": "kindest/node:v1", "Labels": {"io.x-k8s.kind.cluster": "lab", "io.x-k8s.kind.role": role}},
        "State": {"Status": status},
        "Mounts": mounts,
    }


@pytest.mark.parametrize(
    ("containers", "image", "words"),
    [
        ([container("lab-control-plane"), container("lab-worker", gpus=["GPU-0000", "GPU-0001"])], None, []),
        ([container("lab-control-plane"), container("lab-worker", gpus=["0", "1"])], "kindest/node:v1", []),
        ([container("lab-control-plane"), container("lab-worker", gpus=["0"])], None, ["lab-worker GPUs"]),
        ([container("lab-control-plane")], None, ["lab-worker"]),
        (
            [container("lab-control-plane"), container("lab-worker", gpus=["0", "1"]), container("lab-worker2")],
            None,
            ["lab-worker2"],
        ),
        (
            [container("lab-control-plane"), container("lab-worker", gpus=["0", "1"])],
            "kindest/node:v2",
            ["lab-control-plane image", "lab-worker image"],
        ),
    ],
)
def test_differences_in_the_layout(containers: list[dict[str, t.Any]], image: str | None, words: list[str]) -> None:
    wanted = plan.plan_nodes("lab", [{"gpus": [0, 1]}], GPUS)
    found = plan.layout_differences(wanted, parse_nodes(containers), image, "/certs")
    assert [what for what, _before, _after in found] == words


WORKER = Node("lab-worker", "worker", GPUS[:2], {})
PROGRAMS = {"nvidia-ctk": ("/usr/local/bin/nvidia-ctk", "a" * 64)}


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def inside(**changes: t.Any) -> Inside:
    fields: dict[str, t.Any] = {
        "files": {
            "/usr/bin/nvidia-ctk": "a" * 64,
            TOOLKIT_CONFIG: "c" * 64,
            facts.CONFINE_SCRIPT: checksum(plan.confine_script(WORKER.gpus)),
            facts.CONFINE_UNIT: checksum(plan.UNIT),
        },
        "minors": frozenset({0, 1}),
        "uuids": ["GPU-0000", "GPU-0001"],
        "states": frozenset({"joined", "up", "confined", "runtime", "cdi"}),
    }
    return Inside(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"minors": frozenset({0, 1, 2})}, ["hide the GPUs of other nodes"]),
        ({"minors": frozenset({0})}, ["hide the GPUs of other nodes"]),
        ({"states": frozenset({"joined", "cdi", "runtime"})}, ["hide the GPUs of other nodes"]),
        ({"states": frozenset({"joined", "confined", "cdi"})}, ["give containerd the runtime nvidia"]),
        ({"states": frozenset({"joined", "confined", "runtime"})}, ["describe the GPUs for CDI"]),
        (
            {"files": {}, "states": frozenset({"joined", "cdi"})},
            [
                "copy /usr/bin/nvidia-ctk",
                "copy /etc/nvidia-container-runtime/config.toml",
                "hide the GPUs of other nodes",
                "give containerd the runtime nvidia",
            ],
        ),
    ],
)
def test_node_steps(changes: dict[str, t.Any], names: list[str]) -> None:
    steps = plan.node_steps(WORKER, inside(**changes), PROGRAMS, (TOOLKIT_CONFIG, "c" * 64))
    assert [step.what for step in steps] == names


@pytest.mark.parametrize(("minors", "names"), [((), []), ((0, 3), ["hide the GPUs of other nodes"])])
def test_a_node_without_gpus_only_needs_them_hidden(minors: tuple[int, ...], names: list[str]) -> None:
    found = inside(files={}, minors=frozenset(minors), uuids=[], states=frozenset({"joined", "up"}))
    steps = plan.node_steps(Node("lab-worker2", "worker", [], {}), found, PROGRAMS, (TOOLKIT_CONFIG, "c" * 64))
    assert [step.what for step in steps] == names
    for step in steps:
        assert 'case "  " in' in step.script


def test_systemd_in_a_node_is_only_reloaded_for_new_files() -> None:
    """A reload can take their GPUs away from containers that run."""
    (stale,) = plan.node_steps(WORKER, inside(files={**inside().files, facts.CONFINE_UNIT: "0"}), PROGRAMS, None)
    (script,) = plan.node_steps(WORKER, inside(files={**inside().files, facts.CONFINE_SCRIPT: "0"}), PROGRAMS, None)
    (seen,) = plan.node_steps(WORKER, inside(minors=frozenset(range(4))), PROGRAMS, None)
    assert "daemon-reload" in stale.script
    assert f"/dev/stdin {facts.CONFINE_SCRIPT}" in script.script
    assert "daemon-reload" not in script.script + seen.script
    assert "is-enabled kubegpu-confine-gpus.service || systemctl --quiet enable" in seen.script


@pytest.mark.parametrize(("there", "left"), [({0, 1, 2, 3}, {1, 2}), ({0}, {1, 2}), (set(), {1, 2})])
def test_a_node_gets_its_own_devices_and_no_others(tmp_path: pathlib.Path, there: set[int], left: set[int]) -> None:
    for minor in there:
        (tmp_path / f"nvidia{minor}").touch()
    (tmp_path / "nvidiactl").touch()
    script = plan.confine_script(GPUS[1:3]).replace("/dev/", f"{tmp_path}/").replace("/proc/", f"{tmp_path}/")
    # Devices can only be made by root.
    script = script.replace("mknod -m 666", "fake").replace("set -eu", 'set -eu\nfake() { [ "$2 $3" = "c 195" ] && : > "$1"; }')
    subprocess.run(["sh", "-s"], input=script, text=True, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"nvidiactl", *(f"nvidia{minor}" for minor in left)}


def test_nvkind_finds_nothing_to_replace_in_its_template() -> None:
    config = {"nodes": [{"a": {"b": {}}}], "text": '{{ .x }} "}}'}
    template = plan.nvkind_template(config)
    # What Go's templates make of a string action.
    assert json.loads(template.replace('{{"{{"}}', "{{")) == config
    assert re.findall(r"\{\{(?!\"\{\{\"\}\})", template.replace('{{"{{"}}', "")) == []


def test_scripts_are_valid_bash() -> None:
    steps = plan.node_steps(WORKER, inside(files={}, states=frozenset()), PROGRAMS, None)
    for script in (INSPECT, plan.confine_script(WORKER.gpus), *(step.script for step in steps)):
        subprocess.run(["bash", "-n", "-e", "-s"], input=script, text=True, check=True)


def test_the_written_files_are_those_whose_checksum_is_compared(tmp_path: pathlib.Path) -> None:
    step = plan.node_steps(WORKER, inside(files={}), {}, None)[0]
    script = step.script.split("systemctl")[0].replace("/usr/local", str(tmp_path)).replace("/etc/systemd", str(tmp_path))
    subprocess.run(["bash", "-e", "-s"], input=script, text=True, check=True)
    written = (tmp_path / "sbin" / "kubegpu-confine-gpus").read_text()
    assert written == plan.confine_script(WORKER.gpus)


def kube_node(name: str, ready: str = "True", taints: t.Sequence[str] = (), **labels: str) -> dict[str, t.Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": ready, "message": "no network"}]},
    }


@pytest.mark.parametrize(
    ("workers", "taints", "schedulable", "args"),
    [
        ([{}], [facts.TAINT["key"]], False, []),
        ([{}], [facts.TAINT["key"]], True, [["taint", "node", "lab-control-plane", f"{facts.TAINT['key']}:NoSchedule-"]]),
        ([{}], [], False, [["taint", "node", "lab-control-plane", f"{facts.TAINT['key']}:NoSchedule"]]),
        ([], [], False, []),
        ([{"labels": {"rack": 1}}], [], True, [["label", "node", "lab-worker", "--overwrite", "rack=1"]]),
    ],
)
def test_labels_and_taints(workers: list[dict[str, t.Any]], taints: list[str], schedulable: bool, args: list[list[str]]) -> None:
    wanted = plan.plan_nodes("lab", workers, GPUS)
    nodes = [kube_node("lab-control-plane", taints=taints), kube_node("lab-worker")]
    assert [step for _what, step in plan.kubectl_steps(nodes, wanted, schedulable)] == args
