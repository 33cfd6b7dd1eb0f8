# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is read of a Helm release, by the Secrets in which Helm keeps its revisions."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release, last_record, objects_of, release_of
from ansible_collections.kubegpu.tenancy.tests.unit.helm import kept, packed

UPGRADING = Release("t", "apps", "pending-upgrade", 3, "tiny-chart", "1.2.3-rc.1", {"replicas": 1}, "2026-11-22T08:05:14Z")


def recorded(text, name="sh.helm.release.v1.t.v3"):
    """Return the Secret of a revision, by what helm puts into it."""
    return {"metadata": {"name": name, "namespace": "apps"}, "data": {"release": base64.b64encode(text.encode()).decode()}}


def read(**changes):
    """Return the release of a record in which parts are otherwise."""
    return release_of(recorded(packed(kept(UPGRADING) | changes)), "t", "apps")


def test_a_release_is_read_whatever_its_state():
    assert read() == UPGRADING
    assert UPGRADING.record == "sh.helm.release.v1.t.v3"


def test_a_release_without_values_has_empty_ones():
    assert read(config=None).values == {}
    content = kept(UPGRADING)
    del content["config"]
    assert release_of(recorded(packed(content)), "t", "apps").values == {}


def test_the_last_revision_is_the_one_with_the_largest_number():
    names = [f"sh.helm.release.v1.t.v{revision}" for revision in (9, 10, 8)]
    others = [
        "sh.helm.release.v1.t.vx",
        "sh.helm.release.v1.t.v",
        "11",
        "x.sh.helm.release.v1.t.v12",
        "sh.helm.release.v1.tt.v13",
    ]
    records = [recorded("", name) for name in names + others]
    assert last_record(records, "t") == records[1]
    assert last_record(records[3:], "t") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"info": None},
        {"chart": {}},
        {"chart": {"metadata": []}},
        {"version": "1e9"},
        {"version": -1},
        {"version": {}},
        {"config": [1]},
        {"config": "x"},
        {"config": json.loads('{"a": ' * 200 + "1" + "}" * 200)},
    ],
    ids=lambda changes: json.dumps(changes)[:30],
)
def test_a_release_that_a_tenant_wrote_is_an_error_and_no_crash(changes):
    with pytest.raises(TenancyError, match=r"Secret sh\.helm\.release\.v1\.t\.v3, in which helm keeps a release, cannot be read"):
        read(**changes)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[]", "5", "null", "{}", "<html>", '{"config": {"a": Infinity}}', " " * 40 * 2**20]
)
def test_so_is_a_record_of_another_form(text):
    with pytest.raises(TenancyError, match="cannot be read"):
        release_of(recorded(base64.b64encode(gzip.compress(text.encode())).decode()), "t", "apps")


@pytest.mark.parametrize("text", ["", "no base64", base64.b64encode(b"no gzip").decode()])
def test_so_is_one_that_is_not_packed(text):
    with pytest.raises(TenancyError, match="cannot be read"):
        release_of(recorded(text), "t", "apps")
    with pytest.raises(TenancyError, match="cannot be read"):
        release_of({"metadata": {"name": "s"}, "data": None}, "t", "apps")


def test_its_texts_are_shown_as_one_line():
    odd = "\x1b[2J\n" + "a" * 10_000
    release = read(info={"status": odd, "last_deployed": odd}, chart={"metadata": {"name": odd, "version": odd}})
    for shown in (release.status, release.chart, release.chart_version):
        assert shown.isprintable()
        assert len(shown) < 500
    assert release.deployed_at == ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-11-24T11:02:00+01:00", "2026-11-24T10:02:00Z"),
        ("2026-11-24T10:02:00.123456789Z", "2026-11-24T10:02:00Z"),
        ("", ""),
        ("yesterday", ""),
        ("0001-01-01T00:00:00+23:59", ""),
    ],
)
def test_when_a_revision_was_written_is_told_in_utc(written, expected):
    assert read(info={"status": "deployed", "last_deployed": written}).deployed_at == expected


# --- its objects -------------------------------------------------------------------------------------------------


def found(manifest):
    return objects_of(read(manifest=manifest))


def made(name, **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}}


HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"


@pytest.mark.parametrize("text", ["=", "1:30", "2026-11-25", "2026-11-25 00:00:00"])
def test_texts_of_a_manifest_are_those_that_kubernetes_reads(text):
    assert found(f"{HEAD}  8080: {text}") == [made("a") | {"data": {"8080": text}}]


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        ("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]", ["a"]),
        ("apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}, {metadata: {name: b}}]", ["a", "b"]),
        ("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: a}}]}]", ["a"]),
        ("apiVersion: v1\nkind: List\nitems: []", []),
        ("# nothing\n---\n", []),
    ],
)
def test_a_list_is_its_items(manifest, names):
    assert found(manifest) == [made(name) for name in names]


def test_an_object_that_names_its_namespace_and_one_that_does_not_are_the_same():
    first, second, other = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a{more}}}" for more in ("", ", namespace: apps", ", namespace: web")
    )
    assert found("\n---\n".join((first, second, other))) == [made("a", namespace="apps"), made("a", namespace="web")]
