# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this doc fragment is PRIVATE to the collection: it may change in any release.
"""Options and promises of the probes, listed before the fragment _attributes; a module adds the defaults, which differ."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  namespace:
    description:
      - Namespace of the pods. It is made for the probe, and emptied and deleted in any case.
      - One that exists is refused, unless an earlier probe left it.
    type: str
  tolerations:
    description:
      - Tolerations of the pods.
    type: list
    elements: dict
  timeout:
    description:
      - Seconds for the whole probe. Emptying the namespace may take longer where time is up.
    type: int
attributes:
  check_mode:
    details: Nothing is run in check mode. All checks are returned as not tried.
  diff_mode:
    support: none
  idempotent:
    details: Nothing that counts as a change is left in the cluster.
"""

    # Of probes whose pods all have one image.
    IMAGE = r"""
options:
  image:
    description:
      - Image of the pods.
    type: str
"""
