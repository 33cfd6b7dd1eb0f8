#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the desired state of a cluster's tenants."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenancy_plan
short_description: Check the desired state of a cluster's tenants
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Checks what is wanted before anything is touched, without access to a cluster.
  - All problems are reported at once, each with the variable's path and what would be right.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
options:
  tenants:
    description:
      - The tenants, normally the variable C(kubegpu_tenants).
      - A list of dictionaries with the keys C(name), C(trust), C(gpu_nodes), C(vcluster), C(scheduler) and C(queues),
        of which the first two are required. Their types are checked strictly, nothing is converted.
    type: raw
    required: true
  provider:
    description:
      - V(nvkind) for a cluster that this collection makes, V(existing) for one that is there.
    type: str
    choices: [nvkind, existing]
    default: nvkind
  workers:
    description:
      - Layout of the cluster that is made, one dictionary a worker, with a list of GPUs as C(gpus) or a number as C(count).
      - No more nodes and GPUs may be asked for than it has. With O(provider=existing) it is ignored, because only
        M(kubegpu.tenancy.tenant_nodes) can tell what the cluster has.
    type: list
    elements: dict
  shared_scheduler:
    description:
      - The host cluster's own KAI Scheduler, normally the variable C(kubegpu_shared_scheduler), with the keys C(name), V(kai),
        C(version), C(gpu_sharing) and C(values). Tenants with C(scheduler.shared) submit to its queues. Empty without one.
    type: raw
  gpus:
    description:
      - GPU devices of the host that the cluster is made on, where that is known beforehand. The workers may not ask for more.
    type: int
seealso:
  - module: kubegpu.tenancy.tenant_nodes
"""

EXAMPLES = r"""
- name: Check the desired state
  kubegpu.tenancy.tenancy_plan:
    tenants:
      - name: team-ml
        trust: high
        gpu_nodes: {count: 1}
        scheduler: {name: kai, version: v0.13.1, gpu_sharing: true}
        queues:
          - name: ml
            gpu: {quota: 4, limit: 4}
            children:
              - {name: training, gpu: {quota: 4, limit: 4}}
      - name: web
        trust: partial
    workers:
      - {gpus: 4}
      - {gpus: 4}
  register: plan

- name: Show the tenants with a scheduler of their own
  ansible.builtin.debug:
    msg: "{{ plan.tenants | selectattr('scheduler') | map(attribute='name') }}"
"""

RETURN = r"""
tenants:
  description:
    - The tenants, each with every key. What was not given is empty, except C(vcluster.version), which has a default.
  returned: success
  type: list
  elements: dict
  sample:
    - name: web
      trust: partial
      gpu_nodes: {}
      vcluster: {version: 0.36.1, kubernetes_version: '', values: {}}
      scheduler: {}
      queues: []
shared_queues:
  description: Queues of the tenants with C(scheduler.shared), one tree for the host cluster's KAI Scheduler.
  returned: success
  type: list
  elements: dict
  sample: []
problems:
  description: Everything that is wrong with the desired state.
  returned: failure
  type: list
  elements: str
  sample:
    - "kubegpu_tenants[0].trsut: unknown key. Did you mean trust? Allowed here: name, trust, gpu_nodes, vcluster, scheduler, queues."
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.plan import plan, shared_queues


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "tenants": {"type": "raw", "required": True},
            "provider": {"type": "str", "choices": ["nvkind", "existing"], "default": "nvkind"},
            "workers": {"type": "list", "elements": "dict"},
            "gpus": {"type": "int"},
            "shared_scheduler": {"type": "raw"},
        },
        supports_check_mode=True,
    )
    try:
        workers = module.params["workers"] if module.params["provider"] == "nvkind" else None
        tenants = plan(module.params["tenants"], workers, module.params["gpus"], module.params["shared_scheduler"])
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(changed=False, tenants=tenants, shared_queues=shared_queues(tenants))


if __name__ == "__main__":
    main()
