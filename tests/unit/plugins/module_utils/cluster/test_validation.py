# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import MappingProxyType

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.lifecycle import read
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.status import report
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.validation import notes, problems
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Problem
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.clusters import GPU_TAINT, Gke, node
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item

ML = MappingProxyType(
    {
        "name": "ml",
        "trust": "high",
        "gpu_nodes": {"count": 1},
        "scheduler": {"name": "kai", "version": "v0.16.8"},
        "queues": [{"name": "ml"}],
    }
)
FITTING = {
    "kubegpu_runtime_class": "",
    "kubegpu_tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
}


def wanted(tenant=ML, **variables):
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/k", "kubegpu_tenants": [dict(tenant)]}
    found = desired_state(existing | variables, "dc1", TODAY)
    return found.tenants, found.platform.runtime_class


def problems_of(*more, tenant=ML, without=(), **variables):
    kube = Gke(*more)
    for ref in without:
        kube.drop(*ref)
    return problems(report(read(kube)), *wanted(tenant, **variables))


def notes_of(*more, tenant=ML, **variables):
    return notes(report(read(Gke(*more))), *wanted(tenant, **variables))


def test_a_cluster_that_has_all_of_it():
    assert problems_of(**FITTING) == []


def test_all_that_is_missing_is_said_at_once_with_the_line_that_mends_it():
    found = problems_of(without=[("storage.k8s.io/v1", "StorageClass", "standard-rwo")])
    assert placed(found) == [
        "kubegpu_storage_class: no-storage-class",
        "kubegpu_runtime_class: no-runtime-class",
        "kubegpu_tolerations: nodes-tainted",
    ]
    assert found[1].text.endswith("There is none. Where pods get their GPUs without one, write kubegpu_runtime_class: ''.")
    line = 'kubegpu_tolerations: [{"key":"nvidia.com/gpu","effect":"NoSchedule","operator":"Equal","value":"present"}].'
    assert found[2].text.endswith(line)


CLASS = item("resource.k8s.io/v1", "DeviceClass", "gpus") | {"spec": {"extendedResourceName": "nvidia.com/gpu"}}
SLICE = item("resource.k8s.io/v1", "ResourceSlice", "s") | {
    "spec": {"driver": "gpu.nvidia.com", "nodeName": "dra-1", "pool": {"name": "dra-1"}, "devices": [{"name": "gpu-0"}]}
}
BY_DRA = (node("dra-1"), CLASS, SLICE)
SHARED = MappingProxyType({"name": "ml", "trust": "high", "gpu_nodes": {"names": ["dra-1"]}})


def by_dra(shared="", **tenant):
    cluster = report(read(Gke(*BY_DRA)))
    variables = FITTING | ({"kubegpu_shared_scheduler": {"name": "kai", "version": shared}} if shared else {})
    return placed(problems(cluster, *wanted(SHARED | tenant, **variables), shared))


def test_gpus_by_a_device_class_alone_are_for_schedulers_of_the_host_cluster():
    own = {"scheduler": {"name": "kai", "version": "v0.17.0"}, "queues": [{"name": "ml"}]}
    assert by_dra() == []
    assert by_dra(**own) == ["ml: gpus-by-dra"]
    guest = {"scheduler": {"name": "kai", "shared": True}, "queues": [{"name": "ml"}]}
    assert by_dra("v0.16.8", **guest) == ["ml: gpus-by-dra"]
    assert by_dra("v0.17.0", **guest) == []
    # The device plugin's node is another.
    for nodes in ({"names": ["gpu-1"]}, {"count": 1}):
        assert by_dra(gpu_nodes=nodes, **own) == []


def test_other_names_of_gpus_need_a_bound_of_their_own():
    other = item("resource.k8s.io/v1", "DeviceClass", "all") | {"spec": {"extendedResourceName": "example.com/gpu"}}
    bounded = SHARED | {"gpu_nodes": {"names": ["gpu-1"], "shared_gpus": 1}}
    found = problems_of(*BY_DRA, other, tenant=bounded, **FITTING)
    assert [one.code for one in found] == ["gpus-by-other-name"]
    assert "write quota: {requests.example.com/gpu: 0} for the tenant" in found[0].text
    assert problems_of(*BY_DRA, other, tenant=bounded | {"quota": {"requests.example.com/gpu": 0}}, **FITTING) == []
    assert problems_of(*BY_DRA, other, tenant=SHARED | {"gpu_nodes": {"names": ["gpu-1"]}}, **FITTING) == []


def test_nodes_of_a_driver_without_the_label_are_named():
    assert any("kubectl label node dra-1 nvidia.com/gpu.present=true" in note for note in notes_of(*BY_DRA, **FITTING))
    labelled = node("dra-1", **{"nvidia.com/gpu.present": "true"})
    assert not any("kubectl label" in note for note in notes_of(labelled, CLASS, SLICE, **FITTING))


def test_gpus_of_a_driver_without_a_class_are_no_offer():
    found = problems_of(SLICE, without=[("v1", "Node", "gpu-1")], **FITTING)
    assert [one.code for one in found] == ["no-gpus"]
    assert "gpu.nvidia.com offers the GPUs of dra-1 to ResourceClaims" in found[0].text
    assert problems_of(*BY_DRA, tenant=SHARED, without=[("v1", "Node", "gpu-1")], **FITTING) == []


def test_a_sandbox_needs_its_class():
    (found,) = problems_of(tenant={"name": "web", "trust": "partial", "sandbox": {"runtime_class": "kata"}}, **FITTING)
    assert found == Problem(
        "no-runtime-class",
        "sandbox: there is no RuntimeClass kata, in which all pods of tenant web are to run. There are: none.",
    )


def test_what_mends_the_taint_is_accepted_as_it_is_written():
    said = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "operator": "Equal", "value": "present"}
    assert problems_of(**(FITTING | {"kubegpu_tolerations": [said]})) == []


@pytest.mark.parametrize("nodes", [{"names": ["gpu-2"]}, {"labels": {"pool": "open"}}, {"count": 1}])
def test_a_node_without_a_taint_is_enough(nodes):
    more = node("gpu-2", 4, pool="open")
    assert problems_of(more, tenant=ML | {"gpu_nodes": nodes}, kubegpu_runtime_class="") == []


def test_nodes_that_the_tenant_may_get_are_all_tainted():
    (found,) = problems_of(node("gpu-2", 4), tenant=ML | {"gpu_nodes": {"names": ["gpu-1"]}}, kubegpu_runtime_class="")
    assert found.text.startswith(
        "kubegpu_tolerations: all nodes with GPUs that ml may get are tainted: nvidia.com/gpu=present:NoSchedule"
    )


@pytest.mark.parametrize("text", ["nvidia.com/gpu:", "nvidia.com/gpu:NoSchedule", "nvidia.com/gpu=present"])
def test_what_a_tenant_tolerates_by_its_own_values_counts(text):
    values = {"sync": {"toHost": {"pods": {"enforceTolerations": [text]}}}}
    assert problems_of(tenant=ML | {"vcluster": {"values": values}}, kubegpu_runtime_class="") == []


@pytest.mark.parametrize(
    "text", ["nvidia.com/gpu", "nvidia.com/gpu=true:NoSchedule", "nvidia.com/gpu=present:NoExecute", "gpu:NoSchedule"]
)
def test_what_does_not_tolerate_the_taint_does_not_count(text):
    """By vCluster's pkg/util/toleration and Kubernetes' ToleratesTaint; without a colon, the value is empty."""
    values = {"sync": {"toHost": {"pods": {"enforceTolerations": [text]}}}}
    found = problems_of(tenant=ML | {"vcluster": {"values": values}}, kubegpu_runtime_class="")
    assert placed(found) == ["kubegpu_tolerations: nodes-tainted"]


def test_tenants_without_gpus_need_neither_a_runtime_class_nor_tolerations():
    assert problems_of(tenant={"name": "web", "trust": "high"}) == []
    assert problems_of(tenant=ML | {"state": "absent"}) == []


def test_gpus_that_only_claims_get_are_no_tenants():
    gpu = [("v1", "Node", "gpu-1"), ("apps/v1", "DaemonSet", "nvidia-gpu-device-plugin", "kube-system")]
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"s{number}"},
            "spec": {"driver": driver, "nodeName": node_name},
        }
        for number, (driver, node_name) in enumerate(
            [("gpu.nvidia.com", "gpu-2"), ("gpu.nvidia.com", "gpu-2"), ("compute-domain.nvidia.com", "x")]
        )
    ]
    labelled = node("gpu-2", 0, [GPU_TAINT], **{"nvidia.com/gpu.present": "true"})
    (found,) = problems_of(labelled, *slices, without=gpu, **FITTING)
    assert found.code == "no-gpus"
    assert "gpu.nvidia.com offers the GPUs of gpu-2 to ResourceClaims, of which tenants have none" in found.text


def test_nodes_with_gpus_that_are_not_ready_are_told():
    down = node("gpu-2", 8, [GPU_TAINT])
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    told = "Nodes with GPUs that are not ready: gpu-2. No pod starts there before they are."
    assert told in notes(report(read(Gke(down))), [], "nvidia")
    assert not any("not ready" in text for text in notes(report(read(Gke())), [], "nvidia"))


def test_no_node_offers_gpus():
    gpu = [("v1", "Node", "gpu-1"), ("apps/v1", "DaemonSet", "nvidia-gpu-device-plugin", "kube-system")]
    labelled = node("gpu-2", 0, [GPU_TAINT], **{"nvidia.com/gpu.present": "true"})
    (found,) = problems_of(labelled, without=gpu, **FITTING)
    assert found.code == "no-gpus"
    assert found.text.startswith(
        "gpu_nodes: no node offers nvidia.com/gpu. Labelled as having GPUs: gpu-2. No device plugin runs."
    )


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"kubegpu_storage_class": "premium"},
            Problem("no-storage-class", "kubegpu_storage_class: there is no StorageClass premium. There are: standard-rwo."),
        ),
        (
            {"kubegpu_tenant_api": {"type": "Ingress", "host": "{tenant}.example", "ingress_class": "nginx"}},
            Problem("no-ingress-class", "kubegpu_tenant_api.ingress_class: there is no IngressClass nginx. There are: none."),
        ),
    ],
)
def test_classes_that_are_not_there(variables, expected):
    assert problems_of(**FITTING, **variables) == [expected]


def test_a_control_plane_without_a_volume_needs_no_storage_class():
    values = {"controlPlane": {"statefulSet": {"persistence": {"volumeClaim": {"enabled": False}}}}}
    gone = [("storage.k8s.io/v1", "StorageClass", "standard-rwo")]
    assert problems_of(without=gone, tenant=ML | {"vcluster": {"values": values}}, **FITTING) == []


def test_what_reading_cannot_tell():
    nvidia = item("node.k8s.io/v1", "RuntimeClass", "nvidia", handler="nvidia")
    other = node("gpu-2", 4)
    other["status"]["runtimeHandlers"] = [{"name": ""}, {"name": "runc"}]
    found = notes_of(nvidia, other, kubegpu_tenant_api={"type": "LoadBalancer"})
    assert found[0].startswith("Whether a Service of type LoadBalancer gets an address cannot be read. Try it: kubectl ")
    assert found[1:] == ["The container runtimes of gpu-2 name no handler nvidia, which RuntimeClass nvidia asks for."]


def test_openshift_and_networks_that_may_not_enforce_policies():
    seen = report(read(Gke())) | {"security_context_constraints": True, "network": {"plugins": [], "enforces_policies": None}}
    found = notes(seen, *wanted(ML | {"trust": "partial"}))
    assert [line.partition(" ")[0] for line in found] == ["Network", "OpenShift's"]


# --- what changes pods, and what schedules them ---------------------------------------------------------------------------


def test_what_changes_or_judges_tenants_pods_is_noted():
    rules = [{"operations": ["CREATE"], "resources": ["pods"]}]

    def hook(name, kind="MutatingWebhookConfiguration"):
        return item("admissionregistration.k8s.io/v1", kind, name, webhooks=[{"rules": rules}])

    hooks = [hook("kueue-mutating-webhook-configuration"), hook("own"), hook("gatekeeper", "ValidatingWebhookConfiguration")]
    kueue, own, judging = notes_of(*hooks, **FITTING)[:3]
    assert kueue.startswith(
        "MutatingWebhookConfiguration kueue-mutating-webhook-configuration changes pods in tenants' namespaces."
    )
    assert kueue.endswith("Kueue holds pods by scheduling gates, so tenants pass by its quotas.")
    assert own.endswith("(vCluster #4106). Where it is not meant for tenants, leave tenant-* out.")
    assert judging == "Pods in tenants' namespaces may be refused by ValidatingWebhookConfiguration gatekeeper."


def test_a_priority_for_everybody_and_node_pools_are_noted():
    default = item("scheduling.k8s.io/v1", "PriorityClass", "standard") | {"value": 1000, "globalDefault": True}
    priority, pools = notes_of(default, node("a", 4, **{"kai.scheduler/node-pool": "a100"}), **FITTING)[:2]
    assert priority.startswith(
        "PriorityClass standard (1000) is the global default: unless its values sync priority classes, all pods of a"
    )
    assert priority.endswith("Pods of lower priority on the host cluster are ended where they need room.")
    assert pools.startswith("Nodes with the label kai.scheduler/node-pool: a (a100). A KAI Scheduler places pods there only by a")
    gentle = notes_of(default | {"preemptionPolicy": "Never"}, **FITTING)[0]
    assert gentle.endswith("get it on the host cluster.")
