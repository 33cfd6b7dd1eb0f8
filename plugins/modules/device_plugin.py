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
  - Installs NVIDIA's device plugin by its own Helm chart, with the RuntimeClass V(nvidia) that pods need to get a GPU.
  - Success is what nodes offer. The module waits until every node labelled C(nvidia.com/gpu.present=true) has its
    C(nvidia.com/gpu) allocatable.
  - O(state=absent) removes the release, the namespace and the RuntimeClass, the latter two only if this module made them.
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
  namespace:
    description:
      - The namespace of the plugin and its Helm release.
    type: str
    default: nvidia-device-plugin
  version:
    description:
      - Version of the chart, which is also the plugin's.
    type: str
    default: 0.17.4
  expected_gpus:
    description:
      - How many GPUs a node has to offer, by node name.
      - A labelled node that is not named here has to offer at least one.
    type: dict
    default: {}
  timeout:
    description:
      - Seconds to wait for the GPUs, and for what is removed to be gone.
    type: int
    default: 180
"""

EXAMPLES = r"""
- name: Offer the GPUs of two nodes
  kubegpu.tenancy.device_plugin:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    expected_gpus:
      kubegpu-worker: 4
      kubegpu-worker2: 4

- name: Remove the device plugin
  kubegpu.tenancy.device_plugin:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    state: absent
"""

RETURN = r"""
gpus:
  description:
    - Allocatable GPUs by node.
  returned: when O(state=present), but not when check mode predicts a change
  type: dict
  sample:
    kubegpu-worker: 4
    kubegpu-worker2: 4
"""

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm import (
    HELM_ARG_SPEC,
    UNFINISHED,
    Chart,
    Helm,
    Release,
    find_chart,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kube import Kube, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._values import Change, outcome
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import DEDICATED_TAINT
from ansible_collections.kubegpu.tenancy.plugins.module_utils._wait import wait_for

CHART = "nvidia-device-plugin"
REPOSITORY = "https://nvidia.github.io/k8s-device-plugin"
RELEASE = "nvidia-device-plugin"
RESOURCE = "nvidia.com/gpu"
GPU_NODES = "nvidia.com/gpu.present=true"
OWNED = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia", "labels": OWNED},
    "handler": "nvidia",
}
# It goes to every node with GPUs, also to those that the chart's own tolerations do not cover: dedicated to one tenant.
VALUES: dict[str, t.Any] = {
    "runtimeClassName": "nvidia",
    "tolerations": [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
        {"key": DEDICATED_TAINT, "operator": "Exists", "effect": "NoSchedule"},
    ],
}


class DevicePlugin:
    """The device plugin of one cluster."""

    def __init__(self, params: t.Mapping[str, t.Any], kube: Kube, helm: Helm, check_mode: bool) -> None:
        self._params = params
        self._kube = kube
        self._helm = helm
        self._check = check_mode
        self._namespace: str = params["namespace"]

    def present(self) -> dict[str, t.Any]:
        version: str = self._params["version"]
        values = VALUES | self._params["values"]
        chart = find_chart(self._params["chart_source"], CHART, version, Chart(CHART, version, REPOSITORY))
        changes: list[Change] = []
        handler = (self._kube.get("node.k8s.io/v1", "RuntimeClass", "nvidia") or {}).get("handler")
        if handler not in (None, "nvidia"):
            raise TenancyError(
                f"The RuntimeClass nvidia exists with handler {handler}, which cannot be changed: remove it first."
            )
        if handler is None:
            changes.append(("RuntimeClass nvidia", None, "handler nvidia"))
        namespace = self._kube.get("v1", "Namespace", self._namespace)
        if namespace is None:
            changes.append(("namespace", None, self._namespace))
        release = self._helm.release(RELEASE, self._namespace) if namespace else None
        changes += _release_changes(release, version, values)
        if not self._check:
            self._apply({what for what, _old, _new in changes}, release, chart, values)
        result = outcome(changes)
        if not (self._check and changes):
            result["gpus"] = wait_for("the nodes to offer their GPUs", self._offered, self._params["timeout"])
        return result

    def _apply(self, due: set[str], release: Release | None, chart: Chart, values: dict[str, t.Any]) -> None:
        if "RuntimeClass nvidia" in due:
            self._kube.create(RUNTIME_CLASS)
        if "namespace" in due:
            self._kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace, "labels": OWNED}})
        if due - {"RuntimeClass nvidia", "namespace"}:
            if release and release.status in ("pending-install", "uninstalling"):
                self._helm.uninstall(RELEASE, self._namespace, self._params["timeout"])
            elif release and release.status in UNFINISHED:
                self._kube.delete("v1", "Secret", release.record, self._namespace)
            self._helm.upgrade(RELEASE, self._namespace, chart, values, self._params["timeout"])

    def _offered(self) -> tuple[dict[str, int] | None, str]:
        """Allocatable GPUs by node, once they are what they should be and come from the plugin as it is now."""
        missing = []
        offered: dict[str, int] = {}
        expected: dict[str, t.Any] = self._params["expected_gpus"]
        for node in self._kube.list("v1", "Node", label_selector=GPU_NODES):
            name = node["metadata"]["name"]
            offered[name] = int(node.get("status", {}).get("allocatable", {}).get(RESOURCE, 0))
            wanted = int(expected[name]) if name in expected else None
            if offered[name] != wanted if wanted is not None else not offered[name]:
                missing.append(f"{name} offers {offered[name]} of {'some' if wanted is None else wanted} GPUs")
        missing += [f"{name} is not labelled {GPU_NODES}" for name in sorted(expected.keys() - offered.keys())]
        for daemon_set in self._kube.list("apps/v1", "DaemonSet", self._namespace, f"app.kubernetes.io/instance={RELEASE}"):
            status = daemon_set.get("status", {})
            up_to_date = status.get("observedGeneration") == daemon_set["metadata"].get("generation")
            ready = min(status.get("numberReady", 0), status.get("updatedNumberScheduled", 0))
            if not up_to_date or ready < status.get("desiredNumberScheduled", 0):
                missing.append(f"{ready} of {status.get('desiredNumberScheduled', 0)} pods of the plugin are ready")
        if not missing:
            return offered, ""
        return None, "; ".join(missing + self._pod_troubles())

    def _pod_troubles(self) -> list[str]:
        words = []
        for pod in self._kube.list("v1", "Pod", self._namespace, f"app.kubernetes.io/instance={RELEASE}"):
            for container in pod.get("status", {}).get("containerStatuses") or []:
                waiting = container.get("state", {}).get("waiting")
                if waiting:
                    words.append(f"{pod['metadata']['name']}: {waiting.get('reason', '')} {waiting.get('message', '')}".rstrip())
        return words

    def absent(self) -> dict[str, t.Any]:
        changes: list[Change] = []
        namespace = self._kube.get("v1", "Namespace", self._namespace)
        release = self._helm.release(RELEASE, self._namespace) if namespace else None
        if release:
            changes.append(("version", release.chart_version, None))
        if _ours(namespace):
            changes.append(("namespace", self._namespace, None))
        runtime_class = _ours(self._kube.get("node.k8s.io/v1", "RuntimeClass", "nvidia"))
        if runtime_class:
            changes.append(("RuntimeClass nvidia", "handler nvidia", None))
        if not self._check:
            if release:
                self._helm.uninstall(RELEASE, self._namespace, self._params["timeout"])
            if runtime_class:
                self._kube.delete("node.k8s.io/v1", "RuntimeClass", "nvidia")
            if _ours(namespace):
                self._kube.delete("v1", "Namespace", self._namespace)
                wait_for(f"the removal of namespace {self._namespace}", self._gone, self._params["timeout"])
        return outcome(changes)

    def _gone(self) -> tuple[bool | None, str]:
        there = self._kube.get("v1", "Namespace", self._namespace)
        return (None, "it is still there") if there else (True, "")


def _ours(found: dict[str, t.Any] | None) -> bool:
    return found is not None and OWNED.items() <= (found["metadata"].get("labels") or {}).items()


def _release_changes(release: Release | None, version: str, values: dict[str, t.Any]) -> list[Change]:
    if release is None:
        return [("version", None, version), ("values", None, values)]
    changes: list[Change] = []
    if release.status != "deployed":
        changes.append(("status", release.status, "deployed"))
    if release.chart_version != version:
        changes.append(("version", release.chart_version, version))
    if release.values != values:
        changes.append(("values", release.values, values))
    return changes


def main() -> None:
    module = kube_module(
        argument_spec=HELM_ARG_SPEC
        | {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "namespace": {"type": "str", "default": "nvidia-device-plugin"},
            "version": {"type": "str", "default": "0.17.4"},
            "expected_gpus": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 180},
        }
    )
    try:
        helm = Helm.connect(module._module.run_command, module.params)
        plugin = DevicePlugin(module.params, Kube.connect(module), helm, module.check_mode)
        result = plugin.present() if module.params["state"] == "present" else plugin.absent()
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
