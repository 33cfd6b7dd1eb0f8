# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is refused of a cluster's name and of its mirrors."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.validation import check_mirrors, check_name
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses


@pytest.mark.parametrize("name", ["kubegpu", "kubegpu-test", "a", "0", "a.b-c", "a-", "x" * 49])
def test_names_of_clusters(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *((name, "not-a-name") for name in ("", ".", "..", "...", "-a", ".a", "a.", "a..b", "../a", "a/b", "/", "a/..")),
        *((name, "not-a-name") for name in ("Lab", "a_b", "a b", "a\n", "\0", "ä")),
        ("x" * 50, "name-too-long"),
        ("network", "reserved-name"),
    ],
)
def test_names_that_are_no_folder_or_no_node_are_refused(name: str, code: str) -> None:
    with refuses(code):
        check_name(name)


def test_all_reasons_are_named_at_once() -> None:
    with refuses("not-a-name", "name-too-long"):
        check_name("X" * 50)


def test_mirrors_are_of_registries() -> None:
    check_mirrors(["docker.io", "registry.example:5000", "_default"])
    with refuses("not-a-registry", "not-a-registry", "not-a-registry"):
        check_mirrors(["docker.io", "..", "ghcr.io/kubegpu", ""])
