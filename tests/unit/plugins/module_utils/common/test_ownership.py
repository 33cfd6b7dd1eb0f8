# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import (
    OWNED_LABELS,
    annotations_of,
    is_owned,
    labels_of,
    last_write,
)
from ansible_collections.kubegpu.tenancy.tests.unit.api import written_by

LABEL, TAINTS, LIMIT = ("metadata", "labels", "a/b"), ("spec", "taints"), ("spec", "resources", "gpu", "limit")


@pytest.mark.parametrize(
    "item", [None, {}, {"metadata": None}, {"metadata": {}}, {"metadata": {"labels": None, "annotations": None}}]
)
def test_what_has_no_labels_is_not_owned(item):
    assert (labels_of(item), annotations_of(item), is_owned(item)) == ({}, {}, False)


def test_the_label_of_the_collection_marks_what_is_owned():
    assert is_owned({"metadata": {"labels": OWNED_LABELS | {"app": "x"}}})
    assert not is_owned({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}})
    assert annotations_of({"metadata": {"annotations": {"a": "1"}}}) == {"a": "1"}


NODE = {"metadata": {"name": "n1"}}
EDITED = written_by(
    written_by(NODE, "kubegpu.tenancy", "2026-11-20T10:00:00Z", LABEL, ("metadata", "labels", "c"), LIMIT),
    "kubectl-label",
    "2026-11-24T10:02:00Z",
    LABEL,
    TAINTS,
)


@pytest.mark.parametrize(
    ("item", "paths", "expected"),
    [
        (EDITED, [LABEL], ("2026-11-24T10:02:00Z", "kubectl-label")),
        (EDITED, [("metadata", "labels", "c")], ("2026-11-20T10:00:00Z", "kubegpu.tenancy")),
        # The newest of several, in any order.
        (EDITED, [LIMIT, TAINTS], ("2026-11-24T10:02:00Z", "kubectl-label")),
        # What is below counts, and a list that is written as a whole holds all of it.
        (EDITED, [("spec", "resources")], ("2026-11-20T10:00:00Z", "kubegpu.tenancy")),
        (EDITED, [(*TAINTS, "key")], ("2026-11-24T10:02:00Z", "kubectl-label")),
        # Nothing is noted of what was taken away, and of a write without a time.
        (EDITED, [("metadata", "labels", "gone")], None),
        (EDITED, [], None),
        (written_by(NODE, "old", "", LABEL), [LABEL], None),
        ({"metadata": {"managedFields": [{"manager": "m", "time": "2026-11-24T10:02:00Z"}]}}, [LABEL], None),
        (NODE, [LABEL], None),
        (None, [LABEL], None),
    ],
)
def test_who_wrote_a_field_last_and_when(item, paths, expected):
    assert last_write(item, *paths) == expected
