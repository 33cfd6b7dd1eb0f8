# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import datetime
import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import HOST_SCHEDULER_LABEL, KAI_NAMESPACE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import deep_merge
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import LISTENER
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.rehearsal import Rehearsal, judged
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.values import chart_values
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import VERDICT
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.lifecycle import record
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.measures import Sample
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.status import Round, Violation
from ansible_collections.kubegpu.tenancy.plugins.modules import rehearsal, rehearsal_gate, rehearsal_record
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

RECORD = {name: option.get("default") for name, option in rehearsal_record.ARGUMENT_SPEC.items()}
NOW = datetime.datetime(2026, 11, 23, 10, tzinfo=datetime.timezone.utc)
SMALL = {"pattern": "fractions", "nodes": [{"count": 2, "gpus": 2}], "span": 60}
ACCEPTED = {"accept_hazards": list(kai.HAZARD_NAMES)}
SIDES = {"baseline": {"version": "v0.12.0"}, "candidate": {"version": "v0.13.1"}}
GOOD = Round((), {"bind_p50": 1.0}, (Sample(0.0, {"notebooks": 1.0}, 1, 0),), {"a-0": 1.0}, {})
WORSE = dataclasses.replace(GOOD, measures={"bind_p50": 9.0})
LOST = dataclasses.replace(GOOD, violations=(Violation("reserved", 3.0, "a"),))


def asked(whole=False, **given):
    """What module rehearsal is asked for, of releases whose hazards are accepted."""
    defaults = {name: option.get("default") for name, option in rehearsal.ARGUMENT_SPEC.items()} | SMALL
    sides = {side: ACCEPTED | given.pop(side, SIDES[side]) for side in SIDES}
    return Rehearsal.of(defaults | sides | given, NOW.date(), whole)


def verdict(played, failure="", at=NOW, **given):
    """The verdict on a candidate under which one round was played, or none."""
    return judged(asked(**given), {"baseline": [GOOD], "candidate": [played] if played else []}, failure, at)


def test_a_trace_is_made_and_checked():
    made = asked().trace
    assert (made.gpus, made.pods) == (4, 32)
    assert asked(trace=made.data()).trace == made
    with refuses("unknown-key"):
        asked(nodes=[{"gpu": 2}])
    with refuses("missing", "missing", "missing", "missing"):
        asked(trace={"format": 1})


@pytest.mark.parametrize(
    ("given", "whole", "expected"),
    [
        (
            {"thresholds": {"bind_p96": {}}, "candidate": {"version": "v0.13.1", "valuse": {}}},
            False,
            ["candidate.valuse: unknown-key", "thresholds.bind_p96: unknown-measure"],
        ),
        ({"baseline": {"version": "v0.13.1", "accept_hazards": []}}, False, ["baseline.version: hazard-not-accepted"]),
        (
            {"baseline": {"version": "v0.13.1", "queues": [{"name": "other"}]}},
            False,
            ["baseline.trace.workloads[0].queue: unknown-queue"],
        ),
        (
            {"candidate": {"version": "v0.13.1", "accept_hazards": ["#1"]}},
            True,
            ["candidate.accept_hazards[0]: unknown-hazard", "candidate.version: hazard-not-accepted"],
        ),
    ],
)
def test_what_cannot_be_judged_is_refused_without_a_cluster(given, whole, expected):
    with pytest.raises(TenancyError) as caught:
        asked(whole, **given)
    assert placed(caught.value.problems)[: len(expected)] == expected


@pytest.mark.parametrize(
    "candidate",
    [{"version": "v0.13.1", "accept_hazards": []}, {"version": "v0.13.1", "queues": [{"name": "other"}]}],
)
def test_check_mode_refuses_a_candidate_that_would_be_rejected_for_it(candidate):
    asked(candidate=candidate)
    with pytest.raises(TenancyError, match=r"candidate\."):
        asked(whole=True, candidate=candidate)


def test_check_mode_asks_no_cluster():
    params = {name: option.get("default") for name, option in rehearsal.ARGUMENT_SPEC.items()}
    sides = {side: ACCEPTED | given | {"values": {"global": {"registry": "hunter2"}}} for side, given in SIDES.items()}
    result = rehearsal.reconcile(Run(params | SMALL | sides, check_mode=True))
    assert (result["changed"], result["change"]["name"][:19], "rounds" in result) == (True, "v0.12.0-to-v0.13.1-", False)
    assert "hunter2" not in json.dumps(result)


def test_a_cluster_is_recorded_by_reading_it():
    kube, helm = cluster()
    kube.writes.clear()
    result = rehearsal_record.reconcile(make_run(RECORD, kube, helm))
    assert result["pods"] == 0
    assert [queue["name"] for queue in result["trace"]["queues"]] == ["research", "training"]
    # It is what the gate compares with.
    to = {"version": "v0.13.1", "gpu_sharing": True, "queues": QUEUES}
    promoted = verdict(GOOD, baseline=result["scheduler"], candidate=to, trace=EMPTY)
    assert gate((kube, helm), verdicts=[{key: promoted[key] for key in VERDICT}])["change"] == promoted["change"]["name"]
    assert "#1103" in result["scheduler"]["accept_hazards"]
    assert kube.writes == []


def test_a_cluster_without_kai_scheduler_is_recorded():
    kube = InMemoryApi()
    result = rehearsal_record.reconcile(make_run(RECORD, kube, InMemoryHelm(kube)))
    assert result["scheduler"] == {}


def test_a_record_takes_as_long_as_it_is_to():
    here = make_run({}, InMemoryApi())
    start = datetime.datetime(2026, 11, 23, tzinfo=datetime.timezone.utc)
    told = []
    token = LISTENER.set(lambda what, seen: told.append(f"{what}: {seen}"))
    trace = record(here, "kai-scheduler", 40, 15, now=lambda: start + datetime.timedelta(seconds=here.deadline.clock()))
    LISTENER.reset(token)
    assert told == [f"the end of the record: {seconds} s of 40 s, 0 pods" for seconds in (0, 15, 30)]
    # The trace of a moment has a length, too.
    assert (here.deadline.clock(), trace.span) == (40, 60)
    reads = [kind for _verb, kind, _name in here.kube.reads]
    assert (reads.count("Pod"), reads.count("Node")) == (4, 1)


# Where texts of people stand, and by which words the documentation says that they are kept; of the last ones, nothing is.
KEPT = {
    "displayName": "C(displayName)",
    "label-class": "C(priorityClassName)",
    "selector-value": "C(kubernetes.io/hostname)",
    "toleration-value": "tolerations and taints",
    "taint-value": "tolerations and taints",
    "nvidia-label": "C(nvidia.com/)",
    "topology-name": "topologies",
}
NOT_KEPT = (
    "pod-name",
    "namespace-name",
    "image-name",
    "command-text",
    "variable-text",
    "pod-note",
    "account-name",
    "node-label",
    "claim-name",
)


def test_what_a_record_keeps_of_what_people_wrote_is_documented():
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "pod-name",
            "namespace": "namespace-name",
            "uid": "1",
            "creationTimestamp": "2026-11-23T10:00:00Z",
            "labels": {"priorityClassName": "label-class", "kai.scheduler/queue": "training"},
            "annotations": {"note": "pod-note"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "serviceAccountName": "account-name",
            "nodeSelector": {"kubernetes.io/hostname": "selector-value"},
            "tolerations": [{"key": "team", "value": "toleration-value"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim-name"}}],
            "containers": [
                {
                    "name": "main",
                    "image": "image-name",
                    "command": ["command-text"],
                    "env": [{"name": "A", "value": "variable-text"}],
                    "resources": {},
                }
            ],
        },
        "status": {"phase": "Pending"},
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "w1", "labels": {"nvidia.com/gpu.product": "nvidia-label", "other": "node-label"}},
        "spec": {"taints": [{"key": "team", "value": "taint-value", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "8", "memory": "8Gi"}},
    }
    queue = {"metadata": {"name": "training"}, "spec": {"displayName": "displayName"}}
    topology = {"metadata": {"name": "topology-name"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
    kube = InMemoryApi([pod, node])
    kube.put({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"} | queue)
    kube.put({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology"} | topology)
    trace = json.dumps(record(make_run({}, kube), "kai-scheduler", 0, 15).data())
    documented = " ".join(rehearsal_record.DOCUMENTATION.split())
    assert [text for text in KEPT if text not in trace] == []
    assert [words for words in KEPT.values() if words not in documented] == []
    assert [text for text in NOT_KEPT if text in trace] == []


def test_of_a_scheduler_that_tenants_share_only_their_pods_are_recorded():
    kube = InMemoryApi(
        [{"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "default-queue"}, "spec": {}}]
    )
    for name in ("tenant-a", "tenant-b"):
        metadata = {"name": "work", "namespace": name, "uid": name, "creationTimestamp": "2026-11-23T10:00:00Z"}
        spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "work", "resources": {}}]}
        kube.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
        kube.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {}}})
    now = datetime.datetime(2026, 11, 23, 11, tzinfo=datetime.timezone.utc)
    assert len(record(make_run({}, kube), "kai-scheduler", 0, 15, now=lambda: now).workloads) == 2
    kube.patch("v1", "Namespace", "tenant-a", {"metadata": {"labels": {HOST_SCHEDULER_LABEL: "kai"}}})
    assert len(record(make_run({}, kube), "kai-scheduler", 0, 15, now=lambda: now).workloads) == 1


# --- the verdict ---------------------------------------------------------------------------------------------------


def test_a_verdict():
    assert verdict(GOOD)["result"] == "promote"
    assert verdict(WORSE)["result"] == "hold"
    assert verdict(WORSE, thresholds={"bind_p50": {"amount": 9}})["result"] == "promote"
    near = dataclasses.replace(GOOD, measures={"bind_p50": 2.0})
    assert verdict(near)["result"] == "promote"
    tightened = verdict(near, thresholds={"bind_p50": {"ratio": 0.1, "amount": 0.1}})
    assert (tightened["result"], "bind_p50 is 2 (2 to 2)" in tightened["reasons"][0]) == ("hold", True)
    assert verdict(LOST)["result"] == "reject"


def test_a_candidate_that_cannot_be_installed_is_rejected():
    result = verdict(None, failure="image not found")
    assert (result["result"], result["reasons"]) == ("reject", ("The candidate could not be played: image not found",))


# --- the gate ------------------------------------------------------------------------------------------------------

QUEUES = [{"name": "research", "gpu": {"limit": 8}, "children": [{"name": "training", "gpu": {"quota": 4}}]}]
EMPTY = asked().trace.data() | {"queues": QUEUES, "workloads": []}
WIDER = [{"name": "research", "gpu": {"limit": 16}, "children": [{"name": "training", "gpu": {"quota": 4}}]}]


def cluster(version="v0.12.0", queues=None, sharing=True):
    """A cluster with KAI Scheduler and queues, as this collection makes them."""
    kube = InMemoryApi([manifest(queue) for queue in parse(queues or QUEUES).values()])
    helm = InMemoryHelm(kube)
    known = release(version)
    values = chart_values(known, sharing)
    helm.record(Release(kai.RELEASE_NAME, KAI_NAMESPACE, "deployed", 1, kai.CHART, known.chart_version, values))
    return kube, helm


def gate(world, now=NOW, **given):
    params = {name: option.get("default") for name, option in rehearsal_gate.ARGUMENT_SPEC.items()}
    asked = {"version": "v0.13.1", "gpu_sharing": True, "queues": QUEUES}
    kube, helm = world
    return rehearsal_gate.reconcile(make_run(params | asked | given, kube, helm), now)


def rehearsed(result=GOOD, at=NOW, **to):
    """The verdict on an upgrade from v0.12.0 to v0.13.1."""
    sides = {side: given | {"queues": QUEUES} for side, given in SIDES.items()}
    found = verdict(result, at=at, baseline=sides["baseline"], candidate=sides["candidate"] | to, trace=EMPTY)
    return {key: found[key] for key in VERDICT}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("v0.14.1", "v0.15.0", ["pods of a JobSet start one by one"]),
        ("v0.14.1", "v0.16.8", ["a JobSet has one pod group"]),
        ("v0.16.8", "v0.18.0", ["a Deployment has one pod group"]),
        ("v0.12.0", "v0.13.1", []),
    ],
)
def test_a_verdict_says_what_is_grouped_in_another_way(before, after, said):
    notes = verdict(GOOD, baseline={"version": before}, candidate={"version": after})["notes"]
    told = [note for note in notes if note.startswith("Not played, as a trace brings its groups: ")]
    assert len(told) == len(said)
    assert all(text in note for text, note in zip(said, told))


def test_a_change_needs_a_verdict_that_promotes_it():
    passed = gate(cluster(), verdicts=[rehearsed()])
    assert passed["differences"][0] == "version"
    why = f"{passed['change']}: promote, 2026-11-23T10:00:00+00:00"
    assert passed["steps"] == [{"step": "let the change through", "why": why}]
    with pytest.raises(
        TenancyError, match=r"^KAI Scheduler would change from v0.12.0 to v0.13.1 \(version, .*None of 0 verdicts"
    ):
        gate(cluster())
    with pytest.raises(TenancyError, match=r"is reject: The candidate violates reserved .*"):
        gate(cluster(), verdicts=[rehearsed(LOST)])


def test_a_later_verdict_replaces_an_earlier_one():
    later = NOW + datetime.timedelta(hours=1)
    assert gate(cluster(), verdicts=[rehearsed(at=later), rehearsed(LOST)])["steps"][0]["why"].endswith("11:00:00+00:00")
    with pytest.raises(TenancyError, match="is reject"):
        gate(cluster(), verdicts=[rehearsed(), rehearsed(LOST, at=later)])


def test_a_hold_is_accepted_by_the_name_of_the_change():
    held = rehearsed(WORSE)
    name = held["change"]["name"]
    with pytest.raises(TenancyError, match=rf"is hold: bind_p50 is 9 .* kubegpu_accept_holds: \[{name}\] accepts that\."):
        gate(cluster(), verdicts=[held], accept_holds=["another"])
    assert gate(cluster(), verdicts=[held], accept_holds=[name])["steps"][0]["why"].endswith(
        "hold, 2026-11-23T10:00:00+00:00, accepted"
    )
    with pytest.raises(TenancyError, match="is reject"):
        gate(cluster(), verdicts=[rehearsed(LOST)], accept_holds=[name])


def test_verdicts_grow_old():
    days = datetime.timedelta(days=1)
    assert gate(cluster(), NOW + 30 * days, verdicts=[rehearsed()])["change"]
    with pytest.raises(TenancyError, match=r"promote, is of 2026-11-23T10:00:00\+00:00, and verdicts are good for 30 days\."):
        gate(cluster(), NOW + 31 * days, verdicts=[rehearsed()])


def test_a_verdict_is_about_one_change():
    with pytest.raises(
        TenancyError, match=r"None of 1 verdicts is about this change\. The nearest, v0.12.0-to-v0.13.1-.*, differs in "
    ):
        gate(cluster(), verdicts=[rehearsed()], queues=WIDER)
    with pytest.raises(TenancyError, match=r"differs in from.values.global.gpuSharing\."):
        gate(cluster(sharing=False), verdicts=[rehearsed()])
    with pytest.raises(TenancyError, match=r"differs in from.queues.research.gpu.limit\."):
        gate(cluster(queues=WIDER), verdicts=[rehearsed()])


def test_queues_and_values_alone_are_changes_too():
    for asked, path in (
        ({"queues": WIDER}, "queues.research.gpu.limit"),
        ({"values": {"operator": {"qps": 7}}}, "values.operator"),
    ):
        with pytest.raises(TenancyError, match=rf"from v0.12.0 to v0.12.0 \({path}.*None of 0 verdicts"):
            gate(cluster(), version="v0.12.0", **asked)


def test_without_a_change_or_a_scheduler_there_is_nothing_to_refuse():
    assert gate(cluster("v0.13.1"))["differences"] == []
    empty = InMemoryApi()
    assert gate((empty, InMemoryHelm(empty)))["change"] == ""


def test_a_change_that_was_ended_in_the_middle_may_be_finished():
    promoted = rehearsed(queues=WIDER)
    # The release is there, the queues are not.
    result = gate(cluster("v0.13.1"), verdicts=[promoted], queues=WIDER)
    assert result["differences"] == ["queues.research.gpu.limit"]
    assert result["steps"][0]["why"].startswith(promoted["change"]["name"])


def test_charts_values_are_compared_by_digests():
    """A verdict is committed, and values may be secret."""
    asked = {"values": {"global": {"registry": "hunter2"}, "operator": {"qps": 7.0}}}
    promoted = rehearsed(**asked)
    assert "hunter2" not in json.dumps(promoted)
    assert gate(cluster(), verdicts=[promoted], **asked)["change"] == promoted["change"]["name"]
    # As Helm's record has it, to which a file's 7.0 is 7.
    kube, helm = cluster("v0.13.1")
    now = helm.last(kai.RELEASE_NAME, KAI_NAMESPACE)
    stored = json.loads(json.dumps(asked["values"]).replace("7.0", "7"))
    helm.record(dataclasses.replace(now, values=deep_merge(now.values, stored)))
    assert gate((kube, helm), verdicts=[], **asked)["differences"] == []
    with pytest.raises(TenancyError, match=r"differs in to.values.global.registry\.") as refused:
        gate(cluster(), verdicts=[promoted], values=asked["values"] | {"global": {"registry": "hunter3"}})
    assert "hunter" not in json.dumps([refused.value.message, refused.value.details])


def test_queues_of_others_are_a_part_of_it():
    kube, helm = cluster()
    kube.put({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "theirs"}, "spec": {}})
    with pytest.raises(TenancyError, match=r"differs in from.queues.theirs, to.queues.theirs\."):
        gate((kube, helm), verdicts=[rehearsed()])


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"format": 2}, ["verdicts[0].format: other-format"]),
        ({"at": "2026-11-23"}, ["verdicts[0].at: not-a-time"]),
        (
            {"change": {"name": "a", "from": {}, "to": {}}},
            ["verdicts[0].change.from: unknown-key", "verdicts[0].change.to: unknown-key"],
        ),
        ({"result": "promoted"}, ["verdicts[0].result: not-a-choice"]),
    ],
)
def test_files_that_are_no_verdicts(wrong, expected):
    with pytest.raises(TenancyError) as caught:
        gate(cluster(), verdicts=[rehearsed() | wrong])
    assert placed(caught.value.problems) == expected
