# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.probe import reconcile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.network_policy import (
    POLICY,
    client,
    enforcement,
    places,
    policy,
    reaching,
    server,
    server_address,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.plan import Settings
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi


class Network:
    """A cluster in which policies cut off the clients on ``enforcing`` nodes.

    :arg broken: while what is there (``pods`` or ``policy``) a client reaches nothing, policy or not.
    :arg slow: seconds until the server runs.
    """

    def __init__(self, nodes=("a", "b"), enforcing=(), broken="", slow=0.0):
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.api = InMemoryApi(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": ready} for name in nodes
        )
        self.now = 0.0
        self.enforcing = enforcing
        self.broken = broken
        self.slow = slow
        self.died = False
        self.api.react("create", "Namespace", self.api.add_account)
        self.api.react("create", "Pod", self._judge)
        for verb in ("create", "delete"):
            self.api.react(verb, "NetworkPolicy", self._policy)

    def _policy(self, _item):
        self.died = self.died or self.broken == "policy"
        for pod in self.api.list("v1", "Pod"):
            self._judge(pod)

    def _judge(self, pod):
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        on = terms[0]["matchFields"][0]["values"][0]
        ready = True
        if pod["metadata"]["name"].startswith("client"):
            forbidden = self.api.list(*POLICY) and on in self.enforcing
            ready = not (self.broken == "pods" or self.died or forbidden)
        else:
            self.now += self.slow
        conditions = [{"type": "Ready", "status": str(ready)}]
        self.api.put(pod | {"status": {"phase": "Running", "podIP": "10.0.0.7", "conditions": conditions}})

    def _sleep(self, seconds):
        self.now += seconds

    def probe(self, seconds=90):
        return enforcement(self.api, Settings("apart"), Deadline(seconds, lambda: self.now, self._sleep), policy_timeout=10)

    def leftovers(self):
        return [item["kind"] for item in self.api.objects.values() if item["kind"] != "Node"]


def verdicts(records):
    return [(record["name"], record["verdict"]) for record in records]


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
    network = Network(nodes, enforcing)
    found, records = network.probe()
    assert (found, verdicts(records)) == (enforced, expected)
    assert network.leftovers() == []
    assert {record["seconds"] for record in records if record["verdict"] == "unenforced"} <= {10.0}


@pytest.mark.parametrize(
    ("network", "match"),
    [
        (Network(broken="pods"), r"reach the server while nothing forbids it.*client-same-node: Running, not ready"),
        # What a policy seems to do may be the server's end.
        (Network(broken="policy"), "reach the server again without the policy"),
        # With less time than the policy may need, an enforced one would look as if it were not.
        (Network(enforcing=("a", "b"), slow=85), "timeout: of 90 s only 5 s are left .* 10 s to take effect"),
    ],
)
def test_what_cannot_be_found_out_is_an_error_and_leaves_nothing(network, match):
    with pytest.raises(TenancyError, match=match):
        network.probe()
    assert network.leftovers() == []


def refuse(item):
    raise ApiError(f"Creating {item['kind']} failed: forbidden", status=403)


def test_a_policy_that_is_refused_is_an_error_and_leaves_nothing():
    network = Network()
    network.api.react("create", "NetworkPolicy", refuse)
    with pytest.raises(TenancyError, match="forbidden"):
        network.probe()
    assert network.leftovers() == []


def test_other_errors_while_the_policy_is_there_are_no_verdict(monkeypatch):
    network = Network()
    listed = network.api.list
    lost = []

    def lose(api_version, kind, *args, **more):
        if kind == "Pod" and listed(*POLICY) and not lost:
            lost.append(kind)
            raise ApiError("Listing Pod failed", status=None)
        return listed(api_version, kind, *args, **more)

    # Not while the policy is being created.
    network.api.react("create", "NetworkPolicy", lambda _item: monkeypatch.setattr(network.api, "list", lose))
    with pytest.raises(TenancyError, match="Listing Pod failed"):
        network.probe()
    assert network.leftovers() == []


def test_check_mode_does_nothing():
    result = reconcile(Run({"kind": "network_policy"}, check_mode=True))
    assert (result["enforced"], result["changed"]) == (None, False)
    assert {(record["verdict"], record["reason"]) for record in result["results"]} == {("not_tried", "check mode")}


def test_the_module_passes_its_options_on():
    network = Network(("a",), ("a",))
    options = {
        "kind": "network_policy",
        "namespace": "apart",
        "image": "busybox",
        "tolerations": [{"operator": "Exists"}],
        "timeout": 9,
        "policy_timeout": 3,
    }
    pods = []
    network.api.react("create", "Pod", pods.append)
    result = reconcile(Run(options, kube=network.api))
    assert (result["enforced"], verdicts(result["results"])) == (True, [("same_node", "enforced")])
    assert {pod["metadata"]["namespace"] for pod in pods} == {"apart"}
    assert [pod["spec"]["tolerations"] for pod in pods] == [[{"operator": "Exists"}]] * 2


SETTINGS = Settings("apart", "busybox", tolerations=({"key": "k", "operator": "Exists"},))


def node(name, taints=(), unschedulable=False, ready=True):
    return {
        "metadata": {"name": name},
        "spec": {"taints": [{"key": "k", "effect": effect} for effect in taints], "unschedulable": unschedulable},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def test_places():
    found = [node("d"), node("a", ["NoSchedule"]), node("b", unschedulable=True), node("c", ready=False), node("e")]
    assert places(found) == {"same_node": "d", "across_nodes": "e"}
    assert places([node("a", ["PreferNoSchedule"])]) == {"same_node": "a"}
    with pytest.raises(TenancyError, match="No node is ready"):
        places(found[1:4])
    # Tainted nodes count where the pods tolerate that.
    assert places(found, SETTINGS.tolerations) == {"same_node": "a", "across_nodes": "d"}


def test_pods_tolerate_what_the_nodes_were_chosen_by():
    for pod in (server(SETTINGS, "a"), client(SETTINGS, "same_node", "a", "10.0.0.7")):
        assert pod["spec"]["tolerations"] == [{"key": "k", "operator": "Exists"}]


def test_the_policy_is_about_the_server_only():
    labels = policy("apart")["spec"]["podSelector"]["matchLabels"]
    assert labels == server(SETTINGS, "a")["metadata"]["labels"]
    assert labels != client(SETTINGS, "same_node", "a", "10.0.0.7")["metadata"]["labels"]


def test_an_ipv6_address_is_bracketed():
    probe = client(SETTINGS, "same_node", "a", "fd00::7")["spec"]["containers"][0]["readinessProbe"]
    assert probe["exec"]["command"][-1] == "http://[fd00::7]:8080/"


def test_pods_that_are_gone_are_seen():
    assert server_address([]) == (None, "the server's pod does not exist")
    assert reaching([], ["same_node"]) == (set(), "pod client-same-node does not exist")
