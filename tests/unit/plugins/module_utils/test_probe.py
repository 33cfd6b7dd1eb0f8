# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.namespace import own_namespace, pod_spec

OURS = {"metadata": {"name": "apart", "labels": {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}}}


class FakeKube:
    """A cluster whose garbage collector removes a Deployment's pod after it."""

    def __init__(self, namespace=None, account=True, lingers=0):
        self.namespace = namespace
        self.account = account
        # How many looks a deleted namespace outlives.
        self.lingers = lingers
        self.objects = {}
        self.deleted = []

    def get(self, _api_version, kind, name, _namespace=None):
        if kind == "ServiceAccount":
            return {"metadata": {"name": name}} if self.account else None
        found = self.namespace
        if "Namespace apart" in self.deleted and self.lingers:
            self.lingers -= 1
            if not self.lingers:
                self.namespace = None
        return found

    def create(self, definition):
        assert self.namespace is None
        self.namespace = definition

    def list(self, _api_version, kind, _namespace):
        return [item for (of, _name), item in self.objects.items() if of == kind]

    def delete(self, _api_version, kind, name, _namespace=None):
        self.deleted.append(f"{kind} {name}")
        self.objects.pop((kind, name), None)
        if kind == "Deployment":
            self.objects.pop(("Pod", "d-1"))
        if kind == "Namespace":
            assert not self.objects
            if not self.lingers:
                self.namespace = None

    def add(self, kind, name, **metadata):
        self.objects[kind, name] = {"metadata": {"name": name} | metadata}


def test_it_is_there_while_the_block_runs_and_emptied_first():
    kube = FakeKube()
    with own_namespace(kube, "apart", 1, (("apps/v1", "Deployment"), ("v1", "Pod"))):
        assert kube.namespace["metadata"] == OURS["metadata"]
        kube.add("Deployment", "d")
        kube.add("Pod", "d-1", ownerReferences=[{"kind": "ReplicaSet"}])
        kube.add("Pod", "p")
    assert kube.deleted == ["Deployment d", "Pod p", "Namespace apart"]
    assert kube.namespace is None


def test_it_goes_when_the_block_fails():
    kube = FakeKube()
    kube.add("Pod", "p")
    with pytest.raises(TenancyError, match="no"), own_namespace(kube, "apart", 1):
        raise TenancyError("no")
    assert (kube.namespace, kube.objects) == (None, {})


def test_it_goes_when_it_cannot_be_used():
    kube = FakeKube(account=False)
    with pytest.raises(TenancyError, match="service account"), own_namespace(kube, "apart", 0):
        pytest.fail("pods would be refused")
    assert kube.namespace is None


def test_what_a_killed_run_left_is_removed():
    kube = FakeKube(OURS)
    kube.add("Pod", "old")
    with own_namespace(kube, "apart", 1):
        assert kube.deleted == ["Pod old", "Namespace apart"]


def test_only_the_next_probe_waits_for_the_end_of_an_empty_namespace():
    kube = FakeKube(lingers=3)
    with own_namespace(kube, "apart", 1):
        pass
    assert kube.namespace is not None
    with own_namespace(kube, "apart", 2):
        assert kube.lingers == 0
    kube = FakeKube(OURS, lingers=100)
    with pytest.raises(TenancyError, match="waiting for the end of namespace apart"), own_namespace(kube, "apart", 0):
        pytest.fail("the one before is still there")


def test_what_is_not_ours_stays():
    kube = FakeKube({"metadata": {"name": "apart"}})
    with pytest.raises(TenancyError, match="not ours"), own_namespace(kube, "apart", 1):
        pytest.fail("it is somebody else's")
    assert kube.deleted == []


def test_pods_are_restricted():
    spec = pod_spec("busybox", "true", name="other")
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert spec["containers"][0]["name"] == "other"
