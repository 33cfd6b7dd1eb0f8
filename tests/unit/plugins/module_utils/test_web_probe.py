# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_web import plan as web
from ansible_collections.kubegpu.tenancy.plugins.modules import web_probe


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
    assert web.foreign_schedulers([client("Running"), SERVER], web.SCHEDULER) == []
    assert web.foreign_schedulers([{"spec": {"schedulerName": "kai-scheduler"}}], web.SCHEDULER) == ["kai-scheduler"]
    assert web.foreign_schedulers([{"spec": {"schedulerName": "kai-scheduler"}}], "kai-scheduler") == []


def test_pods_are_submitted_to_a_queue():
    deployment, _service, pod = web.manifests("n", "busybox", "token", 1, "kai-scheduler", "training")
    template = deployment["spec"]["template"]
    submitted = {"kai.scheduler/queue": "training", "priorityClassName": "train"}
    assert [template["spec"]["schedulerName"], pod["spec"]["schedulerName"]] == ["kai-scheduler"] * 2
    assert pod["metadata"]["labels"] == submitted
    assert template["metadata"]["labels"].items() >= submitted.items()


def test_manifests_belong_together_and_are_restricted():
    deployment, service, pod = web.manifests("apart", "busybox", "abc", 20)
    template = deployment["spec"]["template"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    # The Service must not reach the client itself.
    assert "labels" not in pod["metadata"]
    assert "http://kubegpu-web-probe.apart.svc:8080/" in pod["spec"]["containers"][0]["command"][2]
    for spec in (template["spec"], pod["spec"]):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


class FakeKube:
    """A cluster whose client pod ends at once, having fetched the page or not."""

    def __init__(self, fetches, scheduler="default-scheduler"):
        self.objects = []
        self.fetches = fetches
        self.scheduler = scheduler

    def get(self, _api_version, kind, name, _namespace=None):
        if kind == "ServiceAccount":
            return {"metadata": {"name": name}}
        return next((o for o in self.objects if (o["kind"], o["metadata"]["name"]) == (kind, name)), None)

    def create(self, definition):
        if definition["kind"] == "Pod":
            said = self.token if self.fetches else "wget: bad address"
            definition |= {"status": client("Succeeded" if self.fetches else "Failed", said)["status"]}
            definition["spec"]["schedulerName"] = self.scheduler
        if definition["kind"] == "Deployment":
            script = definition["spec"]["template"]["spec"]["containers"][0]["command"][2]
            self.token = script.split()[1]
        self.objects.append(definition)

    def list(self, _api_version, kind, namespace):
        return [o for o in self.objects if o["kind"] == kind and o["metadata"].get("namespace") == namespace]

    def delete(self, _api_version, kind, name, _namespace=None):
        if kind == "Namespace":
            assert {o["kind"] for o in self.objects} <= {"Namespace", "Service"}
            self.objects.clear()
        self.objects = [o for o in self.objects if (o["kind"], o["metadata"]["name"]) != (kind, name)]


PARAMS = {"namespace": "kubegpu-web-probe", "image": "busybox", "timeout": 1, "scheduler_name": web.SCHEDULER, "queues": []}


def test_probe_passes_and_leaves_nothing():
    kube = FakeKube(fetches=True)
    result = web_probe.run(PARAMS, kube, check_mode=False)
    assert [(found["name"], found["verdict"]) for found in result["results"]] == [("page", "passed"), ("scheduler", "passed")]
    assert kube.objects == []


@pytest.mark.parametrize(
    ("kube", "match"),
    [
        (FakeKube(fetches=False), "1 of 2 checks failed. page: .*bad address"),
        (FakeKube(True, "kai-scheduler"), "scheduler: kai-scheduler"),
    ],
)
def test_probe_fails_and_leaves_nothing(kube, match):
    with pytest.raises(TenancyError, match=match) as failed:
        web_probe.run(PARAMS, kube, check_mode=False)
    assert len(failed.value.details["results"]) == 2
    assert kube.objects == []


def test_probe_in_check_mode():
    kube = FakeKube(fetches=True)
    assert {found["verdict"] for found in web_probe.run(PARAMS, kube, check_mode=True)["results"]} == {"not_tried"}
    assert kube.objects == []
