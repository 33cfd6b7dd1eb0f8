# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queues of a tenant in node pools: each pool has a scheduler of its own, which places on the pool's nodes alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import (
    KAI_NAMESPACE,
    KAI_SCHEDULER_NAME,
    NODE_POOL_LABEL,
    QUEUE_LABEL,
    SHARD,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import kai_pending_info
from ansible_collections.kubegpu.tenancy.tests.faults.labs import KAI, Cluster, Lab, changed, defaults

NAME = "kubegpu-pools"
IMAGE = "docker.io/library/busybox:1.37.0"
OLD, NEW, POOL = "kubegpu-worker", "kubegpu-worker2", "h100"
GPUS = 2
REST: dict[str, Any] = {"name": "rest", "gpu": {"quota": GPUS}}
FAST: dict[str, Any] = {"name": "fast", "node_pool": POOL, "gpu": {"quota": GPUS, "limit": GPUS}}


def variables(*queues: dict[str, Any]) -> str:
    tenant = {
        "name": "team",
        "trust": "high",
        "gpu_nodes": {"names": [OLD, NEW]},
        "scheduler": KAI,
        "queues": list(queues),
    }
    layout = {"lab_gpus": 2 * GPUS, "nvkind_workers": [{"count": GPUS}, {"count": GPUS}]}
    return f"--extra-vars={json.dumps(layout | {'kubegpu_tenants': [tenant]})}"


class Team:
    """The tenant.

    :ivar kube: of its administrator; ``host``, of that of the host cluster.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.host = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"])).kube
        self.kube = Kube.connect(kubeconfig=str(Path(f"~/.kube/kubegpu/{lab.name}/tenants/team.yml").expanduser()))

    def create(self, name: str, queue: str, **labels: str) -> None:
        """Create a pod that holds a GPU."""
        container = {"name": "main", "image": IMAGE, "command": ["sleep", "infinity"]}
        spec = {
            "schedulerName": KAI_SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 0,
            "containers": [container | {"resources": {"limits": {"nvidia.com/gpu": 1}}}],
        }
        metadata = {"name": name, "namespace": "default", "labels": {QUEUE_LABEL: queue} | labels}
        self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def nodes(self) -> dict[str, str]:
        """The node of each pod that runs."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.kube.list("v1", "Pod", "default")
            if pod["status"].get("phase") == "Running"
        }

    def run_on(self, wanted: dict[str, str]) -> None:
        def placed() -> tuple[bool | None, str]:
            found = self.nodes()
            return (True, "") if found == wanted else (None, f"{found}. {self.waiting()}")

        wait_for(f"pods on {wanted}", placed, Deadline(120), 2.0)

    def waiting(self) -> dict[str, str]:
        """Why each pod waits, as the collection says it."""
        params = defaults(kai_pending_info, namespaces=["default"])
        return {row["name"]: row["reason"] for row in kai_pending_info.reconcile(Run(params, kube=self.kube))["pods"]}

    def delete(self, *names: str) -> None:
        for name in names:
            self.kube.delete("v1", "Pod", name, "default", grace_seconds=0)

    def schedulers(self) -> set[str]:
        deployments = self.kube.list("apps/v1", "Deployment", KAI_NAMESPACE)
        names = {item["metadata"]["name"] for item in deployments if item["status"].get("readyReplicas")}
        return {name for name in names if name.startswith(f"{KAI_SCHEDULER_NAME}-")}


@pytest.fixture(name="team", scope="module")
def _team() -> Iterator[Team]:
    with Lab(NAME, variables(REST)) as lab:
        lab.site()
        yield Team(lab)


def test_a_pool_without_a_node_is_refused(team: Team) -> None:
    said = team.lab.play("site", variables(FAST, REST))
    assert team.lab.code == 2, said[-6000:]
    assert POOL in said
    assert team.schedulers() == {"kai-scheduler-default"}


def test_each_pool_is_verified_and_has_its_own_scheduler(team: Team) -> None:
    team.host.patch("v1", "Node", NEW, {"metadata": {"labels": {NODE_POOL_LABEL: POOL}}})
    team.lab.site(variables(FAST, REST))
    assert len(team.schedulers()) == 2
    assert changed(team.lab.site(variables(FAST, REST))) == 0


def test_pods_run_on_the_nodes_of_the_pool_of_their_queue(team: Team) -> None:
    pool = {NODE_POOL_LABEL: POOL}
    team.create("fast-1", "fast", **pool)
    team.create("fast-2", "fast", **pool)
    team.create("rest-1", "rest")
    team.run_on({"fast-1": NEW, "fast-2": NEW, "rest-1": OLD})
    # A GPU is free, and not one of the pool; and a pod without the label of its queue's pool is nobody's.
    team.create("fast-3", "fast", **pool)
    team.create("lost", "fast")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        assert team.nodes() == {"fast-1": NEW, "fast-2": NEW, "rest-1": OLD}
        time.sleep(1)
    assert team.waiting() == {"fast-3": "over_limit", "lost": "node_pool"}
    team.delete("lost", "fast-1")
    team.run_on({"fast-2": NEW, "fast-3": NEW, "rest-1": OLD})
    team.delete("fast-2", "fast-3", "rest-1")
    team.run_on({})


def test_a_scheduler_that_somebody_removed_is_named_and_comes_back(team: Team) -> None:
    (name,) = [item["metadata"]["name"] for item in team.kube.list(*SHARD) if item["metadata"]["name"] != "default"]
    team.kube.delete(*SHARD, name)
    said = team.lab.play("drift", "--check", variables(FAST, REST))
    assert team.lab.code == 2, said[-6000:]
    assert POOL in said
    team.lab.site(variables(FAST, REST))
    assert len(team.schedulers()) == 2


def test_a_scheduler_goes_with_the_last_queue_of_its_pool(team: Team) -> None:
    team.host.patch("v1", "Node", NEW, {"metadata": {"labels": {NODE_POOL_LABEL: None}}})
    team.lab.site(variables(REST))
    assert team.schedulers() == {"kai-scheduler-default"}
    assert changed(team.lab.site(variables(REST))) == 0
