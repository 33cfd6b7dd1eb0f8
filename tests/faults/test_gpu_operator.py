# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's GPU operator on a lab's cluster by the provider gpu_operator, from the device plugin to it and back.

Operator, validator, Node Feature Discovery and charts are those of pinned modules, the device plugin is the lab's. No PCI device of the lab is
NVIDIA's, so a file tells Node Feature Discovery of one; of CUDA nothing runs. In this order, because each test goes on where the one before ended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils import _recipe
from ansible_collections.kubegpu.lab.plugins.plugin_utils._build import Builder
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import Chart, File, Image, Program, Recipe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import labels_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.facts import NODE_API, OPERAND_LABELS, PROVIDERS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import offered
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, Cluster, Lab, changed
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import LAB, VERSIONS

NAME = "kubegpu-operator"
PROVIDER = PROVIDERS["gpu_operator"]
NAMESPACE = PROVIDER.release
WORKER, OTHER = "kubegpu-worker", "kubegpu-worker2"
GPUS = {WORKER: 2, OTHER: 1}
VARIABLES: dict[str, Any] = {
    "lab_gpus": 3,
    "lab_kai_versions": ["v0.13.1"],
    "nvkind_workers": [{"gpus": [0, 1]}, {"gpus": [2]}],
    "kubegpu_tenants": [],
}

OPERATOR = Program("gpu-operator", "v0.0.0-20250917190837-d73a0086a6ba", "github.com/NVIDIA/gpu-operator")
DISCOVERY = Program("node-feature-discovery", "v0.17.3", "sigs.k8s.io/node-feature-discovery")
OF_LABS = _recipe.recipe(VERSIONS, LAB)
HELM, KUBERNETES = (next(one for one in OF_LABS.programs if one.name == name) for name in ("helm", "kubernetes"))
# The chart's own version, and the tag of its images.
VERSION, TAG = "v1.0.0-devel", "devel-ubi8"
CHART = f"module:{OPERATOR.id}/deployments/gpu-operator"
MANIFESTS = ("plugin-workload-validation.yaml", "cuda-workload-validation.yaml")
IMAGES = (
    Image(
        f"nvcr.io/nvidia/gpu-operator:{TAG}",
        # As docker/Dockerfile of the module has them.
        (
            File("/usr/bin/gpu-operator", f"program:{OPERATOR.id}/gpu-operator", 0o755),
            File("/usr/local/bin/kubectl", f"program:{KUBERNETES.id}/kubectl", 0o755),
            File("/opt/gpu-operator", f"module:{OPERATOR.id}/assets"),
            File("/opt/gpu-operator/manifests", f"module:{OPERATOR.id}/manifests"),
            File("/opt/gpu-operator", f"{CHART}/crds"),
            File("/opt/gpu-operator/nfd-api-crds.yaml", f"{CHART}/charts/node-feature-discovery/crds/nfd-api-crds.yaml"),
        ),
        rootfs="base",
        user="65532:65532",
    ),
    Image(
        f"nvcr.io/nvidia/cloud-native/gpu-operator-validator:{TAG}",
        (
            File("/usr/bin/nvidia-validator", f"program:{OPERATOR.id}/validator", 0o755),
            *(File(f"/var/nvidia/manifests/{name}", f"module:{OPERATOR.id}/validator/{name}") for name in MANIFESTS),
        ),
        rootfs="base",
    ),
    Image(
        f"registry.k8s.io/nfd/node-feature-discovery:{DISCOVERY.version}",
        tuple(
            File(f"/usr/bin/{name}", f"program:{DISCOVERY.id}/{name}", 0o755) for name in ("nfd-master", "nfd-worker", "nfd-gc")
        ),
        rootfs="base",
        user="65532:65532",
    ),
)
# Where Node Feature Discovery reads what its own sources do not find.
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
WANTED = {
    "device_plugin_provider": "gpu_operator",
    "device_plugin_version": VERSION,
    "device_plugin_timeout": 400,
    # The lab has no CUDA, and its devices have no driver that would name their numbers.
    "device_plugin_values": {
        "validator": {
            "cuda": {"env": [{"name": "WITH_WORKLOAD", "value": "false"}]},
            "driver": {"env": [{"name": "DISABLE_DEV_CHAR_SYMLINK_CREATION", "value": "true"}]},
        }
    },
}
POLICY = ("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
KINDS = (
    ("v1", "Namespace"),
    (NODE_API, "RuntimeClass"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
)
CRDS = {
    "clusterpolicies.nvidia.com",
    "nvidiadrivers.nvidia.com",
    "nodefeaturegroups.nfd.k8s-sigs.io",
    "nodefeaturerules.nfd.k8s-sigs.io",
    "nodefeatures.nfd.k8s-sigs.io",
}
# Of these parts the operator sets a label on each node with GPUs.
PARTS = (
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "driver",
    "gpu-feature-discovery",
    "node-status-exporter",
    "operator-validator",
)


def build(cache: Path, folder: Path) -> None:
    """Have the operator's chart and images among the lab's own.

    :arg folder: for the modules of the lab's programs, and of those of this test.
    """
    (folder / "programs").mkdir()
    for home in (ROOT / "lab/roles/lab/files/programs", Path(__file__).parent / "programs"):
        for path in home.iterdir():
            (folder / "programs" / path.name).symlink_to(path)
    base = tuple(rootfs for rootfs in OF_LABS.rootfs if rootfs.name == "base")
    for rootfs in base:
        (folder / rootfs.customize).symlink_to(ROOT / "lab/roles/lab/files" / rootfs.customize)
    chart = Chart(NAMESPACE, VERSION, TAG, CHART, PROVIDER.repository)
    programs = (OPERATOR, DISCOVERY, HELM, KUBERNETES)
    Builder(Recipe(programs, base, (), IMAGES, (chart,), Image("", ()), (), {}), cache, folder, print).build()


class Host(Cluster):
    """The lab's cluster, and the role on it."""

    def __init__(self, lab: Lab, cache: Path, folder: Path) -> None:
        super().__init__(lab, cache)
        self.folder = folder

    def role(self, entry: str, provider: str, **more: Any) -> str:
        """Run an entry point of the role device_plugin."""
        role = {"name": "kubegpu.tenancy.device_plugin", "tasks_from": entry}
        variables = {"device_plugin_kubeconfig": "{{ kubegpu_kubeconfig }}", "device_plugin_provider": provider}
        variables["device_plugin_chart_source"] = "{{ kubegpu_charts }}"
        task = {"name": "Run the role", "ansible.builtin.include_role": role, "vars": variables}
        play = {"name": "Use the role", "hosts": "kubegpu_clusters", "gather_facts": False, "tasks": [task]}
        (self.folder / "role.yml").write_text(yaml.safe_dump([play]))
        given = WANTED | more if provider == PROVIDER.name else more
        said = self.lab.play(str(self.folder / "role"), f"--extra-vars={json.dumps(given)}")
        assert self.lab.code == 0, said[-6000:]
        return said

    def site(self, **variables: Any) -> int:
        """Run site with the operator; return how much it changed."""
        return changed(self.lab.site(f"--extra-vars={json.dumps(WANTED | variables)}"))

    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["metadata"]["name"]: node for node in self.kube.list("v1", "Node")}

    def gpus(self) -> dict[str, int]:
        return {name: offered(node) for name, node in self.nodes().items() if offered(node)}

    def label(self, node: str, **labels: str | None) -> None:
        self.kube.patch("v1", "Node", node, {"metadata": {"labels": labels}})


@pytest.fixture(name="host", scope="module")
def _host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    cache, folder = Path(os.environ["KUBEGPU_CACHE"]), tmp_path_factory.mktemp("operator")
    with Lab(NAME, f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        build(cache, folder)
        lab.site()
        yield Host(lab, cache, folder)


def test_the_operator_takes_the_place_of_the_device_plugin(host: Host) -> None:
    assert host.gpus() == GPUS
    host.role("absent", "device_plugin")
    assert host.gpus() == {}
    # Somebody's own, which the operator takes over.
    host.kube.create({"apiVersion": NODE_API, "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"})
    for node in GPUS:
        host.on_node(node, "mkdir", "-p", FEATURES)
        host.on_node(node, "sh", "-c", f"echo pci-10de.present=true > {FEATURES}/gpu")
    assert host.site() > 0
    assert host.gpus() == GPUS
    assert host.site() == 0
    policy = host.kube.get(*POLICY)
    assert policy is not None
    assert policy["status"]["state"] == "ready"
    for node in GPUS:
        labels = labels_of(host.nodes()[node])
        assert {f"nvidia.com/gpu.deploy.{part}" for part in PARTS} <= labels.keys()
    sets = {item["metadata"]["name"] for item in host.kube.list("apps/v1", "DaemonSet", NAMESPACE, PROVIDER.selector)}
    assert {"nvidia-device-plugin-daemonset", "nvidia-operator-validator"} <= sets


def test_pods_get_one_gpu_each(host: Host) -> None:
    assert "Probe that a pod on each node gets one GPU" in host.role("verify", PROVIDER.name)


def test_groups_share_gpus_and_another_number_reaches_the_plugin(host: Host) -> None:
    """The operator sees no change in a ConfigMap, and the plugin's pods do not read it again."""
    for replicas in (2, 4):
        group = {"name": "notebooks", "nodes": [WORKER], "time_slicing": {"replicas": replicas}}
        assert changed(host.role("main", PROVIDER.name, device_plugin_sharing=[group])) == 1
        assert host.gpus() == GPUS | {WORKER: GPUS[WORKER] * replicas}
        assert changed(host.role("main", PROVIDER.name, device_plugin_sharing=[group])) == 0
    assert changed(host.role("main", PROVIDER.name)) == 1
    assert host.gpus() == GPUS


def test_a_node_from_which_the_operator_is_kept_offers_nothing(host: Host) -> None:
    host.label(OTHER, **{OPERAND_LABELS[0]: "false"})

    def gone() -> tuple[bool | None, str]:
        found = host.gpus()
        return (True, "") if OTHER not in found else (None, str(found))

    wait_for("the end of the plugin on the node", gone, Deadline(120), 2.0)
    assert changed(host.role("main", PROVIDER.name)) == 0
    host.label(OTHER, **{OPERAND_LABELS[0]: None})
    assert changed(host.role("main", PROVIDER.name, device_plugin_expected_gpus=GPUS)) == 0
    assert host.gpus() == GPUS


def test_removal_leaves_what_the_operator_itself_leaves(host: Host) -> None:
    host.role("absent", PROVIDER.name)
    assert host.gpus() == {}
    found = host.objects(KINDS)
    marks = ("nvidia", "feature", NAMESPACE)
    left = {(kind, name) for kind, namespace, name in found if namespace == NAMESPACE or any(mark in name for mark in marks)}
    assert left == {("CustomResourceDefinition", name) for name in CRDS}
    assert host.kube.list(*POLICY[:2]) == []
    for node in GPUS:
        live = host.nodes()[node]
        labels, notes = (
            {key for key in live["metadata"][part] if "nvidia" in key or "nfd" in key or "feature" in key}
            for part in ("labels", "annotations")
        )
        assert notes == {"nvidia.com/gpu-driver-upgrade-enabled"}
        assert labels == {"nvidia.com/gpu.present", *(f"nvidia.com/gpu.deploy.{part}" for part in PARTS)}
    # None of it is in the way of the device plugin.
    host.lab.site()
    assert host.gpus() == GPUS
