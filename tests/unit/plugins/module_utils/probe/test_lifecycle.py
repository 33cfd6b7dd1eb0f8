# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.lifecycle import own_namespace
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clock import Clock

OWNED = {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}


class Cluster(InMemoryApi):
    """A cluster whose garbage collector removes a Deployment's pod after it.

    :arg account: whether a namespace gets its service account.
    :arg lingers: how many reads a deleted namespace outlives.
    """

    def __init__(self, labels=None, account=True, lingers=0):
        super().__init__()
        self.account = account
        self.lingers = lingers
        self.terminating = False
        if labels is not None:
            self.add("Namespace", "apart", labels=labels)
        self.react("create", "Namespace", lambda _item: self.add("ServiceAccount", "default") if account else None)
        self.react("delete", "Deployment", lambda _item: self.drop("v1", "Pod", "d-1", "apart"))

    @property
    def namespace(self):
        return self.objects.get(("v1", "Namespace", None, "apart"))

    @property
    def deleted(self):
        return [f"{kind} {name}" for verb, kind, name in self.writes if verb == "delete"]

    def add(self, kind, name, **metadata):
        home = {} if kind == "Namespace" else {"namespace": "apart"}
        api_version = "apps/v1" if kind == "Deployment" else "v1"
        self.put({"apiVersion": api_version, "kind": kind, "metadata": {"name": name} | home | metadata})

    def get(self, api_version, kind, name, namespace=None):
        found = super().get(api_version, kind, name, namespace)
        if kind == "Namespace" and self.terminating:
            self.lingers -= 1
            if not self.lingers:
                self.drop("v1", "Namespace", "apart")
                self.terminating = False
        return found

    def delete(self, api_version, kind, name, namespace=None, grace_seconds=None):
        if kind == "Namespace":
            assert not [key for key in self.objects if key[1] in ("Pod", "Deployment")]
            if self.lingers:
                self.terminating = True
                self.writes.append(("delete", kind, name))
                return True
        return super().delete(api_version, kind, name, namespace, grace_seconds)


def apart(kube, seconds=1, kinds=(("v1", "Pod"),)):
    return own_namespace(kube, "apart", Clock().deadline(seconds), kinds)


def test_it_is_there_while_the_block_runs_and_emptied_first():
    kube = Cluster()
    with apart(kube, kinds=(("apps/v1", "Deployment"), ("v1", "Pod"))):
        assert kube.namespace["metadata"]["labels"] == OWNED
        kube.add("Deployment", "d")
        kube.add("Pod", "d-1", ownerReferences=[{"kind": "ReplicaSet"}])
        kube.add("Pod", "p")
    assert kube.deleted == ["Deployment d", "Pod p", "Namespace apart"]
    assert kube.namespace is None


def test_it_goes_when_the_block_fails():
    kube = Cluster()

    def fail():
        with apart(kube):
            kube.add("Pod", "p")
            raise TenancyError("no")

    with pytest.raises(TenancyError, match="no"):
        fail()
    assert kube.objects == {}


def test_it_goes_when_time_is_up():
    kube, clock = Cluster(), Clock()
    deadline = clock.deadline(5)
    with own_namespace(kube, "apart", deadline):
        kube.add("Pod", "p", finalizers=["example.com/slow"])
        clock.sleep(5)

        def end_the_pod(seconds):
            clock.sleep(seconds)
            if clock() > 25:
                kube.drop("v1", "Pod", "p", "apart")

        deadline.sleep = end_the_pod
    assert kube.objects == {}
    assert clock() < 5 + 30


def test_it_goes_when_it_cannot_be_used():
    kube = Cluster(account=False)
    with pytest.raises(TenancyError, match="service account"), apart(kube, 0):
        pytest.fail("pods would be refused")
    assert kube.namespace is None


def test_leftovers_of_a_killed_run_are_removed():
    kube = Cluster(OWNED)
    kube.add("Pod", "old")
    with apart(kube):
        assert kube.deleted == ["Pod old", "Namespace apart"]


def test_only_the_next_probe_waits_for_the_end_of_an_empty_namespace():
    kube = Cluster(lingers=3)
    with apart(kube):
        pass
    assert kube.namespace is not None
    with apart(kube, 2):
        assert kube.lingers == 0
    kube = Cluster(OWNED, lingers=100)
    with pytest.raises(TenancyError, match="waiting for the end of namespace apart"), apart(kube, 0):
        pytest.fail("the one before is still there")


def test_a_namespace_of_others_stays():
    kube = Cluster({})
    with pytest.raises(TenancyError, match=r"apart exists and is not owned by kubegpu\.tenancy"), apart(kube):
        pytest.fail("another client made it")
    assert kube.writes == []
