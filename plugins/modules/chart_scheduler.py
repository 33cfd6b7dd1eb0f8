#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.chart_scheduler."""

from __future__ import annotations

DOCUMENTATION = r"""
module: chart_scheduler
short_description: Have a scheduler other than KAI Scheduler in a virtual cluster, by its chart
version_added: 0.1.0
description:
  - Installs or upgrades the chart's release in the virtual cluster of the kubeconfig, with exactly these values. The release and its namespace
    have the scheduler's name. The namespace gets the label C(kubegpu.tenancy/scheduler), by which M(kubegpu.tenancy.former_schedulers)
    finds it.
  - After a change, waits until the Deployments, StatefulSets and DaemonSets of the chart have their pods.
  - A release that a killed run left unfinished is repaired first. What the chart refuses of its values is refused before anything is written.
  - For KAI Scheduler there is M(kubegpu.tenancy.kai_scheduler).
author: kubegpu.tenancy contributors (@kubegpu)
options:
  name:
    description:
      - Name of the scheduler.
    type: str
    required: true
  chart:
    description:
      - The chart, as helm takes it. A reference C(oci://), a name in O(repository), or a path on the host.
    type: str
    required: true
  version:
    description:
      - Exact version of the chart. A folder or file that has another one is refused.
    type: str
    required: true
  repository:
    description:
      - Address of the chart repository. Empty where O(chart) says it all.
    type: str
    default: ""
  values:
    description:
      - Values for the chart. Digests of them are shown, also in diffs.
    type: dict
    default: {}
  timeout:
    description:
      - Seconds for the whole change, waits included.
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
  - module: kubegpu.tenancy.former_schedulers
  - module: kubegpu.tenancy.kai_scheduler
"""

EXAMPLES = r"""
- name: Have Volcano
  kubegpu.tenancy.chart_scheduler:
    kubeconfig: /etc/kubegpu/dc1/tenants/batch.yml
    name: volcano
    chart: volcano
    repository: https://volcano-sh.github.io/helm-charts
    version: 1.12.0
"""

RETURN = r"""
steps:
  description: What was done, or would be in check mode, in that order, and why. Also in diffs.
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
    - {step: label namespace volcano, why: its scheduler is found by the label, seconds: 0.1}
    - {step: apply volcano, why: it is not installed, seconds: 4.2}
seconds:
  description: How long it took, waits included.
  returned: success
  type: float
  sample: 21.4
last_seen:
  description: What did not run yet when time ran out.
  returned: when it did
  type: str
"""

from ..module_utils._engine.chart_scheduler import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
