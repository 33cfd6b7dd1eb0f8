# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual cluster of tenant team-ml, with its own KAI Scheduler, as the host cluster's API shows it."""

from __future__ import annotations

import base64

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts


def item(kind, name, namespace="tenant-team-ml", labels=None, **more):
    """Return an object of the API; ``metadata`` is added to its metadata."""
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}} | more.pop("metadata", {})
    return {"apiVersion": "apps/v1" if kind == "StatefulSet" else "v1", "kind": kind, "metadata": metadata} | more


CONFIG = {
    "sync": {"fromHost": {"nodes": {"enabled": True, "selector": {"labels": {"tenant.kubegpu.tenancy/team-ml": "true"}}}}},
    "controlPlane": {"distro": {"k8s": {"scheduler": {"enabled": True}}}},
}
WORKLOAD = item(
    "StatefulSet",
    "team-ml",
    labels={"app": "vcluster", "chart": "vcluster-0.36.1"},
    metadata={"generation": 1, "creationTimestamp": "2026-11-21T12:00:00Z"},
    status={"observedGeneration": 1, "readyReplicas": 1, "updatedReplicas": 1},
    spec={
        "replicas": 1,
        "template": {
            "spec": {
                "initContainers": [{"name": "kubernetes", "image": "ghcr.io/loft-sh/kubernetes:v1.35.4"}],
                "containers": [{"name": "syncer", "image": "ghcr.io/loft-sh/vcluster-oss:0.36.1"}],
            }
        },
    },
)
OBJECTS = [
    WORKLOAD,
    # An etcd of its own carries the same label.
    item("StatefulSet", "team-ml-etcd", labels={"app": "vcluster"}),
    item(
        "Secret",
        "vc-config-team-ml",
        labels={"app": "vcluster"},
        data={"config.yaml": base64.b64encode(yaml.safe_dump(CONFIG).encode())},
    ),
    item(
        "Namespace",
        "tenant-team-ml",
        None,
        OWNED_LABELS | {TENANT_LABEL: "team-ml"},
        metadata={"annotations": {facts.TRUST_ANNOTATION: "partial", facts.SCHEDULER_ANNOTATION: "v0.13.1"}},
    ),
    item(
        "Pod",
        "kai-scheduler-default-1-x-kai-scheduler-x-team-ml",
        labels={
            "app": "kai-scheduler-default",
            "vcluster.loft.sh/namespace": "kai-scheduler",
            "vcluster.loft.sh/managed-by": "team-ml",
        },
        spec={"containers": [{"image": "registry.example:5000/kai/scheduler:v0.13.1"}]},
    ),
    item("PersistentVolumeClaim", "data-team-ml-0", status={"capacity": {"storage": "5Gi"}}),
]
