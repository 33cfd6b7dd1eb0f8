#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_probe
short_description: Check that KAI Scheduler schedules as it should
version_added: 0.1.0
description:
  - Runs small pods in the queues of KAI Scheduler and checks where they are placed and what they see, because an available
    scheduler is not yet one that schedules.
  - Pods start only where GPUs are free and queues are below their limits, with the lowest priority, so that no one is evicted for
    them. A check that lacks free capacity is reported as not tried, never as passed.
  - Everything is run in a namespace of its own, which is emptied and deleted at the end, also after a failure. What stays is a
    record of the results, in the ConfigMap C(kubegpu-probe) beside KAI Scheduler.
  - Fails when a check fails.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  queues:
    description:
      - The queues whose leaves are probed, as M(kubegpu.tenancy.kai_queues) takes them. Only their names matter, limits are the
        cluster's.
      - When empty, all leaves in the cluster are probed.
    type: list
    elements: dict
    default: []
  checks:
    description:
      - What to check.
      - V(cpu) runs a pod without a GPU in each leaf.
      - V(gpu) runs a pod with one GPU in each leaf, which must see exactly one.
      - V(gang) runs two pods in each leaf that may only start together.
      - V(gang_too_large) does so with a second pod that can never start, so that the first must not either.
      - V(over_limit) asks in each leaf for more GPUs than its limit, which must stay pending for that reason.
      - V(fraction), V(quarters), V(gpu_memory) and V(burst) run pods that share GPUs, in one leaf. KAI Scheduler must be installed with GPU
        sharing. Each GPU must be reserved for the pods that share it and have no other owner, none may be given out more than
        once, and pod groups and queue must count as allocated what the pods have.
      - V(fraction) runs 0.5, 0.25 and 0.25 of a GPU, one pod after the other, which must share one; V(quarters) four pods with 0.25.
      - V(gpu_memory) runs two pods that ask by annotation for half of the memory of a GPU, which must share one. Nodes must have the
        label C(nvidia.com/gpu.memory).
      - V(burst) runs four to ten pods with half a GPU at once, as many as fit into the free GPUs, of which there must be two. It is
        judged when all of them have run for five seconds.
      - Whatever is checked, what the scheduler and the operator logged meanwhile is searched for known causes of trouble, such as a
        missing CRD, a lost authorisation, or a webhook that does not answer, and KAI Scheduler's pods for images that do not come and
        for lack of memory. Where a log cannot be read, that check counts as not tried.
    type: list
    elements: str
    choices: [cpu, gpu, gang, gang_too_large, over_limit, fraction, quarters, gpu_memory, burst]
    default: [cpu, gpu, gang, gang_too_large, over_limit, fraction, quarters, gpu_memory, burst]
  accept_hazards:
    description:
      - Hazards of the release that are accepted, by the number of upstream's issue.
      - With V(#1103), pods that share a GPU that is not reserved any more, and so free for others, have the verdict V(accepted), which
        names that GPU and does not fail. Other names change nothing here.
    type: list
    elements: str
    default: []
  image:
    description:
      - Image of the pods. It needs C(/bin/sh) and, on real GPUs, the GNU C library for the host's C(nvidia-smi).
    type: str
    default: docker.io/library/busybox:1.37.0
  tolerations:
    description:
      - Tolerations of the pods.
    type: list
    elements: dict
    default: []
  node_selector:
    description:
      - Labels of the nodes that the pods may run on, each with its value. All nodes when empty.
      - In a host cluster it keeps the pods away from nodes of tenants whose own scheduler gives their GPUs out at the same time.
    type: dict
    default: {}
  namespace:
    description:
      - Namespace of the pods. It is created and deleted. One that exists and is not owned by this collection is refused.
    type: str
    default: kai-probe
  namespace_labels:
    description:
      - Labels of that namespace, for a KAI Scheduler that only serves namespaces with certain labels
        (C(global.namespaceLabelSelector) in its values).
    type: dict
    default: {}
  timeout:
    description:
      - Seconds for the whole probe, waits included. Checks that start together may use half of what is left while others wait.
        When all is used up, emptying the namespace may take 30 seconds more.
    type: int
    default: 240
  max_age:
    description:
      - Seconds. When the last probe is no older, all of it passed or was accepted, it had the same options, and queues, nodes and
        KAI Scheduler's own pods are as they were then, its results are returned and nothing is run.
      - V(0) always runs the checks.
    type: int
    default: 0
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._kai_pods
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    details: Nothing is run in check mode. All checks are returned as not tried.
  diff_mode:
    support: none
  idempotent:
    details: Nothing but the record is left in the cluster, so nothing ever counts as changed.
seealso:
  - module: kubegpu.tenancy.kai_scheduler
  - module: kubegpu.tenancy.kai_queues
"""

EXAMPLES = r"""
- name: Check that the team's queues work
  kubegpu.tenancy.kai_probe:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    queues: "{{ kubegpu_tenants[0].queues }}"

- name: Check that every leaf gives a whole GPU, on real ones
  kubegpu.tenancy.kai_probe:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    checks: [gpu]
    image: docker.io/library/ubuntu:24.04

- name: Look for the lost reservations of a release that is known for them, and go on
  kubegpu.tenancy.kai_probe:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    checks: [burst]
    accept_hazards: ["#1103"]
"""

RETURN = r"""
results:
  description: One record for each check.
  returned: success, and when a check failed
  type: list
  elements: dict
  contains:
    name:
      description: The check, as in O(checks), or V(logs).
      type: str
      returned: always
    queue:
      description: The queue. Empty for V(logs).
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed), V(not_tried), or V(accepted), which is what O(accept_hazards) says.
      type: str
      returned: always
    reason:
      description: What was observed.
      type: str
      returned: always
    seconds:
      description: Seconds from the creation of its pods to the verdict.
      type: float
      returned: always
  sample:
    - {name: gpu, queue: training, verdict: passed, reason: sees GPU-1b7d3f2a-0c55-5d0e-9c1f-2f8f3c1f6a10 only, seconds: 3.1}
seconds:
  description: How long everything took, until the namespace was empty.
  returned: success
  type: float
  sample: 17.2
at:
  description: When the checks were run, in UTC.
  returned: when they were
  type: str
  sample: "2026-11-21T12:30:00Z"
recorded:
  description: Whether the results are those of an earlier probe, as O(max_age) allows.
  returned: success
  type: bool
"""

from ..module_utils._engine.kai_probe import ARGUMENT_SPEC, LEAST, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
