# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Objects and lists as an API server answers them: of the form of the API, or an error of that call.

An API server hands on what aggregated API servers answer, and a tenant may run one in its own cluster. So no answer is taken for
an object before its metadata was looked at, and no list has an end that only the server decides on.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.documents import LARGEST, Unreadable, parse_json
from .._common.errors import ApiError, TenancyError
from .._common.quantity import MOST
from .._common.text import shown
from .._common.values import JsonObject

# Objects of one page of a list, as many as kubectl asks for.
PAGE = 500


def _is_text(value: t.Any) -> bool:
    return isinstance(value, str)


def _is_name(value: t.Any) -> bool:
    """Tell whether a value can be the name of an object: a part of a path (IsValidPathSegmentName in k8s.io/apimachinery)."""
    return isinstance(value, str) and value not in ("", ".", "..") and "/" not in value and "%" not in value


def _is_number(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _is_texts(value: t.Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _are_texts(value: t.Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _are_mappings(value: t.Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


# What is read of metadata, and the form that the API gives it (metav1.ObjectMeta).
_FORMS: dict[str, t.Callable[[t.Any], bool]] = {
    "name": _is_name,
    "namespace": _is_text,
    "uid": _is_text,
    "resourceVersion": _is_text,
    "creationTimestamp": _is_text,
    "deletionTimestamp": _is_text,
    "generation": _is_number,
    "labels": _is_texts,
    "annotations": _is_texts,
    "finalizers": _are_texts,
    "ownerReferences": _are_mappings,
    "managedFields": _are_mappings,
}


def parsed(what: str, text: bytes | str, largest: int = LARGEST) -> JsonObject:
    """Return the JSON object that a server answered.

    :arg what: names the call in the error, as in "Reading Pod web".
    :raises TenancyError: with ``status`` None, where it is something else.
    """
    try:
        answer = parse_json(text, largest)
        why = "it is something else"
    except Unreadable as exc:
        answer, why = None, shown(exc, 200)
    if not isinstance(answer, dict):
        raise ApiError(f"{shown(what)} failed: the answer is no JSON object ({why}). Is this the address of an API server?")
    return answer


def checked(what: str, item: t.Any, api_version: str = "", kind: str = "") -> JsonObject:
    """Return an object whose metadata has the form of the API; what is null there is left out.

    :arg api_version: of the kind that was asked for. The object gets it, and ``kind``, regardless of what it says itself.
    :raises TenancyError: with ``status`` None, where it has another form.
    """
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict):
        raise _odd(what, "it holds something without metadata")
    given = {key: value for key, value in metadata.items() if value is not None}
    if wrong := [key for key, fits in _FORMS.items() if (key in given or key == "name") and not fits(given.get(key))]:
        name = f" of {shown(given['name'], 100)}" if _is_name(given.get("name")) else ""
        raise _odd(what, f"metadata.{wrong[0]}{name} is {shown(repr(given.get(wrong[0])), 100)}")
    # The items of a list carry neither of these; everyone who passes objects on wants them.
    known = {"apiVersion": api_version, "kind": kind} if kind else {}
    return {**known, **item, "metadata": given, **known}


def _odd(what: str, why: str) -> TenancyError:
    return ApiError(f"{shown(what)} failed: the answer is not of the form of the API: {why}.")


@dataclasses.dataclass(frozen=True)
class Most:
    """What a list comes to at most, in all its pages.

    :ivar size: bytes; ``page`` those of one page.
    """

    pages: int
    objects: int
    size: int
    page: int


class Pages:
    """A list that is read page by page.

    :arg fetch: returns the body of a page, from its limit and the token that the page before it named; an empty one at first.
    :arg left: returns the seconds until the list has to be complete.
    :arg limit: objects that are asked for at once. A page that is too large is asked for again with fewer.
    """

    def __init__(
        self, what: str, fetch: t.Callable[[int, str], bytes], left: t.Callable[[], float], limit: int, most: Most
    ) -> None:
        self._what = what
        self._fetch = fetch
        self._left = left
        self._limit = limit
        self._most = most
        self._items: list[t.Any] = []
        self._seen: set[str] = set()
        self._size = 0

    def read(self) -> list[t.Any]:
        """Return all items, as they came.

        Where the server has forgotten the state of the first page meanwhile (410), they are read once more from there.

        :raises TenancyError: also where it does not end.
        """
        try:
            self._read_all()
        except ApiError as exc:
            if exc.status != 410:
                raise
            self._items, self._seen, self._size = [], set(), 0
            self._read_all()
        return self._items

    def _read_all(self) -> None:
        more = ""
        while True:
            self._refuse_endless()
            page = self._page(more)
            self._seen.add(more)
            self._items += page["items"]
            more = (page.get("metadata") or {}).get("continue") or ""
            if not more:
                return
            if more in self._seen:
                raise self._unfinished("it names the same page again")

    def _page(self, more: str) -> JsonObject:
        while True:
            try:
                text = self._fetch(self._limit, more)
                break
            except ApiError as exc:
                if not exc.oversized or self._limit == 1:
                    raise
                self._limit = max(1, self._limit // 4)
                self._refuse_endless()
        self._size += len(text)
        page = parsed(self._what, text, self._most.page)
        metadata = page.get("metadata")
        if not isinstance(page.get("items"), list):
            raise _odd(self._what, "it has no list of items")
        if not isinstance(metadata, (dict, type(None))) or not isinstance((metadata or {}).get("continue"), (str, type(None))):
            raise _odd(self._what, "the token of the next page is no text")
        try:
            # It becomes part of an address.
            ((metadata or {}).get("continue") or "").encode()
        except UnicodeEncodeError as exc:
            raise _odd(self._what, "the token of the next page is no text") from exc
        return page

    def _refuse_endless(self) -> None:
        most = self._most
        if self._left() <= 0:
            raise self._unfinished("its time is up")
        if len(self._seen) >= most.pages or len(self._items) > most.objects or self._size > most.size:
            raise self._unfinished(f"at most {most.pages} pages, {most.objects} objects and {most.size} bytes are read")

    def _unfinished(self, why: str) -> TenancyError:
        read = f"{len(self._items)} objects on {len(self._seen)} pages ({self._size} bytes)"
        return ApiError(f"{shown(self._what)} failed: the list was not read to its end: {why}, after {read}.")
