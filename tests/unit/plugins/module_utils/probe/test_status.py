# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.status import (
    concluded,
    record,
    termination_message,
)


def test_the_message_of_a_container_that_ended():
    def pod(state):
        return {"status": {"containerStatuses": [{"state": state}]}}

    assert termination_message(pod({"terminated": {"message": " GPU 0\n"}})) == "GPU 0"
    assert termination_message(pod({"running": {}})) == ""
    assert termination_message({"status": {}}) == ""


def test_seconds_of_a_record_are_rounded():
    assert record("page", "passed", "", 1.25)["seconds"] == 1.2


def test_the_end_of_a_probe():
    passed, failed = {"name": "a", "verdict": "passed", "reason": ""}, {"name": "b", "verdict": "failed", "reason": "no page"}
    assert concluded([passed], 1.5) == {"changed": False, "results": [passed], "seconds": 1.5}
    with pytest.raises(TenancyError, match=r"1 of 2 checks failed\. b: no page") as caught:
        concluded([passed, failed], 0.0)
    assert caught.value.details["results"] == [passed, failed]
