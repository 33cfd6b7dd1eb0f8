# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_network.plan import Settings, client, places, policy, server

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
