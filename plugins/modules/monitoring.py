#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.monitoring."""

from __future__ import annotations

DOCUMENTATION = r"""
module: monitoring
short_description: Give the Prometheus operator recording rules and alerts, and Grafana a dashboard
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Makes a PrometheusRule C(kubegpu) and a ConfigMap C(kubegpu-dashboard) in the namespace of the Prometheus on the host cluster. The ConfigMap has
    the label C(grafana_dashboard), by which the sidecar of Grafana's chart finds it.
  - Objects that this module made in another namespace are removed. Of what carries these names, only what this collection made is changed or
    removed.
  - The role P(kubegpu.tenancy.monitoring#role) passes the rules and the dashboard of this collection.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
options:
  state:
    description:
      - V(present) has the objects, V(absent) removes them from all namespaces.
    type: str
    choices: [present, absent]
    default: present
  namespace:
    description:
      - Namespace of the Prometheus on the host cluster. If it does not exist yet, nothing is made, and a warning says so.
      - Required with O(state=present).
    type: str
  labels:
    description:
      - Labels of the PrometheusRule, by which the Prometheus chooses it.
    type: dict
    default: {}
  groups:
    description:
      - Groups of rules, as a file of rules of Prometheus has them.
      - Required with O(state=present).
    type: list
    elements: dict
    default: []
  dashboard:
    description:
      - Dashboard as Grafana exports it.
      - Required with O(state=present).
    type: dict
    default: {}
requirements:
  - kubernetes >= 24.2.0
  - jsonpatch
  - PyYAML
seealso:
  - module: kubegpu.tenancy.kai_metrics
"""

EXAMPLES = r"""
- name: Raise alerts in the Prometheus of the namespace monitoring
  kubegpu.tenancy.monitoring:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    namespace: monitoring
    labels: {release: kube-prometheus-stack}
    groups: "{{ (lookup('ansible.builtin.file', 'gpus.rules.yml') | from_yaml)['groups'] }}"
    dashboard: "{{ lookup('ansible.builtin.file', 'gpus.json') | from_json }}"

- name: Remove them
  kubegpu.tenancy.monitoring:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    state: absent
"""

RETURN = r"""
steps:
  description: What was done, or would be in check mode, in that order, and why.
  returned: when there is a change
  type: list
  elements: dict
  contains:
    step:
      description: What is done.
      type: str
      returned: always
    why:
      description: The reason.
      type: str
      returned: always
    seconds:
      description: How long it took.
      type: float
      returned: when it was done
  sample:
    - step: create PrometheusRule monitoring/kubegpu
      why: it does not exist
      seconds: 0.1
seconds:
  description: How long all of it took.
  returned: success
  type: float
  sample: 0.4
"""

from ..module_utils._engine.monitoring import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, required_if=[("state", "present", ("namespace", "groups", "dashboard"))])


if __name__ == "__main__":
    main()
