# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this doc fragment is PRIVATE to the collection: it may change in any release.
"""The option of modules that run helm and install no chart that they know."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  helm_binary:
    description:
      - Name or path of the C(helm) program, of Helm 3 or Helm 4.
    type: str
    default: helm
"""
