#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_pending_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_pending_info
short_description: Tell why pods wait, and which run past KAI Scheduler
version_added: 0.1.0
description:
  - Returns for each pending pod of a cluster, of any scheduler, what to do and why it waits, in a sentence each.
  - Returns the workloads as well whose pods the API server refuses, also those of Kubeflow and KubeRay, the pods that a node refused, pods that
    have been placed past KAI Scheduler or ask for something that it does not read, and pods that ended for want of a RuntimeClass.
  - Reads one list of each kind in the whole cluster, and of the kinds of workloads only the workloads that could not create a pod. Only where
    these do not say why a pod waits, the last five minutes of the log of KAI's scheduler are read.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  namespaces:
    description:
      - Namespaces whose pods are judged. Empty for all.
      - On a host cluster with a shared KAI Scheduler, name those of the tenants that share it. Pods of other tenants are placed
        by their own schedulers. With O(host_kubeconfig), each tenant can be asked instead.
    type: list
    elements: str
    default: []
  label_selector:
    description:
      - Label selector of the pods that are judged, and of the workloads without pods, such as V(app=train). Empty for all.
    type: str
    default: ''
  scheduler_name:
    description:
      - Name that pods ask for KAI Scheduler by.
    type: str
    default: kai-scheduler
  host_kubeconfig:
    description:
      - Kubeconfig of the host cluster, where the cluster is a virtual one. Then pods are compared with what they are there, and
        V(not_written_back) is told. Where no KAI Scheduler runs in the virtual cluster, that of the host cluster is asked why they wait.
    type: path
  host_namespace:
    description:
      - With O(host_kubeconfig), the namespace of the virtual cluster on the host cluster.
    type: str
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
notes:
  - Needs the right to list pods, nodes, events, workloads and KAI Scheduler's objects in all namespaces, and to read logs in its
    namespace; with O(host_kubeconfig), to list pods in O(host_namespace) there, or the same as here where the KAI Scheduler is there.
seealso:
  - module: kubegpu.tenancy.kai_queues_info
  - module: kubegpu.tenancy.kai_scheduler_info
"""

EXAMPLES = r"""
- name: See why the team's pods wait
  kubegpu.tenancy.kai_pending_info:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    namespaces: [training]
  register: waiting

- name: Show it
  ansible.builtin.debug:
    msg: "{{ item.namespace }}/{{ item.name }}, for {{ item.seconds }} s: {{ item.advice }} {{ item.message }}"
  loop: "{{ waiting.pods }}"

- name: See from both sides why a tenant's pods wait
  kubegpu.tenancy.kai_pending_info:
    kubeconfig: /etc/kubegpu/dc1/tenants/team-ml.yml
    host_kubeconfig: /etc/kubegpu/dc1/cluster.yml
    host_namespace: tenant-team-ml
  register: both

- name: Require that all GPUs go through queues
  ansible.builtin.assert:
    that: waiting.pods | selectattr('reason', 'equalto', 'other_scheduler') | length == 0
"""

RETURN = r"""
pods:
  description:
    - A row for each pod that waits or was refused, for each workload whose pods are refused, and for each reason why a pod runs past KAI
      Scheduler, those of the oldest first.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: The pod's namespace.
      type: str
      returned: always
    name:
      description: The pod's name, or that of the workload; of a Deployment's ReplicaSet, that of the Deployment.
      type: str
      returned: always
    kind:
      description: V(Pod), or the kind of the workload that RV(pods[].name) is the name of.
      type: str
      returned: always
    queue:
      description:
        - The queue of KAI Scheduler that the pod is in, whether or not it exists.
        - Null for a pod of another scheduler that names none.
      type: str
      returned: always
    state:
      description:
        - V(pending) for a pod that waits.
        - V(refused) for one that its node refused, of each workload the newest, and for a workload whose pods the API server refuses.
        - V(past_kai) for one that holds GPUs which no queue counts, ended because it saw no GPU, or asks for something that KAI Scheduler
          does not read.
      type: str
      returned: always
    reason:
      description:
        - For V(pending), V(terminating), V(gated), V(not_written_back), V(not_synced), V(image_pull), V(container_config),
          V(container_start), V(volume), V(sandbox), V(starting), V(node_down), V(too_large), V(no_gpus), V(no_scheduler),
          V(scheduler_down), V(no_queue), V(queue_missing), V(queue_without_parent), V(parent_queue), V(queue_level), V(node_pool),
          V(fraction), V(binding), V(reservation), V(gang), V(over_limit), V(over_quota), V(config_map), V(mig_leftover), V(no_node),
          V(no_pod_group), V(scheduler_error) or V(unknown).
        - For V(refused), V(refused) where a node refused the pod. For a workload V(workload_name), V(fraction), V(quota),
          V(pod_security), V(webhook), V(policy), V(missing_name) or V(not_created). With these, a pod of a virtual cluster is V(pending)
          that the host cluster refuses.
        - For V(past_kai), V(other_scheduler), V(unread_fraction), V(own_group) or V(no_runtime_class).
      type: str
      returned: always
    message:
      description: What is so, with amounts of GPUs in devices, of CPU in cores and of memory in GB (10^9 bytes).
      type: str
      returned: always
    advice:
      description: What to do.
      type: str
      returned: always
    since:
      description: When the pod or workload was created, or started where it is V(past_kai), in UTC.
      type: str
      returned: always
    seconds:
      description: How long ago that was, in seconds.
      type: int
      returned: always
  sample:
    - namespace: training
      name: resnet-0
      kind: Pod
      queue: research
      state: pending
      reason: over_limit
      message: Queue research has a limit of 4 GPUs, 4 are allocated, and it asks for 1.
      advice: Wait until work in queue research ends, ask for less, or raise its limit (kai_queues).
      since: "2026-11-22T12:30:00Z"
      seconds: 412
unread:
  description:
    - A sentence for each pod, workload, queue, PodGroup and BindRequest that could not be read, and for the host cluster where that could
      not be. RV(pods) says nothing about these.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ..module_utils._engine.kai_pending_info import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, required_together=[("host_kubeconfig", "host_namespace")])


if __name__ == "__main__":
    main()
