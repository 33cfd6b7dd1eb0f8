# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects as vCluster's syncer brings them to the host cluster."""

from __future__ import annotations

from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import MARKER_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.synced import SYNCED_FROM_LABEL, SYNCED_NAME, joined

Object = dict[str, Any]


def synced(item: Object, vcluster: str, namespace: str = "default") -> Object:
    """Return an object of a tenant as it is on the host cluster; its own labels and annotations stay, but for what the syncer always sets.

    :arg item: with the tenant's name for it, and the tenant's namespace of the host cluster.
    """
    metadata = item["metadata"]
    name = metadata["name"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != "release"}
    labels |= {MARKER_LABEL: vcluster, SYNCED_FROM_LABEL: namespace}
    annotations = {SYNCED_NAME: name, "vcluster.loft.sh/namespace": namespace} | (metadata.get("annotations") or {})
    named = {"name": joined(name, "x", namespace, "x", vcluster), "labels": labels, "annotations": annotations}
    return item | {"metadata": metadata | named}
