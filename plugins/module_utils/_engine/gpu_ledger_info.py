# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell whose GPUs are whose on a host cluster."""

from __future__ import annotations

from .._common.run import Result, Run
from .._ledger.devices import devices
from .._ledger.lifecycle import read_devices
from .._ledger.status import ledger
from .._nodes.dra import list_nodes
from .._vcluster.inventory import configs

ARGUMENT_SPEC = {"devices": {"type": "bool", "default": False}}


def reconcile(run: Run) -> Result:
    nodes = list_nodes(run.kube)
    pods, namespaces, quotas = (run.kube.list("v1", kind) for kind in ("Pod", "Namespace", "ResourceQuota"))
    claims = run.kube.list("resource.k8s.io/v1", "ResourceClaim")
    configurations = configs(run.kube)
    found = ledger(nodes, pods, namespaces, quotas, configurations.read, claims)
    found["unread"] += [one.sentence for one in configurations.unread]
    if run.params["devices"]:
        known, unread = read_devices(run.kube, nodes, pods, namespaces)
        found |= {"devices": devices(nodes, pods, namespaces, known), "unread": [*found["unread"], *unread]}
    return run.result(**found)
