# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Mark objects of the Kubernetes API as made by this collection, and recognise them by that."""

from __future__ import annotations

import typing as t

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
