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
    NVIDIA's GPU operator, which brings both. Never both of them, nor beside a device plugin that another client installed.
  - Success is what nodes offer. The module waits until every node labelled C(nvidia.com/gpu.present=true) has its
    C(nvidia.com/gpu) allocatable.
  - A label of a node is only changed or taken off if this module put it there and it was not changed since. The labels that it put
    there are recorded in the node's annotation C(kubegpu.tenancy/device-plugin-labels).
  - O(state=absent) removes the release and the labels, and the namespace and the RuntimeClass if this module made them. While
    another device plugin is there, the labels and the RuntimeClass stay.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
  - kubegpu.tenancy._helm
  - kubernetes.core.k8s_auth_options
requirements:
  - python >= 3.9
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
      - V(device_plugin) is the plugin alone. V(gpu_operator) is the GPU operator, without the driver and the container toolkit that the
        hosts have of their own, without MIG manager, and without DCGM exporter unless O(metrics) asks for it.
      - From the operator, nodes with the label C(nvidia.com/gpu.deploy.operands=false) are kept, and have to offer nothing. Its CRDs, and the labels
        that it sets on nodes, stay when it is removed.
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
      - Nodes that get the label C(nvidia.com/gpu.present=true), which brings the plugin to them. The nodes with GPUs that
        M(kubegpu.tenancy.nvkind_cluster) made have it already.
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
      - Time-slicing isolates nothing, neither memory nor faults. From 100 replicas on, a warning says so of memory.
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
      - Version of the nodes' NVIDIA driver, where no labels of feature discovery show it. What is known to need a newer one is
        refused.
    type: str
    default: ""
  metrics:
    description:
      - The Prometheus of the cluster that reads the GPUs' metrics. With it, the GPU operator brings DCGM exporter, and a NetworkPolicy lets
        its pods be reached from the namespace of that Prometheus only.
      - C(provider), V(annotations) or V(service_monitor), is how it finds them. C(namespace) is its namespace. C(labels) are those of
        the ServiceMonitor. As C(kubegpu_metrics) has them.
    type: dict
    default: {}
  timeout:
    description:
      - Seconds for the whole change, including the wait for the GPUs, or for what is removed to be gone.
    type: int
    default: 180
seealso:
  - module: kubegpu.tenancy.probe
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
steps:
  description: What was done, or would be in check mode, in that order, and why.
  returned: when there is a change
  type: list
  elements: dict
  contains:
    step:
      description: What is done.
      type: str
      returned: always
    why:
      description: The reason.
      type: str
      returned: always
    seconds:
      description: How long it took.
      type: float
      returned: when it was done
  sample:
    - step: apply nvidia-device-plugin
      why: it is not installed
      seconds: 2.1
seconds:
  description: How long the whole change took.
  returned: success
  type: float
  sample: 9.4
problems:
  description:
    - Everything that is wrong with the options, or with what they ask of the cluster.
  returned: failure
  type: list
  elements: dict
  contains:
    code:
      description: Kind of the problem, for programs.
      type: str
    text:
      description: The problem as a sentence, which begins with its place.
      type: str
  sample:
    - code: not-a-whole-number
      text: "sharing[0].time_slicing.replicas: 1 is not a whole number of 2 or more."
"""

from ..module_utils._adapters.helm import Chart, find_chart
from ..module_utils._common.run import Result, Run
from ..module_utils._device_plugin.facts import PROVIDERS
from ..module_utils._device_plugin.lifecycle import DevicePlugin
from ..module_utils._device_plugin.validation import sharing_warnings
from ..module_utils._kernel.module import run_module

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "provider": {"type": "str", "choices": list(PROVIDERS), "default": "device_plugin"},
    "namespace": {"type": "str"},
    "version": {"type": "str"},
    "nodes": {"type": "list", "elements": "str", "default": []},
    # Its entries are checked as they were given: a name that was a number is refused, not converted.
    "sharing": {"type": "list", "elements": "dict", "default": []},
    "gpu_feature_discovery": {"type": "bool", "default": False},
    "mig_strategy": {"type": "str", "choices": ["none", "single", "mixed"], "default": "none"},
    "expected_gpus": {"type": "dict", "default": {}},
    "driver_version": {"type": "str", "default": ""},
    "metrics": {"type": "dict", "default": {}},
    "timeout": {"type": "int", "default": 180},
}


def reconcile(run: Run) -> Result:
    """Have the device plugin or the GPU operator present or absent."""
    params, provider = run.params, PROVIDERS[run.params["provider"]]

    def chart(version: str) -> Chart:
        upstream = Chart(provider.chart, version, provider.repository)
        return find_chart(params["chart_source"], provider.chart, version, upstream)

    plugin = DevicePlugin(run, chart)
    if params["state"] == "absent":
        return plugin.absent()
    result = plugin.present()
    for warning in sharing_warnings(params["sharing"]):
        run.warn(warning)
    return result


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, helm=True)


if __name__ == "__main__":
    main()
