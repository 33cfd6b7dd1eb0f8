#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.vcluster_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vcluster_info
short_description: Report which virtual clusters a host cluster has
version_added: 0.1.0
description:
  - Reports what each virtual cluster on a host cluster is and in which state, also of virtual clusters that others made.
  - Everything is read from the host cluster, by the same few requests however many there are. The virtual clusters themselves are
    not asked.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  name:
    description:
      - Name of one virtual cluster. Without it, all are reported.
    type: str
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
requirements:
  - kubernetes >= 24.2.0
  - C(cryptography) for the expiry of kubeconfigs, which is null without it. Debian's python3-kubernetes brings it.
seealso:
  - module: kubegpu.tenancy.vcluster
  - plugin: kubegpu.tenancy.vclusters
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Read all virtual clusters
  kubegpu.tenancy.vcluster_info:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
  register: dc1

- name: Require that all run
  ansible.builtin.assert:
    that: dc1.vclusters | rejectattr('state', 'in', ['running', 'paused']) | length == 0
"""

RETURN = r"""
vclusters:
  description: One record for each, in order of namespace and name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name, which is that of its Helm release.
      type: str
      returned: always
    namespace:
      description: Namespace on the host cluster.
      type: str
      returned: always
    tenant:
      description: Tenant it was made for. Null where this collection did not make it.
      type: str
      returned: always
    trust:
      description: Isolation profile of the tenant.
      type: str
      returned: always
    network_policies:
      description: V(enforced) or V(unenforced), as a probe saw it. Null where the tenant has none.
      type: str
      returned: always
    version:
      description: Version of vCluster's chart.
      type: str
      returned: always
    state:
      description: V(running), V(starting), V(crashing) or V(paused).
      type: str
      returned: always
    reason:
      description: What is not ready.
      type: str
      returned: always
    kubernetes_version:
      description: Version of its API server's image.
      type: str
      returned: always
    scheduler:
      description:
        - The scheduler in it, with C(name) and, for KAI Scheduler, C(version). Empty where the host cluster's schedules.
        - The version is that which this collection installed. What pods in a virtual cluster say, its administrator can write; so
          their word counts only for a virtual cluster that others made.
        - Null where it has one of its own but does not run, as when it is paused. Which one is not known then.
      type: dict
      returned: always
    nodes:
      description: Labels of the host's nodes that it sees. Null where it sees none of the real ones.
      type: dict
      returned: always
    backing_store:
      description: What holds its data.
      type: str
      returned: always
    volumes:
      description: Size of each of its volumes, by claim.
      type: dict
      returned: always
    images:
      description: Images of its control plane, by container.
      type: dict
      returned: always
    created:
      description: When it was made.
      type: str
      returned: always
    kubeconfig_expires:
      description: When the certificate or token in its Secret C(vc-NAME) ends, in UTC. Null where that is not known.
      type: str
      returned: always
  sample:
    - name: team-ml
      namespace: tenant-team-ml
      tenant: team-ml
      trust: high
      network_policies: null
      version: 0.36.1
      state: running
      reason: ""
      kubernetes_version: v1.35.4
      scheduler: {name: kai, version: v0.16.8}
      nodes: {tenant.kubegpu.tenancy/team-ml: "true"}
      backing_store: database embedded
      volumes: {data-team-ml-0: 5Gi}
      images: {kubernetes: "ghcr.io/loft-sh/kubernetes:v1.35.4", syncer: "ghcr.io/loft-sh/vcluster-oss:0.36.1"}
      created: "2026-11-21T12:00:00Z"
      kubeconfig_expires: "2027-11-21T12:00:00Z"
unread:
  description: A sentence for each virtual cluster, or part of one, that could not be read. RV(vclusters) has no record of it.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ..module_utils._common.run import Result, Run
from ..module_utils._kernel.module import run_module
from ..module_utils._vcluster.inventory import find

ARGUMENT_SPEC = {"name": {"type": "str"}}


def reconcile(run: Run) -> Result:
    name, found = run.params["name"], find(run.kube)
    records = [record for record in found.records if name in (None, record["name"])]
    return {"changed": False, "vclusters": records, "unread": [one.sentence for one in found.unread]}


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
