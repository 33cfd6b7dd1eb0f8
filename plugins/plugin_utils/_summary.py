# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The summary that ends a run: what each tenant is, what was verified, and everything that is not as desired."""

from __future__ import annotations

import collections
import pathlib
import shlex
import typing as t

from ..module_utils._common.errors import TenancyError
from ..module_utils._common.values import JsonObject
from ..module_utils._ledger.status import drawn
from ..module_utils._queues.validation import parse
from ..module_utils._queues.values import leaves
from ..module_utils._tenant.facts import NOT_READ
from ._reports import CHANGE, NO_CLUSTER, NOT_REACHED, counted, named, shown_blueprint, to_do

# A first job of a team, beside the code in a clone and in an installed collection, and the queue that it names.
FIRST_JOB, FIRST_QUEUE = pathlib.Path(__file__).resolve().parents[2] / "examples/workloads/gpu.yaml", "training"

# Verdicts about which the operator has to do something, and the one that was accepted.
_WRONG, ACCEPTED = ("failed", "not_tried"), "accepted"
# Columns for readers who ask for all of them, and columns that a narrow table does without.
_WIDE = ("leaf queues", "seconds", "kubeconfig")
_VERSIONS = (("vcluster",), ("scheduler",), ("vcluster", "scheduler"))
# GPUs that a cell counts, and GPUs of a node that are drawn one by one.
_MOST_SHOWN, _MOST_DRAWN = 99_999, 32


# --- the table ---------------------------------------------------------------------------------------------------


def rows(clusters: t.Sequence[JsonObject], wide: bool = False) -> list[JsonObject]:
    """Return the table of all tenants, a row each, without columns in which nothing stands.

    The cluster's name stands in it only where there are several.

    :arg wide: whether columns stand in it that few readers need.
    """
    several = len(clusters) > 1
    table = [
        ({"cluster": cluster["cluster"]} if several else {}) | _cells(tenant)
        for cluster in clusters
        for tenant in cluster["tenants"]
    ]
    left_out = {head for head in (table[0] if table else ()) if all(row[head] == "" for row in table)}
    left_out |= set() if wide else set(_WIDE)
    return [{head: cell for head, cell in row.items() if head not in left_out} for row in table]


def narrower(table: list[JsonObject]) -> t.Iterator[list[JsonObject]]:
    """Yield a table, then with less and less of what makes it wide: nodes are counted, then versions are left out."""
    yield table
    fewer = [row | ({"nodes": _count(row["nodes"])} if "nodes" in row else {}) for row in table]
    for left_out in ((), *_VERSIONS):
        yield [{head: cell for head, cell in row.items() if head not in left_out} for row in fewer]


def _count(nodes: str) -> t.Any:
    return nodes if nodes in ("", NOT_READ) else len(nodes.split())


def _cells(tenant: JsonObject) -> JsonObject:
    known = tenant["state"] not in (NOT_REACHED, NO_CLUSTER)
    there = known and tenant["state"] != "absent"
    described = (known and (there or tenant["wanted_state"] != "absent")) or tenant["state"] == NO_CLUSTER
    return {
        "tenant": tenant["name"],
        "state": _state(tenant),
        "trust": tenant["trust"] + (", network open" if tenant["network_policies"] == "unenforced" else ""),
        "vcluster": shown_version(tenant["vcluster"], tenant["state"]) if described else "",
        "scheduler": shown_scheduler(tenant["scheduler"], tenant["state"]) if described else "",
        "nodes": _read(tenant["nodes"]) if known else "",
        "GPUs": _read(tenant["gpus"]) if there else "",
        "in use": _read(tenant["in_use"]) if there else "",
        "leaf queues": len(_leaf_queues(tenant["wanted_queues"])) if there else "",
        "checks": _checks(tenant),
        "seconds": next((round(span["seconds"]) for span in reversed(tenant["spans"]) if span["work"] == CHANGE), ""),
        "kubeconfig": tenant["kubeconfig"] if tenant["state"] == "running" else "",
    }


def _read(value: t.Any) -> t.Any:
    """Return a cell of what the ledger says; None is what was not read.

    A pod may ask for 10 to the 18 GPUs; such a number leaves no room for others.
    """
    if isinstance(value, int) and value > _MOST_SHOWN:
        return f">{_MOST_SHOWN}"
    return NOT_READ if value is None else " ".join(value) if isinstance(value, list) else value


def _state(tenant: JsonObject) -> str:
    """Return a tenant's live state, and what is to be known beside it at first sight."""
    if tenant["failure"]:
        return f"{tenant['state']}, failed"
    as_desired = tenant["wanted_state"] == tenant["state"] and not tenant["due"]
    return f"{tenant['state']}, as desired" if as_desired else str(tenant["state"])


def shown_version(version: JsonObject, state: str) -> str:
    """Return the version that runs and, where another one is wanted, that one behind an arrow.

    :arg state: the tenant's.
    """
    running, wanted = version["running"], version["wanted"]
    if running == wanted or (not running and state == "paused"):
        return str(wanted)
    return f"{running} -> {wanted}" if running else f"-> {wanted}"


def shown_scheduler(scheduler: JsonObject | None, state: str) -> str:
    """Return a scheduler and its version, as ``shown_version`` does."""
    if not scheduler:
        return "cluster's own"
    # What runs of another one is not known.
    version = shown_version(scheduler, state) if scheduler["name"] == "kai" else scheduler["wanted"]
    return f"{scheduler['name']} {version}{', shared' if scheduler['shared'] else ''}"


def _leaf_queues(tree: t.Sequence[t.Any]) -> list[str]:
    try:
        return [queue.name for queue in leaves(parse(list(tree)))]
    except TenancyError:
        return []


def _checks(tenant: JsonObject) -> str:
    """Return how many of the checks passed; what else there is to say of them stands below the table."""
    if tenant["wanted_state"] != "present" or tenant["state"] == NOT_REACHED:
        return ""
    return counted(tenant["results"])


# --- below the table ---------------------------------------------------------------------------------------------


def picture(clusters: t.Sequence[JsonObject]) -> list[str]:
    """Return who has which GPUs, a line for each node with GPUs; nodes whose GPUs look the same stand on one line."""
    lines = []
    for cluster in clusters:
        alike: dict[str, list[str]] = {}
        for node in cluster["nodes"] or ():
            if node["gpus"]:
                name = f"{cluster['cluster']}/{node['node']}" if len(clusters) > 1 else node["node"]
                alike.setdefault(_drawn(node["gpus"]), []).append(name)
        lines += [f"{', '.join(nodes)} {gpus}" for gpus, nodes in alike.items()]
    return lines


def _drawn(gpus: t.Sequence[t.Mapping[str, float]]) -> str:
    """Return a node's GPUs as text; of a node with many, such as replicas, how many look the same, the most frequent first."""
    if len(gpus) <= _MOST_DRAWN:
        return drawn(gpus)
    kinds = collections.Counter(drawn([one]) for one in gpus).most_common()
    rest = sum(count for _look, count in kinds[_MOST_DRAWN:])
    told = [f"{count} x {look}" for look, count in kinds[:_MOST_DRAWN]]
    return ", ".join([*told, *([f"{rest} others"] if rest else [])])


def needs(clusters: t.Sequence[JsonObject]) -> list[str]:
    """Return the sentences above the table: what needs a person, failures first."""
    listed = {name for cluster in clusters for name in cluster["listed"]}
    unknown = dict.fromkeys(name for cluster in clusters for name in cluster["only"] if name not in listed)
    lines = [f"FAILED {failure}" for cluster in clusters for failure in cluster["failures"]]
    lines += [f"kubegpu_only: {name} is listed for no cluster of the inventory." for name in unknown]
    lines += [line for cluster in clusters for line in _cluster_needs(cluster, _Names.of(cluster, clusters))]
    return _lines(lines)


def notes(clusters: t.Sequence[JsonObject], steps: bool = False) -> list[str]:
    """Return the sentences below the table: what else a reader has to know and the table does not show.

    :arg steps: whether each step is told; they are counted otherwise.
    """
    lines = [line for cluster in clusters for line in _cluster_notes(cluster, _Names.of(cluster, clusters), steps)]
    count = sum(len(one["steps"]) for cluster in clusters for one in (*cluster["tenants"], cluster["shared_scheduler"]))
    if count and not steps:
        lines.append(f"{count} step{'' if count == 1 else 's'}: -v and the evidence show them.")
    return _lines(lines)


def kubeconfigs(clusters: t.Sequence[JsonObject]) -> list[str]:
    """Return where the kubeconfigs of the tenants are, a line for each cluster with a tenant that runs."""
    found = []
    for cluster in clusters:
        folders = {one["kubeconfig"].rpartition("/")[0] for one in cluster["tenants"] if one["state"] == "running"}
        found += [f"{_Names.of(cluster, clusters).start}kubeconfigs: {folder}/TENANT.yml" for folder in folders]
    return found


def _lines(lines: t.Iterable[str]) -> list[str]:
    return [line.replace("\n", "\n  ") for line in dict.fromkeys(lines)]


class _Names(t.NamedTuple):
    """How a cluster and what is on it are called: by the cluster's name as well only where there are several."""

    start: str
    prefix: str
    shared: str

    @classmethod
    def of(cls, cluster: JsonObject, clusters: t.Sequence[JsonObject]) -> _Names:
        name = cluster["cluster"]
        return (
            cls(f"{name}: ", f"{name}/", f"shared scheduler on {name}") if len(clusters) > 1 else cls("", "", "shared scheduler")
        )


def _cluster_needs(cluster: JsonObject, names: _Names) -> list[str]:
    """Return what of a cluster needs a person, beside failures."""
    lines = [f"{names.prefix}{tenant['name']}: {line}" for tenant in cluster["tenants"] for line in _tenant_needs(tenant)]
    lines += [f"{names.shared}: {line}" for line in _check_notes(cluster["shared_scheduler"]["results"], _WRONG)]
    lines += [f"{names.start}{overlap}" for overlap in cluster["overlaps"]]
    what = "is to be removed" if cluster["removes_unlisted"] else "stays; kubegpu_unlisted: remove takes it away"
    lines += [f"{names.prefix}{name}: made by this collection, not listed any more, {what}." for name in cluster["unlisted"]]
    if version := cluster["unlisted_scheduler"]:
        made = f"kai {version}, made by this collection, named by no kubegpu_shared_scheduler any more"
        lines.append(f"{names.shared}: {made}, {what}.")
    return lines


def _cluster_notes(cluster: JsonObject, names: _Names, steps: bool) -> list[str]:
    """Return what else there is to know of a cluster."""
    start, prefix, shared = names.start, names.prefix, cluster["shared_scheduler"]
    lines = [f"{start}{shown_blueprint(cluster['blueprint'])}"] if cluster["blueprint"] else []
    lines += [f"{start}{kind} combination: {text}" for kind, texts in cluster["combinations"].items() for text in texts]
    if shared["results"]:
        queues = len(_leaf_queues(shared["queues"]))
        checks = counted(shared["results"])
        lines.append(f"{names.shared}: kai {shared['version']}, {queues} leaf queues of its tenants, checks {checks}")
    whose = {f"{prefix}{tenant['name']}": tenant for tenant in cluster["tenants"]} | {names.shared: shared}
    lines += [f"{name}: {line}" for name, one in whose.items() for line in _check_notes(one["results"], (ACCEPTED,))]
    for kind in ("accepted hazard", "hazard", "upgrade note"):
        lines += grouped(kind, whose, f"{kind.replace(' ', '_')}s")
    lines += [f"{start}{line}" for line in _verified_before(cluster["tenants"])]
    lines += [f"{name}: step: {shown_step(step)}" for name, one in whose.items() for step in one["steps"] if steps]
    lines += [f"{prefix}{tenant['name']}: repair: {line}" for tenant in cluster["tenants"] for line in tenant["repairs"]]
    lines += [f"{start}repair: {line}" for line in cluster["repairs"]]
    lines += [
        f"{prefix}{tenant['name']}: pods that the pause ends for good, because no controller makes them anew: {', '.join(tenant['lost_pods'])}"
        for tenant in cluster["tenants"]
        if tenant["lost_pods"]
    ]
    return lines + [f"{prefix}{one['name']}: {_expiry(one)}" for one in cluster["temporary"]]


def _verified_before(tenants: t.Sequence[JsonObject]) -> list[str]:
    """Return a line about the tenants whose checks are not of this run; none where there is no such tenant."""
    before = {tenant["name"]: tenant["verified_before"] for tenant in tenants if tenant["verified_before"]}
    if not before:
        return []
    first, last = min(before.values()), max(before.values())
    when = first if first == last else f"{first} to {last}"
    return [f"checks of {', '.join(before)} are from before this run: {when}"]


def _expiry(tenant: JsonObject) -> str:
    """Return until when a temporary tenant is needed."""
    expires = tenant["expires"]
    return (
        f"expired at {expires}; kubegpu.tenancy.expire removes it." if tenant["expired"] else f"temporary, expires at {expires}."
    )


def grouped(what: str, whose: t.Mapping[str, JsonObject], key: str) -> list[str]:
    """Return a line for each text, with everybody whom it is about."""
    about: dict[str, list[str]] = {}
    for name, one in whose.items():
        for text in one[key]:
            about.setdefault(text, []).append(name)
    return [f"{', '.join(dict.fromkeys(names))}: {what}: {text}" for text, names in about.items()]


def shown_step(step: JsonObject) -> str:
    return f"{step['step']} ({step['why']}" + (f", {step['seconds']} s)" if "seconds" in step else ")")


def _check_notes(results: t.Sequence[JsonObject], verdicts: t.Collection[str]) -> list[str]:
    """Return the checks with some verdicts, with their reasons."""
    places: dict[tuple[str, str], list[str]] = {}
    for result in results:
        if result["verdict"] in verdicts:
            places.setdefault((result["verdict"], result["reason"]), []).append(named(result))
    return [
        f"{'check' if len(checks) == 1 else 'checks'} {', '.join(checks)} {verdict.replace('_', ' ')}: {reason}"
        for (verdict, reason), checks in places.items()
    ]


def _tenant_needs(tenant: JsonObject) -> list[str]:
    """Return the checks that failed or were not tried, and what is still to do."""
    return [*_check_notes(tenant["results"], _WRONG), *filter(None, [to_do(tenant)])]


def first_job(clusters: t.Sequence[JsonObject]) -> list[str]:
    """Return the command with which a first job runs in the first tenant that KAI Scheduler gives GPUs; nothing where there is none."""
    for tenant in (tenant for cluster in clusters for tenant in cluster["tenants"]):
        running = (tenant["state"], tenant["wanted_state"]) == ("running", "present") and not tenant["failure"]
        # Only KAI Scheduler has queues.
        queues = _leaf_queues(tenant["wanted_queues"])
        if running and tenant["gpus"] and queues:
            return [f"First job, in {tenant['name']}: {_command(tenant['kubeconfig'], queues)}"]
    return []


def _command(kubeconfig: str, queues: t.Sequence[str]) -> str:
    example, apply = shlex.quote(str(FIRST_JOB)), f"kubectl --kubeconfig {kubeconfig} apply -f"
    if FIRST_QUEUE in queues:
        return f"{apply} {example}"
    return f"sed 's/queue: {FIRST_QUEUE}/queue: {queues[0]}/' {example} | {apply} -"
