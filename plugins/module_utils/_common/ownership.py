# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Mark objects of the Kubernetes API as made by this collection, recognise them by that, and tell who wrote what of them last."""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Write

Object = dict[str, t.Any]

MANAGER = "kubegpu.tenancy"
OWNED_LABELS = {"app.kubernetes.io/managed-by": MANAGER}
OWNED_SELECTOR = f"app.kubernetes.io/managed-by={MANAGER}"


def labels_of(item: Object | None) -> dict[str, str]:
    """Return an object's labels; empty for None and for an object without any."""
    return ((item or {}).get("metadata") or {}).get("labels") or {}


def annotations_of(item: Object | None) -> dict[str, str]:
    """Return an object's annotations; empty for None and for an object without any."""
    return ((item or {}).get("metadata") or {}).get("annotations") or {}


def is_owned(item: Object | None) -> bool:
    """Tell whether an object exists and carries the label of this collection."""
    return OWNED_LABELS.items() <= labels_of(item).items()


def last_write(item: Object | None, *paths: t.Sequence[str]) -> Write | None:
    """Return the last write of some fields of a live object, by what the API server notes (``metadata.managedFields``).

    It notes one time for each writer and object, of the writer's last write that changed something: the fields are as they are since
    then, or longer. Of a field that somebody took away it notes nothing.

    :arg paths: of the fields, each the keys that lead there, such as ``("metadata", "labels", "a")``; what is below counts, too.
    :returns: None where no write of them is noted.
    """
    entries = ((item or {}).get("metadata") or {}).get("managedFields") or []
    writes = [
        Write(entry["time"], entry["manager"])
        for entry in entries
        if entry.get("time") and any(_is_noted(entry.get("fieldsV1") or {}, path) for path in paths)
    ]
    return max(writes, default=None)


def _is_noted(fields: Object, path: t.Sequence[str]) -> bool:
    """Tell whether a writer's fields hold a path, or what it is a part of and is written as a whole."""
    for key in path:
        if f"f:{key}" not in fields:
            return False
        fields = fields[f"f:{key}"]
        if not fields:
            break
    return True
