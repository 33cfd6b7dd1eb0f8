# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.parallel import CONCURRENCY, concurrently


def test_concurrent_calls_wait_for_each_other_and_answer_in_order():
    meeting = threading.Barrier(CONCURRENCY, timeout=30)

    def call(item):
        meeting.wait()
        return item * 2

    assert concurrently(call, range(CONCURRENCY)) == list(range(0, 2 * CONCURRENCY, 2))


def test_the_first_failure_of_concurrent_calls_is_raised():
    with pytest.raises(ZeroDivisionError):
        concurrently(lambda item: 1 / item, [1, 0, 2])
