# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rehearsal that is killed: the next one comes to its verdict and leaves nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_NAMESPACE, QUEUE_API_VERSION, QUEUE_KIND
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import annotations_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import DEFAULT_QUEUES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import CLAIM_NOTE, NAMESPACE
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Cluster, Lab

# A short one: what it says does not matter here.
SHORT = {"rehearsal_rounds": 1, "rehearsal_span": 40, "rehearsal_pattern": "gangs"}
# Where a rehearsal could leave something, but for what is of one moment, such as events.
KINDS = (
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("coordination.k8s.io/v1", "Lease"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
)


@pytest.fixture(scope="module", name="rehearsal_lab")
def _rehearsal_lab() -> Iterator[Lab]:
    with Lab("kubegpu-faults-rehearsal", "--inventory=inventories/rehearsal", f"--extra-vars={json.dumps(SHORT)}") as made:
        made.site()
        yield made


class Stages:
    """To what a rehearsal has come, by what is on its cluster."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.installed = False
        self.claims: set[str] = set()

    def nodes(self) -> bool:
        return self._has(NAMESPACE)

    def scheduler(self) -> bool:
        self.installed = self.installed or self._has(KAI_NAMESPACE)
        return self.installed

    def queues(self) -> bool:
        return bool({item["metadata"]["name"] for item in self.kube.list(QUEUE_API_VERSION, QUEUE_KIND)} - DEFAULT_QUEUES)

    def rounds(self) -> bool:
        return bool(self.kube.list("v1", "Pod", NAMESPACE))

    def removal(self) -> bool:
        """The removal claims the cluster after the rehearsal gave it back."""
        namespace = self.kube.get("v1", "Namespace", NAMESPACE)
        self.claims |= {note for key, note in annotations_of(namespace).items() if key == CLAIM_NOTE} if namespace else set()
        return len(self.claims) > 1

    def nodes_removed(self) -> bool:
        return self.scheduler() and not self._has(KAI_NAMESPACE)

    def _has(self, namespace: str) -> bool:
        return self.kube.get("v1", "Namespace", namespace) is not None


@pytest.mark.parametrize(
    ("stage", "seconds"),
    [("nodes", 2), ("scheduler", 10), ("queues", 0), ("rounds", 10), ("removal", 3), ("nodes_removed", 0)],
)
def test_a_rehearsal_is_killed(rehearsal_lab: Lab, stage: str, seconds: float, tmp_path: Path) -> None:
    cluster = Cluster(rehearsal_lab, Path(os.environ["KUBEGPU_CACHE"]))
    before = cluster.objects(KINDS)
    rehearsal_lab.kill_when("rehearse", getattr(Stages(cluster.kube), stage), seconds)
    said = rehearsal_lab.play("rehearse", f"--extra-vars=rehearsal_evidence={tmp_path}")
    verdicts = list(tmp_path.glob("verdict-v0.12.0-to-v0.13.1-*.json"))
    assert len(verdicts) == 1, said[-6000:]
    result = json.loads(verdicts[0].read_text())["result"]
    assert result in ("promote", "hold"), said[-6000:]
    assert rehearsal_lab.code == (0 if result == "promote" else 2)
    assert cluster.objects(KINDS) == before
