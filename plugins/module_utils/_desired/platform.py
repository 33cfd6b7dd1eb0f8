# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a cluster asks of all tenants on it."""

from __future__ import annotations

import re

from .._common.forms import is_key, is_label_value, is_object
from .._common.schema import Problems, named, quoted
from .._common.values import JsonObject
from .._common.variables import GATEWAY
from .._gateway.validation import gateway
from .._nodes.validation import tolerates_others
from . import facts
from .model import Platform
from .sandbox import read as read_sandbox

_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def platform_of(given: JsonObject, problems: Problems) -> Platform:
    """Return what the cluster asks of all tenants.

    :arg given: every variable of the schema.
    """
    tolerations = []
    for index, item in enumerate(given["kubegpu_tolerations"]):
        before = len(problems)
        toleration = problems.mapping(item, facts.TOLERATION, f"kubegpu_tolerations[{index}]")
        _check_toleration(toleration, f"kubegpu_tolerations[{index}]", problems)
        # One that is refused here would be refused once more in the values of each tenant.
        tolerations += [toleration] if len(problems) == before else []
    for key in ("kubegpu_runtime_class", "kubegpu_storage_class"):
        if given[key] and not is_object(given[key]):
            problems.add("not-a-name", key, f"{quoted(given[key])} is no name of a class.")
    return Platform(
        given["kubegpu_runtime_class"],
        tuple(tolerations),
        given["kubegpu_storage_class"],
        read_sandbox(given["kubegpu_sandbox"], "kubegpu_sandbox", problems),
        _tenant_api(given["kubegpu_tenant_api"], "kubegpu_tenant_api", problems),
        _names(given[GATEWAY]),
    )


def _names(given: JsonObject) -> tuple[str, ...]:
    """Return the names at which tenants are reached by the host's gateway; its problems are among those of the settings."""
    found = gateway(given, GATEWAY, Problems())
    return tuple(dict.fromkeys(found[key] for key in ("host", "address") if found.get(key)))


def _check_toleration(toleration: JsonObject, path: str, problems: Problems) -> None:
    key, operator, value = (toleration.get(name) for name in ("key", "operator", "value"))
    if "key" in toleration and tolerates_others(key, operator, value):
        problems.add("tolerates-everyone", f"{path}.key", "would let everyone onto the nodes of tenants with zero trust.")
    elif "key" in toleration and not is_key(key):
        problems.add("not-a-taint", f"{path}.key", f"{quoted(key)} is no key of a taint such as nvidia.com/gpu.")
    if not is_label_value(value or ""):
        problems.add("not-a-taint", f"{path}.value", f"{quoted(value)} is no value of a taint.")
    if operator == "Exists" and value:
        problems.add("not-applicable", f"{path}.value", "is compared by the operator Equal only.")


def _tenant_api(given: JsonObject, path: str, problems: Problems) -> JsonObject:
    api = problems.mapping(given, facts.TENANT_API, path)
    kind = api.get("type", facts.NODE_PORT)
    _check_host(api.get("host", ""), kind, f"{path}.host", problems)
    _check_ingress_class(api.get("ingress_class", ""), kind, f"{path}.ingress_class", problems)
    for key, value in api.get("annotations", {}).items():
        if problems.typed(value, str, f"{path}.annotations.{named(key)}") and not is_key(key):
            problems.add("not-an-annotation", f"{path}.annotations.{named(key)}", "is not the name of an annotation.")
    return api


def _check_host(host: str, kind: str, path: str, problems: Problems) -> None:
    if kind == facts.INGRESS and not host:
        problems.add("missing", path, "is missing: an Ingress is reached by a host name.")
    if kind == facts.NODE_PORT and host:
        problems.add("not-applicable", path, "has no meaning with a NodePort, whose address is that of a node.")
    if host and not _HOST.fullmatch(host.replace("{tenant}", "t")):
        problems.add("not-a-host-name", path, f"{quoted(host)} is no host name such as {{tenant}}.gpu.example.")
    elif host and "{tenant}" not in host:
        problems.add("host-without-tenant", path, "needs {tenant} in it, so that every tenant has a name of its own.")


def _check_ingress_class(name: str, kind: str, path: str, problems: Problems) -> None:
    if kind != facts.INGRESS and name:
        problems.add("not-applicable", path, "has a meaning with the type Ingress only.")
    elif name and not is_object(name):
        problems.add("not-a-name", path, f"{quoted(name)} is no name of an IngressClass.")
