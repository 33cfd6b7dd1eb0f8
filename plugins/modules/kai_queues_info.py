#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_queues_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_queues_info
short_description: Report the queues of KAI Scheduler and what is allocated in them
version_added: 0.1.0
description:
  - Reads all queues of KAI Scheduler and all pod groups, a listing each, and returns the queues as a tree, with what is allocated and
    requested beside quota and limit, all in the units that M(kubegpu.tenancy.kai_queues) takes.
  - Amounts of a queue include those of the queues below it.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  gpu_resource:
    description:
      - Name of the extended resource that is counted as C(gpu).
    type: str
    default: nvidia.com/gpu
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
seealso:
  - module: kubegpu.tenancy.kai_queues
"""

EXAMPLES = r"""
- name: Read the team's queues
  kubegpu.tenancy.kai_queues_info:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
  register: team

- name: Show how many GPUs each root holds
  ansible.builtin.debug:
    msg: "{{ item.name }} holds {{ item.gpu.allocated }} of {{ item.gpu.quota }} GPUs"
  loop: "{{ team.queues }}"
"""

RETURN = r"""
queues:
  description: The queues without a parent, or whose parent does not exist, in order of their names.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    owned:
      description: Whether this collection made it, by its label.
      type: bool
      returned: always
    parent:
      description: Name of its parent. A queue whose parent does not exist is ignored by the scheduler.
      type: str
      returned: always
    priority:
      description: Its priority.
      type: int
      returned: always
    display_name:
      description: Its name as shown to users.
      type: str
      returned: always
    preempt_min_runtime:
      description: How long its workloads run before others of the same queue may take their place.
      type: str
      returned: always
    reclaim_min_runtime:
      description: How long its workloads run before other queues may reclaim what is theirs.
      type: str
      returned: always
    gpu:
      description: GPU devices, with fractions. C(cpu), in cores, and C(memory) have the same keys.
      type: dict
      returned: always
      contains:
        quota:
          description: Its quota, or V(unlimited).
          type: raw
          returned: always
        limit:
          description: Its limit, or V(unlimited).
          type: raw
          returned: always
        over_quota_weight:
          description: Its weight when what is left over is shared.
          type: raw
          returned: always
        allocated:
          description: What its running pods hold.
          type: raw
          returned: always
        allocated_non_preemptible:
          description: What of that cannot be taken back.
          type: raw
          returned: always
        requested:
          description: What its running and pending pods ask for.
          type: raw
          returned: always
    children:
      description: The queues below it, alike.
      type: list
      elements: dict
      returned: always
  sample:
    - name: training
      owned: true
      parent: null
      priority: 100
      gpu:
        quota: 3
        limit: 4
        over_quota_weight: 2
        allocated: 1.5
        allocated_non_preemptible: 0
        requested: 2.5
      children: []
unread:
  description: A sentence for each queue and pod group that could not be read. RV(queues) has and counts none of it.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ..module_utils._engine.kai_queues_info import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
