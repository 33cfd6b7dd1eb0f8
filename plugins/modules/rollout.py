# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is documentation only: the action plugin of the same name does the work, on the controller.

DOCUMENTATION = r"""
module: rollout
short_description: Take clusters to what the inventory says, wave after wave
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - The playbook C(kubegpu.tenancy.rollout) is this one task. The collection's page C(docs/how-to/many-clusters.md) shows how it is used.
  - First compares all clusters with the inventory, and says what differs where. Refuses to begin where a cluster cannot be compared, or where
    its change would be refused, such as one that was not rehearsed.
  - Then runs C(kubegpu.tenancy.site) for the clusters of a wave that differ. While the wave is observed, runs C(kubegpu.tenancy.verify),
    C(kubegpu.tenancy.drift) and C(kubegpu.tenancy.info) every five minutes, and once at the end of that time.
  - Stops at the first failure, and says which clusters have what. With C(back_to), clusters that failed go back to that blueprint.
  - The record of the rollout is written before and after each step. The same task goes on where a run was cut off or stopped.
  - Runs on the controller. The runs that it begins have the options of its own run, but C(--limit), C(--tags) and C(--check).
  - In check mode, compares, and changes no cluster.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: It names what differs.
options:
  clusters:
    description:
      - Names of the inventory hosts, in their order.
    type: list
    elements: str
    required: true
  rollouts:
    description:
      - The variable C(kubegpu_rollout) of each of them, which have to be the same.
    type: list
    elements: dict
    required: true
  groups:
    description:
      - Names of inventory hosts by group.
    type: dict
    required: true
  servers:
    description:
      - By inventory host, the address of the Prometheus at which C(kubegpu.tenancy.info) reads the alerts of the cluster. Empty for none.
    type: dict
    default: {}
  playbooks:
    description:
      - Playbooks in place of C(site), C(verify), C(drift) and C(info) of this collection, by these names, such as V(kubegpu.lab.site).
    type: dict
    default: {}
seealso:
  - module: kubegpu.tenancy.rehearsal
"""

EXAMPLES = r"""
- name: Change the clusters wave after wave
  kubegpu.tenancy.rollout:
    clusters: "{{ ansible_play_hosts_all }}"
    rollouts: "{{ ansible_play_hosts_all | map('extract', hostvars) | map(attribute='kubegpu_rollout', default={}) }}"
    groups: "{{ groups }}"
  run_once: true
"""

RETURN = r"""
clusters:
  description:
    - By inventory host, its C(wave), its C(state), since when, and the C(reasons) of a failure.
  returned: unless the rollout was refused
  type: dict
  sample: {gpu1: {wave: 1, state: done, since: '2026-11-28T10:00:00Z', looked: '2026-11-28T10:30:00Z', waiting: [], alerts: [], reasons: []}}
lines:
  description: The same for people, a line for each wave and state.
  returned: unless the rollout was refused
  type: list
  elements: str
  sample: ['wave 1: as the inventory says: gpu1']
"""
