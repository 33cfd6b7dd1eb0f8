#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.former_schedulers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: former_schedulers
short_description: Remove schedulers from a virtual cluster that are not wanted any more
version_added: 0.1.0
description:
  - Removes the schedulers that role P(kubegpu.tenancy.vcluster_tenant#role) installed by their charts in the virtual cluster of the
    kubeconfig, but for those in O(keep). For KAI Scheduler there is M(kubegpu.tenancy.kai_scheduler).
  - They are found by the label C(kubegpu.tenancy/scheduler) of their namespaces. The administrator of the virtual cluster can set it, too. So
    only namespaces are removed that have their own name as its value, and a name that such a scheduler can have. Those of Kubernetes and of
    KAI Scheduler are left alone. More than ten at once are refused.
  - Helm uninstalls the release that has the name of its namespace, without the chart's hooks, and then the namespace is deleted.
  - A namespace whose removal began in a run before is not waited for again, because the administrator of the virtual cluster decides when
    its finalizers end. A warning names it.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  keep:
    description:
      - Names of the schedulers that stay.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Seconds for the whole change, however many schedulers are removed, waits included.
    type: int
    default: 300
requirements:
  - helm >= 3.14
notes:
  - Helm uses O(kubeconfig) and O(context) of the authentication options only.
extends_documentation_fragment:
  - kubegpu.tenancy._helm_binary
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.kai_scheduler
"""

EXAMPLES = r"""
- name: Have no scheduler but volcano
  kubegpu.tenancy.former_schedulers:
    kubeconfig: /etc/kubegpu/dc1/tenants/batch.yml
    keep: [volcano]
"""

RETURN = r"""
schedulers:
  description: Names of the schedulers that were removed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [yunikorn]
steps:
  description: What was done, or would be in check mode, in that order, and why. Also in diffs.
  returned: when something was removed
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
    - {step: uninstall yunikorn, why: "its virtual cluster is to have another scheduler, or none", seconds: 1.3}
    - {step: remove namespace yunikorn, why: "its virtual cluster is to have another scheduler, or none", seconds: 0.1}
seconds:
  description: How long it took until their namespaces were gone.
  returned: success
  type: float
  sample: 7.4
last_seen:
  description: What was still there when time ran out.
  returned: when it did
  type: str
"""

from ..module_utils._engine.former_schedulers import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
