# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The RuntimeClass in which all pods of a tenant run, and what a tenant cannot have in it."""

from __future__ import annotations

import typing as t

from .._common.forms import is_object
from .._common.schema import Problems, quoted
from .._common.values import JsonObject, value_at
from .._vcluster.facts import SYNCED_RUNTIME_CLASS
from . import facts

if t.TYPE_CHECKING:
    from .model import Tenant


def read(given: t.Any, path: str, problems: Problems) -> JsonObject:
    """Return a sandbox with every key filled in; empty for none."""
    sandbox = {key: field.default for key, field in facts.SANDBOX.items()} | problems.mapping(given, facts.SANDBOX, path)
    name = sandbox["runtime_class"]
    if not name:
        if sandbox["gpus"]:
            problems.add("missing", f"{path}.runtime_class", "is missing: gpus is about the pods in a class.")
        return {}
    if not is_object(name):
        problems.add("not-a-name", f"{path}.runtime_class", f"{quoted(name)} is no name of a class.")
    return sandbox


def check(tenant: Tenant, problems: Problems) -> None:
    """Refuse what pods in a sandbox do not get: GPUs that its class does not pass on, and those of others beside their own."""
    name, own = tenant.runtime_class, tenant.own_scheduler
    if not name:
        return
    path, nodes = f"{tenant.path}.sandbox", tenant.gpu_nodes
    if nodes and not tenant.sandbox["gpus"]:
        why = f"pods in RuntimeClass {name} get no GPUs, and gpu_nodes asks for some. Name a class that passes GPUs on, with gpus: true."
        problems.add("sandbox-without-gpus", path, why)
    elif nodes.shared_gpus is not None:
        why = "a sandbox with GPUs needs nodes of its own: on shared ones, nothing keeps it from GPUs of others. Leave shared_gpus out."
        problems.add("sandbox-shares-gpus", path, why)
    if own and own.gpu_sharing:
        why = "a sandbox gets whole GPUs only, and scheduler.gpu_sharing asks for parts. Leave one of them out."
        problems.add("sandbox-shares-gpus", path, why)
    if value_at(tenant.vcluster.values, SYNCED_RUNTIME_CLASS) not in (None, "", name):
        why = f"vcluster.values.{SYNCED_RUNTIME_CLASS} names another RuntimeClass. Leave it out."
        problems.add("contradicts", path, why)
