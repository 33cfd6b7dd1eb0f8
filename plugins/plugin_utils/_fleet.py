# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The state of a fleet: the evidence of many runs, merged so that of each cluster and tenant the newest counts.

docs/fleet.schema.json says what is in it. Pure.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ..module_utils._common.text import legible, shown
from ..module_utils._common.values import JsonObject, stamped
from ._evidence import DRIFT, FAILED, INCOMPLETE, SITE
from ._evidence import FORMAT as EVIDENCE_FORMAT
from ._reports import PASSED

FORMAT = 1
# Runs of a cluster whose results are kept.
_TREND = 10
# How a cluster is: as a run ended for it, and without any evidence.
DIFFERS, UNKNOWN = "differs", "unknown"


@dataclasses.dataclass
class _Cluster:
    """What is known of a cluster.

    :ivar at: of its newest evidence; ``run``, of that; ``place``, where it is.
    :ivar read_at: of the newest evidence in which its nodes were read; ``gpus``, of then.
    :ivar tenants: by name.
    :ivar waits: what failed or is left to do, by its place: the cluster, or CLUSTER/TENANT.
    :ivar untold: what drift could not compare; ``differs``, what it found, each line.
    """

    at: str = ""
    run: str = ""
    place: str = ""
    read_at: str = ""
    blueprint: str | None = None
    gpus: JsonObject | None = None
    tenants: dict[str, JsonObject] = dataclasses.field(default_factory=dict)
    shared: JsonObject | None = None
    waits: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    untold: list[str] = dataclasses.field(default_factory=list)
    differs: list[str] = dataclasses.field(default_factory=list)
    trend: collections.deque[JsonObject] = dataclasses.field(default_factory=lambda: collections.deque(maxlen=_TREND))


def summary(evidence: JsonObject, place: str) -> JsonObject:
    """Return what a fleet's state has of the evidence of a run.

    :arg place: where it is, as the page of the fleet names it.
    :raises ValueError: for another format; any exception for what is no evidence.
    """
    if evidence["format"] != EVIDENCE_FORMAT:
        raise ValueError(f"it has format {shown(evidence['format'])}, which is another one")
    stamped(evidence["at"])
    failed, left = _by_place(evidence["problems"]), _by_place(evidence["pending"])
    seen = [legible(_seen(one, str(evidence["at"]))) for one in evidence["clusters"]]
    return {
        "at": str(evidence["at"]),
        "run": str(evidence["run"]),
        "place": place,
        "clusters": [one | {"failed": failed.get(one["name"], {}), "left": left.get(one["name"], {})} for one in seen],
    }


def _by_place(lines: t.Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Return sentences of a run by cluster, and by the cluster or tenant that they begin with."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        place = str(line).partition(":")[0]
        found.setdefault(place.partition("/")[0], {}).setdefault(place, []).append(shown(line))
    return found


def merged(
    runs: t.Iterable[JsonObject], now: str, clusters: t.Collection[str] | None = None, unread: t.Iterable[str] = ()
) -> JsonObject:
    """Return the state of a fleet.

    :arg runs: summaries of evidence, in any order.
    :arg clusters: names of the clusters that it has; None for all of which there is evidence.
    :arg unread: sentences about evidence that could not be read.
    """
    known: dict[str, _Cluster] = {}
    for run in sorted(runs, key=lambda run: (run["at"], run["place"])):
        for seen in run["clusters"]:
            _take(known.setdefault(seen["name"], _Cluster()), run, seen)
    names = sorted(known if clusters is None else clusters)
    return {
        "format": FORMAT,
        "at": now,
        "clusters": [_record(name, known.get(name, _Cluster())) for name in names],
        "unread": list(unread),
    }


def _take(cluster: _Cluster, run: JsonObject, seen: JsonObject) -> None:
    """Take what a run says of a cluster, which is newer than all before."""
    cluster.at, cluster.run, cluster.place = run["at"], run["run"], run["place"]
    result = FAILED if seen["failed"] else INCOMPLETE if seen["left"] else PASSED
    cluster.trend.append({"at": run["at"], "run": run["run"], "result": result})
    _take_lines(cluster, run["run"], seen)
    if seen["gpus"]:
        _take_seen(cluster, run["at"], seen)


def _take_lines(cluster: _Cluster, run: str, seen: JsonObject) -> None:
    """Take what failed, is left or differs: of tenants that the run did not act on, what was said before still holds."""
    only, failed, left = seen["only"], seen["failed"], seen["left"]
    theirs = {seen["name"], *(f"{seen['name']}/{tenant}" for tenant in only)}
    if run == DRIFT:
        cluster.untold = [line for lines in failed.values() for line in lines]
        cluster.differs = [line for lines in left.values() for line in lines]
        return
    cluster.untold = []
    cluster.waits = {where: lines for where, lines in cluster.waits.items() if only and where not in theirs}
    for lines in (failed, left):
        for where, said in lines.items():
            cluster.waits.setdefault(where, []).extend(said)
    # What site changes does not differ any more, and what it could not change, it says.
    if run == SITE:
        cluster.differs = [line for line in cluster.differs if only and line.partition(":")[0] not in theirs]


def _seen(found: JsonObject, at: str) -> JsonObject:
    """Return what a run saw of a cluster, as far as a fleet's state has it; without ``gpus`` where it read nothing."""
    nodes, blueprint, shared = found["nodes"] or (), found["blueprint"], found["shared_scheduler"]
    unlisted = [f"{found['name']}/{name}: this collection made it, the inventory lists it no more" for name in found["unlisted"]]
    gpus = {
        "promised": sum(node["allocatable"] for node in nodes if node["tenants"]),
        "held": sum(node["in_use"] for node in nodes),
        "idle": sum(max(0, node["allocatable"] - node["in_use"]) for node in nodes),
    }
    return {
        "name": str(found["name"]),
        "only": list(found["only"]),
        "blueprint": blueprint["name"] if blueprint else None,
        "gpus": None if found["nodes"] is None else gpus,
        "tenants": {tenant["name"]: _tenant(tenant, at) for tenant in found["tenants"]},
        "shared": _release(shared["scheduler"]) if shared else None,
        "waits": [*(f"{found['name']}: several owners: {line}" for line in found["overlaps"]), *unlisted],
    }


def _take_seen(cluster: _Cluster, at: str, seen: JsonObject) -> None:
    """Take what a run saw of a cluster, where it acted on some tenants only, of these."""
    cluster.read_at, cluster.blueprint, cluster.gpus, cluster.shared = at, seen["blueprint"], seen["gpus"], seen["shared"]
    tenants = {name: _with_kubeconfig(tenant, cluster.tenants.get(name)) for name, tenant in seen["tenants"].items()}
    cluster.tenants = cluster.tenants | tenants if seen["only"] else tenants
    # Of no run that failed, and of no tenant that one acted on.
    cluster.waits[""] = seen["waits"]


def _with_kubeconfig(tenant: JsonObject, before: JsonObject | None) -> JsonObject:
    """Return a tenant, of which a run that read no kubeconfig knows what an earlier run knew."""
    known = tenant["kubeconfig_expires"] or (before or {}).get("kubeconfig_expires")
    return tenant | {"kubeconfig_expires": known}


def _tenant(tenant: JsonObject, at: str) -> JsonObject:
    return {
        "name": tenant["name"],
        "at": at,
        "state": tenant["state"],
        "vcluster": tenant["vcluster"]["running"],
        "scheduler": _release(tenant["scheduler"]) if tenant["scheduler"] else None,
        "kubeconfig_expires": _checked(tenant.get("kubeconfig_expires")),
        # Backups are no part of evidence.
        "backed_up_at": None,
    }


def _checked(at: str | None) -> str | None:
    """Return a time as it is.

    :raises ValueError: where it is none.
    """
    if at is not None:
        stamped(at)
    return at


def _release(scheduler: JsonObject) -> JsonObject:
    return {
        "name": scheduler["name"],
        "release": scheduler["running"] or scheduler["wanted"],
        **{key: scheduler[key] for key in ("shared", "end_of_support", "supported")},
    }


def _record(name: str, cluster: _Cluster) -> JsonObject:
    failed = bool(cluster.trend and cluster.trend[-1]["result"] == FAILED)
    waits = [*cluster.untold, *(line for lines in cluster.waits.values() for line in lines)]
    return {
        "name": name,
        "result": (
            UNKNOWN if not cluster.at else FAILED if failed else INCOMPLETE if waits else DIFFERS if cluster.differs else PASSED
        ),
        "at": cluster.at or None,
        "run": cluster.run or None,
        "read_at": cluster.read_at or None,
        "place": cluster.place or None,
        "blueprint": cluster.blueprint,
        "gpus": cluster.gpus,
        "shared_scheduler": cluster.shared,
        "tenants": list(cluster.tenants.values()),
        "waits": waits,
        "differs": cluster.differs,
        "trend": list(cluster.trend),
    }
