#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.vcluster_kubeconfig."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vcluster_kubeconfig
short_description: Kubeconfig file of a virtual cluster
version_added: 0.1.0
description:
  - Writes one cluster, user and context into a kubeconfig file, with which clients reach a virtual cluster directly, without a
    port-forward, or returns them.
  - The file is readable by its owner only, is replaced atomically, and is written only after the API server answered an
    authenticated request.
  - What else is in the file stays, its current context included, but for comments. No other kubeconfig is touched.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) writes cluster, user and context into the file.
      - V(absent) takes them out again, and removes a file with nothing else in it. With O(service_account), that is removed first,
        which ends its tokens.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - Name of the virtual cluster.
    type: str
    required: true
  namespace:
    description:
      - Its namespace on the host cluster. It defaults to V(tenant-NAME).
    type: str
  path:
    description:
      - The file. Its folder has to exist. A file that is no kubeconfig, and a symbolic link, are refused.
      - A folder that others than its owner may write to is refused, and so is a symbolic link of another user on the way there.
      - In a folder of another user, root writes the file as that user's, who thereby gets in, and refuses a file there of anybody else.
      - Without it nothing is written, and RV(kubeconfig) is returned.
    type: path
  server:
    description:
      - Address of the API server as clients reach it. Its host has to be in the serving certificate.
      - It defaults to the node port on the node the control plane runs on, to the address of the load balancer or, with a Service
        of type C(ClusterIP), to the host of the Ingress with the name of the virtual cluster. That Ingress has to pass TLS through.
    type: str
  proxy_url:
    description:
      - HTTP proxy that clients use to get there, such as V(http://proxy.example:3128). SOCKS proxies are refused, because the clients
        that Ansible reaches API servers with do not speak to them.
      - It defaults to the proxy that the kubeconfig of the host cluster names. When empty, there is none.
    type: str
  context_name:
    description:
      - Name of the cluster, user and context in the file. It defaults to O(name).
      - Entries that have this name already are replaced, but a context that leads to a cluster of another name is refused.
    type: str
  make_current:
    description:
      - Whether to make the context the current one of a file that exists. In a new file it always is.
    type: bool
    default: false
  service_account:
    description:
      - A service account in the virtual cluster that the kubeconfig is for, instead of its administrator.
      - It is created with a label of this collection. One without that label is never touched.
      - Its token is kept while the API server accepts it and a third of its time is left, so the task has to run again before.
      - The API server has to answer on the machine the module runs on, even if O(verify) is false.
    type: dict
    suboptions:
      name:
        description:
          - Name of the service account.
        type: str
        required: true
      namespace:
        description:
          - Its namespace in the virtual cluster, which has to exist.
        type: str
        default: kube-system
      cluster_role:
        description:
          - Cluster role in the virtual cluster that it gets, in all namespaces, such as V(view), V(edit) or V(cluster-admin).
        type: str
      expiration:
        description:
          - Seconds until a new token ends, 600 at least.
        type: int
        default: 86400
  verify:
    description:
      - Whether the API server has to answer an authenticated request first, from the machine the module runs on.
    type: bool
    default: true
  timeout:
    description:
      - Seconds for the whole change, waits included.
      - An error that no waiting mends, such as a certificate that does not verify, ends the wait at once.
    type: int
    default: 30
requirements:
  - kubernetes >= 24.2.0
  - C(cryptography), to tell when certificates expire. Debian's python3-kubernetes brings it.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.vcluster
"""

EXAMPLES = r"""
- name: Write the team's kubeconfig
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: /etc/kubegpu/dc1/team-ml.yml

- name: Write one for clients behind a load balancer of their own
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: /srv/handout/team-ml.yml
    server: https://team-ml.example:6443
    verify: false

- name: Add the virtual cluster to one's own kubeconfig, and switch to it
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: ~/.kube/config
    make_current: true

- name: Let a pipeline deploy for a day
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: /srv/handout/team-ml-deployer.yml
    service_account:
      name: deployer
      cluster_role: edit

- name: Let it no longer
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: /srv/handout/team-ml-deployer.yml
    service_account:
      name: deployer
    state: absent

- name: Get one without a file
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
  register: team_ml
  no_log: true
"""

RETURN = r"""
path:
  description: The file.
  returned: when O(path) is given
  type: str
  sample: /etc/kubegpu/dc1/team-ml.yml
server:
  description: Address of the API server in the kubeconfig.
  returned: when O(state=present), and in check mode when the virtual cluster exists
  type: str
  sample: https://172.18.0.3:31234
context:
  description: Name of the context in the kubeconfig.
  returned: success
  type: str
  sample: team-ml
problems:
  description: Everything that is wrong with the options, each with its path.
  returned: when options were refused
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
    - code: not-an-address
      text: "server: 'team-ml.example' is not an address such as https://host.example:6443."
expires:
  description: When the certificate or token in the kubeconfig ends, in UTC. Null where that is not known.
  returned: when O(state=present), and in check mode when the virtual cluster exists
  type: str
  sample: "2027-11-21T12:00:00Z"
seconds:
  description: Seconds the change took, waits included.
  returned: success
  type: float
  sample: 0.4
steps:
  description: What was done, or would be done in check mode, in that order, and why.
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
    - {step: write /etc/kubegpu/dc1/team-ml.yml, why: it does not exist, seconds: 0.1}
kubeconfig:
  description: The kubeconfig with its credentials. Set C(no_log) on the task, which otherwise shows them.
  returned: when O(state=present) without O(path), but not in check mode with O(service_account)
  type: dict
"""

from ..module_utils._engine.vcluster_kubeconfig import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, required_if=[("state", "absent", ("path", "service_account"), True)])


if __name__ == "__main__":
    main()
