# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to KAI Scheduler on the lab's cluster while it is changed: the next run goes on, no queue is lost, pods run on."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import (
    GPU_GROUP_LABEL,
    KAI_NAMESPACE,
    RESERVATION_NAMESPACE,
    RESERVED_GPU_NOTE,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import admission_copy
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_policies.facts import CHECKS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.lifecycle import Probe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.observation import Observer
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.status import Observation
from ansible_collections.kubegpu.tenancy.plugins.modules import (
    kai_pending_info,
    kai_queues,
    kai_scheduler,
    probe,
)
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Cluster, Lab, defaults

OLD, NEW = "v0.12.0", "v0.13.1"
QUEUES: list[dict[str, Any]] = [
    {
        "name": "ml",
        "gpu": {"quota": 4, "limit": 4},
        "children": [
            {"name": "training", "gpu": {"quota": 3, "limit": 4}},
            {"name": "notebooks", "gpu": {"quota": 1, "limit": 2}},
        ],
    }
]
# Three GPUs are free beside the work.
BURST_PODS = 6
VARIABLES = {"lab_gpus": 4, "nvkind_workers": [{"gpus": [0, 1]}, {"gpus": [2, 3]}], "kubegpu_tenants": []}
# Pods that wait, each for its own reason: their queue, GPUs and scheduler.
WAITING = {
    "queue_missing": ("of-others", 1, "kai-scheduler"),
    "no_queue": ("", 1, "kai-scheduler"),
    "parent_queue": ("ml", 1, "kai-scheduler"),
    "too_large": ("training", 3, "kai-scheduler"),
    "no_scheduler": ("training", 1, "nobody"),
    # The last of three in a queue whose limit is two.
    "over_limit": ("notebooks", 1, "kai-scheduler"),
}


def pod(name: str, queue: str, gpus: int = 1, scheduler: str = "kai-scheduler") -> dict[str, Any]:
    """Return a pod that holds GPUs until it is ended."""
    container = {"name": "work", "image": "docker.io/library/busybox:1.37.0", "command": ["sleep", "infinity"]}
    labels = {"priorityClassName": "train"} | ({"kai.scheduler/queue": queue} if queue else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [container | {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        },
    }


class Killed(BaseException):
    """The process ends here, as by SIGKILL: nothing catches it."""


class Scheduler(Cluster):
    """KAI Scheduler and pods that it placed."""

    def scheduler(self, version: str, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        # Of the two releases that the lab can build.
        accepted = ["#1103", "#1673", "end-of-support"]
        given = {"version": version, "gpu_sharing": True, "accept_hazards": accepted, "purge": False, "timeout": 150}
        params = defaults(kai_scheduler, **(given | {"chart_source": str(self.charts)} | changes))
        return kai_scheduler.reconcile(Run(params, check_mode, self.kube, self.helm))

    def queues(self, tree: Sequence[dict[str, Any]] | None = None) -> dict[str, Any]:
        params = defaults(kai_queues, state="exact", queues=list(tree or QUEUES), timeout=60, quota_sums="error")
        return kai_queues.reconcile(Run(params, kube=self.kube))

    def settle(self, version: str) -> dict[str, Any]:
        """The next run, after which everything has to be as asked, queues and pods as they were."""
        result = self.scheduler(version)
        assert self.scheduler(version)["changed"] is False
        assert self.queues()["changed"] is False
        work = self.kube.get("v1", "Pod", "work", "default")
        assert work is not None
        assert (work["metadata"]["uid"], work["status"]["phase"]) == (self.work, "Running")
        assert not [status for status in work["status"]["containerStatuses"] if status["restartCount"]]
        return result

    def probe(self, checks: Sequence[str] = ("cpu", "gpu"), accept: Sequence[str] = ()) -> list[dict[str, Any]]:
        given = {
            "kind": "kai_scheduling",
            "queues": QUEUES,
            "checks": list(checks),
            "accept_hazards": list(accept),
            "timeout": 90,
        }
        return probe.reconcile(Run(defaults(probe, **given), kube=self.kube))["results"]

    def policies(self) -> list[dict[str, Any]]:
        return probe.reconcile(Run(defaults(probe, kind="kai_policies"), kube=self.kube))["results"]

    def start_work(self) -> None:
        self.kube.create(pod("work", "training"))
        deadline = time.monotonic() + 60
        while (work := self.kube.get("v1", "Pod", "work", "default")) is None or work["status"]["phase"] != "Running":
            if time.monotonic() > deadline:
                raise TenancyError(f"the pod at work does not start: {work and work['status']}")
            time.sleep(1)
        self.work = work["metadata"]["uid"]

    def waiting(self) -> dict[str, str]:
        """Return why pods wait, or that they run past KAI Scheduler, by their names."""
        params = defaults(kai_pending_info, namespaces=["default"])
        return {row["name"]: row["reason"] for row in kai_pending_info.reconcile(Run(params, kube=self.kube))["pods"]}


def lost(seen: Observation) -> list[str]:
    """Return what the pods of a burst lack, by pods and reservations as the API showed them: pods, or a reservation of their GPU."""
    names = {f"burst-{number}" for number in range(1, BURST_PODS + 1)}
    there = [(name, pod["metadata"]["labels"].get(GPU_GROUP_LABEL)) for name, pod in seen.pods.items() if name in names]
    reserved = {
        (pod["metadata"]["labels"].get(GPU_GROUP_LABEL), pod["metadata"].get("annotations", {}).get(RESERVED_GPU_NOTE))
        for pod in seen.cluster
        if pod["metadata"]["namespace"] == RESERVATION_NAMESPACE and "deletionTimestamp" not in pod["metadata"]
    }
    removed = [f"{name} is gone" for name in sorted(names - seen.pods.keys())]
    return removed or [
        f"{name} in {group}" for name, group in there if not any((group, gpu) in reserved for gpu in gpus(seen, name))
    ]


def gpus(seen: Observation, name: str) -> list[str]:
    return re.findall(r"GPU-[0-9a-f-]+", seen.logs.get(name, ""))


@pytest.fixture(scope="module")
def idle() -> Iterator[Scheduler]:
    """A cluster in which nothing runs that KAI Scheduler could evict."""
    with Lab("kubegpu-faults-kai", f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        lab.site()
        made = Scheduler(lab, Path(os.environ["KUBEGPU_CACHE"]))
        made.scheduler(OLD)
        made.queues()
        yield made


@pytest.fixture(scope="module")
def cluster(idle: Scheduler) -> Scheduler:
    idle.scheduler(OLD)
    idle.start_work()
    return idle


def steps_to(change: str) -> list[str]:
    """Return the steps of a change of the release whose images are on a node."""
    return [
        "apply the CRDs",
        "start a copy of the admission pod",
        change,
        "remove the copy of the admission pod",
    ]


def kill_before_every_step(cluster: Scheduler, version: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Change the version, killed once before each step, every run going on where the last one ended; return the steps."""
    take, killed = Run.perform, []

    def take_or_die(self: Run, what: str, why: str, action: Any) -> None:
        if what not in killed:
            killed.append(what)
            raise Killed(what)
        take(self, what, why, action)

    monkeypatch.setattr(Run, "perform", take_or_die)
    while len(killed) < 20:
        try:
            cluster.scheduler(version)
            break
        except Killed:
            continue
    monkeypatch.undo()
    return killed


@pytest.mark.parametrize("version", [OLD, NEW])
def test_gpus_are_divided_as_the_policies_say(idle: Scheduler, version: str) -> None:
    idle.scheduler(version)
    results = idle.policies()
    # Their pod groupers know no Jobs whose pods start together.
    assert {found["name"]: found["verdict"] for found in results} == dict.fromkeys(CHECKS, "passed") | {"job": "not_tried"}, (
        results
    )
    assert idle.queues()["changed"] is False


def test_why_pods_wait(idle: Scheduler) -> None:
    expected = {reason.replace("_", "-"): reason for reason in WAITING} | {"past": "other_scheduler"}
    idle.scheduler(NEW)
    for name in ("first", "second"):
        idle.kube.create(pod(name, "notebooks"))
    time.sleep(5)
    for reason, (queue, gpus, scheduler) in WAITING.items():
        idle.kube.create(pod(reason.replace("_", "-"), queue, gpus, scheduler))
    idle.kube.create(pod("past", "", scheduler="default-scheduler"))
    try:
        deadline = time.monotonic() + 60
        while (found := idle.waiting()) != expected:
            assert time.monotonic() < deadline, found
            time.sleep(2)
    finally:
        for name in (*expected, "first", "second"):
            idle.kube.delete("v1", "Pod", name, "default")


def without_gpu(name: str, **changes: Any) -> dict[str, Any]:
    """Return a pod of queue training without a whole GPU; ``labels``, ``annotations``, and fields of its container by name."""
    made = pod(name, "training", gpus=0)
    made["metadata"]["labels"] |= changes.pop("labels", {})
    made["metadata"]["annotations"] = changes.pop("annotations", {})
    made["spec"]["containers"][0] |= {"resources": {}} | changes
    return made


def read_otherwise(cores: int) -> list[dict[str, Any]]:
    """Return what a release reads in its own way, or not at all.

    :arg cores: of a node; a pod with a sidecar asks for more than these in all.
    """
    names = [("optional", True), ("required", False)]
    references = {name: [{"configMapRef": {"name": "not-there", "optional": optional}}] for name, optional in names}
    share = {"resources": {"requests": {"cpu": f"{cores * 600}m"}}}
    sidecar = without_gpu("sidecar", **share)
    sidecar["spec"]["initContainers"] = [sidecar["spec"]["containers"][0] | {"name": "proxy", "restartPolicy": "Always"}]
    template = without_gpu("llm", labels={"app": "llm"}, annotations={"gpu-fraction": "0.5"})
    template = {"metadata": {key: template["metadata"][key] for key in ("labels", "annotations")}, "spec": template["spec"]}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "llm.v2", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "llm"}}, "template": template},
        },
        *(without_gpu(name, envFrom=reference) for name, reference in references.items()),
        without_gpu("odd", annotations={"gpu-fraction": "NaN"}),
        without_gpu("pooled", labels={"kai.scheduler/node-pool": "a100"}),
        without_gpu("talk", annotations={"kai.scheduler/gpu-fraction": "0.5"}),
        sidecar,
    ]


@pytest.mark.parametrize("version", [OLD, NEW])
def test_what_a_release_reads_in_its_own_way(idle: Scheduler, version: str) -> None:
    expected = {"llm.v2": "workload_name", "required": "config_map", "odd": "fraction", "pooled": "node_pool"}
    expected |= {"talk": "unread_fraction", "sidecar": "refused"} | ({"optional": "config_map"} if version == OLD else {})
    idle.scheduler(version)
    cores = min(int(node["status"]["allocatable"]["cpu"]) for node in idle.kube.list("v1", "Node"))
    made = read_otherwise(cores)
    for item in made:
        idle.kube.create(item)
    try:
        deadline = time.monotonic() + 60
        while (found := idle.waiting()) != expected:
            assert time.monotonic() < deadline, found
            time.sleep(2)
    finally:
        for item in made:
            idle.kube.delete(item["apiVersion"], item["kind"], item["metadata"]["name"], "default")


def test_a_lower_limit_ends_nothing_that_runs(idle: Scheduler) -> None:
    """Pods above it stay, and the next one waits."""
    names = ("first", "second")
    lower = copy.deepcopy(QUEUES)
    lower[0]["children"][1]["gpu"] = {"quota": 1, "limit": 1}

    def placed() -> tuple[list[str] | None, str]:
        pods = [idle.kube.get("v1", "Pod", name, "default") or {"status": {"phase": "absent"}} for name in names]
        phases = [item["status"]["phase"] for item in pods]
        return ([item["metadata"]["uid"] for item in pods], "") if phases == ["Running"] * 2 else (None, ", ".join(phases))

    def refused() -> tuple[bool | None, str]:
        found = idle.waiting()
        return (True, "") if found == {"third": "over_limit"} else (None, str(found))

    idle.scheduler(NEW)
    idle.queues()
    for name in names:
        idle.kube.create(pod(name, "notebooks"))
    try:
        before = wait_for("both pods", placed, 60)
        idle.queues(lower)
        idle.kube.create(pod("third", "notebooks"))
        wait_for("the limit's effect on the third pod", refused, 60)
        # For as long as KAI's scheduler may take to evict.
        time.sleep(20)
        assert placed() == (before, "")
    finally:
        for name in (*names, "third"):
            idle.kube.delete("v1", "Pod", name, "default")
        idle.queues()


def test_a_downgrade_is_refused_while_queues_are_deeper(idle: Scheduler) -> None:
    idle.scheduler(NEW)
    deeper = copy.deepcopy(QUEUES)
    deeper[0]["children"][1]["children"] = [{"name": "students", "gpu": {"quota": 1, "limit": 2}}]
    idle.queues(deeper)
    with pytest.raises(TenancyError, match=r"v0\.12\.0 schedules queues on 2 levels only, and these are deeper: students\."):
        idle.scheduler(OLD)
    assert idle.scheduler(NEW)["changed"] is False
    assert idle.queues()["changed"]


def test_killed_before_every_step_of_an_upgrade(cluster: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kill_before_every_step(cluster, NEW, monkeypatch) == steps_to(f"upgrade to {NEW}")
    cluster.settle(NEW)
    cluster.probe()


def test_killed_before_every_step_of_a_downgrade(cluster: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kill_before_every_step(cluster, OLD, monkeypatch) == steps_to(f"downgrade to {OLD}")
    cluster.settle(OLD)
    cluster.probe()
    assert cluster.kube.get("v1", "Pod", admission_copy.NAME, KAI_NAMESPACE) is None


def test_an_operator_whose_image_is_missing_is_named_and_the_next_run_goes_on(cluster: Scheduler) -> None:
    nowhere = {"global": {"registry": "registry.invalid/kai"}}
    with pytest.raises(TenancyError, match=r"registry\.invalid/kai"):
        cluster.scheduler(OLD, values=nowhere, timeout=40)
    cluster.settle(OLD)


def test_a_webhook_without_its_backend_comes_back(cluster: Scheduler) -> None:
    cluster.kube.patch("apps/v1", "Deployment", kai.OPERATOR, {"spec": {"replicas": 0}}, KAI_NAMESPACE)
    time.sleep(5)
    cluster.kube.delete("apps/v1", "Deployment", "admission", KAI_NAMESPACE)
    assert "parts" in cluster.scheduler(OLD, check_mode=True)["diff"]["after"]
    assert "parts" in cluster.settle(OLD)["diff"]["after"]
    cluster.probe()


def test_a_release_that_helm_left_pending_is_finished(cluster: Scheduler) -> None:
    def kill_when_pending() -> None:
        kube = Kube.connect(kubeconfig=str(cluster.kubeconfig))
        # The images come first.
        deadline = time.monotonic() + 150
        while not kube.list("v1", "Secret", KAI_NAMESPACE, "owner=helm,status=pending-upgrade"):
            assert time.monotonic() < deadline
            # Without hooks helm is done within a second or two.
            time.sleep(0.02)
        subprocess.run(["pkill", "-KILL", "-f", f"^{cluster.helm_binary} upgrade"], check=True)

    threading.Thread(target=kill_when_pending).start()
    with pytest.raises(TenancyError):
        cluster.scheduler(OLD, values={"scheduler": {"placementStrategy": "spread"}})
    found = cluster.helm.release(kai.RELEASE_NAME, KAI_NAMESPACE)
    assert found is not None
    assert found.status.startswith("pending")
    steps = [step["step"] for step in cluster.settle(OLD)["steps"]]
    assert steps[0] == "repair the unfinished Helm release"


def test_a_crd_that_is_missing_comes_back(cluster: Scheduler) -> None:
    name = "topologies.kai.scheduler"
    cluster.kube.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
    assert cluster.settle(OLD)["diff"]["after"]["CRD"] == name


def test_the_api_server_restarts_during_an_upgrade(cluster: Scheduler) -> None:
    cluster.restart_api_server(3)
    # The run may be past what needs the API, or fail; it must not hang.
    with contextlib.suppress(TenancyError):
        cluster.scheduler(NEW)
    cluster.wait_for_api_server()
    cluster.settle(NEW)
    cluster.probe()
    server = cluster.kube.get("v1", "Pod", "kube-apiserver-kubegpu-control-plane", "kube-system")
    assert server is not None
    assert server["status"]["containerStatuses"][0]["restartCount"] == 1


@pytest.mark.parametrize("version", [OLD, NEW])
def test_what_the_burst_says_of_reservations_is_what_is(
    cluster: Scheduler, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten rounds, each compared with the pods and reservations that its verdict rests on (#1103)."""
    looks: list[Observation] = []
    verdicts: list[tuple[str, list[str], str]] = []
    observe, conclude = Observer.observe, Probe._conclude

    def keep_what_was_seen(self: Observer, running: Any) -> Observation:
        looks.append(observe(self, running))
        return looks[-1]

    def keep_the_verdict(self: Probe, check: Any, verdict: str, reason: str) -> None:
        verdicts.append((verdict, lost(looks[-1]), reason))
        conclude(self, check, verdict, reason)

    monkeypatch.setattr(Observer, "observe", keep_what_was_seen)
    monkeypatch.setattr(Probe, "_conclude", keep_the_verdict)
    cluster.scheduler(version)
    cluster.queues()
    for _round in range(10):
        cluster.probe(["burst"], accept=["#1103"])
    assert len(verdicts) == 10
    print(json.dumps(verdicts, indent=1))
    wrong = [found for found in verdicts if found[0] != ("accepted" if found[1] else "passed")]
    assert not wrong, json.dumps(wrong, indent=1)


def test_nothing_is_left_when_all_images_are_missing(cluster: Scheduler) -> None:
    """A removal needs no hook of the chart, so no image either, and pods at work go on."""
    cluster.lab.run("systemctl", "stop", "docker-registry")
    try:
        assert cluster.scheduler(NEW, state="absent", purge=True)["changed"]
        assert cluster.scheduler(NEW, state="absent", purge=True)["changed"] is False
    finally:
        cluster.lab.run("systemctl", "start", "docker-registry")
    crds = {item["metadata"]["name"] for item in cluster.kube.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")}
    assert not crds & set(kai.CRDS)
    work = cluster.kube.get("v1", "Pod", "work", "default")
    assert work is not None
    assert (work["metadata"]["uid"], work["status"]["phase"]) == (cluster.work, "Running")
