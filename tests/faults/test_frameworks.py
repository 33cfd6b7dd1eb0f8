# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Frameworks in tenants: their operators, and what starts together, by a KAI Scheduler of the tenant's own, by a shared one, and by Volcano.

The operators are the real ones. Their pods run busybox, so of Ray and of PyTorch nothing runs: what is tried is who makes which pods, and how
the scheduler groups them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils import _recipe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.facts import DEFAULT_SCHEDULER
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_SCHEDULER_NAME, POD_GROUP, QUEUE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for, when_webhook_answers
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import kai_pending_info
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.lifecycle import record
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.facts import (
    GROUP_NOTE,
    POD_GROUP_KIND,
    QUEUE_API,
)
from ansible_collections.kubegpu.tenancy.plugins.modules import rehearsal_record
from ansible_collections.kubegpu.tenancy.tests.faults.labs import KAI, ROOT, Cluster, Lab, defaults
from ansible_collections.kubegpu.tenancy.tests.unit.manifests import templates

NAME = "kubegpu-frameworks"
GPUS = 4
IMAGE = "docker.io/library/busybox:1.37.0"
PROGRAMS = ROOT / "lab/roles/lab/files/programs"
VOLCANO = "volcano"
VARIABLES: dict[str, Any] = {
    "lab_gpus": GPUS + 4,
    "lab_volcano_version": "v1.10.0",
    "lab_frameworks": ["jobset", "lws", "kueue", "kuberay", "trainer"],
    "nvkind_workers": [{"count": GPUS}, {"count": 2}, {"count": 2}],
    "kubegpu_shared_scheduler": KAI,
    "kubegpu_tenants": [
        {
            "name": "team",
            "trust": "high",
            "gpu_nodes": {"names": ["kubegpu-worker"]},
            "scheduler": KAI,
            "queues": [{"name": "work", "gpu": {"quota": GPUS}}],
        },
        {
            "name": "guests",
            "trust": "high",
            "gpu_nodes": {"names": ["kubegpu-worker2"]},
            "scheduler": {"name": "kai", "shared": True},
            "queues": [{"name": "guests", "gpu": {"quota": 2}}],
        },
        {
            "name": "gangs",
            "trust": "high",
            "gpu_nodes": {"names": ["kubegpu-worker3"]},
            "scheduler": {"name": VOLCANO, "version": "1.10.0"},
            "queues": [{"name": "gangs", "gpu": {"quota": 2}}],
        },
    ],
}
# KubeRay looks after Ray by its own programs, which busybox has not.
WITHOUT_RAY = {"ENABLE_INIT_CONTAINER_INJECTION": "false", "ENABLE_PROBES_INJECTION": "false"}
EXAMPLES = ROOT / "examples/workloads/frameworks"
# Pods of an example that start together, each with a GPU.
SIZE = 2


def example(framework: str, name: str, queue: str, scheduler: str) -> list[dict[str, Any]]:
    """An example as it stands there, under another name, in a queue, with pods of busybox that stay.

    For Volcano, the pods are of the PodGroup of that name.
    """
    items = list(yaml.safe_load_all((EXAMPLES / f"{framework}.yaml").read_text()))
    items[-1]["metadata"]["name"] = name
    # KubeRay then leaves a container's command as it is.
    items[-1]["metadata"]["annotations"] = {"ray.io/overwrite-container-cmd": "true"}
    for item in items:
        item["metadata"]["namespace"] = "default"
        for template in templates(item):
            template["metadata"]["labels"][QUEUE_LABEL] = queue
            template["spec"] |= {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
            template["spec"]["containers"][0] |= {"image": IMAGE, "command": ["sleep", "infinity"]}
            if scheduler == VOLCANO:
                template["metadata"]["annotations"] = {GROUP_NOTE: name}
    return items


def holder(gpus: int, queue: str, scheduler: str = KAI_SCHEDULER_NAME) -> dict[str, Any]:
    """A pod that holds GPUs."""
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "infinity"]}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "holder", "namespace": "default", "labels": {QUEUE_LABEL: queue}},
        "spec": spec | {"containers": [container | {"resources": {"limits": {"nvidia.com/gpu": gpus}}}]},
    }


def pod_group(name: str, queue: str) -> dict[str, Any]:
    """A PodGroup of Volcano for the pods of an example."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": QUEUE_API, "kind": POD_GROUP_KIND, "metadata": metadata, "spec": {"minMember": SIZE, "queue": queue}}


def plain(kind: str, queue: str, scheduler: str) -> dict[str, Any]:
    """A workload of Kubernetes itself, with a pod that stays and holds no GPU."""
    metadata = {"name": kind.lower(), "labels": {"app": kind, QUEUE_LABEL: queue}}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "infinity"]}
    pod = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
    if kind == "Job":
        more: dict[str, Any] = {}
        pod["restartPolicy"] = "Never"
    else:
        more = {"selector": {"matchLabels": {"app": kind}}}
    template = {"metadata": {"labels": metadata["labels"]}, "spec": pod}
    api = "batch/v1" if kind == "Job" else "apps/v1"
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": metadata | {"namespace": "default"},
        "spec": more | {"template": template},
    }


class Team:
    """A tenant and the frameworks in it.

    :ivar queue: of its workloads; ``kube``, of its administrator.
    """

    def __init__(self, lab: Lab, cache: Path, name: str, queue: str) -> None:
        self.lab, self.cache, self.queue = lab, cache, queue
        self.kubeconfig = Path(f"~/.kube/kubegpu/{lab.name}/tenants/{name}.yml").expanduser()
        self.kube = Kube.connect(kubeconfig=str(self.kubeconfig))
        self.cluster = Cluster(lab, cache, str(self.kubeconfig))

    def chart(self, name: str, namespace: str, *values: str) -> None:
        """Install a framework by its chart."""
        (archive,) = (self.cache / "charts").glob(f"{name}-*.tgz")
        settings = [f"--set={value}" for value in values]
        command = [str(self.cluster.helm_binary), "upgrade", "--install", name, str(archive), f"--namespace={namespace}"]
        self.run([*command, "--create-namespace", "--wait", "--timeout=4m", f"--kubeconfig={self.kubeconfig}", *settings])

    def kustomize(self, folder: Path) -> None:
        """Install a framework by a folder of manifests."""
        kubectl = next(self.cache.glob("programs/kubernetes-*/kubectl"))
        command = [str(kubectl), f"--kubeconfig={self.kubeconfig}", "apply", "--server-side", f"--kustomize={folder}"]
        self.run(command)

    def ready(self, name: str, namespace: str) -> None:
        def there() -> tuple[bool | None, str]:
            live = self.kube.get("apps/v1", "Deployment", name, namespace) or {}
            status = live.get("status") or {}
            return (True, "") if status.get("availableReplicas") else (None, str(status.get("conditions")))

        wait_for(f"Deployment {name}", there, Deadline(240), 2.0)

    def pods(self) -> list[dict[str, Any]]:
        """The pods of workloads; KubeRay's operator is in the same namespace."""
        pods = self.kube.list("v1", "Pod", "default", f"{QUEUE_LABEL}={self.queue}")
        return [one for one in pods if "deletionTimestamp" not in one["metadata"]]

    def running(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.pods() if one["status"].get("phase") == "Running"]

    def wait(self, count: int) -> None:
        def there() -> tuple[bool | None, str]:
            found = self.running()
            return (True, "") if len(found) == count else (None, f"{', '.join(found) or 'none'}. {self.waiting()}")

        wait_for(f"{count} pods", there, Deadline(180), 5.0)

    def groups(self) -> list[int]:
        """Of each pod group with work in it, how many of its pods have to start together."""
        return sorted(group["spec"]["minMember"] for group in self.kube.list(*POD_GROUP, "default"))

    def waiting(self) -> list[dict[str, Any]]:
        """Pods that wait, and why, as the collection says it."""
        params = defaults(kai_pending_info, namespaces=["default"])
        found: list[dict[str, Any]] = kai_pending_info.reconcile(Run(params, kube=self.kube))["pods"]
        return found

    def start(self, framework: str, name: str, scheduler: str = KAI_SCHEDULER_NAME) -> dict[str, Any]:
        """Create an example with what it needs; return the workload."""
        items = example(framework, name, self.queue, scheduler)
        if scheduler == VOLCANO:
            items.insert(0, pod_group(name, self.queue))
        for item in items:
            when_webhook_answers(f"the webhook of {item['kind']}", partial(self.kube.apply, item), 120)
        return items[-1]

    def end(self, item: dict[str, Any]) -> None:
        self.kube.delete(item["apiVersion"], item["kind"], item["metadata"]["name"], "default")

        def gone() -> tuple[bool | None, str]:
            left = [one["metadata"]["name"] for one in self.kube.list("v1", "Pod", "default", f"{QUEUE_LABEL}={self.queue}")]
            return (None, ", ".join(left)) if left else (True, "")

        wait_for(f"the end of {item['kind']}", gone, Deadline(120), 1.0)
        self.kube.delete(QUEUE_API, POD_GROUP_KIND, item["metadata"]["name"], "default")

    def run(self, command: list[str]) -> None:
        with tempfile.TemporaryDirectory() as cache:
            # Otherwise helm and kubectl keep what an API server serves in the user's own ~/.kube.
            environment = os.environ | {"KUBECACHEDIR": cache}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def module_of(name: str) -> Path:
    """The folder of a framework's Go module."""
    framework = _recipe.FRAMEWORKS[name]
    command = ["go", "list", "-m", "-f", "{{.Dir}}", framework.module]
    folder = PROGRAMS / f"{name}-{framework.version}"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    return Path(done.stdout.strip())


@pytest.fixture(name="team", scope="module")
def _team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("frameworks")
    with Lab(NAME, f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        lab.site()
        team = Team(lab, Path(os.environ["KUBEGPU_CACHE"]), "team", "work")
        install(team, folder / "team")
        yield team


@pytest.fixture(name="guests", scope="module")
def _guests(team: Team, tmp_path_factory: pytest.TempPathFactory) -> Team:
    guests = Team(team.lab, team.cache, "guests", "guests")
    install(guests, tmp_path_factory.mktemp("guests"))
    return guests


@pytest.fixture(name="gangs", scope="module")
def _gangs(team: Team, tmp_path_factory: pytest.TempPathFactory) -> Team:
    gangs = Team(team.lab, team.cache, "gangs", "gangs")
    install(gangs, tmp_path_factory.mktemp("gangs"))
    return gangs


def install(team: Team, folder: Path) -> None:
    """Install the frameworks.

    :arg folder: for copies of their manifests.
    """
    install_job_set(team)
    requests = ("resources.requests.cpu=50m", "resources.requests.memory=64Mi")
    team.chart("lws", "lws-system", "image.manager.tag=v0.8.0", *requests)
    install_ray(team, folder / "ray")
    install_trainer(team, folder / "trainer")
    image = "controllerManager.manager.image.repository=registry.k8s.io/kueue/kueue"
    team.chart("kueue", "kueue-system", image, "controllerManager.manager.image.tag=v0.17.0")


def install_job_set(team: Team) -> None:
    image = "image.repository=registry.k8s.io/jobset/jobset"
    team.chart("jobset", "jobset-system", image, "image.tag=v0.11.1", "controller.resources.requests.cpu=50m")


def install_ray(team: Team, folder: Path) -> None:
    shutil.copytree(module_of("kuberay") / "config", folder, copy_function=shutil.copyfile)
    _writable(folder)
    team.kustomize(folder / "default")
    env = [{"name": name, "value": value} for name, value in WITHOUT_RAY.items()]
    container = {"name": "kuberay-operator", "env": env}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    kubectl = next(team.cache.glob("programs/kubernetes-*/kubectl"))
    command = [
        str(kubectl),
        f"--kubeconfig={team.kubeconfig}",
        "patch",
        "deployment",
        "kuberay-operator",
        f"--patch={json.dumps(patch)}",
    ]
    team.run(command)
    team.ready("kuberay-operator", "default")


def install_trainer(team: Team, folder: Path) -> None:
    shutil.copytree(module_of("trainer") / "manifests", folder, copy_function=shutil.copyfile)
    _writable(folder)
    overlay = folder / "overlays/manager/kustomization.yaml"
    # It is there already.
    overlay.write_text("".join(line for line in overlay.read_text().splitlines(True) if "third-party/jobset" not in line))
    team.kustomize(overlay.parent)
    team.ready("kubeflow-trainer-controller-manager", "kubeflow-system")


def _writable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def stays(team: Team, seconds: float, count: int) -> None:
    """Wait, and see that there are no more pods that run meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert len(team.running()) == count
        time.sleep(1)


EXAMPLE_NAMES = ["job-set", "leader-worker-set", "ray-cluster", "ray-job", "train-job"]


def starts_in_part(team: Team, framework: str, scheduler: str, gpus: int) -> None:
    """See that one pod of a group starts where GPUs for one are free, and the other one later.

    :arg gpus: of the team.
    """
    team.kube.create(holder(gpus - 1, team.queue))
    team.wait(1)
    parts = team.start(framework, "parts", scheduler)
    team.wait(2)
    stays(team, 20, 2)
    assert len(team.pods()) == 1 + SIZE
    team.kube.delete("v1", "Pod", "holder", "default")
    team.wait(SIZE)
    team.end(parts)


@pytest.mark.parametrize("framework", EXAMPLE_NAMES)
def test_a_group_starts_whole_or_not_at_all(team: Team, framework: str) -> None:
    whole = team.start(framework, "whole")
    team.wait(SIZE)
    assert team.groups() == [SIZE]
    assert {one["spec"]["schedulerName"] for one in team.pods()} == {"kai-scheduler"}
    recorded = record(Run(defaults(rehearsal_record), kube=team.kube), KAI_SCHEDULER_NAME, 0, 1, plain_names=True).workloads
    assert sum(one.pods for one in recorded) == SIZE
    assert {one.together for one in recorded} == {SIZE}
    team.end(whole)

    # All GPUs but one are taken.
    team.kube.create(holder(GPUS - 1, team.queue))
    team.wait(1)
    again = team.start(framework, "again")
    stays(team, 20, 1)
    assert team.waiting() != []
    team.kube.delete("v1", "Pod", "holder", "default")
    team.wait(SIZE)
    team.end(again)


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [("team", KAI_SCHEDULER_NAME), ("team", DEFAULT_SCHEDULER), ("guests", KAI_SCHEDULER_NAME), ("gangs", VOLCANO)],
    ids=["own", "default", "shared", "volcano"],
)
def test_kueue_lets_jobs_begin_that_the_scheduler_places(name: str, scheduler: str, request: pytest.FixtureRequest) -> None:
    team: Team = request.getfixturevalue(name)
    first = team.start("kueue-job", "first", scheduler)
    team.wait(SIZE)
    assert {one["spec"]["schedulerName"] for one in team.pods()} == {scheduler}
    # Kueue's queue has no more GPUs: no pod is made.
    second = team.start("kueue-job", "second", scheduler)
    stays(team, 15, SIZE)
    assert len(team.pods()) == SIZE
    team.kube.delete(first["apiVersion"], first["kind"], "first", "default")
    team.wait(SIZE)
    team.end(second)


@pytest.mark.parametrize("framework", EXAMPLE_NAMES)
def test_the_default_scheduler_starts_each_pod_by_itself(team: Team, framework: str) -> None:
    starts_in_part(team, framework, DEFAULT_SCHEDULER, GPUS)


@pytest.mark.parametrize("framework", EXAMPLE_NAMES)
def test_a_shared_kai_scheduler_starts_each_pod_by_itself(guests: Team, framework: str) -> None:
    """It sees the pods on the host cluster, and neither what made them nor a PodGroup of the team."""
    starts_in_part(guests, framework, KAI_SCHEDULER_NAME, SIZE)


@pytest.mark.parametrize("framework", EXAMPLE_NAMES)
def test_with_a_pod_group_of_the_team_volcano_starts_a_group_whole_or_not_at_all(gangs: Team, framework: str) -> None:
    whole = gangs.start(framework, "whole", VOLCANO)
    gangs.wait(SIZE)
    assert {one["spec"]["schedulerName"] for one in gangs.pods()} == {VOLCANO}
    gangs.end(whole)

    gangs.kube.create(holder(1, gangs.queue, VOLCANO))
    gangs.wait(1)
    again = gangs.start(framework, "again", VOLCANO)
    stays(gangs, 20, 1)
    assert gangs.waiting() != []
    gangs.kube.delete("v1", "Pod", "holder", "default")
    gangs.wait(SIZE)
    gangs.end(again)


def test_volcano_runs_workloads_of_kubernetes_itself(gangs: Team) -> None:
    items = [plain(kind, gangs.queue, VOLCANO) for kind in ("Job", "Deployment", "StatefulSet")]
    for item in items:
        gangs.kube.create(item)
    gangs.wait(len(items))
    for item in items:
        gangs.kube.delete(item["apiVersion"], item["kind"], item["metadata"]["name"], "default")
    gangs.wait(0)
