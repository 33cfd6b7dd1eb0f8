#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.alerts_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: alerts_info
short_description: Read which alerts fire for a cluster
version_added: 0.1.0
description:
  - Reads the series C(ALERTS) from a server that answers PromQL. Prometheus writes it, as do the rulers of Thanos and Mimir.
  - A series that a tenant may have forged is left out. It has the labels C(instance) and C(namespace) of a pod of the tenant. So is an alert
    of yours with both labels, unless its rule leaves out C(instance), such as by C(sum by).
author: kubegpu.tenancy contributors (@kubegpu)
options:
  url:
    required: true
  timeout:
    description:
      - Seconds for all of it.
    type: int
    default: 60
extends_documentation_fragment:
  - kubegpu.tenancy._metrics_server
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: kubegpu.tenancy.usage_info
  - module: kubegpu.tenancy.rollout
"""

EXAMPLES = r"""
- name: Read the alerts of a cluster
  kubegpu.tenancy.alerts_info:
    url: https://prometheus.example
    token: "{{ vault_prometheus_token }}"
    labels: {cluster: gpu1}
  register: found

- name: Refuse to go on while a GPU is given out twice
  ansible.builtin.assert:
    that: "'KubegpuGpuHeldTwice' not in (found.alerts | map(attribute='name'))"
"""

RETURN = r"""
alerts:
  description: The alerts that fire, by their names.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    severity:
      description: Its label C(severity). Empty without one.
      type: str
      returned: always
    labels:
      description: Its other labels.
      type: dict
      returned: always
  sample:
    - {name: KubegpuSchedulerMissing, severity: critical, labels: {namespace: tenant-ml}}
"""

from ..module_utils._engine.alerts_info import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.host_module import run_host_module


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
