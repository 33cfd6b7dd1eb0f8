# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each change is tried with beside KAI Scheduler, on one lab: a tenant with a Volcano from its entry to its removal, a framework in it, and a
RuntimeClass that is no sandbox. test_volcano.py, test_frameworks.py and test_sandbox.py try more of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.facts import JOB_API
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Cluster, Lab, changed
from ansible_collections.kubegpu.tenancy.tests.faults.test_frameworks import SIZE, install_job_set
from ansible_collections.kubegpu.tenancy.tests.faults.test_frameworks import Team as Workloads
from ansible_collections.kubegpu.tenancy.tests.faults.test_sandbox import HANDLER, runtime_class
from ansible_collections.kubegpu.tenancy.tests.faults.test_volcano import VOLCANO, Team, gang, single

NAME = "kubegpu-schedulers"
GPUS = 4
HPC = VOLCANO | {
    "gpu_nodes": {"names": ["kubegpu-worker"]},
    "queues": [{"name": "weather", "gpu": {"quota": GPUS, "limit": GPUS}}],
}
VISITORS = {"name": "visitors", "trust": "high", "sandbox": {"runtime_class": "kata"}}
VARIABLES: dict[str, Any] = {
    "lab_gpus": GPUS,
    "lab_volcano_version": "v1.10.0",
    "lab_frameworks": ["jobset"],
    "nvkind_workers": [{"count": GPUS}],
    "kubegpu_unlisted": "remove",
}


@pytest.fixture(name="team", scope="module")
def _team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    inventory = tmp_path_factory.mktemp("schedulers") / "variables.json"
    inventory.write_text(json.dumps(VARIABLES | {"kubegpu_tenants": [HPC]}))
    with Lab(NAME, f"--extra-vars=@{inventory}") as lab:
        lab.site()
        team = Team(lab, inventory, Cluster(lab, Path(os.environ["KUBEGPU_CACHE"])), VARIABLES)
        team.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        yield team


def test_a_gang_of_volcano_starts_whole_or_not_at_all(team: Team) -> None:
    team.kube.create(single("notebook"))
    team.wait("notebook", 1)
    team.kube.create(gang("train", GPUS, queue="weather"))
    team.stays_away("train", 10)
    assert team.reasons() == {"gang"}
    team.kube.delete("v1", "Pod", "notebook", "ml")
    team.wait("train", GPUS)
    team.end(JOB_API, "Job", "train")


def test_a_framework_in_the_tenant_starts_its_group(team: Team) -> None:
    workloads = Workloads(team.lab, Path(os.environ["KUBEGPU_CACHE"]), "hpc", "weather")
    install_job_set(workloads)
    item = workloads.start("job-set", "fine-tune", "volcano")
    workloads.wait(SIZE)
    workloads.end(item)


def test_a_runtime_class_that_leads_to_runc_is_no_sandbox(team: Team) -> None:
    for node in team.cluster.kube.list("v1", "Node"):
        team.cluster.on_node(node["metadata"]["name"], "bash", "-c", HANDLER, "-", "runc")
    team.cluster.kube.create(runtime_class("kata", "kata"))
    team.describe(HPC, VISITORS)
    said = team.lab.play("site")
    assert team.lab.code != 0
    assert "RuntimeClass kata is no sandbox there" in said


def test_the_tenant_with_volcano_goes_without_a_trace(team: Team) -> None:
    team.describe()
    team.lab.site()
    assert changed(team.lab.site()) == 0
    names = [
        item["metadata"]["name"] for kind in ("Namespace", "PersistentVolume") for item in team.cluster.kube.list("v1", kind)
    ]
    assert [name for name in names if name.startswith(("tenant-", "volcano", "pvc-"))] == []
    volcanos = team.cluster.kube.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert [item["metadata"]["name"] for item in volcanos if "volcano" in item["metadata"]["name"]] == []
