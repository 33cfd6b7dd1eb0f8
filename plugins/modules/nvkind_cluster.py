#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind cluster whose workers have GPUs, as an Ansible module."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvkind_cluster
short_description: Manage a Kubernetes cluster in Docker whose workers have GPUs
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Makes a kind cluster on a GPU host, gives each worker the GPUs it is meant to have, and hides the others from it.
  - Whatever made the cluster, inside each GPU node this module does what nvkind does, but without the internet and again on
    every run where it is due. It copies NVIDIA's container toolkit from the host, gives containerd the runtime V(nvidia), and
    compares the GPUs that the node sees with those assigned to it. Nodes without GPUs see none.
  - The state is read from Docker. A cluster whose creation was cut short is made again, stopped nodes are started, and a
    cluster with another layout is left alone unless O(recreate) says otherwise.
  - A run waits for another one on the same cluster to end, also for one whose controller is gone.
  - Docker's default runtime has to be NVIDIA's and must accept device lists as volume mounts, see
    P(kubegpu.tenancy.docker_nvidia_runtime#role).
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
requirements:
  - docker, kind 0.33 or newer, NVIDIA's driver and container toolkit on the host
  - for O(engine=nvkind) also nvkind and kubectl
options:
  state:
    description:
      - V(present) makes the cluster or brings it to what is wanted, V(absent) deletes it.
    type: str
    choices: [present, absent]
    default: present
  engine:
    description:
      - What makes the cluster. Everything else is the same, and an existing cluster is not made again for another engine.
      - V(kind) needs nothing in the nodes from the internet.
      - V(nvkind) is NVIDIA's program, known as of its commit 24c190e. It installs the newest toolkit from the internet in each
        node, which is then replaced by the host's. However it ends, the cluster is looked at. Only when that is not whole the
        end is an error, else a warning.
    type: str
    choices: [kind, nvkind]
    default: kind
  name:
    description:
      - The cluster's name. Its nodes are called C(NAME-control-plane), C(NAME-worker), C(NAME-worker2) and so on.
    type: str
    required: true
  image:
    description:
      - The node image, which decides the version of Kubernetes.
      - Without it a new cluster gets kind's default, and an existing one is not compared.
    type: str
  workers:
    description:
      - The workers, in order. One without GPUs is an empty dictionary.
    type: list
    elements: dict
    default: []
    suboptions:
      gpus:
        description:
          - The worker's GPUs, by index or UUID as C(nvidia-smi -L) lists them.
        type: list
        elements: str
      count:
        description:
          - How many GPUs the worker gets, from those that no O(workers[].gpus) names, in order.
        type: int
      labels:
        description:
          - Labels of the node. A worker with GPUs also gets C(nvidia.com/gpu.present=true). Other labels stay as they are.
        type: dict
        default: {}
  control_plane_schedulable:
    description:
      - Whether the control plane takes ordinary pods too. A cluster without workers always does.
    type: bool
    default: false
  registry_mirrors:
    description:
      - Where the nodes pull images from, by upstream registry, such as V(docker.io). The upstream is asked when the mirror does
        not answer.
      - An address whose path holds C(/v2) is used as it is, for a mirror that keeps each upstream under a name of its own.
    type: dict
    default: {}
  component_tags:
    description:
      - Image tags that differ from those that kubeadm expects, for a registry that holds others.
      - Only used when the cluster is made.
    type: dict
    default: {}
    suboptions:
      coredns:
        description:
          - Tag of the CoreDNS image.
        type: str
      etcd:
        description:
          - Tag of the etcd image.
        type: str
  kubeconfig:
    description:
      - Where to write the administrator's kubeconfig, readable by its owner only.
    type: path
    required: true
  recreate:
    description:
      - Whether a cluster whose nodes, GPUs or image differ from what is wanted, or that lacks a node, may be deleted and made
        again. Everything that runs in it is lost.
    type: bool
    default: false
  timeout:
    description:
      - Seconds to wait, for another run on the cluster, for the engine to make it, and then for the nodes to be ready.
    type: int
    default: 600
"""

EXAMPLES = r"""
- name: Make a cluster with two workers of four GPUs each
  kubegpu.tenancy.nvkind_cluster:
    name: kubegpu
    workers:
      - gpus: [0, 1, 2, 3]
      - gpus: [4, 5, 6, 7]
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml

- name: Make a cluster on a site without internet
  kubegpu.tenancy.nvkind_cluster:
    name: kubegpu
    image: registry.example.com/kindest/node:v1.35.4
    workers:
      - count: 8
        labels: {example.com/rack: r1}
      - {}
    registry_mirrors:
      docker.io: https://registry.example.com/v2/docker.io
      registry.k8s.io: https://registry.example.com/v2/registry.k8s.io
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml

- name: Make a cluster by NVIDIA's own program
  kubegpu.tenancy.nvkind_cluster:
    name: kubegpu
    engine: nvkind
    workers:
      - count: 8
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml

- name: Delete the cluster
  kubegpu.tenancy.nvkind_cluster:
    name: kubegpu
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    state: absent
"""

RETURN = r"""
kubeconfig:
  description:
    - The file with the administrator's kubeconfig.
  returned: always
  type: str
  sample: /etc/kubegpu/kubegpu/cluster.yml
nodes:
  description:
    - The nodes.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description:
        - The node's name, in Kubernetes and in Docker.
      type: str
      sample: kubegpu-worker
    role:
      description:
        - V(control-plane) or V(worker).
      type: str
      sample: worker
    gpus:
      description:
        - The node's GPUs.
      type: list
      elements: dict
      contains:
        index:
          description:
            - The GPU's index on the host.
          type: int
          sample: 0
        uuid:
          description:
            - The GPU's UUID.
          type: str
          sample: GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10
steps:
  description:
    - What was done, or would be done in check mode.
  returned: always
  type: list
  elements: str
  sample:
    - "kubegpu-worker: hide the GPUs of other nodes"
"""

import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import socket
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.docker import NETWORK, Docker, Runner
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.journal import (
    make_directories,
    read_file,
    remove_empty,
    write_file,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Change, outcome
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind import plan as _kind

STATE = "/var/lib/kubegpu"
KUBECONFIGS = "/etc/kubegpu"

# See linux/capability.h.
CAP_SYS_RESOURCE = 24

# Looking again after this many rounds of node steps would never end.
ROUNDS = 3


class Host:
    """What this module has to know of the machine it runs on."""

    def __init__(self, run: Runner, find: t.Callable[[str], str | None]) -> None:
        self._run = run
        self._find = find

    def gpus(self) -> list[_kind.Gpu]:
        binary = self._find("nvidia-smi")
        if binary is None:
            raise TenancyError("workers: asks for GPUs, but this host has no nvidia-smi: is NVIDIA's driver installed?")
        rc, out, err = self._run([binary, "-L"])
        if rc != 0:
            raise TenancyError(f"nvidia-smi -L failed: {err.strip() or out.strip()}", rc=rc)
        informed = (_kind.parse_minor(_read(path)) for path in glob.glob("/proc/driver/nvidia/gpus/*/information"))
        return _kind.parse_gpus(out, dict(found for found in informed if found))

    def programs(self) -> dict[str, tuple[str, str]]:
        """NVIDIA's programs and their checksums, by name."""
        found = {name: self._find(name) for name in _kind.PROGRAMS}
        missing = [name for name, path in found.items() if path is None]
        if missing:
            raise TenancyError(f"This host lacks {', '.join(missing)}: install NVIDIA's container toolkit.")
        return {name: (path, _checksum(path)) for name, path in found.items() if path}

    def config(self) -> tuple[str, str] | None:
        path = _kind.TOOLKIT_CONFIG
        return (path, _checksum(path)) if os.path.exists(path) else None

    def cgroup_v1(self) -> bool:
        return not os.path.exists("/sys/fs/cgroup/cgroup.controllers")

    def user_namespace(self) -> bool:
        """Whether root here may not do what kubelet expects of it, as in a user namespace."""
        effective = next(line.split()[1] for line in _read("/proc/self/status").splitlines() if line.startswith("CapEff:"))
        return not int(effective, 16) >> CAP_SYS_RESOURCE & 1


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def _checksum(path: str) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class Cluster:
    """The cluster as wanted, against the one that Docker runs."""

    def __init__(self, params: dict[str, t.Any], docker: Docker, host: Host, check_mode: bool, state: str = STATE) -> None:
        self._params = params
        self._name: str = params["name"]
        self._kubeconfig: str = params["kubeconfig"]
        self._docker = docker
        self._host = host
        self._check = check_mode
        self._top = state
        self._state = os.path.join(state, "kind", self._name)
        self._certs = os.path.join(self._state, "certs.d")
        # Stands while a cluster is made or deleted, with what the engine needs: a cluster with it is half-made.
        self._making = os.path.join(self._state, "making")
        self._scratch = os.path.join(self._making, "kubeconfig")
        # Stands while Docker has a network that it did not have before the first of our clusters.
        self._network = os.path.join(state, "kind", "network")
        self._changes: list[Change] = []
        # How the engine ended, where that is no error yet.
        self._ended = ""
        self.warnings: list[str] = []

    def present(self) -> dict[str, t.Any]:
        workers = self._params["workers"]
        gpus = self._host.gpus() if any(worker["gpus"] or worker["count"] for worker in workers) else []
        nodes = _kind.plan(self._name, workers, gpus)
        found = _kind.parse_nodes(self._docker.nodes(self._name))
        now = self._why_not(found, nodes)
        self._write_mirrors()
        if now:
            self._make(now, bool(found), nodes)
        else:
            self._start([node.name for node in found if not node.running])
        # What is inside nodes that do not run yet shows only once they do.
        if not (self._check and (now or not all(node.running for node in found))):
            try:
                self._converge(nodes)
            except TenancyError as exc:
                raise TenancyError(f"{exc.message} {self._ended}".rstrip(), **exc.details) from exc
        if self._ended:
            self.warnings.append(f"{self._ended} All the same its nodes are ready, with the GPUs that were asked for.")
        listed = [
            {
                "name": node.name,
                "role": node.role,
                "gpus": [{"index": gpu.index, "uuid": gpu.uuid} for gpu in node.gpus],
            }
            for node in nodes
        ]
        return self._result() | {"nodes": listed}

    def absent(self) -> dict[str, t.Any]:
        found = _kind.parse_nodes(self._docker.nodes(self._name))
        if found:
            self._changes.append((f"cluster {self._name}", ", ".join(sorted(node.name for node in found)), None))
        for path in (self._kubeconfig, self._state):
            if os.path.exists(path):
                self._changes.append((path, "there", None))
        last = os.path.exists(self._network) and not self._docker.others(self._name)
        if last:
            self._changes.append((f"network {NETWORK}", "there", None))
        if not self._check:
            if found:
                self._delete()
            if os.path.exists(self._kubeconfig):
                os.unlink(self._kubeconfig)
            shutil.rmtree(self._state, ignore_errors=True)
            if last:
                self._docker.remove_network()
                os.unlink(self._network)
            remove_empty(os.path.dirname(self._kubeconfig), KUBECONFIGS)
            remove_empty(os.path.dirname(self._state), self._top)
        return self._result()

    def _result(self) -> dict[str, t.Any]:
        steps = [what for what, _before, _after in self._changes]
        return outcome(self._changes, kubeconfig=self._kubeconfig, steps=steps)

    def _why_not(self, found: list[_kind.Found], nodes: list[_kind.Node]) -> str:
        """Why the cluster has to be made; empty when it is there."""
        if not found:
            return "absent"
        # One that somebody made by hand in place of ours has other mounts.
        if os.path.exists(self._making) and all(node.certs == self._certs for node in found):
            return "half-made"
        different = self._differences(found, nodes)
        if different and not self._params["recreate"]:
            raise TenancyError(
                f"The cluster {self._name} has another layout: {different}. Pass recreate to delete it and make it again.",
                differences=different,
            )
        return different

    def _differences(self, found: list[_kind.Found], nodes: list[_kind.Node]) -> str:
        """What only a new cluster can change, in words."""
        different = _kind.differences(nodes, found, self._params["image"], self._certs)
        for node in found:
            if node.running and "joined" not in self._inspect(node.name).done:
                different.append((node.name, "not in the cluster", "joined"))
        return "; ".join(f"{what} is {before}, wanted is {after}" for what, before, after in different)

    def _make(self, now: str, there: bool, nodes: list[_kind.Node]) -> None:
        engine = self._params["engine"]
        # Before anything goes.
        self._docker.program(engine)
        after = {node.name: node.describe() for node in nodes}
        self._changes.append((f"cluster {self._name}", now, after))
        if self._check:
            return
        if there:
            self._delete()
        self._begin()
        if not self._docker.has_network():
            write_file(self._network, b"", 0o600)
        make_directories(os.path.dirname(self._kubeconfig), 0o700)
        image, timeout = self._params["image"], self._params["timeout"]
        config = _kind.kind_config(
            nodes,
            self._certs,
            self._host.cgroup_v1(),
            self._host.user_namespace(),
            self._params["component_tags"],
            by_index=engine == "nvkind",
        )
        if engine == "nvkind":
            template = os.path.join(self._making, "template.yml")
            write_file(template, _kind.nvkind_template(config).encode(), 0o600)
            try:
                self._docker.create_by_nvkind(self._name, image, template, self._scratch, timeout)
            except TenancyError as exc:
                self._judge(exc, nodes)
        else:
            self._docker.create_cluster(self._name, image, config, self._scratch, timeout)
        shutil.rmtree(self._making)

    def _begin(self) -> None:
        """Note that the cluster is half-made from here on."""
        shutil.rmtree(self._making, ignore_errors=True)
        make_directories(self._making, 0o700)

    def _delete(self) -> None:
        self._begin()
        self._docker.delete_cluster(self._name, self._scratch)

    def _judge(self, error: TenancyError, nodes: list[_kind.Node]) -> None:
        """nvkind also fails when its cluster is whole: what counts is what is there."""
        found = _kind.parse_nodes(self._docker.nodes(self._name))
        stopped = [f"{node.name} is stopped" for node in found if not node.running]
        different = "; ".join(filter(None, [self._differences(found, nodes), *stopped])) if found else "it left no node"
        if different:
            raise TenancyError(
                f"{error.message}. The cluster is not whole: {different}. Run again to make it anew.", **error.details
            )
        self._ended = f"{error.message}."

    def _start(self, stopped: list[str]) -> None:
        if stopped:
            self._changes += [(f"{name}: start", "stopped", "running") for name in sorted(stopped)]
            if not self._check:
                self._docker.start(sorted(stopped))

    def _converge(self, nodes: list[_kind.Node]) -> None:
        for node in nodes:
            self._equip(node)
        self._write("kubeconfig", self._kubeconfig, self._docker.kubeconfig(self._name).encode(), 0o600)
        ready = self._wait_until_ready(nodes)
        for what, args in _kind.kubectl_steps(ready, nodes, self._params["control_plane_schedulable"]):
            self._changes.append((what, "due", "done"))
            if not self._check:
                self._docker.kubectl(nodes[0].name, *args)

    def _inspect(self, node: str) -> _kind.Inside:
        return _kind.parse_inside(self._docker.script(node, _kind.INSPECT, *_kind.inspected_files()))

    def _equip(self, node: _kind.Node) -> None:
        programs = self._host.programs() if node.gpus else {}
        config = self._host.config()
        for _round in range(ROUNDS):
            inside = self._wait_until_up(node.name)
            steps = _kind.node_steps(node, inside, programs, config)
            if not steps:
                _kind.check_gpus(node, inside)
                return
            self._changes += [(f"{node.name}: {step.name}", "due", "done") for step in steps]
            if self._check:
                return
            for step in steps:
                if step.copy:
                    self._docker.copy(node.name, *step.copy)
                else:
                    self._docker.script(node.name, step.script)
        raise TenancyError(f"{node.name} does not keep what was done in it: {', '.join(step.name for step in steps)}.")

    def _wait_until_up(self, node: str) -> _kind.Inside:
        """A node that was just started takes the other GPUs away by itself, and cannot be asked for more before."""

        def probe() -> tuple[_kind.Inside | None, str]:
            inside = self._inspect(node)
            return (inside, "") if "up" in inside.done else (None, "its services are still being started")

        return wait_for(f"{node} to start", probe, 0 if self._check else self._params["timeout"])

    def _wait_until_ready(self, nodes: list[_kind.Node]) -> list[dict[str, t.Any]]:
        def probe() -> tuple[list[dict[str, t.Any]] | None, str]:
            try:
                listed = json.loads(self._docker.kubectl(nodes[0].name, "get", "nodes", "--output=json"))["items"]
            except TenancyError as exc:
                return None, exc.message
            words = "; ".join(_kind.unready(listed, nodes))
            return (None, words) if words else (listed, "")

        timeout = 0 if self._check else self._params["timeout"]
        return wait_for(f"the nodes of {self._name} to be ready", probe, timeout)

    def _write_mirrors(self) -> None:
        """Registry mirrors are host files that every node has mounted: a change reaches them at once."""
        mirrors = self._params["registry_mirrors"]
        if not self._check:
            make_directories(self._certs)
        for registry in sorted(set(os.listdir(self._certs) if os.path.isdir(self._certs) else []) - set(mirrors)):
            self._changes.append((f"mirror of {registry}", "there", None))
            if not self._check:
                shutil.rmtree(os.path.join(self._certs, registry))
        for registry, mirror in mirrors.items():
            path = os.path.join(self._certs, registry, "hosts.toml")
            self._write(f"mirror of {registry}", path, _kind.hosts_toml(mirror).encode(), 0o644)

    def _write(self, what: str, path: str, content: bytes, mode: int) -> None:
        before = read_file(path)
        if before == content:
            return
        self._changes.append((what, None if before is None else "different", path))
        if not self._check:
            make_directories(os.path.dirname(path), 0o755 if mode == 0o644 else 0o700)
            write_file(path, content, mode)


@contextlib.contextmanager
def alone(cluster: str, timeout: float) -> t.Iterator[None]:
    """One run at a time: what a killed controller started is still at work on the host. The lock ends with its process."""
    with socket.socket(socket.AF_UNIX) as lock:

        def probe() -> tuple[bool | None, str]:
            try:
                lock.bind(f"\0kubegpu/{cluster}")
            except OSError as exc:
                if exc.errno != errno.EADDRINUSE:
                    raise
                return None, "another process of nvkind_cluster is at work on it"
            return True, ""

        wait_for(f"the cluster {cluster} to be left alone", probe, timeout)
        yield


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "engine": {"type": "str", "choices": ["kind", "nvkind"], "default": "kind"},
            "name": {"type": "str", "required": True},
            "image": {"type": "str"},
            "workers": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "gpus": {"type": "list", "elements": "str"},
                    "count": {"type": "int"},
                    "labels": {"type": "dict", "default": {}},
                },
                "mutually_exclusive": [("gpus", "count")],
            },
            "control_plane_schedulable": {"type": "bool", "default": False},
            "registry_mirrors": {"type": "dict", "default": {}},
            "component_tags": {
                "type": "dict",
                "default": {},
                "options": {"coredns": {"type": "str"}, "etcd": {"type": "str"}},
            },
            "kubeconfig": {"type": "path", "required": True},
            "recreate": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )

    def find(program: str) -> str | None:
        return t.cast("str | None", module.get_bin_path(program, opt_dirs=["/usr/local/bin"]))

    docker, host = Docker(module.run_command, find), Host(module.run_command, find)
    cluster = Cluster(module.params, docker, host, module.check_mode)
    try:
        with contextlib.nullcontext() if module.check_mode else alone(module.params["name"], module.params["timeout"]):
            result = cluster.present() if module.params["state"] == "present" else cluster.absent()
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    for warning in cluster.warnings:
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
