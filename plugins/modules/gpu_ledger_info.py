#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: gpu_ledger_info
short_description: Tell whose GPUs are whose on a host cluster
version_added: 0.1.0
description:
  - Reads the host cluster's nodes and pods, and tells for each node whose it is, how many GPUs it offers and how many
    are taken.
  - A virtual cluster does not see what other tenants take; only the host cluster does.
author: kubegpu.tenancy contributors (@kubegpu)
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
  - kubernetes.core.k8s_auth_options
attributes:
  diff_mode:
    support: none
options: {}
requirements:
  - kubernetes >= 24.2.0
"""

EXAMPLES = r"""
- name: Read the ledger
  kubegpu.tenancy.gpu_ledger_info:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
  register: ledger
"""

RETURN = r"""
nodes:
  description: One row a node, in name order.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: The node's name.
      type: str
    tenants:
      description: Names of the tenants whose node it is.
      type: list
      elements: str
    allocatable:
      description: GPU devices the node offers.
      type: int
    in_use:
      description: GPU devices that running or starting pods hold.
      type: int
  sample:
    - {node: kubegpu-worker, tenants: [team-ml], allocatable: 4, in_use: 2}
"""

from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kube import Kube, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._ledger import ledger


def main() -> None:
    module = kube_module({})
    try:
        kube = Kube.connect(module)
        rows = ledger(kube.list("v1", "Node"), kube.list("v1", "Pod"))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)
    module.exit_json(changed=False, nodes=rows)


if __name__ == "__main__":
    main()
