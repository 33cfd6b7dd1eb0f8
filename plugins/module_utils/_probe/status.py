# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read what probes meet: taints that keep pods away, what a container reported when it ended, the record of a check."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError
from .._common.values import JsonObject

# Of taints that keep pods away; PreferNoSchedule does not.
_REPELLING = ("NoSchedule", "NoExecute")


def record(name: str, verdict: str, reason: str, seconds: float = 0.0) -> JsonObject:
    """Return the record of one check.

    :arg seconds: until the verdict.
    """
    return {"name": name, "verdict": verdict, "reason": reason, "seconds": round(seconds, 1)}


def concluded(results: list[JsonObject], seconds: float) -> JsonObject:
    """Return a probe module's result.

    :arg results: of the checks: name, verdict and reason.
    :arg seconds: that the probe took.
    :raises TenancyError: when a check failed, with all ``results``.
    """
    failed = [f"{check['name']}: {check['reason']}" for check in results if check["verdict"] == "failed"]
    if failed:
        raise TenancyError(f"{len(failed)} of {len(results)} checks failed. {'; '.join(failed)}", results=results)
    return {"changed": False, "results": results, "seconds": seconds}


def untolerated(node: JsonObject, tolerations: t.Iterable[JsonObject]) -> list[str]:
    """Return the taints of a node that keep pods with these tolerations away, as KEY=VALUE:EFFECT."""
    tolerations = list(tolerations)
    taints = [taint for taint in node.get("spec", {}).get("taints") or [] if taint["effect"] in _REPELLING]
    return [
        f"{taint['key']}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"
        for taint in taints
        if not any(tolerates(toleration, taint) for toleration in tolerations)
    ]


def tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    """Tell whether a toleration matches a taint, as k8s.io/api core/v1 Toleration.ToleratesTaint does."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or ""))


def termination_message(pod: JsonObject) -> str:
    """Return what a pod's only container wrote to its termination message; empty when there is none."""
    for status in pod["status"].get("containerStatuses") or []:
        return str((status["state"].get("terminated") or {}).get("message", "")).strip()
    return ""
