# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import when_webhook_answers
from ansible_collections.kubegpu.tenancy.tests.unit.runs import Clock


def writes(*answers):
    """A write that fails with each of the answers but the last, which it returns."""
    left = list(answers)

    def write():
        answer = left.pop(0)
        if left:
            raise TenancyError(answer)
        return answer

    return write


SILENT = "failed calling webhook x: connection refused"


def test_a_write_is_tried_again_while_the_webhook_is_silent():
    assert when_webhook_answers("it", writes(SILENT, SILENT, "written"), Clock().deadline(10)) == "written"
    assert when_webhook_answers("it", writes(None), Clock().deadline(10)) is None


def test_a_write_is_refused_at_once():
    with pytest.raises(TenancyError, match=r"^forbidden$"):
        when_webhook_answers("it", writes("forbidden", "written"), Clock().deadline(10))


def test_a_webhook_that_stays_silent_is_named_when_time_is_up():
    with pytest.raises(TenancyError, match=r"Timed out after 2 s waiting for it\. Last seen: failed calling webhook x"):
        when_webhook_answers("it", writes(*[SILENT] * 9), Clock().deadline(2))
