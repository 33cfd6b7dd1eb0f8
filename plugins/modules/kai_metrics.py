#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_metrics."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_metrics
short_description: Let a Prometheus of the host cluster read KAI Schedulers, and no other client
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Makes, in a tenant's namespace on the host cluster, a headless Service C(kubegpu-metrics) that finds the pods of the tenant's own KAI
    Scheduler at port 8080, where all of its programs serve C(/metrics), and a NetworkPolicy of the same name by which these pods are reached
    at that port from the namespace of the Prometheus, and otherwise from the tenant's own namespace only.
  - Without a tenant's O(name), it is about the host cluster's own KAI Scheduler, which tenants share and whose metrics name the queues of
    all of them. Its namespace C(kai-scheduler) gets the NetworkPolicy, by which port 8080 is reached from the namespace of the Prometheus
    and its own only, and all other ports as before. With O(provider=service_monitor) it also gets a ServiceMonitor for upstream's Services. Of
    these, only the scheduler's has an annotation of upstream.
  - The policy holds for tenants of any trust, as far as the cluster's network enforces policies.
  - Of what carries these names, only what this collection made is changed or removed.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
options:
  name:
    description:
      - Name of the tenant, whose namespace is C(tenant-NAME). The host cluster's own KAI Scheduler if omitted.
    type: str
  state:
    description:
      - V(present) has the objects, V(absent) removes them.
    type: str
    choices: [present, absent]
    default: present
  provider:
    description:
      - How the Prometheus finds the pods. V(annotations) are C(prometheus.io/scrape), C(prometheus.io/port) and C(prometheus.io/path) of the
        Service. V(service_monitor) is a ServiceMonitor C(kubegpu-metrics) beside it, for the Prometheus operator, whose CRD has to be there.
      - Required with O(state=present).
    type: str
    choices: [annotations, service_monitor]
  namespace:
    description:
      - Namespace of the Prometheus on the host cluster, all of whose pods may read. Refused where it is a tenant's.
      - Required with O(state=present).
    type: str
  labels:
    description:
      - Labels of the ServiceMonitor, by which the Prometheus chooses it.
    type: dict
    default: {}
requirements:
  - kubernetes >= 24.2.0
  - jsonpatch
  - PyYAML
seealso:
  - module: kubegpu.tenancy.kai_scheduler
"""

EXAMPLES = r"""
- name: Let the Prometheus in the namespace monitoring read what the team's scheduler tells
  kubegpu.tenancy.kai_metrics:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    name: team-ml
    provider: service_monitor
    namespace: monitoring
    labels: {release: kube-prometheus-stack}

- name: Keep tenants from what the scheduler that they share tells
  kubegpu.tenancy.kai_metrics:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    provider: annotations
    namespace: monitoring

- name: Let no client read the team's any more
  kubegpu.tenancy.kai_metrics:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    name: team-ml
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
    - step: create Service tenant-team-ml/kubegpu-metrics
      why: it does not exist
      seconds: 0.1
seconds:
  description: How long all of it took.
  returned: success
  type: float
  sample: 0.4
"""

from ..module_utils._engine.kai_metrics import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, required_if=[("state", "present", ("provider", "namespace"))])


if __name__ == "__main__":
    main()
