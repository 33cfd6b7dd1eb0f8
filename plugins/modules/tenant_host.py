# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is documentation only: the action plugin of the same name does the work, on the controller.

DOCUMENTATION = r"""
module: tenant_host
short_description: Make a tenant a host of the inventory
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Adds the host C(CLUSTER/TENANT) to the inventory for the rest of the run, where C(CLUSTER) is the inventory host that the task
    runs for. Its variable C(kubegpu_cluster) has that name.
  - Unlike M(ansible.builtin.add_host), it runs for each host of a play.
  - As with that module, Ansible counts a task as changed that adds a host or changes its variables, although nothing outside of the run
    changes. Set C(changed_when) to V(false) where that matters.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: Nothing outside of the run changes.
options:
  name:
    description:
      - Name of the tenant.
    type: str
    required: true
  groups:
    description:
      - Groups of the host. What is no letter, digit or underscore is replaced by an underscore.
    type: list
    elements: str
    default: []
  variables:
    description:
      - Variables of the host.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Make every tenant a host
  kubegpu.tenancy.tenant_host:
    name: "{{ item.name }}"
    groups: [kubegpu_tenants]
    variables: {kubegpu_tenant: "{{ item }}"}
  changed_when: false
  loop: "{{ plan.cluster.tenants }}"
"""

RETURN = r"""
add_host:
  description: The host, its groups and its variables.
  returned: success
  type: dict
"""
