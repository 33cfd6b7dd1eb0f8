# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory and module gateway refuse of a gateway."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.schema import Problems
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway.validation import gateway, target
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway.values import Target
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses

GIVEN = {"address": "10.0.0.5", "allow": ["10.20.0.0/16"]}


def judged(given):
    problems = Problems()
    return gateway(given, "g", problems), problems


def test_every_key_is_filled_in():
    assert judged({}) == ({}, [])
    assert judged(GIVEN) == (GIVEN | {"host": "10.0.0.5", "cluster_api": False}, [])
    named = GIVEN | {"host": "gpu1.example", "cluster_api": True}
    assert judged(named) == (named, [])


def test_addresses_and_networks_get_their_usual_form_and_stand_once():
    found, problems = judged({"address": "FD00::0:5", "allow": ["fd00::/8", "FD00:0::/8", "10.0.0.0/8"]})
    assert (found["address"], found["allow"], problems) == ("fd00::5", ["fd00::/8", "10.0.0.0/8"], [])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"address": "0.0.0.0"}, "g.address: all-interfaces"),  # noqa: S104
        ({"address": "::"}, "g.address: all-interfaces"),
        ({"address": "::ffff:0.0.0.0"}, "g.address: all-interfaces"),
        ({"address": "::ffff:224.0.0.1"}, "g.address: not-an-address"),
        ({"address": "255.255.255.255"}, "g.address: not-an-address"),
        ({"allow": ["fe80::%eth0/64"]}, "g.allow[0]: not-a-network"),
        ({"allow": ["fe80::%x\n    bind :8080 #/64"]}, "g.allow[0]: not-a-network"),
        ({"address": "gpu1.example"}, "g.address: not-an-address"),
        ({"address": "224.0.0.1"}, "g.address: not-an-address"),
        ({"address": "fe80::1%eth0"}, "g.address: not-an-address"),
        ({"address": 5}, "g.address: wrong-type"),
        ({"allow": []}, "g.allow: empty"),
        ({"allow": ["10.0.0.5"]}, "g.allow[0]: not-a-network"),
        ({"allow": ["10.0.0.5/8"]}, "g.allow[0]: not-a-network"),
        ({"allow": ["10.0.0.0/8 # all\nx"]}, "g.allow[0]: not-a-network"),
        ({"allow": [5]}, "g.allow[0]: not-a-network"),
        ({"allow": ["fd00::/8"]}, "g.allow: nothing-allowed"),
        ({"host": "https://gpu1"}, "g.host: not-a-host-name"),
        ({"port": 1}, "g.port: unknown-key"),
    ],
)
def test_what_is_refused(change, expected):
    assert placed(judged(GIVEN | change)[1]) == [expected]


@pytest.mark.parametrize("key", GIVEN)
def test_what_is_missing(key):
    assert placed(judged({name: value for name, value in GIVEN.items() if name != key})[1]) == [f"g.{key}: missing"]


def config(server):
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    return {"clusters": [{"name": "a", "cluster": {"server": server}}], "contexts": [context], "current-context": "a"}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://172.18.0.3:31234", Target("172.18.0.3", 31234)),
        ("https://[fd00::3]:31234/", Target("fd00::3", 31234)),
        ("https://gpu.example", None),
        ("https://10.0.0.3:31234/path", None),
        ("https://10.0.0.3:31234\nbind", None),
    ],
)
def test_where_a_kubeconfig_leads(server, expected):
    assert target(config(server), "/f") == expected


@pytest.mark.parametrize("server", ["http://10.0.0.3:80", None, ["x"], "https://10.0.0.3:99999", "https://10.0.0.3:0"])
def test_a_kubeconfig_that_leads_nowhere(server):
    with refuses("failed"):
        target(config(server), "/f")
