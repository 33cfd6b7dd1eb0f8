# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What KAI's scheduler costs during a round, by the metrics that it serves. Pure."""

from __future__ import annotations

import re
import typing as t

from .._common.parties import each
from .._common.quantity import number, plain
from .measures import percentile

# Where the scheduler serves them: --listen-address (cmd/scheduler/app/options/options.go).
PORT = 8080
# The duration of its last cycle (pkg/scheduler/metrics/metrics.go), behind a prefix in some releases; those of the process are by
# Prometheus' client.
_CYCLE = re.compile(r"^(?:\w+_)?e2e_scheduling_latency_milliseconds (\S+)$", re.MULTILINE)
_CPU = re.compile(r"^process_cpu_seconds_total (\S+)$", re.MULTILINE)
_MEMORY = re.compile(r"^process_resident_memory_bytes (\S+)$", re.MULTILINE)


class Meter:
    """Takes in what one scheduler reports of itself, again and again."""

    def __init__(self) -> None:
        self._cycles: list[float] = []
        self._memory: list[float] = []
        # Moments, and seconds of a CPU until then.
        self._cpu: list[tuple[float, float]] = []

    def observe(self, at: float, text: str) -> None:
        """Take in its metrics, in Prometheus' text format, as they are ``at`` seconds after the round began."""
        for pattern, values in ((_CYCLE, self._cycles), (_MEMORY, self._memory)):
            values.extend(_numbers(pattern, text))
        self._cpu += [(at, value) for value in _numbers(_CPU, text)]

    def measures(self) -> dict[str, float]:
        """Return what was measured: only what the scheduler reported."""
        found = {}
        if self._cycles:
            found["cycle_p95"] = percentile(sorted(self._cycles), 95)
        if self._memory:
            found["scheduler_memory"] = round(max(self._memory) / 2**20, 1)
        spent = _spent(self._cpu)
        if spent is not None:
            found["scheduler_cpu"] = spent
        return found


def _numbers(pattern: re.Pattern[str], text: str) -> list[float]:
    """Return the numbers that a text has in some places; NaN and infinite ones, which the format knows, say nothing."""
    found, _unread = each(pattern.findall(text), str, number)
    return [plain(amount) for amount in found]


def _spent(readings: t.Sequence[tuple[float, float]]) -> float | None:
    """Return how many cores were busy on average; None where that is not known.

    A scheduler that was started anew counts from 0 again.
    """
    if len(readings) < 2 or readings[-1][0] == readings[0][0]:
        return None
    seconds = sum(after - before if after >= before else after for (_at, before), (_later, after) in zip(readings, readings[1:]))
    return round(seconds / (readings[-1][0] - readings[0][0]), 3)
