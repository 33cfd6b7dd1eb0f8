# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is documentation only: the action plugin of the same name does the work, on the controller.

DOCUMENTATION = r"""
module: fleet
short_description: Merge the evidence of many runs into the state of a fleet
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Reads every C(tenancy.json) in a folder and below, and merges them. Of each cluster and tenant, the newest evidence counts. A run that was
    limited to some clusters or tenants replaces nothing of the others.
  - Writes C(fleet.json), by the collection's C(docs/fleet.schema.json), C(fleet.html), a page without scripts or network, and C(fleet.prom), series
    in Prometheus' text format.
  - It runs on the controller and asks no cluster.
  - In check mode, writes nothing.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: Its files are no part of a cluster.
options:
  folder:
    description:
      - Folder on the controller with the evidence of runs, each in a folder of its own.
    type: path
    required: true
  dest:
    description:
      - Folder on the controller for the files. O(folder) by default.
    type: path
  clusters:
    description:
      - Names of the clusters that the fleet has. Those without evidence are listed, and others are left out. Empty for all in the evidence.
    type: list
    elements: str
  backups:
    description:
      - By the name of a cluster, the folder on the controller with its backups, as O(kubegpu.tenancy.tenant_backup#module:folder). Times of the
        newest backups of its tenants are then in the files.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Write the state of the fleet
  kubegpu.tenancy.fleet:
    folder: /srv/kubegpu/evidence
    dest: /srv/www/kubegpu
    clusters: "{{ groups['kubegpu_clusters'] }}"
    backups:
      gpu1: /var/backups/kubegpu
"""

RETURN = r"""
results:
  description:
    - By cluster, V(passed), V(differs) from the inventory, V(incomplete) where something waits for a person, V(failed), or V(unknown) without
      evidence.
  returned: success
  type: dict
  sample: {gpu1: passed, gpu2: differs}
unread:
  description: Sentences about evidence that could not be read.
  returned: success
  type: list
  elements: str
dest:
  description: Where the files are.
  returned: success
  type: str
"""
