# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge the probe of ordinary workloads."""

from __future__ import annotations

from .._common.pods import is_ready, pod_state
from .._common.values import JsonObject
from .._probe.status import termination_message
from .plan import NAME, SCHEDULER


def outcome(pods: list[JsonObject], token: str) -> tuple[str | None, str]:
    """Return ("passed" or "failed", reason) once the client has ended; before that (None, the state of what is awaited).

    :arg token: the text of the page.
    """
    client = next((pod for pod in pods if pod["metadata"]["name"] == NAME), None)
    if client is None:
        return None, "the client pod does not exist"
    phase = client.get("status", {}).get("phase")
    if phase not in ("Succeeded", "Failed"):
        waiting = [pod for pod in pods if not is_ready(pod)]
        return None, "; ".join(map(pod_state, waiting)) or "the client is still fetching the page"
    message = termination_message(client)
    if phase == "Succeeded" and message == token:
        return "passed", f"fetched through Service {NAME}"
    if phase == "Succeeded":
        return "failed", f"another page was served: {message[:80]!r}"
    others = [pod_state(pod) for pod in pods if pod is not client and not is_ready(pod)]
    return "failed", "; ".join([f"the client could not fetch the page: {message or pod_state(client)}", *others])


def foreign_schedulers(pods: list[JsonObject], wanted: str) -> list[str]:
    """Return the schedulers other than the wanted one that the pods name."""
    return sorted({pod["spec"].get("schedulerName", SCHEDULER) for pod in pods} - {wanted})
