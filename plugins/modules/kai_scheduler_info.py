#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_scheduler_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_scheduler_info
short_description: Report the state of KAI Scheduler in a cluster
version_added: 0.1.0
description:
  - Reports which release of KAI Scheduler a cluster has, whether all of its parts are available, what is known of that release,
    and the last results of M(kubegpu.tenancy.probe), kind V(kai_scheduling).
author: kubegpu.tenancy contributors (@kubegpu)
extends_documentation_fragment:
  - kubegpu.tenancy._helm_binary
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
notes:
  - O(kubeconfig) has to be the path of a file on the host where the module runs, because C(helm) reads it too.
seealso:
  - module: kubegpu.tenancy.kai_scheduler
"""

EXAMPLES = r"""
- name: Read the state of the team's scheduler
  kubegpu.tenancy.kai_scheduler_info:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
  register: scheduler

- name: Require a release with support
  ansible.builtin.assert:
    that: scheduler.ready and scheduler.supported
    fail_msg: "{{ scheduler.missing }} {{ scheduler.hazards }}"
"""

RETURN = r"""
installed:
  description: Whether Helm knows a release of it. All other values are returned only then.
  returned: success
  type: bool
version:
  description: Its version.
  returned: when installed
  type: str
  sample: v0.16.8
known:
  description: Whether the table of releases knows the version. A newer one is treated as the newest known one.
  returned: when installed
  type: bool
status:
  description: Helm's status of the release.
  returned: when installed
  type: str
  sample: deployed
values:
  description: Values that were given to the chart, each as a digest. What is true, false, null or empty stands as it is.
  returned: when installed
  type: dict
installed_by:
  description: V(helm) where Helm made all Deployments, V(operator) where an operator makes them from a Config.
  returned: when installed
  type: str
  sample: operator
ready:
  description: Whether all of its parts are available.
  returned: when installed
  type: bool
missing:
  description: Which are not, and why.
  returned: when installed
  type: list
  elements: str
  sample: [Deployment binder does not exist]
conditions:
  description: Conditions that its Config and its SchedulingShards report.
  returned: when installed
  type: list
  elements: dict
  contains:
    object:
      description: Kind and name.
      type: str
      returned: always
    type:
      description: The condition.
      type: str
      returned: always
    status:
      description: V(True), V(False) or V(Unknown).
      type: str
      returned: always
    current:
      description: Whether it is about the object as it is now.
      type: bool
      returned: always
    message:
      description: Its reason.
      type: str
      returned: always
  sample:
    - {object: Config kai-config, type: Available, status: "True", current: true, message: All operands are available}
hazards:
  description:
    - What is known to go wrong with the version, each with its name.
    - Hazards that touch some work only stand last. They refuse no release, and cannot be accepted.
  returned: when installed
  type: list
  elements: str
  sample: ["#104: its pod webhook stops every pod of the cluster while it does not answer"]
touching_hazards:
  description: The hazards that touch what is installed, alike, and V(open-gpus) where that does.
  returned: when installed
  type: list
  elements: str
  sample: []
accepted_hazards:
  description: Names of the hazards that touch what is installed, and were accepted when it was.
  returned: when installed
  type: list
  elements: str
  sample: []
long_term:
  description: Whether its releases are supported for a year.
  returned: when installed
  type: bool
end_of_support:
  description: The last month with corrections. Null where upstream has not said.
  returned: when installed
  type: str
  sample: 2026-12
supported:
  description: Whether that month is not over.
  returned: when installed
  type: bool
kubernetes_tested:
  description: Whether upstream tests with the cluster's version of Kubernetes. Null where it does not say.
  returned: when installed
  type: bool
last_probe:
  description:
    - What M(kubegpu.tenancy.probe) recorded last, of the kind V(kai_scheduling). Null where it recorded nothing, or its record cannot be read.
    - Of a tenant's own KAI Scheduler, M(kubegpu.tenancy.tenancy_info) returns what was verified.
  returned: when installed
  type: dict
"""

from ..module_utils._engine.kai_scheduler_info import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
