# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge what Docker, the nodes and nvkind show of a cluster."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import re
import typing as t

from .._common.errors import TenancyError
from .._common.nvidia import PROGRAMS, TOOLKIT_CONFIG, Gpu, parse_gpus
from .._common.quantity import whole
from .._common.values import JsonObject
from .facts import (
    CDI_SPEC,
    CERTS,
    CONFIGURE,
    CONFINE_SCRIPT,
    CONFINE_UNIT,
    CONTAINERD_FILES,
    GPU_MOUNTS,
    RESTART_DUE,
    ROLE_LABEL,
)

# Characters of a moment that Docker and Kubernetes write alike: the former adds fractions of a second.
SECONDS = len("2026-01-31T12:00:00")
# A kubelet reports its pods within a minute or two of its start, a busy one later.
UNREPORTED = datetime.timedelta(minutes=10)


class State(enum.Enum):
    """What there is of a cluster, against the layout that is wanted; all but the last have to be made."""

    ABSENT = "absent"
    HALF_MADE = "half-made"
    DIFFERENT = "different"
    MADE = "made"


WHY_TO_MAKE = {State.ABSENT: "there is none", State.HALF_MADE: "an earlier run did not finish it"}


@dataclasses.dataclass(frozen=True)
class LiveNode:
    """A node's container as Docker shows it.

    :ivar started: when it was started last, in UTC, as YYYY-MM-DDTHH:MM:SS; empty where that is not known.
    :ivar gpus: the GPUs that NVIDIA's runtime was asked for, as UUIDs or indices.
    :ivar certs: the host directory with the registry mirrors, empty for none.
    """

    name: str
    role: str
    image: str
    running: bool
    started: str
    gpus: frozenset[str]
    certs: str


@dataclasses.dataclass(frozen=True)
class Inside:
    """What a node shows from inside.

    :ivar files: SHA-256 checksums by path.
    :ivar minors: of the GPU devices in it.
    :ivar uuids: of the GPUs that nvidia-smi lists in it.
    :ivar states: names of the states of INSPECT that hold.
    """

    files: dict[str, str]
    minors: frozenset[int]
    uuids: list[str]
    states: frozenset[str]


# Prints a node's files with their checksums, its GPUs, and which states hold.
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
# The arguments of INSPECT: the files whose checksums count.
INSPECTED_FILES = (*(f"/usr/bin/{name}" for name in PROGRAMS), TOOLKIT_CONFIG, CONFINE_SCRIPT, CONFINE_UNIT)


def parse_nodes(inspected: list[JsonObject]) -> list[LiveNode]:
    """Parse the containers that ``docker inspect`` prints."""
    return [
        LiveNode(
            name=container["Name"].lstrip("/"),
            role=container["Config"]["Labels"].get(ROLE_LABEL, ""),
            image=container["Config"]["Image"],
            running=container["State"]["Status"] == "running",
            started=container["State"].get("StartedAt", "")[:SECONDS],
            gpus=frozenset(
                mount["Destination"].removeprefix(GPU_MOUNTS)
                for mount in container["Mounts"]
                if mount["Destination"].startswith(GPU_MOUNTS)
            ),
            certs=next((mount["Source"] for mount in container["Mounts"] if mount["Destination"] == CERTS), ""),
        )
        for container in inspected
    ]


def parse_inside(output: str) -> Inside:
    """Parse the output of INSPECT."""
    return Inside(
        files={path: checksum for checksum, path in re.findall(r"^([0-9a-f]{64}) [ *](.+)$", output, re.MULTILINE)},
        minors=frozenset(whole(minor) for minor in re.findall(r"^minor (\d{1,9})$", output, re.MULTILINE)),
        uuids=[gpu.uuid for gpu in parse_gpus(output)],
        states=frozenset(re.findall(r"^state (\w+)$", output, re.MULTILINE)),
    )


def check_gpus(node: str, gpus: list[Gpu], inside: Inside) -> None:
    """Compare the GPUs that a node sees with those assigned to it.

    :raises TenancyError: with ``expected_gpus`` and ``seen_gpus``, as UUIDs, when they differ.
    """
    wanted, seen = sorted(gpu.uuid for gpu in gpus), sorted(inside.uuids)
    if seen == wanted:
        return
    hint = ""
    if not seen:
        hint = (
            " Docker's default runtime has to be nvidia, with accept-nvidia-visible-devices-as-volume-mounts switched on,"
            " when the cluster is made: see the role docker_nvidia_runtime, then pass recreate."
        )
    raise TenancyError(
        f"{node} has to see the GPUs {', '.join(wanted)}, but sees {', '.join(seen) or 'none'}.{hint}",
        expected_gpus=wanted,
        seen_gpus=seen,
    )


def unready(nodes: list[JsonObject], wanted: t.Iterable[str]) -> list[str]:
    """Return the reasons why the cluster is not ready, none when it is.

    :arg nodes: the Node objects of its API.
    :arg wanted: the names of all nodes that it has to have.
    """
    live = {node["metadata"]["name"]: node for node in nodes}
    reasons = []
    for name in wanted:
        if name not in live:
            reasons.append(f"{name} has not joined")
            continue
        conditions = live[name].get("status", {}).get("conditions", [])
        ready: JsonObject = next((condition for condition in conditions if condition["type"] == "Ready"), {})
        if ready.get("status") != "True":
            reasons.append(f"{name} is not ready: {ready.get('message', 'it has not reported yet')}")
    return reasons


def lately(started: str, now: datetime.datetime) -> bool:
    """Tell whether a node was started so lately that the API server may still show it as it was before."""
    return bool(started) and now - datetime.datetime.fromisoformat(f"{started}+00:00") < UNREPORTED


def unreported(pods: list[JsonObject], started: t.Mapping[str, str]) -> list[str]:
    """Return the nodes that were started after their pods' containers, as the API server shows these.

    Their kubelets have not reported yet. What is read of pods and nodes until then is how they were before.

    :arg started: when each node was started.
    """
    late = set()
    for pod in pods:
        node = pod["spec"].get("nodeName", "")
        running = [one.get("state", {}).get("running") or {} for one in pod.get("status", {}).get("containerStatuses") or []]
        if any(state.get("startedAt", "9")[:SECONDS] < started.get(node, "") for state in running):
            late.add(node)
    return [f"{node} has not reported its pods since it was started" for node in sorted(late)]
