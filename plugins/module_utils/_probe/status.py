# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Conclude what probes saw: the record of a check, a probe's result, and what a container reported when it ended."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError
from .._common.values import JsonObject
from .facts import FAILED, NOT_TRIED

# A verdict and its reason; without a verdict, what was observed so far.
Verdict: t.TypeAlias = "tuple[str | None, str]"


def record(name: str, verdict: str, reason: str, seconds: float = 0.0) -> JsonObject:
    """Return the record of one check.

    :arg seconds: until the verdict.
    """
    return {"name": name, "verdict": verdict, "reason": reason, "seconds": round(seconds, 1)}


def result(name: str, queue: str, verdict: str, reason: str, seconds: float = 0.0) -> JsonObject:
    """Return the record of one check in a queue of KAI Scheduler; the queue is empty where its pods name none, or several."""
    return {"name": name, "queue": queue} | record(name, verdict, reason, seconds)


def untried(names: t.Iterable[str], reason: str = "check mode") -> list[JsonObject]:
    """Return the records of checks that are not tried."""
    return [record(name, NOT_TRIED, reason) for name in names]


def concluded(results: list[JsonObject], seconds: float, named_by: t.Iterable[str] = ("name",), **more: t.Any) -> JsonObject:
    """Return a probe's result.

    :arg results: of the checks.
    :arg seconds: that the probe took.
    :arg named_by: the keys of a result by which a failure names it.
    :arg more: what the result has besides.
    :raises TenancyError: when a check failed, with all of that.
    """
    report = {"results": results, "seconds": seconds} | more
    failed = [check for check in results if check["verdict"] == FAILED]
    if failed:
        named = [f"{' in '.join(check[key] for key in named_by if check[key])}: {check['reason']}" for check in failed]
        raise TenancyError(f"{len(failed)} of {len(results)} checks failed. {'; '.join(named)}", **report)
    return {"changed": False} | report


def termination_message(pod: JsonObject) -> str:
    """Return what a pod's only container wrote to its termination message; empty when there is none."""
    for status in pod["status"].get("containerStatuses") or []:
        return str(((status.get("state") or {}).get("terminated") or {}).get("message", "")).strip()
    return ""
