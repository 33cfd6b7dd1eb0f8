# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge what followed from a step of the probe of KAI Scheduler's policies."""

from __future__ import annotations

import collections
import typing as t

from ..._common.pods import pod_problem
from ..._common.values import JsonObject
from .plan import Step


def difference(step: Step, pods: t.Iterable[JsonObject]) -> str:
    """Return how what runs differs from what has to follow from a step; empty where it does not."""
    running = [pod for pod in pods if _runs(pod)]
    counts = dict.fromkeys(step.running, 0) | collections.Counter(map(_group, running))
    if counts != dict(step.running):
        return f"running are {_listed(counts)}, and have to be {_listed(step.running)}{_reasons(pods)}"
    last = list(step.running)[-1]
    nodes = sorted({pod["spec"]["nodeName"] for pod in running if _group(pod) == last})
    if step.nodes is not None and len(nodes) != step.nodes:
        return f"pods {last} run on {', '.join(nodes)}, and have to run on {step.nodes} nodes"
    return ""


def _runs(pod: JsonObject) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _group(pod: JsonObject) -> str:
    return str(pod["metadata"]["name"]).rpartition("-")[0]


def _listed(counts: t.Mapping[str, int]) -> str:
    return ", ".join(f"{count} {group}" for group, count in counts.items())


def _reasons(pods: t.Iterable[JsonObject]) -> str:
    """Return why the first pod that waits does so."""
    waiting = [pod for pod in pods if pod.get("status", {}).get("phase") == "Pending"]
    return next((f"; {problem}" for pod in waiting if (problem := pod_problem(pod))), "")
