# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the cost of something grows with the size of what it is given."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

# What four times as much may cost. By n log n it is less than 5, by the square 16; a busy machine adds some.
MOST = 8


def growth(prepare: Callable[[int], Any], work: Callable[[Any], object], size: int) -> float:
    """Return how many times as long four times as much takes: the median of five pairs of tries, in processor time.

    A try of one size follows a try of the other, so that a machine which is slow for a while is slow for both.

    :arg prepare: makes what the work is given, of a size; it is not measured.
    """
    return statistics.median(_pair(work, prepare(size), prepare(4 * size)) for _try in range(5))


def _pair(work: Callable[[Any], object], small: Any, large: Any) -> float:
    first = _seconds(work, small)
    return _seconds(work, large) / first


def _seconds(work: Callable[[Any], object], given: Any) -> float:
    """Return the processor time of the work alone: a collection of garbage would go through all that other tests left."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        work(given)
        return time.process_time() - start
    finally:
        gc.enable()
