# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The objects that a Helm release is made of, and what of each is compared."""

from __future__ import annotations

import base64
import typing as t
import zlib

from .._common.documents import LARGEST, Unreadable, load_manifests, parse_json
from .._common.errors import TenancyError
from .._common.text import shown
from .._common.values import JsonObject

# Parts of an object that are not compared: who and when, and what controllers say.
_APART = ("apiVersion", "kind", "metadata", "status")
# KAI Scheduler's largest release has 70 objects, vCluster's 20.
_MOST_OBJECTS = 500
_GZIP = 16 + zlib.MAX_WBITS


def objects_of(record: JsonObject) -> list[JsonObject]:
    """Return the objects of a release, without hooks.

    :arg record: Secret in which helm keeps the release: JSON, packed by gzip and written in base64, which the API does once more
        (pkg/storage/driver/util.go of helm/helm, both majors).
    :raises TenancyError: where it cannot be read.
    """
    name, home = record["metadata"]["name"], record["metadata"].get("namespace")
    try:
        packed = base64.b64decode(base64.b64decode((record.get("data") or {})["release"], validate=True), validate=True)
        unpacker = zlib.decompressobj(_GZIP)
        text = unpacker.decompress(packed, LARGEST)
        if unpacker.unconsumed_tail:
            raise Unreadable(f"it has more than {LARGEST} bytes")
        items = [_checked(item) for item in _flat(load_manifests(str(parse_json(text)["manifest"])))]
        objects = list({(item["apiVersion"], item["kind"], *_place(item, home)): item for item in items}.values())
        if len(objects) > _MOST_OBJECTS:
            raise Unreadable(f"it has {len(objects)} objects, and {_MOST_OBJECTS} are read at most")
        return objects
    # In a virtual cluster, its administrator may have written it.
    except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as exc:
        raise TenancyError(f"Secret {name}, in which helm keeps a release, cannot be read: {shown(exc)}.") from exc


def _flat(documents: list[t.Any]) -> t.Iterator[t.Any]:
    """Yield the objects of a manifest. What has items is a list of objects, which may leave out the kind if the list names it."""
    for item in documents:
        items = item.get("items") if isinstance(item, dict) else None
        if isinstance(items, list):
            kind = str(item.get("kind"))
            named = {} if kind == "List" else {"apiVersion": item.get("apiVersion"), "kind": kind.removesuffix("List")}
            yield from _flat([named | one if isinstance(one, dict) else one for one in items])
        elif item is not None:
            yield item


def _place(item: JsonObject, home: str | None) -> tuple[str | None, str]:
    return item["metadata"].get("namespace") or home, item["metadata"]["name"]


def _checked(item: t.Any) -> JsonObject:
    """Return an object of a manifest.

    :raises Unreadable: where it has not the form of one.
    """
    metadata = item.get("metadata") or {}
    names = (item.get("apiVersion"), item.get("kind"), metadata.get("name"))
    maps = (metadata.get("labels") or {}, metadata.get("annotations") or {}, item.get("spec") or {})
    right = all(isinstance(name, str) and name for name in names) and isinstance(metadata.get("namespace"), (str, type(None)))
    if not right or not all(isinstance(one, dict) for one in maps):
        raise Unreadable("an object in it has no kind, no name, or another form")
    return t.cast("JsonObject", item)


def comparable(item: JsonObject) -> JsonObject:
    """Return what of an object is compared: labels, annotations, and all but its status."""
    metadata = item.get("metadata") or {}
    noted = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return ({"metadata": noted} if noted else {}) | {key: value for key, value in item.items() if key not in _APART}
