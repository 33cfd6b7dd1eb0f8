# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The evidence of a run as data: what was asked, what is, what was checked, and what changed since the evidence before.

docs/evidence.schema.json says what is in it. Pure; no secret is in what it is made of.
"""

from __future__ import annotations

import datetime
import typing as t

from ..module_utils._common.documents import parse_json
from ..module_utils._common.errors import TenancyError
from ..module_utils._common.names import GPU_RESOURCE
from ..module_utils._common.parties import attempt
from ..module_utils._common.secrets import digest
from ..module_utils._common.text import shown
from ..module_utils._common.values import JsonObject, stamp, stamped
from ..module_utils._kai.status import is_supported
from ..module_utils._kai.validation import release
from ..module_utils._queues.facts import AMOUNTS, RESOURCES
from ..module_utils._queues.status import overview
from ..module_utils._queues.validation import parse
from ..module_utils._queues.values import manifest
from ._drift import sentence
from ._reports import NOT_REACHED, PASSED, counted, named, to_do

FORMAT = 2

# The playbooks that write evidence.
SITE, DRIFT = "site", "drift"

# How a run ended: all is as asked and was checked; nothing failed, but something is still to do; something failed.
FAILED, INCOMPLETE = "failed", "incomplete"

SHARED = "shared scheduler"
# What facts about checks begin with.
_CHECK = "check"

# Of a queue's amounts, what its pods use; null where the queues were not read.
_USES = ("allocated", "requested")
# What is taken over from a record as it is, of tenants and of shared schedulers.
_OF_ALL = ("accepted_hazards", "hazards", "upgrade_notes", "steps")
_OF_TENANTS = (
    *("name", "trust", "network_policies", "wanted_state", "state", "failure", "vcluster", "digest", "images", "created"),
    *("verified_at", "kubeconfig", "kubeconfig_expires"),
)
_OF_GPUS = ("promised", "quota", "requested", "reserved", "in_use", "shares", "shared_with", "claimed", "others")


def evidence(
    reports: t.Sequence[JsonObject], at: str, former: str = "", run: str = SITE, found: JsonObject | None = None
) -> JsonObject:
    """Return the evidence of a run.

    :arg reports: of its clusters, as ``reports`` returns them.
    :arg at: the time of it, in UTC.
    :arg former: text of the evidence before; empty where there is none.
    :arg run: name of its playbook.
    :arg found: of DRIFT, what it found in all clusters, as ``drift`` returns it.
    """
    clusters = [_cluster(report, stamped(at).date()) for report in reports]
    problems = [line for report in reports for line in _problems(report)]
    pending = [f"{name}: {party['to_do']}" for name, party in parties(clusters) if party.get("to_do")]
    drift = None
    if found is not None:
        drift = _drift(found, {cluster["name"] for cluster in clusters})
        problems, pending = drift.pop("unknown"), [sentence(row) for row in drift["differences"]]
        _forget_what_was_predicted(clusters)
    return {
        "format": FORMAT,
        "run": run,
        "at": at,
        "result": FAILED if problems else INCOMPLETE if pending else PASSED,
        "problems": problems,
        "pending": pending,
        "clusters": clusters,
        "drift": drift,
        "since": _since(former, clusters),
    }


def _drift(found: JsonObject, names: t.Collection[str]) -> JsonObject:
    """Return what drift found in some clusters, of charts' values no more than digests."""
    differences, steps = ([row for row in found[key] if row["cluster"] in names] for key in ("differences", "steps"))
    secret = [row["what"].partition(".")[0] == "values" for row in differences]
    return {
        "differences": [_digested(row) if hidden else row for row, hidden in zip(differences, secret, strict=True)],
        "steps": steps,
        "unknown": [one for one in found["unknown"] if one.startswith(tuple(f"{name}{end}" for name in names for end in "/:"))],
    }


def _digested(row: JsonObject) -> JsonObject:
    return row | {key: digest(row[key]) for key in ("real", "wanted") if row[key] is not None}


def _forget_what_was_predicted(clusters: list[JsonObject]) -> None:
    """Leave out what site.yml in check mode only says it would do: drift has it."""
    for cluster in clusters:
        cluster |= {"removed": [], "spans": []}
    for _name, party in parties(clusters):
        party.update({"steps": []} | ({"spans": [], "to_do": ""} if "spans" in party else {}))


def parties(clusters: t.Iterable[JsonObject]) -> t.Iterator[tuple[str, JsonObject]]:
    """Return everybody whose checks, hazards and steps there are, tenants and shared schedulers, by a name for people."""
    for cluster in clusters:
        for tenant in cluster["tenants"]:
            yield f"{cluster['name']}/{tenant['name']}", tenant
        if cluster["shared_scheduler"]:
            yield f"{cluster['name']}/{SHARED}", cluster["shared_scheduler"]


# --- what is -----------------------------------------------------------------------------------------------------


def _problems(report: JsonObject) -> list[str]:
    """Return everything that failed on a cluster."""
    checked = [(tenant["name"], tenant["results"]) for tenant in report["tenants"]]
    checked.append((SHARED, report["shared_scheduler"]["results"]))
    failed = [
        f"{report['cluster']}/{name}: check {named(result)} failed: {result['reason']}"
        for name, results in checked
        for result in results
        if result["verdict"] == "failed"
    ]
    return [*report["failures"], *failed]


def _cluster(report: JsonObject, today: datetime.date) -> JsonObject:
    shared = report["shared_scheduler"]
    return {
        "name": report["cluster"],
        "failures": report["failures"],
        "blueprint": report["blueprint"],
        "combinations": {"accepted": [], "untested": []} | report["combinations"],
        "nodes": report["nodes"],
        "overlaps": report["overlaps"],
        "tenants": [_tenant(tenant, today) for tenant in report["tenants"]],
        "shared_scheduler": _shared_scheduler(shared, today) if shared["version"] or shared["running"] else None,
        "removed": report["removed"],
        "only": report["only"],
        "unlisted": report["unlisted"],
        "spans": _spans(report),
    }


def _tenant(tenant: JsonObject, today: datetime.date) -> JsonObject:
    ledger = tenant["ledger"]
    return {key: tenant[key] for key in (*_OF_TENANTS, *_OF_ALL)} | {
        "to_do": NOT_REACHED if tenant["state"] == NOT_REACHED else to_do(tenant),
        "nodes": tenant["nodes"] or [],
        "gpus": {key: ledger[key] for key in _OF_GPUS} if ledger else None,
        "scheduler": _supported(tenant["scheduler"], today),
        "queues": _queues(tenant),
        "checks": _checks(tenant),
        "spans": _spans(tenant),
    }


def _shared_scheduler(shared: JsonObject, today: datetime.date) -> JsonObject:
    scheduler = {"name": "kai", "shared": True, "wanted": shared["version"], "running": shared["running"]}
    return {key: shared[key] for key in _OF_ALL} | {"scheduler": _supported(scheduler, today), "checks": _checks(shared)}


def _supported(scheduler: JsonObject | None, today: datetime.date) -> JsonObject | None:
    """Return a scheduler with what is known of upstream's support for the release that runs, or else for the one that is wanted."""
    if scheduler is None:
        return None
    known: JsonObject = {"end_of_support": None, "supported": None}
    try:
        if scheduler["name"] == "kai":
            found = release(scheduler["running"] or scheduler["wanted"])
            known = {"end_of_support": found.end_of_support, "supported": is_supported(found, today)}
    except TenancyError:
        # Another release than this collection knows.
        pass
    return scheduler | known


def _checks(party: JsonObject) -> list[JsonObject]:
    return [
        {"name": one["name"], "queue": one.get("queue") or None, "seconds": one.get("seconds")}
        | {key: one[key] for key in ("verdict", "reason")}
        for one in party["results"]
    ]


def _spans(record: JsonObject) -> list[JsonObject]:
    """Return what was timed, with the times of the clock."""
    return [
        {"work": span["work"], "began": stamp(datetime.datetime.fromtimestamp(span["began"], datetime.UTC))}
        | {"seconds": span["seconds"]}
        for span in record["spans"]
    ]


def _queues(tenant: JsonObject) -> list[JsonObject]:
    """Return a tenant's queues, as they are, or else as they are to be."""
    if tenant["queues"] is not None:
        return [_queue(queue, (*AMOUNTS, *_USES)) for queue in tenant["queues"]]
    wanted = map(manifest, parse(tenant["wanted_queues"]).values())
    return [_queue(queue, AMOUNTS) for queue in overview(wanted, GPU_RESOURCE)]


def _queue(queue: JsonObject, known: t.Collection[str]) -> JsonObject:
    amounts = {
        resource: {key: queue[resource][key] if key in known else None for key in (*AMOUNTS, *_USES)} for resource in RESOURCES
    }
    return (
        {"name": queue["name"], "priority": queue["priority"]}
        | amounts
        | {"children": [_queue(child, known) for child in queue["children"]]}
    )


# --- what changed ------------------------------------------------------------------------------------------------


def _since(former: str, clusters: list[JsonObject]) -> JsonObject:
    """Return what changed since the evidence before, and what cannot be told.

    :arg former: its text.
    """
    nothing: JsonObject = {"at": None, "changes": []}
    if not former:
        return nothing | {"notes": ["There was no evidence before this."]}
    found, unread = attempt("The evidence before this", lambda: _since_then(parse_json(former), clusters))
    return nothing | {"notes": [f"{unread.sentence}."]} if unread else t.cast(JsonObject, found)


def _since_then(before: JsonObject, clusters: list[JsonObject]) -> JsonObject:
    """Return what changed since evidence that can be read; of another format, that it has one."""
    if before["format"] != FORMAT:
        note = f"The evidence before this has format {shown(before['format'])}, which is another one."
        return {"at": None, "changes": [], "notes": [note]}
    then = {cluster["name"]: cluster for cluster in before["clusters"]}
    compared = {cluster["name"]: _compared(then.get(cluster["name"]), cluster) for cluster in clusters}
    compared |= {name: _compared(cluster, None) for name, cluster in then.items() if name not in compared}
    notes = [f"{name}: {note}" for name, (_rows, note) in compared.items() if note]
    return {"at": str(before["at"]), "changes": [row for rows, _note in compared.values() for row in rows], "notes": notes}


def _compared(before: JsonObject | None, after: JsonObject | None) -> tuple[list[JsonObject], str]:
    """Return what differs of a cluster, and what was not compared, and why; None where there is no evidence of it."""
    if before is None or after is None or before["nodes"] is None or after["nodes"] is None:
        return [], "not compared, because it was not read then, or not now"
    old, new = _facts(before), _facts(after)
    if not before["only"] and not after["only"]:
        return _changes(old, new), ""
    both = old.keys() & new.keys()
    old, new = ({where: facts for where, facts in each.items() if where in both} for each in (old, new))
    return _changes(old, new), "compared in part, because kubegpu_only named some of its tenants then, or now"


def _changes(before: t.Mapping[str, t.Mapping[str, str]], after: t.Mapping[str, t.Mapping[str, str]]) -> list[JsonObject]:
    """Return what differs; of whom there is nothing on one side, only the state. A check that was not made says nothing."""
    rows = []
    for where in {**before, **after}:
        old, new = before.get(where, {}), after.get(where, {})
        for what in {**old, **new} if old and new else ("state",):
            made = not what.startswith(_CHECK) or (what in old and what in new)
            if made and old.get(what) != new.get(what):
                rows.append({"where": where, "what": what, "before": old.get(what), "after": new.get(what)})
    return rows


def _facts(cluster: JsonObject) -> dict[str, dict[str, str]]:
    """Return what is compared of a cluster, as texts by whose and what it is."""
    nodes = {f"node {one['node']}": f"{one['allocatable']} GPUs, of {_listed(one['tenants'])}" for one in cluster["nodes"]}
    # Evidence from before there were blueprints has none.
    blueprint = cluster.get("blueprint")
    named_by = {"blueprint": f"{blueprint['name']}, {blueprint['digest']}" if blueprint else "none"}
    facts = {cluster["name"]: {"state": "read"} | named_by | nodes}
    for name, party in parties([cluster]):
        found = {"state": party.get("state", "present")}
        if scheduler := party["scheduler"]:
            found["scheduler"] = f"{scheduler['name']} {scheduler['running'] or scheduler['wanted']}"
        found["accepted hazards"] = _listed(hazard.partition(":")[0] for hazard in party["accepted_hazards"])
        if name != f"{cluster['name']}/{SHARED}":
            found |= _tenant_facts(party)
        if party["checks"]:
            found[f"{_CHECK}s"] = counted(party["checks"])
        found |= {f"{_CHECK} {named(check)}": check["verdict"] for check in party["checks"]}
        facts[name] = found
    return facts


def _tenant_facts(tenant: JsonObject) -> dict[str, str]:
    return (
        {
            "trust": tenant["trust"],
            "what is asked": f"digest {tenant['digest']}",
            "vCluster": tenant["vcluster"]["running"] or tenant["vcluster"]["wanted"],
            "nodes": _listed(tenant["nodes"]),
        }
        | {f"image {image}": digest for image, digest in tenant["images"].items()}
        | {f"queue {name}": text for name, text in _queue_facts(tenant["queues"]).items()}
    )


def _queue_facts(tree: list[JsonObject]) -> dict[str, str]:
    """Return what queues are promised and bound to, regardless of what they use."""
    facts: dict[str, str] = {}
    for queue in tree:
        facts[queue["name"]] = f"priority {queue['priority']}"
        for resource in RESOURCES:
            amounts = queue[resource]
            said = f"quota {amounts['quota']}, limit {amounts['limit']}, weight {amounts['over_quota_weight']}"
            facts[f"{queue['name']}, {resource}"] = said
        facts |= _queue_facts(queue["children"])
    return facts


def _listed(names: t.Iterable[str]) -> str:
    return ", ".join(names) or "none"
