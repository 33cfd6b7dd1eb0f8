# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.lifecycle import Done, Lifecycle
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.values import Rollout, Wave
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

BEGIN = datetime.datetime(2026, 11, 28, 10, tzinfo=datetime.timezone.utc)
ROLLOUT = Rollout(
    "kai", "digest 1", (Wave(("a",), 1), Wave(("b", "c"), 2)), datetime.timedelta(minutes=10), "", "~/kubegpu-rollouts"
)
GOING_BACK = dataclasses.replace(ROLLOUT, back_to="gpu-host-2026-11-01")


class Fleet:
    """Three clusters that differ until site was run, and what runs of playbooks say of them.

    :ivar ran: each run, as its playbook, clusters, and blueprint where it has one; ``quick``, places of those that leave out tenants.
    :ivar bad: sentences, by the playbook and cluster that they are about; ``silent``, playbooks that leave no evidence.
    :ivar pods: which wait for a fault once site was run, by cluster; ``alerts``, which fire then; ``unread``, what info cannot read.
    """

    def __init__(self, rollout=ROLLOUT):
        self.clock = Clock()
        self.ran, self.said, self.bad, self.silent, self.pods = [], [], {}, set(), {}
        self.alerts, self.unread, self.unread_alerts = {}, {}, []
        self.record, self.quick = None, []
        self.written = 0
        self.changed = set()
        self.life = Lifecycle(rollout, self.run, self, self.said.append, self.now, self.clock.sleep)

    def now(self):
        return BEGIN + datetime.timedelta(seconds=self.clock.now)

    def read(self):
        return self.record

    def write(self, record):
        self.record, self.written = record, self.written + 1

    def run(self, playbook, clusters, place, blueprint="", only_due=False):
        self.ran.append(" ".join(filter(None, [playbook, "".join(clusters), blueprint])))
        if only_due:
            self.quick.append(place)
        if playbook in self.silent:
            return Done(None, [], f"{playbook} ended with status 250, see run.log")
        if playbook == "site":
            self.changed = self.changed - set(clusters) if blueprint else self.changed | set(clusters)
        problems = [f"{name}: {self.bad[playbook, name]}" for name in clusters if (playbook, name) in self.bad]
        differing = (
            [] if blueprint or playbook != "drift" else [f"{n}/ml: KAI Scheduler" for n in clusters if n not in self.changed]
        )
        reports = [self.report(name) for name in clusters] if playbook == "info" else []
        evidence = {"clusters": [{"name": name} for name in clusters], "problems": problems, "pending": differing}
        return Done(evidence, reports, "")

    def report(self, name):
        pods = [
            {"namespace": "default", "name": pod, "reason": "binding"} for pod in self.pods.get(name, ()) if name in self.changed
        ]
        changed = name in self.changed
        firing = [{"name": one, "labels": {}} for one in self.alerts.get(name, ()) if changed or one.startswith("Old")]
        failures = self.unread.get(name, []) if changed else []
        report = {"cluster": name, "failures": failures, "tenants": [{"name": "ml", "pods": pods}], "shared_scheduler": None}
        return report | {"alerts": firing, "alerts_unread": self.unread_alerts}

    def roll(self):
        return self.states(self.life.go_on(self.life.begin()))

    @staticmethod
    def states(record):
        return [record["clusters"][name]["state"] for name in "abc"]


def test_waves_follow_each_other_and_each_is_observed():
    fleet = Fleet()
    assert fleet.roll() == ["done"] * 3
    look = [["verify", "drift", "info"]] * 2
    assert fleet.ran == [
        "drift abc",
        *("info a", "site a"),
        *(f"{playbook} a" for playbooks in look for playbook in playbooks),
        *("info bc", "site bc"),
        *(f"{playbook} bc" for playbooks in look for playbook in playbooks),
    ]
    # While a wave is observed, all tenants are compared.
    assert fleet.quick == ["check"]
    # Twice ten minutes.
    assert (fleet.clock.now, fleet.record["ended"]) == (1200, "2026-11-28T10:20:00Z")
    assert fleet.said[:3] == ["a/ml: KAI Scheduler", "b/ml: KAI Scheduler", "c/ml: KAI Scheduler"]


@pytest.mark.parametrize(
    ("bad", "states", "last"),
    [
        (("site", "a"), ["failed", "waiting", "waiting"], "site a"),
        (("verify", "a"), ["failed", "waiting", "waiting"], "info a"),
        (("site", "c"), ["done", "changed", "failed"], "site bc"),
    ],
)
def test_what_fails_ends_the_rollout(bad, states, last):
    fleet = Fleet()
    fleet.bad[bad] = "it is broken"
    assert (fleet.roll(), fleet.ran[-1]) == (states, last)
    assert fleet.record["clusters"][bad[1]]["reasons"] == [f"{bad[1]}: it is broken"]


def test_pods_that_wait_for_a_fault_since_the_change_end_the_rollout():
    fleet = Fleet()
    fleet.pods["a"] = ["w"]
    assert fleet.roll() == ["failed", "waiting", "waiting"]
    assert fleet.record["clusters"]["a"]["reasons"] == ["a: pods wait that did not before: ml: default/w (binding)"]


def test_alerts_that_fire_since_the_change_end_the_rollout():
    fleet = Fleet(dataclasses.replace(ROLLOUT, stop_when=("OldAlert", "Lost")))
    # One fired before, and one is not named.
    fleet.alerts = {"a": ["OldAlert", "Watchdog"], "c": ["OldAlert", "Lost"]}
    assert fleet.roll() == ["done", "changed", "failed"]
    assert fleet.record["clusters"]["c"]["reasons"] == ["c: alerts fire that did not before: Lost"]
    assert fleet.record["clusters"]["a"]["alerts"] == ["OldAlert"]


def test_an_alert_that_still_fires_stops_the_next_run_as_well():
    fleet = Fleet(dataclasses.replace(GOING_BACK, stop_when=("Lost",)))
    fleet.alerts["a"] = ["Lost"]
    assert fleet.roll() == ["went back", "waiting", "waiting"]
    # It fires on, whichever blueprint the cluster has.
    fleet.alerts["a"] = ["OldLost"]
    fleet.life._rollout = dataclasses.replace(GOING_BACK, stop_when=("OldLost",))
    assert fleet.roll() == ["went back", "waiting", "waiting"]


def test_nothing_is_changed_while_a_prometheus_does_not_answer():
    fleet = Fleet()
    fleet.unread_alerts = ["which alerts fire was not read: no answer"]
    with refuses("not-observed") as refused:
        fleet.roll()
    assert "a: which alerts fire was not read: no answer" in str(refused.value)
    assert fleet.changed == set()
    assert fleet.states(fleet.record) == ["waiting"] * 3


def test_what_cannot_be_read_after_the_change_ends_the_rollout():
    fleet = Fleet()
    fleet.unread["a"] = ["a: which alerts fire was not read: no answer"]
    assert fleet.roll() == ["failed", "waiting", "waiting"]
    assert fleet.record["clusters"]["a"]["reasons"] == ["a: which alerts fire was not read: no answer"]


def test_a_run_that_says_nothing_is_a_failure():
    fleet = Fleet()
    fleet.silent.add("site")
    assert fleet.roll() == ["failed", "waiting", "waiting"]
    assert fleet.record["clusters"]["a"]["reasons"] == ["a: the run left no evidence of it"]


def test_what_failed_goes_back():
    fleet = Fleet(GOING_BACK)
    fleet.bad["verify", "a"] = "it is broken"
    assert fleet.roll() == ["went back", "waiting", "waiting"]
    assert fleet.ran[:2] == ["drift abc", "drift abc gpu-host-2026-11-01"]
    assert fleet.ran[-1] == "site a gpu-host-2026-11-01"
    assert fleet.changed == set()


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (lambda fleet: fleet.bad.update({("drift", "b"): "it has to be rehearsed before"}), "not-compared"),
        (lambda fleet: fleet.silent.add("drift"), "not-compared"),
    ],
)
def test_nothing_begins_where_one_would_fail(prepare, code):
    fleet = Fleet()
    prepare(fleet)
    with refuses(code):
        fleet.life.begin()
    assert (fleet.ran, fleet.record) == (["drift abc"], None)


def test_nothing_begins_where_the_way_back_leads_elsewhere():
    fleet = Fleet(GOING_BACK)
    run = fleet.life._runs
    fleet.life._runs = lambda playbook, clusters, place, *_blueprint, **_how: run(playbook, clusters, place)
    with refuses("no-way-back", "no-way-back", "no-way-back"):
        fleet.life.begin()


def test_a_record_is_written_before_and_after_each_step():
    class Killed(Exception):
        pass

    def killed(*args, **_more):
        if args[0] == "site" and "b" in args[1]:
            raise Killed
        return run(*args)

    fleet = Fleet()
    run, fleet.life._runs = fleet.life._runs, killed
    with pytest.raises(Killed):
        fleet.roll()
    assert fleet.states(fleet.record) == ["done", "changing", "changing"]
    fleet.life._runs = run
    del fleet.ran[:]
    assert fleet.roll() == ["done"] * 3
    assert fleet.ran[:2] == ["drift abc", "info bc"]
    assert "a" not in "".join(line.split()[1] for line in fleet.ran[1:])


def test_with_nothing_to_change_nothing_is_run():
    fleet = Fleet()
    fleet.changed = set("abc")
    assert (fleet.roll(), fleet.ran) == (["done"] * 3, ["drift abc"])
