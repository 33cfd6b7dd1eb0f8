# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What values of one tenant reach, as the plan of a cluster refuses it."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed

OWN, OTHER = "tenant.kubegpu.tenancy/ml", "tenant.kubegpu.tenancy/b"
ALONE = {"name": "ml", "trust": "high", "gpu_nodes": {"names": ["n1"]}}
ZERO = ALONE | {"trust": "zero"}
SHARED = {"name": "ml", "trust": "partial", "gpu_nodes": {"names": ["n1"], "shared_gpus": 1}}
WITHOUT = {"name": "ml", "trust": "partial"}


def tree(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def refused(tenant, values):
    """The problems of a plan with these values, the same from an inventory and on the way to modules."""
    given = [tenant | {"vcluster": {"values": values}}]
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x"}
    with pytest.raises(TenancyError) as caught:
        desired_state(existing | {TENANTS: given}, "dc1", TODAY)
    with pytest.raises(TenancyError) as again:
        tenants_from(given)
    assert again.value.problems == caught.value.problems
    return caught.value.problems


def accepted(tenant, values):
    given = [tenant | {"vcluster": {"values": values}}]
    return tenants_from([made.data() for made in tenants_from(given)])[0].vcluster.values


@pytest.mark.parametrize(
    ("path", "value", "at"),
    [
        # Nodes of others.
        ("sync.fromHost.nodes.enabled", False, ""),
        ("sync.fromHost.nodes.enabled", "true", ""),
        ("sync.fromHost.nodes", None, ".enabled"),
        ("sync.fromHost.nodes.selector.all", True, ""),
        ("sync.fromHost.nodes.selector.labels", None, ""),
        ("sync.fromHost.nodes.selector.labels", [], ""),
        ("sync.fromHost.nodes.selector", None, ".labels"),
        ("sync.fromHost.nodes.syncBackChanges", True, ""),
        ("sync.toHost.pods.enforceTolerations", ["a=b:NoSchedule", "*"], "[1]"),
        ("sync.toHost.pods.enforceTolerations", [":NoSchedule"], "[0]"),
        ("sync.toHost.pods.enforceTolerations", ["kubegpu.tenancy/dedicated:NoSchedule"], "[0]"),
        ("sync.toHost.pods.enforceTolerations", ["kubegpu.tenancy/dedicated=b:NoSchedule"], "[0]"),
        ("sync.toHost.pods.enforceTolerations", ["kubegpu.tenancy/dedicated"], "[0]"),
        ("controlPlane.statefulSet.scheduling.tolerations", [{"operator": "Exists"}], "[0]"),
        ("controlPlane.statefulSet.scheduling.tolerations", [{"key": "kubegpu.tenancy/dedicated", "operator": "Exists"}], "[0]"),
        ("controlPlane.backingStore.etcd.deploy.statefulSet.scheduling.tolerations", [{"operator": "Exists"}], "[0]"),
        # The host cluster itself.
        ("experimental.deploy.host.manifests", "kind: ClusterRoleBinding", ""),
        ("experimental.deploy.host.manifestsTemplate", "kind: ClusterRoleBinding", ""),
        ("rbac.clusterRole.extraRules", [{"apiGroups": ["*"]}], ""),
        ("rbac.clusterRole.overwriteRules", [{"apiGroups": ["*"]}], ""),
        ("sync.toHost.persistentVolumes.enabled", True, ""),
        ("sync.toHost.storageClasses.enabled", True, ""),
        ("controlPlane.service.spec.externalIPs", ["10.96.0.1"], ""),
        # Code in the control plane, and what its pods get of a node.
        ("plugins", {"x": {"image": "evil"}}, ""),
        ("plugin", {"x": {"image": "evil"}}, ""),
        ("controlPlane.statefulSet.initContainers", [{"name": "x"}], ""),
        ("controlPlane.statefulSet.sidecarContainers", [{"name": "x"}], ""),
        ("controlPlane.statefulSet.command", ["sh"], ""),
        ("controlPlane.distro.k8s.apiServer.command", ["sh"], ""),
        ("controlPlane.statefulSet.persistence.addVolumes", [{"name": "x", "hostPath": {"path": "/"}}], "[0].hostPath"),
        ("controlPlane.statefulSet.persistence.binariesVolume", [{"name": "x", "hostPath": {"path": "/"}}], "[0].hostPath"),
        ("controlPlane.statefulSet.security.containerSecurityContext.privileged", True, ""),
        ("controlPlane.statefulSet.security.containerSecurityContext.capabilities.add", ["SYS_ADMIN"], ""),
        ("controlPlane.statefulSet.scheduling.priorityClassName", "system-node-critical", ""),
        # Namespaces of others.
        (
            "sync.fromHost.secrets",
            {"enabled": True, "mappings": {"byName": {"tenant-b/*": "a/*"}}},
            ".mappings.byName.tenant-b/*",
        ),
        (
            "sync.fromHost.configMaps",
            {"enabled": True, "mappings": {"byName": {"kube-system/a": "a/b"}}},
            ".mappings.byName.kube-system/a",
        ),
        (
            "sync.fromHost.gateways",
            {"enabled": True, "mappings": {"byName": {"tenant-b/a": "a/b"}}},
            ".mappings.byName.tenant-b/a",
        ),
        ("networking.replicateServices.fromHost", [{"from": "tenant-b/web", "to": "a/b"}], "[0].from"),
        ("exportKubeConfig.secret", {"name": "a", "namespace": "tenant-b"}, ".namespace"),
        ("exportKubeConfig.additionalSecrets", [{"name": "a"}, {"name": "a", "namespace": "tenant-b"}], "[1].namespace"),
        # Texts that end what they stand in, and templates that Helm evaluates.
        ("controlPlane.statefulSet.workingDir", "/\n---\nkind: ClusterRoleBinding", ""),
        ("policies.networkPolicy.workload.publicEgress.cidr", "0.0.0.0/0\r---", ""),
        ("controlPlane.backingStore.etcd.deploy.statefulSet.pods.labels", {"a\u2028b": "c"}, ".a b"),
        ("controlPlane.ingress.annotations", {"a": '{{ lookup "v1" "Secret" "tenant-b" "" }}'}, ".a"),
        ("controlPlane.statefulSet.persistence.addVolumes", [{"name": "{{ .Release }}"}], "[0].name"),
    ],
)
@pytest.mark.parametrize("tenant", [ALONE, SHARED], ids=["alone", "shared"])
def test_what_reaches_others_is_refused_by_its_path(tenant, path, value, at):
    found = placed(refused(tenant, tree(path, value)))
    assert found.count(f"{TENANTS}[0].vcluster.values.{path}{at}: reaches-beyond-tenant") == 1, found


@pytest.mark.parametrize(
    ("labels", "at"),
    [({OTHER: "true"}, f".{OTHER}"), ({OWN: "false"}, ""), ({OWN: None}, ""), ({OWN: "false", OTHER: "true"}, f".{OTHER}")],
)
def test_the_nodes_of_a_tenant_are_its_own(labels, at):
    path = f"{TENANTS}[0].vcluster.values.sync.fromHost.nodes.selector.labels{at}"
    assert f"{path}: reaches-beyond-tenant" in placed(refused(ALONE, tree("sync.fromHost.nodes.selector.labels", labels)))


@pytest.mark.parametrize("tenant", [SHARED, WITHOUT], ids=["shared_gpus", "nodes without GPUs"])
@pytest.mark.parametrize(
    "values",
    [
        tree("sync.toHost.priorityClasses.enabled", True),
        tree("sync.fromHost.priorityClasses.enabled", True),
        tree("sync.toHost.pods.priorityClassName", "high"),
    ],
)
def test_priorities_are_for_those_who_have_nodes_of_their_own(tenant, values):
    assert "lets its pods take the place of others'" in refused(tenant, values)[0].text
    assert accepted(ALONE, values) == values


def test_logs_of_a_node_are_for_those_who_are_trusted():
    values = tree("controlPlane.hostPathMapper.enabled", True)
    assert "shows its pods the logs of all pods of a node" in refused(WITHOUT, values)[0].text
    assert accepted(ALONE, values) == values


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sync.fromHost.nodes.selector.labels", {"disk": "ssd"}),
        ("sync.fromHost.nodes.selector.labels", {OWN: "true"}),
        ("sync.fromHost.nodes.enabled", True),
        ("sync.fromHost.nodes.clearImageStatus", True),
        ("sync.toHost.pods.enforceTolerations", ["nvidia.com/gpu=present:NoSchedule", "a:NoExecute", "b"]),
        ("sync.toHost.ingresses.enabled", True),
        ("sync.toHost.networkPolicies.enabled", True),
        ("sync.fromHost.secrets", {"enabled": True, "mappings": {"byName": {"/a": "b/c", "": "d"}}}),
        ("sync.fromHost.configMaps", {"enabled": True, "mappings": {"byName": {"tenant-ml/a": "b/c"}}}),
        ("sync.fromHost.gateways", {"enabled": True, "mappings": {"byName": {"gateways/a": "b/c"}}}),
        ("networking.replicateServices.fromHost", [{"from": "registry/registry", "to": "a/b"}]),
        ("exportKubeConfig.secret", {"name": "a", "namespace": "tenant-ml"}),
        ("experimental.syncSettings.setOwner", False),
        ("experimental.deploy.vcluster.manifests", "kind: ConfigMap\n---\nkind: Secret"),
        ("experimental.deploy.vcluster.manifestsTemplate", "{{ .Name }}\n"),
        ("experimental.deploy.host.manifests", ""),
        ("rbac.role.extraRules", [{"apiGroups": [""], "resources": ["events"], "verbs": ["get"]}]),
        ("rbac.clusterRole.extraRules", []),
        ("controlPlane.coredns.overwriteConfig", ".:1053 {\n  errors\n}\n"),
        ("controlPlane.coredns.deployment.tolerations", [{"operator": "Exists"}]),
        ("controlPlane.advanced.defaultImageRegistry", "registry.example"),
        ("controlPlane.statefulSet.image.registry", "registry.example"),
        ("controlPlane.statefulSet.scheduling", {"nodeSelector": {"pool": "cpu"}, "priorityClassName": "tenants"}),
        ("controlPlane.statefulSet.scheduling.tolerations", [{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        ("controlPlane.statefulSet.persistence.addVolumes", [{"name": "ca", "configMap": {"name": "ca"}}]),
        ("controlPlane.statefulSet.security.containerSecurityContext", {"privileged": False, "runAsUser": 1000}),
        ("controlPlane.statefulSet.env", [{"name": "A", "value": "two\nlines"}]),
        ("controlPlane.service.annotations", {"a": "two\nlines"}),
        ("controlPlane.distro.k8s.apiServer.extraArgs", ["--v=2"]),
        ("policies.networkPolicy.workload.ingress", [{}]),
        ("policies.resourceQuota.enabled", False),
    ],
)
def test_what_touches_the_tenant_alone_is_its_own_affair(path, value):
    values = tree(path, value)
    assert accepted(ALONE, values) == values


def test_what_everybody_tolerates_is_said_of_the_cluster_and_a_dedicated_tenant_tolerates_its_own_taint():
    tolerated = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x", "kubegpu_tolerations": tolerated}
    (made,) = desired_state(existing | {TENANTS: [ZERO]}, "dc1", TODAY).tenants
    assert made.vcluster.values["sync"]["toHost"]["pods"]["enforceTolerations"] == ["nvidia.com/gpu:"]
    own = tree("sync.toHost.pods.enforceTolerations", ["kubegpu.tenancy/dedicated=ml:NoSchedule"])
    assert accepted(ZERO, own) == own


@pytest.mark.parametrize("path", ["sync", "controlPlane", "experimental", "rbac", "networking", "exportKubeConfig", "policies"])
@pytest.mark.parametrize("value", [None, [], "x", 7, True, [{}], {"a": [None]}])
def test_values_of_any_type_are_read(path, value):
    # Nodes are among what the first one says.
    with pytest.raises(TenancyError) if path == "sync" and value != {"a": [None]} else contextlib.nullcontext():
        tenants_from([ALONE | {"vcluster": {"values": {path: value}}}])
