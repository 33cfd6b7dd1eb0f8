# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout import plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.values import Rollout, Wave
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

NOW = datetime.datetime(2026, 11, 28, 10, tzinfo=datetime.timezone.utc)
WAVES = (Wave(("a",), 1), Wave(("b", "c", "d"), 2))
ROLLOUT = Rollout("kai", "digest 1", WAVES, datetime.timedelta(minutes=12), "", "~/kubegpu-rollouts")
GOING_BACK = dataclasses.replace(ROLLOUT, back_to="gpu-host-2026-11-23")
ALL = dict.fromkeys("abcd", True)


def later(minutes):
    return NOW + datetime.timedelta(minutes=minutes)


def record(**states):
    """Return a record in which clusters, by their names, have these states since NOW; the others are done."""
    begun = plan.begun(ROLLOUT, None, dict.fromkeys("abcd", False), NOW)
    return begun | {"clusters": {name: one | {"state": states.get(name, "done")} for name, one in begun["clusters"].items()}}


def states(found):
    return {name: one["state"] for name, one in found["clusters"].items()}


def test_a_wave_is_changed_in_parts_then_observed_then_done():
    seen, now = plan.begun(ROLLOUT, None, ALL, NOW), NOW
    told = []
    while step := plan.next_step(ROLLOUT, seen, now):
        now = max(now, step.at)
        told.append((step.kind, step.wave, "".join(step.clusters), (now - NOW).total_seconds() / 60))
        if step.kind == plan.CHANGE:
            seen = plan.entered(seen, step, now)
            assert {seen["clusters"][name]["state"] for name in step.clusters} == {"changing"}
            now += datetime.timedelta(minutes=1)
        seen = plan.left(seen, step, dict.fromkeys(step.clusters, ()), now)
    assert told == [
        ("change", 1, "a", 0),
        *[("observe", 1, "a", minute) for minute in (6, 11, 13)],
        ("change", 2, "bc", 13),
        ("change", 2, "d", 14),
        # From the last change on, every five minutes, and at the end of twelve.
        *[("observe", 2, "bcd", minute) for minute in (20, 25, 27)],
    ]
    assert plan.is_done(seen)
    assert plan.ended(seen, later(27))["ended"] == "2026-11-28T10:27:00Z"


def test_without_time_to_soak_a_wave_is_looked_at_once():
    at_once = dataclasses.replace(ROLLOUT, soak=datetime.timedelta(0))
    step = plan.next_step(at_once, record(a="changed", b="waiting"), later(3))
    assert (step.kind, step.clusters, step.at, step.last) == ("observe", ("a",), NOW, True)


def test_a_failure_stops_what_is_behind_it():
    before = record(b="waiting", c="waiting", d="waiting")
    step = plan.next_step(ROLLOUT, before, NOW)
    after = plan.left(before, step, {"b": ["b: KAI Scheduler does not start"], "c": []}, NOW)
    assert states(after) == {"a": "done", "b": "failed", "c": "changed", "d": "waiting"}
    assert plan.next_step(ROLLOUT, after, NOW) is None
    assert plan.ended(after, NOW)["ended"] == ""
    assert plan.lines(ROLLOUT, after) == [
        "wave 1: as the inventory says: a",
        "wave 2: failed: b",
        "wave 2: changed and verified, not observed to the end: c",
        "wave 2: not changed: d",
        "FAILED b: KAI Scheduler does not start",
    ]


@pytest.mark.parametrize(
    ("why", "state", "said"), [([], "went back", ["broken"]), (["no verdict"], "did not go back", ["broken", "no verdict"])]
)
def test_only_what_failed_goes_back_and_nothing_follows(why, state, said):
    before = record(b="failed", c="changed", d="waiting")
    before["clusters"]["b"]["reasons"] = ["broken"]
    step = plan.next_step(GOING_BACK, before, NOW)
    assert (step.kind, step.clusters) == ("go back", ("b",))
    after = plan.left(before, step, {"b": why}, NOW)
    assert states(after) == {"a": "done", "b": state, "c": "changed", "d": "waiting"}
    assert after["clusters"]["b"]["reasons"] == said
    assert plan.next_step(GOING_BACK, after, NOW) is None


@pytest.mark.parametrize(
    ("before", "differs", "after"),
    [
        ("waiting", True, "waiting"),
        ("waiting", False, "done"),
        ("done", False, "done"),
        # By hand, or because the inventory says something else than then.
        ("done", True, "waiting"),
        ("changed", False, "changed"),
        ("changed", True, "waiting"),
        # It was killed in the middle, or failed a check: it is verified again, even if nothing differs.
        ("changing", False, "changing"),
        ("failed", False, "changing"),
        ("did not go back", True, "changing"),
        ("went back", True, "waiting"),
        ("went back", False, "done"),
    ],
)
def test_what_is_there_decides_how_a_rollout_goes_on(before, differs, after):
    former = record(b=before)
    former["clusters"]["b"] |= {"waiting": ["ml: default/old"], "alerts": ["KubegpuSchedulerSlow"]}
    goes_on = plan.begun(ROLLOUT, former, dict.fromkeys("acd", False) | {"b": differs}, later(60))
    assert goes_on["clusters"]["b"]["state"] == after
    assert goes_on["began"] == former["began"]
    goes_on_from = after == before == "changed" or after == "changing" or after == before == "done"
    # What began with a change that failed was not there before.
    kept = ["ml: default/old"] if goes_on_from or (before == "went back" and after == "waiting") else None
    assert goes_on["clusters"]["b"]["waiting"] == kept
    assert goes_on["clusters"]["b"]["alerts"] == (kept and ["KubegpuSchedulerSlow"])


def test_a_way_back_that_was_cut_off_goes_on():
    former = record(b="failed")
    assert plan.going_back(ROLLOUT, former) == plan.going_back(GOING_BACK, None) == []
    assert plan.going_back(GOING_BACK, former) == ["b"]
    found = plan.begun(GOING_BACK, former, ALL, later(1))
    assert plan.next_step(GOING_BACK, record(b="failed"), NOW).kind == "go back"
    assert found["clusters"]["b"] == former["clusters"]["b"]


def test_clusters_that_came_since_are_new():
    former = record()
    del former["clusters"]["d"]
    assert plan.begun(ROLLOUT, former, ALL | {"a": False}, NOW)["clusters"]["d"]["state"] == "waiting"


def test_another_rollout_of_the_same_name_waits_for_the_end_of_the_first():
    other = dataclasses.replace(ROLLOUT, digest="digest 2")
    with refuses("another-rollout"):
        plan.continued(other, record(b="failed"))
    assert plan.continued(other, plan.ended(record(), NOW)) is None
    assert plan.continued(ROLLOUT, record(b="failed")) == record(b="failed")


def test_what_was_there_before_is_noted_once():
    found = plan.noted(record(b="waiting", c="waiting"), "waiting", {"b": ["ml: default/x"], "c": None})
    assert [found["clusters"][name]["waiting"] for name in "bc"] == [["ml: default/x"], None]
    assert plan.noted(found, "waiting", {"b": ["ml: default/y"]}) == found
    assert plan.noted(found, "alerts", {"b": []})["clusters"]["b"]["alerts"] == []
    # Once a change has begun, nothing is what was there before.
    begun = record(b="changing")
    assert plan.noted(begun, "alerts", {"b": ["Lost"]}) == begun


def test_a_record_of_a_former_version_is_gone_on_with():
    former = record(b="changing")
    del former["clusters"]["b"]["alerts"]
    assert plan.continued(ROLLOUT, former)["clusters"]["b"]["alerts"] is None
