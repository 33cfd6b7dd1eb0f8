# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.plugins.callback import CallbackBase
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import UNBOUNDED, Run, Step
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Write
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(name="clock")
def _clock():
    return Clock()


@pytest.fixture(name="run")
def _run(clock):
    return Run({}, deadline=Deadline(60, clock))


def test_the_result_is_made_of_what_was_recorded(run, clock):
    run.change("version", "1", "2")
    run.change("namespace", None, "x")
    run.change("pod", "present", None)
    run.change("replicas", 1, 0)
    clock.now = 3.21
    assert run.result(name="ml") == {
        "changed": True,
        "diff": {
            "before": {"version": "1", "pod": "present", "replicas": 1},
            "after": {"version": "2", "namespace": "x", "replicas": 0},
        },
        "seconds": 3.2,
        "name": "ml",
    }


def test_a_diff_says_who_wrote_what_there_is(run):
    run.change_all([("version", "1", "2"), ("values.a", 1, 2)], Write("2026-11-24T10:02:00Z", "Helm, revision 3"))
    run.change("state", "paused", "running")
    write = {"since": "2026-11-24T10:02:00Z", "by": "Helm, revision 3"}
    assert run.result()["diff"]["written"] == {"version": write, "values.a": write}
    # Ansible's own callback shows what differs, and no more.
    callback = CallbackBase()
    bare = {key: value for key, value in run.result()["diff"].items() if key != "written"}
    assert callback._get_diff([run.result()["diff"]]) == callback._get_diff([bare]) != ""


def test_without_changes_nothing_has_changed(run):
    assert run.result() == {"changed": False, "diff": {"before": {}, "after": {}}, "seconds": 0.0}


def test_steps_are_taken_in_order_with_their_seconds(run, clock):
    taken = []

    def take(name, seconds):
        taken.append(name)
        clock.now += seconds

    run.perform("apply the CRDs", "they changed", lambda: take("crds", 1.25))
    run.perform_all([Step("upgrade", "its version", lambda: take("upgrade", 2)), Step("wait", "", lambda: take("wait", 0))])
    assert taken == ["crds", "upgrade", "wait"]
    assert run.result()["steps"] == [
        {"step": "apply the CRDs", "why": "they changed", "seconds": 1.2},
        {"step": "upgrade", "why": "its version", "seconds": 2.0},
        {"step": "wait", "why": "", "seconds": 0.0},
    ]


def test_check_mode_lists_steps_and_takes_none():
    run = Run({}, check_mode=True)
    run.perform("restart the pods", "they hang", lambda: pytest.fail("taken"))
    run.perform_all([Step("upgrade", "its version", lambda: pytest.fail("taken"))])
    assert run.result()["steps"] == [
        {"step": "restart the pods", "why": "they hang"},
        {"step": "upgrade", "why": "its version"},
    ]


def test_a_step_that_fails_is_named_and_ends_the_others(run):
    def fail():
        raise ApiError("no entry", status=403)

    with pytest.raises(TenancyError) as caught:
        run.perform_all([Step("apply the CRDs", "", fail), Step("upgrade", "", lambda: pytest.fail("taken"))])
    assert caught.value.message == "Could not apply the CRDs: no entry"
    assert caught.value.details == {"status": 403}
    assert run.steps == [{"step": "apply the CRDs", "why": ""}]


def test_a_warning_is_kept_once(run):
    for text in ("old", "odd", "old"):
        run.warn(text)
    assert run.warnings == ["old", "odd"]


@pytest.mark.parametrize(("params", "seconds"), [({"timeout": 5}, 5), ({}, UNBOUNDED), ({"timeout": None}, UNBOUNDED)])
def test_the_deadline_is_that_of_the_option(params, seconds):
    assert Run(params).deadline.seconds == seconds


def test_adapters_that_a_module_does_not_ask_for_are_not_there(run):
    for adapter in ("kube", "helm"):
        with pytest.raises(TypeError, match="has no adapter to"):
            getattr(run, adapter)


def test_a_diff_shows_steps_and_notes_below_the_difference():
    run = make_run({}, check_mode=True)
    run.change("version", "v0.12.0", "v0.13.1")
    run.perform("apply the CRDs", "helm never changes them", lambda: None)
    result = run.result(notes=["hazard: #1103"], version="v0.13.1")
    assert (result["changed"], result["version"], result["steps"]) == (True, "v0.13.1", run.steps)
    assert result["diff"]["before"] == {"version": "v0.12.0"}
    shown = CallbackBase()._get_diff(result["diff"]).splitlines()
    assert [line for line in shown if "v0.1" in line] == ['-    "version": "v0.12.0"', '+    "version": "v0.13.1"']
    assert shown[-2:] == ["step: apply the CRDs (helm never changes them)", "hazard: #1103"]


def test_a_diff_without_notes_is_the_difference_alone():
    run = make_run({})
    run.perform("wait", "it takes time", lambda: None)
    assert run.result()["diff"] == {"before": {}, "after": {}}


def test_defaults_are_filled_in_and_the_deadline_follows(clock):
    run = Run({"image": None, "queues": [], "kind": "web"}, deadline=Deadline(60, clock))
    clock.now = 5.0
    run.fill_in({"image": "busybox", "queues": ["a"], "timeout": 90})
    assert run.params == {"image": "busybox", "queues": [], "kind": "web", "timeout": 90}
    assert (run.deadline.left(), run.deadline.elapsed()) == (90, 0.0)
    run = Run({"timeout": 7}, deadline=Deadline(7, clock))
    run.fill_in({"timeout": 90})
    assert (run.params["timeout"], run.deadline.left()) == (7, 7)
