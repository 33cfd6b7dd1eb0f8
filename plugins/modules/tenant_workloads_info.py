#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenant_workloads_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenant_workloads_info
short_description: Read the schedulers, queues and waiting pods of tenants
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Asks the virtual clusters of tenants, several at once. What cannot be read of one stops nothing else.
options:
  names:
    description:
      - Names of the tenants, which have to run.
    type: list
    elements: str
    required: true
  read:
    description:
      - What is read. V(scheduler) is what M(kubegpu.tenancy.kai_scheduler_info) returns, V(queues) what M(kubegpu.tenancy.kai_queues_info)
        does, and V(pods) what M(kubegpu.tenancy.kai_pending_info) does.
    type: list
    elements: str
    choices: [scheduler, queues, pods]
    default: [scheduler, queues, pods]
  sharing:
    description:
      - Names of the tenants that share the host cluster's KAI Scheduler. They have no scheduler and no queues of their own.
    type: list
    elements: str
    default: []
  kubeconfigs:
    description:
      - Folder of the tenants' kubeconfigs, which are called C(TENANT.yml).
    type: path
    required: true
  timeout:
    description:
      - Seconds for what is read of each tenant, in all. The tenant decides how slowly its virtual cluster answers.
    type: int
    default: 60
extends_documentation_fragment:
  - kubegpu.tenancy._helm_binary
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
notes:
  - O(kubeconfig) has to be the path of a file on the host where the module runs.
seealso:
  - module: kubegpu.tenancy.kai_scheduler_info
  - module: kubegpu.tenancy.kai_queues_info
  - module: kubegpu.tenancy.kai_pending_info
"""

EXAMPLES = r"""
- name: Read why pods wait
  kubegpu.tenancy.tenant_workloads_info:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    kubeconfigs: /etc/kubegpu/dc1/tenants
    names: [team-ml, team-research]
    read: [pods]
"""

RETURN = r"""
tenants:
  description: What was read of each tenant, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    parts:
      description: By C(scheduler), C(queues) and C(pods), what their modules returned. What could not be read has C(failed) and C(msg).
      type: dict
      returned: always
"""

import typing as t

from ..module_utils._common.parallel import concurrently
from ..module_utils._common.run import Result
from ..module_utils._common.wait import Deadline
from ..module_utils._desired.model import Tenant
from ..module_utils._engine.reading import READERS, read
from ..module_utils._engine.work import Work
from ..module_utils._kernel.module import ClusterRun, run_module

ARGUMENT_SPEC: dict[str, t.Any] = {
    "names": {"type": "list", "elements": "str", "required": True},
    "read": {"type": "list", "elements": "str", "choices": list(READERS), "default": list(READERS)},
    "sharing": {"type": "list", "elements": "str", "default": []},
    "kubeconfigs": {"type": "path", "required": True},
    "timeout": {"type": "int", "default": 60},
    "helm_binary": {"type": "str", "default": "helm"},
}


def reconcile(run: ClusterRun) -> Result:
    """Read from all tenants, several at once."""

    def read_one(name: str) -> Result:
        work = Work(run.part, Tenant(name, ""), run.params, True, Deadline(run.params["timeout"]))
        read(work)
        return {"name": name, "parts": work.report.parts}

    return {"changed": False, "tenants": concurrently(read_one, run.params["names"])}


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
