# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge which virtual clusters would book the GPUs of one node, each without seeing the others. Pure."""

from __future__ import annotations

import collections
import typing as t

from .._common.names import GPU_RESOURCE
from .._common.ownership import labels_of
from .._common.values import JsonObject
from .._nodes.status import offered
from .._nodes.validation import conflict
from .values import claim, selected, uses


def collisions(
    nodes: list[JsonObject], clusters: t.Mapping[str, JsonObject], resource: str = GPU_RESOURCE, only: str | None = None
) -> list[str]:
    """Return a sentence for each node whose GPUs two virtual clusters would book, each without seeing the other.

    :arg clusters: values or configuration of each, by the name that the sentences give it.
    :arg only: name of the one that the sentences are about; None for all.
    """
    by_label: dict[tuple[str, str], list[JsonObject]] = collections.defaultdict(list)
    for node in nodes:
        for pair in labels_of(node).items():
            by_label[pair].append(node)
    claims: dict[str, list[str]] = collections.defaultdict(list)
    for name, config in sorted(clusters.items()):
        # The fewest nodes that have one of the labels by which the virtual cluster chooses its own.
        candidates = min((by_label.get(pair, []) for pair in selected(config).items()), key=len, default=nodes)
        for node in candidates:
            if uses(config, labels_of(node)):
                claims[node["metadata"]["name"]].append(name)
    sentences = []
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        names = claims[node["metadata"]["name"]]
        if len(names) < 2 or (only is not None and only not in names):
            continue
        try:
            gpus = offered(node, resource)
        except ValueError:
            # The ledger names such a node; that two claim it, it says all the same.
            gpus = 1
        if why := conflict(gpus, [claim(name, clusters[name]) for name in names]):
            sentences.append(f"node {node['metadata']['name']} with {gpus} GPUs: {why}")
    return sentences
