#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenancy_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenancy_info
short_description: Read a host cluster and its tenants, and compare them with the desired state
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Reads all tenants of a host cluster by a few LISTs, however many there are, and reports for each that is listed
    whether there is anything to do for it, and why.
  - Nothing is to be done for a tenant while what M(kubegpu.tenancy.tenant_record) recorded still stands. That is, its
    desired state and everything that the host cluster shows of it are as they were, its queues are as desired, its kubeconfig leads to
    it, all checks passed, and O(max_age) is not over.
  - Reports also the tenants on the cluster that O(tenants) does not list, and the host cluster's KAI Scheduler, as far as this
    collection made them, and whether the tenants have their nodes.
  - On request, reads in the same process what M(kubegpu.tenancy.cluster_info) and M(kubegpu.tenancy.gpu_ledger_info) read.
  - A kubeconfig that does not exist is a cluster that is yet to be made, and no failure.
options:
  also:
    description:
      - What else is read. V(cluster) is what M(kubegpu.tenancy.cluster_info) returns, V(ledger) what M(kubegpu.tenancy.gpu_ledger_info) does.
    type: list
    elements: str
    choices: [cluster, ledger]
    default: []
  runtime_class:
    description:
      - As for M(kubegpu.tenancy.cluster_info). It is read with V(cluster) among O(also), as are O(shared_scheduler),
        O(metrics), O(accept_combinations) and O(helm_binary).
    type: str
    default: nvidia
  shared_scheduler:
    description:
      - As for M(kubegpu.tenancy.cluster_info).
    type: dict
    default: {}
  metrics:
    description:
      - As for M(kubegpu.tenancy.cluster_info).
    type: dict
    default: {}
  accept_combinations:
    description:
      - As for M(kubegpu.tenancy.cluster_info).
    type: list
    elements: str
    default: []
  tenants:
    description:
      - The tenants, as C(kubegpu_tenants) lists them or M(kubegpu.tenancy.tenancy_plan) returns them.
    type: list
    elements: dict
    default: []
  only:
    description:
      - Names of the tenants to compare. All of them when empty.
    type: list
    elements: str
    default: []
  kubeconfigs:
    description:
      - Folder of the tenants' kubeconfigs, which are called C(TENANT.yml).
    type: path
    required: true
  settings:
    description:
      - Variables of roles that are set for the tenants, such as an image of probes. A tenant is to be worked on when they change.
    type: dict
    default: {}
  max_age:
    description:
      - Seconds for which a verification stands while nothing changes.
    type: int
    default: 3600
extends_documentation_fragment:
  - kubegpu.tenancy._helm_binary
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
seealso:
  - module: kubegpu.tenancy.tenant_record
  - module: kubegpu.tenancy.cluster_info
  - module: kubegpu.tenancy.gpu_ledger_info
"""

EXAMPLES = r"""
- name: Compare
  kubegpu.tenancy.tenancy_info:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    kubeconfigs: /etc/kubegpu/kubegpu/tenants
    tenants: "{{ kubegpu_tenants }}"
  register: found

- name: Show for which tenants there is something to do
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.reasons | join(', ') }}"
  loop: "{{ found.tenants | selectattr('due') }}"
"""

RETURN = r"""
exists:
  description: Whether there is a kubeconfig. Without one, nothing else is returned.
  returned: success
  type: bool
cluster:
  description: What M(kubegpu.tenancy.cluster_info) returns.
  returned: with V(cluster) among O(also)
  type: dict
ledger:
  description: What M(kubegpu.tenancy.gpu_ledger_info) returns. Where the ledger could not be read, C(failed) and C(msg), which says why.
  returned: with V(ledger) among O(also)
  type: dict
tenants:
  description: One record for each tenant that is compared, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    desired:
      description: The tenant with every key.
      type: dict
      returned: always
    wanted:
      description: Digest of everything that is wanted of it.
      type: str
      returned: always
    state:
      description:
        - V(absent), V(paused), V(running), V(starting), V(crashing) or V(removing), as the host cluster shows it.
        - V(not read) where what is there of it could not be read. RV(tenants[].reasons) says why.
      type: str
      returned: always
    due:
      description: What there is to do, V(change) and V(verify). Empty when nothing.
      type: list
      elements: str
      returned: always
    reasons:
      description: Why.
      type: list
      elements: str
      returned: always
    vcluster_version:
      description: Version of its control plane, as the host cluster shows it. Null where it has none.
      type: str
      returned: always
    kubernetes_version:
      description: Version of its own Kubernetes, by the image of its control plane. Null where it has none.
      type: str
      returned: always
    scheduler_version:
      description:
        - Version of the KAI Scheduler that places its pods, its own or the host cluster's, as its pods show it. Null where none runs.
      type: str
      returned: always
    network_policies:
      description: V(enforced) or V(unenforced), as a probe saw it. Null where the tenant has none.
      type: str
      returned: always
    created:
      description: When its namespace was made, in UTC. Null where it has none.
      type: str
      returned: always
    images:
      description:
        - Images of its control plane and of the KAI Scheduler that places its pods, each with the digest by which the node knows it. Only
          images that run are listed.
      type: dict
      returned: always
      sample: {"ghcr.io/loft-sh/vcluster-oss:0.36.1": "sha256:4c1d0f9e"}
    queues:
      description:
        - Its queues as M(kubegpu.tenancy.kai_queues_info) returns them, whether they are in its virtual cluster or with the KAI Scheduler that
          it shares. Null where they were not read, as while something else is to be changed first.
      type: list
      elements: dict
      returned: always
    verified_at:
      description: When it was verified last, in UTC. Null where no readable record says so.
      type: str
      returned: always
    results:
      description: The checks of that verification. They stand for the tenant as it is now only where nothing is due.
      type: list
      elements: dict
      returned: always
unread:
  description:
    - A sentence for everything of no single tenant that could not be read. What of a tenant could not be read stands in its
      RV(tenants[].reasons).
  returned: success
  type: list
  elements: str
  sample: []
unlisted:
  description:
    - Names of tenants that this collection made and that O(tenants) does not list, but for temporary ones that have not expired.
  returned: success
  type: list
  elements: str
  sample: [team-research]
temporary:
  description: Tenants that were made for a while, listed or not.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    expires:
      description: When it expires, in UTC.
      type: str
      returned: always
    expired:
      description: Whether that is over.
      type: bool
      returned: always
  sample: [{name: ci-1234, expires: "2026-11-23T14:00:00Z", expired: false}]
others:
  description: Names of RV(unlisted) and RV(temporary) that O(tenants) does not list.
  returned: success
  type: list
  elements: str
  sample: [team-research]
shared_scheduler:
  description: Version of the KAI Scheduler that this collection installed in the host cluster. Null without one.
  returned: success
  type: str
monitoring:
  description: Whether the cluster has objects of M(kubegpu.tenancy.monitoring), or the right to read that is missing.
  returned: success
  type: bool
sharing:
  description: Names of the tenants on the cluster that use it.
  returned: success
  type: list
  elements: str
  sample: []
nodes_due:
  description: Whether M(kubegpu.tenancy.tenant_nodes) has nodes to give or to take, or would refuse to.
  returned: success
  type: bool
has_folder:
  description: Whether the folder O(kubeconfigs) exists with mode V(0700).
  returned: success
  type: bool
node_problems:
  description: Everything for which it would refuse.
  returned: success
  type: list
  elements: dict
  contains:
    code:
      description: Kind of the problem, for programs.
      type: str
    text:
      description: The problem as a sentence, which begins with its place.
      type: str
  sample:
    - code: no-gpu-node
      text: "kubegpu_tenants[0] (team-ml).gpu_nodes.names[0]: n9 is not a node of the cluster. The cluster's nodes with GPUs: lab-worker."
"""

from ..module_utils._engine.tenancy_info import ARGUMENT_SPEC, LEAST, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
