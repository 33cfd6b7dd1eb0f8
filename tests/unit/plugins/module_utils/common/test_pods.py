# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of why a pod does not run, and of pods that run anywhere."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import (
    held_by,
    image_tag,
    is_ready,
    pod_problem,
    pod_problems,
    pod_spec,
    pod_state,
    pods_gone,
)
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi


def pod(**status):
    return {"metadata": {"name": "p"}, "status": status}


def container(state, name="app"):
    return {"name": name, "state": state}


PULL = {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}
CREATING = {"waiting": {"reason": "ContainerCreating"}}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"containerStatuses": [container(PULL)]}, "pod p: app: ErrImagePull (no such host)"),
        ({"initContainerStatuses": [container(PULL, "init")]}, "pod p: init: ErrImagePull (no such host)"),
        (
            {"containerStatuses": [container(CREATING), container({"waiting": {"reason": "CrashLoopBackOff"}}, "b")]},
            "pod p: b: CrashLoopBackOff",
        ),
        ({"containerStatuses": [container({"terminated": {"reason": "Error"}})]}, "pod p: app: Error"),
        ({"conditions": [UNSCHEDULABLE], "phase": "Pending"}, "pod p: Unschedulable (0/2 nodes)"),
        ({"conditions": [UNSCHEDULABLE], "containerStatuses": [container(PULL)]}, "pod p: app: ErrImagePull (no such host)"),
    ],
)
def test_the_reason_is_named(status, expected):
    assert (pod_problem(pod(**status)), pod_state(pod(**status))) == (expected, expected)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"phase": "Pending", "containerStatuses": [container(CREATING)]}, "pod p: Pending, not ready"),
        (
            {"phase": "Pending", "containerStatuses": [container({"waiting": {"reason": "PodInitializing"}})]},
            "pod p: Pending, not ready",
        ),
        ({"phase": "Running", "containerStatuses": [container({"running": {}})]}, "pod p: Running, not ready"),
        (
            {"phase": "Running", "initContainerStatuses": [container({"terminated": {"reason": "Completed"}})]},
            "pod p: Running, not ready",
        ),
        ({"phase": "Running", "containerStatuses": None, "conditions": None}, "pod p: Running, not ready"),
        ({}, "pod p: Unknown, not ready"),
    ],
)
def test_a_pod_on_its_way_has_no_problem(status, state):
    assert (pod_problem(pod(**status)), pod_state(pod(**status))) == (None, state)


def test_only_pods_with_a_problem_are_listed():
    assert pod_problems([pod(), pod(containerStatuses=[container(PULL)])]) == ["pod p: app: ErrImagePull (no such host)"]


def test_ready_is_a_condition():
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert is_ready(ready)
    assert not any(map(is_ready, (None, {}, {"status": {}}, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})))


def test_pods_are_gone_when_none_matches():
    names = ({"name": name, "namespace": "n", "labels": {"app": name}} for name in ("a", "b"))
    kube = InMemoryApi({"apiVersion": "v1", "kind": "Pod", "metadata": metadata} for metadata in names)
    assert pods_gone(kube, "n") == (None, "a, b still there")
    assert pods_gone(kube, "n", "app=b") == (None, "b still there")
    assert pods_gone(kube, "n", "app=c") == (True, "")
    assert pods_gone(kube, "other") == (True, "")


@pytest.mark.parametrize(
    ("image", "expected"),
    [("registry:5000/a/b:v1@sha256:0a", "v1"), ("registry:5000/a/b@sha256:0a", ""), ("registry:5000/a/b", ""), ("b:v2", "v2")],
)
def test_tags(image, expected):
    assert image_tag(image) == expected


def test_what_a_pod_holds_is_no_more_than_kubernetes_counts():
    spec = {"containers": [{"resources": {"limits": {"cpu": "7Ei"}}}]}
    assert held_by(spec, "cpu") == 7 * 2**60
    with pytest.raises(ValueError, match="2\\^63"):
        held_by({"containers": spec["containers"] * 2}, "cpu")


def test_pods_are_restricted():
    spec = pod_spec("busybox", "true", name="other")
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert spec["containers"][0]["name"] == "other"
