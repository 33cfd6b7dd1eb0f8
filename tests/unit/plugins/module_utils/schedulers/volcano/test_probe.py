# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import probe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.facts import JOB_API, JOB_LABEL, QUEUE_API
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import node

NAMESPACE = "volcano-probe"
WEATHER = {"name": "weather", "gpu": {"quota": 1, "limit": 2}}


def holder(gpus):
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "holder", "namespace": "ml"},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": "Running"},
    }


class Cluster:
    """A cluster in which Volcano starts the jobs of some names, as many of their pods as are said.

    :ivar jobs: what was created.
    """

    def __init__(self, gpus=4, held=0, groups=True, **started):
        self.started, self.groups, self.jobs = started, groups, {}
        self.api = InMemoryApi([node("n1", gpus=gpus), *([holder(held)] if held else [])])
        self.api.react("create", "Namespace", self.api.add_account)
        self.api.react("create", "Job", self._run)

    def _run(self, item):
        name = item["metadata"]["name"]
        self.jobs[name] = item
        if self.groups:
            group = {"apiVersion": QUEUE_API, "kind": "PodGroup", "metadata": {"name": f"{name}-uid", "namespace": NAMESPACE}}
            self.api.put(group)
        for number, task in enumerate(item["spec"]["tasks"]):
            placed = number < self.started.get(name.replace("-", "_"), 0)
            spec = task["template"]["spec"] | ({"nodeName": "n1"} if placed else {})
            metadata = {"name": f"{name}-{task['name']}-0", "namespace": NAMESPACE, "labels": {JOB_LABEL: name}}
            status = {"phase": "Running" if placed else "Pending"}
            self.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})

    def probe(self, *queues, check_mode=False, timeout=60):
        params = {"kind": "volcano_scheduling", "queues": list(queues), "timeout": timeout}
        return probe.reconcile(make_run(params, self.api, check_mode=check_mode))


def verdicts(result):
    return {found["name"]: (found["verdict"], found["reason"]) for found in result["results"]}


def test_what_works_passes_and_leaves_nothing():
    cluster = Cluster(gang_0=3)
    assert verdicts(cluster.probe(WEATHER)) == {
        "gang in weather": ("passed", "all 3 pods started"),
        "gang too large in weather": ("passed", "none of 2 pods started within 10 s"),
        "over limit in weather": ("passed", "none of 3 pods started within 10 s"),
    }
    assert cluster.api.list(JOB_API, "Job") == []
    asked = [
        task["template"]["spec"]["containers"][0]["resources"]["limits"] for task in cluster.jobs["over-limit-0"]["spec"]["tasks"]
    ]
    assert [limits["nvidia.com/gpu"] for limits in asked] == ["1"] * 3
    assert {job["spec"]["queue"] for job in cluster.jobs.values()} == {"weather"}
    assert [job["spec"]["minAvailable"] for job in cluster.jobs.values()] == [3, 2, 3]


def test_without_queues_the_default_one_is_tried():
    assert list(verdicts(Cluster(gang_0=3).probe())) == ["gang in default", "gang too large in default"]


def test_a_limit_is_not_tried_where_nothing_else_would_let_it_start():
    found = verdicts(Cluster(held=2, gang_0=3).probe(WEATHER))
    assert found["over limit in weather"] == ("not_tried", "it needs 3 free GPUs, and 2 are")
    # Where no gang could ever be larger, there is nothing to try, and nothing in doubt.
    for limit in (2, 10**9, 2**62):
        assert "over limit in weather" not in verdicts(Cluster(gpus=2, gang_0=3).probe(WEATHER | {"gpu": {"limit": limit}}))


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (Cluster(gang_0=2), "gang in weather: Timed out"),
        (Cluster(gang_0=3, too_large=1), "gang too large in weather: 1 of 2 pods got a node, and the gang cannot be whole"),
        (Cluster(gang_0=3, over_limit_0=3), "over limit in weather: 3 of 3 pods got a node"),
        (Cluster(gang_0=3, groups=False), "Volcano has made no pod group for it"),
    ],
)
def test_what_does_not_work_fails(cluster, said):
    with pytest.raises(TenancyError) as caught:
        cluster.probe(WEATHER, timeout=20)
    assert said in caught.value.message


def test_a_node_that_says_no_amounts_has_none():
    cluster = Cluster(gang_0=3)
    cluster.api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}, "spec": {}, "status": {}})
    assert {verdict for verdict, _reason in verdicts(cluster.probe(WEATHER)).values()} == {"passed"}


def test_in_check_mode_nothing_runs():
    cluster = Cluster()
    assert verdicts(cluster.probe(WEATHER, check_mode=True)) == {"gang in weather": ("not_tried", "check mode")}
    assert cluster.jobs == {}
