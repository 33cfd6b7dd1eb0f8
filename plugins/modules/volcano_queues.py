#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.volcano_queues."""

from __future__ import annotations

DOCUMENTATION = r"""
module: volcano_queues
short_description: Queues of Volcano
version_added: 0.1.0
description:
  - Has exactly these queues of Volcano in a cluster. Other queues with the label C(app.kubernetes.io/managed-by=kubegpu.tenancy) are removed.
    Those without it, such as C(default) and C(root), are left alone.
  - The queues are written as for M(kubegpu.tenancy.kai_queues). C(quota) becomes what a queue deserves, and C(limit) its capability. What
    Volcano's queues cannot say is refused, each by its path, before anything is written.
  - Volcano keeps to what a queue deserves by its plugin C(capacity), which the chart's values have to name. Playbook C(kubegpu.tenancy.site) sets
    them for a tenant with C(scheduler.name) V(volcano).
author: kubegpu.tenancy contributors (@kubegpu)
options:
  queues:
    description:
      - The queues, each with C(name), and with C(gpu), C(cpu) and C(memory), which take C(quota) and C(limit) as for
        M(kubegpu.tenancy.kai_queues). An omitted quota deserves no GPUs, and any CPU and memory up to the limit. An omitted limit is unlimited.
      - Children, weights, priorities, parts of GPUs and minimal run times are refused.
    type: list
    elements: dict
    required: true
  version:
    description:
      - Release of Volcano, such as V(1.10.0). Queues of a release for which they were not tried are refused. Empty where that does not matter.
    type: str
    default: ""
  timeout:
    description:
      - Seconds. After an installation, Volcano's webhook may not answer for some of them.
    type: int
    default: 120
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    details: The queues are read and checked. None is written.
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Half of the tenant's GPUs for each of two teams, which may lend them to each other
  kubegpu.tenancy.volcano_queues:
    kubeconfig: /etc/kubegpu/dc1/tenants/team-hpc.yml
    version: 1.10.0
    queues:
      - {name: weather, gpu: {quota: 8}}
      - {name: chemistry, gpu: {quota: 8, limit: 12}}
"""

RETURN = r"""
leaves:
  description: The queues that work can be submitted to.
  returned: success
  type: list
  elements: str
  sample: [weather, chemistry]
steps:
  description: What was done, in order, each with the reason. In check mode, what would be.
  returned: success
  type: list
  elements: dict
  contains:
    step:
      description: What was done.
      type: str
    why:
      description: The reason.
      type: str
    seconds:
      description: How long it took.
      type: float
      returned: not in check mode
  sample:
    - {step: create queue weather, why: it does not exist, seconds: 0.1}
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

from ..module_utils._engine.volcano_queues import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
