# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Names of tenants, and what two of them may not both have: a name that is built of theirs, or nodes."""

from __future__ import annotations

import re
import typing as t

from .._admission.plan import policy_name
from .._common.names import namespace_of
from .._common.schema import Problems, quoted
from .._common.synced import marker
from .._vcluster.facts import cluster_role_name
from .model import Tenant

# A Service needs a letter first. vCluster and this collection build longer names and labels from a tenant's name, which are cut at 63
# characters: up to 40 they stay legal. Where two of them become the same, check_names refuses both tenants.
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
# "cluster" is the administrator's kubeconfig beside the tenants'.
_RESERVED = ("cluster",)


def check_name(name: str, path: str, problems: Problems) -> None:
    if not NAME.fullmatch(name):
        problems.add(
            "not-a-name",
            path,
            f"{quoted(name)} is not a name Kubernetes accepts here: a-z, 0-9 and '-', a letter first, no '-' at the end, and at most "
            "40 characters, because names of up to 63 are built from it.",
        )
    if name in _RESERVED:
        problems.add(
            "reserved-name",
            path,
            f"{name} is reserved, because the administrator's kubeconfig has that name. Choose another one.",
        )


def _built(name: str) -> dict[str, str]:
    """Return what vCluster and this collection build of a tenant's name and others have to be able to tell apart, by what it is."""
    namespace = namespace_of(name)
    return {
        "name": name,
        "namespace": namespace,
        "ClusterRole": cluster_role_name(name, namespace),
        "label of its cluster-scoped objects": marker(name, namespace),
        "admission policy": policy_name(name),
    }


def check_names(tenants: list[Tenant], problems: Problems) -> None:
    """Refuse tenants of which something would have the same name: each would change, and remove, what is the other's."""
    holders: dict[tuple[str, str], int] = {}
    for index, tenant in enumerate(tenants):
        if not tenant.name:
            continue
        others: dict[int, list[str]] = {}
        for what, text in _built(tenant.name).items():
            if (first := holders.setdefault((what, text), index)) != index:
                others.setdefault(first, []).append(f"{what} {text}")
        for first, same in others.items():
            other = tenants[first]
            if other.name == tenant.name:
                why = f"{tenant.name} is the name of {other.path} already."
            else:
                why = f"{tenant.name} and {other.path} would have the same {', '.join(same)}. Choose another name."
            problems.add("same-name", f"{tenant.path}.name", why)


def check_rivals(tenants: list[Tenant], problems: Problems) -> None:
    """Refuse two tenants with a claim on the same nodes that the desired state alone gives away."""
    # By what is claimed: the first tenant, and the first tenant that does not share it.
    first: dict[t.Any, int] = {}
    first_alone: dict[t.Any, int] = {}
    for index, tenant in enumerate(tenants):
        nodes = tenant.gpu_nodes
        if tenant.state == "absent":
            continue
        others: dict[int, list[str]] = {}
        # A tenant that shares its nodes is no rival of another one that does.
        alone = nodes.shared_gpus is None
        before = first if alone else first_alone
        for claimed in [*nodes.names, *([frozenset(nodes.labels.items())] if nodes.labels else [])]:
            if (other := before.get(claimed)) is not None:
                others.setdefault(other, []).append(claimed if isinstance(claimed, str) else "")
            first.setdefault(claimed, index)
            if alone:
                first_alone.setdefault(claimed, index)
        for other, names in others.items():
            kind, what = ("names", f"{', '.join(names)} is") if all(names) else ("labels", "the same nodes are")
            why = f"{what} claimed by {tenants[other].path} already. To share nodes, both give shared_gpus."
            problems.add("nodes-claimed-twice", f"{tenant.path}.gpu_nodes.{kind}", why)
