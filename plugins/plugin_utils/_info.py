# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""What the playbook info read, collected from Ansible's variables, and each part of it as lines of text."""

from __future__ import annotations

import typing as t

from ..module_utils._common.text import legible, pairs
from ..module_utils._common.values import JsonObject
from ..module_utils._kai.facts import EVERY_POD
from ..module_utils._tenant.facts import KAI_SCHEDULER, REHEARSAL
from . import _reports, _summary, _work
from ._differences import worked

Mapping = t.Mapping[str, t.Any]
Table = list[JsonObject]

_NOT_READ = "it was not reached, see the output above"
# What is read of each tenant, and of the KAI Scheduler that tenants share, with a key that it has, and its name for people.
_READ = {
    "scheduler": ("installed", "its KAI Scheduler was"),
    "queues": ("queues", "its queues were"),
    "pods": ("pods", "why its pods wait was"),
}
# In which variables a cluster has what is read of the shared one.
_SHARED = {"scheduler": "_kubegpu_kai", "queues": "_kubegpu_queues"}
# What kai_scheduler_info says of the release that runs, beside its hazards.
_OF_KAI = ("version", "status", "ready", "missing", "long_term", "end_of_support", "supported", "kubernetes_tested")
# The keys of a record that other parts than the table of tenants are about.
_PARTS = ("queues", "pods")


# --- collected ---------------------------------------------------------------------------------------------------


def reports(hostvars: Mapping, clusters: t.Iterable[str]) -> list[JsonObject]:
    """Collect what the playbook read, one record for each cluster of the inventory; None stands for what was not asked for, or not read.

    :arg hostvars: Ansible's, in which the playbook left its results.
    :arg clusters: names of inventory hosts, reached or not.
    """
    return [legible(_cluster(name, hostvars[name])) for name in clusters]


def _cluster(name: str, variables: Mapping) -> JsonObject:
    """Return the record of one cluster."""
    desired = variables.get("_kubegpu") or {}
    seen = {
        one["tenant"]: one for one in _reports.registered(variables, "_kubegpu_vclusters").get("vclusters") or [] if one["tenant"]
    }
    compared = {one["name"]: one for one in _reports.registered(variables, "_kubegpu_tenants").get("tenants") or []}
    names = [one for one in dict.fromkeys([*compared, *sorted(seen)]) if not desired.get("only") or one in desired["only"]]
    gpus, unread = _gpus(variables, desired.get("only") or [])
    shared, more = _shared(variables)
    inside = _reports.registered(variables, "_kubegpu_inside")
    read = {one["name"]: one["parts"] for one in inside.get("tenants") or []}
    alerts, not_read = _alerts(variables)
    tried = _previews(variables, compared)
    tenants = [
        _tenant(one, seen.get(one, {}), compared.get(one, {}), read.get(one, {}), desired) | {"preview": tried.get(one)}
        for one in names
    ]
    if inside and "tenants" not in inside:
        more = [*more, f"its tenants were not read: {_reports.failure_of(inside)}"]
    failures = [f"{name}: {failure}" for failure in [*_early(variables), *unread, *more, *not_read]]
    failures += [f"{name}/{tenant['name']}: {failure}" for tenant in tenants for failure in tenant.pop("failures")]
    return {
        "cluster": name,
        "failures": failures,
        "gpus": gpus,
        "shared_scheduler": shared,
        "tenants": tenants,
        "alerts": alerts,
        "alerts_unread": not_read,
    }


def _early(variables: Mapping) -> list[str]:
    """Return why nothing could be read of a cluster; where its tenants were, what of them could not be."""
    if "vclusters" in _reports.registered(variables, "_kubegpu_vclusters"):
        read = (_reports.registered(variables, name) for name in ("_kubegpu_vclusters", "_kubegpu_tenants"))
        later = [str(variables[name]) for name in ("_kubegpu_failure", "_kubegpu_work_failure") if variables.get(name)]
        return [*later, *(sentence for found in read for sentence in found.get("unread") or [])]
    refused = None if variables.get("_kubegpu") else _reports.registered(variables, "_kubegpu_plan").get("msg")
    return [str(variables.get("_kubegpu_failure") or refused or _NOT_READ)]


def _gpus(variables: Mapping, only: t.Collection[str]) -> tuple[JsonObject | None, list[str]]:
    """Return the devices and who has them, of the tenants that are asked for, and why they could not be read."""
    found = _reports.registered(variables, "_kubegpu_devices")
    if "devices" not in found:
        return None, [f"who has which GPUs was not read: {_reports.failure_of(found)}"] if found else []
    theirs = {row["node"] for row in found["nodes"] if not only or not set(only).isdisjoint(row["tenants"])}
    rows = [row for row in found["devices"] if row["node"] in theirs or row["tenant"] in only]
    products = [] if only else found["products"]
    return {"devices": rows, "products": products, "overlaps": found["overlaps"]}, list(found["unread"])


def _alerts(variables: Mapping) -> tuple[list[JsonObject] | None, list[str]]:
    """Return the alerts that fire, None where no server was asked for them, and why they could not be read."""
    found = _reports.registered(variables, "_kubegpu_alerts")
    if "alerts" not in found:
        return None, [f"which alerts fire was not read: {_reports.failure_of(found)}"] if found else []
    return list(found["alerts"]), []


def _shared(variables: Mapping) -> tuple[JsonObject | None, list[str]]:
    """Return the record of the KAI Scheduler that tenants share, None without one, and why what was asked for could not be read."""
    version = _reports.registered(variables, "_kubegpu_tenants").get("shared_scheduler")
    read, failures = _read({what: _reports.registered(variables, name) for what, name in _SHARED.items()})
    about = {"listed": True, "reason": "", "trust": None, "kubernetes": None, "kubeconfig_expires": None, "vcluster": None}
    return ({"state": None, "scheduler": f"kai {version}"} | about | read if version else None), failures


def _read(parts: t.Mapping[str, Mapping], every_pod: str = EVERY_POD) -> tuple[JsonObject, list[str]]:
    """Return what was read of a KAI Scheduler, of its queues and of pods, and why what was asked for could not be.

    :arg parts: results of modules, by the keys of _READ.
    :arg every_pod: whose pods a hazard of that KAI Scheduler stops that stops every pod.
    """
    kai, failures = parts.get("scheduler") or {}, []
    read: JsonObject = {"kai": _kai(kai, every_pod) if kai.get("installed") else None}
    for part in _PARTS:
        read[part] = (parts.get(part) or {}).get(part)
    for part, (key, name) in _READ.items():
        found = parts.get(part) or {}
        if found and key not in found:
            failures.append(f"{name} not read: {_reports.failure_of(found)}")
        failures += found.get("unread") or []
    return read, failures


def _kai(found: Mapping, every_pod: str) -> JsonObject:
    """Return what kai_scheduler_info says of a release, with its hazards by whether they touch what is installed, and were accepted."""
    names, touching = found["accepted_hazards"], found["touching_hazards"]
    return {key: found[key] for key in _OF_KAI} | {
        "accepted_hazards": [hazard for hazard in touching if _name(hazard) in names],
        "open_hazards": [hazard for hazard in touching if _name(hazard) not in names],
        "other_hazards": [hazard.replace(EVERY_POD, every_pod) for hazard in found["hazards"] if hazard not in touching],
    }


def _name(hazard: str) -> str:
    return hazard.partition(":")[0]


def _tenant(name: str, seen: Mapping, compared: Mapping, parts: t.Mapping[str, Mapping], desired: Mapping) -> JsonObject:
    """Return the record of one tenant.

    :arg seen: as vcluster_info returns it; ``compared``, as tenancy_info does. Empty where it is not there, or not listed.
    :arg parts: as tenant_workloads_info does; empty where it does not run.
    """
    wanted = compared.get("desired") or {}
    versions = {"vcluster": seen.get("version"), "scheduler": _observed(seen.get("scheduler"))}
    if wanted:
        versions = _shown_versions(wanted, compared, desired)
    read, failures = _read(parts, _reports.OF_TENANT)
    return (
        {
            "name": name,
            "listed": bool(wanted),
            "state": compared.get("state") or seen["state"],
            "reason": seen.get("reason") or "",
            "trust": seen.get("trust") or wanted.get("trust"),
            "kubernetes": seen.get("kubernetes_version"),
            "kubeconfig_expires": seen.get("kubeconfig_expires"),
            "due": list(compared.get("due") or []),
            "reasons": list(compared.get("reasons") or []),
            "failures": failures,
        }
        | versions
        | read
    )


def _shown_versions(wanted: Mapping, compared: Mapping, desired: Mapping) -> JsonObject:
    """Return the versions of a tenant's virtual cluster and scheduler, as the summary shows them."""
    found = _reports.versions(wanted, compared, desired)
    return {
        "vcluster": _summary.shown_version(found["vcluster"], compared["state"]),
        "scheduler": _summary.shown_scheduler(found["scheduler"], compared["state"]),
    }


def _observed(scheduler: Mapping | None) -> str:
    """Return a scheduler as it was seen, of a tenant of which nothing is wanted."""
    if scheduler is None:
        return "unknown"
    return " ".join(filter(None, [scheduler["name"], scheduler.get("version")])) if scheduler else "cluster's own"


def _previews(variables: Mapping, compared: t.Mapping[str, Mapping]) -> dict[str, JsonObject]:
    """Return what the changes that were tried would do, by tenant.

    :arg compared: records of the cluster's tenants, as tenancy_info returned them.
    """
    if not variables.get("_kubegpu_previewed"):
        return {}
    release = str(variables.get("info_release") or "")
    wanted = {one["name"]: one for one in _work.preview({"tenants": list(compared.values())}, release)["tenants"]}
    done = {one["name"]: one for one in worked(variables)}
    desired = variables.get("_kubegpu") or {}
    return {name: _preview(done[name], wanted[name], compared[name], desired) for name in done.keys() & wanted.keys()}


def _preview(done: Mapping, wanted: Mapping, compared: Mapping, desired: Mapping) -> JsonObject:
    """Return what the change of a tenant would do.

    :arg done: as module tenants returned it in check mode.
    """
    accepted = (done["parts"].get(KAI_SCHEDULER) or {}).get("accepted_hazards") or []
    found = _reports.changes_of(done)
    return {
        "scheduler": _shown_versions(wanted, compared, desired)["scheduler"],
        "refused": done["failure"] or None,
        "needs_rehearsal": bool((done["parts"].get(REHEARSAL) or {}).get("failed")),
        "steps": found["steps"],
        "upgrade_notes": found["upgrade_notes"],
        "accepted_hazards": [hazard for hazard in found["hazards"] if _name(hazard) in accepted],
        "other_hazards": [hazard for hazard in found["hazards"] if _name(hazard) not in accepted],
    }


# --- shown -------------------------------------------------------------------------------------------------------


def gpus(clusters: t.Sequence[JsonObject]) -> tuple[Table, list[str]]:
    """Return a row for each device and pod that has it, GPUs by product and node pool, and GPUs that two tenants could book."""
    table, notes = [], []
    for prefix, cluster in _each(clusters):
        found = cluster["gpus"] or {"devices": [], "products": [], "overlaps": []}
        for row in found["devices"]:
            table.append(
                prefix
                | {
                    "node": row["node"],
                    "GPU": row["device"] or "unknown",
                    "tenant": row["tenant"] or ("no tenant" if row["pod"] else "free"),
                    "pod": row["pod"],
                    "part": "" if not row["pod"] else f"{row['part']:g}" if row["part"] else "unknown",
                }
            )
        notes += [f"{_where(cluster, clusters)}{line}" for line in [*map(_product, found["products"]), *found["overlaps"]]]
    return table, notes


def _product(row: Mapping) -> str:
    pool = f", node pool {row['pool']}" if row["pool"] else ""
    return f"{row['product'] or 'GPUs of unknown product'}{pool}: {row['in_use']} of {row['allocatable']} held, on {row['nodes']} nodes"


def tenants(clusters: t.Sequence[JsonObject]) -> tuple[Table, list[str]]:
    """Return a row for each tenant, and for the KAI Scheduler that tenants share, with versions, and what is to be known of these."""
    table, whose = [], {}
    kinds = {
        "notes": "note",
        "open_hazards": "hazard, not accepted",
        "accepted_hazards": "accepted hazard",
        "other_hazards": "hazard of the release, not of what is installed",
    }
    for prefix, cluster in _each(clusters):
        for name, one in _schedulers(cluster):
            kai = one["kai"] or {}
            row = {
                "tenant": name,
                "state": one["state"],
                "trust": one["trust"],
                "vcluster": one["vcluster"],
                "kubernetes": one["kubernetes"],
                "scheduler": one["scheduler"],
                "support ends": _support(kai),
                "kubeconfig until": one["kubeconfig_expires"],
            }
            table.append(prefix | {head: cell or "" for head, cell in row.items()})
            whose[_where(cluster, clusters, "/") + name] = dict.fromkeys(kinds, ()) | kai | {"notes": _notes(one, kai)}
    return table, [line for key, kind in kinds.items() for line in _summary.grouped(kind, whose, key)]


def _notes(one: JsonObject, kai: Mapping) -> list[str]:
    """Return what is to be known of a tenant beside its versions."""
    notes = [] if one["listed"] else ["made by this collection, not listed"]
    notes += [one["reason"]] if one["reason"] else []
    if kai:
        notes += [] if kai["status"] == "deployed" else [f"its Helm release is {kai['status']}"]
        notes += kai["missing"]
        if kai["kubernetes_tested"] is False:
            notes.append(f"upstream does not test KAI Scheduler {kai['version']} with this version of Kubernetes")
    return notes


def _support(kai: Mapping) -> str:
    """Return the last month in which a release is corrected."""
    if not kai:
        return ""
    return str(kai["end_of_support"] or "unknown") + ("" if kai["supported"] else ", over")


def queues(clusters: t.Sequence[JsonObject]) -> tuple[Table, list[str]]:
    """Return a row for each queue, those below it indented, with GPU devices."""
    table = [
        prefix | {"tenant": name} | row
        for prefix, cluster in _each(clusters)
        for name, one in _schedulers(cluster)
        for row in _tree(one["queues"] or [], 0)
    ]
    return table, []


def _tree(rows: t.Iterable[Mapping], depth: int) -> t.Iterator[JsonObject]:
    for row in rows:
        gpu = row["gpu"]
        yield {
            "queue": f"{'  ' * depth}{row['name']}",
            "priority": row["priority"],
            "quota": _amount(gpu["quota"]),
            "limit": _amount(gpu["limit"]),
            "over-quota weight": _amount(gpu["over_quota_weight"]),
            "in use": _amount(gpu["allocated"]),
            "requested": _amount(gpu["requested"]),
        }
        yield from _tree(row["children"], depth + 1)


def _amount(value: t.Any) -> t.Any:
    """Return an amount of GPU devices as a cell; None is one that the queue does not say."""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else value


def pending(clusters: t.Sequence[JsonObject]) -> tuple[Table, list[str]]:
    """Return a row for each pod that waits, was refused, or runs past KAI Scheduler, and below for each what to do, and why."""
    table, notes = [], []
    for prefix, cluster in _each(clusters):
        for name, one in _schedulers(cluster):
            for pod in one["pods"] or []:
                kind = "" if pod["kind"] == "Pod" else f" ({pod['kind']})"
                where = f"{pod['namespace']}/{pod['name']}{kind}"
                state = pod["state"].replace("_", " ")
                row = {"tenant": name, "pod": where, "queue": pod["queue"] or "", "state": state, "seconds": pod["seconds"]}
                table.append(prefix | row | {"reason": pod["reason"]})
                notes.append(f"{_where(cluster, clusters)}{name} {where}: {pod['advice']} {pod['message']}")
    return table, notes


def alerts(clusters: t.Sequence[JsonObject]) -> tuple[Table, list[str]]:
    """Return a row for each alert that fires."""
    table = [
        prefix | {"alert": one["name"], "severity": one["severity"], "labels": pairs(one["labels"])}
        for prefix, cluster in _each(clusters)
        for one in cluster["alerts"] or []
    ]
    unasked = [cluster for cluster in clusters if cluster["alerts"] is None and not cluster["failures"]]
    return table, [
        f"{_where(cluster, clusters)}its kubegpu_usage has no url, at which alerts would be read" for cluster in unasked
    ]


def preview(clusters: t.Sequence[JsonObject]) -> tuple[Table, list[str]]:
    """Return a row for each tenant that site would change, and below why and how."""
    table, notes, whose = [], [], {}
    for prefix, cluster in _each(clusters):
        for one in cluster["tenants"]:
            tried = one["preview"] or {}
            if not tried and "change" not in one["due"]:
                continue
            name = f"{_where(cluster, clusters, '/')}{one['name']}"
            verdict = "refused" if tried.get("refused") else f"{len(tried['steps'])} steps" if tried else "not tried"
            scheduler = tried.get("scheduler") or one["scheduler"]
            row = {"tenant": one["name"], "state": one["state"], "vcluster": one["vcluster"] or "", "scheduler": scheduler}
            table.append(prefix | row | {"preview": verdict})
            notes += [f"{name}: {reason}" for reason in one["reasons"]]
            if tried:
                notes += [f"{name}: refused: {tried['refused']}"] if tried["refused"] else []
                notes += [f"{name}: step: {_summary.shown_step(step)}" for step in tried["steps"]]
                whose[name] = tried
    kinds = {"upgrade_notes": "upgrade note", "accepted_hazards": "accepted hazard", "other_hazards": "hazard"}
    return table, notes + [line for key, kind in kinds.items() for line in _summary.grouped(kind, whose, key)]


def _each(clusters: t.Sequence[JsonObject]) -> t.Iterator[tuple[JsonObject, JsonObject]]:
    """Return each cluster, with the column that names it where there are several."""
    for cluster in clusters:
        yield ({"cluster": cluster["cluster"]} if len(clusters) > 1 else {}), cluster


def _where(cluster: JsonObject, clusters: t.Sequence[JsonObject], end: str = ": ") -> str:
    return f"{cluster['cluster']}{end}" if len(clusters) > 1 else ""


def _schedulers(cluster: JsonObject) -> list[tuple[str, JsonObject]]:
    """Return the tenants of a cluster, and the KAI Scheduler that they share where there is one, each with its name."""
    shared = cluster["shared_scheduler"]
    return [*((one["name"], one) for one in cluster["tenants"]), *([("shared scheduler", shared)] if shared else [])]


# What shows each part, and what is said where there is nothing to show.
PARTS: dict[str, tuple[t.Callable[[t.Sequence[JsonObject]], tuple[Table, list[str]]], str]] = {
    "gpus": (gpus, "There are no GPUs."),
    "tenants": (tenants, "There are no tenants."),
    "queues": (queues, "There are no queues."),
    "pending": (pending, "No pod waits."),
    "alerts": (alerts, "No alert fires that was read."),
    "preview": (preview, "Nothing would be changed."),
}
