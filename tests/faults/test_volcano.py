# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant with a Volcano of its own, beside one with a KAI Scheduler: the Job of sixteen pods on two nodes with eight GPUs each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_SCHEDULER_NAME, QUEUE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for, when_webhook_answers
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import kai_pending_info
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.facts import JOB_API, QUEUE_API, QUEUE_KIND
from ansible_collections.kubegpu.tenancy.tests.faults.labs import KAI, ROOT, Cluster, Lab, changed, defaults
from ansible_collections.kubegpu.tenancy.tests.faults.test_frameworks import Team as Workloads
from ansible_collections.kubegpu.tenancy.tests.faults.test_frameworks import example, install_job_set

NAME = "kubegpu-volcano"
IMAGE = "docker.io/library/busybox:1.37.0"
SIZE = 16
VOLCANO = {
    "name": "hpc",
    "trust": "high",
    "gpu_nodes": {"names": ["kubegpu-worker", "kubegpu-worker2"]},
    "scheduler": {"name": "volcano", "version": "1.10.0"},
    "queues": [{"name": "weather", "gpu": {"quota": 12}}, {"name": "small", "gpu": {"quota": 4, "limit": 4}}],
}
BESIDE = {
    "name": "ml",
    "trust": "high",
    "gpu_nodes": {"names": ["kubegpu-worker3"]},
    "scheduler": KAI,
    "queues": [{"name": "ml", "gpu": {"quota": 2}}],
}
VARIABLES: dict[str, Any] = {
    "lab_gpus": 18,
    "lab_volcano_version": "v1.10.0",
    "lab_frameworks": ["jobset"],
    "nvkind_workers": [{"count": 8}, {"count": 8}, {"count": 2}],
    "kubegpu_tenants": [VOLCANO, BESIDE],
}


class Team:
    """The tenant with a Volcano, from within.

    :ivar kube: of its administrator.
    :arg inventory: file of the lab's variables, which are all but its tenants.
    """

    def __init__(self, lab: Lab, inventory: Path, cluster: Cluster, variables: dict[str, Any]) -> None:
        self.lab, self.cluster = lab, cluster
        self._inventory, self._variables = inventory, variables
        self.kube = Kube.connect(kubeconfig=str(cluster.kubeconfig.parent / "tenants/hpc.yml"))

    def describe(self, *tenants: dict[str, Any]) -> None:
        self._inventory.write_text(json.dumps(self._variables | {"kubegpu_tenants": list(tenants)}))

    def placed(self, job: str) -> dict[str, int]:
        """How many pods of a job run on each node."""
        found: dict[str, int] = {}
        for pod in self.kube.list("v1", "Pod", "ml", f"job={job}"):
            if pod["status"].get("phase") == "Running":
                found[pod["spec"]["nodeName"]] = found.get(pod["spec"]["nodeName"], 0) + 1
        return found

    def wait(self, job: str, count: int) -> None:
        def running() -> tuple[bool | None, str]:
            placed = self.placed(job)
            return (True, "") if sum(placed.values()) == count else (None, str(placed))

        wait_for(f"{count} pods of {job}", running, Deadline(180), 1.0)

    def stays_away(self, job: str, seconds: float = 20) -> None:
        """Wait, and see that no pod of a job has got a node meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pods = self.kube.list("v1", "Pod", "ml", f"job={job}")
            assert [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")] == []
            time.sleep(1)

    def reasons(self) -> set[str]:
        """Why pods wait, as the collection says it."""
        params = defaults(kai_pending_info, namespaces=["ml"])
        return {row["reason"] for row in kai_pending_info.reconcile(Run(params, kube=self.kube))["pods"]}

    def end(self, api_version: str, kind: str, name: str) -> None:
        self.kube.delete(api_version, kind, name, "ml")

        def gone() -> tuple[bool | None, str]:
            pods = self.kube.list("v1", "Pod", "ml", f"job={name}")
            return (True, "") if not pods else (None, f"{len(pods)} pods")

        wait_for(f"the end of {name}", gone, Deadline(120), 1.0)


@pytest.fixture(name="team", scope="module")
def _team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    inventory = tmp_path_factory.mktemp("volcano") / "variables.json"
    inventory.write_text(json.dumps(VARIABLES))
    with Lab(NAME, f"--extra-vars=@{inventory}") as lab:
        lab.site()
        team = Team(lab, inventory, Cluster(lab, Path(os.environ["KUBEGPU_CACHE"])), VARIABLES)
        team.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        yield team


def template(job: str) -> dict[str, Any]:
    """A pod with one GPU, past Volcano where its workload names no scheduler."""
    container = {
        "name": "trainer",
        "image": IMAGE,
        "command": ["sleep", "infinity"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    return {
        "metadata": {"labels": {"job": job}},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
    }


def gang(name: str, size: int = SIZE, **spec: Any) -> dict[str, Any]:
    """The example, which is the Job of the documents, with pods that stay."""
    job = yaml.safe_load((ROOT / "examples/workloads/frameworks/volcano-job.yaml").read_text())
    job["metadata"] |= {"name": name, "namespace": "ml"}
    (task,) = job["spec"]["tasks"]
    container = task["template"]["spec"]["containers"][0] | {"command": ["sleep", "infinity"]}
    task["template"] = {"metadata": {"labels": {"job": name}}, "spec": task["template"]["spec"] | {"containers": [container]}}
    task["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    task["replicas"] = size
    job["spec"] |= {"minAvailable": size} | spec
    return job


def single(name: str, scheduler: str = "volcano", **labels: str) -> dict[str, Any]:
    """A pod that holds one GPU."""
    pod = template(name)
    pod["spec"]["schedulerName"] = scheduler
    metadata = {"labels": pod["metadata"]["labels"] | labels, "name": name, "namespace": "ml"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


def test_sixteen_pods_start_together_or_not_at_all(team: Team) -> None:
    team.kube.create(gang("ddp-train"))
    team.wait("ddp-train", SIZE)
    assert sorted(team.placed("ddp-train").values()) == [8, 8]
    team.end(JOB_API, "Job", "ddp-train")

    # A GPU is taken.
    team.kube.create(single("notebook"))
    team.wait("notebook", 1)
    team.kube.create(gang("ddp-again"))
    team.stays_away("ddp-again")
    assert team.reasons() == {"gang"}
    team.kube.delete("v1", "Pod", "notebook", "ml")
    team.wait("ddp-again", SIZE)
    team.end(JOB_API, "Job", "ddp-again")


def test_the_default_scheduler_starts_fifteen_that_wait_for_the_last(team: Team) -> None:
    team.kube.create(single("notebook"))
    team.wait("notebook", 1)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "partial", "namespace": "ml"},
        "spec": {"parallelism": SIZE, "completions": SIZE, "template": template("partial")},
    }
    team.kube.create(job)
    team.wait("partial", SIZE - 1)
    # They hold what the gang of another would need.
    team.kube.create(gang("ddp-late", 4))
    team.stays_away("ddp-late", 10)
    team.end("batch/v1", "Job", "partial")
    team.wait("ddp-late", 4)
    team.end(JOB_API, "Job", "ddp-late")
    team.end("v1", "Pod", "notebook")


def test_a_queue_lends_and_takes_back_but_not_past_its_limit(team: Team) -> None:
    # Nothing else runs, and yet the queue gets no more than its limit.
    team.kube.create(gang("too-many", 5, queue="small"))
    team.stays_away("too-many")
    assert team.reasons() == {"over_limit"}
    team.end(JOB_API, "Job", "too-many")
    # The other one has no limit, and lends what it does not need.
    lent = gang("lent", SIZE, queue="weather", minAvailable=1)
    team.kube.create(lent)
    team.wait("lent", SIZE)
    team.kube.create(gang("owed", 4, queue="small"))
    team.wait("owed", 4)
    assert sum(team.placed("lent").values()) == 12
    team.end(JOB_API, "Job", "lent")
    team.end(JOB_API, "Job", "owed")


def test_edits_of_queues_are_named_and_taken_back(team: Team) -> None:
    team.kube.patch(QUEUE_API, QUEUE_KIND, "small", {"spec": {"capability": {"nvidia.com/gpu": "16"}}})
    said = team.lab.play("drift", "--check")
    assert team.lab.code == 2, said[-6000:]
    assert "queue small" in said
    team.lab.site()
    assert team.kube.get(QUEUE_API, QUEUE_KIND, "small")["spec"]["capability"] == {"nvidia.com/gpu": "4"}
    assert changed(team.lab.site()) == 0


def job_set(name: str, queue: str) -> dict[str, Any]:
    """The same sixteen pods as a JobSet for KAI Scheduler, which does not know Volcano's Job."""
    (item,) = example("job-set", name, queue, KAI_SCHEDULER_NAME)
    item["metadata"]["namespace"] = "ml"
    job = item["spec"]["replicatedJobs"][0]["template"]["spec"]
    job |= {"parallelism": SIZE, "completions": SIZE}
    job["template"]["metadata"]["labels"]["job"] = name
    return item


def test_volcano_goes_where_a_team_takes_kai_and_comes_back(team: Team) -> None:
    own = {"scheduler": KAI, "queues": [{"name": "ml", "gpu": {"quota": SIZE}}]}
    team.describe(VOLCANO | own, BESIDE)
    team.lab.site()
    assert team.kube.get("v1", "Namespace", "volcano") is None

    # KAI Scheduler does with sixteen pods what Volcano did.
    install_job_set(Workloads(team.lab, Path(os.environ["KUBEGPU_CACHE"]), "hpc", "ml"))
    for name, taken in (("ddp-kai", False), ("ddp-kai-again", True)):
        if taken:
            team.kube.create(single("notebook", KAI_SCHEDULER_NAME, **{QUEUE_LABEL: "ml"}))
            team.wait("notebook", 1)
        item = job_set(name, "ml")
        when_webhook_answers("the webhook of JobSet", partial(team.kube.apply, item), 120)
        if taken:
            team.stays_away(name)
            team.kube.delete("v1", "Pod", "notebook", "ml")
        team.wait(name, SIZE)
        team.end(item["apiVersion"], item["kind"], name)

    team.describe(VOLCANO, BESIDE)
    team.lab.site()
    team.kube.create(gang("back"))
    team.wait("back", SIZE)
