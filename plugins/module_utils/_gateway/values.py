# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The files of a gateway: HAProxy's configuration, the unit that runs it, and the script that fills in the nodes' addresses. Pure.

Docker may give a node another address when it restarts. So the configuration names nodes, and the script writes a copy with their present
addresses each time the unit starts. That copy is what HAProxy runs with.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from .._common.quantity import whole
from .._common.text import bracketed
from .._common.values import JsonObject
from .._kind.facts import NETWORK
from .facts import FOLDER, MOST_CONNECTIONS, MOST_CONNECTIONS_OF_ALL, PREFIX, RUNTIME, UNITS

# Of a URL with a port; without one, it leads to no NodePort.
_SERVER = re.compile(r"https://(\[[0-9A-Fa-f:.]+\]|[-0-9A-Za-z.]+):([0-9]{1,5})/?")


class Target(t.NamedTuple):
    """Where a kubeconfig leads: a host and a port."""

    host: str
    port: int


class Forward(t.NamedTuple):
    """One port that is forwarded.

    :ivar section: its name in HAProxy's configuration.
    :ivar port: on the gateway's address, and of the server alike.
    :ivar server: name of the node's container as ``placeholder`` returns it, or an address.
    """

    section: str
    port: int
    server: str


class Places(t.NamedTuple):
    """The paths of a gateway's files."""

    unit: str
    folder: str
    configuration: str
    script: str
    runtime: str

    @property
    def unit_file(self) -> str:
        return f"{UNITS}/{self.unit}"

    @property
    def written(self) -> tuple[str, ...]:
        """The files that are written, the unit last: as long as it is there, an unfinished removal is taken up again."""
        return self.configuration, self.script, self.unit_file


def places(cluster: str) -> Places:
    """Return the paths of the files of a cluster's gateway."""
    folder, name = f"{FOLDER}/{cluster}/gateway", f"{PREFIX}{cluster}"
    return Places(f"{name}.service", folder, f"{folder}/haproxy.cfg", f"{folder}/start.sh", f"{RUNTIME}/{name}/haproxy.cfg")


def target_of(server: str) -> Target | None:
    """Return host and port of a server's address; None where it has no port of its own."""
    found = _SERVER.fullmatch(server)
    return Target(found[1].strip("[]"), whole(found[2])) if found else None


def reached(cluster: JsonObject, host: str, port: int, server_name: str) -> JsonObject:
    """Return a kubeconfig's cluster as it is reached by a gateway.

    :arg server_name: which the server's certificate has, where it does not name the gateway; empty where it does.
    """
    kept = {key: value for key, value in cluster.items() if key not in ("proxy-url", "tls-server-name")}
    return kept | {"server": f"https://{bracketed(host)}:{port}"} | ({"tls-server-name": server_name} if server_name else {})


def placeholder(node: str) -> str:
    """Return what stands for a node's address until the script fills it in."""
    return f"@{node}@"


def node_of(server: str) -> str:
    """Return the node that a placeholder stands for; empty for an address."""
    return server.strip("@") if server.startswith("@") else ""


def resolved(text: str, addresses: t.Mapping[str, str]) -> str:
    """Return a configuration with the nodes' addresses, as the script writes it.

    :arg addresses: by the nodes' names.
    """
    for node, address in addresses.items():
        text = text.replace(placeholder(node), address)
    return text


def configuration(cluster: str, settings: JsonObject, forwards: t.Iterable[Forward]) -> str:
    """Return HAProxy's configuration.

    :arg settings: ``address`` and ``allow`` of the gateway.
    """
    head = f"""\
# The gateway of cluster {cluster}. kubegpu.tenancy writes this file, and takes back what is changed here.
# address: {settings["address"]}
# allow: {" ".join(settings["allow"])}
global
    log /dev/log local0
    user haproxy
    group haproxy
    maxconn {MOST_CONNECTIONS_OF_ALL}
    hard-stop-after 24h

defaults
    log global
    mode tcp
    option tcplog
    option dontlognull
    option clitcpka
    option srvtcpka
    timeout connect 10s
    timeout client 24h
    timeout server 24h
    timeout tunnel 24h
"""
    return head + "".join(_section(forward, settings) for forward in forwards)


def _section(forward: Forward, settings: JsonObject) -> str:
    version = ipaddress.ip_address(settings["address"]).version
    allowed = "".join(f"    acl allowed src {network}\n" for network in settings["allow"])
    return f"""
listen {forward.section}
    bind ipv{version}@{settings["address"]}:{forward.port}
    maxconn {MOST_CONNECTIONS}
{allowed}    tcp-request connection reject unless allowed
    server node {forward.server}:{forward.port}
"""


def script(at: Places) -> str:
    """Return the script that writes the configuration with which HAProxy runs."""
    return f"""\
#!/bin/sh
# Writes {at.runtime} with the addresses that the nodes have now. Docker may give them others when it restarts.
set -eu
edits=
tries=0
for node in $(sed -n 's/^    server node @\\(.*\\)@:.*/\\1/p' {at.configuration} | sort -u); do
  while :; do
    address=$(docker inspect --type container --format '{{{{with index .NetworkSettings.Networks "{NETWORK}"}}}}{{{{.IPAddress}}}}{{{{end}}}}' \\
      "$node" 2> /dev/null) || address=
    case $address in
      '' | *[!0-9.]*) ;;
      *) break ;;
    esac
    tries=$((tries + 1))
    if [ "$tries" -ge 60 ]; then
      echo "$node does not run, or has no address in Docker's network {NETWORK}." >&2
      exit 1
    fi
    sleep 2
  done
  edits="${{edits}}s|@$node@|$address|g;"
done
sed "$edits" {at.configuration} > {at.runtime}.new
mv {at.runtime}.new {at.runtime}
"""


def unit(cluster: str, at: Places, haproxy: str) -> str:
    """Return the unit.

    :arg haproxy: path of the program.
    """
    return f"""\
[Unit]
Description=Forward the API ports of cluster {cluster}
Wants=network-online.target
After=network-online.target docker.service
PartOf=docker.service
StartLimitIntervalSec=0

[Service]
Type=notify
RuntimeDirectory={at.unit.removesuffix(".service")}
ExecStartPre=/bin/sh {at.script}
ExecStart={haproxy} -Ws -f {at.runtime}
ExecReload=/bin/sh {at.script}
ExecReload={haproxy} -c -q -f {at.runtime}
ExecReload=/bin/kill -USR2 $MAINPID
KillMode=mixed
SuccessExitStatus=143
Restart=on-failure
RestartSec=5
TimeoutStartSec=180
NoNewPrivileges=yes
PrivateTmp=yes
ProtectHome=yes
ProtectSystem=full

[Install]
WantedBy=multi-user.target docker.service
"""
