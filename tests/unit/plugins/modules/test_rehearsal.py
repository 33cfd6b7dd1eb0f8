# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.lifecycle import record
from ansible_collections.kubegpu.tenancy.plugins.modules import (
    rehearsal_cluster,
    rehearsal_record,
    rehearsal_rounds,
    rehearsal_trace,
    rehearsal_verdict,
)
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run


def run(module, kube=None, check_mode=False, **given):
    params = {name: option.get("default") for name, option in module.ARGUMENT_SPEC.items()} | given
    return module.reconcile(make_run(params, kube, check_mode=check_mode))


def made(**given):
    return run(rehearsal_trace, **({"pattern": "fractions", "nodes": [{"count": 2, "gpus": 2}], "span": 60} | given))


def test_a_trace_is_made_and_checked():
    result = made()
    assert (result["changed"], result["gpus"], result["pods"]) == (False, 4, 16)
    assert run(rehearsal_trace, trace=result["trace"])["trace"] == result["trace"]
    with pytest.raises(TenancyError, match=r"nodes\[0\].gpu: unknown key. Did you mean gpus\?"):
        made(nodes=[{"gpu": 2}])
    with pytest.raises(TenancyError, match=r"trace.span: is missing"):
        run(rehearsal_trace, trace={"format": 1})


def test_a_cluster_is_recorded_by_reading_it():
    kube = InMemoryApi([{"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "a"}, "spec": {}}])
    result = run(rehearsal_record, kube)
    assert result["pods"] == 0
    assert [queue["name"] for queue in result["trace"]["queues"]] == ["a"]
    assert kube.writes == []
    assert {read[0] for read in kube.reads} == {"list"}


def test_a_record_takes_as_long_as_it_is_to():
    here = make_run({}, InMemoryApi())
    start = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
    trace = record(here, "kai-scheduler", 40, 15, lambda: start + datetime.timedelta(seconds=here.deadline.clock()))
    # The trace of a moment has a length, too.
    assert (here.deadline.clock(), trace.span) == (40, 60)
    reads = [kind for _verb, kind, _name in here.kube.reads]
    assert (reads.count("Pod"), reads.count("Node")) == (4, 1)


def test_nothing_is_played_in_check_mode():
    kube = InMemoryApi()
    trace = made()["trace"]
    steps = run(rehearsal_cluster, kube, check_mode=True, trace=trace)["steps"]
    assert steps[-1]["step"] == "create 2 simulated nodes"
    kube.put(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"rehearsal.kubegpu.tenancy/simulated": "true"}}}
    )
    assert run(rehearsal_rounds, kube, check_mode=True, trace=trace)["rounds"] == []
    assert kube.writes == []


def test_clusters_without_anything_of_a_rehearsal_stay_as_they_are():
    kube = InMemoryApi()
    assert run(rehearsal_cluster, kube, state="absent")["changed"] is False
    assert kube.writes == []


ROUND = {
    "violations": [],
    "measures": {"bind_p50": 1.0},
    "samples": [{"at": 0.0, "gpus": {"notebooks": 1.0}, "bound": 1, "waiting": 0}],
    "waits": {"a-0": 1.0},
    "unbound": {},
}


def test_a_verdict():
    trace = made()["trace"]
    worse = ROUND | {"measures": {"bind_p50": 9.0}}
    assert run(rehearsal_verdict, trace=trace, baseline=[ROUND], candidate=[ROUND])["result"] == "promote"
    held = run(rehearsal_verdict, trace=trace, baseline=[ROUND], candidate=[worse])
    assert (held["changed"], held["result"]) == (False, "hold")
    allowed = {"bind_p50": {"amount": 9}}
    assert run(rehearsal_verdict, trace=trace, baseline=[ROUND], candidate=[worse], thresholds=allowed)["result"] == "promote"
    lost = ROUND | {"violations": [{"invariant": "reserved", "at": 3.0, "message": "a"}]}
    assert run(rehearsal_verdict, trace=trace, baseline=[ROUND], candidate=[lost])["result"] == "reject"


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([], "baseline: has no rounds, so that there is nothing to compare."),
        ([{}], r"baseline\[0\]: is none of rehearsal_rounds' rounds: 'violations'."),
        ([ROUND | {"samples": [{"at": 1}]}], r"baseline\[0\]: is none of rehearsal_rounds' rounds: "),
    ],
)
def test_rounds_that_are_none(rounds, said):
    with pytest.raises(TenancyError, match=said):
        run(rehearsal_verdict, trace=made()["trace"], baseline=rounds, candidate=[ROUND])
