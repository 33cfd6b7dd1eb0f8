# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Which versions of two parts go together, as a table: each row with its source.

KAI Scheduler's rows are made of its own table. Combinations with which nothing would run are with the part that they are about, which
refuses them: LIMITS of the device plugin, OLD_TENANT_FIX of vCluster.
"""

from __future__ import annotations

import dataclasses

from .._kai.facts import FACTS, dotted

# Parts, as they are called in sentences. KUBERNETES is that of the cluster in which a part runs, HOST that of the cluster below a tenant's.
VCLUSTER, KAI, KUBERNETES, HOST = "vcluster", "kai", "kubernetes", "host"
DEVICE_PLUGIN, TOOLKIT = "device_plugin", "toolkit"
PARTS = {
    VCLUSTER: "vCluster",
    KAI: "KAI Scheduler",
    KUBERNETES: "Kubernetes",
    HOST: "a host cluster with Kubernetes",
    TOOLKIT: "NVIDIA's container toolkit",
    DEVICE_PLUGIN: "NVIDIA's device plugin",
}

NEEDS, TESTED, LISTED = "needs", "is tested upstream with", "is listed upstream for"


@dataclasses.dataclass(frozen=True)
class Row:
    """With which versions of another part a part goes together.

    :ivar name: by which another combination is accepted.
    :ivar part: whose versions from ``since`` up to, but not including, ``before`` it holds for; empty for no bound.
    :ivar first: and ``last``, versions of ``other``, both included, 1.36 with all of its patches; empty for no bound.
    :ivar verb: NEEDS, and what differs is refused; or another one, and it is a warning.
    """

    name: str
    part: str
    since: str
    before: str
    verb: str
    other: str
    first: str
    last: str
    source: str


_KAI = FACTS["kubernetes"]
_PLUGIN = "github.com/NVIDIA/k8s-device-plugin: README, prerequisites, of 0.17.0 to 0.19.2 alike"
_MATRIX = "loft-sh/vcluster-docs: static/api/k8s-compatibility.json"

ROWS: tuple[Row, ...] = (
    *(
        Row(
            "kai-kubernetes",
            KAI,
            dotted(row.since),
            dotted(later.since) if later else "",
            TESTED,
            KUBERNETES,
            dotted(row.value[0]),
            dotted(row.value[1]),
            row.source,
        )
        for row, later in zip(_KAI, (*_KAI[1:], None))
        if row.value
    ),
    # The file was renewed with the documentation of 0.37.0-rc.1, on 2026-08-21, and is for the minor versions that install 1.36 by default. It
    # does not name Kubernetes 1.37.
    Row("vcluster-host", VCLUSTER, "0.35", "0.38", LISTED, HOST, "1.34", "1.36", _MATRIX),
    Row("vcluster-kubernetes", VCLUSTER, "0.35", "0.38", LISTED, KUBERNETES, "1.34", "1.36", _MATRIX),
    Row("device-plugin-toolkit", DEVICE_PLUGIN, "", "", NEEDS, TOOLKIT, "1.7.0", "", _PLUGIN),
)
NAMES = tuple(dict.fromkeys(row.name for row in ROWS))
