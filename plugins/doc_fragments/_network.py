# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this doc fragment is PRIVATE to the collection: it may change in any release.
"""Services of the host cluster that a tenant's network policies let through."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  network:
    description:
      - Services of the host cluster that the network policies of trust V(partial) and V(zero) let through. Refused with V(high), which has
        none.
    type: dict
    suboptions:
      egress:
        description: What the tenant's pods may reach.
        type: list
        elements: dict
        default: []
        suboptions: &services
          name:
            description: What it is, for people.
            type: str
            required: true
          namespace:
            description: Namespace of its pods on the host cluster.
            type: str
            required: true
          labels:
            description: Labels of its pods there. All pods of the namespace without any.
            type: dict
            default: {}
          ports:
            description: TCP ports, of its pods for O(network.egress), of the tenant's for O(network.ingress).
            type: list
            elements: int
            required: true
      ingress:
        description: What may reach the tenant's pods.
        type: list
        elements: dict
        default: []
        suboptions: *services
"""
