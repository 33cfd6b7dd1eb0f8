# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell from a log of NCCL by which way GPUs of two nodes exchange data. Pure."""

from __future__ import annotations

from .._common.text import shown
from .._common.values import JsonObject
from .facts import CAUSES, GDR, LINK, NETWORK, OVER_GDR, PREFIX, RDMA, SOCKET, TCP, UNKNOWN, WITHIN, WITHIN_NODE, Cause

# Characters of a line of NCCL that are looked at, and networks that are told: a log is its writer's own.
_LONGEST_LINE, _MOST_NETWORKS = 400, 10
_NOTHING = "The part of its log that was read has no line by which NCCL tells."


def judge(log: str) -> JsonObject:
    """Return how GPUs reach those of other nodes, by a log with NCCL_DEBUG=INFO.

    :returns: ``transport``, the slowest one that is seen; ``links`` to other nodes, how many of them have ``gdr``; ``networks`` by name;
        ``reasons``, each with its message and advice, where the transport is not the fastest.
    """
    links, gdr, within = 0, 0, False
    networks: dict[str, None] = {}
    causes: dict[str, tuple[Cause, dict[str, str]]] = {}
    for said in _said(log):
        if link := LINK.search(said):
            links, gdr = links + 1, gdr + (OVER_GDR in link["way"].split("/"))
        elif WITHIN.search(said):
            within = True
        network = link or NETWORK.search(said)
        if network and len(networks) < _MOST_NETWORKS:
            networks[shown(network["network"])] = None
        for cause in CAUSES:
            if found := cause.line.search(said):
                causes.setdefault(cause.reason, (cause, found.groupdict()))
    transport = _transport(links, gdr, list(networks), within)
    return {
        "transport": transport,
        "links": links,
        "gdr_links": gdr,
        "networks": list(networks),
        "reasons": _reasons(transport, causes),
    }


def _said(log: str) -> list[str]:
    """Return what NCCL says in a log, a line each."""
    parts = (line.partition(PREFIX)[2] for line in log.split("\n") if PREFIX in line)
    return [part[:_LONGEST_LINE] for part in parts]


def _transport(links: int, gdr: int, networks: list[str], within: bool) -> str:
    if links:
        return TCP if SOCKET in networks else GDR if gdr == links else RDMA
    if within:
        return WITHIN_NODE
    return TCP if SOCKET in networks else RDMA if networks else UNKNOWN


def _reasons(transport: str, causes: dict[str, tuple[Cause, dict[str, str]]]) -> list[JsonObject]:
    """Return what explains a transport, in the order of CAUSES."""
    if transport == UNKNOWN:
        return [
            {
                "reason": "no_lines",
                "message": _NOTHING,
                "advice": "Set NCCL_DEBUG=INFO in the containers, and look once the job exchanges data.",
            }
        ]
    slower = {TCP: (RDMA,), RDMA: (GDR,)}.get(transport, ())
    return [
        {"reason": cause.reason, "message": cause.message.format(**groups), "advice": cause.advice}
        for cause, groups in (causes[cause.reason] for cause in CAUSES if cause.reason in causes)
        if cause.keeps_from in slower
    ]
