# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell from a log of NCCL by which way GPUs of two nodes exchange data. Pure."""

from __future__ import annotations

from .._common.text import shown
from .._common.values import JsonObject
from .facts import CAUSES, GDR, LINK, NETWORK, RDMA, SOCKET, TCP, UNKNOWN, WITHIN, WITHIN_NODE, Cause

# Characters of a line that are looked at, and of networks' names that are told.
_LONGEST_LINE, _LONGEST_NAME = 2000, 40
_NOTHING = "It has no line by which NCCL tells. Set NCCL_DEBUG=INFO in the containers, and look once the job exchanges data."


def judge(log: str) -> JsonObject:
    """Return how GPUs reach those of other nodes, by a log with NCCL_DEBUG=INFO.

    :returns: ``transport``, the slowest one that is seen; ``links`` to other nodes, how many of them have ``gdr``; ``networks`` by name;
        ``reasons``, each with its message and advice, where the transport is not the fastest.
    """
    links, gdr, within = 0, 0, False
    networks: dict[str, None] = {}
    causes: dict[str, tuple[Cause, dict[str, str]]] = {}
    for line in (line[:_LONGEST_LINE] for line in log.splitlines()):
        if link := LINK.search(line):
            links, gdr = links + 1, gdr + bool(link["gdr"])
            networks[shown(link["network"], _LONGEST_NAME)] = None
        elif chosen := NETWORK.search(line):
            networks[shown(chosen["network"], _LONGEST_NAME)] = None
        within = within or bool(WITHIN.search(line))
        for cause in CAUSES:
            if found := cause.line.search(line):
                causes.setdefault(cause.reason, (cause, found.groupdict()))
    transport = _transport(links, gdr, list(networks), within)
    return {
        "transport": transport,
        "links": links,
        "gdr_links": gdr,
        "networks": list(networks),
        "reasons": _reasons(transport, causes),
    }


def _transport(links: int, gdr: int, networks: list[str], within: bool) -> str:
    if SOCKET in networks:
        return TCP if links or not within else WITHIN_NODE
    if links:
        return GDR if gdr == links else RDMA
    return WITHIN_NODE if within else RDMA if networks else UNKNOWN


def _reasons(transport: str, causes: dict[str, tuple[Cause, dict[str, str]]]) -> list[JsonObject]:
    """Return what explains a transport, in the order of CAUSES."""
    if transport == UNKNOWN:
        return [{"reason": "no_lines", "message": _NOTHING, "advice": "See the documentation of NCCL_DEBUG."}]
    slower = {TCP: (RDMA,), RDMA: (GDR,)}.get(transport, ())
    return [
        {"reason": cause.reason, "message": cause.message.format(**groups), "advice": cause.advice}
        for cause, groups in (causes[cause.reason] for cause in CAUSES if cause.reason in causes)
        if cause.keeps_from in slower
    ]
