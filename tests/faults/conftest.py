# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab of the fault tests: made by the first that uses it, gone with the last, also after a failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with Lab("kubegpu-faults") as made:
        yield made
