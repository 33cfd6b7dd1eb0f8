# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the cost of something grows with the size of what it is given."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# What four times as much may cost. By n log n it is less than 5, by the square 16; a busy machine adds some.
MOST = 8


def growth(prepare: Callable[[int], Any], work: Callable[[Any], object], size: int) -> float:
    """Return how many times as long four times as much takes, by the fastest of three tries each, in processor time.

    :arg prepare: makes what the work is given, of a size; it is not measured.
    """
    small, large = (min(_seconds(work, prepare(count)) for _try in range(3)) for count in (size, 4 * size))
    return large / small


def _seconds(work: Callable[[Any], object], given: Any) -> float:
    start = time.process_time()
    work(given)
    return time.process_time() - start
