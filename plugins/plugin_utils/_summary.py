# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The summary that ends a run: what each tenant is, what was verified, and everything that is not as wanted."""

from __future__ import annotations

import pathlib
import shlex
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.facts import SHARED_SCHEDULER
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import leaves

Data = dict[str, t.Any]
Mapping = t.Mapping[str, t.Any]

PASSED = "passed"
# Verdicts, in the order in which they are counted.
_VERDICTS = (PASSED, "failed", "not_tried", "accepted")

# States that no module returns: what the run did not get to know.
NOT_REACHED, NO_CLUSTER = "not reached", "no cluster yet"

# Facts in which the playbooks note failures of a cluster, of all of the work on it first.
_FAILURES = ("_kubegpu_failure", "_kubegpu_shared_failure", "_kubegpu_host_failure", "_kubegpu_cluster_failure")
_NOT_REACHED = "it was not reached, see the output above"

# A first job of a team, beside the code in a clone and in an installed collection, and the queue that it names.
FIRST_JOB, FIRST_QUEUE = pathlib.Path(__file__).resolve().parents[2] / "examples/workloads/gpu.yaml", "training"

# What a run of each role registers, in the order in which they run.
_REGISTERED = ("_vcluster_tenant_cluster", "_kai_scheduler_gate", "_kai_scheduler_release")


# --- collected ---------------------------------------------------------------------------------------------------


def reports(hostvars: Mapping, groups: t.Mapping[str, t.Sequence[str]]) -> list[Data]:
    """Collect what a run found out, one record for each cluster of the inventory.

    :arg hostvars: Ansible's, in which the playbooks left their results; ``groups``, Ansible's as well.
    """
    tenants = []
    for group in ("kubegpu_leaving", "kubegpu_due"):
        for host in groups.get(group, ()):
            if is_of_this_pass(hostvars[host], group, hostvars):
                tenants.append(_tenant_report(hostvars[host]))
    return [
        _cluster_report(cluster, hostvars[cluster], {one["name"]: one for one in tenants if one["cluster"] == cluster})
        for cluster in groups.get("kubegpu_clusters", ())
    ]


def is_of_this_pass(variables: Mapping, group: str, hostvars: Mapping) -> bool:
    """Tell whether a tenant was taken up by this pass of site.yml: its host stays in its groups for all that a run imports."""
    current = hostvars.get(str(variables.get("kubegpu_cluster", "")), {}).get("_kubegpu_pass", "")
    return bool(variables.get("_kubegpu_taken_up", "") == f"{current} {group}")


def _tenant_report(variables: Mapping) -> Data:
    """Return what a run did for one tenant."""
    probe = _registered(variables, "_kai_scheduler_probe") or _registered(variables, "_vcluster_tenant_probe")
    return {
        "cluster": variables["kubegpu_cluster"],
        "name": variables["kubegpu_tenant"]["name"],
        "failure": variables.get("_kubegpu_failure"),
        "seconds": variables.get("_kubegpu_seconds"),
        "results": [*(probe.get("results") or []), *(_registered(variables, "_vcluster_tenant_shared").get("results") or [])],
    } | changes(variables)


def changes(variables: Mapping) -> Data:
    """Return what is to be known of the changes of a host's roles: hazards, upgrade notes and steps."""
    registered = [_registered(variables, name) for name in _REGISTERED]
    return {
        key: [entry for result in registered for entry in result.get(key) or []] for key in ("hazards", "upgrade_notes", "steps")
    }


def _hazards(desired: Mapping, name: str, done: Mapping) -> Data:
    """Return the hazards of a tenant's KAI Scheduler, or of the shared one, those that were accepted apart.

    :arg done: what the run did, by which more of them are known.
    """
    accepted, unsupported = (list(desired.get(key, {}).get(name) or []) for key in ("accepted_hazards", "unsupported"))
    others = [hazard for hazard in [*unsupported, *(done.get("hazards") or [])] if hazard not in accepted]
    return {"accepted_hazards": accepted, "hazards": list(dict.fromkeys(others))}


def _registered(variables: Mapping, name: str) -> Mapping:
    """Return what a task registered; empty where it did not run."""
    found = variables.get(name) or {}
    return {} if found.get("skipped") else found


def _cluster_report(cluster: str, variables: Mapping, worked_on: t.Mapping[str, Data]) -> Data:
    """Return the record of one cluster.

    :arg worked_on: what was done for its tenants, by name.
    """
    desired = variables.get("_kubegpu") or {}
    live = variables.get("_kubegpu_tenants") or {}
    ledger = variables.get("_kubegpu_ledger") or {}
    noted = [f"{cluster}: {variables[name]}" for name in _FAILURES if variables.get(name)]
    noted += [f"{cluster}/{one['name']}: {one['failure']}" for one in worked_on.values() if one["failure"]]
    unnoted = [] if variables.get("_kubegpu_failure") else [f"{cluster}: {failure}" for failure in _unnoted_failure(variables)]
    # Without a ledger the run did not get to its end: what was read of the tenants before may not hold any more.
    missing = NO_CLUSTER if _is_to_be_made(variables) else "" if ledger.get("nodes") is not None else NOT_REACHED
    shared = changes(variables)
    by_name = {} if missing else {item["name"]: item for item in live.get("tenants") or []}
    return {
        "cluster": cluster,
        "noted": noted,
        "failures": unnoted + noted,
        "tenants": [
            _row(
                tenant,
                by_name.get(tenant["name"], {"state": missing or NOT_REACHED}),
                worked_on.get(tenant["name"], {}),
                variables,
            )
            for tenant in desired.get("selected") or []
        ],
        "listed": [tenant["name"] for tenant in desired.get("tenants") or []],
        "only": list(desired.get("only") or []),
        "unlisted": list(live.get("unlisted") or []),
        "unlisted_scheduler": None if desired.get("shared_scheduler") else live.get("shared_scheduler"),
        "removes_unlisted": desired.get("unlisted") == "remove" and not desired.get("only"),
        "shared_scheduler": shared
        | _hazards(desired, SHARED_SCHEDULER, shared)
        | {
            "version": (desired.get("shared_scheduler") or {}).get("version"),
            "leaf_queues": len(_leaf_queues(desired.get("shared_queues") or [])),
            "results": list(_registered(variables, "_kai_scheduler_probe").get("results") or []),
        },
        "picture": list(ledger.get("picture") or []),
        "overlaps": list(ledger.get("overlaps") or []),
    }


def _is_to_be_made(variables: Mapping) -> bool:
    """Tell whether check mode found no cluster, or no lab for it; a run that failed before there was one says why instead."""
    skipped = variables.get("_kubegpu_unmade") or (variables.get("_kubegpu_tenants") or {}).get("skipped")
    return bool(skipped and not variables.get("_kubegpu_failure"))


def _unnoted_failure(variables: Mapping) -> list[str]:
    """Return why the work on a cluster ended early where the playbooks did not note it; empty when it did not."""
    if not variables.get("_kubegpu"):
        plan = variables.get("_kubegpu_plan") or {}
        return [str(plan.get("msg") or _NOT_REACHED)]
    reached = _is_to_be_made(variables) or (variables.get("_kubegpu_ledger") or {}).get("nodes") is not None
    return [] if reached else [_NOT_REACHED]


def _row(tenant: Mapping, live: Mapping, done: Mapping, variables: Mapping) -> Data:
    """Return what there is to say of one tenant.

    :arg live: its record as module tenants_info returns it, or its state alone.
    :arg done: what the run did for it.
    :arg variables: of its cluster's host.
    """
    desired = variables["_kubegpu"]
    nodes = [node for node in (variables.get("_kubegpu_ledger") or {}).get("nodes") or [] if tenant["name"] in node["tenants"]]
    return {
        "name": tenant["name"],
        "wanted_state": tenant["state"],
        "state": live["state"],
        "due": list(live.get("due") or []),
        "reasons": list(live.get("reasons") or []),
        "trust": tenant["trust"] + (", network open" if live.get("network_policies") == "unenforced" else ""),
        "vcluster": shown_version(live, "vcluster_version", tenant["vcluster"]["version"]),
        "scheduler": shown_scheduler(tenant["scheduler"], live, desired.get("shared_scheduler") or {}),
        "nodes": [node["node"] for node in nodes],
        "gpus": sum(node["allocatable"] for node in nodes),
        "in_use": sum(node["in_use"] for node in nodes),
        "leaf_queues": _leaf_queues(tenant["queues"]),
        "results": _results(tenant, live, done),
        "failure": done.get("failure"),
        "seconds": done.get("seconds"),
        "upgrade_notes": list(done.get("upgrade_notes") or []),
        "steps": list(done.get("steps") or []),
        "kubeconfig": f"{desired['kubeconfig_dir']}/tenants/{tenant['name']}.yml",
    } | _hazards(desired, tenant["name"], done)


def _results(tenant: Mapping, live: Mapping, done: Mapping) -> list[Data]:
    """Return the checks that say something of the tenant as it is: those from before a change that is still due do not."""
    # What a failed probe returned is recorded nowhere else.
    results = done.get("results") if done.get("failure") else None if "change" in live.get("due", ()) else live.get("results")
    return list(results or []) if tenant["state"] == "present" else []


def shown_version(live: Mapping, key: str, wanted: str) -> str:
    """Return the version that runs and, where another one is wanted, that one behind an arrow."""
    running = live.get(key)
    if running == wanted or (not running and live["state"] == "paused"):
        return wanted
    return f"{running} -> {wanted}" if running else f"-> {wanted}"


def shown_scheduler(scheduler: Mapping, live: Mapping, shared: Mapping) -> str:
    if not scheduler:
        return "cluster's own"
    if scheduler.get("shared"):
        return f"kai {shown_version(live, 'scheduler_version', shared.get('version') or 'unknown')}, shared"
    if scheduler["name"] == "kai":
        return f"kai {shown_version(live, 'scheduler_version', scheduler['version'])}"
    # What runs of another one is not known.
    return f"{scheduler['name']} {scheduler['version']}"


def _leaf_queues(tree: t.Sequence[t.Any]) -> list[str]:
    try:
        return [queue.name for queue in leaves(parse(list(tree)))]
    except TenancyError:
        return []


# --- the table ---------------------------------------------------------------------------------------------------


def rows(clusters: t.Sequence[Data]) -> list[Data]:
    """Return the table of all tenants, a row each, without columns in which nothing stands.

    The cluster's name stands in it only where there are several.
    """
    several = len(clusters) > 1
    table = [
        ({"cluster": cluster["cluster"]} if several else {}) | _cells(tenant)
        for cluster in clusters
        for tenant in cluster["tenants"]
    ]
    empty = {head for head in (table[0] if table else ()) if all(row[head] == "" for row in table)}
    return [{head: cell for head, cell in row.items() if head not in empty} for row in table]


def _cells(tenant: Data) -> Data:
    known = tenant["state"] not in (NOT_REACHED, NO_CLUSTER)
    there = known and tenant["state"] != "absent"
    described = (known and (there or tenant["wanted_state"] != "absent")) or tenant["state"] == NO_CLUSTER
    return {
        "tenant": tenant["name"],
        "state": _state(tenant),
        "trust": tenant["trust"],
        "vcluster": tenant["vcluster"] if described else "",
        "scheduler": tenant["scheduler"] if described else "",
        "nodes": " ".join(tenant["nodes"]),
        "GPUs": tenant["gpus"] if there else "",
        "in use": tenant["in_use"] if there else "",
        "leaf queues": len(tenant["leaf_queues"]) if there else "",
        "checks": _checks(tenant),
        "seconds": "" if tenant["seconds"] is None else tenant["seconds"],
        "kubeconfig": tenant["kubeconfig"] if tenant["state"] == "running" else "",
    }


def _state(tenant: Data) -> str:
    """Return a tenant's live state, and what is to be known beside it at first sight."""
    if tenant["failure"]:
        return f"{tenant['state']}, failed"
    as_wanted = tenant["wanted_state"] == tenant["state"] and not tenant["due"]
    return f"{tenant['state']}, as wanted" if as_wanted else str(tenant["state"])


def _checks(tenant: Data) -> str:
    """Return how many checks passed of those that there are; what else there is to say of them stands below the table."""
    if tenant["wanted_state"] != "present" or tenant["state"] == NOT_REACHED:
        return ""
    return _counted(tenant["results"])


def _counted(results: t.Sequence[Data]) -> str:
    if not results:
        return "not verified"
    counts = {verdict: len([one for one in results if one["verdict"] == verdict]) for verdict in _VERDICTS}
    more = [f"{counts[verdict]} {verdict.replace('_', ' ')}" for verdict in _VERDICTS if verdict != PASSED and counts[verdict]]
    return ", ".join([f"{counts[PASSED]} of {len(results)}", *more])


# --- below the table ---------------------------------------------------------------------------------------------


def picture(clusters: t.Sequence[Data]) -> list[str]:
    """Return who has which GPUs, a line for each node with GPUs; nodes whose GPUs look the same stand on one line."""
    lines = []
    for cluster in clusters:
        alike: dict[str, list[str]] = {}
        for node, _space, gpus in (line.partition(" ") for line in cluster["picture"]):
            alike.setdefault(gpus, []).append(f"{cluster['cluster']}/{node}" if len(clusters) > 1 else node)
        lines += [f"{', '.join(nodes)} {gpus}" for gpus, nodes in alike.items()]
    return lines


def notes(clusters: t.Sequence[Data]) -> list[str]:
    """Return the sentences below the table: everything that a reader has to know and the table does not show."""
    listed = {name for cluster in clusters for name in cluster["listed"]}
    unknown = dict.fromkeys(name for cluster in clusters for name in cluster["only"] if name not in listed)
    lines = [line for cluster in clusters for line in _cluster_notes(cluster, len(clusters) > 1)]
    lines += [f"kubegpu_only: {name} is listed for no cluster of the inventory." for name in unknown]
    lines += [f"FAILED {failure}" for cluster in clusters for failure in cluster["failures"]]
    return [line.replace("\n", "\n  ") for line in dict.fromkeys(lines)]


def _cluster_notes(cluster: Data, several: bool) -> list[str]:
    prefix, where = (f"{cluster['cluster']}/", f" on {cluster['cluster']}") if several else ("", "")
    lines = [f"{prefix}{tenant['name']}: {line}" for tenant in cluster["tenants"] for line in _tenant_notes(tenant)]
    if (shared := cluster["shared_scheduler"])["results"]:
        name = f"shared scheduler{where}"
        checks = _counted(shared["results"])
        lines.append(f"{name}: kai {shared['version']}, {shared['leaf_queues']} leaf queues of its tenants, checks {checks}")
        lines += [f"{name}: {line}" for line in _check_notes(shared["results"])]
    whose = {f"{prefix}{tenant['name']}": tenant for tenant in cluster["tenants"]}
    whose[f"shared scheduler{where}"] = cluster["shared_scheduler"]
    for kind in ("accepted hazard", "hazard", "upgrade note"):
        lines += grouped(kind, whose, f"{kind.replace(' ', '_')}s")
    lines += [f"{name}: step: {shown_step(step)}" for name, one in whose.items() for step in one["steps"]]
    lines += [f"{cluster['cluster']}: {overlap}" if several else overlap for overlap in cluster["overlaps"]]
    what = "is to be removed" if cluster["removes_unlisted"] else "stays; kubegpu_unlisted: remove takes it away"
    lines += [f"{prefix}{name}: made by this collection, not listed any more, {what}." for name in cluster["unlisted"]]
    if version := cluster["unlisted_scheduler"]:
        lines.append(
            f"shared scheduler{where}: kai {version}, made by this collection, named by no kubegpu_shared_scheduler any more, {what}."
        )
    return lines


def grouped(what: str, whose: t.Mapping[str, Data], key: str) -> list[str]:
    """Return a line for each text, with everybody whom it is about."""
    about: dict[str, list[str]] = {}
    for name, one in whose.items():
        for text in one[key]:
            about.setdefault(text, []).append(name)
    return [f"{', '.join(dict.fromkeys(names))}: {what}: {text}" for text, names in about.items()]


def shown_step(step: Data) -> str:
    return f"{step['step']} ({step['why']}" + (f", {step['seconds']} s)" if "seconds" in step else ")")


def _check_notes(results: t.Sequence[Data]) -> list[str]:
    """Return the checks that did not pass, with their reasons."""
    places: dict[tuple[str, str], list[str]] = {}
    for result in results:
        if result["verdict"] != PASSED:
            where = f" in queue {result['queue']}" if result.get("queue") else ""
            places.setdefault((result["verdict"], result["reason"]), []).append(f"{result['name']}{where}")
    return [
        f"{'check' if len(checks) == 1 else 'checks'} {', '.join(checks)} {verdict.replace('_', ' ')}: {reason}"
        for (verdict, reason), checks in places.items()
    ]


def _tenant_notes(tenant: Data) -> list[str]:
    """Return the checks that did not pass, and what is still to do; the latter not where a failure explains it."""
    lines = _check_notes(tenant["results"])
    if tenant["due"] and not tenant["failure"]:
        lines.append(f"to be {_to_be(tenant)}: {'; '.join(tenant['reasons'])}")
    return lines


def _to_be(tenant: Data) -> str:
    change = {"absent": "removed", "paused": "paused"}.get(
        tenant["wanted_state"], "made" if tenant["state"] == "absent" else "changed"
    )
    done = {"change": change, "verify": "verified"}
    return " and ".join(done[work] for work in tenant["due"])


def first_job(clusters: t.Sequence[Data]) -> list[str]:
    """Return the command with which a first job runs in the first tenant that KAI Scheduler gives GPUs; nothing where there is none."""
    for tenant in (tenant for cluster in clusters for tenant in cluster["tenants"]):
        running = (tenant["state"], tenant["wanted_state"]) == ("running", "present") and not tenant["failure"]
        # Only KAI Scheduler has queues.
        if running and tenant["gpus"] and tenant["leaf_queues"]:
            return [f"First job, in {tenant['name']}: {_command(tenant['kubeconfig'], tenant['leaf_queues'])}"]
    return []


def _command(kubeconfig: str, queues: t.Sequence[str]) -> str:
    example, apply = shlex.quote(str(FIRST_JOB)), f"kubectl --kubeconfig {kubeconfig} apply -f"
    if FIRST_QUEUE in queues:
        return f"{apply} {example}"
    return f"sed 's/queue: {FIRST_QUEUE}/queue: {queues[0]}/' {example} | {apply} -"
