# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.lifecycle import read
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.status import Seen, distribution, report
from ansible_collections.kubegpu.tenancy.tests.unit.clusters import GPU_TAINT, Gke, daemon_set, node
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item


def seen(version="v1.35.4", nodes=(), daemon_sets=(), webhooks=(), security_contexts=False):
    return Seen(version, list(nodes), [], [], [], list(daemon_sets), [], list(webhooks), security_contexts)


@pytest.mark.parametrize(
    ("version", "nodes", "expected"),
    [
        ("v1.35.4-gke.1200", [], "gke"),
        ("v1.35.4-eks-1a2b3c", [], "eks"),
        ("v1.35.4", [node("a", **{"kubernetes.azure.com/cluster": "MC_a"})], "aks"),
        ("v1.35.4", [node("a", **{"node.openshift.io/os_id": "rhel"})], "openshift"),
        ("v1.35.4+k3s1", [], "k3s"),
        ("v1.35.4+rke2r1", [], "rke2"),
        ("v1.35.4", [node("a", provider="kind://docker/a/a", **{"kubeadm.alpha.kubernetes.io/cri-socket": "x"})], "kind"),
        ("v1.35.4", [node("a", **{"kubeadm.alpha.kubernetes.io/cri-socket": "x"})], "kubeadm"),
        ("v1.35.4", [node("a")], "unknown"),
    ],
)
def test_where_a_cluster_comes_from(version, nodes, expected):
    assert distribution(seen(version, nodes)) == expected


def test_all_that_is_told_of_a_cluster():
    told = report(read(Gke()))
    (gpu,) = told.pop("gpu_nodes")
    assert gpu == {
        "name": "gpu-1",
        "gpus": 8,
        "ready": True,
        "labels": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"},
        "labelled_by": ["GKE"],
        "taints": ["nvidia.com/gpu=present:NoSchedule"],
        "container_runtime": "containerd://2.1.4",
        "runtime_handlers": [],
    }
    assert told == {
        "distribution": "gke",
        "kubernetes_version": "v1.35.4-gke.1200",
        "nodes": 2,
        "runtime_classes": {},
        "device_plugins": ["kube-system/nvidia-gpu-device-plugin"],
        "gpu_operator": False,
        "storage_classes": ["standard-rwo"],
        "default_storage_class": "standard-rwo",
        "ingress_classes": [],
        "network": {"plugins": ["anetd"], "enforces_policies": True},
        "security_context_constraints": False,
        "webhooks": [],
    }


def test_who_labelled_a_node_that_offers_no_gpus_yet():
    labels = {"nvidia.com/gpu.deploy.device-plugin": "true", "feature.node.kubernetes.io/pci-10de.present": "false"}
    (gpu,) = report(seen(nodes=[node("a", **labels), node("b")]))["gpu_nodes"]
    assert (gpu["name"], gpu["gpus"], gpu["labelled_by"]) == ("a", 0, ["GPU operator"])


def test_taints_that_pass_and_those_of_tenants_are_not_told():
    passing = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    dedicated = {"key": "kubegpu.tenancy/dedicated", "value": "a", "effect": "NoSchedule"}
    preferred = {"key": "b", "effect": "PreferNoSchedule"}
    (gpu,) = report(seen(nodes=[node("a", 4, [passing, dedicated, preferred, GPU_TAINT])]))["gpu_nodes"]
    assert gpu["taints"] == ["nvidia.com/gpu=present:NoSchedule"]


@pytest.mark.parametrize(
    ("version", "names", "enforced"),
    [
        ("v1.35.4", ["kube-flannel-ds"], False),
        ("v1.35.4", ["kube-flannel-ds", "calico-node"], True),
        ("v1.35.4", ["aws-node"], None),
        ("v1.35.4", [], None),
        ("v1.35.4+k3s1", [], True),
    ],
)
def test_whether_network_policies_are_known_to_be_enforced(version, names, enforced):
    daemon_sets = [daemon_set(name, "image:1") for name in [*names, "some-other"]]
    assert report(seen(version, daemon_sets=daemon_sets))["network"] == {"plugins": sorted(names), "enforces_policies": enforced}


@pytest.mark.parametrize(
    ("policy", "resources", "judges"),
    [(None, ["pods"], True), ("Fail", ["*"], True), ("Ignore", ["pods"], False), ("Fail", ["services"], False)],
)
def test_webhooks_without_which_no_pod_is_created(policy, resources, judges):
    webhook = {"failurePolicy": policy, "rules": [{"resources": resources}]}
    hook = item("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "guard", webhooks=[webhook])
    assert report(seen(webhooks=[hook]))["webhooks"] == (["guard"] if judges else [])
