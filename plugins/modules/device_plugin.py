#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's device plugin for Kubernetes, as an Ansible module."""

from __future__ import annotations

DOCUMENTATION = r"""
module: device_plugin
short_description: Offer a cluster's NVIDIA GPUs to its pods
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Installs NVIDIA's device plugin by its own Helm chart, with the RuntimeClass V(nvidia) that pods need to get a GPU, or
    NVIDIA's GPU operator, which brings both. Never both of them, nor beside a device plugin that somebody else installed.
  - Success is what nodes offer. The module waits until every node labelled C(nvidia.com/gpu.present=true) has its
    C(nvidia.com/gpu) allocatable.
  - A label of a node is only changed or taken off if this module put it there and nobody changed it since. What is ours stands in
    the node's annotation C(kubegpu.tenancy/device-plugin-labels).
  - O(state=absent) removes the release and the labels, and the namespace and the RuntimeClass if this module made them. While
    another device plugin is there, the labels and the RuntimeClass stay.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
  - kubegpu.tenancy._helm
  - kubernetes.core.k8s_auth_options
requirements:
  - python >= 3.11
  - kubernetes >= 24.2.0
options:
  state:
    description:
      - V(present) installs or changes the plugin, V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  provider:
    description:
      - V(device_plugin) is the plugin alone. V(gpu_operator) is the GPU operator, without the driver, the container toolkit and the
        metrics exporter that the hosts have of their own.
      - To go from one to the other, remove the one first.
    type: str
    choices: [device_plugin, gpu_operator]
    default: device_plugin
  namespace:
    description:
      - The namespace of the Helm release, by default V(nvidia-device-plugin) or V(gpu-operator).
    type: str
  version:
    description:
      - Version of the chart, which is also the program's. By default V(0.17.4) of the plugin, V(v26.7.0) of the operator.
    type: str
  nodes:
    description:
      - Nodes that get the label C(nvidia.com/gpu.present=true), which brings the plugin to them. Those that
        M(kubegpu.tenancy.nvkind_cluster) made with GPUs have it already.
    type: list
    elements: str
    default: []
  sharing:
    description:
      - Groups of nodes whose GPUs several pods share. Each such GPU is then counted as often as it has C(replicas), and the node's
        C(nvidia.com/gpu) goes up accordingly.
      - C(name) is the value of its nodes' label C(nvidia.com/device-plugin.config). The nodes are named by C(nodes), a list, or
        chosen by C(labels), a dictionary. No node is in two groups.
      - C(time_slicing) with C(replicas) lets so many pods take turns on a GPU. C(mps) with C(replicas) has NVIDIA's Multi-Process
        Service divide it into so many parts. A group has one of the two.
      - Refused while pods hold GPUs of a node whose replicas change, because the kubelet would hand out those GPUs again.
      - Time-slicing isolates nothing, neither memory nor faults.
    type: list
    elements: dict
    default: []
  gpu_feature_discovery:
    description:
      - Whether nodes are labelled with what GPUs they have, which also installs Node Feature Discovery.
    type: bool
    default: false
  mig_strategy:
    description:
      - How GPUs in MIG mode are offered. V(single) as C(nvidia.com/gpu), V(mixed) as C(nvidia.com/mig-...).
    type: str
    choices: [none, single, mixed]
    default: none
  expected_gpus:
    description:
      - How many GPUs a node has, by node name, or which, as a list of their UUIDs. It has to offer that many, times its replicas.
      - A labelled node that is not named here has to offer at least one, and as many as before a change of its replicas.
    type: dict
    default: {}
  driver_version:
    description:
      - Version of the nodes' NVIDIA driver, where no labels of feature discovery tell it. What is known to need a newer one is
        refused.
    type: str
    default: ""
  timeout:
    description:
      - Seconds to wait for the GPUs, and for what is removed to be gone.
    type: int
    default: 180
seealso:
  - module: kubegpu.tenancy.gpu_probe
"""

EXAMPLES = r"""
- name: Offer the GPUs of two nodes
  kubegpu.tenancy.device_plugin:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    expected_gpus:
      kubegpu-worker: 4
      kubegpu-worker2: 4

- name: Let four pods take turns on each GPU of the nodes for notebooks
  kubegpu.tenancy.device_plugin:
    kubeconfig: ~/.kube/config
    nodes: [gpu-1, gpu-2, gpu-3]
    sharing:
      - name: notebooks
        nodes: [gpu-3]
        time_slicing: {replicas: 4}

- name: Use the GPU operator
  kubegpu.tenancy.device_plugin:
    kubeconfig: ~/.kube/config
    provider: gpu_operator

- name: Remove the device plugin
  kubegpu.tenancy.device_plugin:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    state: absent
"""

RETURN = r"""
gpus:
  description:
    - Allocatable GPUs by node, each counted as often as it has replicas.
  returned: when O(state=present), but not when check mode predicts a change
  type: dict
  sample:
    kubegpu-worker: 4
    kubegpu-worker2: 4
problems:
  description:
    - Everything that is wrong with the options, or with what they ask of the cluster.
  returned: failure
  type: list
  elements: str
  sample: ["sharing[0].time_slicing.replicas: 1 is not a whole number of 2 or more."]
"""

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import (
    HELM_ARG_SPEC,
    UNFINISHED,
    Chart,
    Helm,
    Release,
    find_chart,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, refuse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Change, Values, differences, outcome
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin import plan as core
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import GPU_RESOURCE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.namespace import is_ready

NODE_API = "node.k8s.io/v1"
RUNTIME_CLASS = {
    "apiVersion": NODE_API,
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia", "labels": OWNED_LABELS},
    "handler": "nvidia",
}


class DevicePlugin:
    """What makes a cluster's nodes offer their GPUs."""

    def __init__(self, params: t.Mapping[str, t.Any], kube: Kube, helm: Helm, check_mode: bool) -> None:
        self._params = params
        self._kube = kube
        self._helm = helm
        self._check = check_mode
        self._provider = core.PROVIDERS[params["provider"]]
        self._namespace: str = params["namespace"] or self._provider.release

    def present(self) -> Values:
        version: str = self._params["version"] or self._provider.version
        self._refuse_rivals()
        nodes = self._kube.list("v1", "Node")
        plan = core.plan(self._params, version, nodes, self._kube.version())
        relabels = core.relabels(nodes, plan.labels)
        upstream = Chart(self._provider.chart, version, self._provider.repository)
        chart = find_chart(self._params["chart_source"], self._provider.chart, version, upstream)
        objects = self._missing()
        release = None if "namespace" in objects else self._helm.release(self._provider.release, self._namespace)
        upgrade = _release_changes(release, version, plan.values)
        if upgrade and not plan.dra:
            # What the chart refuses, it refuses before anything is written. With DRA it asks the cluster, which no template sees.
            self._helm.template(self._provider.release, self._namespace, chart, plan.values)
        wanted = self._wanted(plan, release, nodes)
        changes: list[Change] = [(what, None, item["metadata"]["name"]) for what, item in objects.items()]
        changes += upgrade + [change for relabel in relabels for change in relabel.changes]
        if not self._check:
            for item in objects.values():
                self._kube.create(item)
            self._switch(relabels, release, chart if upgrade else None, plan.values)
        result = outcome(changes)
        if not (self._check and changes):
            result["gpus"] = wait_for(
                "the nodes to offer their GPUs", lambda: self._offered(wanted, plan), self._params["timeout"]
            )
        return result

    def _refuse_rivals(self) -> None:
        if found := self._rivals():
            raise TenancyError(
                f"provider: {self._provider.title} cannot be installed beside {' and '.join(found)}: nodes would offer the same GPUs "
                "twice. Remove that first: by state absent of its provider if this module made it, else as it was installed."
            )

    def _rivals(self) -> list[str]:
        daemon_sets = self._kube.list("apps/v1", "DaemonSet")
        operators = self._kube.list("apps/v1", "Deployment", label_selector="app.kubernetes.io/component=gpu-operator")
        return core.rivals(self._provider, self._namespace, daemon_sets, operators)

    def _missing(self) -> dict[str, dict[str, t.Any]]:
        """What has to be created, by what it is called in diffs."""
        objects: dict[str, dict[str, t.Any]] = {}
        # The operator makes its own.
        if self._provider.name == "device_plugin":
            handler = (self._kube.get(NODE_API, "RuntimeClass", "nvidia") or {}).get("handler")
            if handler is None:
                objects["RuntimeClass"] = RUNTIME_CLASS
            elif handler != "nvidia":
                raise TenancyError(
                    f"The RuntimeClass nvidia exists with handler {handler}, which cannot be changed: remove it first."
                )
        if self._kube.get("v1", "Namespace", self._namespace) is None:
            metadata = {"name": self._namespace, "labels": OWNED_LABELS}
            objects["namespace"] = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        return objects

    def _wanted(self, plan: core.Plan, release: Release | None, nodes: list[core.Object]) -> dict[str, int]:
        """By node, how many GPUs it has to offer, where that is known.

        :raises TenancyError: where what is installed cannot become what is wanted while it is in use.
        """
        before = release.values if release else {}
        if release and core.uses_dra(before) != plan.dra:
            raise TenancyError(
                "values.gpuCluster: the operator cannot go from device plugin to DRA or back in place. Remove it first, by state absent."
            )
        wanted = {name: gpus * plan.replicas.get(name, 1) for name, gpus in plan.expected.items()}
        problems: list[str] = []
        pods: list[core.Object] | None = None
        for node in nodes:
            name, offers = node["metadata"]["name"], core.offered(node)
            old, new = core.replicas_of(before, core.labels_of(node)), plan.replicas.get(name, 1)
            if old == new or not offers:
                continue
            wanted.setdefault(name, offers // old * new)
            pods = self._kube.list("v1", "Pod") if pods is None else pods
            if busy := core.holders(pods, name):
                problems.append(
                    f"sharing: node {name} would go from {old} to {new} pods a GPU while {', '.join(busy)} hold some of them, which "
                    "would be given to other pods, too. End those pods first."
                )
        refuse(problems)
        return wanted

    def _switch(self, relabels: list[core.Relabel], release: Release | None, chart: Chart | None, values: Values) -> None:
        """Labels off, then the release, then labels on: at no time a node names a configuration that is not there."""
        if chart:
            for relabel in relabels:
                if relabel.retirement:
                    self._kube.patch("v1", "Node", relabel.node, relabel.retirement)
            name, timeout = self._provider.release, self._params["timeout"]
            if release and release.status in ("pending-install", "uninstalling"):
                self._helm.uninstall(name, self._namespace, timeout)
            elif release and release.status in UNFINISHED:
                self._kube.delete("v1", "Secret", release.record, self._namespace)
            if release and core.has_configs(release.values) and not core.has_configs(values):
                # Only with configurations its pods have a service account; an update would leave them the name of one that
                # goes, and none would start any more (kubernetes/kubernetes#72519).
                for daemon_set in self._daemon_sets():
                    self._kube.delete("apps/v1", "DaemonSet", daemon_set["metadata"]["name"], self._namespace)
                wait_for("the end of the pods that share GPUs", self._ended, timeout)
            self._helm.upgrade(name, self._namespace, chart, values, timeout)
        for relabel in relabels:
            self._kube.patch("v1", "Node", relabel.node, relabel.patch)

    def _offered(self, wanted: dict[str, int], plan: core.Plan) -> tuple[dict[str, int] | None, str]:
        """Allocatable GPUs by node, once they are what they should be and come from the plugin as it is now."""
        missing = []
        offered: dict[str, int] = {}
        slices = self._kube.list("resource.k8s.io/v1", "ResourceSlice") if plan.dra else []
        for node in self._kube.list("v1", "Node"):
            name = node["metadata"]["name"]
            if not core.is_gpu_node(core.labels_of(node)):
                continue
            offered[name] = core.in_slices(slices, name) if plan.dra else core.offered(node)
            enough = offered[name] == wanted[name] if name in wanted else offered[name] or core.mig_devices(node)
            if not enough:
                missing.append(f"{name} offers {offered[name]} of {wanted.get(name, 'some')} GPUs")
        missing += [f"{name} is not labelled as having GPUs" for name in sorted(wanted.keys() - offered.keys())]
        if not offered:
            missing.append("no node is labelled as having GPUs")
        for daemon_set in self._daemon_sets():
            status = daemon_set.get("status", {})
            up_to_date = status.get("observedGeneration") == daemon_set["metadata"].get("generation")
            ready = min(status.get("numberReady", 0), status.get("updatedNumberScheduled", 0))
            if not up_to_date or ready < status.get("desiredNumberScheduled", 0):
                name, desired = daemon_set["metadata"]["name"], status.get("desiredNumberScheduled", 0)
                missing.append(f"{ready} of {desired} pods of {name} are ready")
        if not missing:
            return offered, ""
        return None, "; ".join(missing + self._pod_troubles())

    def _daemon_sets(self) -> list[core.Object]:
        return self._kube.list("apps/v1", "DaemonSet", self._namespace, self._provider.selector)

    def _pods(self) -> list[core.Object]:
        return self._kube.list("v1", "Pod", self._namespace, self._provider.selector)

    def _ended(self) -> tuple[bool | None, str]:
        left = [pod["metadata"]["name"] for pod in self._pods()]
        return (None, f"{', '.join(left)} still there") if left else (True, "")

    def _pod_troubles(self) -> list[str]:
        words = []
        for pod in self._pods():
            status = pod.get("status", {})
            for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
                waiting = container.get("state", {}).get("waiting")
                if waiting and waiting.get("reason") != "PodInitializing":
                    words.append(f"{pod['metadata']['name']}: {waiting.get('reason', '')} {waiting.get('message', '')}".rstrip())
        return words

    def absent(self) -> Values:
        changes: list[Change] = []
        namespace = self._kube.get("v1", "Namespace", self._namespace)
        release = self._helm.release(self._provider.release, self._namespace) if namespace else None
        rivals = self._rivals()
        # What another device plugin may rest on stays.
        relabels = [] if rivals else core.relabels(self._kube.list("v1", "Node"), {})
        runtime_class = not rivals and _ours(self._kube.get(NODE_API, "RuntimeClass", "nvidia"))
        if release:
            changes.append(("version", release.chart_version, None))
        changes += [change for relabel in relabels for change in relabel.changes]
        if runtime_class:
            changes.append(("RuntimeClass", "nvidia", None))
        if _ours(namespace):
            changes.append(("namespace", self._namespace, None))
        if not self._check:
            timeout = self._params["timeout"]
            if release:
                self._helm.uninstall(self._provider.release, self._namespace, timeout)
            for relabel in relabels:
                self._kube.patch("v1", "Node", relabel.node, relabel.patch)
            if runtime_class:
                self._kube.delete(NODE_API, "RuntimeClass", "nvidia")
            if _ours(namespace):
                self._kube.delete("v1", "Namespace", self._namespace)
                wait_for(f"the removal of namespace {self._namespace}", self._gone, timeout)
            if release and not rivals:
                wait_for("the nodes to stop offering GPUs", self._withdrawn, timeout)
        return outcome(changes)

    def _gone(self) -> tuple[bool | None, str]:
        there = self._kube.get("v1", "Namespace", self._namespace)
        return (None, "it is still there") if there else (True, "")

    def _withdrawn(self) -> tuple[bool | None, str]:
        """Of nodes that are down, nobody knows what they will offer, and nothing is placed there."""
        left = {node["metadata"]["name"]: core.offered(node) for node in self._kube.list("v1", "Node") if is_ready(node)}
        words = [f"{name} still offers {gpus} {GPU_RESOURCE}" for name, gpus in left.items() if gpus]
        return (None, "; ".join(words)) if words else (True, "")


def _ours(found: dict[str, t.Any] | None) -> bool:
    return found is not None and OWNED_LABELS.items() <= core.labels_of(found).items()


def _release_changes(release: Release | None, version: str, values: Values) -> list[Change]:
    if release is None:
        return [("version", None, version), ("values", None, values)]
    changes: list[Change] = []
    if release.status != "deployed":
        changes.append(("status", release.status, "deployed"))
    if release.chart_version != version:
        changes.append(("version", release.chart_version, version))
    return changes + differences(release.values, values)


def main() -> None:
    module = kube_module(
        argument_spec=HELM_ARG_SPEC
        | {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "provider": {"type": "str", "choices": list(core.PROVIDERS), "default": "device_plugin"},
            "namespace": {"type": "str"},
            "version": {"type": "str"},
            "nodes": {"type": "list", "elements": "str", "default": []},
            # Its entries are looked at as they came: a name that was a number is a mistake to tell, not to convert.
            "sharing": {"type": "list", "elements": "dict", "default": []},
            "gpu_feature_discovery": {"type": "bool", "default": False},
            "mig_strategy": {"type": "str", "choices": ["none", "single", "mixed"], "default": "none"},
            "expected_gpus": {"type": "dict", "default": {}},
            "driver_version": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 180},
        }
    )
    try:
        helm = Helm.connect(module._module.run_command, module.params)
        plugin = DevicePlugin(module.params, Kube.connect(module), helm, module.check_mode)
        if module.params["state"] == "absent":
            module.exit_json(**plugin.absent())
        result = plugin.present()
        if any("time_slicing" in group for group in module.params["sharing"]):
            module.warn(core.TIME_SLICING_WARNING)
        module.exit_json(**result)
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
