# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what nvidia-smi and the driver tell of GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.nvidia import Gpu, parse_gpus, parse_minor

LISTING = """GPU 0: NVIDIA H200 (UUID: GPU-0000)
  MIG 1g.18gb     Device  0: (UUID: MIG-aaaa)
GPU 1: NVIDIA H200 (UUID: GPU-0001)
"""


def test_gpus_come_with_the_minors_of_the_driver() -> None:
    assert parse_gpus(LISTING, {"GPU-0001": 7}) == [Gpu(0, "GPU-0000", 0), Gpu(1, "GPU-0001", 7)]


@pytest.mark.parametrize(
    ("information", "minor"),
    [
        ("Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-00ab-1\nDevice Minor: \t 3\n", ("GPU-00ab-1", 3)),
        ("GPU UUID: \t GPU-????????-????\nDevice Minor: \t 3\n", None),
    ],
)
def test_minors_are_read_from_the_driver(information: str, minor: tuple[str, int] | None) -> None:
    assert parse_minor(information) == minor
