# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nccl.status import judge

# Lines as logs have them, with other names; of NCCL 2.4, 2.7 and 2.25.
IB = "node-a:25668:27396 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.10.10.10<0>"
CHOSE_IB = "node-a:25668:27396 [0] NCCL INFO Using network IB"
CHOSE_SOCKET = "node-a:924:924 [0] NCCL INFO Using network Socket"
GDR_LINK = "node-a:65:120 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA"
SHARED_GDR_LINK = "node-a:65:120 [0] NCCL INFO Channel 01/0 : 7[7] -> 8[0] [send] via NET/IB/1(3)/GDRDMA/Shared"
IB_LINK = "node-a:65:120 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0"
OLD_IB_LINK = "node-a:65:120 [0] NCCL INFO Ring 00 : 15[3d000] -> 0[1b000] [receive] via NET/IB/0/GDRDMA"
SOCKET_LINK = "node-a:117277:117384 [0] NCCL INFO Ring 00 : 15 -> 0 [receive] via NET/Socket/0"
EFA = "node-a:1:2 [0] NCCL INFO Using network AWS Libfabric"
EFA_LINK = "node-a:1:2 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA"
PEERS = "node-a:5330:5499 [3] NCCL INFO Ring 00 : 155[3d000] -> 157[b2000] via P2P/IPC"
MEMORY = "node-a:117291:117389 [0] NCCL INFO Ring 00 : 2[0] -> 3[0] via direct shared memory"
NO_DEVICE = "node-a:45361:45361 [0] NCCL INFO NET/IB : No device found."
DISABLED = "node-a:20:289 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1."
NOT_DISABLED = "node-a:20:289 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 0."
NO_PEER_MEMORY = "node-a:25668:27396 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"
FAR = "node-a:1:2 [0] NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)"
OFI = "node-a:1:2 [0] NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR"


def told(*lines):
    found = judge("\n".join(lines))
    return found["transport"], [reason["reason"] for reason in found["reasons"]]


@pytest.mark.parametrize(
    ("lines", "transport", "reasons"),
    [
        ((IB, CHOSE_IB, GDR_LINK, SHARED_GDR_LINK), "gdr", []),
        ((NOT_DISABLED, IB, OLD_IB_LINK, PEERS), "gdr", []),
        ((IB, CHOSE_IB, NO_PEER_MEMORY, IB_LINK), "rdma", ["no_peer_memory"]),
        ((IB, CHOSE_IB, FAR, GDR_LINK, IB_LINK), "rdma", ["too_far"]),
        (
            (OFI, "n:1:2 [0] NCCL INFO Using network AWS Libfabric", "n:1:2 [0] NCCL INFO x via NET/AWS Libfabric/0"),
            "rdma",
            ["ofi"],
        ),
        ((IB, CHOSE_IB), "rdma", []),
        ((EFA, EFA_LINK, PEERS), "gdr", []),
        ((EFA_LINK,), "gdr", []),
        ((EFA, EFA_LINK.replace("/GDRDMA", ""), PEERS), "rdma", []),
        ((NO_DEVICE, CHOSE_SOCKET, SOCKET_LINK), "tcp", ["no_device"]),
        ((DISABLED, CHOSE_SOCKET, SOCKET_LINK), "tcp", ["ib_disabled"]),
        (("n:1:2 [0] NCCL INFO NCCL_NET set by environment to Socket", CHOSE_SOCKET), "tcp", ["socket_chosen"]),
        # What keeps it from GPUs' memory does not matter where there is no RDMA at all.
        ((NO_PEER_MEMORY, NO_DEVICE, SOCKET_LINK), "tcp", ["no_device"]),
        ((CHOSE_IB, GDR_LINK, SOCKET_LINK), "tcp", []),
        ((NO_DEVICE, CHOSE_SOCKET, PEERS, MEMORY), "within_node", []),
        ((PEERS,), "within_node", []),
        (("Epoch 1", "loss 3.2", ""), "unknown", ["no_lines"]),
        ((), "unknown", ["no_lines"]),
    ],
)
def test_a_log_says_by_which_way(lines, transport, reasons):
    assert told(*lines) == (transport, reasons)


def test_links_and_networks_are_counted_and_what_the_line_says_is_told():
    found = judge("\n".join([CHOSE_IB, FAR, NO_PEER_MEMORY, GDR_LINK, GDR_LINK, IB_LINK]))
    assert (found["links"], found["gdr_links"], found["networks"]) == (3, 2, ["IB"])
    assert [reason["message"] for reason in found["reasons"]] == [
        "Network card mlx5_0 cannot read a GPU's memory.",
        "A GPU and its network card are 7 steps apart, and 4 are allowed.",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "NCCL INFO " + "via NET/" * 3000,
        "NCCL INFO via NET/" + "a" * 100_000,
        "\x1b[2JNCCL INFO Using network \x1b[31mX",
        "NCCL INFO " * 200,
        "NCCL INFO " + "GPU Direct RDMA Disabled for GPU " * 60,
    ],
)
def test_a_log_is_its_writers_own(line):
    log = "\n".join([line] * (2 * 2**20 // len(line)))
    began = time.process_time()
    found = judge(log)
    # A reading of each character for each of the others would take hours.
    assert time.process_time() - began < 20
    assert all(name.isprintable() and len(name) <= 40 for name in found["networks"])


def test_only_some_networks_are_told():
    assert len(judge("\n".join(f"NCCL INFO Using network n{number}" for number in range(1000)))["networks"]) == 10
