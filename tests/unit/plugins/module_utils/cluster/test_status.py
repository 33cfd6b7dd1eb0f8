# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.facts import RIGHTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.lifecycle import lacking, read
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.status import Seen, distribution, report
from ansible_collections.kubegpu.tenancy.plugins.module_utils._cluster.validation import without_rights
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.status import WEBHOOKS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import SYNCED_CLUSTER_KINDS
from ansible_collections.kubegpu.tenancy.tests.unit.clusters import GPU_TAINT, Gke, daemon_set, node
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item


def seen(version="v1.35.4", nodes=(), daemon_sets=(), webhooks=(), security_contexts=False):
    return Seen(
        version, list(nodes), [], [], [], list(daemon_sets), [], list(webhooks), security_contexts, [], [], [], [], [], []
    )


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
        "dra": False,
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
        "dra_gpu_class": None,
        "dra_other_names": {},
        "dra_gpu_nodes": [],
        "storage_classes": ["standard-rwo"],
        "default_storage_class": "standard-rwo",
        "ingress_classes": [],
        "network": {"plugins": ["anetd"], "enforces_policies": True},
        "security_context_constraints": False,
        "webhooks": [],
        "tenants_pods": [],
        "default_priority": None,
        "node_pools": {},
        "unread": [],
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


@pytest.mark.parametrize(
    ("rule", "judges"),
    [
        ({"apiGroups": ["cert-manager.io", "acme.cert-manager.io"], "operations": ["CREATE"], "resources": ["*/*"]}, False),
        ({"apiGroups": ["serving.knative.dev"], "operations": ["CREATE", "UPDATE"], "resources": ["*"]}, False),
        ({"apiGroups": [""], "operations": ["DELETE"], "resources": ["pods"]}, False),
        ({"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods/exec"]}, False),
        ({"apiGroups": ["*"], "operations": ["*"], "resources": ["*"], "scope": "Cluster"}, False),
        ({"apiGroups": ["*"], "operations": ["*"], "resources": ["*"], "scope": "*"}, True),
        ({"apiGroups": ["", "apps"], "operations": ["CREATE"], "resources": ["pods/*"], "scope": "Namespaced"}, True),
    ],
)
def test_rules_that_are_for_the_creation_of_pods(rule, judges):
    rule = {"apiVersions": ["v1"]} | rule
    hook = webhook("guard", "ValidatingWebhookConfiguration", [rule])
    held = policy("hold", "ValidatingAdmissionPolicy", resourceRules=[rule])
    told = report(read(Gke(hook, held, binding("hold", "ValidatingAdmissionPolicyBinding"))))
    assert told["webhooks"] == (["guard"] if judges else [])
    assert [row["name"] for row in told["tenants_pods"]] == (["hold", "guard"] if judges else [])


# --- what is done to tenants' pods ---------------------------------------------------------------------------------------

HOOKS = "admissionregistration.k8s.io/v1"
PODS = ({"operations": ["CREATE"], "resources": ["pods"]},)


def called(*objects):
    return [(row["kind"], row["name"], row["changes"]) for row in report(read(Gke(*objects)))["tenants_pods"]]


def webhook(name="guard", kind="MutatingWebhookConfiguration", rules=PODS, **more):
    return item(HOOKS, kind, name, webhooks=[{"rules": list(rules)} | more])


def policy(name="hold", kind="MutatingAdmissionPolicy", api=HOOKS, labels=None, **constraints):
    return item(api, kind, name, labels=labels or {}, spec={"matchConstraints": {"resourceRules": list(PODS)} | constraints})


def binding(name="hold", kind="MutatingAdmissionPolicyBinding", api=HOOKS, **resources):
    return item(api, kind, f"{name}-there", spec={"policyName": name, "matchResources": resources})


def selected(*expressions, **labels):
    found = [dict(zip(("key", "operator", "values"), expression)) for expression in expressions]
    return {"namespaceSelector": {"matchLabels": labels, "matchExpressions": found}}


NAME = "kubernetes.io/metadata.name"


def test_what_is_asked_for_pods_of_tenants_changes_come_first():
    judge = webhook("a-judge", "ValidatingWebhookConfiguration")
    objects = (
        judge,
        webhook("kueue"),
        policy(),
        binding(),
        policy("v", "ValidatingAdmissionPolicy"),
        binding("v", "ValidatingAdmissionPolicyBinding"),
    )
    assert called(*objects) == [
        ("MutatingAdmissionPolicy", "hold", True),
        ("MutatingWebhookConfiguration", "kueue", True),
        ("ValidatingAdmissionPolicy", "v", False),
        ("ValidatingWebhookConfiguration", "a-judge", False),
    ]
    beta = "admissionregistration.k8s.io/v1beta1"
    assert called(policy(api=beta), binding(api=beta)) == [("MutatingAdmissionPolicy", "hold", True)]


@pytest.mark.parametrize(
    "unasked",
    [
        [webhook(rules=[{"resources": ["services"]}])],
        # KAI Scheduler's, and those of this collection.
        [webhook(name, kind) for kind, name in WEBHOOKS],
        [policy(labels=OWNED_LABELS), binding()],
        # Without a binding, none is in force; a binding of another kind is none.
        [policy()],
        [policy(), binding(kind="ValidatingAdmissionPolicyBinding")],
        [policy(), binding("other")],
    ],
)
def test_what_is_not_asked_for_them(unasked):
    assert called(*unasked) == []


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        (selected(), True),
        (selected((NAME, "NotIn", ["kube-system"])), True),
        (selected((NAME, "In", ["team-a"])), False),
        (selected(("kueue.x-k8s.io/managed", "Exists")), False),
        (selected(("kueue.x-k8s.io/managed", "DoesNotExist")), True),
        (selected(("kubegpu.tenancy/tenant", "DoesNotExist")), False),
        (selected(("control-plane", "NotIn", ["x"])), True),
        (selected(injection="enabled"), False),
        (selected(**{"app.kubernetes.io/managed-by": "kubegpu.tenancy"}), True),
    ],
)
def test_namespaces_of_tenants_are_selected_by_their_labels(selector, taken):
    assert bool(called(webhook(**selector))) is taken
    assert bool(called(policy(**selector), binding())) is taken
    assert bool(called(policy(), binding(**selector))) is taken


def priority(name, value, **more):
    return item("scheduling.k8s.io/v1", "PriorityClass", name) | {"value": value} | more


def test_the_priority_that_pods_get_without_asking():
    classes = [priority("low", 1), priority("standard", 1000, globalDefault=True), priority("other", 2000, globalDefault=True)]
    assert report(read(Gke(*classes)))["default_priority"] == {"name": "standard", "value": 1000, "preempts": True}
    gentle = priority("standard", 1000, globalDefault=True, preemptionPolicy="Never")
    assert report(read(Gke(gentle)))["default_priority"]["preempts"] is False


def test_nodes_of_a_pool():
    assert report(read(Gke(node("a", 4, **{"kai.scheduler/node-pool": "a100"}))))["node_pools"] == {"a": "a100"}


# --- what the kubeconfig lets do -----------------------------------------------------------------------------------------


IN = {"tenant": "tenant-ml", "reader": "monitoring"}


def test_an_administrator_is_asked_once():
    kube = Gke()
    assert lacking(kube, IN, ["shared"]) == {}
    assert kube.reads == [("may", "*", "*")]


def test_rights_that_are_missing_are_told_by_what_they_are_for():
    kube = Gke()
    kube.denied = {
        ("patch", "nodes"),
        ("create", "clusterroles"),
        ("delete", "clusterroles"),
        ("create", "customresourcedefinitions"),
        ("get", "limitranges"),
    }
    missing = {"nodes": ["patch"], "clusterroles.rbac.authorization.k8s.io": ["create", "delete"]}
    assert lacking(kube, IN, []) == missing
    assert lacking(kube, IN, ["bounded"]) == missing | {"limitranges": ["get"]}
    shared = {"customresourcedefinitions.apiextensions.k8s.io": ["create"]}
    assert lacking(kube, IN, ["shared"]) == missing | shared
    kube.denied |= {("create", "prometheusrules"), ("list", "servicemonitors")}
    api = "monitoring.coreos.com"
    monitored = {f"servicemonitors.{api}": ["list"], f"prometheusrules.{api}": ["create"]}
    assert lacking(kube, IN, ["monitored"]) == missing | monitored
    (problem,) = without_rights(missing)
    assert problem.code == "lacks-rights"
    assert problem.text.startswith(
        "kubegpu_kubeconfig: its user may not patch nodes; create, delete clusterroles.rbac.authorization.k8s.io. "
    )


@pytest.mark.parametrize("kind", [kind for _api_version, kind in SYNCED_CLUSTER_KINDS])
def test_what_a_virtual_cluster_may_leave_behind_has_to_be_listed(kind):
    resource = (
        "priorityclasses" if kind == "PriorityClass" else "storageclasses" if kind == "StorageClass" else "persistentvolumes"
    )
    assert [right for right in RIGHTS if resource in right.resources and "list" in right.verbs and not right.only]


def test_a_removal_deletes_volumes_and_pods_of_a_namespace():
    in_tenant = {
        (resource, verb) for right in RIGHTS if right.within == "tenant" for resource in right.resources for verb in right.verbs
    }
    assert {("persistentvolumeclaims", "delete"), ("pods", "delete")} <= in_tenant


@pytest.mark.parametrize("kind", ["PriorityClass", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"])
def test_what_the_user_may_not_list_and_is_only_a_note_is_said_to_be_unread(kind):
    class Limited(Gke):
        def list(self, api_version, asked, *args, **more):
            if asked == kind:
                raise ApiError(f"Looking up {asked} failed: 403 Forbidden", status=403)
            return super().list(api_version, asked, *args, **more)

    assert report(read(Limited(node("a", 4))))["unread"] == [f"Looking up {kind} failed: 403 Forbidden"]
