# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import probe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe import web
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.plan import Settings
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

ANY = {"operator": "Exists"}


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


def run(api, check_mode=False, **params):
    return probe.reconcile(make_run({"kind": "web", "timeout": 1, **params}, api, check_mode=check_mode))


def test_it_passes_and_leaves_nothing():
    api = cluster(fetches=True)
    result = run(api)
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
        run(api)
    assert len(failed.value.details["results"]) == 2
    assert api.objects == {}


def test_pods_go_to_the_first_leaf():
    api, labels = cluster(fetches=True), []
    api.react("create", "Pod", lambda pod: labels.append(pod["metadata"]["labels"]["kai.scheduler/queue"]))
    run(api, queues=[{"name": "ml", "children": [{"name": "training"}, {"name": "notebooks"}]}])
    assert labels == ["training"]


def test_check_mode_runs_nothing():
    api = cluster(fetches=True)
    assert {record["verdict"] for record in run(api, check_mode=True)["results"]} == {"not_tried"}
    assert api.writes == []


def test_pods_are_submitted_to_a_queue():
    deployment, _service, pod = web.manifests(Settings("apart", scheduler_name="kai-scheduler"), "token", 1, "training")
    template = deployment["spec"]["template"]
    submitted = {"kai.scheduler/queue": "training", "priorityClassName": "train"}
    assert [template["spec"]["schedulerName"], pod["spec"]["schedulerName"]] == ["kai-scheduler"] * 2
    assert pod["metadata"]["labels"] == submitted
    assert template["metadata"]["labels"].items() >= submitted.items()


def test_manifests_belong_together_and_are_restricted():
    deployment, service, pod = web.manifests(Settings("apart", tolerations=(ANY,)), "abc", 20)
    template = deployment["spec"]["template"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    # The Service must not reach the client itself.
    assert "labels" not in pod["metadata"]
    assert "http://kubegpu-web-probe.apart.svc:8080/" in pod["spec"]["containers"][0]["command"][2]
    for spec in (template["spec"], pod["spec"]):
        assert spec["tolerations"] == [ANY]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def client(phase, message="", ready=False):
    return {
        "metadata": {"name": web.NAME},
        "spec": {"schedulerName": "default-scheduler"},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": "probe", "state": {"terminated": {"reason": "Error", "message": message}}}]
            if phase in ("Succeeded", "Failed")
            else [],
        },
    }


SERVER = {
    "metadata": {"name": "probe-1"},
    "spec": {},
    "status": {
        "phase": "Pending",
        "containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": "ErrImagePull", "message": "no host"}}}],
    },
}


@pytest.mark.parametrize(
    ("pods", "verdict", "reason"),
    [
        ([client("Succeeded", "abc\n")], "passed", "through Service kubegpu-web-probe"),
        ([client("Succeeded", "nginx")], "failed", "another page was served: 'nginx'"),
        (
            [client("Failed", "wget: bad address"), SERVER],
            "failed",
            "wget: bad address; pod probe-1: probe: ErrImagePull (no host)",
        ),
        ([client("Running", ready=True)], None, "still fetching"),
        ([client("Pending"), SERVER], None, "ErrImagePull"),
        ([], None, "does not exist"),
    ],
)
def test_outcome(pods, verdict, reason):
    found, why = web.outcome(pods, "abc")
    assert found == verdict
    assert reason in why


def test_foreign_schedulers():
    assert web.foreign_schedulers([client("Running"), SERVER], web.DEFAULT_SCHEDULER) == []
    assert web.foreign_schedulers([{"spec": {"schedulerName": "kai-scheduler"}}], web.DEFAULT_SCHEDULER) == ["kai-scheduler"]
    assert web.foreign_schedulers([{"spec": {"schedulerName": "kai-scheduler"}}], "kai-scheduler") == []
