# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs of Volcano that wait, in the words of Volcano 1.10.0."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.modules import kai_pending_info
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.pending import node, pod
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item

API = "scheduling.volcano.sh/v1beta1"
WAITS = {
    "type": "Unschedulable",
    "lastTransitionTime": "2026-11-22T12:01:00Z",
    "message": "1/16 tasks in gang unschedulable: pod group is not ready, 16 Pending, 16 minAvailable; Pending: 1 Unschedulable, 15 Schedulable",
}
STARTS = {"type": "Scheduled", "lastTransitionTime": "2026-11-22T12:02:00Z", "reason": "tasks in gang are ready to be scheduled"}


def member(name):
    """The pod of a gang as most of them are: it could be placed, by itself."""
    told = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Schedulable",
        "message": "Pod team/train-0 can possibly be assigned to n1",
    }
    notes = {"scheduling.k8s.io/group-name": "train"}
    made = pod(name, gpus=2, annotations=notes, status={"conditions": [told]}, schedulerName="volcano")
    made["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1"
    return made


def group(*conditions, least=2, queue="small"):
    spec = {"minMember": least, "queue": queue}
    return item(API, "PodGroup", "train", "team", spec=spec, status={"phase": "Inqueue", "conditions": list(conditions)})


def queue(**capability):
    return item(API, "Queue", "small", spec={"capability": capability})


def told(*objects):
    others = [member(f"train-{number}") for number in (1, 2)]
    for one in others:
        # Such pods are counted and not judged.
        one["status"]["phase"] = "Running"
        one["spec"]["nodeName"] = "n1"
    one = member("train-0")
    params = {name: option.get("default") for name, option in kai_pending_info.ARGUMENT_SPEC.items()}
    result = kai_pending_info.reconcile(make_run(params, InMemoryApi([node(), one, *others, *objects])))
    (row,) = result["pods"]
    return row["reason"], row["message"], result["unread"]


def test_a_gang_says_why_it_waits():
    assert told(group(WAITS)) == (
        "gang",
        f"Volcano does not start its gang train of queue small: {WAITS['message']}.",
        [],
    )


def test_a_gang_that_asks_for_more_than_its_queue_gets():
    reason, message, _unread = told(group(WAITS), queue(**{"nvidia.com/gpu": "3", "cpu": "8"}))
    assert (reason, message) == (
        "over_limit",
        "Its gang train asks for more than queue small gets at most, of nvidia.com/gpu: 4, and a limit of 3.",
    )
    assert told(group(WAITS), queue(**{"nvidia.com/gpu": "4"}))[0] == "gang"
    # Of several resources, the first is told.
    _reason, message, _unread = told(group(WAITS), queue(**{"nvidia.com/gpu": "3", "cpu": "1"}))
    assert message.endswith("of cpu: 2, and a limit of 1.")


@pytest.mark.parametrize("conditions", [[WAITS, STARTS], [], [STARTS]])
def test_a_gang_that_starts_is_no_reason(conditions):
    assert told(group(*conditions))[0] == "unknown"


@pytest.mark.parametrize(
    "odd",
    [
        group(WAITS) | {"spec": 5},
        group(WAITS) | {"status": {"conditions": 5}},
        group(WAITS, least="x"),
    ],
)
def test_a_group_that_cannot_be_read_is_named(odd):
    reason, _message, unread = told(odd, queue(**{"nvidia.com/gpu": "4"}))
    assert reason == "unknown"
    assert unread[0].startswith("PodGroup team/train cannot be read")


def test_without_gangs_nothing_of_volcano_is_asked():
    api = InMemoryApi([node(), pod()])
    params = {name: option.get("default") for name, option in kai_pending_info.ARGUMENT_SPEC.items()}
    kai_pending_info.reconcile(make_run(params, api))
    before = len(api.reads)
    api.put(member("train-1"))
    kai_pending_info.reconcile(make_run(params, api))
    assert len(api.reads) - before == before + 2
