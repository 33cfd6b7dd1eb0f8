# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The evidence in a folder of the controller, and the state of a fleet that is made of it."""

from __future__ import annotations

import os
import typing as t

from ..module_utils._adapters import files
from ..module_utils._common.documents import parse_json
from ..module_utils._common.errors import refusal
from ..module_utils._common.parties import reason
from ..module_utils._common.text import shown
from ..module_utils._common.values import JsonObject, moment, stamp
from ..module_utils._usage.facts import EVIDENCE_FILE
from ._backups import Store
from ._fleet import merged, summary

# Beside evidence. Files of evidence, and bytes of one of them: that of 2,000 tenants has 14 MB.
PAGE = "tenancy.html"
MOST, LARGEST = 10_000, 64 * 2**20


def found(folder: str) -> list[str]:
    """Return the paths of all evidence in a folder and below, links left out.

    :raises TenancyError: where there is no such folder, or more evidence than is read.
    """
    if not os.path.isdir(folder):
        raise refusal("no-folder", f"{folder} is no folder on the controller.")
    paths = [os.path.join(place, EVIDENCE_FILE) for place, _folders, names in os.walk(folder) if EVIDENCE_FILE in names]
    if len(paths) > MOST:
        raise refusal(
            "too-much-evidence", f"{folder} has evidence of {len(paths)} runs, and {MOST} are read. Move old runs out of it."
        )
    return sorted(paths)


def state(
    folder: str, now: str, clusters: t.Collection[str] | None = None, backups: t.Mapping[str, str] | None = None
) -> JsonObject:
    """Return the state of the fleet, as ``merged`` does, with the time of each tenant's newest backup.

    :arg backups: by the name of a cluster, the folder of its backups.
    :raises TenancyError: as ``found``.
    """
    runs, unread = [], []
    for path in found(folder):
        place = os.path.relpath(os.path.dirname(path), folder)
        # Any exception: what is in a file, others may have written.
        try:
            runs.append(summary(parse_json(files.read_file(path, LARGEST) or b"", LARGEST), place))
        except Exception as exc:
            unread.append(f"{shown(os.path.relpath(path, folder))} was not read: {reason(exc)}")
    fleet = merged(runs, now, clusters, unread)
    for cluster in fleet["clusters"]:
        if kept := (backups or {}).get(cluster["name"]):
            for tenant in cluster["tenants"]:
                tenant["backed_up_at"] = _backed_up_at(Store(kept, cluster["name"], tenant["name"]))
    return fleet


def _backed_up_at(store: Store) -> str | None:
    """Return when the newest backup of a tenant was made; None without one. Backups that are dated in the future do not count."""
    return next((stamp(moment(kept.at)) for kept in store.all() if not kept.is_ahead), None)


def pages(fleet: JsonObject, folder: str, dest: str) -> dict[str, str]:
    """Return the page of the newest evidence of each cluster that has one, relative to where the page of the fleet is."""
    places = {one["name"]: os.path.join(folder, one["place"], PAGE) for one in fleet["clusters"] if one["place"]}
    return {name: os.path.relpath(path, dest) for name, path in places.items() if os.path.isfile(path)}
