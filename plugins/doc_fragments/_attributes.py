# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this doc fragment is PRIVATE to the collection: it may change in any release.
"""What the collection's modules promise; a module overrides ``support`` only where it promises less."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and predict the result without changing anything.
    support: full
  diff_mode:
    description: Returns in diff mode what differs, or in check mode would differ.
    support: full
  idempotent:
    description: A second run with the same options reports that nothing changed.
    support: full
"""
