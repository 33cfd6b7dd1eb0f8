# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the objects that a Helm release is made of, by the Secret in which Helm keeps it."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import objects_of
from ansible_collections.kubegpu.tenancy.tests.unit.helm import packed


def found(manifest):
    release = base64.b64encode(packed({"manifest": manifest}).encode()).decode()
    return objects_of({"metadata": {"name": "s", "namespace": "apps"}, "data": {"release": release}})


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
