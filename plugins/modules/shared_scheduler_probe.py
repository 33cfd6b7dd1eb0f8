#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.shared_scheduler_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_scheduler_probe
short_description: Check what a tenant gets, and what it is kept from, on what it shares with others
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Runs pods in a tenant, in its own queue of the host cluster's KAI Scheduler, and compares what the tenant sees with what the host cluster
    does. Each pod has to see one GPU, to be placed by that scheduler, and to count in that queue.
  - Creates pods that the host cluster's policies have to refuse, and expects an event in the tenant that says why. Of a tenant that shares nodes
    alone, only V(devices) can be checked.
  - The pods run in a namespace of the tenant that is removed with them.
  - What needs a GPU is tried only while one of the tenant's nodes, its queue and its quota have one left.
options:
  tenant:
    description:
      - Name of the tenant.
    type: str
    required: true
  tenant_kubeconfig:
    description:
      - Kubeconfig of the tenant's administrator.
    type: path
    required: true
  queues:
    description:
      - The tenant's tree of queues. The pods run in its first leaf. Without one, V(gpu) and V(fraction) are not tried.
    type: list
    elements: dict
    default: []
  checks:
    description:
      - What to check. V(queue) has a pod name a queue that is not the tenant's, and V(devices) a pod ask to see all GPUs of its node, which the
        host cluster has to refuse, and the tenant to be told by an event. V(gpu) runs a pod with a whole GPU. V(fraction) runs two with half a
        GPU each, one after the other, which have to share one that is reserved for them, or be on GPUs that others share.
    type: list
    elements: str
    choices: [queue, devices, gpu, fraction]
    default: [queue, devices, gpu, fraction]
  accept_hazards:
    description:
      - Hazards of the scheduler's release that are accepted. With V(#1103), a shared GPU that nobody reserves has the verdict V(accepted).
    type: list
    elements: str
    default: []
  namespace:
    default: kubegpu-shared-probe
  image:
    description:
      - Image of the pods. It needs C(/bin/sh) and, on real GPUs, the GNU C library for the host's C(nvidia-smi).
    default: docker.io/library/busybox:1.37.0
  tolerations:
    default: []
  timeout:
    default: 120
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
- name: Check what a tenant gets
  kubegpu.tenancy.shared_scheduler_probe:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    tenant: team-vision
    tenant_kubeconfig: /etc/kubegpu/kubegpu/tenants/team-vision.yml
    queues:
      - {name: vision, gpu: {quota: 2, limit: 4}}
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
      description: The queue. Empty where no pod names one.
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed), V(not_tried), or V(accepted), which is what O(accept_hazards) says.
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
    - name: gpu
      queue: vision
      verdict: passed
      reason: GPU-4ad473ca-bfbd-ef6e-1a5b-d1d38a34b330; in queue vision on the host cluster
      seconds: 3.1
seconds:
  description: How long everything took.
  returned: success, or when a check failed
  type: float
  sample: 9.4
"""

from ..module_utils._engine.shared_scheduler_probe import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
