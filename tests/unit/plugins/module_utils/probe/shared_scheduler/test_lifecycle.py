# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import POD_GROUP
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from ansible_collections.kubegpu.tenancy.plugins.modules import probe
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.synced import synced
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import node

NAMESPACE, HOME = "kubegpu-shared-probe", "tenant-ml"
TREE = [{"name": "ml", "gpu": {"quota": 2, "limit": 2}}]
GPUS = [f"GPU-{number:08}-0000-0000-0000-000000000000" for number in range(2)]


class Tenant(InMemoryApi):
    """A tenant and its host cluster, whose scheduler does at once what KAI should, but for what ``wrong`` names."""

    def __init__(self, gpus=2, wrong="", quota=None):
        super().__init__()
        self.wrong = wrong
        self.host = InMemoryApi([node("n1", "ml", gpus=gpus), *(manifest(queue) for queue in parse(TREE).values())])
        if quota is not None:
            status = {"hard": {"requests.nvidia.com/gpu": str(quota)}, "used": {"requests.nvidia.com/gpu": "0"}}
            metadata = {"name": "vc-ml", "namespace": HOME}
            self.host.put({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status})
        self.react("create", "Namespace", self.add_account)
        self.react("create", "Pod", self._sync)
        self.react("delete", "Pod", self._unsync)

    def _sync(self, pod):
        name, shared = pod["metadata"]["name"], "gpu-fraction" in pod["metadata"].get("annotations", {})
        refusals = {"queue-1": "Set the label kai.scheduler/queue to one of ml.", "devices-1": "NVIDIA_VISIBLE_DEVICES is void."}
        if name in refusals and self.wrong not in ("let in", "not synced"):
            said = f"Error syncing: pods is forbidden: denied request: {refusals[name]}"
            event = {"metadata": {"name": "e", "namespace": NAMESPACE}, "involvedObject": {"name": name}, "message": said}
            self.put({"apiVersion": "v1", "kind": "Event"} | event)
            return
        second = self.wrong in ("spread", "beside others") and name == "fraction-2"
        uuid = GPUS[second]
        self.pod_logs[name] = "\n".join(f"GPU 0: X (UUID: {one})" for one in (GPUS if self.wrong == "all" else [uuid]))
        self.put(pod | {"status": {"phase": "Pending" if self.wrong == "pending" else "Running"}})
        if self.wrong == "not synced":
            return
        group = f"pg-{name}"
        labels = {"runai-gpu-group": f"g{second:d}"} if shared else {}
        as_written = {"name": name, "namespace": HOME, "annotations": {"pod-group-name": group}, "labels": labels}
        metadata = synced({"metadata": as_written}, "ml", NAMESPACE)["metadata"]
        if shared:
            note = {"run.ai/reserve_for_gpu_index": uuid}
            if self.wrong != "lost":
                reserve = {"namespace": "kai-resource-reservation", "labels": labels, "annotations": note}
                self._host_pod({"name": f"reserve-{second:d}"} | reserve)
            if self.wrong == "beside others":
                self._host_pod({"name": f"other-{second:d}", "namespace": "tenant-other", "labels": labels}, limits={})
        scheduler = "default-scheduler" if self.wrong == "scheduler" else "kai-scheduler"
        self._host_pod(metadata, scheduler, {} if shared else {"nvidia.com/gpu": "1"})
        queue = "of-others" if self.wrong == "queue" else pod["metadata"].get("labels", {}).get("kai.scheduler/queue")
        of_group = {"name": group, "namespace": HOME}
        self.host.put({"apiVersion": POD_GROUP[0], "kind": POD_GROUP[1], "metadata": of_group, "spec": {"queue": queue}})

    def _host_pod(self, metadata, scheduler="kai-scheduler", limits=None):
        spec = {
            "nodeName": "n1",
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"limits": limits or {}}}],
        }
        self.host.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}})

    def _unsync(self, pod):
        self.host.drop("v1", "Pod", f"{pod['metadata']['name']}-x", HOME)


def run(tenant, check_mode=False, **changes):
    params = {
        "kind": "shared_scheduler",
        "tenant": "ml",
        "tenant_kubeconfig": "/x",
        "queues": TREE,
        "checks": ["gpu", "fraction"],
        "timeout": 60,
    } | changes
    return probe.reconcile(make_run(params, tenant.host, check_mode=check_mode), tenant)


def verdicts(result):
    return {found["name"]: found["verdict"] for found in result["results"]}


def test_what_both_clusters_show():
    tenant = Tenant(quota=2)
    result = run(tenant)
    assert verdicts(result) == {"gpu": "passed", "fraction": "passed"}
    assert [found["queue"] for found in result["results"]] == ["ml", "ml"]
    assert result["results"][0]["reason"] == f"{GPUS[0]}; in queue ml on the host cluster"
    assert [key for key in tenant.objects if NAMESPACE in key] == []


def test_a_queue_of_others_is_refused_and_the_tenant_is_told():
    (found,) = run(Tenant(gpus=0), checks=["queue"])["results"]
    assert (found["verdict"], found["queue"]) == ("passed", "kubegpu-nobodys-queue")
    assert found["reason"] == "refused, and the tenant told: Set the label kai.scheduler/queue to one of ml."


@pytest.mark.parametrize("queues", [TREE, []])
def test_a_pod_that_would_see_all_gpus_is_refused_with_queues_or_without(queues):
    (found,) = run(Tenant(gpus=0), checks=["devices"], queues=queues)["results"]
    assert (found["verdict"], found["queue"]) == ("passed", "")
    assert found["reason"] == "refused, and the tenant told: NVIDIA_VISIBLE_DEVICES is void."


@pytest.mark.parametrize(
    ("check", "wrong", "reason"),
    [
        ("queue", "let in", "was let in: no policy of the host cluster keeps the tenant to its queues"),
        ("devices", "let in", "was let in: no policy of the host cluster keeps GPUs that others have from its pods"),
        ("queue", "not synced", "no event .* says why"),
        ("devices", "not synced", "no event .* says why"),
    ],
)
def test_a_policy_that_is_not_enforced_counts_as_none(check, wrong, reason):
    with pytest.raises(TenancyError, match=reason):
        run(Tenant(wrong=wrong), checks=[check])


def test_what_is_returned_is_what_is_documented():
    returned = yaml.safe_load(probe.RETURN)
    result = run(Tenant(), checks=["gpu"])
    assert result.keys() - returned.keys() == {"changed"}
    assert result["results"][0].keys() == returned["results"]["contains"].keys()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("pending", "pod gpu-1: Pending, not ready"),
        ("all", "pod gpu-1 sees 2 GPUs"),
        ("not synced", "pod gpu-1 is not on the host cluster yet"),
        ("scheduler", "was placed by default-scheduler, not by kai-scheduler"),
        ("queue", "is in queue of-others on the host cluster, not in ml"),
    ],
)
def test_a_gpu_that_is_not_as_it_should_be(wrong, reason):
    with pytest.raises(TenancyError, match=reason):
        run(Tenant(wrong=wrong), checks=["gpu"])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [("spread", "the pods would fit on one GPU, and are on"), ("lost", r"is reserved by no pod .* \(#1103\)")],
)
def test_halves_that_are_not_as_they_should_be(wrong, reason):
    with pytest.raises(TenancyError, match=reason):
        run(Tenant(wrong=wrong), checks=["fraction"])


def test_halves_on_gpus_that_others_share():
    """Seen where two tenants were verified at once: KAI Scheduler put one half of each on either GPU."""
    result = run(Tenant(wrong="beside others"), checks=["fraction"])
    assert verdicts(result) == {"fraction": "passed"}
    assert result["results"][0]["reason"].startswith(f"half of {', '.join(GPUS)} each, reserved by")
    assert "; scheduled, but memory is not enforced: how much pod fraction-1 sees" in result["results"][0]["reason"]


def test_a_lost_reservation_that_was_accepted():
    assert verdicts(run(Tenant(wrong="lost"), accept_hazards=["#1103"])) == {"gpu": "passed", "fraction": "accepted"}


@pytest.mark.parametrize(
    ("tenant", "verdict", "reason"),
    [
        (Tenant(gpus=0), "not_tried", "no GPU of the tenant's nodes is free"),
        (Tenant(quota=0), "passed", "the quota of 0 GPUs on the host cluster is used up"),
    ],
)
def test_what_it_needs(tenant, verdict, reason):
    result = run(tenant)
    assert verdicts(result) == {"gpu": "not_tried", "fraction": verdict}
    assert result["results"][0]["reason"] == reason


def test_a_queue_that_is_full():
    tenant = Tenant()
    tenant.host.patch("scheduling.run.ai/v2", "Queue", "ml", {"status": {"allocated": {"nvidia.com/gpu": "2"}}})
    result = run(tenant)
    assert verdicts(result) == {"gpu": "not_tried", "fraction": "not_tried"}
    assert result["results"][0]["reason"] == "queue ml, or one above it, allows no other GPU now"


def test_nothing_is_run_without_a_queue_or_in_check_mode():
    tenant = Tenant()
    result = run(tenant, queues=[])
    assert verdicts(result) == verdicts(run(tenant, check_mode=True)) == {"gpu": "not_tried", "fraction": "not_tried"}
    assert {found["reason"] for found in result["results"]} == {"the tenant has no queue"}
    assert tenant.writes == tenant.host.writes == []
    found = run(tenant, queues=[], checks=["devices", "gpu"])["results"]
    assert [(one["verdict"], one["reason"]) for one in found][1] == ("not_tried", "the tenant has no queue")
