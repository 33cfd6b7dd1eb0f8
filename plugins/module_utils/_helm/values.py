# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A Helm release as its cluster has it, the objects that it is made of, and what of each is compared."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import re
import typing as t
import zlib

from .._common.documents import DEEPEST, Unreadable, depth, load_manifests, parse_json
from .._common.errors import TenancyError
from .._common.quantity import whole
from .._common.text import shown
from .._common.values import JsonObject, Values, moment, stamp

# Parts of an object that are not compared: who and when, and what controllers say.
_APART = ("apiVersion", "kind", "metadata", "status")
# KAI Scheduler's largest release has 70 objects, vCluster's 20.
_MOST_OBJECTS = 500
_GZIP = 16 + zlib.MAX_WBITS
# Bytes of a record without its packing, which has the whole chart in it: KAI Scheduler's has 1 MB.
_LARGEST_RECORD = 32 * 2**20


@dataclasses.dataclass(frozen=True)
class Release:
    """A revision of a Helm release, as recorded in the cluster.

    :ivar status: deployed, failed, superseded, uninstalled, or one of UNFINISHED in facts.py.
    :ivar values: the values that were given, without the chart's defaults.
    :ivar deployed_at: when that was, in UTC; empty where the record does not say.
    :ivar manifest: what the chart made, in YAML, without hooks.
    """

    name: str
    namespace: str
    status: str
    revision: int
    chart: str
    chart_version: str
    values: Values
    deployed_at: str = ""
    manifest: str = dataclasses.field(default="", repr=False, compare=False)

    @property
    def record(self) -> str:
        """The name of the Secret in which helm records this revision."""
        return f"{_record_prefix(self.name)}{self.revision}"


def _record_prefix(name: str) -> str:
    return f"sh.helm.release.v1.{name}.v"


def last_record(records: t.Sequence[JsonObject], name: str) -> JsonObject | None:
    """Return the Secret of the last revision of a release; None where there is none.

    :arg records: Secrets of the release's namespace.
    """
    prefix, revisions = _record_prefix(name), {}
    for record in records:
        title = record["metadata"]["name"]
        with contextlib.suppress(ValueError):
            revisions[whole(title[len(prefix) :] if title.startswith(prefix) else "")] = record
    return revisions[max(revisions)] if revisions else None


def release_of(record: JsonObject, name: str, namespace: str) -> Release:
    """Return the revision of a release that a record has.

    :arg record: Secret in which helm keeps it: JSON, packed by gzip and written in base64, which the API does once more
        (pkg/storage/driver/util.go of helm/helm, both majors).
    :raises TenancyError: where it cannot be read.
    """
    with _readable(record["metadata"]["name"]):
        packed = base64.b64decode(base64.b64decode((record.get("data") or {})["release"], validate=True), validate=True)
        unpacker = zlib.decompressobj(_GZIP)
        text = unpacker.decompress(packed, _LARGEST_RECORD)
        if unpacker.unconsumed_tail:
            raise Unreadable(f"it has more than {_LARGEST_RECORD} bytes")
        content = parse_json(text, _LARGEST_RECORD)
        # Without values, helm 3 writes null.
        info, chart, values = content["info"], content["chart"]["metadata"], content.get("config") or {}
        if not isinstance(values, dict):
            raise Unreadable("its values are no mapping")
        if depth(values) > DEEPEST:
            raise Unreadable(f"its values are nested more than {DEEPEST} deep")
        status, title, version = (shown(text) for text in (info.get("status"), chart.get("name"), chart.get("version")))
        deployed_at, manifest = _utc(str(info.get("last_deployed"))), str(content["manifest"])
        return Release(name, namespace, status, whole(content["version"]), title, version, values, deployed_at, manifest)


def objects_of(release: Release) -> list[JsonObject]:
    """Return the objects of a release, without hooks.

    :raises TenancyError: where they cannot be read.
    """
    with _readable(release.record):
        items = [_checked(item) for item in _flat(load_manifests(release.manifest))]
        objects = list({(item["apiVersion"], item["kind"], *_place(item, release.namespace)): item for item in items}.values())
        if len(objects) > _MOST_OBJECTS:
            raise Unreadable(f"it has {len(objects)} objects, and {_MOST_OBJECTS} are read at most")
        return objects


@contextlib.contextmanager
def _readable(name: str) -> t.Iterator[None]:
    """Raise TenancyError for what a record does not have: in a virtual cluster, its administrator may have written it."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as exc:
        raise TenancyError(f"Secret {name}, in which helm keeps a release, cannot be read: {shown(exc)}.") from exc


def _utc(time: str) -> str:
    """Return a time as helm writes it, in its own time zone, in UTC; empty for another text."""
    try:
        # With nanoseconds, which Python reads only from 3.11 on.
        return stamp(moment(re.sub(r"\.\d+", "", time)).astimezone(datetime.timezone.utc))
    except (ValueError, OverflowError):
        return ""


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


def _place(item: JsonObject, home: str) -> tuple[str, str]:
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
