# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The objects that a Helm release is made of, and each as it has to be on the cluster."""

from __future__ import annotations

import base64
import typing as t
import zlib

from .._common.documents import LARGEST, Unreadable, load_documents, parse_json
from .._common.errors import TenancyError
from .._common.text import shown
from .._common.values import Change, JsonObject

# By the first of these keys that all items of two lists have, an item of the one is that of the other: Kubernetes' own merge keys.
_KEYS = ("name", "mountPath", "containerPort", "port", "topologyKey", "ip")
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
    name = record["metadata"]["name"]
    try:
        packed = base64.b64decode(base64.b64decode((record.get("data") or {})["release"], validate=True), validate=True)
        unpacker = zlib.decompressobj(_GZIP)
        text = unpacker.decompress(packed, LARGEST)
        if unpacker.unconsumed_tail:
            raise Unreadable(f"it has more than {LARGEST} bytes")
        items = [_checked(item) for item in load_documents(str(parse_json(text)["manifest"])) if item is not None]
        objects = list({(item["apiVersion"], item["kind"], _place(item)): item for item in items}.values())
        if len(objects) > _MOST_OBJECTS:
            raise Unreadable(f"it has {len(objects)} objects, and {_MOST_OBJECTS} are read at most")
        return objects
    # In a virtual cluster, its administrator may have written it.
    except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as exc:
        raise TenancyError(f"Secret {name}, in which helm keeps a release, cannot be read: {shown(exc)}.") from exc


def _place(item: JsonObject) -> tuple[str, str]:
    return item["metadata"].get("namespace") or "", item["metadata"]["name"]


def _checked(item: t.Any) -> JsonObject:
    """Return an object of a manifest.

    :raises Unreadable: where it has not the form of one.
    """
    metadata = item.get("metadata") or {}
    names = (item.get("apiVersion"), item.get("kind"), metadata.get("name"))
    maps = (metadata.get("labels") or {}, metadata.get("annotations") or {}, item.get("spec") or {})
    right = all(isinstance(name, str) and name for name in names) and isinstance(metadata.get("namespace") or "", str)
    if not right or not all(isinstance(one, dict) for one in maps):
        raise Unreadable("an object in it has no kind, no name, or another form")
    return t.cast("JsonObject", item)


def comparable(item: JsonObject) -> JsonObject:
    """Return what of an object is compared: labels, annotations, and all but its status."""
    metadata = item.get("metadata") or {}
    noted = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return ({"metadata": noted} if noted else {}) | {key: value for key, value in item.items() if key not in _APART}


def as_wanted(wanted: t.Any, live: t.Any) -> t.Any:
    """Return a live value with what the manifest says in place of what stands there.

    What the manifest leaves out stays as it is: defaults, and what others wrote. Items of a list that the manifest does not have go.
    """
    if wanted in (None, {}, []):
        return live
    if isinstance(wanted, dict) and isinstance(live, dict):
        return live | {key: as_wanted(value, live.get(key)) for key, value in wanted.items() if value is not None or key in live}
    if isinstance(wanted, list) and isinstance(live, list) and wanted:
        return _list_as_wanted(wanted, live)
    return wanted


def _list_as_wanted(wanted: list[t.Any], live: list[t.Any]) -> list[t.Any]:
    if not all(isinstance(item, dict) for item in (*wanted, *live)):
        return wanted
    key = _key_of(wanted, live)
    if key is None:
        return [as_wanted(*pair) for pair in zip(wanted, live)] if len(wanted) == len(live) else wanted
    by_key = {item[key]: item for item in live}
    return [as_wanted(item, by_key.get(item[key])) for item in wanted]


def _key_of(one: list[t.Any], other: list[t.Any]) -> str | None:
    """Return the key by which items of two lists are the same; None where they have none."""
    items = [*one, *other]
    if not all(isinstance(item, dict) for item in items):
        return None
    return next((key for key in _KEYS if all(isinstance(item.get(key), (str, int)) for item in items)), None)


def changes_between(before: t.Any, after: t.Any, path: str = "") -> t.Iterator[Change]:
    """Yield each path at which two objects differ, such as ``spec.containers[main].image``, with both values."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from changes_between(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
        return
    key = _key_of(before, after) if isinstance(before, list) and isinstance(after, list) else None
    if key is None:
        yield path, before, after
        return
    old, new = ({item[key]: item for item in items} for items in (before, after))
    for name in {**old, **new}:
        yield from changes_between(old.get(name), new.get(name), f"{path}[{name}]")
