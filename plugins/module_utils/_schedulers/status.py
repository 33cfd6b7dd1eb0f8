# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge which namespaces of a virtual cluster are those of schedulers that this collection installed, and whether their pods run. Pure.

The administrator of the virtual cluster can label any namespace, and give it a finalizer that no controller removes.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import TenancyError
from .._common.ownership import labels_of
from .._common.text import LONGEST, shown
from .._common.values import JsonObject
from .facts import LABEL, MOST, NAME, is_reserved


@dataclasses.dataclass(frozen=True)
class Found:
    """Namespaces with the label of a scheduler, by their names.

    :ivar former: namespaces that can be this collection's, and whose scheduler is not wanted.
    :ivar ending: former ones whose removal began before.
    :ivar foreign: namespaces that cannot be this collection's.
    """

    former: list[str]
    ending: list[str]
    foreign: list[str]


def judge(namespaces: t.Iterable[JsonObject], keep: t.Collection[str]) -> Found:
    """Tell apart the namespaces that carry the label.

    :arg keep: names of the schedulers that are wanted.
    :raises TenancyError: where more are to be removed than this collection can have made.
    """
    found = Found([], [], [])
    for item in namespaces:
        name, value = item["metadata"]["name"], labels_of(item).get(LABEL)
        if value != name or not NAME.fullmatch(name) or is_reserved(name):
            found.foreign.append(name)
        elif name not in keep:
            (found.ending if "deletionTimestamp" in item["metadata"] else found.former).append(name)
    if len(found.former) > MOST:
        raise TenancyError(
            f"{len(found.former)} namespaces of the virtual cluster have the label {LABEL} with their own name as value: "
            f"{listed(found.former)}. A scheduler has one, so most of them are not this collection's, and none was removed. Take the label "
            "off the namespaces that are no scheduler's: kubectl label namespace NAME " + f"{LABEL}-"
        )
    return found


def listed(names: t.Sequence[str], longest: int = LONGEST) -> str:
    """Return names as text, the first ones where there are many.

    :arg longest: characters of a name that are shown.
    """
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{', '.join(shown(name, longest) for name in names[:MOST])}{more}"


def unready(workload: JsonObject) -> str:
    """Return why a Deployment, StatefulSet or DaemonSet has not all of its pods as they are to be; empty where it has."""
    status, spec = workload.get("status") or {}, workload.get("spec") or {}
    if workload["kind"] == "DaemonSet":
        wanted, ready = (
            status.get("desiredNumberScheduled", 0),
            (status.get("numberAvailable", 0), status.get("updatedNumberScheduled", 0)),
        )
    else:
        wanted, ready = spec.get("replicas", 1), (status.get("availableReplicas", 0), status.get("updatedReplicas", 0))
    current = status.get("observedGeneration") == workload["metadata"].get("generation")
    if current and min(ready) >= wanted:
        return ""
    return f"{workload['kind']} {workload['metadata']['name']} has {min(ready) if current else 0} of {wanted} pods available"
