# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a gateway, and the script that fills in the nodes' addresses, with a double of Docker."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway.status import bound, changes, described, head, ports
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway.values import (
    Forward,
    configuration,
    node_of,
    placeholder,
    places,
    reached,
    resolved,
    script,
    unit,
)

SETTINGS = {"address": "10.0.0.5", "allow": ["10.20.0.0/16", "fd00::/8"]}
WEB = Forward("tenant-web", 31234, placeholder("dc1-worker"))
CLUSTER = Forward("cluster", 41235, "127.0.0.1")


def test_each_port_is_bound_to_the_one_address_and_checks_who_connects():
    text = configuration("dc1", SETTINGS, [CLUSTER, WEB])
    assert text.count("\n    bind ") == text.count("\n    tcp-request connection reject unless allowed\n") == 2
    assert text.count("\n    acl allowed src 10.20.0.0/16\n    acl allowed src fd00::/8\n") == 2
    assert "listen tenant-web\n    bind ipv4@10.0.0.5:31234\n" in text
    assert text.endswith("    server node @dc1-worker@:31234\n")
    assert "    server node 127.0.0.1:41235\n" in text
    assert "bind ipv6@fd00::5:31234\n" in configuration("dc1", SETTINGS | {"address": "fd00::5"}, [WEB])


def test_a_configuration_says_what_it_is_for():
    text = configuration("dc1", SETTINGS, [CLUSTER, WEB])
    assert described(text) == SETTINGS | {"port of the cluster": 41235, "port of web": 31234}
    assert (described(""), ports("")) == ({}, {})
    assert bound(text) == {("10.0.0.5", 41235), ("10.0.0.5", 31234)}
    assert list(changes(described(text), described(configuration("dc1", SETTINGS, [CLUSTER])))) == [("port of web", 31234, None)]
    assert head(text) == head(configuration("dc1", SETTINGS, [WEB]))
    assert head(text) != head(configuration("dc1", SETTINGS | {"allow": ["10.20.0.0/16"]}, [CLUSTER, WEB]))


def test_nodes_have_placeholders():
    assert (node_of(WEB.server), node_of(CLUSTER.server)) == ("dc1-worker", "")
    assert resolved("a @dc1-worker@:1 @dc1-worker2@:2", {"dc1-worker": "1.2.3.4"}) == "a 1.2.3.4:1 @dc1-worker2@:2"


def test_a_kubeconfig_that_leads_to_a_gateway():
    cluster = {"server": "https://172.18.0.3:31234", "proxy-url": "http://p", "certificate-authority-data": "CA"}
    assert reached(cluster, "gpu1.example", 31234, "") == {
        "server": "https://gpu1.example:31234",
        "certificate-authority-data": "CA",
    }
    assert reached({}, "fd00::5", 1, "kubernetes") == {"server": "https://[fd00::5]:1", "tls-server-name": "kubernetes"}


def test_the_unit_starts_with_docker_and_the_host_and_not_with_the_distributions():
    text = unit("dc1", places("dc1"), "/usr/sbin/haproxy")
    assert "PartOf=docker.service\n" in text
    assert "WantedBy=multi-user.target docker.service\n" in text
    assert "ExecStart=/usr/sbin/haproxy -Ws -f /run/kubegpu-gateway-dc1/haproxy.cfg\n" in text
    assert "haproxy.service" not in text


@pytest.fixture(name="host")
def _host(tmp_path):
    """A host whose Docker answers what stands in files named after the nodes, and whose sleep does nothing."""
    (tmp_path / "bin").mkdir()
    for name, text in {"docker": f'cat "{tmp_path}/$6" || exit 1', "sleep": "exit 0"}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    at = places("dc1")
    at = at._replace(configuration=str(tmp_path / "haproxy.cfg"), runtime=str(tmp_path / "run"), script=str(tmp_path / "start"))
    (tmp_path / "haproxy.cfg").write_text(configuration("dc1", SETTINGS, [CLUSTER, WEB]))
    (tmp_path / "start").write_text(script(at))
    return tmp_path


def start(host):
    path = {"PATH": f"{host}/bin:/usr/bin:/bin"}
    return subprocess.run(["sh", host / "start"], env=path, capture_output=True, text=True, check=False)


def test_the_script_fills_in_the_present_addresses(host):
    (host / "dc1-worker").write_text("172.18.0.3\n")
    done = start(host)
    assert (done.returncode, done.stderr) == (0, "")
    assert (host / "run").read_text() == resolved((host / "haproxy.cfg").read_text(), {"dc1-worker": "172.18.0.3"})


@pytest.mark.parametrize("answer", [None, "", "invalid IP"])
def test_the_script_waits_for_a_node_and_gives_up(host, answer):
    if answer is not None:
        (host / "dc1-worker").write_text(answer)
    done = start(host)
    assert (done.returncode, (host / "run").exists()) == (1, False)
    assert done.stderr == "dc1-worker does not run, or has no address in Docker's network kind.\n"
