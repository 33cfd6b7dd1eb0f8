#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: fetch_kubeconfigs
short_description: Bring kubeconfigs from a host to the controller
version_added: 0.1.0
description:
  - Reads kubeconfigs on the host, all at once, and writes them into a folder on the controller, readable by their owner only.
  - Their content is never returned, logged or shown, at any verbosity and by any connection.
  - Files of tenants that are not named stay as they are.
  - Of the administrator's kubeconfig its current context comes, with that one's cluster and user. What its files hold
    (C(certificate-authority), C(client-certificate), C(client-key), C(tokenFile)) stands in the copy itself. A token is that of the moment.
  - The administrator's kubeconfig may name a program (C(exec)), as those of clouds do. A warning says where the controller cannot run it.
    A user who controls the host thereby controls the controller of every user of that file, too. A tenant's kubeconfig that names a program,
    or a file, is refused.
  - A warning says where the administrator's kubeconfig, when it is copied from another machine, leads to that one's loopback.
author: kubegpu.tenancy contributors (@kubegpu)
extends_documentation_fragment: kubegpu.tenancy._attributes
attributes:
  diff_mode:
    details: Names files, and nothing of what they hold.
options:
  cluster:
    description:
      - The administrator's kubeconfig on the host, which becomes C(cluster.yml) in O(dest).
      - C(~) is the home directory of the task's user on the host.
    type: str
  tenants:
    description: Names of the tenants whose kubeconfigs become C(tenants/NAME.yml) in O(dest).
    type: list
    elements: str
  tenants_dir:
    description: Folder on the host with the kubeconfigs of O(tenants), each named C(NAME.yml). C(~) is read as in O(cluster).
    type: str
  absent:
    description: Names of tenants whose C(tenants/NAME.yml) is removed from O(dest).
    type: list
    elements: str
    default: []
  dest:
    description: Folder on the controller. It and C(tenants) in it are made with mode 0700 where they do not exist.
    type: path
    required: true
  proxy_url:
    description:
      - Where the controller reaches the clusters through a proxy, its address. It is written into each kubeconfig.
      - When empty, kubeconfigs keep the proxy that they name.
    type: str
    default: ""
  oidc:
    description:
      - By the names of O(tenants), the issuer that the tenant's API server trusts, as C(kubegpu_tenants[].oidc) describes it, every key filled in.
      - For these, a second kubeconfig without a secret is written beside the first, C(TENANT.oidc.yml), by which users log in with kubectl's plugin
        C(oidc-login). For other tenants, that file is removed.
    type: dict
    default: {}
  gateway:
    description:
      - Name or address of the host at which module M(kubegpu.tenancy.gateway) forwards the tenants' ports. The kubeconfigs of
        O(tenants) then lead there, without a proxy.
      - A server without a port of its own, such as that of a load balancer, stays as it is.
    type: str
    default: ""
  gateway_cluster:
    description:
      - Whether O(cluster) leads to O(gateway), too. Its certificate is then checked by the name C(kubernetes).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Bring the cluster's and the team's kubeconfig here
  kubegpu.tenancy.fetch_kubeconfigs:
    cluster: /etc/kubegpu/dc1/cluster.yml
    tenants: [team-ml]
    tenants_dir: /etc/kubegpu/dc1/tenants
    dest: ~/.kube/dc1

- name: Take the team's kubeconfig away here
  kubegpu.tenancy.fetch_kubeconfigs:
    absent: [team-ml]
    dest: ~/.kube/dc1
"""

RETURN = r"""
dest:
  description: The folder on the controller.
  returned: success
  type: str
  sample: /home/operator/.kube/dc1
expires:
  description:
    - By the name of a tenant whose kubeconfig is on the host, when the certificate or token in it ends, in UTC. Null where that is not known.
  returned: success
  type: dict
  sample: {team-ml: "2027-11-28T12:00:00Z"}
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
    - {step: write /home/operator/.kube/dc1/cluster.yml, why: it does not exist, seconds: 0.0}
seconds:
  description: How long everything took.
  returned: success
  type: float
  sample: 0.1
"""
