# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.kubegpu.tenancy.plugins.action import rehearsal, rehearsal_record, tenancy_info
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._quiet import quiet

SECRET = {"tenants": [{"vcluster": {"values": {"password": "hunter2"}}}]}


@pytest.mark.parametrize(
    ("result", "hidden"),
    [
        (SECRET, True),
        ({"cluster": {"kubeconfig_proxy": "http://u:pw@proxy.example"}}, True),
        ({"role_variables": {"kai_scheduler_values": {"a": 1}}}, True),
        ({"cluster": {"kubeconfig_proxy": "http://proxy.example", "workers": (1, 2)}, "values": {}}, False),
        # What people have to read.
        ({"failed": True, "msg": "values.a: unknown key."} | SECRET, False),
    ],
)
def test_a_result_is_hidden_where_it_holds_what_may_be_secret(result, hidden):
    assert quiet(result) == result | ({"_ansible_no_log": True} if hidden else {})


@pytest.mark.parametrize("plugin", [rehearsal, rehearsal_record, tenancy_info])
@pytest.mark.parametrize("before", [True, False])
def test_what_the_module_answers_is_not_logged_by_the_connection(monkeypatch, plugin, before):
    context = SimpleNamespace(no_log=before)
    during = []

    def run(_self, _tmp, _task_vars):
        during.append(context.no_log)
        return SECRET

    monkeypatch.setattr(NormalAction, "run", run)
    task = SimpleNamespace(args={"progress": "/p"}, async_val=0, check_mode=False)
    action = plugin.ActionModule(task, SimpleNamespace(_play_context=context), None, None, None, None)
    assert action.run()["_ansible_no_log"] is True
    assert (during, context.no_log) == ([True], before)
