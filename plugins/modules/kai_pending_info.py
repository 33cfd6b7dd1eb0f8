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
  - Returns for each pending pod of a cluster, of any scheduler, why it waits and what to do, in a sentence each.
  - Returns the pods as well that have been placed past KAI Scheduler, and those that ended for want of a RuntimeClass.
  - Reads one list of each kind in the whole cluster. Only where these do not say why a pod waits, the last five minutes of the
    log of KAI's scheduler are read.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  namespaces:
    description:
      - Namespaces whose pods are judged. Empty for all.
      - On a host cluster with a shared KAI Scheduler, name those of the tenants that share it. Pods of other tenants are placed
        by their own schedulers.
    type: list
    elements: str
    default: []
  label_selector:
    description:
      - Label selector of the pods that are judged, such as V(app=train). Empty for all.
    type: str
    default: ''
  scheduler_name:
    description:
      - Name that pods ask for KAI Scheduler by.
    type: str
    default: kai-scheduler
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
notes:
  - Needs the right to list pods, nodes, events and KAI Scheduler's objects in all namespaces, and to read logs in its namespace.
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
    msg: "{{ item.namespace }}/{{ item.name }}, for {{ item.seconds }} s: {{ item.message }} {{ item.advice }}"
  loop: "{{ waiting.pods }}"

- name: Require that all GPUs go through queues
  ansible.builtin.assert:
    that: waiting.pods | selectattr('reason', 'equalto', 'other_scheduler') | length == 0
"""

RETURN = r"""
pods:
  description: A row for each pod that waits, and for each reason why one runs past KAI Scheduler, those of the oldest first.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: The pod's namespace.
      type: str
      returned: always
    name:
      description: The pod's name.
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
        - V(past_kai) for one that was placed, and holds GPUs that no queue counts, or ended because it saw no GPU.
      type: str
      returned: always
    reason:
      description:
        - For V(pending), V(terminating), V(gated), V(image_pull), V(container_config), V(container_start), V(volume), V(sandbox),
          V(starting), V(too_large), V(no_gpus), V(no_scheduler), V(scheduler_down), V(no_queue), V(queue_missing),
          V(queue_without_parent), V(parent_queue), V(queue_level), V(binding), V(reservation), V(gang), V(over_limit),
          V(over_quota), V(no_node), V(no_pod_group), V(scheduler_error) or V(unknown).
        - For V(past_kai), V(other_scheduler) or V(no_runtime_class).
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
      description: When the pod was created, or started where it is V(past_kai), in UTC.
      type: str
      returned: always
    seconds:
      description: How long ago that was, in seconds.
      type: int
      returned: always
  sample:
    - namespace: training
      name: resnet-0
      queue: research
      state: pending
      reason: over_limit
      message: Queue research has a limit of 4 GPUs, 4 are allocated, and it asks for 1.
      advice: Wait until work in queue research ends, ask for less, or raise its limit (kai_queues).
      since: "2026-11-22T12:30:00Z"
      seconds: 412
unread:
  description: A sentence for each pod, queue, PodGroup and BindRequest that could not be read. RV(pods) says nothing about these.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import SCHEDULER_NAME
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kernel.module import run_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.lifecycle import pending

ARGUMENT_SPEC = {
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "label_selector": {"type": "str", "default": ""},
    "scheduler_name": {"type": "str", "default": SCHEDULER_NAME},
}


def reconcile(run: Run) -> Result:
    """Read the cluster and judge its pods."""
    return pending(run)


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
