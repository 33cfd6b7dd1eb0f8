# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users get wrong, where it enters: each is refused before the first write, by the path of what is wrong."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import HELM_ARG_SPEC, Helm
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubeconfig_file import KubeconfigFile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.schema import check_least
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS as VARIABLE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_nodes, vcluster, vcluster_kubeconfig
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed

TENANT = VARIABLE + "[0]"


def plan(given):
    """The desired state of a cluster that exists, with these tenants."""
    cluster = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/etc/kubernetes/admin.conf"}
    return desired_state(cluster | {VARIABLE: given}, "dc1", TODAY).tenants


# --- shorthands ---------------------------------------------------------------------------------------------------


def tree(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def tenants(**change):
    return [{"name": "ml", "trust": "high"} | change]


def values(path, value):
    """For the plan."""
    return tenants(vcluster={"values": tree(path, value)})


def queues(*given, version="v0.16.8"):
    return tenants(scheduler={"name": "kai", "version": version}, queues=list(given))


def assigned(*chosen):
    """What the plan hands on, with the choice of nodes of each tenant."""
    return [{"name": f"t{number}", "trust": "high", "gpu_nodes": gpu_nodes} for number, gpu_nodes in enumerate(chosen)]


def said(*lines, before=""):
    """As helm 3.19.5 answered to these values with the chart vcluster 0.36.1."""
    head = "Error: values don't meet the specifications of the schema(s) in the following chart(s):\nvcluster:\n"
    return before + head + "".join(f"{line}\n" for line in lines) + "\n"


def failed(words, where):
    return f"Error: execution error at (vcluster/templates/{where}): {words}\n\nUse --debug flag to render out invalid YAML\n"


# An extract of what `helm show values` prints.
DEFAULTS = "controlPlane:\n  distro:\n    k8s:\n      scheduler:\n        enabled: false\n  statefulSet: {}\nsync: {}\n"
TYPE = "sync.fromHost.csiDrivers"

# --- the table: where it enters, what, the path that is named, the code of the problem ------------------------------

ROWS = [
    # Names.
    ("plan", tenants(name="Team"), f"{TENANT}.name", "not-a-name"),
    ("plan", tenants(name="a" * 41), f"{TENANT}.name", "not-a-name"),
    ("plan", tenants(name="team_ml"), f"{TENANT}.name", "not-a-name"),
    ("plan", tenants(name="1st"), f"{TENANT}.name", "not-a-name"),
    ("plan", tenants(name="team-"), f"{TENANT}.name", "not-a-name"),
    ("plan", tenants(name=7), f"{TENANT}.name", "wrong-type"),
    ("plan", [*tenants(), *tenants()], f"{VARIABLE}[1].name", "same-name"),
    ("plan", [{"trust": "high"}], f"{TENANT}.name", "missing"),
    ("plan", tenants(trsut="high"), f"{TENANT}.trsut", "unknown-key"),
    ("plan", tenants(trust="full"), f"{TENANT}.trust", "not-a-choice"),
    ("vcluster", {"name": "Team"}, "name", "not-a-name"),
    ("vcluster", {"name": "a" * 53}, "name", "not-a-name"),
    ("vcluster", {"name": "team_ml"}, "name", "not-a-name"),
    ("vcluster", {"namespace": "Tenants"}, "namespace", "not-a-name"),
    ("vcluster_kubeconfig", {"name": "team."}, "name", "not-a-name"),
    ("vcluster_kubeconfig", {"namespace": "-"}, "namespace", "not-a-name"),
    # Where clients go and what they get.
    ("vcluster_kubeconfig", {"server": "team-ml.example"}, "server", "not-an-address"),
    ("vcluster_kubeconfig", {"server": "http://team-ml.example"}, "server", "not-an-address"),
    ("vcluster_kubeconfig", {"server": "https://team-ml.example:https"}, "server", "not-an-address"),
    ("vcluster_kubeconfig", {"proxy_url": "proxy:3128"}, "proxy_url", "not-an-address"),
    ("vcluster_kubeconfig", {"proxy_url": "socks5://proxy:1080"}, "proxy_url", "socks-proxy"),
    ("vcluster_kubeconfig", {"path": "/nowhere/ml.yml"}, "path", "no-folder"),
    ("vcluster_kubeconfig", {"path": "/"}, "path", "failed"),
    # Versions.
    ("plan", tenants(vcluster={"version": "v0.36.1"}), f"{TENANT}.vcluster.version", "not-a-version"),
    ("plan", tenants(vcluster={"version": 0.36}), f"{TENANT}.vcluster.version", "wrong-type"),
    ("plan", tenants(vcluster={"version": "0.36.0"}), f"{TENANT}.vcluster.version", "version-refused"),
    ("plan", tenants(vcluster={"version": "0.25.2"}), f"{TENANT}.vcluster.version", "version-too-old"),
    ("plan", tenants(vcluster={"version": "latest"}), f"{TENANT}.vcluster.version", "not-a-version"),
    ("plan", tenants(vcluster={"kubernetes_version": "1.35.4"}), f"{TENANT}.vcluster.kubernetes_version", "not-a-version"),
    ("vcluster", {"version": "0.36"}, "version", "not-a-version"),
    ("vcluster", {"version": "0.36.1-"}, "version", "not-a-version"),
    ("vcluster", {"version": "0.36.0"}, "version", "version-refused"),
    ("vcluster", {"kubernetes_version": "v1.35"}, "kubernetes_version", "not-a-version"),
    ("vcluster", {"version": "0.34.0", "kubernetes_version": "v1.33.1"}, "kubernetes_version", "versions-too-far-apart"),
    ("vcluster", {"chart_source": "/nowhere"}, "chart_source", "failed"),
    # Values that moved, or need a licence.
    ("plan", values("external.platform", {}), f"{TENANT}.vcluster.values.external", "moved-value"),
    ("plan", values("controlPlane.distro.k3s.enabled", True), f"{TENANT}.vcluster.values.controlPlane.distro.k3s", "moved-value"),
    ("plan", values("sleep", {}), f"{TENANT}.vcluster.values.sleep", "needs-licence"),
    ("plan", values("privateNodes.enabled", True), f"{TENANT}.vcluster.values.privateNodes.enabled", "needs-licence"),
    (
        "vcluster",
        {"values": tree("policies.networkPolicy.outgoingConnections.ipBlock", {})},
        "values.policies.networkPolicy.outgoingConnections",
        "moved-value",
    ),
    ("vcluster", {"values": tree("rbac.enableVolumeSnapshotRules", {})}, "values.rbac.enableVolumeSnapshotRules", "moved-value"),
    (
        "vcluster",
        {"values": tree("sync.toHost.pods.hybridScheduling.enabled", True)},
        "values.sync.toHost.pods.hybridScheduling.enabled",
        "needs-licence",
    ),
    (
        "vcluster",
        {"values": tree("sync.fromHost.nodes.patches", [{"path": "x"}])},
        "values.sync.fromHost.nodes.patches",
        "needs-licence",
    ),
    # Values the chart installs and the control plane does not start with.
    (
        "plan",
        tenants(scheduler={"name": "kai", "version": "v0.16.8"}, vcluster={"values": tree("sync.fromHost.nodes.enabled", False)}),
        f"{TENANT}.vcluster.values.sync.fromHost.nodes.enabled",
        "own-scheduler-without-nodes",
    ),
    (
        "vcluster",
        {"values": tree("controlPlane.advanced.virtualScheduler.enabled", True)},
        "values.sync.fromHost.nodes.enabled",
        "own-scheduler-without-nodes",
    ),
    (
        "plan",
        values("policies.podSecurityStandard", "strict"),
        f"{TENANT}.vcluster.values.policies.podSecurityStandard",
        "not-a-choice",
    ),
    (
        "vcluster",
        {
            "values": {
                "sync": {"fromHost": {"priorityClasses": {"enabled": True}}, "toHost": {"priorityClasses": {"enabled": True}}}
            }
        },
        "values.sync.toHost.priorityClasses.enabled",
        "not-exactly-one",
    ),
    (
        "vcluster",
        {"values": tree("controlPlane.statefulSet.highAvailability.replicas", 3)},
        "values.controlPlane.statefulSet.highAvailability.replicas",
        "embedded-database-replicas",
    ),
    ("vcluster", {"values": tree("controlPlane.endpoint", "a:1")}, "values.controlPlane.endpoint", "needs-licence"),
    (
        "vcluster",
        {
            "values": tree(
                "controlPlane.advanced.podDisruptionBudget", {"enabled": True, "minAvailable": 1, "maxUnavailable": "50%"}
            )
        },
        "values.controlPlane.advanced.podDisruptionBudget",
        "not-exactly-one",
    ),
    (
        "vcluster",
        {"values": tree("sync.toHost.pods.enforceTolerations", ["*", "a=b:NoSchedule", "a=b=c"])},
        "values.sync.toHost.pods.enforceTolerations[2]",
        "not-a-toleration",
    ),
    ("vcluster", {"values": tree("exportKubeConfig.server", "a.example")}, "values.exportKubeConfig.server", "not-an-address"),
    (
        "vcluster",
        {"values": tree("sync.toHost.gatewayApi.referenceGrants.enabled", "yes")},
        "values.sync.toHost.gatewayApi.referenceGrants.enabled",
        "not-a-choice",
    ),
    (
        "vcluster",
        {"values": tree("sync.fromHost.secrets.enabled", True)},
        "values.sync.fromHost.secrets.mappings.byName",
        "empty",
    ),
    (
        "vcluster",
        {"values": tree("sync.fromHost.configMaps", {"enabled": True, "mappings": {"byName": {"a/*": "b/c"}}})},
        "values.sync.fromHost.configMaps.mappings.byName",
        "not-a-mapping",
    ),
    ("vcluster", {"gpu_quota": -1}, "gpu_quota", "out-of-range"),
    (
        "vcluster",
        {"trust": "partial", "network": {"egress": [{"name": "r", "namespace": "r", "ports": [1], "labels": {"a b": "x"}}]}},
        "network.egress[0].labels.a b",
        "not-a-label",
    ),
    ("vcluster", {"host_scheduler": "kai", "host_queues": [{"name": "a b"}]}, "host_queues.a b", "not-a-name"),
    (
        "vcluster",
        {"host_queues": [{"name": "a", "gpu": {"quota": 2, "limit": 1}}]},
        "host_queues.a.gpu.limit",
        "limit-below-quota",
    ),
    (
        "vcluster",
        {"values": tree("networking.replicateServices.toHost", [{"from": "web", "to": "web"}])},
        "values.networking.replicateServices.toHost[0].from",
        "not-a-service",
    ),
    (
        "vcluster",
        {"values": tree("sync.fromHost.runtimeClasses.selector.matchExpressions", [{"key": "a", "operator": "in"}])},
        "values.sync.fromHost.runtimeClasses.selector.matchExpressions[0].operator",
        "not-a-choice",
    ),
    (
        "vcluster",
        {"values": tree("sync.fromHost.storageClasses.selector.matchExpressions", [{"key": "a", "operator": "In"}])},
        "values.sync.fromHost.storageClasses.selector.matchExpressions[0].values",
        "not-a-selector",
    ),
    (
        "vcluster",
        {"values": tree("sync.fromHost.runtimeClasses.selector.matchLabels", {"a": "b c"})},
        "values.sync.fromHost.runtimeClasses.selector.matchLabels.a",
        "not-a-label-value",
    ),
    # Values the chart's own schema and templates refuse.
    (
        "vcluster",
        {
            "values": tree("controlPlane.foo", 1),
            "helm": said("- at '/controlPlane': additional properties 'foo' not allowed"),
        },
        "values.controlPlane.foo",
        "unknown-key",
    ),
    (
        "vcluster",
        {
            "values": tree("controlPlane.statefulset", {}),
            "helm": said("- at '/controlPlane': additional properties 'statefulset' not allowed"),
        },
        "values.controlPlane.statefulset",
        "unknown-key",
    ),
    (
        "vcluster",
        {
            "values": {
                "controlPlan": {},
                "controlPlane": {"statefulSett": {}, "service": {"httpsNodePort": "abc"}},
            },
            "helm": said(
                "- at '/controlPlane': validation failed",
                "  - at '/controlPlane/service/httpsNodePort': got string, want integer",
                "  - at '/controlPlane': additional properties 'statefulSett' not allowed",
                "- at '': additional properties 'controlPlan' not allowed",
            ),
        },
        ["values.controlPlane.statefulSett", "values.controlPlan", "values.controlPlane.service.httpsNodePort"],
        ["unknown-key", "unknown-key", "wrong-type"],
    ),
    (
        "vcluster",
        {
            "values": tree(TYPE, "auto"),
            "helm": said(
                "- at '/sync/fromHost/csiDrivers': got string, want object",
                before="coalesce.go:303: warning: cannot overwrite table with non table for vcluster.sync.fromHost.csiDrivers "
                "(map[enabled:auto])\n",
            ),
        },
        f"values.{TYPE}",
        "wrong-type",
    ),
    (
        "vcluster",
        {
            "values": tree(f"{TYPE}.enabled", 3),
            "helm": said(
                "- at '/sync/fromHost/csiDrivers/enabled': 'oneOf' failed, none matched",
                "  - at '/sync/fromHost/csiDrivers/enabled': got number, want string",
                "  - at '/sync/fromHost/csiDrivers/enabled': got number, want boolean",
            ),
        },
        f"values.{TYPE}.enabled",
        "wrong-type",
    ),
    (
        "vcluster",
        {
            "values": tree("sync.toHost.pods.enforceTolerations", [3, "a"]),
            "helm": said("- at '/sync/toHost/pods/enforceTolerations/0': got number, want string"),
        },
        "values.sync.toHost.pods.enforceTolerations[0]",
        "wrong-type",
    ),
    (
        "vcluster",
        {
            "values": tree("controlPlane", {"a/b": 1, "c~d": 2, "e'f": 3}),
            "helm": said(r"- at '/controlPlane': additional properties 'e\'f', 'a/b', 'c~d' not allowed"),
        },
        ["values.controlPlane.e'f", "values.controlPlane.a/b", "values.controlPlane.c~d"],
        ["unknown-key", "unknown-key", "unknown-key"],
    ),
    (
        "vcluster",
        {
            "values": tree("controlPlane.distro.k8s.version", 1.35),
            "helm": said("- at '/controlPlane/distro/k8s/version': got number, want string"),
        },
        "values.controlPlane.distro.k8s.version",
        "wrong-type",
    ),
    (
        "vcluster",
        {
            "values": {"exportKubeConfig": {"secret": {"name": "a"}, "additionalSecrets": [{"name": "b"}]}},
            "helm": failed(
                "exportKubeConfig.secret and exportKubeConfig.additionalSecrets cannot be set at the same time",
                "statefulset.yaml:1:4",
            ),
        },
        "values",
        "values-refused",
    ),
    # Selectors.
    ("plan", tenants(gpu_nodes={}), f"{TENANT}.gpu_nodes", "not-exactly-one"),
    ("plan", tenants(gpu_nodes={"count": 1, "names": ["g1"]}), f"{TENANT}.gpu_nodes", "not-exactly-one"),
    ("plan", tenants(gpu_nodes={"count": 0}), f"{TENANT}.gpu_nodes.count", "out-of-range"),
    ("plan", tenants(gpu_nodes={"count": "1"}), f"{TENANT}.gpu_nodes.count", "wrong-type"),
    ("plan", tenants(gpu_nodes={"names": []}), f"{TENANT}.gpu_nodes.names", "empty"),
    ("plan", tenants(gpu_nodes={"names": ["g1", "g1"]}), f"{TENANT}.gpu_nodes.names[1]", "listed-twice"),
    ("plan", tenants(gpu_nodes={"labels": {"pool": 1}}), f"{TENANT}.gpu_nodes.labels.pool", "wrong-type"),
    (
        "plan",
        [{"name": name, "trust": "high", "gpu_nodes": {"names": ["g1"]}} for name in ("a", "b")],
        f"{VARIABLE}[1].gpu_nodes.names",
        "nodes-claimed-twice",
    ),
    ("vcluster", {"node_selector": {"pool": True}}, "node_selector.pool", "wrong-type"),
    ("vcluster", {"node_selector": {"pool": "a b"}}, "node_selector.pool", "not-a-label-value"),
    ("vcluster", {"node_selector": {"my pool": "a"}}, "node_selector.my pool", "not-a-label"),
    ("tenant_nodes", assigned({"labels": {"pool": "x"}}), f"{TENANT}.gpu_nodes.labels", "too-few-nodes"),
    ("tenant_nodes", assigned({"names": ["g9"]}), f"{TENANT}.gpu_nodes.names[0]", "no-gpu-node"),
    ("tenant_nodes", assigned({"names": ["w1"]}), f"{TENANT}.gpu_nodes.names[0]", "no-gpu-node"),
    ("tenant_nodes", assigned({"count": 3}), f"{TENANT}.gpu_nodes.count", "too-few-nodes"),
    ("tenant_nodes", assigned({"count": "1"}), f"{TENANT}.gpu_nodes.count", "wrong-type"),
    ("tenant_nodes", assigned({"names": ["g1"]}, {"labels": {"pool": "a"}}), VARIABLE, "nodes-claimed-twice"),
    ("tenant_nodes", [{"name": "ml"}], f"{TENANT}.trust", "missing"),
    # Schedulers.
    ("plan", tenants(scheduler={"name": "yunikorn", "version": "v1"}), f"{TENANT}.scheduler.chart", "missing"),
    ("plan", tenants(scheduler={"name": "kai", "shared": True}), f"{TENANT}.scheduler.shared", "no-shared-scheduler"),
    ("plan", tenants(gpu_nodes={"count": 1, "shared_gpus": 2}), f"{TENANT}.gpu_nodes.shared_gpus", "not-applicable"),
    ("plan", tenants(trust="zero"), f"{TENANT}.gpu_nodes", "zero-trust-needs-own-nodes"),
    ("plan", tenants(scheduler={"name": "kai"}), f"{TENANT}.scheduler.version", "missing"),
    (
        "plan",
        tenants(scheduler={"name": "kai", "version": "v0.16.8", "gpu_sharin": True}),
        f"{TENANT}.scheduler.gpu_sharin",
        "unknown-key",
    ),
    (
        "plan",
        tenants(scheduler={"name": "kai", "version": "v0.12.0", "gpu_sharing": True}),
        f"{TENANT}.scheduler.version",
        "hazard-not-accepted",
    ),
    (
        "plan",
        tenants(scheduler={"name": "kai", "version": "v0.16.8", "accept_hazards": ["1103"]}),
        f"{TENANT}.scheduler.accept_hazards[0]",
        "unknown-hazard",
    ),
    ("plan", queues(version="v0.20.1"), f"{TENANT}.scheduler.version", "unknown-release"),
    ("plan", queues(version="v0.11.0"), f"{TENANT}.scheduler.version", "unknown-release"),
    # Queues.
    ("plan", tenants(queues=[{"name": "a"}]), f"{TENANT}.queues", "queues-without-scheduler"),
    (
        "plan",
        queues({"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}),
        f"{TENANT}.queues.a.parent",
        "parents-in-a-circle",
    ),
    ("plan", queues({"name": "a"}, {"name": "a"}), f"{TENANT}.queues.a", "same-name"),
    ("plan", queues({"name": "a", "parent": "b"}), f"{TENANT}.queues.a.parent", "unknown-parent"),
    ("plan", queues({"name": "a", "gpu": {"quota": 2, "limit": 1}}), f"{TENANT}.queues.a.gpu.limit", "limit-below-quota"),
    ("plan", queues({"name": "a", "gpu": {"quota": -1}}), f"{TENANT}.queues.a.gpu.quota", "not-an-amount"),
    ("plan", queues({"name": "a", "memory": {"quota": "64GB"}}), f"{TENANT}.queues.a.memory.quota", "not-an-amount"),
    ("plan", queues({"name": "a", "cpu": {"quota": "8 cores"}}), f"{TENANT}.queues.a.cpu.quota", "not-an-amount"),
    ("plan", queues({"name": "a"}, version="v0.12.0"), f"{TENANT}.queues.a", "queue-without-child"),
]


# --- a world in which every write fails the test -------------------------------------------------------------------


def read_only():
    """A cluster with one node without GPUs, two with them, and nothing else."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"capacity": {"nvidia.com/gpu": gpus} if gpus else {}},
        }
        for name, gpus, labels in (("w1", None, {}), ("g1", "4", {"pool": "a"}), ("g2", "4", {}))
    ]
    api = InMemoryApi(nodes)
    for verb in ("create", "patch", "apply", "delete"):
        setattr(api, verb, lambda *args, **_kwargs: pytest.fail(f"wrote: {args}"))
    return api


def defaults(spec):
    """A module's options where only a name is given."""
    return {key: option.get("default") for key, option in spec.items()}


def helm(answer):
    """The adapter over a helm that answers what was recorded."""

    def run(args, *, data=None, environ_update=None):
        # Without what bounds its memory.
        args = args[4:]
        if args[1] == "version":
            return 0, "v3.19", ""
        if args[1] == "template":
            return (1, "", answer) if answer else (0, "", "")
        if args[1:3] == ["show", "values"]:
            return 0, DEFAULTS, ""
        pytest.fail(f"wrote: {args}")

    return Helm(run, "helm", "")


def enter_vcluster(given, tmp_path):
    params = defaults(HELM_ARG_SPEC | vcluster.ARGUMENT_SPEC) | {"name": "ml", "timeout": 1}
    answer = given.get("helm", "")
    given = {key: value for key, value in given.items() if key != "helm"}
    # As the kernel does.
    check_least(given, vcluster.LEAST)
    vcluster.reconcile(Run(params | given, kube=read_only(), helm=helm(answer)))


def enter_vcluster_kubeconfig(given, tmp_path):
    params = defaults(vcluster_kubeconfig.ARGUMENT_SPEC) | {
        "name": "ml",
        "path": str(tmp_path / "ml.yml"),
        "verify": False,
        "timeout": 1,
    }
    vcluster_kubeconfig.reconcile(Run(params | given, kube=read_only()))


ENTRANCES = {
    "plan": lambda given, tmp_path: plan(given),
    "tenant_nodes": lambda given, tmp_path: tenant_nodes.reconcile(
        Run({"state": "present", "tenants": given, "only": []}, kube=read_only())
    ),
    "vcluster": enter_vcluster,
    "vcluster_kubeconfig": enter_vcluster_kubeconfig,
}


@pytest.mark.parametrize(("entrance", "given", "paths", "codes"), ROWS)
def test_refused_before_the_first_write(monkeypatch, tmp_path, entrance, given, paths, codes):
    monkeypatch.setattr(KubeconfigFile, "write", lambda *args: pytest.fail(f"wrote: {args}"))
    with pytest.raises(TenancyError) as caught:
        ENTRANCES[entrance](given, tmp_path)
    problems = caught.value.problems
    assert all(problem.text in caught.value.message for problem in problems)
    paths, codes = ([paths], [codes]) if isinstance(paths, str) else (paths, codes)
    assert {f"{path}: {code}" for path, code in zip(paths, codes)} <= set(placed(problems))
    assert list(tmp_path.iterdir()) == []


def test_without_a_mistake_nothing_is_refused(monkeypatch, tmp_path):
    """Otherwise the table would prove nothing: the same entrances reach their first write."""
    assert plan(tenants())
    for entrance, given in (("tenant_nodes", assigned({"count": 2})), ("vcluster", {})):
        with pytest.raises(pytest.fail.Exception, match="wrote: "):
            ENTRANCES[entrance](given, tmp_path)
    with pytest.raises(TenancyError, match="its Secret vc-ml does not exist"):
        enter_vcluster_kubeconfig({}, tmp_path)


def test_all_problems_of_one_input_at_once():
    with pytest.raises(TenancyError) as caught:
        enter_vcluster(
            {
                "name": "Team",
                "version": "latest",
                "node_selector": {"pool": 1},
                "values": {"sleep": {}, "policies": {"podSecurityStandard": "x"}},
            },
            None,
        )
    assert placed(caught.value.problems) == [
        "name: not-a-name",
        "version: not-a-version",
        "node_selector.pool: wrong-type",
        "values.sleep: needs-licence",
        "values.policies.podSecurityStandard: not-a-choice",
    ]


def test_other_words_of_helm_stay_as_they_are():
    with pytest.raises(TenancyError, match=r"^helm template failed: Error: no such host$"):
        enter_vcluster({"helm": "Error: no such host\n"}, None)
