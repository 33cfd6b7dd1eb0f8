# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a host with NVIDIA's driver and container toolkit has: its GPUs, and the programs that nodes take from it. Pure."""

from __future__ import annotations

import dataclasses
import re

from .quantity import whole

TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
# NVIDIA's programs that a node takes from its host.
PROGRAMS = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-cdi-hook")


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU of the host.

    :ivar minor: the N of its /dev/nvidiaN, which need not be its index.
    """

    index: int
    uuid: str
    minor: int


def parse_gpus(listing: str, minors: dict[str, int] | None = None) -> list[Gpu]:
    """Parse the output of ``nvidia-smi -L``.

    :arg minors: by UUID; a GPU that is not among them is taken to have its index as minor.
    """
    gpus = re.findall(r"^GPU (\d{1,9}): .*\(UUID: (GPU-[^)\s]+)\)", listing, re.MULTILINE)
    return [Gpu(whole(index), uuid, (minors or {}).get(uuid, whole(index))) for index, uuid in gpus]


def parse_minor(information: str) -> tuple[str, int] | None:
    """Parse UUID and minor from /proc/driver/nvidia/gpus/*/information; None where the driver does not know the UUID yet."""
    uuid = re.search(r"^GPU UUID:\s*(GPU-[0-9a-f-]+)\s*$", information, re.MULTILINE)
    minor = re.search(r"^Device Minor:\s*(\d{1,9})\s*$", information, re.MULTILINE)
    return (uuid[1], whole(minor[1])) if uuid and minor else None
