# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What an inventory says of a gateway, and the kubeconfigs that say which ports it forwards, with what is wrong with them. Pure."""

from __future__ import annotations

import ipaddress
import typing as t

from .._common.errors import Problem, TenancyError
from .._common.forms import is_object
from .._common.kubeconfig import chosen
from .._common.schema import Problems, quoted
from .._common.text import shown
from .._common.values import JsonObject
from .facts import GATEWAY
from .values import Target, target_of

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_PORTS = range(1, 2**16)


def gateway(given: t.Any, path: str, problems: Problems) -> JsonObject:
    """Return what is said of the gateway, every key filled in; empty for none.

    :arg path: of the variable or option, for the problems.
    """
    if given == {}:
        return {}
    found = problems.mapping(given, GATEWAY, path)
    address = _address(found.get("address"), f"{path}.address", problems)
    networks = _networks(found.get("allow"), f"{path}.allow", problems)
    if address and networks and address.version not in {network.version for network in networks}:
        problems.add(
            "nothing-allowed", f"{path}.allow", f"has no network with addresses of IPv{address.version}, as {address} is."
        )
    host = found.get("host", "")
    if host and not is_object(host) and not _ip(host):
        problems.add("not-a-host-name", f"{path}.host", f"{quoted(host)} is no host name such as gpu1.example.")
    at = str(address or "")
    return {"address": at, "allow": list(map(str, networks)), "host": host or at, "cluster_api": found.get("cluster_api", False)}


def _address(given: t.Any, path: str, problems: Problems) -> Address | None:
    """Return the address to which ports are bound; None for none."""
    if given is None:
        return None
    address = _ip(given)
    if address is None:
        problems.add("not-an-address", path, f"{quoted(given)} is no IP address such as 10.0.0.5.")
    elif _host(address).is_unspecified:
        problems.add(
            "all-interfaces",
            path,
            f"{quoted(given)} stands for all interfaces of the host. Name the one address that is to be reached.",
        )
    elif _host(address).is_multicast or _host(address) == _BROADCAST:
        problems.add("not-an-address", path, f"{quoted(given)} is no address of one host.")
    else:
        return address
    return None


def _host(address: Address) -> Address:
    """Return the address of IPv4 that an address of IPv6 stands for, such as ::ffff:0.0.0.0; else the address itself."""
    return getattr(address, "ipv4_mapped", None) or address


def _ip(given: t.Any) -> Address | None:
    """Return an IP address without a zone; None where it is none."""
    try:
        return ipaddress.ip_address(given) if isinstance(given, str) and "%" not in given else None
    except ValueError:
        return None


def _networks(given: t.Any, path: str, problems: Problems) -> list[Network]:
    """Return the networks that may connect, each once."""
    if given == []:
        problems.add("empty", path, "is empty, so that no client could connect.")
    networks: list[Network] = []
    for index, item in enumerate(given or []):
        try:
            if not isinstance(item, str) or "/" not in item or "%" in item:
                raise ValueError("a network has a slash and a length and no zone, such as 10.20.0.0/16")
            network = ipaddress.ip_network(item)
        except ValueError as exc:
            problems.add("not-a-network", f"{path}[{index}]", f"{quoted(item)} is no network: {shown(exc)}.")
            continue
        if network not in networks:
            networks.append(network)
    return networks


def target(config: JsonObject | None, path: str) -> Target | None:
    """Return where a kubeconfig leads; None where that is no port of a node, such as for a load balancer.

    :arg config: as ``read`` of _kubeconfig returns it.
    :raises TenancyError: where it leads nowhere.
    """
    server = chosen(config or {})[0].get("server")
    if not isinstance(server, str) or not server.startswith("https://"):
        raise TenancyError(f"{path} names no server with https.")
    found = target_of(server)
    if found and found.port not in _PORTS:
        raise TenancyError(f"{path} names port {found.port}, which is none.")
    return found


def port_problems(wanted: t.Mapping[str, int], held: t.Mapping[int, str], address: str) -> t.Iterator[Problem]:
    """List the ports that cannot be bound.

    :arg wanted: ports by what each is for.
    :arg held: why they cannot be, by port.
    """
    for port in sorted(set(wanted.values())):
        owners = [name for name, other in wanted.items() if other == port]
        if len(owners) > 1:
            why = "remove the kubeconfig of the one that is gone, or run site for both"
            yield Problem(
                "same-port", f"tenants_dir: the kubeconfigs of {' and '.join(owners)} name the same port {port}: {why}."
            )
        if port in held:
            yield Problem("port-in-use", f"address: port {port} of {address}, for {owners[0]}, cannot be bound: {held[port]}.")
