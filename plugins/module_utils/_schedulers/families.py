# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The schedulers of which this collection knows more than their charts: a row each."""

from __future__ import annotations

from .._common.variables import KAI, VOLCANO
from .family import Family
from .kai.family import Kai
from .volcano.family import Volcano

# By their names in an inventory.
FAMILIES: dict[str, Family] = {KAI: Kai(), VOLCANO: Volcano()}
_BY_CHART = Family()


def family_of(name: str) -> Family:
    """Return the family of a scheduler.

    :arg name: in an inventory.
    """
    return FAMILIES.get(name, _BY_CHART)
