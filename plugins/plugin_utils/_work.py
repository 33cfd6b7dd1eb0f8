# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""What a run has to do for the tenants of a cluster, by how they differ from their desired state."""

from __future__ import annotations

import typing as t

from ..module_utils._common.values import JsonObject
from ..module_utils._common.variables import KAI
from ..module_utils._tenant.facts import CHANGE, VERIFY

# What these playbooks do for all tenants, even if nothing is due: what a virtual cluster has inside is seen only by working on it.
_OF_ALL = {"drift": [CHANGE], "verify": [VERIFY]}


def work(found: t.Mapping[str, t.Any], purpose: str = "site", removes_unlisted: bool = False) -> JsonObject:
    """Return what there is to do.

    :arg found: what module tenancy_info returned; empty where no tenants were read.
    :arg purpose: name of the playbook.
    :arg removes_unlisted: whether tenants that are not listed are to go.
    :returns: ``removed``, names of tenants that go; ``upgraded``, names of tenants whose vCluster or Kubernetes gets another version;
        ``tenants``, entries of tenants that are changed or verified; ``due``, by their names, which of "change" and "verify"; ``wanted``, by
        their names, the digest of what is recorded as verified; ``reasons``, a sentence for each tenant with something to do.
    """
    of_all = _OF_ALL.get(purpose)
    records = [one for one in found.get("tenants") or [] if (of_all or one["due"]) and not _is_idle(one)]
    gone = [one["name"] for one in records if one["desired"]["state"] == "absent" and purpose != "verify"]
    stays = ("present",) if purpose == "verify" else ("present", "paused")
    taken = [one for one in records if one["desired"]["state"] in stays]
    return {
        "removed": [*gone, *((found.get("unlisted") or []) if removes_unlisted else [])],
        "upgraded": [one["name"] for one in taken if purpose == "site" and _is_upgrade(one)],
        "tenants": [one["desired"] for one in taken],
        # A verification compares what charts made, too: the host cluster shows no edit of it.
        "due": {one["name"]: list(of_all or ([CHANGE, VERIFY] if VERIFY in one["due"] else one["due"])) for one in taken},
        # A tenant that is not as desired is verified as it is, and no digest of its desired state is recorded then.
        "wanted": {one["name"]: one["wanted"] for one in taken if not (of_all and CHANGE in one["due"])},
        "reasons": [f"{one['name']}: {', '.join(one['reasons'])}" for one in records if one["reasons"]],
    }


def preview(found: t.Mapping[str, t.Any], release: str = "") -> JsonObject:
    """Return the changes of tenants that run, to be tried in check mode, as ``work`` returns what there is to do.

    :arg found: what module tenancy_info returned.
    :arg release: of KAI Scheduler, in place of the one that is wanted; empty for that.
    """
    tried = []
    for one in found.get("tenants") or []:
        desired = one["desired"]
        scheduler = desired["scheduler"]
        other = bool(release) and scheduler.get("name") == KAI and not scheduler["shared"]
        if one["state"] == "running" and desired["state"] != "absent" and (other or CHANGE in one["due"]):
            tried.append(desired | ({"scheduler": scheduler | {"version": release}} if other else {}))
    return {
        "removed": [],
        "upgraded": [],
        "tenants": tried,
        "due": {one["name"]: [CHANGE] for one in tried},
        "wanted": {},
        "reasons": [],
    }


def _is_upgrade(one: t.Mapping[str, t.Any]) -> bool:
    """Tell whether a virtual cluster that runs gets another version of vCluster or of its Kubernetes."""
    if one["state"] != "running" or one["desired"]["state"] != "present" or CHANGE not in one["due"]:
        return False
    wanted = one["desired"]["vcluster"]
    return any(
        one[f"{key}_version"] and version and one[f"{key}_version"] != version
        for key, version in (("vcluster", wanted["version"]), ("kubernetes", wanted["kubernetes_version"]))
    )


def _is_idle(one: t.Mapping[str, t.Any]) -> bool:
    """Tell whether there is nothing to do for a tenant, even if work is due: nothing is to be paused of one that is not there."""
    return bool(one["desired"]["state"] == "paused" and one["state"] == "absent")
