# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Against an API whose pods get their status at once."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.probe import reconcile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.image_pull import NAME
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run


def waiting(reason, message=""):
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "probe", "state": state}]}


ENDED = {"phase": "Succeeded", "containerStatuses": [{"name": "probe", "state": {"terminated": {"reason": "Completed"}}}]}
WITHOUT_A_SHELL = waiting("CreateContainerError", 'exec: "/bin/sh": no such file or directory')
NO_NODE = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 node(s) had untolerated taint"}
    ],
}
NOT_THERE = waiting("ErrImagePull", "rpc error: code = NotFound desc = ghcr.io/example/none:1: not found")
PRIVATE = waiting("ImagePullBackOff", 'Back-off pulling image "private": ErrImagePull: 401 Unauthorized')


def cluster(statuses):
    """A cluster whose pods get a status by their image; None for a pod that another client removes."""
    api = InMemoryApi()

    def pod(item):
        status = statuses[item["spec"]["containers"][0]["image"]]
        if status is None:
            api.drop("v1", "Pod", item["metadata"]["name"], NAME)
        else:
            api.put(item | {"spec": item["spec"] | {"nodeName": "w1"}, "status": status})

    api.react("create", "Namespace", api.add_account)
    api.react("create", "Pod", pod)
    return api


def probe(statuses, check_mode=False, images=None):
    api = cluster(statuses)
    params = {"kind": "image_pull", "images": list(statuses) if images is None else images, "timeout": 5}
    try:
        return reconcile(make_run(params, api, check_mode=check_mode))
    except TenancyError as exc:
        return {"msg": exc.message, **exc.details}
    finally:
        assert not api.list("v1", "Namespace"), "the probe left its namespace"


@pytest.mark.parametrize(
    ("status", "verdict", "told"),
    [
        (ENDED, "passed", "on w1"),
        (WITHOUT_A_SHELL, "passed", "on w1"),
        (waiting("ContainerCreating"), "failed", "it was not pulled within 5 seconds"),
        (NOT_THERE, "failed", "ErrImagePull: rpc error: code = NotFound desc = ghcr.io/example/none:1: not found"),
        (waiting("InvalidImageName", "no\nname"), "failed", "InvalidImageName: no name"),
        (PRIVATE, "not_tried", "nothing is known of the credentials that its installation pulls it with"),
        (NO_NODE, "not_tried", "no node takes its pod: 0/1 nodes are available: 1 node(s) had untolerated taint"),
        ({"phase": "Failed", "reason": "Evicted"}, "not_tried", "Failed"),
        (None, "failed", "its pod was removed by someone else"),
    ],
)
def test_an_image_is_judged_by_what_its_pod_waits_for(status, verdict, told):
    (result,) = probe({"image": status})["results"]
    assert (result["name"], result["verdict"]) == ("image", verdict)
    assert told in result["reason"]


def test_each_image_is_pulled_once_and_each_failure_is_told():
    said = probe({"a": ENDED, "b": NOT_THERE}, images=["a", "b", "a"])
    assert [result["name"] for result in said["results"]] == ["a", "b"]
    assert said["msg"].startswith("1 of 2 checks failed. b: ErrImagePull")


@pytest.mark.parametrize(("images", "check_mode"), [([], False), (["a"], True)])
def test_nothing_is_made_without_images_or_in_check_mode(images, check_mode):
    said = probe({"a": ENDED}, check_mode, images)
    assert [result["verdict"] for result in said["results"]] == ["not_tried"] * len(images)
    assert said["changed"] is False
