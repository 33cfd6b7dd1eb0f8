#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_policy_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_policy_probe
short_description: Check that KAI Scheduler divides GPUs as its policies say
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Runs pods in queues of its own and checks who gets the GPUs. What it creates is removed at the end, also after a failure. A run that was
    killed is cleaned up by the next.
  - Its pods are evicted on purpose. Nobody else's may be, so a check is tried only while no other pod holds or waits for a GPU of this
    scheduler on these nodes, and its queues are limited to GPUs that are free.
options:
  checks:
    description:
      - What to check.
      - V(reclaim) has a queue without quota use all of the check's GPUs, and one with quota take one back.
      - V(preemption) has a pod of a higher class take the place of one of a lower class in its queue.
      - V(fair_share) has two queues without quota ask for all GPUs, which have to be divided by their over-quota weights, 1 to 3.
      - V(elastic) takes one pod from a group that needs fewer than it has. The others have to run on.
      - V(roles) has two workers wait for their leader, without which their group must not start.
      - V(job) has a Job wait whose pods have to start together and do not fit, and run where they do. It needs KAI Scheduler 0.14.1 or later.
      - V(packing) places two pods, on one node or on two, as the scheduler's placement strategy says. It needs two nodes with two GPUs each.
      - V(topology) has a group that has to run within one node wait where no node has room for it, and run where one has. It needs
        KAI Scheduler 0.12 or later, and two nodes with GPUs that no other pod holds.
    type: list
    elements: str
    choices: [reclaim, preemption, fair_share, elastic, roles, job, packing, topology]
    default: [reclaim, preemption, fair_share, elastic, roles, job, packing, topology]
  image:
    description:
      - Image of the pods. It needs C(/bin/sh).
    default: docker.io/library/busybox:1.37.0
  tolerations:
    default: []
  node_selector:
    description:
      - Labels of the nodes that the pods may run on, each with its value. All nodes when empty.
    type: dict
    default: {}
  namespace:
    default: kai-policy-probe
  namespace_labels:
    description:
      - Labels of that namespace, for a KAI Scheduler that only serves namespaces with certain labels.
    type: dict
    default: {}
  timeout:
    description:
      - Seconds for the whole probe, waits included. Each check has an equal part of what those before it left. When all is used up, removing
        what it created may take 30 seconds more.
    default: 300
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._probe
  - kubegpu.tenancy._probe.image
  - kubegpu.tenancy._kai_pods
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.probe
"""

EXAMPLES = r"""
- name: See whether quotas hold before teams move in
  kubegpu.tenancy.kai_policy_probe:
    kubeconfig: /etc/kubegpu/kubegpu/tenants/team-ml.yml
    checks: [reclaim, fair_share]
"""

RETURN = r"""
results:
  description: One result for each check.
  returned: success, or when a check failed
  type: list
  elements: dict
  contains:
    name:
      description: The check.
      type: str
      returned: always
    queue:
      description: Empty, because the queues are the probe's own.
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed) or V(not_tried).
      type: str
      returned: always
    reason:
      description: What was seen, or what it needs.
      type: str
      returned: always
    seconds:
      description: How long it took.
      type: float
      returned: always
  sample:
    - name: reclaim
      queue: ""
      verdict: passed
      reason: a queue without quota used 4 GPUs, and gave one back to the queue whose quota it was
      seconds: 12.3
seconds:
  description: How long everything took.
  returned: success, or when a check failed
  type: float
  sample: 61.5
"""

from ..module_utils._engine.kai_policy_probe import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
