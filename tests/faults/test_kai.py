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

    def rows(self, *namespaces: str) -> list[dict[str, Any]]:
        """Return what is said of the pods that wait or run past KAI Scheduler, and of workloads without pods."""
        params = defaults(kai_pending_info, namespaces=list(namespaces or ("default",)))
        rows: list[dict[str, Any]] = kai_pending_info.reconcile(Run(params, kube=self.kube))["pods"]
        return rows

    def waiting(self) -> dict[str, str]:
        """Return the reasons of these rows, by names."""
        return {row["name"]: row["reason"] for row in self.rows()}


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


# What is printed of each: why, and what to do. {kai} stands for the release of KAI Scheduler.
READ_OTHERWISE = {
    "llm.v2": (
        (
            "0 of its 1 pods exist, because {kai} names a volume of pods that share a GPU after their workload, and the name of a volume has no "
            "dots (KAI #1729, mended in v0.12.24, v0.14.8, v0.16.5 and from v0.17.0 on). The last event of ReplicaSet llm.v2-"
        ),
        "Give the workload a name without dots, or change to a release of KAI Scheduler that takes them.",
    ),
    "required": (
        "It names ConfigMap not-there, which does not exist in namespace default.",
        "Create ConfigMap not-there in namespace default, or correct its name.",
    ),
    "optional": (
        "{kai} waits for ConfigMap not-there, which does not exist in namespace default, although the pod marks it optional (KAI #988, ",
        "Create an empty ConfigMap not-there in namespace default, or change to a release of KAI Scheduler that reads optional.",
    ),
    "odd": (
        (
            'Its annotation gpu-fraction is "NaN", which {kai} cannot place (KAI #1798, mended in v0.12.23, v0.14.7, v0.16.3 and from v0.17.0 on; '
            "such a pod is refused from then on)."
        ),
        'Write gpu-fraction in its workload as a decimal between 0 and 1 in quotes, such as "0.5", and create the pod anew.',
    ),
    "pooled": (
        "It is for node pool a100, which no SchedulingShard of KAI Scheduler serves.",
        "Take label kai.scheduler/node-pool off its workload, or create a SchedulingShard with its partitionLabelValue.",
    ),
    "talk": (
        "No release of KAI Scheduler reads its annotation kai.scheduler/gpu-fraction: it gets no part of a GPU.",
        'Write it in its workload as annotation gpu-fraction: "0.5", with schedulerName: kai-scheduler and the label kai.scheduler/queue.',
    ),
    "sidecar": (
        (
            "{kai} does not add native sidecars (proxy) to what a pod asks for (KAI #1556, mended in v0.9.20, v0.12.22, v0.14.6, v0.15.3 and from "
            "v0.16.0 on)."
        ),
        "Ask in its first container for what that and the sidecars need together, or change to a release of KAI Scheduler that adds them.",
    ),
}


def assert_said(rows: Sequence[dict[str, Any]], sentences: dict[str, tuple[str, str]], version: str) -> None:
    """Each row has its sentences: why, within its message, and what to do, at the beginning of its advice."""
    for row in rows:
        message, advice = (text.replace("{kai}", f"KAI Scheduler {version}") for text in sentences[row["name"]])
        assert message in row["message"]
        assert row["advice"].startswith(advice)


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
        assert_said(idle.rows(), READ_OTHERWISE, version)
    finally:
        for item in made:
            idle.kube.delete(item["apiVersion"], item["kind"], item["metadata"]["name"], "default")


def test_nodes_of_a_pool_take_no_pod_without_one(idle: Scheduler) -> None:
    pools = {"labels": {"kai.scheduler/node-pool": "a100"}}
    workers = [node["metadata"]["name"] for node in idle.kube.list("v1", "Node")]
    idle.scheduler(NEW)
    try:
        for name in workers:
            idle.kube.patch("v1", "Node", name, {"metadata": pools})
        idle.kube.create(without_gpu("plain"))
        row = wait_for("the pod to be told of", lambda: ({row["name"]: row for row in idle.rows()}.get("plain"), ""), 60)
        assert row["message"] == (
            "It is for none of the node pools, and no node is: label kai.scheduler/node-pool of the nodes says a100."
        )
        assert row["advice"].startswith("Take label kai.scheduler/node-pool off a node, or give its workload the label")
    finally:
        for name in workers:
            idle.kube.patch("v1", "Node", name, {"metadata": {"labels": dict.fromkeys(pools["labels"])}})
        idle.kube.delete("v1", "Pod", "plain", "default")


def refusals() -> Iterator[dict[str, Any]]:
    """Yield namespaces in which the API server refuses pods, what has it do so, and a Deployment in each."""
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "REFUSAL"}}}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    service = {"service": {"name": "nobody", "namespace": "of-webhook", "path": "/"}}
    webhook = {"name": "nobody.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": rules}

    def only(name: str) -> dict[str, Any]:
        return json.loads(json.dumps(selector).replace("REFUSAL", name))

    ranges = [{"type": "Container", "max": {"cpu": "100m"}, "default": {"cpu": "50m"}}]
    validation = {"expression": "false", "message": "images need a tag"}
    of = {"metadata": {"name": "kubegpu-refusals"}}
    yield from (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in REFUSING.items()
    )
    inside: list[tuple[str, str, dict[str, Any]]] = [
        ("of-quota", "ResourceQuota", {"hard": {"pods": "0"}}),
        ("of-uncounted", "ResourceQuota", {"hard": {"limits.cpu": "1"}}),
        ("of-range", "LimitRange", {"limits": ranges}),
    ]
    for namespace, kind, spec in inside:
        yield {"apiVersion": "v1", "kind": kind, "metadata": {"name": "kubegpu", "namespace": namespace}, "spec": spec}
    admission = "admissionregistration.k8s.io/v1"
    hook = webhook | only("of-webhook") | {"clientConfig": service, "failurePolicy": "Fail"}
    yield {"apiVersion": admission, "kind": "ValidatingWebhookConfiguration", **of, "webhooks": [hook]}
    constraints = {"resourceRules": rules} | only("of-policy")
    policy = {"matchConstraints": constraints, "validations": [validation]}
    yield {"apiVersion": admission, "kind": "ValidatingAdmissionPolicy", **of, "spec": policy}
    binding = {"policyName": "kubegpu-refusals", "validationActions": ["Deny"]}
    yield {"apiVersion": admission, "kind": "ValidatingAdmissionPolicyBinding", **of, "spec": binding}
    for namespace in REFUSING:
        spec = pod("web", "training", gpus=0)["spec"]
        spec["containers"][0]["resources"] = (
            {"requests": {"cpu": "200m"}, "limits": {"cpu": "200m"}} if namespace == "of-range" else {}
        )
        if namespace == "of-account":
            spec["serviceAccountName"] = "nobody"
        template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": namespace.replace("of-", "web-"), "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
        }


# Namespaces by why pods are refused there, with their labels.
REFUSING: dict[str, dict[str, str]] = {
    "of-account": {},
    "of-policy": {},
    "of-quota": {},
    "of-range": {},
    "of-standard": {"pod-security.kubernetes.io/enforce": "restricted"},
    "of-uncounted": {},
    "of-webhook": {},
}
REFUSED = {
    "web-account": ("missing_name", "it names something that does not exist", "Create what the message names"),
    "web-policy": ("policy", "an admission policy or webhook of the cluster refuses its pods", "Change what the message names"),
    "web-quota": ("quota", "a ResourceQuota of its namespace is used up", "Ask for less, end other work of the namespace"),
    "web-range": ("quota", "its containers are not within the LimitRange of its namespace", "Ask for amounts within the bounds"),
    "web-standard": ("pod_security", "its pods are not within the pod security standard", "Set what the message names"),
    "web-uncounted": ("quota", "a ResourceQuota counts amounts that its containers do not give", "Give each container"),
    "web-webhook": ("webhook", "a webhook that judges pods does not answer", "Have the platform team see why"),
}


def test_workloads_whose_pods_the_api_server_refuses(idle: Scheduler) -> None:
    made = list(refusals())
    sentences = {name: (f"0 of its 1 pods exist, because {cause}", advice) for name, (_reason, cause, advice) in REFUSED.items()}
    expected, waited = {name: reason for name, (reason, _cause, _advice) in REFUSED.items()}, False
    idle.scheduler(NEW)
    try:
        for item in made:
            if item["kind"] == "Deployment" and not waited:
                # The API server learns of policies and webhooks within seconds.
                time.sleep(10)
                waited = True
            idle.kube.create(item)
        deadline = time.monotonic() + 90
        while (found := {row["name"]: row["reason"] for row in idle.rows(*REFUSING)}) != expected:
            assert time.monotonic() < deadline, found
            time.sleep(2)
        assert_said(idle.rows(*REFUSING), sentences, NEW)
    finally:
        for item in made:
            idle.kube.delete(item["apiVersion"], item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))


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
    found = cluster.release(kai.RELEASE_NAME, KAI_NAMESPACE)
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
