# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The summary that ends a run: what each tenant is, what was verified, and everything that is not as wanted."""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import leaves

Data = dict[str, t.Any]
Mapping = t.Mapping[str, t.Any]

PASSED, FAILED, NOT_TRIED = "passed", "failed", "not_tried"


def reports(hostvars: Mapping, groups: t.Mapping[str, t.Sequence[str]]) -> list[Data]:
    """Collect what a run found out, one record for each cluster of the inventory.

    :arg hostvars: Ansible's, in which the playbooks left their results; ``groups``, Ansible's as well.
    """
    worked_on = {}
    for host in dict.fromkeys([*groups.get("kubegpu_leaving", ()), *groups.get("kubegpu_tenants", ())]):
        worked_on[host] = _tenant_report(hostvars[host])
    return [
        _cluster_report(cluster, hostvars[cluster], {host: one for host, one in worked_on.items() if one["cluster"] == cluster})
        for cluster in groups.get("kubegpu_clusters", ())
    ]


def _tenant_report(variables: Mapping) -> Data:
    """What a run did for one tenant."""
    release = _registered(variables, "_kai_scheduler_release")
    probe = _registered(variables, "_kai_scheduler_probe") or _registered(variables, "_vcluster_tenant_probe")
    return {
        "cluster": variables["kubegpu_cluster"],
        "name": variables["kubegpu_tenant"]["name"],
        "reasons": list(variables.get("_kubegpu_reasons") or []),
        "failure": variables.get("_kubegpu_failure"),
        "seconds": variables.get("_kubegpu_seconds"),
        "results": list(probe.get("results") or []),
        "hazards": list(release.get("hazards") or []),
        "upgrade_notes": list(release.get("upgrade_notes") or []),
        "steps": list(release.get("steps") or []),
    }


def _registered(variables: Mapping, name: str) -> Mapping:
    """What a task registered; empty where it did not run."""
    found = variables.get(name) or {}
    return {} if found.get("skipped") else found


def _cluster_report(cluster: str, variables: Mapping, worked_on: t.Mapping[str, Data]) -> Data:
    desired = variables.get("_kubegpu") or {}
    live = variables.get("_kubegpu_tenants") or {}
    ledger = variables.get("_kubegpu_ledger") or {}
    failure = variables.get("_kubegpu_failure")
    plan = variables.get("_kubegpu_plan") or {}
    if not desired:
        failure = plan.get("msg") or "it was not reached"
    by_name = {one["name"]: one for one in worked_on.values()}
    tenants = [
        _row(tenant, _named(live.get("tenants"), tenant["name"]), by_name.get(tenant["name"]), ledger, desired)
        for tenant in desired.get("selected", [])
    ]
    failures = [f"{cluster}: {failure}"] if failure else []
    failures += [f"{cluster}/{one['name']}: {one['failure']}" for one in by_name.values() if one["failure"]]
    shared = live.get("shared_scheduler") if not desired.get("shared_scheduler") else None
    return {
        "cluster": cluster,
        "failures": failures,
        "tenants": tenants,
        "unlisted": list(live.get("unlisted") or []),
        "unlisted_scheduler": shared,
        "overlaps": list(ledger.get("overlaps") or []),
    }


def _named(items: t.Any, name: str) -> Data:
    return next((dict(item) for item in items or [] if item["name"] == name), {})


def _row(tenant: Mapping, live: Mapping, done: Data | None, ledger: Mapping, desired: Mapping) -> Data:
    nodes = [node for node in ledger.get("nodes", []) if tenant["name"] in node["tenants"]]
    done = done or {}
    scheduler = tenant["scheduler"]
    return {
        "name": tenant["name"],
        "wanted_state": tenant["state"],
        "state": live.get("state", "not reached"),
        "due": list(live.get("due") or []),
        "reasons": list(live.get("reasons") or []),
        "trust": tenant["trust"] + (", network open" if live.get("network_policies") == "unenforced" else ""),
        "vcluster": tenant["vcluster"]["version"],
        "scheduler": f"{scheduler['name']} {scheduler['version'] or 'shared'}" if scheduler else "cluster's own",
        "nodes": [node["node"] for node in nodes],
        "gpus": sum(node["allocatable"] for node in nodes),
        "in_use": sum(node["in_use"] for node in nodes),
        "leaf_queues": _leaf_queues(tenant["queues"]),
        # A failed probe is not recorded on the cluster.
        "results": done.get("results") or list(live.get("results") or []),
        "failure": done.get("failure"),
        "seconds": done.get("seconds"),
        "hazards": done.get("hazards", []),
        "upgrade_notes": done.get("upgrade_notes", []),
        "steps": done.get("steps", []),
        "kubeconfig": f"{desired['kubeconfig_dir']}/tenants/{tenant['name']}.yml",
    }


def _leaf_queues(tree: t.Sequence[t.Any]) -> int:
    try:
        return len(leaves(parse(list(tree))))
    except TenancyError:
        return 0


# --- shown -------------------------------------------------------------------------------------------------------


def rows(clusters: t.Sequence[Data]) -> list[Data]:
    """Return the table of all tenants, a row each; the cluster's name only where there are several."""
    several = len(clusters) > 1
    table = []
    for cluster in clusters:
        for tenant in cluster["tenants"]:
            row = {"cluster": cluster["cluster"]} if several else {}
            table.append(
                row
                | {
                    "tenant": tenant["name"],
                    "state": _state(tenant),
                    "trust": tenant["trust"],
                    "vcluster": tenant["vcluster"],
                    "scheduler": tenant["scheduler"],
                    "nodes": " ".join(tenant["nodes"]),
                    "GPUs": tenant["gpus"],
                    "in use": tenant["in_use"],
                    "leaf queues": tenant["leaf_queues"],
                    "checks": _checks(tenant),
                    "seconds": "" if tenant["seconds"] is None else tenant["seconds"],
                    "kubeconfig": tenant["kubeconfig"] if tenant["state"] == "running" else "",
                }
            )
    return table


def _state(tenant: Data) -> str:
    return "failed" if tenant["failure"] else str(tenant["state"])


def _checks(tenant: Data) -> str:
    """How many checks passed of those that there are; what else there is to say of them stands below the table."""
    if tenant["wanted_state"] != "present":
        return ""
    results = tenant["results"]
    if not results:
        return "none"
    counts = {verdict: len([one for one in results if one["verdict"] == verdict]) for verdict in (PASSED, FAILED, NOT_TRIED)}
    more = [f"{counts[FAILED]} failed"] if counts[FAILED] else []
    more += [f"{counts[NOT_TRIED]} not tried"] if counts[NOT_TRIED] else []
    return ", ".join([f"{counts[PASSED]} of {len(results)}", *more])


def notes(clusters: t.Sequence[Data]) -> list[str]:
    """Return the sentences below the table: everything that a reader has to know and the table does not show."""
    lines: list[str] = []
    for cluster in clusters:
        for tenant in cluster["tenants"]:
            name = f"{cluster['cluster']}/{tenant['name']}" if len(clusters) > 1 else tenant["name"]
            lines += [f"{name}: {line}" for line in _tenant_notes(tenant)]
        lines += cluster["overlaps"]
        where = f" on {cluster['cluster']}" if len(clusters) > 1 else ""
        lines += [
            f"{name} is{where}, made by this collection, and not listed any more. kubegpu_unlisted: remove takes it away."
            for name in cluster["unlisted"]
        ]
        if version := cluster["unlisted_scheduler"]:
            lines.append(
                f"The host cluster{where} has a KAI Scheduler {version} that kubegpu_shared_scheduler does not name any more. "
                "kubegpu_unlisted: remove takes it away."
            )
        lines += [f"FAILED {failure}" for failure in cluster["failures"]]
    return lines


def _tenant_notes(tenant: Data) -> list[str]:
    lines = []
    for result in tenant["results"]:
        if result["verdict"] != PASSED:
            where = f" in queue {result['queue']}" if result.get("queue") else ""
            lines.append(f"check {result['name']}{where} {result['verdict'].replace('_', ' ')}: {result['reason']}")
    if tenant["due"]:
        lines.append(f"to do ({', '.join(tenant['due'])}): {'; '.join(tenant['reasons'])}")
    lines += [f"hazard of {tenant['scheduler']}: {hazard}" for hazard in tenant["hazards"]]
    lines += [f"upgrade note: {note}" for note in tenant["upgrade_notes"]]
    for step in tenant["steps"]:
        took = f", {step['seconds']} s" if "seconds" in step else ""
        lines.append(f"step: {step['step']} ({step['why']}{took})")
    return lines
