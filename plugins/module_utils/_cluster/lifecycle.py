# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read what tells of a host cluster what it is and has."""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.status import Seen

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube

_HOOKS = "admissionregistration.k8s.io/v1"


def read(kube: Kube) -> Seen:
    """Read a cluster, by a list of each kind."""
    return Seen(
        version=kube.version(),
        nodes=kube.list("v1", "Node"),
        runtime_classes=kube.list("node.k8s.io/v1", "RuntimeClass"),
        storage_classes=kube.list("storage.k8s.io/v1", "StorageClass"),
        ingress_classes=kube.list("networking.k8s.io/v1", "IngressClass"),
        daemon_sets=kube.list("apps/v1", "DaemonSet"),
        cluster_policies=kube.list(*facts.CLUSTER_POLICY),
        webhooks=[
            item
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
            for item in kube.list(_HOOKS, kind)
        ],
        security_contexts=kube.served(*facts.SECURITY_CONTEXTS),
    )
