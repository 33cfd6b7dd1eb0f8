# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What an installation needs and no chart says, each with its source."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that has to be on the host already, because the playbooks install none.

    :ivar version: the oldest that works; empty where none is known not to.
    :ivar source: where it is published.
    :ivar engines: values of nvkind_engine with which it is needed; empty for every cluster, also one that exists.
    """

    name: str
    version: str
    source: str
    engines: tuple[str, ...] = ()


_MADE = ("kind", "nvkind")
PROGRAMS = (
    Program("helm", "3.14", "https://get.helm.sh"),
    Program("docker", "20.10", "https://docs.docker.com/engine/install", _MADE),
    Program("nvidia-smi", "418.81.07", "https://www.nvidia.com/drivers", _MADE),
    Program("kind", "0.33.0", "https://kind.sigs.k8s.io/dl", _MADE),
    Program("nvkind", "", "https://github.com/NVIDIA/nvkind", ("nvkind",)),
    Program("kubectl", "", "https://dl.k8s.io", ("nvkind",)),
)

# Parts of the GPU operator's ClusterPolicy that it starts only for virtual machines: where sandboxWorkloads.enabled is true
# (controllers/state_manager.go of v26.7.0, isStateEnabled).
SANDBOX_PARTS = frozenset(
    {
        "ccManager",
        "kataManager",
        "kataSandboxDevicePlugin",
        "sandboxDevicePlugin",
        "vfioManager",
        "vgpuDeviceManager",
        "vgpuManager",
    }
)

# The registry of an image that names none, and where its API is (distribution/reference, normalize.go; moby/moby, registry/config.go).
DEFAULT_REGISTRY, DEFAULT_REGISTRY_API = "docker.io", "registry-1.docker.io"
# Its former name, which stands for the same (distribution/reference, normalize.go).
FORMER_REGISTRY = "index.docker.io"
