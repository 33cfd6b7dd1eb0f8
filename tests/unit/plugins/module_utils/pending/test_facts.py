# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import LINES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending import facts

ALL = [(line.first[0], line.first[1], patch) for line in LINES for patch in range(line.last[2] + 1)]


# Read in the code of upstream's tags, v0.7.0 to v0.17.0.
@pytest.mark.parametrize(
    ("fault", "without"),
    [
        (facts.DOTS, {"0.16.5", "0.16.8", "0.17.0"}),
        (facts.SIDECARS, {"0.9.20", "0.12.22", "0.12.23", "0.14.6", "0.14.7", "0.15.3", "0.16.0", "0.16.8", "0.17.0"}),
        (facts.OPTIONAL, {"0.13.0", "0.13.4", "0.14.0", "0.15.0", "0.16.0", "0.17.0"}),
        (facts.ZEROES, {"0.9.16", "0.9.20", "0.12.19", "0.12.23", "0.13.1", "0.14.0", "0.15.0", "0.17.0"}),
        (facts.NOT_A_NUMBER, {"0.12.23", "0.14.7", "0.16.3", "0.16.8", "0.17.0"}),
    ],
)
def test_the_releases_without_a_fault(fault, without):
    versions = {tuple(map(int, text.split("."))) for text in without}
    assert not [version for version in versions if fault.is_in(version)]
    # Right before each first one, and in lines that have none.
    before = [(major, minor, patch - 1) for major, minor, patch in fault.mended if patch]
    assert all(map(fault.is_in, before))
    assert fault.is_in(None)
    assert not any(fault.is_in(version) for version in ALL if version >= fault.mended[-1])


@pytest.mark.parametrize(
    ("fault", "versions"),
    [
        (facts.DOTS, [(0, 12, 0), (0, 12, 23), (0, 13, 1), (0, 14, 7)]),
        (facts.SIDECARS, [(0, 10, 0), (0, 12, 0), (0, 13, 4), (0, 15, 0)]),
        (facts.OPTIONAL, [(0, 9, 20), (0, 12, 23)]),
        (facts.ZEROES, [(0, 10, 5), (0, 12, 0), (0, 13, 0)]),
        (facts.NOT_A_NUMBER, [(0, 12, 0), (0, 13, 1), (0, 15, 3)]),
    ],
)
def test_lines_without_a_mended_release(fault, versions):
    assert all(map(fault.is_in, versions))


def test_a_fault_is_told_with_the_releases_to_change_to():
    assert str(facts.OPTIONAL) == "KAI #988, mended from v0.13.0 on"
    assert str(facts.ZEROES) == "KAI #1120, mended in v0.9.16, v0.12.19, v0.13.1 and from v0.14.0 on"
