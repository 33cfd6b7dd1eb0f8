# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is documentation only: the action plugin of the same name does the work, on the controller.

DOCUMENTATION = r"""
module: drift_unknown
short_description: End a run in which it could not be told what differs
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Where there are reasons, ends the work on the host as if it had not been reached, so that C(ansible-playbook) ends with 4.
  - A task that fails ends it with 2, by which the playbook C(kubegpu.tenancy.drift) says that something differs.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
options:
  reasons:
    description:
      - Why it could not be told, a sentence each. Without any, nothing happens.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: End where a part of the cluster was not looked at
  kubegpu.tenancy.drift_unknown:
    reasons: "{{ [] if ansible_check_mode else ['Run it with --check.'] }}"
"""

RETURN = r"""
msg:
  description: The reasons.
  returned: where there are any
  type: str
"""
