# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""How reality differs from the desired state, collected from what site.yml registers in check mode."""

from __future__ import annotations

import typing as t

from ..module_utils._common.text import LONGEST_LINE
from ..module_utils._common.text import shown as printed
from ..module_utils._common.values import JsonObject
from ._differences import changed, difference, in_words, results, rows, worked
from ._reports import reports, shown_blueprint

Mapping = t.Mapping[str, t.Any]

# What site.yml would do about a difference of a task whose module is not this collection's, and returns no steps.
WITHOUT_STEPS = {
    "packages of NVIDIA's container toolkit": "install them",
    "folder for kubeconfigs": "make it, with mode 0700",
    "package of HAProxy": "install it",
}
# How a cluster compares with its desired state. UNKNOWN where something could not be read, even if something else differs: what was not
# read may differ, too.
AGREES, DIFFERS, UNKNOWN = "agrees", "differs", "unknown"


def drift(hostvars: Mapping, clusters: t.Iterable[str]) -> JsonObject:
    """Return how clusters and tenants differ from their desired state.

    :arg hostvars: Ansible's, after site.yml in check mode.
    :arg clusters: names of inventory hosts, reached or not.
    :returns: ``clusters``, AGREES, DIFFERS or UNKNOWN by name; ``differences``, each with ``cluster``, ``tenant`` (empty for what is the
        cluster's), ``subject``, ``what``, ``real``, ``wanted``, ``since`` and ``by`` (when what is real was written last, and by whom), and
        ``verified`` (when it was last verified as desired), each empty where that is not known, times in UTC; ``steps`` that site.yml would
        take, each with ``cluster``, ``tenant``, ``subject``, ``step`` and ``why``; ``unknown``, sentences about what could not be compared;
        and ``blueprints`` that describe the desired state, by cluster.
    """
    found = reports(hostvars, clusters)
    differences, steps = [], []
    for report in sorted(found, key=lambda report: str(report["cluster"])):
        variables = hostvars[report["cluster"]]
        verified_at = _verified(variables)
        parties = [("", results(variables)), *((done["name"], done["parts"]) for done in worked(variables))]
        for tenant, by_subject in sorted(parties, key=lambda party: party[0]):
            for subject, registered in by_subject.items():
                place = {"cluster": report["cluster"], "tenant": tenant, "subject": subject}
                for result in changed(registered):
                    differences += [place | {"verified": verified_at.get(tenant, "")} | row for row in rows(result)]
                    steps += [place | step for step in _steps(subject, result)]
    for report in found:
        for subject, what, real in _unlisted(report):
            place = {"cluster": report["cluster"], "tenant": "", "subject": subject}
            differences.append(place | {"verified": ""} | difference(what, real, None))
            verb = "remove" if report["removes_unlisted"] else "leave"
            steps.append(place | {"step": f"{verb} {what}", "why": _why(report["removes_unlisted"])})
    unknown = {
        report["cluster"]: [*_unread(hostvars[report["cluster"]], report["cluster"]), *report["failures"]] for report in found
    }
    differing = {row["cluster"] for row in differences}
    return {
        "clusters": {name: UNKNOWN if unknown[name] else DIFFERS if name in differing else AGREES for name in unknown},
        "differences": differences,
        "steps": steps,
        "blueprints": {report["cluster"]: report["blueprint"] for report in found if report["blueprint"]},
        "unknown": [sentence for sentences in unknown.values() for sentence in sentences],
    }


def _verified(variables: Mapping) -> dict[str, str]:
    """Return when each tenant of a cluster was verified last, as far as that is known."""
    tenants = (variables.get("_kubegpu_tenants") or {}).get("tenants") or []
    return {one["name"]: one.get("verified_at") or "" for one in tenants}


def _unread(variables: Mapping, cluster: str) -> list[str]:
    """Return why nothing inside a cluster was read, although there may be something."""
    made = variables.get("_nvkind_cluster") or {}
    # Of a cluster that is not there, all that is to be told is that.
    if not made.get("readable", True) and any(row["what"] == "kubeconfig" for row in rows(made)):
        return [f"{cluster}: its device plugin and tenants were not read, because {made['kubeconfig']} is not its kubeconfig"]
    return []


def _steps(subject: str, result: Mapping) -> list[JsonObject]:
    """Return the steps that site.yml would take about a task's result."""
    if subject in WITHOUT_STEPS:
        return [{"step": WITHOUT_STEPS[subject], "why": "it differs"}]
    return [{"step": step["step"], "why": step["why"]} for step in result.get("steps") or []]


def _why(removes: bool) -> str:
    return "kubegpu_unlisted is remove" if removes else "kubegpu_unlisted: remove, in a run without kubegpu_only, takes it away"


def _unlisted(report: Mapping) -> list[tuple[str, str, str]]:
    """Return what this collection made of a cluster and nothing names any more: subject, name, and what there is."""
    found = [("tenant that is not listed", name, "there") for name in report["unlisted"]]
    if version := report["unlisted_scheduler"]:
        found.append(("shared scheduler that is not wanted", "kai", version))
    return found


def lines(found: JsonObject) -> list[str]:
    """Return what drift found as sentences: each difference, with what site.yml would do about it, and what could not be compared."""
    # What there is to say about each thing that differs: first the differences.
    about: dict[str, list[str]] = {}
    for row in found["differences"]:
        about.setdefault(_about(row), []).append(sentence(row))
    for row in found["steps"]:
        if (name := _about(row)) in about:
            about[name].append(f"{name}: site would {row['step']} ({row['why']})")
    said = [one for sentences in about.values() for one in sentences]
    if said or found["unknown"]:
        said += [f"{name}: everything is as the inventory says" for name, state in found["clusters"].items() if state == AGREES]
    said += [f"COULD NOT TELL {sentence}" for sentence in found["unknown"]]
    said = said or ["Everything is as the inventory says."]
    said += [f"{cluster}: wanted by {shown_blueprint(one)}" for cluster, one in found["blueprints"].items()]
    return [printed(one, LONGEST_LINE) for one in said]


def place_of(row: JsonObject) -> str:
    """Return where a difference is, or a step would be taken: a cluster, or a tenant on it."""
    return f"{row['cluster']}/{row['tenant']}" if row["tenant"] else str(row["cluster"])


def _about(row: JsonObject) -> str:
    return f"{place_of(row)}: {row['subject']}"


def sentence(row: JsonObject) -> str:
    """Return a difference as a sentence without its end."""
    return f"{place_of(row)}: {in_words(row)}"
