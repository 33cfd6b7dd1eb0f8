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
  - Their content is never returned, logged or shown as a difference.
author: kubegpu.tenancy contributors (@kubegpu)
extends_documentation_fragment: kubegpu.tenancy._attributes
attributes:
  diff_mode:
    details: Kubeconfigs hold keys.
    support: none
options:
  src:
    description: Folder on the host.
    type: path
    required: true
  names:
    description: Names of the kubeconfigs there, without their ending C(.yml).
    type: list
    elements: str
    required: true
  dest:
    description: Folder on the controller, which is made with mode 0700 where it does not exist.
    type: path
    required: true
  proxy_url:
    description:
      - Where the controller reaches the clusters through a proxy, its address. It is written into each kubeconfig.
      - When empty, kubeconfigs are written as they are.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Bring the cluster's and the team's kubeconfig here
  kubegpu.tenancy.fetch_kubeconfigs:
    src: /etc/kubegpu/dc1
    names: [cluster, team-ml]
    dest: ~/.kube/dc1
"""

RETURN = r"""
dest:
  description: The folder.
  returned: success
  type: str
  sample: /home/operator/.kube/dc1
"""
