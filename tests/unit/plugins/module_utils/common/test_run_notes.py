# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible.plugins.callback import CallbackBase
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run


def test_a_diff_shows_steps_and_notes_below_the_difference():
    run = make_run({}, check_mode=True)
    run.change("version", "v0.12.0", "v0.13.1")
    run.take("apply the CRDs", "helm never changes them", lambda: None)
    result = run.result(notes=["hazard: #1103"], version="v0.13.1")
    assert (result["changed"], result["version"], result["steps"]) == (True, "v0.13.1", run.steps)
    assert result["diff"]["before"] == {"version": "v0.12.0"}
    shown = CallbackBase()._get_diff(result["diff"]).splitlines()
    assert [line for line in shown if "v0.1" in line] == ['-    "version": "v0.12.0"', '+    "version": "v0.13.1"']
    assert shown[-2:] == ["step: apply the CRDs (helm never changes them)", "hazard: #1103"]


def test_a_diff_without_notes_is_the_difference_alone():
    run = make_run({})
    run.take("wait", "it takes time", lambda: None)
    assert run.result()["diff"] == {"before": {}, "after": {}}
