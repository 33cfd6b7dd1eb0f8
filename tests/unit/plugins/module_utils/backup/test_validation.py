# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.validation import checked_record
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

RECORD = {
    "format": 1,
    "tenant": "web",
    "at": "2026-11-27T10:00:00+00:00",
    "version": "0.36.1",
    "kubernetes_version": "v1.35.4",
    "size": 10,
    "sha256": "a" * 64,
}
CLAIM = {"name": "models", "labels": {"a": "b"}, "annotations": {}, "spec": {}}


VOLUME = {"driver": "d", "handle": "h", "volume": "v", "claim": CLAIM}
WITH_VOLUME = RECORD | {"run": "a" * 32, "volumes": [VOLUME]}


def test_a_record_of_the_form_is_taken():
    for record in (RECORD, WITH_VOLUME):
        assert checked_record(record, "record") == record


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 2),
        ("tenant", None),
        ("kubernetes_version", 1.35),
        ("at", "yesterday"),
        ("at", "2026-11-27T10:00:00"),
        ("size", "10"),
        ("size", 0),
        ("size", True),
        ("size", 2 * 2**30 + 1),
        ("version", "abc"),
        ("version", ""),
        ("kubernetes_version", "v1"),
        ("kubernetes_version", None),
        ("volumes_left_out", 5),
        ("volumes_left_out", [1]),
        ("volumes", {}),
        ("run", None),
        ("run", "a"),
        ("volumes", [{"driver": "d", "handle": "h"}]),
        ("volumes", [{"driver": "d", "handle": 5, "volume": "v", "claim": CLAIM}]),
        ("volumes", [{"driver": "d", "handle": "h", "volume": "v", "claim": CLAIM | {"name": None}}]),
        ("volumes", [{"driver": "d", "handle": "h", "volume": "v", "claim": CLAIM | {"labels": {"a": 1}}}]),
        ("volumes", [{"driver": "d", "handle": "h", "volume": "v", "claim": CLAIM | {"spec": []}}]),
        ("sha256", "a" * 63),
    ],
)
def test_another_form_is_refused(key, value):
    with refuses("malformed-backup"):
        checked_record(WITH_VOLUME | {key: value}, "record")


@pytest.mark.parametrize("record", [None, [], "text", {}])
def test_what_is_no_record_is_refused_with_all_that_it_lacks(record):
    with refuses(*["malformed-backup"] * 5):
        checked_record(record, "record")
