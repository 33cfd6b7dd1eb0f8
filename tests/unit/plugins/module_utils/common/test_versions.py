# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.versions import number, shown, within


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v1.35.4", (1, 35, 4)),
        ("0.36.1", (0, 36, 1)),
        ("v1.35.4-gke.1200", (1, 35, 4)),
        ("580.95.05", (580, 95, 5)),
        ("", ()),
        ("x1", ()),
    ],
)
def test_the_numbers_of_a_version(version, expected):
    assert number(version) == expected


@pytest.mark.parametrize(
    ("version", "expected"), [("v1.33.9", False), ("v1.34.0", True), ("v1.36", True), ("v1.36.4", True), ("v1.37.0", False)]
)
def test_both_ends_belong_to_a_range_with_their_patches(version, expected):
    assert within(version, "1.34", "1.36") is expected


def test_a_range_may_be_open():
    assert within("9.9", "1.7.0", "")
    assert within("0.1", "", "1.36")
    assert not within("1.6.9", "1.7.0", "")
    assert [shown("1.34", "1.36"), shown("1.7.0", ""), shown("", "1.36")] == ["1.34 to 1.36", "1.7.0 or later", "1.36 or earlier"]
