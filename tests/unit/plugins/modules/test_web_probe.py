# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.modules import web_probe
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi

PARAMS = {
    "namespace": "kubegpu-web-probe",
    "image": "busybox",
    "scheduler_name": "default-scheduler",
    "queues": [],
    "tolerations": [],
    "timeout": 1,
}


def cluster(fetches, scheduler="default-scheduler"):
    """A cluster whose client pod ends at once, having fetched the page or not."""
    api, pages = InMemoryApi(), []

    def deployment(item):
        script = item["spec"]["template"]["spec"]["containers"][0]["command"][2]
        pages.append(script.split()[1])

    def pod(item):
        phase, message = ("Succeeded", pages[0]) if fetches else ("Failed", "wget: bad address")
        ended = {"terminated": {"reason": "Error", "message": message}}
        item["spec"]["schedulerName"] = scheduler
        api.put(item | {"status": {"phase": phase, "containerStatuses": [{"name": "probe", "state": ended}]}})

    def deleted(_item):
        assert not api.list("v1", "Pod") + api.list("apps/v1", "Deployment"), "the namespace was deleted before its pods"

    api.react("create", "Namespace", api.add_account)
    api.react("create", "Deployment", deployment)
    api.react("create", "Pod", pod)
    api.react("delete", "Namespace", deleted)
    return api


def probe(api, check_mode=False, **params):
    return web_probe.reconcile(Run(PARAMS | params, check_mode, kube=api))


def test_it_passes_and_leaves_nothing():
    api = cluster(fetches=True)
    result = probe(api)
    assert [(record["name"], record["verdict"]) for record in result["results"]] == [("page", "passed"), ("scheduler", "passed")]
    assert (result["changed"], api.objects) == (False, {})


@pytest.mark.parametrize(
    ("api", "match"),
    [
        (cluster(fetches=False), "1 of 2 checks failed. page: .*bad address"),
        (cluster(True, "kai-scheduler"), "scheduler: kai-scheduler"),
    ],
)
def test_it_fails_and_leaves_nothing(api, match):
    with pytest.raises(TenancyError, match=match) as failed:
        probe(api)
    assert len(failed.value.details["results"]) == 2
    assert api.objects == {}


def test_pods_go_to_the_first_leaf():
    api, labels = cluster(fetches=True), []
    api.react("create", "Pod", lambda pod: labels.append(pod["metadata"]["labels"]["kai.scheduler/queue"]))
    probe(api, queues=[{"name": "ml", "children": [{"name": "training"}, {"name": "notebooks"}]}])
    assert labels == ["training"]


def test_check_mode_runs_nothing():
    api = cluster(fetches=True)
    assert {record["verdict"] for record in probe(api, check_mode=True)["results"]} == {"not_tried"}
    assert api.writes == []
