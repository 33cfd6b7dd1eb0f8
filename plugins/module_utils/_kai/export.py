# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Keep the queues of a cluster over a downgrade that goes by removal, in a Secret that a killed run leaves for the next one."""

from __future__ import annotations

import base64
import functools
import json
import typing as t

from .._common.documents import parse_json
from .._common.errors import TenancyError
from .._common.names import QUEUE_API_VERSION, QUEUE_KIND
from .._common.ownership import OWNED_LABELS
from .._common.parties import reason
from .._common.values import JsonObject
from .._common.wait import when_webhook_answers
from .._queues.values import from_live, levels, readable, spec_of
from .facts import EXPORT

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run

QUEUE = (QUEUE_API_VERSION, QUEUE_KIND)


def is_exported(kube: Kube) -> bool:
    """Tell whether there is an export."""
    return kube.get("v1", "Secret", *EXPORT) is not None


def export_queues(kube: Kube) -> None:
    """Write all queues into the Secret."""
    name, namespace = EXPORT
    metadata = {"name": name, "namespace": namespace, "labels": OWNED_LABELS}
    queues = json.dumps(kube.list(*QUEUE))
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"queues": queues}})


def restore_queues(run: Run) -> None:
    """Write the exported queues back that are missing or not as they were, and remove the export."""
    secret = run.kube.get("v1", "Secret", *EXPORT)
    if secret is None:
        return
    # In a virtual cluster its administrator may have written it.
    exported, unread = readable(_exported(secret))
    if unread:
        raise TenancyError(f"Secret {'/'.join(reversed(EXPORT))}: {unread[0].sentence}.")
    live = {item["metadata"]["name"]: item for item in run.kube.list(*QUEUE)}
    # Parents first, as the webhook of some releases wants it.
    queues = from_live(exported)
    level = levels(queues)
    for item in sorted(exported, key=lambda item: level[item["metadata"]["name"]]):
        name = item["metadata"]["name"]
        metadata = {key: item["metadata"][key] for key in ("name", "labels", "annotations") if key in item["metadata"]}
        body = {"apiVersion": QUEUE_API_VERSION, "kind": QUEUE_KIND, "metadata": metadata, "spec": spec_of(item)}
        if name not in live:
            write = functools.partial(run.kube.create, body)
        elif live[name].get("spec") != item.get("spec"):
            write = functools.partial(run.kube.apply, body)
        else:
            continue
        when_webhook_answers(f"queue {name} to be written back", write, run.deadline)
    run.kube.delete("v1", "Secret", *EXPORT)


def _exported(secret: JsonObject) -> list[JsonObject]:
    """Return the queues in the Secret that keeps them over a change of their CRD; others of its objects are none.

    :raises TenancyError: where it holds no list.
    """
    try:
        items = parse_json(base64.b64decode(secret["data"]["queues"]))
        known = [item for item in items if item["kind"] == QUEUE[1] and item["apiVersion"] == QUEUE[0]]
    except (ValueError, KeyError, TypeError) as exc:
        where = "/".join(reversed(EXPORT))
        raise TenancyError(
            f"Secret {where}, which keeps the queues over an upgrade, cannot be read: {reason(exc)}. Remove it."
        ) from exc
    return readable(known)[0]
