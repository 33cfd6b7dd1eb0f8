# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Refused, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.volcano_queues import reconcile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.facts import QUEUE_API, QUEUE_KIND
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run


class Silent(InMemoryApi):
    """An API server whose webhook answers the second call."""

    calls = 0

    def create(self, definition, **more):
        self.calls += 1
        if self.calls == 1:
            raise TenancyError('failed calling webhook "validatequeue.volcano.sh": connection refused')
        return super().create(definition, **more)


OWNED = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}


def queue(name, labels=None, **spec):
    return {
        "apiVersion": QUEUE_API,
        "kind": QUEUE_KIND,
        "metadata": {"name": name, "labels": dict(OWNED if labels is None else labels)},
        "spec": spec,
    }


def group(name, queue_name, phase=None):
    item = {
        "apiVersion": QUEUE_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"queue": queue_name},
    }
    return item | ({"status": {"phase": phase}} if phase else {})


def have(api, *tree, check_mode=False):
    run = make_run({"queues": list(tree), "version": "1.10.0", "timeout": 5}, api, check_mode=check_mode)
    return reconcile(run)


WEATHER = {"name": "weather", "gpu": {"quota": 2, "limit": 4}}


def test_queues_are_made_once_and_check_mode_makes_none():
    api = InMemoryApi([queue("default", {}), queue("root", {})])
    assert have(api, WEATHER, check_mode=True)["changed"]
    assert api.writes == []
    made = have(api, WEATHER)
    assert made["leaves"] == ["weather"]
    assert [step["step"] for step in made["steps"]] == ["create queue weather"]
    assert not have(api, WEATHER)["changed"]
    assert api.get(QUEUE_API, QUEUE_KIND, "weather")["spec"]["capability"] == {"nvidia.com/gpu": "4"}


def test_what_was_edited_is_taken_back_and_what_volcano_adds_stays():
    api = InMemoryApi()
    have(api, WEATHER)
    live = api.get(QUEUE_API, QUEUE_KIND, "weather")
    live["spec"] |= {"parent": "root", "capability": {"nvidia.com/gpu": "9", "cpu": "1"}}
    api.put(live)
    result = have(api, WEATHER)
    assert result["diff"]["before"]["weather"] == {"capability nvidia.com/gpu": "9", "capability cpu": "1"}
    (step,) = result["steps"]
    assert step["why"] == "capability nvidia.com/gpu 9 -> 4, capability cpu 1 -> nothing"
    spec = api.get(QUEUE_API, QUEUE_KIND, "weather")["spec"]
    assert (spec["capability"], spec["parent"]) == ({"nvidia.com/gpu": "4"}, "root")
    assert not have(api, WEATHER)["changed"]


def test_a_queue_of_somebody_else_is_adopted_and_others_stay():
    api = InMemoryApi([queue("weather", {}, weight=1), queue("theirs", {}, weight=1), queue("default", weight=1)])
    have(api, WEATHER)
    assert api.get(QUEUE_API, QUEUE_KIND, "weather")["metadata"]["labels"] == OWNED
    assert {item["metadata"]["name"] for item in api.list(QUEUE_API, QUEUE_KIND)} == {"weather", "theirs", "default"}


def test_what_is_not_wanted_goes_unless_it_has_work():
    api = InMemoryApi([queue("old", weight=1)])
    assert [step["step"] for step in have(api)["steps"]] == ["delete queue old"]
    groups = [group("a", "old", "Running"), group("b", "old"), group("c", "old", "Completed"), group("d", "else", "Running")]
    busy = InMemoryApi([queue("old", weight=1), *groups])
    with pytest.raises(Refused, match="because its pod groups have work to do: ml/a, ml/b") as caught:
        have(busy, WEATHER)
    assert placed(caught.value.problems) == ["queues.old: queue-in-use"]
    assert busy.writes == []


def test_a_webhook_that_does_not_answer_yet_is_waited_for():
    api = Silent()
    have(api, WEATHER)
    assert api.writes == [("create", QUEUE_KIND, "weather")]


@pytest.mark.parametrize("spec", [["x"], {"deserved": 5}, {"capability": "x"}, 5])
def test_what_has_not_the_form_of_a_queue_is_named(spec):
    api = InMemoryApi([queue("odd") | {"spec": spec}])
    with pytest.raises(TenancyError, match="queue odd cannot be read: its spec has not the form of a queue's"):
        have(api, WEATHER)
    assert api.writes == []


def test_odd_pod_groups_hold_no_queue():
    odd = [
        group("a", "old") | {"spec": 5},
        group("b", ["old"]),
        group("c", "old", "Completed"),
        group("d", "old") | {"status": 5},
    ]
    assert have(InMemoryApi([queue("old", weight=1), *odd]))["changed"]


def test_a_release_with_other_rules_gets_no_queues():
    run = make_run({"queues": [WEATHER], "version": "1.14.0", "timeout": 5}, InMemoryApi())
    with pytest.raises(TenancyError, match="gives back by other rules"):
        reconcile(run)
