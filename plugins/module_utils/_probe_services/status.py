# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge what reaches the services that a tenant's network policies let through, and what they reach."""

from __future__ import annotations

import typing as t

from .._common.ownership import labels_of
from .._common.pods import is_ready, pod_state
from .._common.values import JsonObject
from .._probe.status import termination_message
from .plan import EGRESS, Check


def address_of(service: t.Mapping[str, t.Any], pods: t.Iterable[JsonObject]) -> str:
    """Return the address of the first ready pod of a service; empty where it has none.

    Those on their node's own network are left out: the rules of a network policy for pods do not hold for them.

    :arg pods: of the service's namespace.
    """
    ready = {
        pod["metadata"]["name"]: pod["status"]["podIP"]
        for pod in pods
        if is_ready(pod) and not pod["spec"].get("hostNetwork") and labels_of(pod).items() >= service["labels"].items()
    }
    return str(ready[min(ready)]) if ready else ""


def outcome(check: Check, pod: JsonObject | None) -> tuple[str | None, str]:
    """Return verdict and reason for the client of a check; no verdict while it is not known."""
    if pod is None:
        return "failed", "the probe's pod was removed by someone else"
    phase = pod.get("status", {}).get("phase")
    service = check.service
    peer, ports = f"namespace {service['namespace']}", ", ".join(map(str, service["ports"]))
    way = f"{peer} from the tenant" if check.direction == EGRESS else f"the tenant from {peer}"
    if phase == "Succeeded":
        return "passed", f"reached {way} at TCP {ports}"
    if phase == "Failed":
        return "failed", f"did not reach {way}: {termination_message(pod)}"
    return None, pod_state(pod)
