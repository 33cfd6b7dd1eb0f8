# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time for tests of what waits."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline


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
