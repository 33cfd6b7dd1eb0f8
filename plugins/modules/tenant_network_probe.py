#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenant_network_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenant_network_probe
short_description: Check that the services which a tenant's network lets through are reached
version_added: 0.1.0
description:
  - For each service in O(network.egress), a pod of the tenant connects to a ready pod of the service at all its ports.
  - For each service in O(network.ingress), a pod with the service's namespace and labels connects to a pod of the tenant. On the host cluster it
    lives for seconds. No controller adopts it and no Service sends it requests, because it is owned by its namespace and never ready.
  - That nothing else gets through is the network policies' part, which M(kubegpu.tenancy.probe) tries.
  - Fails when a check fails.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  tenant:
    description:
      - Name of the tenant.
    type: str
    required: true
  tenant_kubeconfig:
    description:
      - Kubeconfig of the tenant's administrator.
    type: path
    required: true
  network:
    required: true
  namespace:
    default: kubegpu-services-probe
  image:
    description:
      - Image of the pods, with busybox's C(sh), C(httpd) and C(nc).
    default: docker.io/library/busybox:1.37.0
  tolerations:
    default: []
  timeout:
    default: 120
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._network
  - kubegpu.tenancy._probe
  - kubegpu.tenancy._probe.image
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.probe
  - module: kubegpu.tenancy.vcluster
"""

EXAMPLES = r"""
- name: Check that the team reaches the registry, and monitoring the team
  kubegpu.tenancy.tenant_network_probe:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    tenant: team-ml
    tenant_kubeconfig: /etc/kubegpu/dc1/tenants/team-ml.yml
    network:
      egress:
        - {name: registry, namespace: registry, labels: {app: registry}, ports: [5000]}
      ingress:
        - {name: monitoring, namespace: monitoring, ports: [9400]}
"""

RETURN = r"""
results:
  description: One record for each service, those of O(network.egress) first.
  returned: success, and when a check failed
  type: list
  elements: dict
  contains:
    name:
      description: Direction and name of the service.
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed) or V(not_tried), as where the service has no pod.
      type: str
      returned: always
    reason:
      description: What was seen.
      type: str
      returned: always
    seconds:
      description: Seconds until the verdict.
      type: float
      returned: always
  sample:
    - {name: egress registry, verdict: passed, reason: reached namespace registry from the tenant at TCP 5000, seconds: 3.2}
    - {name: ingress monitoring, verdict: not_tried, reason: the host cluster has no namespace monitoring, seconds: 0.0}
seconds:
  description: How long everything took, the removal of the pods included.
  returned: success
  type: float
  sample: 7.4
"""

from ..module_utils._engine.tenant_network_probe import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
