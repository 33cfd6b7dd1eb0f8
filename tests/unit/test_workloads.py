# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of workloads fit the lab and the README's tenant, and explain each line that is not plain Kubernetes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import recipe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import (
    FRACTION_NOTE,
    GPU_RESOURCE,
    KAI_SCHEDULER_NAME,
    MEMORY_NOTE,
    POD_GROUP,
    POD_GROUP_NOTE,
    QUEUE_LABEL,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import FACTS, dotted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_policies.facts import LEAST_NOTE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.kai_scheduling.facts import LOWEST_PRIORITY
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import ancestors, leaves
from ansible_collections.kubegpu.tenancy.tests.unit.manifests import templates
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import LAB, VERSIONS

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples/workloads").glob("*.yaml"))
FRAMEWORKS = sorted((ROOT / "examples/workloads/frameworks").glob("*.yaml"))
(README,) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
SOURCES = {
    "lab": yaml.safe_load((ROOT / "inventories/lab/group_vars/kubegpu_labs.yml").read_text()),
    "README": yaml.safe_load(README)["kubegpu_clusters"]["hosts"]["gpu1.example"],
}
QUEUES = {
    name: parse(tenant["queues"])
    for name, variables in SOURCES.items()
    for tenant in variables["kubegpu_tenants"]
    if tenant["name"] == "team-ml"
}
IMAGES = {image.ref for image in recipe(VERSIONS, LAB).images}
# What pod security calls restricted, but for volumes and ports of the host, which no workload asks for here.
RESTRICTED_POD = {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

in_every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


def objects(example: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(example.read_text()))


def pods(example: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Return the pods that an example leads to, as templates, and how many there are of each."""
    for item in objects(example):
        if item["kind"] == "Pod":
            yield item, 1
        elif "template" in item["spec"]:
            yield item["spec"]["template"], item["spec"].get("replicas", item["spec"].get("parallelism", 1))


def resources(pod: dict[str, Any]) -> dict[str, Any]:
    """Return what the one container of a pod asks for, by resource."""
    (container,) = pod["spec"]["containers"]
    asked = container.get("resources", {})
    return asked.get("requests", {}) | asked.get("limits", {})


def gpus(pod: dict[str, Any]) -> float:
    """Return the GPUs that a pod asks for in whole or in parts; of one that asks for memory, a whole one at most."""
    notes = pod["metadata"].get("annotations", {})
    part = float(notes.get(FRACTION_NOTE, 0)) or float(MEMORY_NOTE in notes)
    whole = int(resources(pod).get(GPU_RESOURCE, 0))
    assert not (part and whole), "KAI Scheduler refuses both at once"
    return part or whole


def asked_of_kai(example: Path) -> Iterator[str]:
    """Return the keys, resources and fields of an example by which it is placed and sees a GPU."""
    for item in objects(example):
        yield from item["metadata"].get("annotations", {})
    for pod, _count in pods(example):
        metadata = pod["metadata"]
        yield from {**metadata["labels"], **metadata.get("annotations", {})}.keys() - {"app"}
        yield from resources(pod)
        yield from pod["spec"].keys() & {"schedulerName", "runtimeClassName"}


@in_every_example
def test_a_pod_is_placed_by_kai_scheduler_in_a_leaf_queue_that_has_room(example):
    assert list(pods(example))
    for pod, count in pods(example):
        assert pod["spec"]["schedulerName"] == KAI_SCHEDULER_NAME
        name = pod["metadata"]["labels"][QUEUE_LABEL]
        for tree in QUEUES.values():
            assert name in {queue.name for queue in leaves(tree)}
            limits = [queue.spec["resources"]["gpu"]["limit"] for queue in ancestors(tree, name)]
            assert gpus(pod) * count <= min(limits)


def test_the_tenants_are_found():
    """Otherwise the test before would prove nothing."""
    assert QUEUES.keys() == SOURCES.keys()
    assert all({queue.name for queue in leaves(tree)} == {"training", "notebooks"} for tree in QUEUES.values())


@in_every_example
def test_the_lab_has_the_image_and_the_strictest_pod_security_takes_the_pod(example):
    for pod, _count in pods(example):
        (container,) = pod["spec"]["containers"]
        assert container["image"] in IMAGES
        assert pod["spec"]["securityContext"] == RESTRICTED_POD
        assert container["securityContext"] == RESTRICTED_CONTAINER
        assert bool(gpus(pod)) == (pod["spec"].get("runtimeClassName") == "nvidia")


@in_every_example
def test_a_comment_explains_what_is_asked_of_kai_scheduler(example):
    comments = " ".join(re.findall(r"^ *# (.*)$", example.read_text(), re.MULTILINE))
    unexplained = [name for name in asked_of_kai(example) if not re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", comments)]
    assert unexplained == []
    assert all(mark in comments for mark in ("1. ", "2. ", "3. ", "THE LINE TO CHANGE", "docs/how-to/team-lead.md"))


@in_every_example
def test_work_that_no_job_makes_may_be_preempted(example):
    """KAI Scheduler holds what may not be to its queue's quotas of GPUs, CPU and memory, and takes a Deployment's pods for such."""
    deployed = [item["spec"]["template"] for item in objects(example) if item["kind"] == "Deployment"]
    assert all(pod["metadata"]["labels"]["priorityClassName"] == LOWEST_PRIORITY for pod in deployed)


def test_the_job_that_is_a_gang_says_from_which_release_on():
    example = ROOT / "examples/workloads/gang-job.yaml"
    (job,) = objects(example)
    assert job["metadata"]["annotations"] == {LEAST_NOTE: str(job["spec"]["parallelism"])}
    (since,) = (fact.since for fact in FACTS["job_gangs"] if fact.value)
    assert f"from KAI Scheduler v{dotted(since)} on" in example.read_text()


def test_the_gang_of_pods_is_one():
    group, *members = objects(ROOT / "examples/workloads/gang-pods.yaml")
    assert (group["apiVersion"], group["kind"]) == POD_GROUP
    assert group["spec"]["minMember"] == len(members)
    assert {pod["metadata"]["annotations"][POD_GROUP_NOTE] for pod in members} == {group["metadata"]["name"]}
    assert {pod["metadata"]["labels"][QUEUE_LABEL] for pod in members} == {group["spec"]["queue"]}
    assert len({str(pod["spec"]) for pod in members}) == 1


@in_every_example
def test_services_lead_to_pods_of_the_example(example):
    labels = [pod["metadata"]["labels"] for pod, _count in pods(example)]
    for service in (item for item in objects(example) if item["kind"] == "Service"):
        assert any(service["spec"]["selector"].items() <= found.items() for found in labels)


def test_the_lab_runs_every_example():
    (tasks,) = yaml.safe_load((ROOT / "molecule/lab/tasks/examples.yml").read_text())
    wanted = Counter(line.split()[0] for line in tasks["vars"]["_wanted"])
    made = [(pod["metadata"]["labels"]["app"], count) for example in EXAMPLES for pod, count in pods(example)]
    assert wanted == sum((Counter({name: count}) for name, count in made), Counter())
    assert wanted.keys() == {example.stem for example in EXAMPLES}


def test_the_page_for_team_leads_shows_every_example():
    shown = re.findall(r"`examples/workloads/([\w/-]+)\.yaml`", (ROOT / "docs/how-to/team-lead.md").read_text())
    assert {*shown} == {example.stem for example in EXAMPLES} | {f"frameworks/{example.stem}" for example in FRAMEWORKS}


@pytest.mark.parametrize("example", FRAMEWORKS, ids=lambda path: path.stem)
def test_a_framework_s_pods_hold_a_gpu_each_and_are_placed_as_the_example_says(example):
    found = [pod for item in objects(example) for pod in templates(item)]
    assert found
    for pod in found:
        assert gpus({"metadata": {}} | pod) == 1
        assert pod["spec"]["runtimeClassName"] == "nvidia"
        if example.stem == "volcano-job":
            # The Job names the scheduler and the queue.
            assert "schedulerName" not in pod["spec"]
        else:
            assert pod["spec"]["schedulerName"] == KAI_SCHEDULER_NAME
            assert pod["metadata"]["labels"] == {QUEUE_LABEL: "training"}
        (container,) = pod["spec"]["containers"]
        # The image of Ray cannot be had for the lab, where the tests put another one in its place.
        assert container["image"] in IMAGES or (example.stem.startswith("ray-") and "/ray:" in container["image"])
    assert "TO CHANGE" in example.read_text().partition("\napiVersion")[0]


def test_the_first_job_of_the_page_for_team_leads_is_the_example():
    (job,) = re.findall(r"<<'EOF'\n(.*?)^EOF$", (ROOT / "docs/how-to/team-lead.md").read_text(), re.DOTALL | re.MULTILINE)
    assert [yaml.safe_load(job)] == objects(ROOT / "examples/workloads/gpu.yaml")
