# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Tell who made an object of the Kubernetes API: this collection, which marks its own, a tenant, or anybody else.

vCluster's syncer copies the labels, annotations and content of a tenant's objects to the host cluster as the tenant wrote them, so neither
says anything there about an object that a syncer brought. The syncer's own label does: no tenant sets or removes it
(pkg/util/translate of loft-sh/vcluster: labels.go, types.go).
"""

from __future__ import annotations

import re
import typing as t

from .text import shown
from .values import JsonObject, Write

MANAGER = "kubegpu.tenancy"
OWNED_LABELS = {"app.kubernetes.io/managed-by": MANAGER}

# Label of the objects that the syncer writes to the host: of those in its namespace with the virtual cluster's name, of
# cluster-scoped ones with the namespace's name as well.
MARKER_LABEL = "vcluster.loft.sh/managed-by"
# For lists: what no syncer brought.
NOT_SYNCED = f"!{MARKER_LABEL}"
OWNED_SELECTOR = f"app.kubernetes.io/managed-by={MANAGER},{NOT_SYNCED}"


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", re.ASCII)


def labels_of(item: JsonObject | None) -> dict[str, str]:
    """Return an object's labels; empty for None and for an object without any."""
    return ((item or {}).get("metadata") or {}).get("labels") or {}


def annotations_of(item: JsonObject | None) -> dict[str, str]:
    """Return an object's annotations; empty for None and for an object without any."""
    return ((item or {}).get("metadata") or {}).get("annotations") or {}


def selector_of(labels: t.Mapping[str, str]) -> str:
    """Return the selector of objects that have all of these labels."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def is_owned(item: JsonObject | None) -> bool:
    """Tell whether an object exists and was made by this collection: it carries its label, and no syncer brought it."""
    return OWNED_LABELS.items() <= labels_of(item).items() and not is_synced(item)


def is_synced(item: JsonObject | None) -> bool:
    """Tell whether the syncer of a virtual cluster brought an object to the host cluster: what stands in it is its tenant's."""
    return MARKER_LABEL in labels_of(item)


def own(items: t.Iterable[JsonObject]) -> list[JsonObject]:
    """Return the objects that no syncer brought: the collection's, vCluster's, and those of the host cluster's people and programs."""
    return [item for item in items if not is_synced(item)]


def last_write(item: JsonObject | None, *paths: t.Sequence[str]) -> Write | None:
    """Return the last write of some fields of a live object, by what the API server notes (``metadata.managedFields``).

    It notes one time for each writer and object, of the writer's last write that changed something: the fields are as they are since
    then, or longer. Of a field that was taken away it notes nothing.

    :arg paths: of the fields, each the keys that lead there, such as ``("metadata", "labels", "a")``; what is below counts, too.
    :returns: None where no write of them is noted.
    """
    entries = ((item or {}).get("metadata") or {}).get("managedFields")
    # An API server that others run may answer anything.
    noted = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    writes = [
        Write(entry["time"], shown(entry.get("manager"), 100))
        for entry in noted
        if _TIME.fullmatch(str(entry.get("time"))) and any(_is_noted(entry.get("fieldsV1") or {}, path) for path in paths)
    ]
    return max(writes, default=None)


def _is_noted(fields: t.Any, path: t.Sequence[str]) -> bool:
    """Tell whether a writer's fields hold a path, or what it is a part of and is written as a whole."""
    for key in path:
        if not isinstance(fields, dict) or f"f:{key}" not in fields:
            return False
        fields = fields[f"f:{key}"]
        if not fields:
            break
    return True
