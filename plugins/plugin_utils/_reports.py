# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""What a run of the playbooks found out and did, as plain data: a record for each cluster, which the summary and the evidence show."""

from __future__ import annotations

import typing as t

from ..module_utils._common.text import legible
from ..module_utils._common.values import JsonObject
from ..module_utils._common.variables import SHARED_SCHEDULER
from ..module_utils._kai.facts import EVERY_POD
from ..module_utils._tenant.facts import (
    FORMER_KAI,
    FORMER_SCHEDULERS,
    KAI_SCHEDULER,
    QUEUES,
    REHEARSAL,
    SCHEDULER,
    VIRTUAL_CLUSTER,
)
from ..module_utils._tenant.status import results
from ._differences import repairs, worked
from ._differences import results as registrations

Mapping = t.Mapping[str, t.Any]

PASSED = "passed"
# Verdicts of checks, in the order in which they are counted.
_VERDICTS = (PASSED, "failed", "not_tried", "accepted")

# States that no module returns: what the run did not get to know.
NOT_REACHED, NO_CLUSTER = "not reached", "no cluster yet"

# Of what the playbooks time, the work that a tenant's "seconds" are about.
CHANGE = "change"

# Facts in which the playbooks note failures of a cluster, of all of the work on it first.
_FAILURES = (
    "_kubegpu_failure",
    "_kubegpu_removal_failure",
    "_kubegpu_work_failure",
    "_kubegpu_shared_failure",
    "_kubegpu_monitoring_failure",
    "_kubegpu_gateway_failure",
    "_kubegpu_host_failure",
    "_kubegpu_cluster_failure",
)
# Evidence that could not be written, by folder, which one host writes and every host notes.
_UNWRITTEN = "_kubegpu_unwritten"
_NOT_REACHED = "it was not reached, see the output above"
_DIED = "the module died, see the output above"
# What there is to say of a tenant without nodes.
_NO_GPUS: JsonObject = {"nodes": [], "gpus": 0, "in_use": 0, "ledger": None}

# What role kai_scheduler registers on a cluster, and what of the work on a tenant people want to know of, in order.
_REGISTERED = ("_kai_scheduler_gate", "_kai_scheduler_release", "_kai_scheduler_queues")
# A tenant's own KAI Scheduler stops no other tenant's pods.
OF_TENANT = "every pod of this tenant's cluster"
_PARTS = (VIRTUAL_CLUSTER, FORMER_KAI, FORMER_SCHEDULERS, REHEARSAL, KAI_SCHEDULER, QUEUES, SCHEDULER)


def reports(hostvars: Mapping, clusters: t.Iterable[str]) -> list[JsonObject]:
    """Collect what a run found out, one record for each cluster that it was to work on.

    :arg hostvars: Ansible's, in which the playbooks left their results.
    :arg clusters: names of inventory hosts, reached or not.
    """
    return [legible(_cluster_report(cluster, hostvars[cluster])) for cluster in clusters]


def _tenant_report(done: Mapping) -> JsonObject:
    """Return what a run did for one tenant.

    :arg done: its record as module tenants returns it.
    """
    parts = done["parts"]
    return {
        "name": done["name"],
        "failure": done["failure"] or None,
        "spans": list(done["spans"]),
        "results": results(parts),
        "repairs": repairs(parts),
        "lost_pods": list((parts.get(VIRTUAL_CLUSTER) or {}).get("lost_pods") or []),
    } | changes_of(done)


def changes_of(done: Mapping) -> JsonObject:
    """Return what is to be known of the changes of a tenant.

    :arg done: its record as module tenants returns it.
    """
    return changes([done["parts"].get(part) or {} for part in _PARTS], OF_TENANT)


def _spans(variables: Mapping) -> list[JsonObject]:
    """Return what the playbooks timed: the work, when it began, in seconds of Unix time, and its seconds."""
    return list(variables.get("_kubegpu_spans") or [])


def changes(results: t.Sequence[Mapping], every_pod: str = EVERY_POD) -> JsonObject:
    """Return what is to be known of changes: hazards, upgrade notes and steps.

    :arg results: of modules, in order.
    :arg every_pod: whose pods a hazard stops that stops every pod.
    """
    found = {
        key: [entry for result in results for entry in result.get(key) or []] for key in ("hazards", "upgrade_notes", "steps")
    }
    return found | {"hazards": [hazard.replace(EVERY_POD, every_pod) for hazard in found["hazards"]]}


def _hazards(desired: Mapping, name: str, done: Mapping) -> JsonObject:
    """Return the hazards of a tenant's KAI Scheduler, or of the shared one, the accepted ones apart.

    :arg done: what the run did, by which more of them are known.
    """
    accepted, unsupported = (list(desired.get(key, {}).get(name) or []) for key in ("accepted_hazards", "unsupported"))
    others = [hazard for hazard in [*unsupported, *(done.get("hazards") or [])] if hazard not in accepted]
    return {"accepted_hazards": accepted, "hazards": list(dict.fromkeys(others))}


def registered(variables: Mapping, name: str) -> Mapping:
    """Return what a task registered; empty where it did not run."""
    found = variables.get(name) or {}
    return {} if found.get("skipped") else found


def _cluster_report(cluster: str, variables: Mapping) -> JsonObject:
    """Return the record of one cluster."""
    worked_on = {done["name"]: _tenant_report(done) for done in worked(variables)}
    desired = variables.get("_kubegpu") or {}
    live = variables.get("_kubegpu_tenants") or {}
    ledger = {} if _refused(variables) else variables.get("_kubegpu_ledger") or {}
    noted = _noted(cluster, variables, worked_on)
    unnoted = [] if variables.get("_kubegpu_failure") else [f"{cluster}: {failure}" for failure in _unnoted_failure(variables)]
    # The ledger is noted at the end of a run. Without it, what was read of the tenants before may not hold any more.
    missing = NO_CLUSTER if _is_to_be_made(variables) else "" if ledger else NOT_REACHED
    expires = registered(variables, "_kubegpu_kubeconfigs").get("expires") or {}
    tenants = _tenants(desired, {} if missing else live, ledger, worked_on, missing or NOT_REACHED)
    return {
        "cluster": cluster,
        "evidence": variables.get("kubegpu_evidence") or "",
        "blueprint": desired.get("blueprint") or None,
        "combinations": dict(desired.get("combinations") or {}),
        "noted": noted,
        "failures": unnoted + noted,
        "tenants": [tenant | {"kubeconfig_expires": expires.get(tenant["name"])} for tenant in tenants],
        "listed": [tenant["name"] for tenant in desired.get("tenants") or []],
        "removed": _removed(desired, worked_on),
        "only": list(desired.get("only") or []),
        "unlisted": list(live.get("unlisted") or []),
        "temporary": list(live.get("temporary") or []),
        "unlisted_scheduler": None if desired.get("shared_scheduler") else live.get("shared_scheduler"),
        "removes_unlisted": desired.get("unlisted") == "remove" and not desired.get("only"),
        "shared_scheduler": _shared_scheduler(desired, live, variables),
        "spans": _spans(variables),
        "repairs": repairs(registrations(variables)),
        "nodes": ledger.get("nodes"),
        "overlaps": list(ledger.get("overlaps") or []),
    }


def _tenants(
    desired: Mapping, live: Mapping, ledger: Mapping, worked_on: t.Mapping[str, JsonObject], otherwise: str
) -> list[JsonObject]:
    """Return the records of a cluster's tenants.

    :arg live: what module tenancy_info returned; ``ledger``, what gpu_ledger_info did. Empty where they were not read.
    :arg worked_on: what was done for them, by name.
    :arg otherwise: state of a tenant of which nothing was read.
    """
    by_name = {one["name"]: one for one in live.get("tenants") or []}
    gpus, nothing = _gpus_by_tenant(ledger), _NO_GPUS if ledger.get("nodes") is not None else dict.fromkeys(_NO_GPUS)
    return [
        _tenant(
            tenant,
            by_name.get(tenant["name"], {"state": otherwise}),
            worked_on.get(tenant["name"], {}),
            gpus.get(tenant["name"], nothing),
            desired,
        )
        for tenant in desired.get("selected") or []
    ]


def _noted(cluster: str, variables: Mapping, worked_on: t.Mapping[str, JsonObject]) -> list[str]:
    """Return the failures that the playbooks noted on a cluster and its tenants."""
    noted = [variables[name] for name in _FAILURES if variables.get(name)]
    noted += [failure for folder, failure in variables.get(_UNWRITTEN, {}).items() if folder == variables.get("kubegpu_evidence")]
    theirs = [f"{cluster}/{one['name']}: {one['failure']}" for one in worked_on.values() if one["failure"]]
    return [*(f"{cluster}: {failure}" for failure in [*noted, *_unread(variables)]), *theirs]


def _unread(variables: Mapping) -> list[str]:
    """Return what of a cluster could not be read, and therefore stands in no report."""
    ledger, live = variables.get("_kubegpu_ledger") or {}, registered(variables, "_kubegpu_tenants")
    failed = [f"who has which GPUs was not read: {failure_of(ledger)}"] if ledger and ledger.get("nodes") is None else []
    return [*failed, *(ledger.get("unread") or []), *(live.get("unread") or [])]


def failure_of(result: Mapping) -> str:
    """Return why a task that may fail gave no result; a module that died says nothing by itself."""
    return str(result.get("msg") or _DIED)


def _gpus_by_tenant(ledger: Mapping) -> dict[str, JsonObject]:
    """Return what the ledger says of each tenant that has a row or a node in it: ``nodes``, ``gpus``, ``in_use`` and ``ledger``, its row."""
    found: dict[str, JsonObject] = {}
    for row in ledger.get("tenants") or []:
        found[row["tenant"]] = _NO_GPUS | {"nodes": [], "ledger": row}
    for node in ledger.get("nodes") or []:
        for name in node["tenants"]:
            theirs = found.setdefault(name, _NO_GPUS | {"nodes": []})
            theirs["nodes"].append(node["node"])
            theirs["gpus"] += node["allocatable"]
            theirs["in_use"] += node["in_use"]
    return found


def _removed(desired: Mapping, worked_on: t.Mapping[str, JsonObject]) -> list[JsonObject]:
    """Return the tenants that were removed and that the inventory does not list, each with the steps."""
    listed = {tenant["name"] for tenant in desired.get("selected") or []}
    return [{key: one[key] for key in ("name", "steps")} for one in worked_on.values() if one["name"] not in listed]


def _shared_scheduler(desired: Mapping, live: Mapping, variables: Mapping) -> JsonObject:
    """Return what there is to say of the host cluster's KAI Scheduler."""
    done = changes([registered(variables, name) for name in _REGISTERED])
    return (
        done
        | _hazards(desired, SHARED_SCHEDULER, done)
        | {
            "version": (desired.get("shared_scheduler") or {}).get("version"),
            "running": live.get("shared_scheduler"),
            "queues": list(desired.get("shared_queues") or []),
            "results": list(registered(variables, "_kai_scheduler_probe").get("results") or []),
        }
    )


def _is_to_be_made(variables: Mapping) -> bool:
    """Tell whether check mode found no cluster, or no host for it; a run that failed before there was one says why instead."""
    missing = variables.get("_kubegpu_unmade") or (variables.get("_kubegpu_tenants") or {}).get("exists") is False
    return bool(missing and not variables.get("_kubegpu_failure"))


def _refused(variables: Mapping) -> Mapping | None:
    """Return the result of the plan, where it refused the desired state; an earlier pass of the run may have had another one."""
    plan = variables.get("_kubegpu_plan") or {}
    return plan if plan.get("failed") or not variables.get("_kubegpu") else None


def _unnoted_failure(variables: Mapping) -> list[str]:
    """Return why the work on a cluster ended early where the playbooks did not note it; empty when it did not."""
    if (plan := _refused(variables)) is not None:
        return [str(plan.get("msg") or _NOT_REACHED)]
    return [] if _is_to_be_made(variables) or variables.get("_kubegpu_ledger") else [_NOT_REACHED]


def _tenant(tenant: Mapping, live: Mapping, done: Mapping, gpus: Mapping, desired: Mapping) -> JsonObject:
    """Return what there is to say of one tenant.

    :arg live: its record as module tenancy_info returns it, or its state alone.
    :arg done: what the run did for it.
    :arg gpus: its nodes and GPUs, each None where the ledger was not read.
    :arg desired: the desired state of its cluster.
    :returns: among others ``verified_before``, when the checks of ``results`` were made where this run made none.
    """
    results = _results(tenant, live, done)
    return {
        "name": tenant["name"],
        "wanted_state": tenant["state"],
        "state": live["state"],
        "due": list(live.get("due") or []),
        "reasons": list(live.get("reasons") or []),
        "trust": tenant["trust"],
        "network_policies": live.get("network_policies"),
        "digest": live.get("wanted"),
        "images": dict(live.get("images") or {}),
        "created": live.get("created"),
        "verified_at": live.get("verified_at"),
        "verified_before": live.get("verified_at") if results and not done.get("results") else None,
        "nodes": gpus["nodes"],
        "gpus": gpus["gpus"],
        "in_use": gpus["in_use"],
        "ledger": gpus["ledger"],
        "wanted_queues": list(tenant["queues"]),
        "queues": live.get("queues"),
        "results": results,
        "failure": done.get("failure"),
        "spans": list(done.get("spans") or []),
        "upgrade_notes": list(done.get("upgrade_notes") or []),
        "steps": list(done.get("steps") or []),
        "repairs": list(done.get("repairs") or []),
        "lost_pods": list(done.get("lost_pods") or []),
        "kubeconfig": f"{desired['kubeconfig_dir']}/tenants/{tenant['name']}.yml",
        **versions(tenant, live, desired),
        **_hazards(desired, tenant["name"], done),
    }


def _results(tenant: Mapping, live: Mapping, done: Mapping) -> list[JsonObject]:
    """Return the checks that say something of the tenant as it is: those from before a change that is still due do not."""
    # What a failed probe returned is recorded nowhere else.
    results = done.get("results") if done.get("failure") else None if "change" in live.get("due", ()) else live.get("results")
    return list(results or []) if tenant["state"] == "present" else []


def versions(tenant: Mapping, live: Mapping, desired: Mapping) -> JsonObject:
    """Return a tenant's virtual cluster and scheduler, each with the version that is wanted and the one that runs.

    :arg tenant: as it is wanted.
    :arg live: its record as module tenancy_info returns it.
    :arg desired: the desired state of its cluster.
    """
    return {
        "vcluster": {"wanted": tenant["vcluster"]["version"], "running": live.get("vcluster_version")},
        "scheduler": _scheduler(tenant["scheduler"], live, desired.get("shared_scheduler") or {}),
    }


def _scheduler(scheduler: Mapping, live: Mapping, shared: Mapping) -> JsonObject | None:
    """Return which scheduler places a tenant's pods, the version that is wanted, and the one that runs; None for the cluster's own."""
    if not scheduler:
        return None
    is_shared = bool(scheduler.get("shared"))
    wanted = (shared.get("version") or "unknown") if is_shared else scheduler["version"]
    # What runs of another one than KAI Scheduler is not known.
    running = live.get("scheduler_version") if scheduler["name"] == "kai" else None
    return {"name": scheduler["name"], "shared": is_shared, "wanted": wanted, "running": running}


def shown_blueprint(blueprint: JsonObject) -> str:
    """Return a blueprint as a sentence without its end, with as much of its digest as people compare."""
    differing = f", overridden by the inventory: {', '.join(blueprint['overridden'])}" if blueprint["overridden"] else ""
    return f"blueprint {blueprint['name']}, {blueprint['digest'][:19]}{differing}"


def to_do(tenant: JsonObject) -> str:
    """Return what is still to do for a tenant, and why; empty where nothing is, or where a failure explains it."""
    if not tenant["due"] or tenant["failure"]:
        return ""
    change = {"absent": "removed", "paused": "paused"}.get(
        tenant["wanted_state"], "made" if tenant["state"] == "absent" else "changed"
    )
    done = {CHANGE: change, "verify": "verified"}
    return f"to be {' and '.join(done[work] for work in tenant['due'])}: {'; '.join(tenant['reasons'])}"


def named(result: JsonObject) -> str:
    """Return the name of a check, with its queue where it has one."""
    return f"{result['name']} in queue {result['queue']}" if result.get("queue") else str(result["name"])


def counted(results: t.Sequence[JsonObject]) -> str:
    """Return how many of the checks passed, and what the others did."""
    if not results:
        return "not verified"
    counts = {verdict: len([one for one in results if one["verdict"] == verdict]) for verdict in _VERDICTS}
    more = [f"{counts[verdict]} {verdict.replace('_', ' ')}" for verdict in _VERDICTS if verdict != PASSED and counts[verdict]]
    return ", ".join([f"{counts[PASSED]} of {len(results)}", *more])
