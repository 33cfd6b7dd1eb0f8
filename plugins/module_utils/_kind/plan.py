# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan a cluster: its nodes with their GPUs, kind's configuration, and the changes that bring what is live to that."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t
import urllib.parse

from .._common.errors import refuse
from .._common.nvidia import TOOLKIT_CONFIG, Gpu
from .._common.schema import Problems
from .._common.values import JsonObject
from .facts import (
    CDI_SPEC,
    CERTS,
    CONFIGURE,
    CONFINE_SCRIPT,
    CONFINE_UNIT,
    CONTAINERD_SECTIONS,
    CONTROL_PLANE_SUFFIX,
    GPU_LABEL,
    GPU_MOUNTS,
    MAJOR,
    RESTART_DUE,
    TAINT,
)
from .status import Inside, LiveNode


@dataclasses.dataclass(frozen=True)
class Node:
    """A node as it is wanted."""

    name: str
    role: str
    gpus: list[Gpu]
    labels: dict[str, str]

    def describe(self) -> str:
        """Return the node's role and the indices of its GPUs."""
        gpus = ", ".join(str(gpu.index) for gpu in self.gpus)
        return f"{self.role}, GPUs {gpus}" if gpus else self.role


@dataclasses.dataclass(frozen=True)
class NodeStep:
    """One change inside a node, by a copied file or by a script.

    :ivar what: in the imperative.
    :ivar copy: host file and its place in the node.
    :ivar script: run by bash in the node.
    """

    what: str
    why: str
    copy: tuple[str, str] | None = None
    script: str = ""


def plan_nodes(cluster: str, workers: list[JsonObject], gpus: list[Gpu]) -> list[Node]:
    """Return the nodes of a cluster, each worker with its GPUs; names as kind gives them.

    :arg workers: each with ``gpus`` (indices or UUIDs) or ``count``, and ``labels``.
    :arg gpus: those of the host.
    :raises TenancyError: with every GPU that is wanted twice or does not exist.
    """
    free = list(gpus)
    assigned: dict[int, list[Gpu]] = {}
    problems = Problems()
    # Named GPUs first: a count takes what is left.
    for place, worker in sorted(enumerate(workers), key=lambda item: item[1].get("gpus") is None):
        if worker.get("gpus") is None:
            count = worker.get("count") or 0
            if count < 0:
                problems.add("out-of-range", f"workers[{place}].count", f"must be at least 0, not {count}.")
            elif count > len(free):
                problems.add(
                    "too-few-gpus",
                    f"workers[{place}].count",
                    f"{count} GPUs are wanted, but of the host's {len(gpus)} only {len(free)} are left.",
                )
            assigned[place] = free[: max(0, count)]
        else:
            assigned[place] = _named(f"workers[{place}].gpus", worker["gpus"], free, gpus, problems)
        free = [gpu for gpu in free if gpu not in assigned[place]]
    refuse(problems)
    nodes = [Node(f"{cluster}{CONTROL_PLANE_SUFFIX}", "control-plane", [], {})]
    for place, worker in enumerate(workers):
        labels = {key: str(value) for key, value in (worker.get("labels") or {}).items()}
        own = sorted(assigned[place], key=lambda gpu: gpu.index)
        name = f"{cluster}-worker{place + 1 if place else ''}"
        nodes.append(Node(name, "worker", own, labels | ({GPU_LABEL: "true"} if own else {})))
    return nodes


def _named(where: str, wanted: list[t.Any], free: list[Gpu], gpus: list[Gpu], problems: Problems) -> list[Gpu]:
    """Return the GPUs that a worker names by index or UUID, and add what is wrong to ``problems``."""
    own: list[Gpu] = []
    for name in map(str, wanted):
        gpu = next((gpu for gpu in gpus if name in (str(gpu.index), gpu.uuid)), None)
        if gpu is None:
            have = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus) or "none"
            problems.add("unknown-gpu", where, f"the host has no GPU {name}. It has: {have}.")
        elif gpu in own:
            problems.add("gpu-given-twice", where, f"names GPU {name} twice.")
        elif gpu not in free:
            problems.add("gpu-given-twice", where, f"GPU {name} is wanted by another worker too.")
        else:
            own.append(gpu)
    return own


def kind_config(
    nodes: list[Node],
    certs: str,
    cgroup_v1: bool,
    user_namespace: bool,
    component_tags: dict[str, str | None],
    by_index: bool = False,
) -> JsonObject:
    """Return kind's configuration as data; JSON of it is YAML.

    :arg certs: host directory with the registry mirrors.
    :arg cgroup_v1: whether the host has cgroup v1.
    :arg user_namespace: whether root lacks what kubelet otherwise insists on.
    :arg component_tags: image tags of coredns and etcd, where they differ from kubeadm's.
    :arg by_index: name GPUs by index, because nvkind takes every GPU that is named otherwise away from a node.
    """
    kubelet: JsonObject = {"kind": "KubeletConfiguration"}
    if cgroup_v1:
        kubelet |= {"failCgroupV1": False, "cgroupDriver": "cgroupfs"}
    if user_namespace:
        kubelet["featureGates"] = {"KubeletInUserNamespace": True}
    cluster: JsonObject = {"kind": "ClusterConfiguration"}
    if component_tags.get("coredns"):
        cluster["dns"] = {"imageTag": component_tags["coredns"]}
    if component_tags.get("etcd"):
        cluster["etcd"] = {"local": {"imageTag": component_tags["etcd"]}}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [
            {
                "role": node.role,
                "extraMounts": [{"hostPath": certs, "containerPath": CERTS, "readOnly": True}, *_gpu_mounts(node, by_index)],
            }
            for node in nodes
        ],
        "containerdConfigPatches": [_containerd_patch(version, cgroup_v1, user_namespace) for version in CONTAINERD_SECTIONS],
        "kubeadmConfigPatches": [json.dumps(patch) for patch in (kubelet, cluster) if len(patch) > 1],
    }


def _gpu_mounts(node: Node, by_index: bool) -> list[JsonObject]:
    names = [str(gpu.index) if by_index else gpu.uuid for gpu in node.gpus]
    return [{"hostPath": "/dev/null", "containerPath": GPU_MOUNTS + name} for name in names]


def _containerd_patch(version: int, cgroup_v1: bool, user_namespace: bool) -> str:
    images, runtime = CONTAINERD_SECTIONS[version]
    patch = f'version = {version}\n[plugins."{images}".registry]\nconfig_path = "{CERTS}"\n'
    if cgroup_v1:
        # By systemd, runc would have to freeze each container to set it up, which fails now and then on a busy host.
        patch += f'[plugins."{runtime}".containerd.runtimes.runc.options]\nSystemdCgroup = false\n'
    if user_namespace:
        # Without CAP_SYS_RESOURCE no process may lower an OOM score.
        patch += f'[plugins."{runtime}"]\nrestrict_oom_score_adj = true\n'
    return patch


def hosts_toml(mirror: str) -> str:
    """Return containerd's hosts.toml for one upstream registry, which is asked itself when the mirror does not answer."""
    lines = [f'[host."{mirror}"]', 'capabilities = ["pull", "resolve"]']
    if holds_api(mirror):
        lines.append("override_path = true")
    return "\n".join(lines) + "\n"


def holds_api(mirror: str) -> bool:
    """Tell whether the path of a mirror's address holds the API's /v2, which is appended to others: it leads into a part of the mirror."""
    return "v2" in urllib.parse.urlsplit(mirror).path.split("/")


def nvkind_template(config: JsonObject) -> str:
    """Return kind's configuration as a template in which nvkind finds nothing to replace."""
    return json.dumps(config).replace("{{", '{{"{{"}}')


def layout_differences(wanted: list[Node], live: list[LiveNode], image: str | None, certs: str) -> list[tuple[str, str, str]]:
    """Return what only a new cluster can change: (what, as it is, as desired).

    :arg image: the node image; None where any is fine.
    :arg certs: the host directory with the registry mirrors.
    """
    have = {node.name: node for node in live}
    changes = [(name, "there", "not wanted") for name in sorted(have.keys() - {node.name for node in wanted})]
    for node in wanted:
        if node.name not in have:
            changes.append((node.name, "missing", node.describe()))
            continue
        current = have[node.name]
        # Clusters made by nvkind name their GPUs by index.
        if current.gpus not in ({gpu.uuid for gpu in node.gpus}, {str(gpu.index) for gpu in node.gpus}):
            changes.append((f"{node.name} GPUs", _names(current.gpus), _names(gpu.uuid for gpu in node.gpus)))
        if image and current.image != image:
            changes.append((f"{node.name} image", current.image, image))
        if current.certs != certs:
            changes.append((f"{node.name} registry mirrors", current.certs or "none", certs))
    return changes


def _names(gpus: t.Iterable[str]) -> str:
    return ", ".join(sorted(gpus)) or "none"


def confine_script(gpus: list[Gpu]) -> str:
    """Return the script that leaves a node its own GPUs only; a privileged container has all of them whenever it starts."""
    minors = " ".join(str(gpu.minor) for gpu in gpus)
    return f"""#!/bin/sh
# Written by kubegpu.tenancy: this node has these GPUs of its host, by the N of /dev/nvidiaN.
set -eu
for device in /dev/nvidia[0-9]*; do
  case " {minors} " in
    *" ${{device#/dev/nvidia}} "*) ;;
    *) rm -f "$device" ;;
  esac
done
# nvkind removes devices by index, which need not be N.
for minor in {minors}; do
  [ -e /dev/nvidia$minor ] || mknod -m 666 /dev/nvidia$minor c {MAJOR} $minor
done
# The driver's library must not make them anew.
params=/proc/driver/nvidia/params
if grep -qs 'ModifyDeviceFiles: 1' $params; then
  sed 's/^ModifyDeviceFiles: 1/ModifyDeviceFiles: 0/' $params > /run/kubegpu-nvidia-params
  mount --bind /run/kubegpu-nvidia-params $params
fi
"""


UNIT = f"""[Unit]
Description=Hide the GPUs of other nodes
Before=containerd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={CONFINE_SCRIPT}

[Install]
RequiredBy=containerd.service
"""


def node_steps(
    node: Node, inside: Inside, programs: dict[str, tuple[str, str]], config: tuple[str, str] | None
) -> list[NodeStep]:
    """Return what is to be done inside a node, in order; one step may call for another, so inspect again afterwards.

    :arg programs: the host's file and its SHA-256 checksum, by program.
    :arg config: the host's toolkit configuration and its checksum.
    """
    steps = []
    copies = [(f"/usr/bin/{name}", source) for name, source in programs.items()]
    if config:
        copies.append((TOOLKIT_CONFIG, config))
    for place, (source, checksum) in copies if node.gpus else ():
        if inside.files.get(place) != checksum:
            steps.append(NodeStep(f"copy {place}", "it has to be the host's", copy=(source, place)))
    if _confinement_due(node, inside):
        why = f"it has to see {_names(str(gpu.index) for gpu in node.gpus)} of the host's GPUs, also after a restart"
        steps.append(NodeStep("hide the GPUs of other nodes", why, script=_confine(node, inside)))
    if node.gpus and "cdi" not in inside.states:
        why = f"{CDI_SPEC} is not what nvidia-ctk writes for them"
        steps.append(NodeStep("describe the GPUs for CDI", why, script=f"nvidia-ctk cdi generate --output={CDI_SPEC}\n"))
    if node.gpus and "runtime" not in inside.states:
        restart = f"touch {RESTART_DUE}\n{CONFIGURE}\nsystemctl restart containerd\nrm {RESTART_DUE}\n"
        why = "its configuration does not have it, or containerd was not restarted since"
        steps.append(NodeStep("give containerd the runtime nvidia", why, script=restart))
    return steps


def _stale(node: Node, inside: Inside) -> list[tuple[str, str, int]]:
    """Return the files that confine a node, as far as they are missing or differ in it: place, text and mode."""
    return [
        (place, text, mode)
        for place, text, mode in ((CONFINE_SCRIPT, confine_script(node.gpus), 755), (CONFINE_UNIT, UNIT, 644))
        if inside.files.get(place) != hashlib.sha256(text.encode()).hexdigest()
    ]


def _confinement_due(node: Node, inside: Inside) -> bool:
    if inside.minors != {gpu.minor for gpu in node.gpus}:
        return True
    # A node without GPUs on a host without GPUs has nothing to hide.
    return bool(node.gpus) and ("confined" not in inside.states or bool(_stale(node, inside)))


def _confine(node: Node, inside: Inside) -> str:
    stale = _stale(node, inside)
    script = "".join(f"install -D -m {mode} /dev/stdin {place} << 'END'\n{text}END\n" for place, text, mode in stale)
    # No reload without need: one can take the GPUs away from containers that run.
    new = any(place == CONFINE_UNIT for place, _text, _mode in stale)
    script += "systemctl daemon-reload\n" if new else "systemctl --quiet is-enabled kubegpu-confine-gpus.service || "
    return script + f"systemctl --quiet enable kubegpu-confine-gpus.service\n{CONFINE_SCRIPT}\n"


def kubectl_steps(nodes: list[JsonObject], wanted: list[Node], schedulable: bool) -> list[tuple[str, list[str]]]:
    """Return the labels and taints that differ: what is changed, and the kubectl arguments that change it.

    :arg nodes: the Node objects of the cluster's API.
    :arg schedulable: whether the control plane takes pods that tolerate nothing.
    """
    live = {node["metadata"]["name"]: node for node in nodes}
    steps = []
    for node in wanted:
        labels = live[node.name]["metadata"].get("labels", {})
        missing = [f"{key}={value}" for key, value in node.labels.items() if labels.get(key) != value]
        if missing:
            steps.append((f"label {node.name} {', '.join(missing)}", ["label", "node", node.name, "--overwrite", *missing]))
        taints = [taint["key"] for taint in live[node.name].get("spec", {}).get("taints", [])]
        # A cluster of one node has to take everything.
        tainted = node.role == "control-plane" and not schedulable and len(wanted) > 1
        if node.role == "control-plane" and tainted != (TAINT["key"] in taints):
            taint = f"{TAINT['key']}:{TAINT['effect']}" + ("" if tainted else "-")
            steps.append((f"taint {node.name} {taint}", ["taint", "node", node.name, taint]))
    return steps
