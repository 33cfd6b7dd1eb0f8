# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module cluster_info found of a host cluster, as lines: what has to be mended first, then what there is."""

from __future__ import annotations

import re
import textwrap
import typing as t

from ..module_utils._common.errors import Problem
from ..module_utils._common.text import LONGEST_LINE, shown
from ..module_utils._common.values import JsonObject
from .text_table import text_table

# Characters of a cell at most. A sentence stays on one line, because many say what to write into the inventory.
WIDTH = 380
_SENTENCES = re.compile(r"(?<=[.?]) (?=[A-Z])")
# How a problem begins: names of a tenant, a variable or an option.
_ABOUT = re.compile(r"((?:[\w.\[\]-]{1,63}: )+)(.*)", re.DOTALL)
_POLICIES = {True: "enforces network policies", False: "enforces no network policies", None: "network policies: not known"}


def preflight(found: JsonObject) -> list[str]:
    """Return the lines of a report: problems, notes, nodes with GPUs, and facts of the cluster.

    :arg found: the result of module cluster_info.
    """
    problems = [_split(shown(problem["text"], LONGEST_LINE)) for problem in found["problems"]]
    blocks = {
        "Problems": text_table(_numbered(problems)) or ["Nothing is missing."],
        "Notes": text_table(_numbered([("", shown(note, LONGEST_LINE)) for note in found["notes"]])),
        "Nodes with GPUs": text_table([_node(node) for node in found["gpu_nodes"]]) or ["There is none."],
        "The cluster": text_table([{"what": what, "found": text} for what, text in _facts(found).items()]),
    }
    return [line for title, lines in blocks.items() if lines for line in ("", title, *lines)][1:]


def with_pulls(found: JsonObject, listed: JsonObject, pulled: JsonObject) -> JsonObject:
    """Return what was found of a cluster, with what could not be pulled among its problems, and what was not tried among its notes.

    :arg found: the result of module cluster_info, or of a task that was skipped.
    :arg listed: the result of module artifacts_info, and ``pulled`` that of module probe; empty or skipped where they did not run.
    """
    results = pulled.get("results", [])
    told = {
        verdict: [f"{result['name']}: {result['reason']}" for result in results if result["verdict"] == verdict]
        for verdict in ("failed", "not_tried")
    }
    # Of a module that fails as a whole, there is a message only.
    whole = [
        result["msg"] for result, part in ((listed, "images"), (pulled, "results")) if part not in result and "msg" in result
    ]
    lacking = [Problem("not-pulled", text).data() for text in (*whole, *told["failed"])]
    return found | {"problems": [*found.get("problems", []), *lacking], "notes": [*found.get("notes", []), *told["not_tried"]]}


def _split(problem: str) -> tuple[str, str]:
    """Return what a problem is about, and the problem."""
    about = _ABOUT.fullmatch(problem)
    return (about[1].removesuffix(": "), about[2]) if about else ("", problem)


def _numbered(rows: list[tuple[str, str]]) -> list[JsonObject]:
    """Return rows of a table, in which each sentence of a text is a row."""
    with_about = any(about for about, _text in rows)
    table: list[JsonObject] = []
    for number, (about, text) in enumerate(rows, 1):
        lines = [line for sentence in _SENTENCES.split(text) for line in textwrap.wrap(sentence, WIDTH, break_on_hyphens=False)]
        for place, line in enumerate(lines):
            first = place == 0
            table.append(
                {"#": number if first else ""} | ({"about": about if first else ""} if with_about else {}) | {"what": line}
            )
    return table


def _node(node: JsonObject) -> JsonObject:
    return {
        "node": node["name"],
        "GPUs": node["gpus"],
        "ready": node["ready"],
        "labelled by": node["labelled_by"],
        "taints": node["taints"],
        "runtime": node["container_runtime"],
    }


def _facts(found: JsonObject) -> dict[str, str]:
    default = found["default_storage_class"]
    storage = [f"{name} (default)" if name == default else name for name in found["storage_classes"]]
    priority = found["default_priority"]
    network = found["network"]
    changing, judging = ([row["name"] for row in found["tenants_pods"] if row["changes"] is kind] for kind in (True, False))
    return {
        "Kubernetes": f"{found['kubernetes_version']}, {found['distribution']}",
        "nodes": f"{found['nodes']}, with GPUs {len(found['gpu_nodes'])}",
        "RuntimeClasses": _listed(f"{name} (handler {handler})" for name, handler in found["runtime_classes"].items()),
        "device plugins": _listed(found["device_plugins"]),
        "DeviceClass of GPUs": found["dra_gpu_class"] or "none",
        "GPU operator": "yes" if found["gpu_operator"] else "no",
        "storage classes": _listed(storage),
        "ingress classes": _listed(found["ingress_classes"]),
        "network": f"{_listed(network['plugins'])}; {_POLICIES[network['enforces_policies']]}",
        "changes tenants' pods": _listed(changing),
        "judges tenants' pods": _listed(judging),
        "no pod without": _listed(found["webhooks"]),
        "default priority": f"{priority['name']} ({priority['value']})" if priority else "none",
        "SecurityContextConstraints": "yes" if found["security_context_constraints"] else "no",
    }


def _listed(names: t.Iterable[str]) -> str:
    return ", ".join(names) or "none"


class FilterModule:
    """The collection's filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"preflight": preflight, "with_pulls": with_pulls}
