# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_network import plan as probe
from ansible_collections.kubegpu.tenancy.plugins.modules.network_policy_probe import run

PARAMS = {"namespace": "apart", "image": "busybox", "timeout": 1, "policy_timeout": 1}


def node(name, taints=(), unschedulable=False, ready=True):
    return {
        "metadata": {"name": name},
        "spec": {"taints": [{"key": "k", "effect": effect} for effect in taints], "unschedulable": unschedulable},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


class FakeKube:
    """A cluster in which policies cut off the clients on ``enforcing`` nodes.

    :arg broken: while what is there (``pods`` or ``policy``) a client reaches nothing, policy or not.
    """

    def __init__(self, nodes=("a", "b"), enforcing=(), address="10.0.0.7", broken="", refused=False):
        self.nodes = [node(name) for name in nodes]
        self.enforcing = enforcing
        self.address = address
        self.broken = broken
        self.refused = refused
        self.namespace = None
        self.pods = {}
        self.policy = None
        self.died = False
        self.asked = []

    def get(self, _api_version, kind, name, _namespace=None):
        return {"metadata": {"name": name}} if kind == "ServiceAccount" else self.namespace

    def create(self, definition):
        if definition["kind"] == "Namespace":
            self.namespace = definition
        elif definition["kind"] == "NetworkPolicy":
            if self.refused:
                raise TenancyError("Creating NetworkPolicy failed: forbidden", status=403)
            self.policy = definition
            self.died = self.broken == "policy"
        else:
            self.pods[definition["metadata"]["name"]] = definition

    def list(self, _api_version, kind, namespace=None):
        if kind == "Node":
            return self.nodes
        assert namespace == "apart"
        return [pod | {"status": self._status(pod)} for pod in self.pods.values()]

    def _status(self, pod):
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        on = terms[0]["matchFields"][0]["values"][0]
        ready = True
        if pod["metadata"]["name"].startswith("client"):
            self.asked.append(pod["spec"]["containers"][0]["readinessProbe"]["exec"]["command"][-1])
            ready = not (self.broken == "pods" or self.died or (self.policy and on in self.enforcing))
        return {"phase": "Running", "podIP": self.address, "conditions": [{"type": "Ready", "status": str(ready)}]}

    def delete(self, _api_version, kind, name, _namespace=None):
        if kind == "Namespace":
            assert not self.pods
            self.namespace = self.policy = None
        elif kind == "NetworkPolicy":
            self.policy = None
        else:
            self.pods.pop(name)


def verdicts(result):
    return [(found["name"], found["verdict"]) for found in result["results"]]


@pytest.mark.parametrize(
    ("nodes", "enforcing", "enforced", "expected"),
    [
        (("a", "b"), ("a", "b"), True, [("same_node", "enforced"), ("across_nodes", "enforced")]),
        (("a", "b", "c"), (), False, [("same_node", "unenforced"), ("across_nodes", "unenforced")]),
        # As where packets of one node's pods are bridged, not routed.
        (("a", "b"), ("b",), False, [("same_node", "unenforced"), ("across_nodes", "enforced")]),
        (("a",), ("a",), True, [("same_node", "enforced")]),
    ],
)
def test_verdicts(nodes, enforcing, enforced, expected):
    kube = FakeKube(nodes, enforcing)
    result = run(PARAMS, kube, check_mode=False)
    assert result["enforced"] is enforced
    assert verdicts(result) == expected
    assert result["changed"] is False
    assert (kube.namespace, kube.pods, kube.policy) == (None, {}, None)


@pytest.mark.parametrize(
    ("kube", "match"),
    [
        (FakeKube(broken="pods"), "reach the server while nothing forbids it.*client-same-node: Running, not ready"),
        # What a policy seems to do may be the server's end.
        (FakeKube(broken="policy"), "reach the server again without the policy"),
        (FakeKube(refused=True), "forbidden"),
    ],
)
def test_what_cannot_be_told_is_an_error_and_leaves_nothing(kube, match):
    with pytest.raises(TenancyError, match=match):
        run(PARAMS, kube, check_mode=False)
    assert (kube.namespace, kube.pods, kube.policy) == (None, {}, None)


def test_other_errors_while_the_policy_is_there_are_no_verdict():
    kube = FakeKube()
    asked = kube.list

    def lost(api_version, kind, namespace=None):
        if kube.policy:
            kube.policy = None
            raise TenancyError("Listing Pod failed", status=None)
        return asked(api_version, kind, namespace)

    kube.list = lost
    with pytest.raises(TenancyError, match="Listing Pod failed"):
        run(PARAMS, kube, check_mode=False)
    assert (kube.namespace, kube.pods) == (None, {})


def test_check_mode_does_nothing():
    result = run(PARAMS, None, check_mode=True)
    assert result["enforced"] is None
    assert {(found["verdict"], found["reason"]) for found in result["results"]} == {("not_tried", "check mode")}


def test_an_ipv6_address_is_bracketed():
    kube = FakeKube(("a",), ("a",), address="fd00::7")
    run(PARAMS, kube, check_mode=False)
    assert set(kube.asked) == {"http://[fd00::7]:8080/"}


def test_places():
    found = [node("d"), node("a", ["NoSchedule"]), node("b", unschedulable=True), node("c", ready=False), node("e")]
    assert probe.places(found) == {"same_node": "d", "across_nodes": "e"}
    assert probe.places([node("a", ["PreferNoSchedule"])]) == {"same_node": "a"}
    with pytest.raises(TenancyError, match="No node is ready"):
        probe.places(found[1:4])


def test_pods_that_are_gone_are_seen():
    assert probe.server_address([]) == (None, "the server's pod does not exist")
    assert probe.reaching([], ["same_node"]) == (set(), "pod client-same-node does not exist")


def test_the_policy_is_about_the_server_only():
    labels = probe.policy("apart")["spec"]["podSelector"]["matchLabels"]
    assert labels == probe.server("apart", "busybox", "a")["metadata"]["labels"]
    assert labels != probe.client("same_node", "apart", "busybox", "a", "10.0.0.7")["metadata"]["labels"]
