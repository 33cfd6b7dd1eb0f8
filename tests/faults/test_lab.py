# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to a lab, in this order."""

from __future__ import annotations

import re
import subprocess

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.synced import SYNCED_FROM_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import CONTROL_PLANE
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab, changed

KILLED_AT = [
    ("Create the host", 0.5),
    ("Wait until the host's Docker", 1),
    ("nvkind : Make the cluster", 8),
    ("nvkind : Make the cluster", 25),
    ("Make the nodes offer their GPUs", 4),
]
KUBECTL = ("kubectl", "--kubeconfig=/etc/kubegpu/kubegpu/cluster.yml")
# What the first tenants have on the host cluster, in the order in which it comes: arguments of kubectl get.
STAGES = {
    "virtual clusters": ("statefulsets", f"--selector={CONTROL_PLANE}"),
    "KAI Scheduler's operator": ("pods", f"--selector={SYNCED_FROM_LABEL}=kai-scheduler"),
    "the checks' pods": ("pods", f"--selector={SYNCED_FROM_LABEL}=kai-probe"),
}
KILLED_WHEN = [
    ("virtual clusters", 0),
    ("virtual clusters", 25),
    ("KAI Scheduler's operator", 0),
    ("KAI Scheduler's operator", 25),
    ("the checks' pods", 0),
]


def verified(said: str) -> int:
    """Count the tenants with KAI Scheduler whose checks all passed, but for what their releases are known for and was accepted."""
    return len(re.findall(r" (?:12 of 12|11 of 12, 1 accepted)\b", said))


@pytest.mark.parametrize(("task", "seconds"), KILLED_AT)
def test_site_is_killed(lab: Lab, task: str, seconds: float) -> None:
    lab.kill_site_at(task, seconds)


@pytest.mark.parametrize(("stage", "seconds"), KILLED_WHEN)
def test_site_is_killed_while_it_works_on_tenants(lab: Lab, stage: str, seconds: float) -> None:
    """Where a stage was reached by the run before, the seconds count from the beginning of this one."""
    get = (*KUBECTL, "get", *STAGES[stage], "--all-namespaces", "--output=name")
    lab.kill_when("site", lambda: bool(lab.run(*get)), seconds)


def test_site_is_killed_and_its_workers_go_on(lab: Lab) -> None:
    """The next run begins at once, beside what they still do on the host, and wins."""
    lab.site()
    # Else there would be nothing to install.
    said = lab.play("cleanup", "--extra-vars=kubegpu_only=team-ml")
    assert lab.code == 0, said[-4000:]
    lab.kill_site_at("Work on tenants", 40, alone=True)


def test_the_next_run_goes_on_from_there_and_the_one_after_changes_nothing(lab: Lab) -> None:
    said = lab.site()
    assert verified(said) == 2
    assert changed(lab.site()) == 0


def test_a_stopped_host_is_started_and_all_is_well(lab: Lab) -> None:
    subprocess.run(["docker", "stop", lab.name], check=True, capture_output=True, timeout=120)
    said = lab.site()
    assert verified(said) == 2
    assert changed(lab.site()) == 0


def test_a_registry_that_does_not_answer_is_named_within_the_probes_time(lab: Lab) -> None:
    lab.run("systemctl", "stop", "docker-registry")
    for node in ("kubegpu-worker", "kubegpu-worker2"):
        lab.run("docker", "exec", node, "ctr", "--namespace=k8s.io", "images", "rm", "docker.io/library/busybox:1.37.0")
    probe = ("--tags=verify", "--extra-vars=kai_scheduler_probe_max_age=0")
    said = lab.play("site", *probe, "--extra-vars=kai_scheduler_probe_timeout=40")
    assert lab.code != 0
    assert "busybox:1.37.0" in said
    assert "ImagePullBackOff" in said or "ErrImagePull" in said

    lab.run("systemctl", "start", "docker-registry")
    assert changed(lab.site(*probe)) == 0


def test_another_lab_beside_it_is_another_world(lab: Lab) -> None:
    clusters = "--tags=lab,cluster"
    lab.site(clusters)
    mine = lab.everything()
    with Lab("kubegpu-faults-b") as other:
        said = other.site(clusters)
        # Only the simulated driver, which knows its lab by name.
        built = [line for line in said.splitlines() if f"{other.name}: building" in line]
        assert [line for line in built if "libnvidia-ml" not in line and "nvidia-smi" not in line] == []
        assert len(other.everything()) == len(mine)
        assert changed(lab.site(clusters)) == 0
    assert lab.everything() == mine
    assert changed(lab.site(clusters)) == 0


def test_cleanup_after_a_kill_in_the_middle_leaves_nothing(lab: Lab) -> None:
    # It may fail where something in the host was frozen at that moment; cleanup has to cope with that as well.
    subprocess.run(["docker", "rm", "--force", lab.name], check=False, capture_output=True, timeout=120)
    lab.play("cleanup")
    assert (lab.code, lab.everything()) == (0, [])
