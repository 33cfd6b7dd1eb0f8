# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole rehearsals on a cluster in memory. What installs KAI Scheduler and its queues is tested by itself."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.progress_file import LOOKED, ProgressFile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Superseded, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import LISTENER, announce
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import rehearsal as engine
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import CLAIM_NOTE, NAMESPACE
from ansible_collections.kubegpu.tenancy.plugins.modules import rehearsal as module
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.simulated import Cluster

TRACE = {
    "format": 1,
    "span": 20,
    "nodes": [{"count": 2, "gpus": 4}],
    "queues": [{"name": "ml", "gpu": {"quota": 8}}],
    "workloads": [{"name": "whole", "queue": "ml", "gpus": 1, "pods": 3, "runs": 5}],
}
HAZARDS = ["end-of-support", "#1103", "#1673"]
PARAMS = {name: option.get("default") for name, option in module.ARGUMENT_SPEC.items()} | {
    "trace": TRACE,
    "speed": 1.0,
    "rounds": 2,
    "baseline": {"version": "v0.13.1", "accept_hazards": HAZARDS, "values": {"a": "hunter2"}, "queues": None},
    "candidate": {"version": "v0.16.8", "accept_hazards": HAZARDS, "queues": [{"name": "ml", "gpu": {"quota": 4}}]},
}


class World:
    """A cluster, and what takes the place of the parts that install KAI Scheduler and its queues.

    :ivar calls: name of the part, and its options.
    :ivar before: is called before a part, by its name and the version that it is about.
    """

    def __init__(self, monkeypatch, path="") -> None:
        self.kube = Cluster()
        self.calls, self.before = [], {}
        self.progress = ProgressFile(path)
        for name in ("kai_scheduler", "kai_queues"):
            spec = getattr(engine, name).ARGUMENT_SPEC
            monkeypatch.setattr(engine, name, SimpleNamespace(ARGUMENT_SPEC=spec, reconcile=self._part(name)))

    def _part(self, name):
        def reconcile(run):
            self.calls.append((name, run.params))
            version = run.params.get("version") or run.params.get("kai_version")
            self.before.get((name, version), bool)()
            run.change("version", None, version)
            run.perform(f"{name} {version}", "as asked", bool)
            return run.result(values={"a": "hunter2"})

        return reconcile

    def start(self, params, kubeconfig=None):
        return make_run(params, self.kube)

    def rehearse(self, **given):
        params = PARAMS | given
        return engine.rehearse(self.start, params, engine.Rehearsal.of(params, TODAY, whole=False), self.progress)

    def remove(self, check_mode=False):
        return engine.remove(
            lambda params, kubeconfig: make_run(params, self.kube, check_mode=check_mode), PARAMS, check_mode, self.progress
        )


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_both_sides_are_installed_and_played_one_after_the_other_and_judged(world):
    result = world.rehearse()
    assert [(name, options.get("version") or options["kai_version"]) for name, options in world.calls] == [
        ("kai_scheduler", "v0.13.1"),
        ("kai_queues", "v0.13.1"),
        ("kai_scheduler", "v0.16.8"),
        ("kai_queues", "v0.16.8"),
    ]
    installed, queues = world.calls[0][1], world.calls[3][1]
    told = {"gpu_sharing": True, "values": {"a": "hunter2"}, "accept_hazards": HAZARDS, "timeout": 300}
    assert {key: installed[key] for key in told} == told
    assert (queues["state"], queues["queues"]) == ("exact", PARAMS["candidate"]["queues"])
    assert world.calls[1][1]["queues"] == TRACE["queues"]
    assert (result["result"], result["changed"], [len(rounds) for rounds in result["rounds"].values()]) == (
        "promote",
        True,
        [2, 2],
    )
    assert [step["step"] for step in result["steps"]][-5:] == [
        "create 2 simulated nodes",
        "kai_scheduler v0.13.1",
        "kai_queues v0.13.1",
        "kai_scheduler v0.16.8",
        "kai_queues v0.16.8",
    ]
    # What it leaves is for the next one.
    assert world.kube.names("Node") == ["real", "simulated-0-0", "simulated-0-1"]
    assert world.kube.names("Pod") == ["kwok-1"]
    assert CLAIM_NOTE not in world.kube.get("v1", "Namespace", NAMESPACE)["metadata"]["annotations"]
    assert LISTENER.get() is None


def test_values_of_charts_are_in_no_result(world):
    result = world.rehearse()
    assert "hunter2" not in json.dumps(result)
    assert result["change"]["from"]["values"]["a"].startswith("digest ")
    assert result["baseline"] == {"version": "v0.13.1", "accept_hazards": HAZARDS}


@pytest.mark.parametrize("part", ["kai_scheduler", "kai_queues"])
def test_a_candidate_that_cannot_be_played_is_rejected(world, part):
    def fails():
        raise TenancyError("image not found")

    world.before[part, "v0.16.8"] = fails
    result = world.rehearse()
    (reason,) = result["reasons"]
    assert (result["result"], len(result["rounds"]["baseline"]), result["rounds"]["candidate"]) == ("reject", 2, [])
    assert reason.startswith("The candidate could not be played: ")
    assert reason.endswith(": image not found")


def test_a_candidate_without_the_queues_of_the_work_is_rejected(world):
    result = world.rehearse(candidate=PARAMS["candidate"] | {"queues": [{"name": "other"}]})
    assert "ml is none of the trace's leaf queues: other" in result["reasons"][0]


def test_a_baseline_that_cannot_be_played_is_no_verdict(world):
    def fails():
        raise TenancyError("image not found", last_seen="binder 0/1")

    world.before["kai_scheduler", "v0.13.1"] = fails
    said = "The baseline could not be played: Install KAI Scheduler v0.13.1: image not found"
    with pytest.raises(TenancyError, match=f"^{said}$") as failed:
        world.rehearse()
    assert failed.value.details["last_seen"] == "binder 0/1"


@pytest.mark.parametrize("version", ["v0.13.1", "v0.16.8"])
def test_one_that_another_rehearsal_took_over_from_is_no_verdict_and_goes_no_further(world, version):
    def another_begins():
        world.kube.patch("v1", "Namespace", NAMESPACE, {"metadata": {"annotations": {CLAIM_NOTE: "another"}}})
        # A look of a wait.
        announce("KAI Scheduler", "binder 0/1")

    world.before["kai_scheduler", version] = another_begins
    with pytest.raises(Superseded, match="gave way") as failed:
        world.rehearse()
    # By these details the playbook leaves the cluster to the other rehearsal.
    assert failed.value.details == {"superseded": True}
    assert world.calls[-1][1].get("version") == version
    assert world.kube.get("v1", "Namespace", NAMESPACE)["metadata"]["annotations"][CLAIM_NOTE] == "another"


def test_one_whose_controller_has_gone_is_no_verdict_and_leaves_no_pods(monkeypatch, tmp_path):
    now = [0.0]
    world = World(monkeypatch)
    world.progress = ProgressFile(str(tmp_path / "p.json"), lambda: now[0])
    looked = tmp_path / f"p.json{LOOKED}"

    def goes(_pod):
        looked.touch()
        now[0] = looked.stat().st_mtime + 1000

    world.kube.react("create", "Pod", goes)
    with pytest.raises(Superseded, match="the run that this is for has ended"):
        world.rehearse()
    assert world.kube.names("Pod") == ["kwok-1"]


def test_progress_names_the_side_and_what_is_done(monkeypatch, tmp_path):
    world = World(monkeypatch, str(tmp_path / "p.json"))
    told = []
    for name, version in (("kai_scheduler", "v0.13.1"), ("kai_queues", "v0.16.8")):
        world.before[name, version] = lambda: told.append(json.loads((tmp_path / "p.json").read_text()))
    world.kube.react("create", "Pod", lambda _pod: told.append(json.loads((tmp_path / "p.json").read_text())))
    world.rehearse()
    assert [(list(one), next(iter(one.values()))["what"]) for one in (told[0], told[1], told[-1])] == [
        (["baseline"], "Install KAI Scheduler v0.13.1"),
        (["baseline"], "Play 3 pods on 8 GPUs, which takes 40 s at least"),
        (["candidate"], "Play 3 pods on 8 GPUs, which takes 40 s at least"),
    ]
    assert json.loads((tmp_path / "p.json").read_text()) == {}


def test_what_a_rehearsal_made_is_removed(world):
    world.rehearse()
    world.calls.clear()
    planned = world.remove(check_mode=True)
    assert ("remove 2 simulated nodes" in [step["step"] for step in planned["steps"]], planned["changed"]) == (True, True)
    assert world.kube.names("Node") == ["real", "simulated-0-0", "simulated-0-1"]
    assert world.remove()["changed"] is True
    name, options = world.calls[-1]
    assert (name, options["state"], options["purge"], options["timeout"]) == ("kai_scheduler", "absent", True, 300)
    assert world.kube.names("Node") == ["real"]
    assert world.kube.names("Namespace") == []


def test_where_no_rehearsal_was_a_kai_scheduler_is_somebodys_own(world):
    assert world.remove()["changed"] is False
    assert (world.calls, world.kube.writes) == ([], [])


def test_a_namespace_of_others_stays_and_their_kai_scheduler_too(world):
    world.kube.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with pytest.raises(TenancyError, match="is not owned by"):
        world.remove()
    with pytest.raises(TenancyError, match="is not owned by"):
        world.rehearse()
    assert (world.calls, world.kube.writes) == ([], [])


def test_a_rehearsal_that_was_killed_gives_way_to_the_removal(world):
    world.rehearse()
    world.kube.patch("v1", "Namespace", NAMESPACE, {"metadata": {"annotations": {CLAIM_NOTE: "killed"}}})
    taken = []
    world.before["kai_scheduler", None] = lambda: taken.append(
        world.kube.get("v1", "Namespace", NAMESPACE)["metadata"]["annotations"][CLAIM_NOTE]
    )
    world.remove()
    assert "killed" not in taken
    assert world.kube.names("Namespace") == []
