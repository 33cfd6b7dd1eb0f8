# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module device_plugin, against a cluster whose plugin does what its release and the nodes' labels say."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart, Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import deep_merge
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin import plan as core
from ansible_collections.kubegpu.tenancy.plugins.modules.device_plugin import DevicePlugin

PLUGIN = "nvidia-device-plugin"
OWNED = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}
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
STATIC_SET = workload(
    "DaemonSet", "nvidia-device-plugin-daemonset", {}, {"name": "nvidia-device-plugin-ds"}, namespace="kube-system"
)


class Cluster:
    """The API and helm in one: what is installed shows in what nodes offer."""

    def __init__(self, gpus: dict[str, int], labels: dict[str, dict[str, str]] | None = None, version: str = "v1.35.4") -> None:
        self.gpus = gpus
        self.kubernetes = version
        self.objects: dict[tuple[str, str], dict[str, t.Any]] = {}
        for name in gpus:
            found = (labels or {}).get(name, {"nvidia.com/gpu.present": "true"})
            self.add("v1", "Node", name, labels=dict(found), annotations={}, spec={})
        self.found: Release | None = None
        self.workloads: list[dict[str, t.Any]] = []
        self.pods: list[dict[str, t.Any]] = []
        self.slices: list[dict[str, t.Any]] = []
        self.writes: list[str] = []
        self.refusal = ""
        # What nodes offer lags behind, where it does.
        self.stuck = False

    def add(self, api_version: str, kind: str, name: str, spec: t.Any = None, **metadata: t.Any) -> None:
        self.objects[kind, name] = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name} | metadata, "spec": spec}

    def install(self, **params: t.Any) -> None:
        module(self, **params).present()
        self.writes.clear()

    def node(self, name: str) -> dict[str, t.Any]:
        return self.objects["Node", name]

    def labels(self, name: str) -> dict[str, str]:
        return self.node(name)["metadata"]["labels"]

    # The API.

    def version(self) -> str:
        return self.kubernetes

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, t.Any] | None:
        return copy.deepcopy(self.objects.get((kind, name)))

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, label_selector: str | None = None
    ) -> list[dict[str, t.Any]]:
        if kind == "Node":
            nodes = [copy.deepcopy(item) for (kind, _name), item in self.objects.items() if kind == "Node"]
            return [item | {"status": self._status(item)} for item in nodes]
        if kind == "ResourceSlice":
            return self.slices
        if kind == "Pod":
            return [pod for pod in self.pods if namespace in (None, pod["metadata"]["namespace"])]
        key, _equals, value = (label_selector or "").partition("=")
        return [
            item
            for item in self.workloads
            if item["kind"] == kind
            and namespace in (None, item["metadata"]["namespace"])
            and (not key or item["metadata"]["labels"].get(key) == value)
        ]

    def _status(self, node: dict[str, t.Any]) -> dict[str, t.Any]:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        gpus = self.gpus[name] if self.found and core.is_gpu_node(labels) else 0
        if self.found and not self.stuck:
            gpus *= core.replicas_of(self.found.values, labels)
        conditions = [{"type": "Ready", "status": "True"}]
        return {"allocatable": {"cpu": "8"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {}), "conditions": conditions}

    def create(self, definition: dict[str, t.Any]) -> None:
        self.writes.append(f"create {definition['kind']}")
        self.objects[definition["kind"], definition["metadata"]["name"]] = copy.deepcopy(definition)

    def patch(self, api_version: str, kind: str, name: str, body: dict[str, t.Any]) -> None:
        self.writes.append(f"patch {name} {json.dumps(body['metadata']['labels'])}")
        metadata = self.objects[kind, name]["metadata"]
        for part in ("labels", "annotations"):
            merged = metadata[part] | body["metadata"][part]
            metadata[part] = {key: value for key, value in merged.items() if value is not None}

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> bool:
        self.writes.append(f"delete {kind}")
        return self.objects.pop((kind, name), None) is not None

    # Helm.

    def release(self, name: str, namespace: str) -> Release | None:
        return self.found if self.found and (self.found.name, self.found.namespace) == (name, namespace) else None

    def template(self, name: str, namespace: str, chart: Chart, values: dict[str, t.Any]) -> str:
        if self.refusal:
            raise TenancyError(self.refusal)
        return ""

    def upgrade(self, name: str, namespace: str, chart: Chart, values: dict[str, t.Any], timeout: int) -> str:
        self.writes.append("upgrade")
        for node in [item for (kind, _name), item in self.objects.items() if kind == "Node"]:
            config = node["metadata"]["labels"].get(core.CONFIG_LABEL)
            known = values.get("config", {}).get("map") or values.get("devicePlugin", {}).get("config", {}).get("data") or {}
            assert not config or config in known, "a node would name a configuration that is not there"
        self.found = Release(name, namespace, "deployed", 1, chart.ref, chart.version, copy.deepcopy(values))
        self.workloads = [CHART_SET] if name == PLUGIN else [OPERATOR_SET, OPERATOR]
        return ""

    def uninstall(self, name: str, namespace: str, timeout: int) -> str:
        self.writes.append("uninstall")
        self.found, self.workloads = None, []
        return ""


def module(cluster: Cluster, check_mode: bool = False, **params: t.Any) -> DevicePlugin:
    defaults: dict[str, t.Any] = {
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
        "timeout": 0,
    }
    return DevicePlugin(defaults | params, t.cast(t.Any, cluster), t.cast(t.Any, cluster), check_mode)


def holder(node: str, gpus: int = 1) -> dict[str, t.Any]:
    spec = {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}
    return {"metadata": {"name": "work", "namespace": "default"}, "spec": spec, "status": {"phase": "Running"}}


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
    present = {"nvidia.com/gpu.present": "true"}
    cluster = Cluster({"w1": 4, "w2": 2, "plain": 1}, {"w1": present, "w2": present | {"rack": "2"}, "plain": {}})
    before = copy.deepcopy(cluster.objects)
    predicted = module(cluster, check_mode=True, **params).present()
    assert (cluster.writes, cluster.objects, predicted["changed"]) == ([], before, True)
    done = module(cluster, **params).present()
    assert done == predicted | {"gpus": done["gpus"]}
    assert done["gpus"].keys() >= {"w1", "w2"}

    cluster.writes.clear()
    again = module(cluster, **params).present()
    assert (again["changed"], again["diff"], cluster.writes) == (False, {"before": {}, "after": {}}, [])
    assert module(cluster, check_mode=True, **params).present() == again

    provider = {"provider": params.get("provider", "device_plugin")}
    foreseen = module(cluster, check_mode=True, **provider).absent()
    assert cluster.writes == []
    assert module(cluster, **provider).absent() == foreseen
    assert (cluster.objects, foreseen["changed"]) == (before, True)
    cluster.writes.clear()
    assert not module(cluster, **provider).absent()["changed"]
    assert cluster.writes == []


def test_a_diff_names_what_changes() -> None:
    cluster = Cluster({"w1": 4})
    result = module(cluster).present()
    assert result["diff"] == {
        "before": {},
        "after": {
            "RuntimeClass": "nvidia",
            "namespace": PLUGIN,
            "version": "0.17.4",
            "values": core._values(core.PROVIDERS["device_plugin"], [], "none", False),
        },
    }
    result = module(cluster, sharing=[SHARED], values={"resources": {"limits": {"cpu": 1}}}).present()
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
    assert module(cluster, sharing=moved).present()["gpus"] == {"w1": 8, "w2": 16}
    assert cluster.writes == [
        'patch w1 {"nvidia.com/device-plugin.config": null}',
        "upgrade",
        'patch w1 {"nvidia.com/device-plugin.config": "other"}',
        'patch w2 {"nvidia.com/device-plugin.config": "shared"}',
    ]
    assert module(cluster, sharing=[]).present()["gpus"] == {"w1": 4, "w2": 4}
    assert [cluster.labels(name) for name in ("w1", "w2")] == [{"nvidia.com/gpu.present": "true"}] * 2


def test_mps_needs_its_label_unless_feature_discovery_sets_it() -> None:
    cluster = Cluster({"w1": 4})
    mps = [{"name": "mps", "nodes": ["w1"], "mps": {"replicas": 2}}]
    cluster.install(sharing=mps)
    assert cluster.labels("w1")["nvidia.com/mps.capable"] == "true"
    module(cluster, sharing=mps, gpu_feature_discovery=True).present()
    assert "nvidia.com/mps.capable" not in cluster.labels("w1")


def test_an_installation_that_was_killed_starts_over() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install()
    cluster.found = Release(PLUGIN, PLUGIN, "pending-install", 1, PLUGIN, "0.17.4", {})
    assert module(cluster).present()["changed"]
    assert cluster.writes == ["uninstall", "upgrade"]


# --- what others made --------------------------------------------------------------------------------------------


def test_what_others_made_stays() -> None:
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/device-plugin.config": "shared"}
    cluster = Cluster({"w1": 4}, {"w1": labels})
    cluster.add("node.k8s.io/v1", "RuntimeClass", "nvidia", labels=FOREIGN)
    cluster.objects["RuntimeClass", "nvidia"]["handler"] = "nvidia"
    cluster.add("v1", "Namespace", PLUGIN, labels=FOREIGN)
    before = copy.deepcopy(cluster.objects)
    module(cluster, nodes=["w1"], sharing=[SHARED]).present()
    module(cluster).absent()
    assert cluster.objects == before


def test_a_label_that_somebody_changed_since_is_theirs() -> None:
    cluster = Cluster({"w1": 4, "w2": 4}, {"w1": {}})
    cluster.install(nodes=["w1"], sharing=[SHARED])
    cluster.labels("w1")["nvidia.com/device-plugin.config"] = "theirs"
    with pytest.raises(TenancyError, match=r"node w1 has the label nvidia.com/device-plugin.config=theirs, which is not ours"):
        module(cluster, nodes=["w1"], sharing=[SHARED]).present()
    module(cluster).absent()
    assert cluster.node("w1")["metadata"] == {
        "name": "w1",
        "labels": {"nvidia.com/device-plugin.config": "theirs"},
        "annotations": {},
    }


def test_a_runtime_class_with_another_handler_is_refused() -> None:
    cluster = Cluster({"w1": 4})
    cluster.add("node.k8s.io/v1", "RuntimeClass", "nvidia")
    cluster.objects["RuntimeClass", "nvidia"]["handler"] = "runc"
    with pytest.raises(TenancyError, match="handler runc"):
        module(cluster).present()


@pytest.mark.parametrize(
    ("provider", "found", "words"),
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
def test_never_two_of_them(provider: str, found: dict[str, t.Any], words: str, check_mode: bool) -> None:
    cluster = Cluster({"w1": 4})
    cluster.workloads = [found]
    with pytest.raises(TenancyError) as caught:
        module(cluster, check_mode, provider=provider).present()
    assert words in caught.value.message
    assert "Remove that first" in caught.value.message
    assert cluster.writes == []


def test_removing_one_leaves_what_the_other_rests_on() -> None:
    cluster = Cluster({"w1": 4}, {"w1": {}})
    cluster.install(nodes=["w1"])
    before = copy.deepcopy(cluster.objects)
    assert not module(cluster, provider="gpu_operator").absent()["changed"]
    assert (cluster.objects, cluster.writes) == (before, [])


# --- refusals of what is in use, and of what the chart refuses --------------------------------------------------------


def test_its_daemon_set_is_made_anew_when_sharing_ends() -> None:
    """An update would leave its pods the name of a service account that goes, kubernetes/kubernetes#72519."""
    cluster = Cluster({"w1": 2})
    cluster.install(sharing=[SHARED])
    module(cluster).present()
    assert cluster.writes.index("delete DaemonSet") < cluster.writes.index("upgrade")
    cluster.install(sharing=[SHARED])
    module(cluster, sharing=[SHARED | {"time_slicing": {"replicas": 2}}]).present()
    assert "delete DaemonSet" not in cluster.writes


@pytest.mark.parametrize(("first", "then"), [([], [SHARED]), ([SHARED], [])])
def test_sharing_does_not_change_under_pods_that_hold_gpus(first: list[t.Any], then: list[t.Any]) -> None:
    cluster = Cluster({"w1": 4, "w2": 4})
    cluster.install(sharing=first)
    cluster.pods = [holder("w2")]
    assert module(cluster, check_mode=True, sharing=then).present()["changed"]
    cluster.pods = [holder("w1")]
    with pytest.raises(TenancyError, match=r"sharing: node w1 would go from . to . pods a GPU while default/work hold"):
        module(cluster, sharing=then).present()
    assert cluster.writes == []
    cluster.pods[0]["status"]["phase"] = "Succeeded"
    assert module(cluster, sharing=then).present()["changed"]


def test_what_the_chart_refuses_is_refused_before_anything_is_written() -> None:
    cluster = Cluster({"w1": 4})
    cluster.refusal = "values: no"
    with pytest.raises(TenancyError, match="values: no"):
        module(cluster, nodes=["w1"]).present()
    assert cluster.writes == []


def test_the_operator_does_not_go_to_dra_in_place() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install(provider="gpu_operator")
    dra = {"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}}
    with pytest.raises(TenancyError, match="cannot go from device plugin to DRA"):
        module(cluster, provider="gpu_operator", values=dra, driver_version="595.91").present()
    assert cluster.writes == []


def test_dra_offers_gpus_in_slices() -> None:
    cluster = Cluster({"w1": 0})
    cluster.refusal = "no DeviceClass API is served"
    cluster.slices = [
        {"spec": {"driver": "gpu.nvidia.com", "nodeName": "w1", "devices": [{}, {}]}},
        {"spec": {"driver": "compute-domain.nvidia.com", "nodeName": "w1", "devices": [{}]}},
    ]
    dra = {"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}}
    result = module(cluster, provider="gpu_operator", values=dra, driver_version="580.1", expected_gpus={"w1": 2}).present()
    assert result["gpus"] == {"w1": 2}


# --- waits -------------------------------------------------------------------------------------------------------


def test_missing_gpus_are_named() -> None:
    cluster = Cluster({"w1": 3, "w2": 0})
    with pytest.raises(TenancyError, match="w1 offers 3 of 4 GPUs; w2 offers 0 of some GPUs"):
        module(cluster, expected_gpus={"w1": 4}).present()


def test_gpus_of_before_a_change_of_replicas_do_not_count() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install()
    cluster.stuck = True
    with pytest.raises(TenancyError, match="w1 offers 4 of 16 GPUs"):
        module(cluster, sharing=[SHARED]).present()


def test_pods_that_do_not_start_are_named() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install()
    cluster.workloads = [deep_merge(CHART_SET, {"status": {"numberReady": 0}})]
    state = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}
    cluster.pods = [{"metadata": {"name": "x", "namespace": PLUGIN}, "status": {"initContainerStatuses": [state]}}]
    with pytest.raises(TenancyError, match="0 of 1 pods of nvidia-device-plugin are ready; x: ErrImagePull no such host"):
        module(cluster).present()


def test_the_operator_has_to_find_a_node() -> None:
    with pytest.raises(TenancyError, match="no node is labelled as having GPUs"):
        module(Cluster({"w1": 4}, {"w1": {}}), provider="gpu_operator").present()


def test_removal_waits_for_the_nodes() -> None:
    cluster = Cluster({"w1": 4})
    cluster.install()
    cluster.uninstall = lambda *_args: ""  # type: ignore[method-assign]
    cluster.workloads = []
    with pytest.raises(TenancyError, match=r"w1 still offers 4 nvidia\.com/gpu"):
        module(cluster).absent()
