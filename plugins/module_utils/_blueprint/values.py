# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A blueprint, what makes it recognisable, and what it comes to with an inventory. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from .._common.values import JsonObject
from .._common.variables import KAI, SHARED_SCHEDULER, TEMPORARY, TENANTS


@dataclasses.dataclass(frozen=True)
class Blueprint:
    """A named set of versions and settings.

    :ivar variables: of a cluster, by name; ``vcluster`` and ``kai``, what tenants' entries of these get.
    """

    name: str
    about: str
    variables: JsonObject = dataclasses.field(default_factory=dict)
    vcluster: JsonObject = dataclasses.field(default_factory=dict)
    kai: JsonObject = dataclasses.field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of what it says, regardless of its comments, order and spaces."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"), default=str)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def applied(blueprint: Blueprint, variables: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return an inventory's variables with what the blueprint adds, and the paths at which the inventory differs from it.

    What is of a wrong type stays as it is, for the check of all variables.
    """
    overridden = [name for name, value in blueprint.variables.items() if variables.get(name, value) != value]
    whole = blueprint.variables | variables
    if isinstance(tenants := whole.get(TENANTS), list):
        whole[TENANTS] = [_tenant(blueprint, tenant, overridden) for tenant in tenants]
    if whole.get(TEMPORARY):
        whole[TEMPORARY] = _tenant(blueprint, whole[TEMPORARY], overridden)
    if _is_kai(whole.get(SHARED_SCHEDULER)):
        whole[SHARED_SCHEDULER] = _filled(whole[SHARED_SCHEDULER], blueprint.kai, SHARED_SCHEDULER, overridden)
    return whole, overridden


def _tenant(blueprint: Blueprint, entry: t.Any, overridden: list[str]) -> t.Any:
    if not isinstance(entry, dict):
        return entry
    parts = {"vcluster": blueprint.vcluster} | ({"scheduler": blueprint.kai} if _is_kai(entry.get("scheduler")) else {})
    return entry | {
        part: _filled(entry.get(part, {}), given, f"{entry.get('name')}.{part}", overridden)
        for part, given in parts.items()
        if isinstance(entry.get(part, {}), dict)
    }


def _is_kai(scheduler: t.Any) -> bool:
    """Tell whether it is a KAI Scheduler whose release stands beside its name."""
    return isinstance(scheduler, dict) and scheduler.get("name") == KAI and not scheduler.get("shared")


def _filled(own: JsonObject, given: JsonObject, path: str, overridden: list[str]) -> JsonObject:
    overridden += [f"{path}.{key}" for key, value in given.items() if own.get(key, value) != value]
    return given | own
