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


@pytest.mark.parametrize(
    ("task", "seconds"),
    [
        ("Create the nodes of the trace", 3),
        ("Install KAI Scheduler as the side of the rehearsal says", 15),
        ("Create the queues of the side", 1),
        ("Play the rounds", 10),
        ("Remove KAI Scheduler", 5),
        ("Remove the simulated nodes", 1),
    ],
)
def test_a_rehearsal_is_killed(rehearsal_lab: Lab, task: str, seconds: float, tmp_path: Path) -> None:
    cluster = Cluster(rehearsal_lab, Path(os.environ["KUBEGPU_CACHE"]))
    before = cluster.objects(KINDS)
    rehearsal_lab.kill_at("rehearse", task, seconds)
    said = rehearsal_lab.play("rehearse", f"--extra-vars=rehearsal_evidence={tmp_path}")
    verdicts = list(tmp_path.glob("verdict-v0.12.0-to-v0.13.1-*.json"))
    assert len(verdicts) == 1, said[-6000:]
    result = json.loads(verdicts[0].read_text())["result"]
    assert result in ("promote", "hold"), said[-6000:]
    assert rehearsal_lab.code == (0 if result == "promote" else 2)
    assert cluster.objects(KINDS) == before
