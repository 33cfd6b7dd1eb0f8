# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module device_plugin, against a cluster whose plugin does what its release and the nodes' labels say."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import deep_merge
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.facts import (
    CONFIG_LABEL,
    MANY_REPLICAS_WARNING,
    PROVIDERS,
    TIME_SLICING_WARNING,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.status import is_gpu_node
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.values import chart_values, replicas_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.modules.device_plugin import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.device_plugin import OPERATOR as OPERATOR_PROVIDER
from ansible_collections.kubegpu.tenancy.tests.unit.device_plugin import plan
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

PLUGIN = "nvidia-device-plugin"
SHARED = {"name": "shared", "nodes": ["w1"], "time_slicing": {"replicas": 4}}
FOREIGN = {"app.kubernetes.io/managed-by": "somebody"}


def workload(
    kind: str, name: str, labels: dict[str, str], inner: dict[str, str] | None = None, namespace: str = "x"
) -> dict[str, t.Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels, "generation": 1}
    status = {"observedGeneration": 1, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1}
    spec = {"template": {"metadata": {"labels": labels if inner is None else inner}}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}


CHART_SET = workload(
    "DaemonSet", PLUGIN, {"app.kubernetes.io/name": PLUGIN, "app.kubernetes.io/instance": PLUGIN}, namespace=PLUGIN
)
OPERATOR_SET = workload(
    "DaemonSet",
    "nvidia-device-plugin-daemonset",
    {"app": "nvidia-device-plugin-daemonset", "app.kubernetes.io/managed-by": "gpu-operator"},
    namespace="gpu-operator",
)
OPERATOR = workload("Deployment", "gpu-operator", {"app.kubernetes.io/component": "gpu-operator"}, namespace="gpu-operator")


def operator_set(values: dict[str, t.Any]) -> dict[str, t.Any]:
    """The operator's DaemonSet as it makes it of these values: with a program that chooses among configurations, where there are any."""
    name = values.get("devicePlugin", {}).get("config", {}).get("name")
    volumes = [{"name": "entrypoint", "configMap": {"name": "nvidia-device-plugin-entrypoint"}}, {"name": "host", "hostPath": {}}]
    containers = [{"name": "nvidia-device-plugin"}]
    if name:
        volumes.append({"name": name, "configMap": {"name": name}})
        containers.append({"name": "config-manager"})
    return deep_merge(OPERATOR_SET, {"spec": {"template": {"spec": {"volumes": volumes, "containers": containers}}}})


STATIC_SET = workload(
    "DaemonSet", "nvidia-device-plugin-daemonset", {}, {"name": "nvidia-device-plugin-ds"}, namespace="kube-system"
)


class Cluster:
    """An API server and a helm whose plugin does what its release and the nodes' labels say.

    :ivar stuck: whether nodes go on offering what they did before replicas changed.
    :ivar log: upgrades, and the label of its configuration that a node has after each change of its labels.
    """

    def __init__(self, gpus: dict[str, int], labels: dict[str, dict[str, str]] | None = None) -> None:
        self.gpus = gpus
        self.api = InMemoryApi()
        self.helm = InMemoryHelm(self.api)
        self.stuck = False
        self.log: list[tuple[str, str | None]] = []
        for name in gpus:
            found = (labels or {}).get(name, {"nvidia.com/gpu.present": "true"})
            self.put("v1", "Node", name, labels=dict(found), annotations={})
        self.helm.on_change = self._changed
        self.api.react("patch", "Node", self._labelled)
        self._offer()

    def put(self, api_version: str, kind: str, name: str, namespace: str | None = None, **more: t.Any) -> None:
        parts = {key: more.pop(key) for key in ("spec", "status", "handler") if key in more}
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | more
        self.api.put({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {}} | parts)

    def install(self, **params: t.Any) -> None:
        present(self, **params)
        self.forget()

    def forget(self) -> None:
        self.api.writes.clear()
        self.helm.calls.clear()
        self.log.clear()

    @property
    def writes(self) -> list[t.Any]:
        return [*self.api.writes, *self.helm.calls]

    def metadata(self, name: str) -> dict[str, t.Any]:
        found = self.api.get("v1", "Node", name)
        assert found
        return {key: found["metadata"].get(key) for key in ("labels", "annotations")}

    def labels(self, name: str) -> dict[str, str]:
        return t.cast("dict[str, str]", self.metadata(name)["labels"])

    def state(self) -> dict[t.Any, t.Any]:
        """All objects, without what a server counts and what nodes offer."""
        kept = {}
        for key, item in copy.deepcopy(self.api.objects).items():
            metadata = item["metadata"]
            fields = ("name", "namespace", "labels", "annotations")
            item["metadata"] = {name: metadata[name] for name in fields if name in metadata}
            kept[key] = {name: part for name, part in item.items() if name != "status"}
        return kept

    def _release(self) -> Release | None:
        return next(filter(None, (self.helm.last(name, name) for name in (PLUGIN, "gpu-operator"))), None)

    def _changed(self, release: Release | None) -> None:
        for item in (CHART_SET, OPERATOR_SET, OPERATOR):
            self.api.drop("apps/v1", item["kind"], item["metadata"]["name"], item["metadata"]["namespace"])
        if release:
            self.log.append(("upgrade", None))
            configs = release.values.get("config", {}).get("map") or (
                release.values.get("devicePlugin", {}).get("config", {}).get("data") or {}
            )
            for name in self.gpus:
                config = self.labels(name).get(CONFIG_LABEL)
                assert not config or config in configs, "a node would name a configuration that does not exist"
            for item in [CHART_SET] if release.name == PLUGIN else [operator_set(release.values), OPERATOR]:
                self.api.put(item)
        self._offer()

    def _labelled(self, node: dict[str, t.Any]) -> None:
        self.log.append((node["metadata"]["name"], (node["metadata"].get("labels") or {}).get(CONFIG_LABEL)))
        self._offer()

    def _offer(self) -> None:
        release = self._release()
        for node in self.api.list("v1", "Node"):
            labels = node["metadata"].get("labels") or {}
            gpus = self.gpus[node["metadata"]["name"]] if release and is_gpu_node(labels) else 0
            if release and not self.stuck:
                gpus *= replicas_of(release.values, labels)
            allocatable = {"cpu": "8"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
            self.api.put(node | {"status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}})


def run(cluster: Cluster, check_mode: bool = False, **params: t.Any) -> Run:
    defaults: dict[str, t.Any] = {
        "state": "present",
        "provider": "device_plugin",
        "namespace": None,
        "version": None,
        "chart_source": "",
        "values": {},
        "nodes": [],
        "sharing": [],
        "gpu_feature_discovery": False,
        "mig_strategy": "none",
        "expected_gpus": {},
        "driver_version": "",
        "metrics": {},
        "timeout": 180,
    }
    # One look each: in memory, everything happens at once or never.
    deadline = Deadline(0, clock=lambda: 0.0)
    return Run(defaults | params, check_mode, t.cast(t.Any, cluster.api), t.cast(t.Any, cluster.helm), deadline)


def present(cluster: Cluster, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    return timeless(reconcile(run(cluster, check_mode, **params)))


def absent(cluster: Cluster, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    return present(cluster, check_mode, state="absent", **params)


def timeless(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """A result without its seconds, which differ between check mode and a run."""
    for part in (result, *result.get("steps", [])):
        part.pop("seconds", None)
    return result


def holder(node: str, phase: str = "Running") -> dict[str, t.Any]:
    spec = {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    return {"namespace": "default", "spec": spec, "status": {"phase": phase}}


# --- there and back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"expected_gpus": {"w1": 4}},
        {"nodes": ["plain"], "expected_gpus": {"plain": 1}},
        {"sharing": [SHARED, {"name": "mps", "labels": {"rack": "2"}, "mps": {"replicas": 2}}]},
        {"provider": "gpu_operator", "sharing": [SHARED]},
    ],
    ids=["plain", "labels", "sharing", "operator"],
)
def test_there_and_back(params: dict[str, t.Any]) -> None:
    labels = {"nvidia.com/gpu.present": "true"}
    cluster = Cluster({"w1": 4, "w2": 2, "plain": 1}, {"w1": labels, "w2": labels | {"rack": "2"}, "plain": {}})
    before = cluster.state()
    predicted = present(cluster, check_mode=True, **params)
    assert (cluster.writes, cluster.state(), predicted["changed"]) == ([], before, True)
    # Steps, too.
    done = present(cluster, **params)
    assert done == predicted | {"gpus": done["gpus"]}
    assert done["gpus"].keys() >= {"w1", "w2"}

    cluster.forget()
    again = present(cluster, **params)
    assert (again["changed"], again["diff"], cluster.writes) == (False, {"before": {}, "after": {}}, [])
    assert "steps" not in again
    assert present(cluster, check_mode=True, **params) == again

    provider = {"provider": params.get("provider", "device_plugin")}
    foreseen = absent(cluster, check_mode=True, **provider)
    assert cluster.writes == []
    assert absent(cluster, **provider) == foreseen
    assert (cluster.state(), foreseen["changed"]) == (before, True)
    cluster.forget()
    assert not absent(cluster, **provider)["changed"]
    assert cluster.writes == []


def test_a_diff_names_what_changes() -> None:
    cluster = Cluster({"w1": 4})
    result = present(cluster)
    assert result["diff"] == {
        "before": {},
        "after": {
            "RuntimeClass": "nvidia",
            "namespace": PLUGIN,
            "version": "0.17.4",
            "values": chart_values(PROVIDERS["device_plugin"], [], "none", False, {}),
        },
    }
    result = present(cluster, sharing=[SHARED], values={"resources": {"limits": {"cpu": 1}}})
    assert result["diff"]["after"].keys() == {
        "values.config",
        "values.deviceListStrategy",
        "values.resources",
        "w1 label nvidia.com/device-plugin.config",
    }
    assert result["gpus"] == {"w1": 16}


def test_groups_change_without_a_node_ever_naming_a_configuration_that_is_gone() -> None:
    cluster = Cluster({"w1": 4, "w2": 4})
    cluster.install(sharing=[SHARED])
    moved = [{"name": "other", "nodes": ["w1"], "time_slicing": {"replicas": 2}}, SHARED | {"nodes": ["w2"]}]
    assert present(cluster, sharing=moved)["gpus"] == {"w1": 8, "w2": 16}
    assert cluster.log == [("w1", None), ("upgrade", None), ("w1", "other"), ("w2", "shared")]
    assert present(cluster, sharing=[])["gpus"] == {"w1": 4, "w2": 4}
    assert [cluster.labels(name) for name in ("w1", "w2")] == [{"nvidia.com/gpu.present": "true"}] * 2


def test_mps_needs_its_label_unless_feature_discovery_sets_it() -> None:
    cluster = Cluster({"w1": 4})
    mps = [{"name": "mps", "nodes": ["w1"], "mps": {"replicas": 2}}]
    cluster.install(sharing=mps)
    assert cluster.labels("w1")["nvidia.com/mps.capable"] == "true"
    present(cluster, sharing=mps, gpu_feature_discovery=True)
    assert "nvidia.com/mps.capable" not in cluster.labels("w1")


@pytest.mark.parametrize(
    ("status", "calls"),
    [("pending-install", [("uninstall", PLUGIN, "--no-hooks")]), ("pending-upgrade", [])],
)
def test_an_installation_that_was_killed_starts_over(status: str, calls: list[t.Any]) -> None:
    cluster = Cluster({"w1": 4})
    cluster.install()
    cluster.helm.set_status(PLUGIN, PLUGIN, status)
    result = present(cluster)
    assert result["diff"] == {"before": {"release": status}, "after": {"release": "deployed"}}
    assert result["steps"] == [{"step": f"apply {PLUGIN}", "why": f"the release is {status}"}]
    assert cluster.helm.calls == [*calls, ("upgrade", PLUGIN)]
    assert not present(cluster)["changed"]


# --- what others made --------------------------------------------------------------------------------------------


def test_what_others_made_stays() -> None:
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/device-plugin.config": "shared"}
    cluster = Cluster({"w1": 4}, {"w1": labels})
    cluster.put("node.k8s.io/v1", "RuntimeClass", "nvidia", labels=FOREIGN, handler="nvidia")
    cluster.put("v1", "Namespace", PLUGIN, labels=FOREIGN)
    before = cluster.state()
    present(cluster, nodes=["w1"], sharing=[SHARED])
    absent(cluster)
    assert cluster.state() == before


def test_a_label_that_somebody_changed_since_is_theirs() -> None:
    cluster = Cluster({"w1": 4, "w2": 4}, {"w1": {}})
    cluster.install(nodes=["w1"], sharing=[SHARED])
    cluster.api.patch("v1", "Node", "w1", {"metadata": {"labels": {CONFIG_LABEL: "theirs"}}})
    with refuses("label-of-others"):
        present(cluster, nodes=["w1"], sharing=[SHARED])
    absent(cluster)
    assert cluster.metadata("w1") == {"labels": {CONFIG_LABEL: "theirs"}, "annotations": {}}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_runtime_class_with_another_handler_is_refused(provider: str) -> None:
    cluster = Cluster({"w1": 4})
    cluster.put("node.k8s.io/v1", "RuntimeClass", "nvidia", handler="runc")
    with pytest.raises(TenancyError, match="handler runc"):
        present(cluster, provider=provider)
    assert cluster.writes == []


@pytest.mark.parametrize(
    ("provider", "found", "phrase"),
    [
        ("device_plugin", OPERATOR_SET, "GPU operator (DaemonSet nvidia-device-plugin-daemonset in namespace gpu-operator)"),
        ("device_plugin", OPERATOR, "GPU operator (Deployment gpu-operator in namespace gpu-operator)"),
        ("device_plugin", STATIC_SET, "static manifest (DaemonSet nvidia-device-plugin-daemonset in namespace kube-system)"),
        ("device_plugin", CHART_SET | {"metadata": CHART_SET["metadata"] | {"namespace": "other"}}, "in namespace other"),
        ("gpu_operator", CHART_SET, "device plugin (DaemonSet nvidia-device-plugin in namespace nvidia-device-plugin)"),
        ("gpu_operator", STATIC_SET, "static manifest"),
        ("gpu_operator", OPERATOR | {"metadata": OPERATOR["metadata"] | {"namespace": "other"}}, "in namespace other"),
    ],
)
@pytest.mark.parametrize("check_mode", [True, False])
def test_never_two_of_them(provider: str, found: dict[str, t.Any], phrase: str, check_mode: bool) -> None:
    cluster = Cluster({"w1": 4})
    cluster.api.put(found)
    with pytest.raises(TenancyError) as caught:
        present(cluster, check_mode, provider=provider)
    assert phrase in caught.value.message
    assert "Remove that first" in caught.value.message
    assert cluster.writes == []


def test_removing_one_leaves_what_the_other_rests_on() -> None:
    cluster = Cluster({"w1": 4}, {"w1": {}})
    cluster.install(nodes=["w1"])
    before = cluster.state()
    assert not absent(cluster, provider="gpu_operator")["changed"]
    assert (cluster.state(), cluster.writes) == (before, [])


# --- refusals of what is in use, and of what the chart refuses --------------------------------------------------------


def test_its_daemon_set_is_made_anew_when_sharing_ends() -> None:
    """An update would leave its pods with the name of a service account that goes, kubernetes/kubernetes#72519."""
    cluster = Cluster({"w1": 2})
    cluster.install(sharing=[SHARED])
    deleted = ("delete", "DaemonSet", PLUGIN)
    cluster.api.react("delete", "DaemonSet", lambda _item: cluster.log.append(("delete DaemonSet", None)))
    present(cluster)
    assert deleted in cluster.api.writes
    assert cluster.log.index(("delete DaemonSet", None)) < cluster.log.index(("upgrade", None))
    cluster.install(sharing=[SHARED])
    present(cluster, sharing=[SHARED | {"time_slicing": {"replicas": 2}}])
    assert deleted not in cluster.api.writes


@pytest.mark.parametrize(("first", "then"), [([], [SHARED]), ([SHARED], [])])
def test_sharing_does_not_change_under_pods_that_hold_gpus(first: list[t.Any], then: list[t.Any]) -> None:
    cluster = Cluster({"w1": 4, "w2": 4})
    cluster.install(sharing=first)
    cluster.put("v1", "Pod", "work", **holder("w2"))
    assert present(cluster, check_mode=True, sharing=then)["changed"]
    cluster.put("v1", "Pod", "work", **holder("w1"))
    with refuses("gpus-in-use"):
        present(cluster, sharing=then)
    assert cluster.writes == []
    cluster.put("v1", "Pod", "work", **holder("w1", "Succeeded"))
    assert present(cluster, sharing=then)["changed"]


def test_what_the_chart_refuses_is_refused_before_anything_is_written() -> None:
    cluster = Cluster({"w1": 4})
    cluster.helm.refusal = "values: no"
    with pytest.raises(TenancyError, match="values: no"):
        present(cluster, nodes=["w1"])
    assert cluster.writes == []


def test_the_operator_does_not_go_to_dra_in_place() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install(provider="gpu_operator")
    dra = {"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}}
    with refuses("cannot-change-in-place"):
        present(cluster, provider="gpu_operator", values=dra, driver_version="595.91")
    assert cluster.writes == []


@pytest.mark.parametrize("served", [True, False])
def test_dra_offers_gpus_in_slices(served: bool) -> None:
    cluster = Cluster({"w1": 0})
    if not served:
        cluster.api.unserved.add(("resource.k8s.io/v1", "DeviceClass"))
    for name, driver, devices in (("a", "gpu.nvidia.com", [{}, {}]), ("b", "compute-domain.nvidia.com", [{}])):
        spec = {"driver": driver, "nodeName": "w1", "devices": devices}
        cluster.put("resource.k8s.io/v1", "ResourceSlice", name, spec=spec)
    dra = {"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}}
    result = present(cluster, provider="gpu_operator", values=dra, driver_version="580.1", expected_gpus={"w1": 2})
    assert result["gpus"] == {"w1": 2}
    # The chart refuses to render where it is not told that the cluster serves it.
    assert [kinds for _values, kinds in cluster.helm.rendered] == [("resource.k8s.io/v1/DeviceClass",) if served else ()]


# --- waits -------------------------------------------------------------------------------------------------------


def test_missing_gpus_are_named() -> None:
    cluster = Cluster({"w1": 3, "w2": 0})
    with pytest.raises(TenancyError, match="w1 offers 3 of 4 GPUs; w2 offers 0 of some GPUs"):
        present(cluster, expected_gpus={"w1": 4})


def test_gpus_of_before_a_change_of_replicas_do_not_count() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install()
    cluster.stuck = True
    with pytest.raises(TenancyError, match="w1 offers 4 of 16 GPUs"):
        present(cluster, sharing=[SHARED])


@pytest.mark.parametrize(("then", "made_of"), [([SHARED], []), ([], [SHARED]), ([SHARED], [SHARED | {"name": "other"}])])
def test_the_operator_is_waited_for_until_the_plugin_reads_what_is_asked_for(then: list[t.Any], made_of: list[t.Any]) -> None:
    """It changes its DaemonSet some seconds after its release, and until then nodes offer what they did before."""
    cluster = Cluster({"w1": 4})
    cluster.install(provider="gpu_operator", sharing=then)
    late = plan(**OPERATOR_PROVIDER, cluster=cluster.api.list("v1", "Node"), sharing=made_of).values
    cluster.api.put(operator_set(late))
    with pytest.raises(TenancyError, match="nvidia-device-plugin-daemonset is not yet as the release asks for"):
        present(cluster, provider="gpu_operator", sharing=then)
    assert cluster.writes == []


def test_pods_that_do_not_start_are_named() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install()
    cluster.api.put(deep_merge(CHART_SET, {"status": {"numberReady": 0}}))
    status = {"name": "init", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}
    labels = {"app.kubernetes.io/instance": PLUGIN}
    cluster.put("v1", "Pod", "x", PLUGIN, labels=labels, status={"initContainerStatuses": [status]})
    expected = r"0 of 1 pods of nvidia-device-plugin are ready; pod x: init: ErrImagePull \(no such host\)"
    with pytest.raises(TenancyError, match=expected):
        present(cluster)


@pytest.mark.parametrize(("reason", "told"), [("ReconcileFailed", True), ("OperandNotReady", False)])
def test_what_the_operator_cannot_do_is_told(reason: str, told: bool) -> None:
    cluster = Cluster({"w1": 0})
    conditions = [
        {"type": "Ready", "status": "False", "reason": "Error", "message": ""},
        {"type": "Error", "status": "True", "reason": reason, "message": "Failed to reconcile pre-requisites: no"},
    ]
    cluster.put("nvidia.com/v1", "ClusterPolicy", "cluster-policy", status={"conditions": conditions})
    with pytest.raises(TenancyError, match="w1 offers 0 of some GPUs") as caught:
        present(cluster, provider="gpu_operator")
    assert ("; ClusterPolicy cluster-policy: Failed to reconcile pre-requisites: no" in caught.value.message) == told


def test_the_operator_has_to_find_a_node() -> None:
    with pytest.raises(TenancyError, match="no node is labelled as having GPUs"):
        present(Cluster({"w1": 4}, {"w1": {}}), provider="gpu_operator")


@pytest.mark.parametrize("label", ["nvidia.com/gpu.deploy.operands", "nvidia.com/gpu.deploy.device-plugin"])
def test_a_node_from_which_the_operator_is_kept_has_to_offer_nothing(label: str) -> None:
    labels = {"nvidia.com/gpu.present": "true"}
    cluster = Cluster({"w1": 4, "w2": 0}, {"w1": labels, "w2": labels | {label: "false"}})
    assert present(cluster, provider="gpu_operator")["gpus"] == {"w1": 4}
    assert present(cluster, provider="gpu_operator", expected_gpus={"w2": 4})["gpus"] == {"w1": 4}
    absent(cluster, provider="gpu_operator")
    # The plugin's own chart knows no such label.
    with pytest.raises(TenancyError, match="w2 offers 0 of some GPUs"):
        present(cluster)


METRICS = {"provider": "annotations", "namespace": "monitoring", "labels": {}}


def test_only_the_prometheus_reaches_dcgm_exporter() -> None:
    cluster = Cluster({"w1": 4})
    cluster.put("v1", "Namespace", "monitoring")
    # Made by another client, so that removal leaves it.
    cluster.put("v1", "Namespace", "gpu-operator")
    before = cluster.state()
    operator: dict[str, t.Any] = {"provider": "gpu_operator"}
    predicted = present(cluster, check_mode=True, **operator, metrics=METRICS)
    assert cluster.writes == []
    done = present(cluster, **operator, metrics=METRICS)
    assert done == predicted | {"gpus": {"w1": 4}}
    # Fenced before it runs.
    assert [step["step"].partition(" ")[0] for step in done["steps"]] == ["create", "apply"]
    (policy,) = cluster.api.list("networking.k8s.io/v1", "NetworkPolicy", "gpu-operator")
    reader = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert policy["spec"] == {
        "podSelector": {"matchLabels": {"app": "nvidia-dcgm-exporter"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [reader], "ports": [{"port": 9400, "protocol": "TCP"}]}],
    }
    assert not present(cluster, **operator, metrics=METRICS)["changed"]
    absent(cluster, **operator)
    assert cluster.state() == before


def test_a_tenant_does_not_read_dcgm_exporter() -> None:
    cluster = Cluster({"w1": 4})
    cluster.put("v1", "Namespace", "monitoring", labels={"kubegpu.tenancy/tenant": "web"})
    with pytest.raises(TenancyError, match="monitoring is that of tenant web"):
        present(cluster, provider="gpu_operator", metrics=METRICS)
    assert cluster.writes == []


def test_removal_waits_for_the_nodes() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install()
    cluster.helm.on_change = lambda _release: None
    with pytest.raises(TenancyError, match=r"w1 still offers 4 nvidia\.com/gpu"):
        absent(cluster)


def test_time_slicing_is_warned_of() -> None:
    cluster = Cluster({"w1": 4})
    many = SHARED | {"time_slicing": {"replicas": 250}}
    no_bound = MANY_REPLICAS_WARNING.format(group="shared", replicas=250)
    for sharing, warnings in (
        ([], []),
        ([SHARED], [TIME_SLICING_WARNING]),
        ([many], [TIME_SLICING_WARNING, no_bound]),
        ([SHARED | {"time_slicing": {"replicas": 99}}], [TIME_SLICING_WARNING]),
    ):
        this = run(cluster, sharing=sharing)
        reconcile(this)
        assert this.warnings == warnings
