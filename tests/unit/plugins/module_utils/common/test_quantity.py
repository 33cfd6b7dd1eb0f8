# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from decimal import Decimal

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import quantity


@pytest.mark.parametrize(("text", "units"), [("1500m", "1.5"), ("2", "2"), (0, "0"), ("2Ki", "2048")])
def test_quantities_are_in_whole_units(text, units):
    assert quantity(text) == Decimal(units)
