#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenant_nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenant_nodes
short_description: Assign a cluster's nodes to its tenants
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Labels nodes of the host cluster with C(tenant.kubegpu.tenancy/<tenant>=true), for all tenants at once.
  - A node stays with the tenant it is labelled for. Tenants that ask for a number of nodes get free ones in the order of
    their names. A node with GPUs belongs to one tenant only, unless all of its tenants have C(gpu_nodes.shared_gpus).
  - Tenants whose schedulers do not see each other's pods share a node only where their quotas fit on it together.
  - Nodes of a tenant with C(trust=zero) get the taint C(kubegpu.tenancy/dedicated=<tenant>:NoSchedule).
  - Tenants without C(gpu_nodes) share the nodes without GPUs. Control-plane nodes count only where there are no others.
  - Nodes labelled for a tenant that is not listed are left alone and are not free, because that tenant's pods may still
    run there. Whether it shares them is read from its virtual cluster. Use O(state=absent) after the tenant was removed.
  - A node is written only as it was read. Where another client changes it meanwhile, it is read again and tried once more. It is
    refused where another run gave it to another tenant.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
options:
  tenants:
    description:
      - The cluster's tenants, as C(kubegpu_tenants) lists them or M(kubegpu.tenancy.tenancy_plan) returns them. Those whose
        C(state) is V(absent) give up their nodes once their virtual clusters are gone. Check mode takes that for granted.
      - With O(state=absent) only their names matter, and without it all tenants are meant.
    type: list
    elements: dict
  only:
    description:
      - Names of the tenants whose labels and taints may change. The others count as they are. All of them when empty.
    type: list
    elements: str
    default: []
  state:
    description:
      - V(present) gives each tenant its nodes.
      - V(absent) takes the nodes from the O(tenants), or every label and taint of this collection from all nodes.
    type: str
    choices: [present, absent]
    default: present
requirements:
  - kubernetes >= 24.2.0
  - jsonpatch
  - PyYAML
seealso:
  - module: kubegpu.tenancy.tenancy_plan
"""

EXAMPLES = r"""
- name: Assign nodes
  kubegpu.tenancy.tenant_nodes:
    kubeconfig: /etc/kubegpu/lab/cluster.yml
    tenants: "{{ plan.cluster.tenants }}"

- name: Give up the nodes of a removed tenant
  kubegpu.tenancy.tenant_nodes:
    kubeconfig: /etc/kubegpu/lab/cluster.yml
    tenants:
      - name: team-ml
    state: absent
"""

RETURN = r"""
assignments:
  description: Names of the nodes of each tenant.
  returned: O(state=present)
  type: dict
  sample: {team-ml: [lab-worker], web: [lab-worker3]}
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
    - {step: label and taint node lab-worker, why: it is to belong to team-ml, seconds: 0.1}
seconds:
  description: How long everything took.
  returned: success
  type: float
  sample: 0.1
problems:
  description: Everything that is wrong with the tenants, or with what they ask of the nodes.
  returned: failure
  type: list
  elements: dict
  contains:
    code:
      description: Kind of the problem, for programs.
      type: str
    text:
      description: The problem as a sentence, which begins with its place.
      type: str
  sample:
    - code: no-gpu-node
      text: "kubegpu_tenants[0] (team-ml).gpu_nodes.names[0]: n9 is not a node of the cluster. The cluster's nodes with GPUs: lab-worker."
"""

from ..module_utils._engine.tenant_nodes import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, required_if=[("state", "present", ("tenants",))])


if __name__ == "__main__":
    main()
