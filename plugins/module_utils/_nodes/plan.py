# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The desired state: what ``kubegpu_tenants`` may say, and which nodes each tenant gets.

Tenants, workers and nodes are plain data. Problems are collected, so that a user mends all of them in one go.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, check_all
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import validation as _kai_releases
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.validation import Claim, conflict
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues import validation as _queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as _vcluster

Data = dict[str, t.Any]
T = t.TypeVar("T")

VARIABLE = "kubegpu_tenants"
SHARED_VARIABLE = "kubegpu_shared_scheduler"
KAI = "kai"
# Of a tenant that names none.
VCLUSTER_VERSION = "0.36.1"

# On a node of the host cluster, with the value "true": "<prefix><tenant>".
NODE_LABEL = "tenant.kubegpu.tenancy/"
# On the nodes of a tenant with zero trust, with the tenant's name as value.
TAINT = _vcluster.DEDICATED_TAINT

# A Service needs a letter first. vCluster and this collection build longer names and labels from a tenant's name,
# such as "vc-<name>-v-tenant-<name>" cut at 63 characters: up to 40 they stay legal, and distinct.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")

_TENANT = {"name": str, "trust": str, "gpu_nodes": dict, "vcluster": dict, "scheduler": dict, "queues": list}
_GPU_NODES = {"count": int, "names": list, "labels": dict}
_SHARED_GPUS = {"shared_gpus": int}
_VCLUSTER = {"version": str, "kubernetes_version": str, "values": dict}
# The release of a scheduler; KAI's chart is known, another one's is not.
_RELEASE = {"name": str, "version": str, "gpu_sharing": bool, "values": dict}
_SCHEDULER = _RELEASE | {"shared": bool, "chart": str, "repository": str}

_TYPE_NAMES = {str: "a string", int: "a whole number", bool: "true or false", dict: "a dictionary", list: "a list"}


class _Problems(list[str]):
    """What is wrong, each with the variable's path."""

    def add(self, path: str, text: str) -> None:
        self.append(f"{path}: {text}")

    def raise_if_any(self, what: str) -> None:
        if self:
            count = "1 problem" if len(self) == 1 else f"{len(self)} problems"
            raise TenancyError("\n".join([f"{count} in {what}, nothing was changed:", *self]), problems=list(self))

    def typed(self, value: t.Any, kind: type, path: str) -> bool:
        # To Python true is an int; to people it is not.
        right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if not right:
            hint = "; quote it" if kind is str and isinstance(value, (int, float)) else ""
            # A whole tree would drown the message, and may hold what is nobody's business.
            given = _TYPE_NAMES[type(value)] if isinstance(value, (dict, list)) else repr(value)
            self.add(path, f"must be {_TYPE_NAMES[kind]}, not {given}{hint}.")
        return right

    def mapping(self, value: t.Any, allowed: dict[str, t.Any], path: str, required: t.Sequence[str] = ()) -> Data:
        """The entries of ``value`` that are allowed and of the right type."""
        if not self.typed(value, dict, path):
            return {}
        for key in value:
            if key not in allowed:
                close = difflib.get_close_matches(str(key), allowed, n=1)
                meant = f" Did you mean {close[0]}?" if close else ""
                self.add(f"{path}.{key}", f"unknown key.{meant} Allowed here: {', '.join(allowed)}.")
        for key in required:
            if key not in value:
                self.add(f"{path}.{key}", "is missing.")
        return {
            key: value[key] for key, kind in allowed.items() if key in value and self.typed(value[key], kind, f"{path}.{key}")
        }

    def choice(self, given: Data, key: str, choices: t.Collection[str], path: str) -> bool:
        """Whether the entry is there and one of the choices."""
        if key in given and given[key] not in choices:
            self.add(f"{path}.{key}", f"{given[key]!r} is not one of {', '.join(choices)}.")
        return given.get(key) in choices

    def ask(self, path: str, check: t.Callable[[], T]) -> T | None:
        """The result of a check that lives elsewhere; what it says starts with a path relative to ``path``."""
        try:
            return check()
        except TenancyError as exc:
            self.extend(f"{path}.{problem}" for problem in exc.problems)
            return None


# --- validation --------------------------------------------------------------------------------------------------


def plan(tenants: t.Any, workers: t.Any = None, gpus: int | None = None, shared_scheduler: t.Any = None) -> list[Data]:
    """The tenants with every key there; what was not given is empty.

    :arg workers: layout of a cluster that is yet to be made, ``[{"gpus": list} or {"count": number}, ...]``; None where the
        cluster exists and only its API knows.
    :arg gpus: GPU devices of the host, where known; the workers may not ask for more.
    :arg shared_scheduler: the host cluster's KAI Scheduler, ``{"name": "kai", "version": ...}``; empty or None without one.
    :raises TenancyError: with all ``problems``.
    """
    problems = _Problems()
    planned: list[Data] = []
    if problems.typed(tenants, list, VARIABLE):
        planned = [_tenant(tenant, f"{VARIABLE}[{index}]", problems) for index, tenant in enumerate(tenants)]
    _check_rivals(planned, problems)
    _check_shared(planned, shared_scheduler or {}, problems)
    layout = None if workers is None else _layout(workers, problems)
    if layout is not None and gpus is not None and sum(layout) > gpus:
        problems.add("workers", f"they ask for {sum(layout)} GPUs, the host has {gpus}.")
    # Sums over what was refused would only confuse.
    if layout is not None and not problems:
        _check_layout(planned, layout, problems)
    problems.raise_if_any("the desired state")
    return planned


def _tenant(given: t.Any, path: str, problems: _Problems) -> Data:
    tenant = problems.mapping(given, _TENANT, path, required=("name", "trust"))
    name = tenant.get("name", "")
    if "name" in tenant and not _NAME.fullmatch(name):
        problems.add(
            f"{path}.name",
            f"{name!r} is not a name Kubernetes accepts here: a-z, 0-9 and '-', a letter first, no '-' at the end, and at most "
            "40 characters, because names of up to 63 are built from it.",
        )
    if tenant.get("trust") == "zero" and ("gpu_nodes" not in tenant or "shared_gpus" in tenant["gpu_nodes"]):
        problems.add(f"{path}.gpu_nodes", "a tenant with zero trust has nodes of its own: give gpu_nodes, without shared_gpus.")
    return {
        "name": name,
        "trust": tenant.get("trust"),
        "gpu_nodes": _gpu_nodes(tenant["gpu_nodes"], f"{path}.gpu_nodes", problems) if "gpu_nodes" in tenant else {},
        "vcluster": _vcluster_of(tenant, path, problems),
        "scheduler": _scheduler_of(tenant, path, problems),
        "queues": tenant.get("queues", []),
    }


def _gpu_nodes(given: Data, path: str, problems: _Problems) -> Data:
    chosen = problems.mapping(given, _GPU_NODES | _SHARED_GPUS, path)
    if len(given.keys() & _GPU_NODES.keys()) != 1:
        problems.add(
            path, f"needs exactly one of {', '.join(_GPU_NODES)}. Without gpu_nodes a tenant gets the nodes without GPUs."
        )
    for key in ("count", "shared_gpus"):
        if chosen.get(key, 1) < 1:
            problems.add(f"{path}.{key}", f"must be at least 1, not {chosen[key]}.")
    if "count" in chosen and "shared_gpus" in chosen:
        problems.add(
            f"{path}.shared_gpus", "say by names or labels which nodes are shared; by their count all are the tenant's own."
        )
    for key in ("names", "labels"):
        if key in chosen and not chosen[key]:
            problems.add(f"{path}.{key}", "is empty.")
    names = chosen.get("names", [])
    for index, name in enumerate(names):
        if problems.typed(name, str, f"{path}.names[{index}]") and name in names[:index]:
            problems.add(f"{path}.names[{index}]", f"{name} stands here twice.")
    for label, value in chosen.get("labels", {}).items():
        problems.typed(value, str, f"{path}.labels.{label}")
    return chosen


def _vcluster_of(tenant: Data, path: str, problems: _Problems) -> Data:
    here = f"{path}.vcluster"
    vcluster: Data = {"version": VCLUSTER_VERSION, "kubernetes_version": "", "values": {}}
    vcluster |= problems.mapping(tenant.get("vcluster", {}), _VCLUSTER, here)
    kubernetes = vcluster["kubernetes_version"] or None
    # What is wrong with the values does not depend on the trust.
    trust = tenant["trust"] if problems.choice(tenant, "trust", _vcluster.TRUST_PROFILES, path) else "high"
    selector = {NODE_LABEL + tenant.get("name", ""): "true"}
    own_scheduler = "scheduler" in tenant and not tenant["scheduler"].get("shared")
    problems.ask(
        here,
        lambda: check_all(
            lambda: _vcluster.check_version(vcluster["version"], kubernetes),
            lambda: _vcluster.check_moved(vcluster["values"], vcluster["version"]),
            lambda: _vcluster.tenant_values(own_scheduler, selector, trust, kubernetes, vcluster["values"]),
        ),
    )
    return vcluster


def _scheduler_of(tenant: Data, path: str, problems: _Problems) -> Data:
    """The tenant's scheduler, with the queues that have to suit its version."""
    queues = tenant.get("queues", [])
    if "scheduler" not in tenant:
        if queues:
            problems.add(f"{path}.queues", "need a scheduler: add scheduler with its name, kai, and version.")
        return {}
    here = f"{path}.scheduler"
    scheduler: Data = {"gpu_sharing": False, "values": {}, "shared": False, "chart": "", "repository": ""}
    scheduler |= problems.mapping(tenant["scheduler"], _SCHEDULER, here, required=("name",))
    if scheduler["shared"]:
        for key in tenant["scheduler"].keys() & _SCHEDULER.keys() - {"name", "shared"}:
            problems.add(f"{here}.{key}", f"a shared scheduler is the host cluster's; its release stands in {SHARED_VARIABLE}.")
        problems.choice(scheduler, "name", (KAI,), here)
        problems.ask(path, lambda: _queues.parse(queues))
    elif scheduler.get("name") == KAI:
        for key in ("chart", "repository"):
            if scheduler[key]:
                problems.add(f"{here}.{key}", "KAI Scheduler's chart is known; leave it out.")
        _check_kai(scheduler, queues, here, path, problems)
    elif "name" in scheduler:
        if not _NAME.fullmatch(scheduler["name"]):
            problems.add(
                f"{here}.name", f"{scheduler['name']!r} is no name for a Helm release: a-z, 0-9 and '-', a letter first."
            )
        for key in ("version", "chart"):
            if not scheduler.get(key):
                problems.add(f"{here}.{key}", f"is missing: {scheduler['name']} is not kai, so its chart has to be told.")
        if queues:
            problems.add(f"{path}.queues", f"are KAI Scheduler's; {scheduler['name']} does not know them.")
    return scheduler


def _check_kai(scheduler: Data, queues: t.Any, here: str, path: str, problems: _Problems) -> None:
    """A release of KAI Scheduler, and whether it can schedule these queues."""
    if "version" not in scheduler:
        problems.add(f"{here}.version", "is missing.")
        return
    release = problems.ask(here, lambda: _kai_releases.release(scheduler["version"]))
    problems.ask(path, lambda: _queues.parse(queues, *((release.queue_levels, release.version) if release else ())))


def shared_queues(tenants: list[Data]) -> list[Data]:
    """The queues of all tenants of the host cluster's scheduler: one tree, in the tenants' order."""
    return [queue for tenant in tenants if tenant["scheduler"].get("shared") for queue in tenant["queues"]]


def _check_shared(tenants: list[Data], given: t.Any, problems: _Problems) -> None:
    users = [index for index, tenant in enumerate(tenants) if tenant["scheduler"].get("shared")]
    if not given:
        for index in users:
            problems.add(
                f"{VARIABLE}[{index}].scheduler.shared", f"there is none to share: {SHARED_VARIABLE} names no scheduler."
            )
        return
    scheduler = problems.mapping(given, _RELEASE, SHARED_VARIABLE, required=("name",))
    if problems.choice(scheduler, "name", (KAI,), SHARED_VARIABLE):
        # All tenants' trees stand beside each other in it.
        _check_kai(scheduler, shared_queues(tenants), SHARED_VARIABLE, VARIABLE, problems)


def _check_rivals(tenants: list[Data], problems: _Problems) -> None:
    """Two tenants of one name, or with a claim on the same nodes that the desired state alone gives away."""
    for index, tenant in enumerate(tenants):
        path = f"{VARIABLE}[{index}]"
        for number, other in enumerate(tenants[:index]):
            if tenant["name"] and tenant["name"] == other["name"]:
                problems.add(f"{path}.name", f"{tenant['name']} is the name of {VARIABLE}[{number}] already.")
            mine, theirs = tenant["gpu_nodes"], other["gpu_nodes"]
            if "shared_gpus" in mine and "shared_gpus" in theirs:
                continue
            both = [name for name in mine.get("names", []) if name in theirs.get("names", [])]
            told = f"claimed by {other['name']} already ({VARIABLE}[{number}]). To share nodes, both give shared_gpus."
            if both:
                problems.add(f"{path}.gpu_nodes.names", f"{', '.join(both)} is {told}")
            if mine.get("labels") and mine["labels"] == theirs.get("labels"):
                problems.add(f"{path}.gpu_nodes.labels", f"the same nodes are {told}")


def _layout(workers: t.Any, problems: _Problems) -> list[int]:
    """The GPUs of each worker."""
    layout: list[int] = []
    for index, worker in enumerate(workers if problems.typed(workers, list, "workers") else []):
        path = f"workers[{index}]"
        gpus = worker.get("gpus", worker.get("count", 0)) if problems.typed(worker, dict, path) else 0
        if isinstance(gpus, bool) or not isinstance(gpus, (int, list)):
            problems.add(f"{path}.gpus", f"must be a number or a list of GPUs, not {gpus!r}.")
            gpus = 0
        layout.append(len(gpus) if isinstance(gpus, list) else gpus)
    return layout


def _nodes_asked(tenant: Data) -> int:
    """GPU nodes a tenant is known to need; labels need one at least."""
    gpu_nodes = tenant["gpu_nodes"]
    return int(gpu_nodes.get("count", len(gpu_nodes.get("names", [])) or bool(gpu_nodes)))


def _check_layout(tenants: list[Data], layout: list[int], problems: _Problems) -> None:
    have = sorted((gpus for gpus in layout if gpus), reverse=True)
    # What is shared is nobody's alone; tenant_nodes counts it when it knows the nodes.
    asked = {
        tenant["name"]: _nodes_asked(tenant)
        for tenant in tenants
        if tenant["gpu_nodes"] and "shared_gpus" not in tenant["gpu_nodes"]
    }
    if sum(asked.values()) > len(have):
        who = ", ".join(f"{name} {count}" for name, count in asked.items())
        problems.add(VARIABLE, f"the tenants ask for {sum(asked.values())} nodes with GPUs ({who}), the cluster has {len(have)}.")
    for index, tenant in enumerate(tenants):
        if "labels" not in tenant["gpu_nodes"]:
            _check_quotas(tenant, sum(have[: _nodes_asked(tenant)]), f"{VARIABLE}[{index}]", problems)


def _check_quotas(tenant: Data, gpus: int, path: str, problems: _Problems) -> None:
    """What is promised to a queue has to exist; a limit above it is harmless."""
    gpus = min(gpus, tenant["gpu_nodes"].get("shared_gpus", gpus))
    try:
        queues = _queues.parse(tenant["queues"])
    except TenancyError:
        return
    for queue in queues.values():
        quota = queue.spec["resources"]["gpu"]["quota"]
        if quota > gpus:
            problems.add(f"{path}.queues", f"queue {queue.name} is promised {quota} GPUs, the tenant has {gpus} at most.")


# --- nodes -------------------------------------------------------------------------------------------------------


def check_planned(tenants: list[Data], keys: t.Sequence[str]) -> None:
    """Refuse tenants that did not come from ``plan``: what follows reads these keys without asking."""
    problems = _Problems()
    for index, tenant in enumerate(tenants):
        path = f"{VARIABLE}[{index}]"
        for key in keys:
            if key not in tenant:
                problems.add(f"{path}.{key}", "is missing. Give the tenants as kubegpu.tenancy.tenancy_plan returns them.")
            elif problems.typed(tenant[key], _TENANT[key], f"{path}.{key}") and key == "gpu_nodes" and tenant[key]:
                _gpu_nodes(tenant[key], f"{path}.{key}", problems)
    problems.raise_if_any("the tenants")


def has_gpus(node: Data) -> bool:
    """By what the device plugin counted, or by the label that says so before it runs or while it is down."""
    return bool(node["gpus"]) or node["labels"].get("nvidia.com/gpu.present") == "true"


def owners(node: Data) -> list[str]:
    """The tenants a node is labelled for."""
    return sorted(
        key.removeprefix(NODE_LABEL) for key, value in node["labels"].items() if key.startswith(NODE_LABEL) and value == "true"
    )


def assign(tenants: list[Data], nodes: list[Data]) -> dict[str, list[str]]:
    """The nodes of each tenant, as names in order.

    A node stays with the tenant it is labelled for. A node labelled for somebody who is not listed is not free:
    that tenant's pods may still run on it.

    :arg tenants: as ``plan`` returns them.
    :arg nodes: all of the cluster's, dicts of ``name``, ``gpus`` (number) and ``labels``.
    :raises TenancyError: with all ``problems``, where there are too few nodes or two tenants claim one.
    """
    problems = _Problems()
    by_name = {node["name"]: node for node in sorted(nodes, key=lambda node: str(node["name"]))}
    listed = [tenant["name"] for tenant in tenants]
    # Whose each node with GPUs is, as it turns out.
    claims = {name: [owner for owner in owners(node) if owner not in listed] for name, node in by_name.items() if has_gpus(node)}
    for index, tenant in enumerate(tenants):
        for name in _fixed(tenant["gpu_nodes"], by_name, list(claims), f"{VARIABLE}[{index}].gpu_nodes", problems):
            claims[name].append(tenant["name"])
    _count(tenants, by_name, claims, problems)
    known = {tenant["name"]: _claim(tenant) for tenant in tenants}
    for name, claimants in claims.items():
        told = _refusal([known.get(claimant, Claim(claimant, own_scheduler=True)) for claimant in claimants], by_name[name])
        if told:
            problems.add(VARIABLE, f"node {name} would belong to {' and '.join(claimants)}: {told}.")

    assigned: dict[str, list[str]] = {}
    for index, tenant in enumerate(tenants):
        path = f"{VARIABLE}[{index}]"
        if tenant["gpu_nodes"]:
            theirs = [name for name, claimants in claims.items() if tenant["name"] in claimants]
            gpus = [by_name[name]["gpus"] for name in theirs]
            # Before the device plugin runs nobody knows how many there are.
            if all(gpus):
                _check_quotas(tenant, sum(gpus), path, problems)
        else:
            theirs = _plain_nodes(by_name)
            if not theirs:
                problems.add(path, f"{tenant['name']} has no gpu_nodes, and the cluster has no node without GPUs.")
        assigned[tenant["name"]] = theirs
    problems.raise_if_any("the assignment of nodes")
    return assigned


def _claim(tenant: Data) -> Claim:
    scheduler = tenant["scheduler"]
    shared = bool(scheduler.get("shared"))
    return Claim(tenant["name"], bool(scheduler) and not shared, shared, tenant["gpu_nodes"].get("shared_gpus"))


def _refusal(claims: list[Claim], node: Data) -> str:
    unasked = [claim.tenant for claim in claims if claim.bound is None]
    if len(claims) > 1 and unasked:
        return f"{' and '.join(unasked)} did not say that the node is shared, by gpu_nodes.shared_gpus"
    return conflict(node["gpus"], claims)


def _count(tenants: list[Data], nodes: dict[str, Data], claims: dict[str, list[str]], problems: _Problems) -> None:
    """Claim for the tenants that only say how many: first everybody keeps what is theirs, then gaps are filled."""
    counted = {index: tenant for index, tenant in enumerate(tenants) if "count" in tenant["gpu_nodes"]}
    kept: dict[int, list[str]] = {}
    for index, tenant in counted.items():
        held = [name for name in claims if tenant["name"] in owners(nodes[name])]
        # Undisputed ones first.
        kept[index] = sorted(held, key=lambda name: bool(claims[name]))[: tenant["gpu_nodes"]["count"]]
        for name in kept[index]:
            claims[name].append(tenant["name"])
    for index, tenant in counted.items():
        free = [name for name, claimants in claims.items() if not claimants]
        missing = tenant["gpu_nodes"]["count"] - len(kept[index])
        for name in free[:missing]:
            claims[name].append(tenant["name"])
        if missing > len(free):
            listed = [other["name"] for other in tenants]
            others = sorted({owner for name in claims for owner in owners(nodes[name])} - set(listed))
            hint = f" Tenants that are not listed still hold some: {', '.join(others)}; remove those first." if others else ""
            problems.add(
                f"{VARIABLE}[{index}].gpu_nodes.count",
                f"{tenant['name']} needs {tenant['gpu_nodes']['count']} nodes with GPUs; {len(kept[index])} are its own, "
                f"{len(free)} of all {len(claims)} are free.{hint}",
            )


def _fixed(chosen: Data, nodes: dict[str, Data], with_gpus: list[str], path: str, problems: _Problems) -> list[str]:
    """The nodes a tenant asks for by their names or labels."""
    have = f"The cluster's nodes with GPUs: {', '.join(with_gpus) or 'none'}."
    if "labels" in chosen:
        found = [name for name in with_gpus if chosen["labels"].items() <= nodes[name]["labels"].items()]
        if not found:
            problems.add(f"{path}.labels", f"no node with GPUs has them all. {have}")
        return found
    for index, name in enumerate(chosen.get("names", [])):
        if name not in with_gpus:
            what = "has no GPUs" if name in nodes else "is not a node of the cluster"
            problems.add(f"{path}.names[{index}]", f"{name} {what}. {have}")
    return [name for name in chosen.get("names", []) if name in with_gpus]


def _plain_nodes(nodes: dict[str, Data]) -> list[str]:
    """The nodes without GPUs; control-plane nodes only where there are no others."""
    plain = [name for name, node in nodes.items() if not has_gpus(node)]
    workers = [name for name in plain if "node-role.kubernetes.io/control-plane" not in nodes[name]["labels"]]
    return workers or plain


def relabel(
    nodes: list[Data], assigned: dict[str, list[str]], tenants: t.Container[str] | None
) -> dict[str, dict[str, str | None]]:
    """By node, our labels that have to change for ``tenants`` to have what is assigned; None removes a label.

    :arg tenants: whose labels may be removed; None for everybody's.
    """
    changes: dict[str, dict[str, str | None]] = {}
    for node in nodes:
        wanted = {NODE_LABEL + tenant: "true" for tenant, theirs in assigned.items() if node["name"] in theirs}
        ours = {
            label: value
            for label, value in node["labels"].items()
            if label.startswith(NODE_LABEL) and (tenants is None or label.removeprefix(NODE_LABEL) in tenants)
        }
        if ours != wanted:
            changes[node["name"]] = dict.fromkeys(ours.keys() - wanted.keys()) | wanted
    return changes


def retaint(
    nodes: list[Data], assigned: dict[str, list[str]], tenants: t.Container[str] | None, dedicated: t.Container[str]
) -> dict[str, list[Data]]:
    """By node, all of its taints, where ours has to change for nobody else's pods to come to the nodes of ``dedicated`` tenants.

    :arg tenants: whose taints may be removed; None for everybody's.
    """
    changes: dict[str, list[Data]] = {}
    for node in nodes:
        taints = node["taints"]
        wanted = [
            {"key": TAINT, "value": tenant, "effect": "NoSchedule"}
            for tenant, theirs in assigned.items()
            if tenant in dedicated and node["name"] in theirs
        ]
        ours = [taint for taint in taints if taint["key"] == TAINT and (tenants is None or taint.get("value") in tenants)]
        if [{key: taint.get(key) for key in ("key", "value", "effect")} for taint in ours] != wanted:
            changes[node["name"]] = [taint for taint in taints if taint not in ours] + wanted
    return changes
