#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.rehearsal_gate."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_gate
short_description: Refuse a change of KAI Scheduler that no rehearsal promoted
version_added: 0.1.0
description:
  - Compares KAI Scheduler and the queues of a cluster with what is asked for. Fails where they differ, unless one of O(verdicts) is about
    exactly that change, is not too old, and is V(promote).
  - A change that was ended in the middle may be finished by its verdict.
  - Where no KAI Scheduler is installed, or nothing changes, there is nothing to refuse.
  - Only reads from the cluster.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  version:
    description:
      - Version of KAI Scheduler that is asked for.
    type: str
    required: true
  gpu_sharing:
    description:
      - Whether pods may ask for fractions of a GPU.
    type: bool
    default: false
  values:
    description:
      - Values for its chart.
    type: dict
    default: {}
  queues:
    description:
      - Tree of queues that is asked for, as M(kubegpu.tenancy.kai_queues) takes it.
    type: list
    elements: dict
    default: []
  verdicts:
    description:
      - Verdicts of any rehearsals, of what M(kubegpu.tenancy.rehearsal) returned C(format), C(at), C(change), C(result) and C(reasons).
    type: list
    elements: dict
    default: []
  max_age:
    description:
      - How many days a verdict is good for, V(1) at least.
    type: int
    default: 30
  accept_holds:
    description:
      - Names of changes that may be made although their verdict is V(hold).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - kubegpu.tenancy._helm_binary
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
notes:
  - O(kubeconfig) has to be the path of a file on the host where the module runs, because C(helm) reads it too.
seealso:
  - module: kubegpu.tenancy.rehearsal
  - module: kubegpu.tenancy.kai_scheduler
"""

EXAMPLES = r"""
- name: Upgrade only as it was rehearsed
  kubegpu.tenancy.rehearsal_gate:
    kubeconfig: /etc/kubegpu/dc1/tenants/team-ml.yml
    version: v0.16.8
    queues: "{{ queues }}"
    verdicts: ["{{ lookup('ansible.builtin.file', 'rehearsals/verdict-v0.13.1-to-v0.16.8-3f2a9c01d4.json') | from_json }}"]
"""

RETURN = r"""
change:
  description: Name of the change. Empty where there is none.
  returned: success
  type: str
  sample: v0.13.1-to-v0.16.8-3f2a9c01d4
differences:
  description: What changes, by its path.
  returned: success
  type: list
  elements: str
  sample: [version, queues.training.gpu.limit]
steps:
  description: That it may be made, and by which verdict. Empty where there is no change.
  returned: success
  type: list
  elements: dict
  sample: [{step: let the change through, why: "v0.13.1-to-v0.16.8-3f2a9c01d4: promote, 2026-11-23T10:00:00+00:00"}]
"""

from ..module_utils._engine.rehearsal_gate import ARGUMENT_SPEC, LEAST, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
