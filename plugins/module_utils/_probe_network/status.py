# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge the probe of network policies."""

from __future__ import annotations

import typing as t

from .._common.pods import is_ready, pod_state
from .._common.values import JsonObject
from .._probe.status import record
from .plan import PATHS, SERVER, client_name


def server_address(pods: list[JsonObject]) -> tuple[str | None, str]:
    """Return the address at which the server answers, or None and its state."""
    for pod in pods:
        if pod["metadata"]["name"] == SERVER:
            return (pod["status"]["podIP"], "") if is_ready(pod) else (None, pod_state(pod))
    return None, "the server's pod does not exist"


def reaching(pods: list[JsonObject], paths: t.Iterable[str]) -> tuple[set[str], str]:
    """Return the paths on which the server is reached, and the state of the others' clients."""
    live = {pod["metadata"]["name"]: pod for pod in pods}
    reached = {path for path in paths if is_ready(live.get(client_name(path), {}))}
    missed = [client_name(path) for path in paths if path not in reached]
    return reached, "; ".join(pod_state(live[name]) if name in live else f"pod {name} does not exist" for name in missed)


def results(nodes: dict[str, str], cut_off: dict[str, float], bound: float) -> list[JsonObject]:
    """Return the record of each path.

    :arg nodes: as ``places`` chose them.
    :arg cut_off: after how many seconds the policy took effect on a path.
    :arg bound: seconds it was given.
    """
    there = nodes[PATHS[0]]
    records = []
    for path, here in nodes.items():
        way = f"from {here} to {there}"
        if path in cut_off:
            records.append(record(path, "enforced", f"the server was not reached any more {way}", cut_off[path]))
        else:
            records.append(record(path, "unenforced", f"the server was still reached {way}, against the policy", bound))
    return records
