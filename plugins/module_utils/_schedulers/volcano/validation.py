# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check a release of Volcano, and queues that it is to have, before the API is asked."""

from __future__ import annotations

import re
import typing as t

from ..._common.errors import Problem, refusal, refuse
from ..._common.quantity import whole
from ..._common.schema import Problems, named
from ..._common.text import shown
from ..._queues.facts import DEFAULT_PRIORITY, DEFAULTS, TEXTS
from ..._queues.validation import parse
from .facts import NOT_KNOWN, OWN_QUEUES, RELEASES, RESOURCES, Release

if t.TYPE_CHECKING:
    from ..._queues.values import Queue

_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})\.\d{1,3}", re.ASCII)


def release(version: str) -> Release:
    """Return the release of a version such as 1.10.0.

    :raises Refused: where none is known.
    """
    found = known(version)
    if found is None:
        first, last = (".".join(map(str, line)) for line in (min(RELEASES), max(RELEASES)))
        raise refusal(
            "unknown-release", f"version: {shown(version)} is no release of Volcano that is known here, {first}.0 to {last}.x."
        )
    return found


def known(version: str) -> Release | None:
    """Return the release of a version; None where none is known."""
    found = _VERSION.fullmatch(version)
    return RELEASES.get((whole(found[1]), whole(found[2]))) if found else None


def check_pod_security(version: str, level: str | None) -> None:
    """Refuse a release whose pods the pod security standard of its virtual cluster would refuse.

    :arg level: of the standard; None for none.
    """
    found = known(version)
    if found and found.mounts_host and level in ("baseline", "restricted"):
        last = max(line for line, release in RELEASES.items() if release.mounts_host)
        raise refusal(
            "refused-by-pod-security",
            f"scheduler.version: Volcano up to {last[0]}.{last[1]} mounts a folder of its node, which pod security standard {level} refuses. "
            f"Take a later release, or trust high.",
        )


def read_queues(tree: t.Any, version: str = "") -> dict[str, Queue]:
    """Return queues by name, once they say nothing that Volcano cannot keep.

    :arg tree: as module kai_queues takes it.
    :arg version: of Volcano; empty where that is checked elsewhere.
    :raises Refused: with everything that is wrong, one line each.
    """
    queues = parse(tree)
    found = known(version)
    if queues and found and not found.queues:
        last = ".".join(map(str, max(line for line, one in RELEASES.items() if one.queues)))
        why = f"Volcano {shown(version)} gives back by other rules than up to {last}, which were not tried. Leave queues out, and have the team make them"
        raise refusal("not-applicable", f"queues: {why}, or take a release up to {last}.")
    refuse([problem for queue in queues.values() for problem in _problems(queue)])
    return queues


def _problems(queue: Queue) -> t.Iterator[Problem]:
    problems, here = Problems(), f"queues.{named(queue.name)}"
    if queue.name in OWN_QUEUES:
        problems.add("reserved-name", here, f"Volcano has a queue {queue.name} of its own. Name another one.")
    if queue.parent is not None:
        problems.add("queues-too-deep", here, "a tenant's Volcano gets queues without children here. List the leaves alone.")
    if queue.spec["priority"] != DEFAULT_PRIORITY:
        problems.add(
            "not-applicable", f"{here}.priority", "orders KAI Scheduler's queues. Give a queue more of its own by its quotas."
        )
    if queue.pool:
        problems.add("not-applicable", f"{here}.node_pool", "Volcano has one scheduler for all nodes here. Leave it out.")
    for key, why in NOT_KNOWN.items():
        if queue.spec[TEXTS[key]] is not None:
            problems.add("not-applicable", f"{here}.{key}", f"{why}. Leave it out.")
    for resource in RESOURCES:
        amounts = queue.spec["resources"][resource]
        if amounts["overQuotaWeight"] != DEFAULTS[resource]["over_quota_weight"]:
            why = "Volcano gives what is free to who has least of its quota, not by weights. Leave it out."
            problems.add("not-applicable", f"{here}.{resource}.over_quota_weight", why)
        if resource == "gpu" and any(amounts[key] % 1 for key in ("quota", "limit")):
            problems.add("not-applicable", f"{here}.gpu", "Volcano counts whole GPUs. Write whole numbers.")
        if resource != "gpu" and amounts["limit"] == 0:
            # pkg/scheduler/plugins/capacity: a capability of 0 is read as none.
            problems.add(
                "not-applicable", f"{here}.{resource}.limit", "Volcano reads 0 as no limit. Write more, or leave it out."
            )
    return iter(problems)
