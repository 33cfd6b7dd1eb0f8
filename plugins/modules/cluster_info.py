#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.cluster_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_info
short_description: Tell what a host cluster is, has for GPUs, and lacks for its tenants
version_added: 0.1.0
description:
  - Reports where a cluster comes from, its nodes with GPUs and who labelled them, their taints, RuntimeClasses, storage classes, ingress
    classes, device plugins and network plugins, and what judges pods before they are created.
  - Compares that with the tenants that are wanted, and returns what is missing, each with the line of the inventory that mends it.
  - Compares its version of Kubernetes with those of vCluster and KAI Scheduler that are wanted.
  - Where tenants are to be made, and not in check mode, asks the cluster what the kubeconfig's user may do (SelfSubjectAccessReview, which
    keeps nothing), and whether the host has a Helm that this collection works with.
  - Everything is read by one list request for each kind. Nothing is created or tried. What only trying tells is among RV(notes).
author: kubegpu.tenancy contributors (@kubegpu)
options:
  tenants:
    description:
      - The tenants that are wanted, as M(kubegpu.tenancy.tenancy_plan) returns them, with the values that the cluster asks for.
    type: list
    elements: dict
    default: []
  runtime_class:
    description:
      - RuntimeClass of pods with GPUs. Empty for none.
    type: str
    default: nvidia
  shared_scheduler:
    description:
      - The host cluster's KAI Scheduler that is wanted, as M(kubegpu.tenancy.tenancy_plan) returns it. Empty for none.
    type: dict
    default: {}
  metrics:
    description:
      - The Prometheus that reads metrics, as M(kubegpu.tenancy.tenancy_plan) returns it. Empty for none.
    type: dict
    default: {}
  accept_combinations:
    description:
      - Names of combinations of versions that are accepted although upstream does not list them, as C(docs/how-to/many-clusters.md) has them.
    type: list
    elements: str
    default: []
  helm_binary:
    description:
      - The helm program by which tenants are made on this host.
    type: str
    default: helm
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
seealso:
  - module: kubegpu.tenancy.tenancy_plan
  - module: kubegpu.tenancy.gpu_ledger_info
  - module: kubegpu.tenancy.probe
"""

EXAMPLES = r"""
- name: Read the desired state
  kubegpu.tenancy.tenancy_plan:
  register: plan

- name: See what the cluster lacks for it
  kubegpu.tenancy.cluster_info:
    kubeconfig: "{{ plan.cluster.kubeconfig }}"
    tenants: "{{ plan.cluster.tenants }}"
    runtime_class: "{{ plan.cluster.platform.runtime_class }}"
  register: dc1

- name: Go on only where nothing is missing
  ansible.builtin.assert:
    that: dc1.problems | length == 0
    fail_msg: "{{ dc1.problems | map(attribute='text') | join('\n') }}"
"""

RETURN = r"""
distribution:
  description:
    - V(gke), V(eks), V(aks), V(openshift), V(k3s), V(rke2), V(kind), V(kubeadm), or V(unknown) where neither version nor nodes tell.
  returned: success
  type: str
  sample: gke
kubernetes_version:
  description: Version of its API server.
  returned: success
  type: str
  sample: v1.35.4-gke.1200
nodes:
  description: How many nodes it has.
  returned: success
  type: int
  sample: 5
gpu_nodes:
  description: Nodes that offer C(nvidia.com/gpu), or that are labelled as having GPUs.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    gpus:
      description: GPU devices that it offers. V(0) where nothing offers any.
      type: int
      returned: always
    dra:
      description: Whether a driver of Dynamic Resource Allocation offers them, by RV(dra_gpu_class), and no device plugin.
      type: bool
      returned: always
    ready:
      description: Whether it is ready.
      type: bool
      returned: always
    labels:
      description: Its labels.
      type: dict
      returned: always
    labelled_by:
      description: Who says that it has GPUs.
      type: list
      elements: str
      returned: always
    taints:
      description: Taints that keep pods away, as C(key=value:effect), without those of a state that passes and of this collection.
      type: list
      elements: str
      returned: always
    container_runtime:
      description: Its container runtime.
      type: str
      returned: always
    runtime_handlers:
      description: Handlers that its container runtime names. Empty where the kubelet does not tell. Which one is the default is not told.
      type: list
      elements: str
      returned: always
  sample:
    - name: gpu-1
      gpus: 8
      dra: false
      ready: true
      labels: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}
      labelled_by: [GKE]
      taints: ["nvidia.com/gpu=present:NoSchedule"]
      container_runtime: containerd://2.1.4
      runtime_handlers: []
runtime_classes:
  description: Handlers of its RuntimeClasses, by their names.
  returned: success
  type: dict
  sample: {nvidia: nvidia}
device_plugins:
  description: DaemonSets that offer NVIDIA's GPUs, as namespace and name.
  returned: success
  type: list
  elements: str
  sample: [kube-system/nvidia-gpu-device-plugin]
gpu_operator:
  description: Whether NVIDIA's GPU operator has a ClusterPolicy to act on.
  returned: success
  type: bool
dra_gpu_class:
  description:
    - DeviceClass whose devices pods get by asking for C(nvidia.com/gpu), without a claim. Needs the feature gate DRAExtendedResource, on by
      default from Kubernetes 1.36 on. Null without one.
  returned: success
  type: str
  sample: gpu.nvidia.com
dra_other_names:
  description: DeviceClasses by the other names of resources with which pods get devices of NVIDIA's driver.
  returned: success
  type: dict
  sample: {}
dra_gpu_nodes:
  description: Nodes whose GPUs NVIDIA's driver for Dynamic Resource Allocation offers to claims. Tenants cannot make claims.
  returned: success
  type: list
  elements: str
  sample: []
storage_classes:
  description: Names of its storage classes.
  returned: success
  type: list
  elements: str
  sample: [premium-rwo, standard-rwo]
default_storage_class:
  description: The default one. Null without one.
  returned: success
  type: str
  sample: standard-rwo
ingress_classes:
  description: Names of its ingress classes.
  returned: success
  type: list
  elements: str
  sample: [nginx]
network:
  description: Its network plugins.
  returned: success
  type: dict
  contains:
    plugins:
      description: The network plugins that are known, by their DaemonSets.
      type: list
      elements: str
      returned: always
    enforces_policies:
      description: Whether one of them is known to enforce network policies. Null where that is a setting, or none is known.
      type: bool
      returned: always
  sample: {plugins: [anetd], enforces_policies: true}
security_context_constraints:
  description: Whether OpenShift's SecurityContextConstraints judge its pods.
  returned: success
  type: bool
webhooks:
  description: Webhook configurations without whose answer no pod is created.
  returned: success
  type: list
  elements: str
  sample: [gatekeeper-validating-webhook-configuration]
tenants_pods:
  description:
    - Webhook configurations and admission policies that are asked when a pod is made in a tenant's namespace. Those of KAI Scheduler and of this
      collection are left out.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Its kind.
      type: str
      returned: always
    name:
      description: Its name.
      type: str
      returned: always
    changes:
      description: Whether it may change the pod. Otherwise it may refuse it.
      type: bool
      returned: always
  sample:
    - {kind: MutatingWebhookConfiguration, name: kueue-mutating-webhook-configuration, changes: true}
default_priority:
  description: The PriorityClass that pods without one get. Null without such a class.
  returned: success
  type: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    value:
      description: The priority.
      type: int
      returned: always
    preempts:
      description: Whether pods of lower priority are ended for them.
      type: bool
      returned: always
  sample: {name: standard, value: 1000, preempts: true}
node_pools:
  description: Values of the label C(kai.scheduler/node-pool), by the nodes that have it.
  returned: success
  type: dict
  sample: {gpu-1: a100}
unread:
  description: Why policies for pods or priority classes were not read, where the kubeconfig's user may not list them.
  returned: success
  type: list
  elements: str
  sample: ["Looking up PriorityClass (scheduling.k8s.io/v1) failed: 403 Forbidden"]
problems:
  description: What keeps O(tenants) from running, each with the variable that mends it.
  returned: success
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
    - code: no-runtime-class
      text: "kubegpu_runtime_class: there is no RuntimeClass nvidia. There is none. Where pods get their GPUs without one, write kubegpu_runtime_class: ''."
notes:
  description: What should be known, and cannot be decided by reading.
  returned: success
  type: list
  elements: str
"""

from ..module_utils._engine.cluster_info import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
