# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.objects import Most, Pages, checked, parsed
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError

ITEM = {"metadata": {"name": "a", "namespace": "ns", "labels": {"x": "1"}}, "spec": {}}
MOST = Most(pages=5, objects=20, size=10_000, page=5_000)


def refused(call, *args):
    with pytest.raises(TenancyError) as caught:
        call(*args)
    assert caught.value.details["status"] is None
    return caught.value.message


# --- objects ----------------------------------------------------------------------------------------------------------


def test_an_object_of_the_form_of_the_api_comes_as_it_is():
    assert checked("Reading", ITEM) == ITEM
    whole = ITEM["metadata"] | {
        "uid": "u",
        "generation": 3,
        "annotations": {},
        "finalizers": ["a/b"],
        "ownerReferences": [{"uid": "o"}],
        "managedFields": [{"manager": "m"}],
    }
    assert checked("Reading", {"metadata": whole}) == {"metadata": whole}


def test_it_has_the_kind_that_was_asked_for_whatever_it_says():
    found = checked("Reading", ITEM | {"kind": {"a": 1}, "apiVersion": 5}, "v1", "Pod")
    assert found == ITEM | {"kind": "Pod", "apiVersion": "v1"}


def test_what_is_null_in_its_metadata_is_left_out():
    given = {"metadata": {"name": "a", "labels": None, "annotations": None, "creationTimestamp": None, "namespace": None}}
    assert checked("Reading", given) == {"metadata": {"name": "a"}}


@pytest.mark.parametrize("item", [None, 5, "text", [], {}, {"metadata": None}, {"metadata": []}, {"metadata": "a"}])
def test_what_has_no_metadata_is_no_object(item):
    assert refused(checked, "Listing Queue", item) == (
        "Listing Queue failed: the answer is not of the form of the API: it holds something without metadata."
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("name", value) for value in (None, "", 5, ["a"], "a/b", "..", "a%2fb")),
        ("namespace", 5),
        ("uid", {}),
        ("resourceVersion", 7),
        ("creationTimestamp", 2026),
        ("deletionTimestamp", True),
        *(("generation", value) for value in ("1", True, -1, 2**64)),
        *(("labels", value) for value in ([], "a", {"a": 1}, {"a": None})),
        ("annotations", {"a": {"b": "c"}}),
        ("finalizers", [1]),
        ("ownerReferences", ["a"]),
        ("managedFields", {"manager": "kubegpu.tenancy"}),
    ],
)
def test_metadata_of_another_form_is_named(key, value):
    message = refused(checked, "Listing Queue", {"metadata": {"name": "a"} | {key: value}})
    assert message.startswith(f"Listing Queue failed: the answer is not of the form of the API: metadata.{key}")


def test_an_error_is_one_short_line_whatever_is_wrong():
    item = {"metadata": {"name": "\x1b[2J\n" + "n" * 10_000, "labels": "\n" * 10_000 + "l" * 10_000}}
    message = refused(checked, "Listing Queue", item)
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize("text", [b"", b"[]", b"5", b"null", b"<html>", b"[" * 100_000, b'{"a": ' * 100_000, b"{} " * 5, b"\xff"])
def test_what_is_no_json_object_is_an_error(text):
    assert "the answer is no JSON object" in refused(parsed, "GET /api", text)


def test_a_document_has_a_size():
    assert "10 are read at most" in refused(parsed, "GET /api", json.dumps({"a": "b" * 10}), 10)


# --- lists ------------------------------------------------------------------------------------------------------------


class Server:
    """Answers with one page after the other, the last one again and again; notes what it was asked for."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.asked = []
        self.time = 10.0

    def fetch(self, limit, more):
        self.asked.append((limit, more))
        self.time -= 0.25
        page = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        if callable(page):
            page = page(len(self.asked))
        if isinstance(page, TenancyError):
            raise page
        return page if isinstance(page, bytes) else json.dumps(page).encode()

    def read(self, limit=100, most=MOST):
        return Pages("Listing Queue", self.fetch, lambda: self.time, limit, most).read()


def page(*names, more=None):
    return {"items": list(names), "metadata": {"continue": more} if more else {}}


GONE = ApiError("Listing Queue failed: too old", status=410)
OVERSIZED = ApiError("Listing Queue failed: more than is read", status=None, oversized=True)


def test_pages_are_put_together():
    server = Server(page("a", "b", more="1"), page(more="2"), page("c"))
    assert server.read() == ["a", "b", "c"]
    assert server.asked == [(100, ""), (100, "1"), (100, "2")]


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {"continue": None}}, {"metadata": {"continue": ""}}])
def test_a_list_may_end_in_several_ways(metadata):
    assert Server({"items": []} | metadata).read() == []


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"items": None},
        {"items": {}},
        {"items": "abc"},
        {"items": [], "metadata": []},
        {"items": [], "metadata": {"continue": 5}},
        {"items": [], "metadata": {"continue": "\ud800"}},
        {"items": [], "metadata": {"continue": {"a": "b"}}},
    ],
)
def test_what_is_no_list_is_an_error(answer):
    assert "not of the form of the API" in refused(Server(page("a", more="1"), answer).read)


@pytest.mark.parametrize(
    ("pages", "told"),
    [
        ([page("a", more="1")], "it names the same page again, after 2 objects on 2 pages"),
        ([page("a", more="1"), page("a", more="2"), page("a", more="1")], "it names the same page again"),
        ([lambda number: page("a", more=str(number))], "at most 5 pages"),
        ([lambda number: page(*"abcdefg", more=str(number))], "20 objects"),
        ([lambda number: page("a" * 4000, more=str(number))], "10000 bytes"),
    ],
)
def test_a_list_has_an_end(pages, told):
    message = refused(Server(*pages).read)
    assert message.startswith("Listing Queue failed: the list was not read to its end: ")
    assert told in message


def test_a_list_ends_with_its_time():
    server = Server(lambda number: page(more=str(number)))
    assert "its time is up, after 0 objects on 40 pages" in refused(server.read, 100, Most(10_000, 10_000, 2**30, 5_000))


def test_a_page_that_is_too_large_is_asked_for_in_parts():
    server = Server(page("a", more="1"), OVERSIZED, OVERSIZED, page("b", more="2"), page("c"))
    assert server.read() == ["a", "b", "c"]
    assert server.asked == [(100, ""), (100, "1"), (25, "1"), (6, "1"), (6, "2")]


def test_one_object_that_is_too_large_is_an_error():
    server = Server(OVERSIZED)
    assert refused(server.read) == OVERSIZED.message
    assert [limit for limit, _more in server.asked] == [100, 25, 6, 1]


def test_a_list_whose_first_page_is_forgotten_is_read_once_more():
    server = Server(page("a", more="1"), GONE, page("a", "b", more="1"), page("c"))
    assert server.read() == ["a", "b", "c"]
    server = Server(page("a", more="1"), GONE)
    with pytest.raises(TenancyError, match="too old") as caught:
        server.read()
    assert caught.value.details["status"] == 410
    assert len(server.asked) == 3
