# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All parts, and the search for cases of one of them that fail."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.kubegpu.tenancy.tests.fuzz import desired, files, host, texts, virtual
from ansible_collections.kubegpu.tenancy.tests.fuzz.cases import Part, tried
from hypothesis import HealthCheck, Phase, given, settings

OF_TENANTS: dict[str, Part] = host.PARTS | virtual.PARTS
OF_PEOPLE: dict[str, Part] = desired.PARTS | files.PARTS | texts.PARTS
PARTS = OF_TENANTS | OF_PEOPLE

# How many times as many cases as usual.
FACTOR = float(os.environ.get("KUBEGPU_FUZZ_FACTOR", "1"))


def search(name: str) -> None:
    """Try cases of a part until one fails, and then smaller ones; which they are follows from the seed that pytest is given."""
    part = PARTS[name]

    @settings(
        max_examples=max(1, round(part.examples * FACTOR)),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(part.inputs)
    def case(inputs: Any) -> None:
        tried(name, part.check, inputs)

    case()
