# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Anything that tenants write."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.tests.fuzz.parts import OF_TENANTS, search


@pytest.mark.parametrize("part", OF_TENANTS)
def test_whatever_tenants_write(part):
    search(part)
