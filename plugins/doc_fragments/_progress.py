# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this doc fragment is PRIVATE to the collection: it may change in any release.
"""The option of modules that say what they are at while they work."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  progress:
    description:
      - Path of a file on the host in which the module keeps what it is at, as JSON. By itself, it is one that is gone afterwards, and
        from which the controller shows every 15 seconds what is done, for how long, and what is waited for.
    type: path
"""
