# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import pods_gone, start_failures
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi


def pod(name, **more):
    metadata = {"name": name, "namespace": "n", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata} | more


def test_pods_are_gone_when_none_matches():
    kube = InMemoryApi([pod("a"), pod("b")])
    assert pods_gone(kube, "n") == (None, "a, b still there")
    assert pods_gone(kube, "n", "app=b") == (None, "b still there")
    assert pods_gone(kube, "n", "app=c") == (True, "")
    assert pods_gone(kube, "other") == (True, "")


@pytest.mark.parametrize("statuses", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize(
    ("state", "failures"),
    [
        ({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}, ["pod p: ImagePullBackOff no such image"]),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, ["pod p: CrashLoopBackOff"]),
        ({"waiting": {"reason": "ContainerCreating"}}, []),
        ({"waiting": {"reason": "PodInitializing"}}, []),
        ({"waiting": None}, []),
        ({"running": {}}, []),
        (None, []),
    ],
)
def test_why_containers_do_not_start(statuses, state, failures):
    assert start_failures([pod("p", status={statuses: [{"state": state}]}), pod("new")]) == failures
