#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_queues."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_queues
short_description: Queues of KAI Scheduler
version_added: 0.1.0
description:
  - Brings the queues of KAI Scheduler to what a tree says, with one listing and only the writes that are needed, parents first.
  - Everything wrong with the tree is reported before anything is written. KAI's own webhook refuses next to nothing.
  - Amounts are written in devices, cores and bytes, and converted to the API's milli-CPU and megabytes.
  - A write that KAI's webhook does not answer yet, as after an installation, is tried again within O(timeout).
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) creates and changes the queues. Others in the cluster are left alone.
      - V(exact) also removes all other queues of the cluster that this collection owns, for example queues that O(queues) no longer
        names. It owns queues with the label C(app.kubernetes.io/managed-by=kubegpu.tenancy), which each queue gets.
      - V(absent) removes the queues. One that does not exist is fine.
      - With V(exact) and V(absent), a SchedulingShard that this collection made is removed with the last queue of its node pool.
      - Leaves are removed first. A queue with a child that would stay is refused.
    type: str
    choices: [present, exact, absent]
    default: present
  queues:
    description:
      - The queues, as a tree of C(children) or a flat list with C(parent).
      - C(name) is unique in the cluster. Work is submitted to leaves only.
      - C(gpu), C(cpu) and C(memory) each take C(quota), C(limit) and C(over_quota_weight), for example C(2) or C(0.5) GPUs,
        C(8) or C(500m) CPUs, C(64Gi) or C(10G) of memory, or C(unlimited).
      - An omitted quota of GPUs is zero, of CPU and memory unlimited. An omitted limit is unlimited, an omitted weight 1. An omitted
        resource is all three.
      - C(node_pool), of a queue without parent, is the value of the label C(kai.scheduler/node-pool) of the nodes that it and all queues
        below it are for. Nodes have to have it already. Where no SchedulingShard serves that pool, one of its name is made, by which KAI
        Scheduler runs a scheduler of its own for these nodes. Pods need the same label. It needs KAI Scheduler 0.10 or later.
      - C(priority) is 100 when omitted. C(preempt_min_runtime) and C(reclaim_min_runtime), such as C(5m), are inherited then.
        C(display_name) is shown to users.
      - What is omitted goes back to its default in the cluster too.
    type: list
    elements: dict
    required: true
  remove_foreign:
    description:
      - With O(state=exact), also removes queues that this collection does not own, for example those of the chart, or made by hand.
    type: bool
    default: false
  force:
    description:
      - Whether to remove queues in which pods have not ended, or to move them to another node pool. Such pods go on where they run, but a
        pending one stays pending.
    type: bool
    default: false
  quota_sums:
    description:
      - What to do when the quotas of a queue's children are more than its own, or those of a node pool's queues more than its GPUs. KAI
        Scheduler accepts that, and cannot keep what is promised.
    type: str
    choices: [warn, error]
    default: warn
  scheduler_name:
    description:
      - Name that pods ask for the scheduler by. Pods that name no queue run in C(default-queue).
    type: str
    default: kai-scheduler
  kai_version:
    description:
      - Version of the KAI Scheduler that is to use the queues, such as V(v0.16.8).
      - When given, the number of levels is checked. Releases before v0.13 schedule in queues on the second level only.
    type: str
  timeout:
    description:
      - Seconds for the whole change, waits included.
    type: int
    default: 120
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.kai_scheduler
  - module: kubegpu.tenancy.probe
"""

EXAMPLES = r"""
- name: Share four GPUs between training and notebooks
  kubegpu.tenancy.kai_queues:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    kai_version: v0.16.8
    queues:
      - name: ml
        gpu: {quota: 4, limit: 4}
        children:
          - {name: training, gpu: {quota: 3, limit: 4, over_quota_weight: 2}}
          - {name: notebooks, gpu: {quota: 1, limit: 2}, cpu: {limit: 500m}, priority: 50}

- name: Have these queues, remove others that this collection made, and refuse quotas that cannot be kept
  kubegpu.tenancy.kai_queues:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    state: exact
    quota_sums: error
    queues:
      - name: ml
        gpu: {quota: 4, limit: 4}
        children:
          - {name: training, gpu: {quota: 4, limit: 4}}

- name: Remove them
  kubegpu.tenancy.kai_queues:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    state: absent
    queues:
      - {name: ml}
      - {name: training, parent: ml}
      - {name: notebooks, parent: ml}
"""

RETURN = r"""
changes:
  description: What was written, or would be in check mode, in that order.
  returned: success
  type: list
  elements: dict
  contains:
    action:
      description: V(create), V(update) or V(delete).
      type: str
      returned: always
    name:
      description: Name of the queue.
      type: str
      returned: always
  sample:
    - {action: create, name: training}
steps:
  description: What was done, or would be done in check mode, in that order, and why.
  returned: when there is something to do
  type: list
  elements: dict
  contains:
    step:
      description: What.
      type: str
      returned: always
    why:
      description: The reason.
      type: str
      returned: always
    seconds:
      description: How long it took.
      type: float
      returned: not in check mode
  sample:
    - {step: create queue training, why: it does not exist, seconds: 0.1}
leaves:
  description: The queues of O(queues) that work can be submitted to.
  returned: success
  type: list
  elements: str
  sample: [training, notebooks]
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 0.4
problems:
  description: What is wrong with O(queues).
  returned: when O(queues) is refused
  type: list
  elements: dict
  contains:
    code:
      description: Kind of the problem, for programs.
      type: str
    text:
      description: The problem as a sentence, which begins with its place.
      type: str
"""

from ..module_utils._engine.kai_queues import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
