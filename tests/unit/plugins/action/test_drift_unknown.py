# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.kubegpu.tenancy.plugins.action.drift_unknown import ActionModule


@pytest.mark.parametrize(
    ("reasons", "result"),
    [
        ([], {"changed": False}),
        (["One.", "Two."], {"changed": False, "unreachable": True, "msg": "It could not be told what differs. One.\nTwo."}),
    ],
)
def test_with_reasons_a_host_counts_as_not_reached(reasons, result):
    task = SimpleNamespace(args={"reasons": reasons}, async_val=0, check_mode=True)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp"))
    action = ActionModule(task, connection, None, DataLoader(), Templar(DataLoader()), None)
    assert action.run(task_vars={}) == result
