# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""How what a task found differs from the desired state: the differences that tasks of site.yml register, and whose writes they take back."""

from __future__ import annotations

import json
import typing as t

from ..module_utils._common.ownership import MANAGER
from ..module_utils._common.text import shown as printed
from ..module_utils._common.values import JsonObject

Mapping = t.Mapping[str, t.Any]

# What the tasks of site.yml that can change something register, and what each of them is about, beside module tenants. A task that is
# not here would change what drift.yml does not report.
REGISTERED = {
    "_docker_nvidia_runtime_to_install": "packages of NVIDIA's container toolkit",
    "_docker_nvidia_runtime_kept_limits": "kernel limits, over reboots",
    "_docker_nvidia_runtime_limits": "kernel limits",
    "_docker_nvidia_runtime_accepted": "configuration of NVIDIA's container toolkit",
    "_docker_nvidia_runtime_docker": "configuration of Docker",
    "_nvkind_cluster": "cluster",
    "_device_plugin_state": "device plugin",
    "_kubegpu_nodes": "nodes of tenants",
    "_kubegpu_shared_metrics": "metrics of the shared KAI Scheduler",
    "_monitoring_state": "rules and dashboard",
    "_kubegpu_folder": "folder for kubeconfigs",
    "_kubegpu_kubeconfig_copies": "kubeconfigs of former tenants on the controller",
    "_kai_scheduler_release": "KAI Scheduler",
    "_kai_scheduler_queues": "queues",
    "_gateway_to_install": "package of HAProxy",
    "_gateway_state": "gateway",
    "_kubegpu_kubeconfigs": "kubeconfigs on the controller",
}
# Characters of a value that a table shows.
_SHOWN = 41
# Writers that work for this collection: itself, and helm. An owner of a file and a revision of Helm name no writer.
_OURS = (MANAGER, "helm")
_NO_NAME = ("owner ", "Helm, ")


def worked(variables: Mapping) -> list[Mapping]:
    """Return what a run did for the tenants of a cluster, as module tenants returned it.

    :arg variables: of the cluster, in which the playbooks registered it.
    """
    return [done for name in ("_kubegpu_removed", "_kubegpu_worked") for done in (variables.get(name) or {}).get("tenants") or []]


def results(variables: Mapping) -> dict[str, Mapping]:
    """Return the results of everything that can change something of a cluster itself, by what each is about.

    :arg variables: of the cluster, in which the tasks of site.yml registered them.
    """
    return {subject: variables[name] for name, subject in REGISTERED.items() if variables.get(name)}


def changed(result: Mapping) -> list[Mapping]:
    """Return a task's results that tell of a change, one for each item of its loop."""
    return [one for one in result.get("results", [result]) if one.get("changed")]


def rows(result: Mapping) -> list[JsonObject]:
    """Return the differences that a result tells of; one without details where it has none."""
    diffs = result.get("diff") or {}
    rows = [row for diff in (diffs if isinstance(diffs, list) else [diffs]) for row in _compared(diff)]
    return rows or [difference("", "", "")]


def _compared(diff: Mapping) -> list[JsonObject]:
    before, after, written = diff.get("before"), diff.get("after"), diff.get("written") or {}
    if isinstance(before, dict) and isinstance(after, dict):
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return [difference(name, before.get(name), after.get(name), written.get(name)) for name in names]
    # The content of a file.
    path = diff.get("after_header", "")
    return [difference(path, before, after, written.get(path))] if before != after else []


def difference(what: str, real: t.Any, wanted: t.Any, write: Mapping | None = None) -> JsonObject:
    """Return a difference.

    :arg write: the last write of what is real, as ``Run.result`` has it in a diff.
    """
    return {"what": what, "real": real, "wanted": wanted, "since": "", "by": ""} | dict(write or {})


def in_words(row: JsonObject) -> str:
    """Return a difference as a part of a sentence: what differs, both values, and who wrote what there is."""
    what = f", {printed(row['what'])}" if row["what"] else ""
    values = "" if row["real"] == row["wanted"] == "" else f": {shown(row['real'])}, wanted {shown(row['wanted'])}"
    notes = [f"since {row['since']}, by {printed(row['by'])}"] if row["since"] else []
    notes += [f"it was as desired at {row['verified']}"] if row.get("verified") else []
    return f"{row['subject']}{what}{values}" + (f" ({'; '.join(notes)})" if notes else "")


def repairs(results: t.Mapping[str, Mapping]) -> list[str]:
    """Return what a run took back, or would, of what others wrote, with their names.

    :arg results: of modules, by what each is about.
    """
    found = [
        {"subject": subject} | row
        for subject, registered in results.items()
        for result in changed(registered)
        for row in rows(result)
    ]
    return [in_words(row) for row in found if row["by"] and row["by"] not in _OURS and not row["by"].startswith(_NO_NAME)]


def shown(value: t.Any) -> str:
    """Return a value on one line, and no longer than a reader takes in at once."""
    if value is None or value == "":
        return "nothing"
    return printed(value if isinstance(value, str) else json.dumps(value, sort_keys=True), _SHOWN)
