# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What we know of kind clusters with GPUs: their configuration, their nodes, and what a GPU node needs inside."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import typing as t
import urllib.parse

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

CLUSTER_LABEL = "io.x-k8s.kind.cluster"
ROLE_LABEL = "io.x-k8s.kind.role"
GPU_LABEL = "nvidia.com/gpu.present"
TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}

# A mount of /dev/null here is a request for a GPU that NVIDIA's runtime honours.
GPU_MOUNTS = "/var/run/nvidia-container-devices/"
CERTS = "/etc/containerd/certs.d"
TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
CONFINE_SCRIPT = "/usr/local/sbin/kubegpu-confine-gpus"
CONFINE_UNIT = "/etc/systemd/system/kubegpu-confine-gpus.service"

# NVIDIA's programs that a node takes from its host.
PROGRAMS = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-cdi-hook")

# The sections of containerd's configuration with the registry and the runtime, in both schemas; kind applies the
# patch whose version fits the node image.
CONTAINERD_SECTIONS = {
    2: ("io.containerd.grpc.v1.cri", "io.containerd.grpc.v1.cri"),
    3: ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"),
}


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU of the host.

    :ivar minor: the N of its /dev/nvidiaN, which need not be its index.
    """

    index: int
    uuid: str
    minor: int


@dataclasses.dataclass(frozen=True)
class Node:
    """A node as it is wanted."""

    name: str
    role: str
    gpus: list[Gpu]
    labels: dict[str, str]

    def describe(self) -> str:
        gpus = ", ".join(str(gpu.index) for gpu in self.gpus)
        return f"{self.role}, GPUs {gpus}" if gpus else self.role


@dataclasses.dataclass(frozen=True)
class Found:
    """A node's container as Docker has it.

    :ivar gpus: what was asked of NVIDIA's runtime, as UUIDs or indices.
    :ivar certs: the host directory with the registry mirrors, if any.
    """

    name: str
    role: str
    image: str
    running: bool
    gpus: frozenset[str]
    certs: str


@dataclasses.dataclass(frozen=True)
class Inside:
    """What a node says about itself.

    :ivar files: checksums by path.
    :ivar done: names of the states of INSPECT that hold.
    """

    files: dict[str, str]
    minors: frozenset[int]
    uuids: list[str]
    done: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Step:
    """One change inside a node.

    :ivar copy: host file and its place in the node.
    :ivar script: run by bash in the node.
    """

    name: str
    copy: tuple[str, str] | None = None
    script: str = ""


def parse_gpus(listing: str, minors: dict[str, int] | None = None) -> list[Gpu]:
    """From ``nvidia-smi -L``; minors by UUID, where the driver tells them, else a GPU's index."""
    found = re.findall(r"^GPU (\d+): .*\(UUID: (GPU-[^)\s]+)\)", listing, re.MULTILINE)
    return [Gpu(int(index), uuid, (minors or {}).get(uuid, int(index))) for index, uuid in found]


def parse_minor(information: str) -> tuple[str, int] | None:
    """UUID and minor of /proc/driver/nvidia/gpus/*/information."""
    uuid = re.search(r"^GPU UUID:\s*(GPU-[0-9a-f-]+)\s*$", information, re.MULTILINE)
    minor = re.search(r"^Device Minor:\s*(\d+)\s*$", information, re.MULTILINE)
    return (uuid[1], int(minor[1])) if uuid and minor else None


def plan(cluster: str, workers: list[dict[str, t.Any]], gpus: list[Gpu]) -> list[Node]:
    """The nodes of a cluster, each worker with its GPUs; names as kind gives them.

    :raises TenancyError: when a GPU is wanted twice or does not exist.
    """
    free = list(gpus)
    taken: dict[int, list[Gpu]] = {}
    # Named GPUs first: a count takes what is left.
    for place, worker in sorted(enumerate(workers), key=lambda item: item[1].get("gpus") is None):
        wanted = worker.get("gpus")
        if wanted is None:
            count = worker.get("count") or 0
            if count > len(free):
                raise TenancyError(
                    f"workers[{place}].count: {count} GPUs are wanted, but of the host's {len(gpus)} only {len(free)} are left."
                )
            taken[place] = free[:count]
        else:
            taken[place] = [_pick(f"workers[{place}].gpus", str(gpu), free, gpus) for gpu in wanted]
            if len({gpu.uuid for gpu in taken[place]}) != len(wanted):
                raise TenancyError(f"workers[{place}].gpus: names a GPU twice.")
        free = [gpu for gpu in free if gpu not in taken[place]]
    nodes = [Node(f"{cluster}-control-plane", "control-plane", [], {})]
    for place, worker in enumerate(workers):
        labels = {key: str(value) for key, value in (worker.get("labels") or {}).items()}
        mine = sorted(taken[place], key=lambda gpu: gpu.index)
        name = f"{cluster}-worker{place + 1 if place else ''}"
        nodes.append(Node(name, "worker", mine, labels | ({GPU_LABEL: "true"} if mine else {})))
    return nodes


def _pick(where: str, wanted: str, free: list[Gpu], gpus: list[Gpu]) -> Gpu:
    for gpu in gpus:
        if wanted in (str(gpu.index), gpu.uuid):
            if gpu not in free:
                raise TenancyError(f"{where}: GPU {wanted} is wanted by another worker too.")
            return gpu
    have = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus) or "none"
    raise TenancyError(f"{where}: the host has no GPU {wanted}. It has: {have}.")


def kind_config(
    nodes: list[Node],
    certs: str,
    cgroup_v1: bool,
    user_namespace: bool,
    component_tags: dict[str, str | None],
    by_index: bool = False,
) -> dict[str, t.Any]:
    """kind's configuration, as data; JSON of it is YAML.

    :arg certs: host directory with the registry mirrors.
    :arg cgroup_v1: whether the host has cgroup v1.
    :arg user_namespace: whether root lacks what kubelet otherwise insists on.
    :arg by_index: name GPUs by index: nvkind takes away from a node every GPU that is not named so.
    """
    kubelet: dict[str, t.Any] = {"kind": "KubeletConfiguration"}
    if cgroup_v1:
        kubelet |= {"failCgroupV1": False, "cgroupDriver": "cgroupfs"}
    if user_namespace:
        kubelet["featureGates"] = {"KubeletInUserNamespace": True}
    cluster: dict[str, t.Any] = {"kind": "ClusterConfiguration"}
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
                "extraMounts": [
                    {"hostPath": certs, "containerPath": CERTS, "readOnly": True},
                    *(
                        {"hostPath": "/dev/null", "containerPath": GPU_MOUNTS + (str(gpu.index) if by_index else gpu.uuid)}
                        for gpu in node.gpus
                    ),
                ],
            }
            for node in nodes
        ],
        "containerdConfigPatches": [_containerd_patch(version, cgroup_v1, user_namespace) for version in CONTAINERD_SECTIONS],
        "kubeadmConfigPatches": [json.dumps(patch) for patch in (kubelet, cluster) if len(patch) > 1],
    }


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
    """containerd's hosts.toml for one upstream registry; it is asked itself when the mirror does not answer."""
    lines = [f'[host."{mirror}"]', 'capabilities = ["pull", "resolve"]']
    # containerd appends the API's /v2 to an address; one that holds it already leads into a part of the mirror.
    if "v2" in urllib.parse.urlsplit(mirror).path.split("/"):
        lines.append("override_path = true")
    return "\n".join(lines) + "\n"


# --- nvkind ---

# Its flags can be set by these too, and KIND_CLUSTER_RETAIN sets two at once, which no value suits.
NVKIND_VARIABLES = (
    "KIND_CLUSTER_NAME",
    "KIND_CLUSTER_IMAGE",
    "KIND_CLUSTER_RETAIN",
    "KIND_CLUSTER_CONFIG_TEMPLATE",
    "KIND_CLUSTER_CONFIG_VALUES",
    "NVKIND_SKIP_GPU_SETUP",
)

# What nvkind says, and what it means; as of its commit 24c190e.
NVKIND_ERRORS = (
    (
        "writing configmap: %!w(<nil>)",
        "nvkind loses the cause here: its ConfigMap default/nvkind-cluster-config could not be written to the new cluster",
    ),
    ("installing container toolkit on node", "nvkind installs NVIDIA's toolkit from the internet, which the node has to reach"),
    ("patching /proc/driver/nvidia on node", "nvkind gave up where it hides the GPUs of other nodes"),
)


def nvkind_template(config: dict[str, t.Any]) -> str:
    """kind's configuration as a template in which nvkind finds nothing to replace."""
    return json.dumps(config).replace("{{", '{{"{{"}}')


def nvkind_words(error: str) -> str:
    """Why nvkind gave up, without the stacks that its logger prints."""
    said = re.findall(r"^(?:ERROR:|F\d{4} .*?\] Error:) (.+)$", error, re.MULTILINE)
    said = said or [line for line in error.splitlines() if line.strip()][-1:]
    meant = [meaning for words, meaning in NVKIND_ERRORS if words in error]
    return "; ".join(said) + "".join(f" ({meaning})" for meaning in meant)


# --- what Docker has ---


def parse_nodes(inspected: list[dict[str, t.Any]]) -> list[Found]:
    """From ``docker inspect``."""
    return [
        Found(
            name=container["Name"].lstrip("/"),
            role=container["Config"]["Labels"].get(ROLE_LABEL, ""),
            image=container["Config"]["Image"],
            running=container["State"]["Status"] == "running",
            gpus=frozenset(
                mount["Destination"].removeprefix(GPU_MOUNTS)
                for mount in container["Mounts"]
                if mount["Destination"].startswith(GPU_MOUNTS)
            ),
            certs=next((mount["Source"] for mount in container["Mounts"] if mount["Destination"] == CERTS), ""),
        )
        for container in inspected
    ]


def differences(wanted: list[Node], found: list[Found], image: str | None, certs: str) -> list[tuple[str, str, str]]:
    """What only a new cluster can change: (what, as it is, as wanted)."""
    have = {node.name: node for node in found}
    changes = [(name, "there", "not wanted") for name in sorted(have.keys() - {node.name for node in wanted})]
    for node in wanted:
        if node.name not in have:
            changes.append((node.name, "missing", node.describe()))
            continue
        mine = have[node.name]
        # Clusters made by nvkind name their GPUs by index.
        if mine.gpus not in ({gpu.uuid for gpu in node.gpus}, {str(gpu.index) for gpu in node.gpus}):
            changes.append((f"{node.name} GPUs", _names(mine.gpus), _names(gpu.uuid for gpu in node.gpus)))
        if image and mine.image != image:
            changes.append((f"{node.name} image", mine.image, image))
        if mine.certs != certs:
            changes.append((f"{node.name} registry mirrors", mine.certs or "none", certs))
    return changes


def _names(gpus: t.Iterable[str]) -> str:
    return ", ".join(sorted(gpus)) or "none"


# --- inside a node ---

# Written so that running it again gives the same files: the dry run prints what `configure` would write.
CONFIGURE = "nvidia-ctk runtime configure --runtime=containerd --config-source=file"
CONTAINERD_FILES = "/etc/containerd/conf.d/99-nvidia.toml /etc/containerd/config.toml"
RESTART_DUE = "/etc/containerd/kubegpu-restart-due"
CDI_SPEC = "/etc/cdi/nvidia.yaml"
# Of the NVIDIA driver's devices.
MAJOR = 195

# One look at a node: its files' checksums, GPUs, and which states hold.
INSPECT = f"""
for file in "$@"; do [ ! -f "$file" ] || sha256sum "$file"; done
for device in /dev/nvidia[0-9]*; do [ ! -e "$device" ] || echo "minor ${{device#/dev/nvidia}}"; done
state() {{ local name=$1; shift; ! "$@" || echo "state $name"; }}
joined() {{ [ -e /etc/kubernetes/kubelet.conf ]; }}
up() {{ systemctl --quiet is-active multi-user.target containerd.service; }}
confined() {{
  systemctl --quiet is-enabled kubegpu-confine-gpus.service && ! grep -qs 'ModifyDeviceFiles: 1' /proc/driver/nvidia/params
}}
runtime() {{
  [ ! -e {RESTART_DUE} ] && [ "$({CONFIGURE} --dry-run | grep .)" = "$(cat {CONTAINERD_FILES} | grep .)" ]
}}
cdi() {{ ! grep -Eq '^ *mode *= *"cdi"' {TOOLKIT_CONFIG} || cmp -s <(nvidia-ctk cdi generate) {CDI_SPEC}; }}
for name in joined up confined runtime cdi; do state $name $name; done 2> /dev/null
nvidia-smi -L 2> /dev/null || true
"""


def parse_inside(output: str) -> Inside:
    """From the output of INSPECT."""
    return Inside(
        files={path: checksum for checksum, path in re.findall(r"^([0-9a-f]{64}) [ *](.+)$", output, re.MULTILINE)},
        minors=frozenset(int(minor) for minor in re.findall(r"^minor (\d+)$", output, re.MULTILINE)),
        uuids=[gpu.uuid for gpu in parse_gpus(output)],
        done=frozenset(re.findall(r"^state (\w+)$", output, re.MULTILINE)),
    )


def inspected_files() -> list[str]:
    return [f"/usr/bin/{name}" for name in PROGRAMS] + [TOOLKIT_CONFIG, CONFINE_SCRIPT, CONFINE_UNIT]


def confine_script(gpus: list[Gpu]) -> str:
    """Gives a node its own GPUs and no others: a privileged container has them all whenever it starts."""
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


def node_steps(node: Node, inside: Inside, programs: dict[str, tuple[str, str]], config: tuple[str, str] | None) -> list[Step]:
    """What a node still needs, in order; one step may call for another, so look again afterwards.

    :arg programs: the host's file and its checksum, by program.
    :arg config: the host's toolkit configuration and its checksum.
    """
    steps = []
    copies = [(f"/usr/bin/{name}", source) for name, source in programs.items()]
    if config:
        copies.append((TOOLKIT_CONFIG, config))
    for place, (source, checksum) in copies if node.gpus else ():
        if inside.files.get(place) != checksum:
            steps.append(Step(f"copy {place}", copy=(source, place)))
    if _confinement_due(node, inside):
        steps.append(Step("hide the GPUs of other nodes", script=_confine(node, inside)))
    if node.gpus and "cdi" not in inside.done:
        steps.append(Step("describe the GPUs for CDI", script=f"nvidia-ctk cdi generate --output={CDI_SPEC}\n"))
    if node.gpus and "runtime" not in inside.done:
        restart = f"touch {RESTART_DUE}\n{CONFIGURE}\nsystemctl restart containerd\nrm {RESTART_DUE}\n"
        steps.append(Step("give containerd the runtime nvidia", script=restart))
    return steps


def _stale(node: Node, inside: Inside) -> list[tuple[str, str, int]]:
    """The files that confine a node, as far as it lacks them: place, text and mode."""
    return [
        (place, text, mode)
        for place, text, mode in ((CONFINE_SCRIPT, confine_script(node.gpus), 755), (CONFINE_UNIT, UNIT, 644))
        if inside.files.get(place) != hashlib.sha256(text.encode()).hexdigest()
    ]


def _confinement_due(node: Node, inside: Inside) -> bool:
    if inside.minors != {gpu.minor for gpu in node.gpus}:
        return True
    # A node without GPUs on a host without GPUs has nothing to hide.
    return bool(node.gpus) and ("confined" not in inside.done or bool(_stale(node, inside)))


def _confine(node: Node, inside: Inside) -> str:
    stale = _stale(node, inside)
    script = "".join(f"install -D -m {mode} /dev/stdin {place} << 'END'\n{text}END\n" for place, text, mode in stale)
    # No reload without need: one can take the GPUs away from containers that run.
    new = any(place == CONFINE_UNIT for place, _text, _mode in stale)
    script += "systemctl daemon-reload\n" if new else "systemctl --quiet is-enabled kubegpu-confine-gpus.service || "
    return script + f"systemctl --quiet enable kubegpu-confine-gpus.service\n{CONFINE_SCRIPT}\n"


def check_gpus(node: Node, inside: Inside) -> None:
    """The GPUs inside a node have to be exactly those of the host that were assigned to it."""
    wanted, seen = sorted(gpu.uuid for gpu in node.gpus), sorted(inside.uuids)
    if seen == wanted:
        return
    hint = ""
    if not seen:
        hint = (
            " Docker's default runtime has to be nvidia, with accept-nvidia-visible-devices-as-volume-mounts switched on,"
            " when the cluster is made: see the role docker_nvidia_runtime, then pass recreate."
        )
    raise TenancyError(
        f"{node.name} has to see the GPUs {', '.join(wanted)}, but sees {', '.join(seen) or 'none'}.{hint}",
        expected_gpus=wanted,
        seen_gpus=seen,
    )


# --- the cluster ---


def unready(nodes: list[dict[str, t.Any]], wanted: list[Node]) -> list[str]:
    """What keeps the cluster from being ready, in words."""
    have = {node["metadata"]["name"]: node for node in nodes}
    words = []
    for node in wanted:
        if node.name not in have:
            words.append(f"{node.name} has not joined")
            continue
        conditions = have[node.name].get("status", {}).get("conditions", [])
        ready: dict[str, t.Any] = next((condition for condition in conditions if condition["type"] == "Ready"), {})
        if ready.get("status") != "True":
            words.append(f"{node.name} is not ready: {ready.get('message', 'it has not reported yet')}")
    return words


def kubectl_steps(nodes: list[dict[str, t.Any]], wanted: list[Node], schedulable: bool) -> list[tuple[str, list[str]]]:
    """Labels and taints that differ: what is changed, and the kubectl arguments that change it."""
    have = {node["metadata"]["name"]: node for node in nodes}
    steps = []
    for node in wanted:
        labels = have[node.name]["metadata"].get("labels", {})
        missing = [f"{key}={value}" for key, value in node.labels.items() if labels.get(key) != value]
        if missing:
            steps.append((f"{node.name}: label {', '.join(missing)}", ["label", "node", node.name, "--overwrite", *missing]))
        taints = [taint["key"] for taint in have[node.name].get("spec", {}).get("taints", [])]
        # A cluster of one node has to take everything.
        tainted = node.role == "control-plane" and not schedulable and len(wanted) > 1
        if node.role == "control-plane" and tainted != (TAINT["key"] in taints):
            word = f"{TAINT['key']}:{TAINT['effect']}" + ("" if tainted else "-")
            steps.append((f"{node.name}: taint {word}", ["taint", "node", node.name, word]))
    return steps
