# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check what an inventory says of the server that has the series of usage. Pure."""

from __future__ import annotations

import re
import typing as t

from .._common.quantity import number
from .._common.schema import Problems, named, quoted
from .._common.values import JsonObject
from .._vcluster.validation import check_proxy, usable_parts
from .facts import SECRETS, USAGE
from .values import zone_of

# Hosts that a token reaches without leaving this machine.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Mimir's manual: at most 150 characters of these; a bar stands between several tenants.
_ORG_ID = re.compile(r"[A-Za-z0-9!_.*'()|-]{1,150}")


def usage(given: t.Any, path: str, problems: Problems) -> JsonObject:
    """Return what is said of usage without its token, every key filled in; empty for nothing.

    :arg path: of the variable, for the problems.
    """
    if given == {}:
        return {}
    found = problems.mapping(given, USAGE, path)
    check_server(found, f"{path}.", problems)
    _check_prices(found.get("prices", {}), f"{path}.prices", problems)
    problems.ask(f"{path}.", lambda: zone_of(found.get("time_zone", "UTC")))
    if not found.get("url") and not found.get("evidence"):
        problems.add("missing", f"{path}.url", "is missing: name a server that answers PromQL, or a folder by evidence.")
    filled = {key: found.get(key, field.default) for key, field in USAGE.items()}
    return {key: value for key, value in filled.items() if key not in SECRETS}


def check_server(given: t.Mapping[str, t.Any], before: str, problems: Problems) -> None:
    """Refuse a server that cannot be reached as it is written, or would get a token in the clear.

    :arg before: what comes before the names of options, such as ``kubegpu_usage.``
    """
    url = given.get("url") or ""
    parts = usable_parts(url, ("http", "https")) if url else None
    if url and (parts is None or parts.query or parts.fragment or parts.username):
        problems.add(
            "not-an-address", f"{before}url", "is no address such as https://prometheus.example, without user and query."
        )
    if given.get("token") and parts and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        problems.add("token-in-the-clear", f"{before}token", "would be readable on its way: the address begins with http://.")
    if (org_id := given.get("org_id")) and not _ORG_ID.fullmatch(org_id):
        problems.add("not-a-name", f"{before}org_id", f"is no name of a tenant of Mimir: {quoted(org_id)}.")
    for name, value in (given.get("labels") or {}).items():
        if not isinstance(value, str) or not _LABEL.fullmatch(str(name)):
            problems.add(
                "not-a-label", f"{before}labels.{named(name)}", f"is no label of Prometheus with a text: {quoted(value)}."
            )
    if (ca := given.get("ca")) and _CERTIFICATE not in ca:
        problems.add("not-a-certificate", f"{before}ca", "has no certificate in the form PEM.")
    problems.ask(before, lambda: check_proxy("proxy", given.get("proxy")))


def _check_prices(prices: JsonObject, path: str, problems: Problems) -> None:
    for product, price in prices.items():
        try:
            number(price)
        except ValueError:
            problems.add("out-of-range", f"{path}.{named(product)}", f"has to be a price from 0, not {quoted(price)}.")
