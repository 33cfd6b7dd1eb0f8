# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What an installation of KAI Scheduler shows of itself in a cluster."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, Object
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai

ADMISSION = "admissionregistration.k8s.io/v1"
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def lacking(kube: Kube, release: kai.Release) -> list[str]:
    """What a release still lacks to count as available; empty when nothing."""
    found: list[str] = []
    if release.operator:
        config = kube.get(*kai.CONFIG)
        found += kai.unready([config]) if config else [f"{kai.CONFIG[1]} {kai.CONFIG[2]} does not exist"]
    else:
        found += kai.without_ca([item for kind in WEBHOOKS for item in kube.list(ADMISSION, kind)])
    if release.shard:
        found += kai.unready(kube.list(*kai.SHARD))
    return found + kai.unavailable(release.deployments, kube.list("apps/v1", "Deployment", kai.NAMESPACE))


def conditions(kube: Kube, release: kai.Release) -> list[Object]:
    """What Config and SchedulingShards say of themselves."""
    config = kube.get(*kai.CONFIG) if release.operator else None
    objects = ([config] if config else []) + (kube.list(*kai.SHARD) if release.shard else [])
    return [
        {
            "object": f"{item['kind']} {item['metadata']['name']}",
            "type": condition["type"],
            "status": condition["status"],
            "current": condition.get("observedGeneration") == item["metadata"].get("generation"),
            "message": condition.get("message", ""),
        }
        for item in objects
        for condition in item.get("status", {}).get("conditions") or []
    ]
