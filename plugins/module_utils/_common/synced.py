# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Names that vCluster's syncer gives to objects which it brings to the host cluster (pkg/util/translate of loft-sh/vcluster).

The tenant writes all else that stands in such an object; see ``ownership``.
"""

from __future__ import annotations

import hashlib

from .forms import is_object
from .ownership import MARKER_LABEL, annotations_of, is_synced, labels_of
from .values import JsonObject

# Label of a synced object, which its tenant can not set either: its namespace in the virtual cluster.
SYNCED_FROM_LABEL = "vcluster.loft.sh/namespace"
# Annotation of a synced pod: its name in the virtual cluster, or what its tenant wrote there.
SYNCED_NAME = "vcluster.loft.sh/name"

_LONGEST_NAME = 63


def synced_from(item: JsonObject | None) -> str | None:
    """Return a synced object's namespace in its virtual cluster; None for an object that no syncer brought."""
    return labels_of(item).get(SYNCED_FROM_LABEL) if is_synced(item) else None


def joined(*parts: str) -> str:
    """Return the name that the syncer makes of parts (``SafeConcatName``): 63 characters at most, a digest at the end of longer ones."""
    full = "-".join(parts)
    if len(full) <= _LONGEST_NAME:
        return full
    return f"{full[:52]}-{hashlib.sha256(full.encode()).hexdigest()[:10]}".replace(".-", "-")


def marker(name: str, namespace: str) -> str:
    """Return the value of MARKER_LABEL on the cluster-scoped objects of a virtual cluster."""
    return joined(namespace, "x", name)


def virtual_name(pod: JsonObject) -> str:
    """Return "namespace/name" of a pod as its tenant knows it; of one that no syncer brought, as it is on the host cluster.

    The tenant may write another name into the annotation. So it counts only where it is a name of Kubernetes' form, and the pod's name on the
    host cluster follows from it; of that name, ten digits are a digest, for which a tenant finds a second text.
    """
    labels, name = labels_of(pod), str(pod["metadata"]["name"])
    namespace = synced_from(pod)
    if namespace is None:
        return f"{pod['metadata']['namespace']}/{name}"
    end = f"-x-{namespace}-x-{labels[MARKER_LABEL]}"
    if name.endswith(end) and len(name) > len(end):
        return f"{namespace}/{name[: -len(end)]}"
    noted = annotations_of(pod).get(SYNCED_NAME, "")
    follows = is_object(noted) and joined(noted, "x", namespace, "x", labels[MARKER_LABEL]) == name
    return f"{namespace}/{noted if follows else name}"
