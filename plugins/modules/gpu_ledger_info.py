#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: gpu_ledger_info
short_description: Tell whose GPUs are whose on a host cluster
version_added: 0.1.0
description:
  - Reads the host cluster's nodes, pods, quotas and virtual clusters, and tells for each node and each tenant how many GPUs are offered, asked for
    and held, and where GPUs have more than one owner.
  - A virtual cluster does not see what other tenants take; only the host cluster does.
author: kubegpu.tenancy contributors (@kubegpu)
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
  - kubernetes.core.k8s_auth_options
attributes:
  diff_mode:
    support: none
options:
  devices:
    description:
      - Whether to tell as well which device each pod has, by its UUID. The API server does not know that. It is read from each node's
        kubelet, from its file C(/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint), through the pod of the device plugin there.
    type: bool
    default: false
requirements:
  - kubernetes >= 24.2.0
notes:
  - For O(devices), the right to create C(pods/exec) in the device plugin's namespace is needed, and its image has to have C(cat).
"""

EXAMPLES = r"""
- name: Read the ledger
  kubegpu.tenancy.gpu_ledger_info:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
  register: ledger

- name: Require that every GPU has one owner
  ansible.builtin.assert:
    that: ledger.overlaps == []
    fail_msg: "{{ ledger.overlaps }}"

- name: Read which pods have which GPUs
  kubegpu.tenancy.gpu_ledger_info:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    devices: true
  register: ledger

- name: Show who has a GPU that failed
  ansible.builtin.debug:
    msg: "{{ ledger.devices | selectattr('device', 'eq', 'GPU-9f3e4c1a-0000-4000-8000-000000000003') }}"
"""

RETURN = r"""
nodes:
  description: One row a node, in name order.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: The node's name.
      type: str
    tenants:
      description: Names of the tenants whose node it is.
      type: list
      elements: str
    allocatable:
      description: GPU devices the node offers.
      type: int
    in_use:
      description: GPU devices that running or starting pods hold.
      type: int
    gpus:
      description:
        - A dict for each of these GPUs, and an empty one for each that is free, with the part of it that each tenant has. Pods of no tenant
          have an empty name. Which of the node's GPUs it is, the API server does not know.
      type: list
      elements: dict
    others:
      description: What else of NVIDIA it offers, such as MIG slices, by resource, each with V(allocatable) and V(in_use).
      type: dict
  sample:
    - node: kubegpu-worker
      tenants: [team-ml]
      allocatable: 4
      in_use: 2
      gpus: [{team-ml: 1.0}, {team-ml: 0.75}, {}, {}]
      others: {nvidia.com/mig-1g.10gb: {allocatable: 7, in_use: 1}}
products:
  description: One row for each GPU product and node pool of nodes with GPUs, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    product:
      description: Name of the GPU, by the nodes' label C(nvidia.com/gpu.product) of GPU feature discovery. Empty without one.
      type: str
    pool:
      description: Node pool of KAI Scheduler, by the nodes' label C(kai.scheduler/node-pool). Empty without one.
      type: str
    nodes:
      description: How many nodes that are.
      type: int
    allocatable:
      description: GPU devices they offer.
      type: int
    in_use:
      description: GPU devices that running or starting pods hold.
      type: int
  sample:
    - {product: NVIDIA-H100-80GB-HBM3, pool: h100, nodes: 2, allocatable: 16, in_use: 9}
tenants:
  description: One row a tenant, in name order. All counts are GPU devices.
  returned: success
  type: list
  elements: dict
  contains:
    tenant:
      description: The tenant's name.
      type: str
    nodes:
      description: Names of its nodes.
      type: list
      elements: str
    promised:
      description: GPUs that its nodes offer.
      type: int
    quota:
      description: GPUs that its pods may ask for at most, by a quota of the host cluster. Null without one.
      type: int
    requested:
      description: GPUs that its pods ask for, pending pods included.
      type: int
    reserved:
      description: GPUs that KAI Scheduler holds for its pods that share one, also where the host cluster's scheduler does.
      type: int
    in_use:
      description: GPUs that its pods keep from others, reserved ones included. One that it shares with another tenant counts for both.
      type: int
    shares:
      description: The same as the parts of GPUs that its pods asked for. A part by C(gpu-memory) is known where the node has the label
        C(nvidia.com/gpu.memory), else it counts as 0.
      type: float
    shared_with:
      description: Names of the tenants that have a part of one of its GPUs.
      type: list
      elements: str
    others:
      description: What its pods hold of other resources of NVIDIA, such as MIG slices.
      type: dict
    claimed:
      description:
        - Devices that are allocated to its ResourceClaims, by Dynamic Resource Allocation (Kubernetes 1.34 and later). Claims that a scheduler
          made for pods that ask for GPUs are left out, because RV(tenants[].in_use) counts these pods.
      type: int
  sample:
    - tenant: team-ml
      nodes: [kubegpu-worker]
      promised: 4
      quota: null
      requested: 3
      reserved: 1
      in_use: 2
      shares: 1.75
      shared_with: []
      others: {nvidia.com/mig-1g.10gb: 1}
      claimed: 0
overlaps:
  description: One sentence for each GPU, node or pod with more than one owner, or with more asked of it than there is. Empty when all is well.
  returned: success
  type: list
  elements: str
  sample: ["pod default/old of no tenant holds 1 GPUs of node kubegpu-worker, which is team-ml's"]
devices:
  description:
    - A row for each device and pod that has it or a part of it, and a row for each device that is free, by node and device. Devices of
      Dynamic Resource Allocation are none of them.
  returned: with O(devices)
  type: list
  elements: dict
  contains:
    node:
      description: The node's name.
      type: str
    device:
      description: The GPU's UUID, or that of a MIG device, as kubelet has it from the device plugin. Null where it is not known.
      type: str
    tenant:
      description: The pod's tenant. Empty where it is of none, and for a free device.
      type: str
    pod:
      description: Namespace and name of the pod, as its tenant knows them. Empty for a free device.
      type: str
    part:
      description: The part of the device that the pod has, from 0 to 1. 0 where that is not known.
      type: float
  sample:
    - {node: kubegpu-worker, device: GPU-9f3e4c1a-0000-4000-8000-000000000003, tenant: team-ml, pod: default/train-0, part: 1.0}
unread:
  description:
    - A sentence for each node, pod, quota, claim or virtual cluster that could not be read, with the reason. No row counts it.
    - With O(devices), also one for each node of which it could not be read which pod has which device.
  returned: success
  type: list
  elements: str
  sample: []
picture:
  description: The same as text, a line for each node with GPUs.
  returned: success
  type: list
  elements: str
  sample: ["kubegpu-worker [team-ml] [team-ml 0.75] [free] [free]"]
"""

from ..module_utils._engine.gpu_ledger_info import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
