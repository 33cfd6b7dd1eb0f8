# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time for tests: of what waits, and of what depends on the day."""

from __future__ import annotations

import datetime

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline

# The day of tests that judge releases: none of them may depend on the day on which they run.
TODAY = datetime.date(2026, 11, 22)


class Clock:
    """Time that only passes by sleeping: ``Deadline(seconds, clock, clock.sleep)``."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(seconds, self, self.sleep)
