# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What NCCL writes with NCCL_DEBUG=INFO about the way between GPUs of two nodes, and what keeps it from the fast one.

The forms of lines are those of NCCL 2.4 to 2.25, as logs in NVIDIA/nccl's issues have them, by number below.
"""

from __future__ import annotations

import dataclasses
import re

# How data go from a GPU of one node to a GPU of another: by its network card from the GPU's memory, by the card from the host's memory, or by
# the kernel's TCP.
GDR, RDMA, TCP = "gdr", "rdma", "tcp"
# Where no data go to another node, and where the log does not say.
WITHIN_NODE, UNKNOWN = "within_node", "unknown"

# What a line says after this is NCCL's.
PREFIX = "NCCL INFO "
# A connection to another node, such as "via NET/IB/0/GDRDMA" (#307) or "via NET/AWS Libfabric/0/GDRDMA" (#527).
LINK = re.compile(r" via NET/(?P<network>[^/]{1,40})/(?P<way>[^\s]{0,80})")
OVER_GDR = "GDRDMA"
# One within a node, such as "via P2P/IPC", "via SHM/direct/direct" or "via direct shared memory" (#302, #367).
WITHIN = re.compile(r" via (?:P2P|SHM|NVLS|direct shared memory)")
# Which network it chose (#707).
NETWORK = re.compile(r"^Using network (?P<network>.{1,40})")
SOCKET = "Socket"


@dataclasses.dataclass(frozen=True)
class Cause:
    """Why a log has a slower way than the network card's own.

    :ivar reason: its name; ``line``, the form of the log's line, whose groups the message can name.
    :ivar keeps_from: GDR for what leaves RDMA possible, else RDMA.
    """

    reason: str
    line: re.Pattern[str]
    keeps_from: str
    message: str
    advice: str


# In the order in which they are told: what was asked for comes before what is missing.
CAUSES = (
    Cause(
        "ib_disabled",
        re.compile(r"NCCL_IB_DISABLE set by environment to [1-9]"),
        RDMA,
        "NCCL_IB_DISABLE is set.",
        "Take it out of the container's environment.",
    ),
    Cause(
        "socket_chosen",
        re.compile(r"NCCL_NET set by environment to Socket", re.IGNORECASE),
        RDMA,
        "NCCL_NET names Socket.",
        "Take it out of the container's environment.",
    ),
    # #226, #952
    Cause(
        "no_device",
        re.compile(r"NET/IB : No device found"),
        RDMA,
        "The pod sees no RDMA device.",
        "Ask for one in its resources, such as rdma/rdma_shared_device_a, under the name that the node's RDMA device plugin offers. If it asks, "
        "see whether NCCL_IB_HCA leaves the device out.",
    ),
    # #1537, #1510, #1939
    Cause(
        "no_peer_memory",
        re.compile(r"GPU Direct RDMA Disabled for HCA \d+ '(?P<card>[\w.-]{1,60})'"),
        GDR,
        "Network card {card} cannot read a GPU's memory.",
        "Load nvidia_peermem on the node, or use the open GPU kernel modules with DMA-BUF. See whether PCIe ACS is off.",
    ),
    # #1151
    Cause(
        "too_far",
        re.compile(r"GPU Direct RDMA Disabled for GPU \w{1,20} / HCA \d+ \(distance (?P<distance>\d{1,3}) > (?P<most>\d{1,3})\)"),
        GDR,
        "A GPU and its network card are {distance} steps apart, and {most} are allowed.",
        "Use GPUs and cards below the same PCIe switch (Topology Manager), or raise NCCL_NET_GDR_LEVEL and measure.",
    ),
    # NVIDIA/nccl-tests #245
    Cause(
        "ofi",
        re.compile(r"NET/OFI .*disabling GDR"),
        GDR,
        "The OFI plugin switched it off.",
        "See the lines of NET/OFI before: the libfabric provider of the node has no access to GPU memory.",
    ),
)
