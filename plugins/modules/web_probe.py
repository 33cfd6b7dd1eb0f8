#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.web_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: web_probe
short_description: Check that a cluster runs ordinary workloads
version_added: 0.1.0
description:
  - Serves a web page with a random text by a Deployment, fetches it from another pod through its Service's DNS name, in a namespace
    of its own that is deleted at the end.
  - What it shows to work are scheduling, by the default scheduler or the one that is named, image pulls, the cluster's DNS and its Services.
  - Its pods satisfy the pod security standard V(restricted) and have small limits.
  - Fails when a check fails.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  namespace:
    default: kubegpu-web-probe
  image:
    description:
      - Image of the pods, with busybox's C(sh), C(httpd) and C(wget).
    default: docker.io/library/busybox:1.37.0
  scheduler_name:
    description:
      - The scheduler that has to place the pods, as pods name it.
    type: str
    default: default-scheduler
  queues:
    description:
      - Tree of queues of KAI Scheduler, as M(kubegpu.tenancy.kai_queues) takes it. The pods are submitted to its first leaf.
    type: list
    elements: dict
    default: []
  tolerations:
    default: []
  timeout:
    default: 90
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._probe
  - kubegpu.tenancy._probe.image
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.kai_probe
  - module: kubegpu.tenancy.network_policy_probe
"""

EXAMPLES = r"""
- name: See a web page served in the tenant's cluster
  kubegpu.tenancy.web_probe:
    kubeconfig: /etc/kubegpu/dc1/web.yml

- name: See one served by pods that the host cluster's KAI Scheduler places
  kubegpu.tenancy.web_probe:
    kubeconfig: /etc/kubegpu/dc1/team-vision.yml
    scheduler_name: kai-scheduler
    queues: [{name: vision, children: [{name: training}]}]
"""

RETURN = r"""
results:
  description: One record for each check.
  returned: success, and when a check failed
  type: list
  elements: dict
  contains:
    name:
      description: The check. V(page) is the web page through its Service, V(scheduler) the scheduler of the pods.
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed) or V(not_tried).
      type: str
      returned: always
    reason:
      description: What was seen.
      type: str
      returned: always
    seconds:
      description: Seconds until the verdict.
      type: float
      returned: always
  sample:
    - {name: page, verdict: passed, reason: fetched through Service kubegpu-web-probe, seconds: 3.9}
    - {name: scheduler, verdict: passed, reason: default-scheduler, seconds: 3.9}
seconds:
  description: How long everything took, the removal of the workload included.
  returned: success
  type: float
  sample: 7.4
"""

from ..module_utils._engine.web_probe import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
